"""How much of their calls threads compute: in the kernel, which copies, looks up names, or unpacks what a compressed file system holds."""

from __future__ import annotations

import numpy as np

from whodisk.reading.views import Case
from whodisk.statistics.stats import Ints, overlap


def computing_in(case: Case, tid: Ints, begin_ns: Ints, end_ns: Ints) -> float | None:
    """Part of the time of these calls in which their threads had a CPU: they neither slept nor waited for one. None where nobody looked at most of these threads."""
    if "waits" not in case.columns or not len(tid):
        return None
    low, high = int(begin_ns.min()), int(end_ns.max())
    rows = case.arrays(
        f"""SELECT tid, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits WHERE state IN ('blocked', 'runnable', 'throttled', 'stopped')
AND tid IN ({", ".join(map(str, np.unique(tid).tolist()))}) AND start_ns < {high} AND start_ns + duration_ns > {low} ORDER BY tid, begin_ns"""
    )
    of, since, until = (rows[name].astype(np.int64) for name in ("tid", "begin_ns", "end_ns"))
    whole = seen = held = 0.0
    for thread in np.unique(tid).tolist():
        mine, its = tid == thread, of == thread
        took = float((end_ns[mine] - begin_ns[mine]).sum())
        whole += took
        if its.any():
            seen += took
            held += float(overlap(begin_ns[mine], end_ns[mine], since[its], until[its]).sum())
    return max(0.0, 1.0 - held / seen) if seen > 0 and 2 * seen > whole else None
