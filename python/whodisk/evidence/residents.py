"""Who was there all the time, where a whole machine was recorded: what others do that come and go may be in the way of these.

A recording of one program has others beside it. In one of the whole machine everybody's operations are judged, and nobody is another program.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from whodisk import words
from whodisk.evidence.survey import time_bin_sql
from whodisk.evidence.thresholds import (
    PASSER_BY_MIN,
    RESIDENT_BINS,
    RESIDENT_PRESENT_MIN,
    RESIDENTS_SHARE_MIN,
)
from whodisk.reading.flush_waits import KERNEL
from whodisk.reading.views import Case

#: Programs that are named, at most.
NAMED_MAX = 3


@dataclass(frozen=True)
class Residents:
    """Programs whose operations go on through the whole recording, beside some that were there for a part of it."""

    #: Programs that stayed, and those that came or left, the busiest first.
    stayed: tuple[str, ...]
    passed: tuple[str, ...]
    pids: tuple[int, ...]

    @property
    def unjudged(self) -> str:
        """What is not judged, in words."""
        more = " and others" if len(self.passed) > NAMED_MAX else ""
        return f"what {words.listed([*self.passed[:NAMED_MAX]])}{more} waited for"

    @property
    def because(self) -> str:
        """Why, in words."""
        kept = " and others" if len(self.stayed) > NAMED_MAX else ""
        return (
            "the whole machine was recorded, and they were there for a part of the time; judged are the operations of "
            f"{words.listed([*self.stayed[:NAMED_MAX]])}{kept}"
        )


def residents_of(case: Case) -> Residents | None:
    """The programs that stayed, if the whole machine was recorded, they had enough of the time of all calls, and others that came or left had some of that, or of the time of all requests; else None."""
    if (
        case.meta.get("observer") != "record"
        or case.is_of_a_part
        or "syscall" not in case.layers
        or not case.duration_ns
    ):
        return None
    present: dict[str, set[int]] = defaultdict(set)
    busy: dict[str, float] = defaultdict(float)
    pids: dict[str, set[int]] = defaultdict(set)
    for row in case.rows(_present_sql(case.duration_ns)):
        name = str(row["name"])
        present[name].update(range(int(row["first"] or 0), int(row["last"] or 0) + 1))
        busy[name] += float(row["busy_ns"] or 0)
        pids[name].add(int(row["pid"] or 0))
    by_time = sorted(busy, key=lambda name: (-busy[name], name))
    stayed = [name for name in by_time if len(present[name]) >= RESIDENT_PRESENT_MIN * RESIDENT_BINS]
    whole = sum(busy.values())
    if not stayed or sum(busy[name] for name in stayed) < RESIDENTS_SHARE_MIN * whole:
        return None
    passed = [name for name in by_time if name not in stayed]
    if sum(busy[name] for name in passed) < PASSER_BY_MIN * whole:
        # One call may make thousands of requests: a balance of btrfs is a single ioctl.
        asked = _asked(case)
        asking = sorted(set(asked) - set(stayed), key=lambda name: (-asked[name], name))
        if sum(asked[name] for name in asking) < PASSER_BY_MIN * sum(asked.values()):
            return None
        passed = [*asking, *(name for name in passed if name not in asking)]
    return Residents(
        tuple(stayed), tuple(passed), tuple(sorted({pid for name in stayed for pid in pids[name]}))
    )


def _present_sql(span_ns: int) -> str:
    """Stretches of time bins in which a process had calls under way. A process is called as its threads mostly were."""
    first, last = (
        time_bin_sql(0, span_ns, RESIDENT_BINS, at) for at in ("start_ns", "start_ns + latency_ns")
    )
    return f"""WITH named AS (SELECT pid, mode(comm) AS name FROM measured WHERE layer = 'syscall' AND pid > 0 AND comm IS NOT NULL GROUP BY 1)
SELECT n.name, m.pid, {first} AS first, {last} AS last, sum(m.latency_ns) AS busy_ns
FROM measured AS m JOIN named AS n ON n.pid = m.pid WHERE m.layer = 'syscall' GROUP BY 1, 2, 3, 4"""


def _asked(case: Case) -> dict[str, float]:
    """The time of the requests that each program made itself, ns."""
    if "block" not in case.layers:
        return {}
    rows = case.rows(
        f"""SELECT comm, sum(latency_ns) AS busy_ns FROM measured
WHERE layer = 'block' AND comm IS NOT NULL AND coalesce(flags, 0) & {KERNEL} = 0 GROUP BY 1"""
    )
    return {str(row["comm"]): float(row["busy_ns"] or 0) for row in rows}
