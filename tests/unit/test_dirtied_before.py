"""What flushers wrote that nobody had made dirty while the case was recorded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.synth import write_case
from whodisk.evidence.dirtied_before import dirtied_before
from whodisk.reading.views import Case

MIB = 1 << 20
SPAN_NS = 10_000_000_000


@pytest.mark.parametrize(
    ("written", "dirtied", "before"),
    [
        # A copy that was made before, and a database that writes a little.
        (1500, 20, 1410),
        # What it wrote half a minute ago is written out now.
        (300, 100, 0),
        (40, 0, 0),
        (0, 0, 0),
    ],
)
def test_what_was_dirty_before(written: int, dirtied: int, before: int, tmp_path: Path) -> None:
    """`written` and `dirtied` in MiB."""
    events = [
        ("writeback", "sda", f"duration_ns 5 bytes {written * MIB} cause sync by kworker/u8:4 (pid 5)"),
        ("writeback", "sdb", f"duration_ns 5 bytes {900 * MIB} cause sync by kworker/u8:4 (pid 5)"),
        ("writeback", "sda", "duration_ns 5 cause periodic by kworker/u8:4 (pid 5)"),
        ("dirtied", "/srv/heap", f"duration_ns 5 bytes {dirtied * MIB} by db (pid 70)"),
    ]
    rows = [
        {"time_ns": 1, "kind": kind, "subject": subject, "detail": detail} for kind, subject, detail in events
    ]
    with Case(write_case(tmp_path / "case", events=rows, meta={"duration_ns": SPAN_NS})) as case:
        context: Any = SimpleNamespace(case=case, survey=SimpleNamespace(span_ns=SPAN_NS))
        assert dirtied_before(context, "sda") == before * MIB
