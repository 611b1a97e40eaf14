"""What threads slept in while operations were slow above the block layer, and what devices did meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.sleeps import of_threads
from whodisk.evidence.thresholds import ASLEEP_OPERATIONS_MAX, ASLEEP_REQUESTS_MAX
from whodisk.statistics.stats import Bools, Ints, overlap


@dataclass(frozen=True)
class Sleep:
    """Where slow operations' threads slept most."""

    #: Kernel function, or what a thread waited for: `page under writeback`.
    cause: str
    #: Part of the slow operations' time; and of their number, those that slept so for half of theirs.
    share: float
    number: float


@dataclass(frozen=True)
class Busy:
    """The device that had most in flight meanwhile."""

    device: str
    #: Requests in flight on average, and how long each took, ns.
    in_flight: float
    mean_ns: float


def sample(context: Context, chosen: Bools) -> tuple[Ints, Ints, Ints]:
    """Thread, begin and end of some of the slow operations, ns."""
    slow = context.slow
    at = np.flatnonzero(chosen)
    at = at[:: -(-len(at) // ASLEEP_OPERATIONS_MAX)]
    return slow.tid[at], slow.start_ns[at], slow.end_ns[at]


def slept_in(context: Context, chosen: Bools) -> Sleep | None:
    """What threads, or whom they waited for in their program, slept in most during these slow operations; None where that was not recorded, or they did not."""
    if not chosen.any():
        return None
    tid, begin, end = sample(context, chosen)
    slept: dict[str, float] = {}
    mostly: dict[str, int] = {}
    for mine, sleeps in of_threads(context.case, tid, begin, end, held=True):
        for cause in np.unique(sleeps.cause).tolist():
            its = sleeps.cause == cause
            held = overlap(begin[mine], end[mine], sleeps.begin_ns[its], sleeps.end_ns[its])
            slept[cause] = slept.get(cause, 0.0) + float(held.sum())
            mostly[cause] = mostly.get(cause, 0) + int((2 * held >= (end - begin)[mine]).sum())
    if not slept:
        return None
    most = max(sorted(slept), key=lambda cause: slept[cause])
    return Sleep(most, slept[most] / float((end - begin).sum()), mostly[most] / len(tid))


def busy_meanwhile(context: Context, chosen: Bools) -> Busy | None:
    """The device that had most in flight during these slow operations; None if requests were not recorded, or are too many."""
    block = context.surveys.get("block")
    if block is None or not chosen.any() or block.operations > ASLEEP_REQUESTS_MAX:
        return None
    _, begin, end = sample(context, chosen)
    order = np.argsort(begin)
    lows = begin[order]
    highs = np.maximum.accumulate(end[order])
    data = context.case.arrays(
        "SELECT device, start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM block_ops WHERE NOT open AND device IS NOT NULL"
    )
    first, last = data["begin_ns"].astype(np.float64), data["end_ns"].astype(np.float64)
    whole = float(overlap(np.array([lows[0]]), np.array([highs[-1]]), lows, highs)[0])
    inside = overlap(first, last, lows, highs)
    best: Busy | None = None
    for device in np.unique(data["device"].astype(str)):
        its = (data["device"].astype(str) == device) & (inside > 0)
        in_flight = float(inside[its].sum()) / max(1.0, whole)
        if its.any() and (best is None or in_flight > best.in_flight):
            best = Busy(str(device), in_flight, float((last[its] - first[its]).mean()))
    return best
