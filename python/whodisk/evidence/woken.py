"""Slow requests that came when their device had had nothing to do for a while: one that sleeps meanwhile takes long to wake.

Links and drives save power when they are idle (ATA standby and link power management, NVMe's autonomous power states, PCIe L1), and take
from some hundred microseconds to seconds to come back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.thresholds import (
    WOKEN_CONTRAST_MIN,
    WOKEN_EPISODES_MIN,
    WOKEN_IDLE_MIN_NS,
    WOKEN_SLOW_MIN,
)
from whodisk.statistics.stats import Ints, episodes


@dataclass(frozen=True)
class Woken:
    """How many came after a silence of the device, and how many of these were slow."""

    idle_ns: float
    after: int
    slow_after: int
    #: Of those that came sooner, the part that was slow, 0 to 1.
    slow_others: float


def woken(begun_ns: Ints, ended_ns: Ints, begin_ns: Ints, end_ns: Ints) -> Woken | None:
    """Whether the slow requests of a device (`begin_ns`, `end_ns`) came after silences, and others hardly ever did.

    `begun_ns`, `ended_ns`: all its requests, in the order of their begin. Requests that are slow together count once, as the first of them: it is
    that one which finds the device asleep.
    """
    ended = np.maximum.accumulate(ended_ns)
    # Of the first one it is known how long the recording had run.
    idle = np.concatenate((begun_ns[:1], begun_ns[1:] - ended[:-1]))
    numbers = episodes(begin_ns, end_ns)
    first = np.full(int(numbers.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, numbers, begin_ns)
    # Equal moments: the first of them is the one that ended the silence.
    before = idle[np.clip(np.searchsorted(begun_ns, first), 0, len(idle) - 1)]
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
