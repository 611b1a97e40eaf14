"""Calls that slept for what is no storage's: until a call of another thread of their program was done (a lock on a file, or a folder, that the kernel gives to one at a time), or
until every CPU had let go of something.

A server reads from the file that another thread of it writes 8 MiB into. Nobody else is waited for, and no storage: that is what the calls of one program on one file take together.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.evidence.sleeps import HOLDER_COLUMNS, NO_HOLDER, behind_own, held_in_ns, is_in
from whodisk.evidence.thresholds import COVERS_MIN, TURN_PART_MIN
from whodisk.reading.views import Case
from whodisk.statistics.stats import Bools, Floats, Ints, overlap


def behind_own_calls(case: Case, tid: Ints, begin_ns: Ints, end_ns: Ints, lost_ns: Floats) -> Bools:
    """Which of these calls slept for nearly all that they lost until threads of their own process let them go on, which did not sleep themselves meanwhile."""
    found = np.zeros(len(tid), np.bool_)
    if "waker_tid" not in case.columns.get("waits", ()) or not len(tid):
        return found
    rows = case.arrays(
        f"""SELECT tid, coalesce(cause, '') AS cause, start_ns AS begin_ns, start_ns + duration_ns AS end_ns, {HOLDER_COLUMNS} FROM waits
WHERE state = 'blocked' AND waker_pid = pid AND duration_ns >= {int(TURN_PART_MIN * max(0.0, float(lost_ns.min())))} AND tid IN ({", ".join(map(str, np.unique(tid).tolist()))})
  AND start_ns < {int(end_ns.max())} AND start_ns + duration_ns > {int(begin_ns.min())} ORDER BY tid, begin_ns"""
    )
    cause, behind = behind_own(case, rows)
    mine = ~behind & ~is_in(cause, NO_HOLDER)
    of = rows["tid"].astype(np.int64)
    low, high = (rows[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    for thread in np.unique(of[mine]).tolist():
        calls, sleeps = tid == thread, mine & (of == thread)
        slept = overlap(begin_ns[calls], end_ns[calls], low[sleeps], high[sleeps])
        found[calls] = (slept > 0) & (slept >= COVERS_MIN * lost_ns[calls])
    return found


def behind_all_cpus(case: Case, tid: Ints, begin_ns: Ints, end_ns: Ints, lost_ns: Floats) -> Bools:
    """Which of these calls slept for nearly all that they lost until every CPU had let go of something (RCU), or behind who did: no storage is waited for."""
    slept = held_in_ns(case, tid, begin_ns, end_ns, words.AS_WHEN_RCU)
    return np.asarray((slept > 0) & (slept >= COVERS_MIN * lost_ns), np.bool_)
