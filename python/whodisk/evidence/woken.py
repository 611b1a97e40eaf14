"""Slow requests that came when their device had had nothing to do for a while: one that sleeps meanwhile takes long to wake.

Links and drives save power when they are idle (ATA standby and link power management, NVMe's autonomous power states, PCIe L1), and take
from some hundred microseconds to seconds to come back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.thresholds import (
    WOKEN_CONTRAST_MIN,
    WOKEN_EPISODES_MIN,
    WOKEN_IDLE_MIN_NS,
    WOKEN_REQUESTS_MAX,
    WOKEN_SLOW_MIN,
)
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Ints, episodes


@dataclass(frozen=True)
class Woken:
    """How many came after a silence of the device, and how many of these were slow."""

    idle_ns: float
    after: int
    slow_after: int
    #: Of those that came sooner, the part that was slow, 0 to 1.
    slow_others: float


def woken(context: Context, device: str, begin_ns: Ints, end_ns: Ints) -> Woken | None:
    """Whether these slow requests of a device came after silences, and others hardly ever did.

    Requests that are slow together count once, as the first of them: it is that one which finds the device asleep. None: it is not so, or
    there are too many requests to look at.
    """
    block = context.surveys.get("block")
    if block is None or sum(s.operations for s in block.select(device)) > WOKEN_REQUESTS_MAX:
        return None
    data = context.case.arrays(
        f"""SELECT start_ns + coalesce(queue_ns, 0) AS begin_ns, start_ns + latency_ns AS end_ns FROM block_ops
WHERE NOT open AND device = {quoted(device)} ORDER BY 1, 2"""
    )
    begun, ended = data["begin_ns"].astype(np.int64), np.maximum.accumulate(data["end_ns"].astype(np.int64))
    # Of the first one it is known how long the recording had run.
    idle = np.concatenate((begun[:1], begun[1:] - ended[:-1]))
    numbers = episodes(begin_ns, end_ns)
    first = np.full(int(numbers.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, numbers, begin_ns)
    # Equal moments: the first of them is the one that ended the silence.
    before = idle[np.clip(np.searchsorted(begun, first), 0, len(idle) - 1)]
    typical_ns = float(np.median(before))
    if typical_ns < WOKEN_IDLE_MIN_NS:
        return None
    limit_ns = max(float(WOKEN_IDLE_MIN_NS), 0.5 * typical_ns)
    after, slow_after = int((idle >= limit_ns).sum()), int((before >= limit_ns).sum())
    others = (len(first) - slow_after) / max(1, len(idle) - after)
    rate = slow_after / max(1, after)
    if slow_after < WOKEN_EPISODES_MIN or rate < WOKEN_SLOW_MIN or rate < WOKEN_CONTRAST_MIN * others:
        return None
    return Woken(typical_ns, after, slow_after, others)
