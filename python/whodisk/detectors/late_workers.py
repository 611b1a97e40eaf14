"""What waited at a loop device while the kernel's worker that serves it had no CPU: no device is slow then.

A worker that waits for a few milliseconds at a time waits no longer than another thread's turn; a request of many such turns is late all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.detectors.thresholds import CROWD_WAIT_NS, SERVED_BELOW_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.own_threads import own_sql
from whodisk.evidence.slowest import BELOW
from whodisk.machine.below_loop import workers_of
from whodisk.reading.views import STAGES
from whodisk.statistics.stats import Bools, overlap


@dataclass(frozen=True)
class LateWorkers:
    """Slow operations that lost most of their time at a loop device in such waits, and who had the CPU for most of these."""

    device: str
    held: Bools
    who: str
    #: Whether that was a thread of the judged program.
    own: bool


def late_workers(context: Context) -> list[LateWorkers]:
    """Those of each loop device; none where the workers' waits were not recorded."""
    slow, found = context.slow, list[LateWorkers]()
    if "waits" not in context.case.columns or not len(slow):
        return found
    waited = ~context.explained & np.isin(slow.blamed, [STAGES.index(stage) for stage in BELOW])
    for device in sorted(set(slow.device[waited].astype(str).tolist()) - {""}):
        workers = workers_of(context, device)
        if not workers:
            continue
        data = context.case.arrays(
            f"""SELECT coalesce(cause, 'nobody that was seen') AS cause, start_ns, start_ns + duration_ns AS end_ns,
  {own_sql(context.case, context.layer)} AS own FROM waits
WHERE state = 'runnable' AND duration_ns >= {CROWD_WAIT_NS} AND tid IN ({", ".join(map(str, workers))}) ORDER BY 2, 3, 1"""
        )
        begin, end = data["start_ns"].astype(np.int64), data["end_ns"].astype(np.int64)
        late_ns = overlap(slow.start_ns, slow.end_ns, begin, end)
        lost_ns = slow.latency_ns - slow.typical_ns
        mostly = (late_ns > 0) & (late_ns >= SERVED_BELOW_MIN * lost_ns)
        held = np.asarray(waited & (slow.device == device) & mostly, np.bool_)
        if held.any():
            cause, own = data["cause"].astype(str), data["own"].astype(np.bool_)
            its = {
                of: float(overlap(slow.start_ns[held], slow.end_ns[held], begin[mine], end[mine]).sum())
                for of in sorted({*zip(cause.tolist(), own.tolist(), strict=True)})
                if (mine := (cause == of[0]) & (own == of[1])).any()
            }
            found.append(LateWorkers(device, held, *max(its, key=lambda of: its[of])))
    return found
