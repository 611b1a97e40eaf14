"""Calls that slept until the file system had made room for what they were about to write."""

from __future__ import annotations

import numpy as np

from whodisk.evidence.thresholds import ROOM_ASLEEP_MIN
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Bools, Ints, overlap

#: Where btrfs lets a thread wait until it has made room for what it is about to write (fs/btrfs/space-info.c; which of them shows depends on what
#: the compiler put together). A worker writes older data out for that, and between its rounds sleeps by timers of its own.
FOR_ROOM = ("__reserve_bytes", "handle_reserve_ticket", "wait_reserve_ticket")


def waits_for_room(case: Case, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Bools:
    """In which of these times its thread mostly slept until the file system had made room; none where that was not recorded."""
    slept = np.zeros(len(tid))
    if "waits" not in case.columns or not len(tid):
        return slept > 0
    data = case.arrays(
        f"""SELECT tid, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE state = 'blocked' AND cause IN ({", ".join(map(quoted, FOR_ROOM))}) AND tid IN ({", ".join(map(str, np.unique(tid).tolist()))})
  AND start_ns < {int(end_ns.max())} AND start_ns + duration_ns > {int(begin_ns.min())} ORDER BY start_ns"""
    )
    for thread in np.unique(data["tid"]):
        mine, its = tid == thread, data["tid"] == thread
        low, high = (data[name][its].astype(np.int64) for name in ("begin_ns", "end_ns"))
        slept[mine] = overlap(begin_ns[mine], end_ns[mine], low, high)
    return np.asarray((slept > 0) & (slept >= ROOM_ASLEEP_MIN * (end_ns - begin_ns)), np.bool_)
