"""CPUs that stood still: a thread was ready to run there, and only the idle task "ran".

Idle, a CPU takes up a thread within microseconds, from its deepest sleep within a millisecond. One that does not is not running at all: its
hypervisor has it elsewhere (and may not count that as steal), or its firmware has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.surroundings import IDLE
from whodisk.evidence.thresholds import EXPLAINED_PART, STILL_MIN_NS, THERE_PART
from whodisk.statistics.stats import Bools, Ints


def waits_sql() -> str:
    """Waits of threads in which a CPU may have stood still; `idle`: the idle task had it for longest of what the recorder keeps of a wait."""
    return f"""SELECT tid, cpu, start_ns, start_ns + duration_ns AS end_ns, state = 'runnable' AND starts_with(cause, '{IDLE}') AS idle
FROM waits WHERE cpu IS NOT NULL AND duration_ns >= {THERE_PART * STILL_MIN_NS} ORDER BY cpu, start_ns, tid"""


@dataclass(frozen=True)
class Standstill:
    """One CPU, and what it cost."""

    cpu: int
    start_ns: int
    end_ns: int
    #: Slow operations that lost most of what they lost in it.
    held: Bools


def standstills(context: Context) -> list[Standstill]:
    """Times in which a CPU stood still and held slow operations up, in order of the CPU and of time."""
    waits = context.case.arrays(waits_sql())
    tid, cpu, start, end = (waits[name].astype(np.int64) for name in ("tid", "cpu", "start_ns", "end_ns"))
    slow = context.slow
    late_ns = slow.latency_ns - slow.typical_ns
    found = []
    for place, since, until in _united(
        waits["idle"].astype(np.bool_) & (end - start >= STILL_MIN_NS), cpu, start, end
    ):
        inside = np.minimum(end, until) - np.maximum(start, since)
        there = np.unique(tid[(cpu == place) & (inside >= THERE_PART * (until - since))])
        lost_ns = np.minimum(slow.end_ns, until) - np.maximum(slow.start_ns, since)
        held = np.isin(slow.tid, there) & (lost_ns > 0) & (lost_ns >= EXPLAINED_PART * late_ns)
        if held.any():
            found.append(Standstill(place, since, until, np.asarray(held, np.bool_)))
    return found


def _united(chosen: Bools, cpu: Ints, start: Ints, end: Ints) -> list[tuple[int, int, int]]:
    """CPU, begin and end of the chosen waits, which are in order of both; those that overlap on a CPU are one."""
    times: list[tuple[int, int, int]] = []
    for place, since, until in zip(
        cpu[chosen].tolist(), start[chosen].tolist(), end[chosen].tolist(), strict=True
    ):
        if times and times[-1][0] == place and since <= times[-1][2]:
            times[-1] = (place, times[-1][1], max(times[-1][2], until))
        else:
            times.append((place, since, until))
    return times
