"""What RocksDB says of itself: its LOG says when memtables were written out and tables compacted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from whodisk.programs.base import wall_minus_monotonic_ns

EVENT = re.compile(r"EVENT_LOG_v1 (\{.*\})\s*$")
#: Event that begins, event that ends, and what lies between.
WORK = {
    "flush_started": ("flush_finished", "memtable flush"),
    "compaction_started": ("compaction_finished", "compaction"),
}
ENDS = {end: begin for begin, (end, _) in WORK.items()}


def activities(folder: Path) -> list[dict[str, Any]]:
    """Flushes and compactions, in CLOCK_MONOTONIC; empty where the database has no LOG, or its disk does not give it back."""
    try:
        text = (folder / "LOG").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return read(text.splitlines(), wall_minus_monotonic_ns())


def read(lines: list[str], wall_offset_ns: int) -> list[dict[str, Any]]:
    """The same of the lines of a LOG, with times of the wall's clock. What has no end was cut off with the database, and is left out."""
    open_jobs: dict[tuple[str, int], int] = {}
    found = []
    for line in lines:
        match = EVENT.search(line)
        if match is None:
            continue
        try:
            event = json.loads(match[1])
            kind, job, at_ns = event["event"], int(event["job"]), int(event["time_micros"]) * 1000
        except (ValueError, KeyError):
            continue
        if kind in WORK:
            open_jobs[kind, job] = at_ns
        elif kind in ENDS and (begin := open_jobs.pop((ENDS[kind], job), None)) is not None:
            what = WORK[ENDS[kind]][1]
            found.append(
                {"what": what, "start_ns": begin - wall_offset_ns, "duration_ns": max(0, at_ns - begin)}
            )
    return found
