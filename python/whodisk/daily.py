"""Members of a group that are slower than their peers at the same time of every day.

What happens each day for an hour or a few (a scrub, a patrol read, heat) raises a member's mean little, and its slow
third lies no further above the rest than chance puts that of a restless member. Compared within each day, what
a member does from day to day cancels, and so does what all members do at that time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from whodisk.stats import Bools, Floats, Ints

DAY_NS = 86_400_000_000_000
#: Times of the day, counted from the begin of the recording.
HOURS = 24
HOUR_NS = DAY_NS // HOURS
#: Hours that belong together ...
WIDTHS = (1, 2, 4, 8)
#: ... on so many days at least, ...
DAYS_MIN = 7
#: ... and the member is slower than at other times of the same day on such a part of them.
DAYS_SLOW_MIN = 0.75


@dataclass(frozen=True)
class TimesOfDay:
    """What members do at one time of the day, against their other times."""

    begin_hour: int
    hours: int
    #: Per member: mean over days of the log ratio to the peers at that time less that at other times of the same day (NaN: on
    #: too few days), its standard error, and whether it was slower on most days.
    rise: Floats
    error: Floats
    mostly: Bools
    #: Mean log ratio to the peers at that time.
    level: Floats


def times_of_day(ratios: Floats, begin_ns: Ints) -> list[TimesOfDay]:
    """Every time of the day in `ratios` (log ratios to the peers, blocks by members); none if there are too few days."""
    days, day = np.unique(begin_ns // DAY_NS, return_inverse=True)
    hours, hour = np.unique(begin_ns // HOUR_NS % HOURS, return_inverse=True)
    if len(days) < DAYS_MIN or len(hours) < 2:
        return []
    known = np.isfinite(ratios)
    total = np.zeros((len(days), len(hours), ratios.shape[1]))
    count = np.zeros_like(total)
    np.add.at(total, (day, hour), np.where(known, ratios, 0.0))
    np.add.at(count, (day, hour), known)
    # An hour of which a few minutes were seen says less about it than about the recording's edge.
    seen = count.sum(axis=(0, 2)) >= 0.5 * count.sum(axis=(0, 2)).max()
    found = []
    for width in WIDTHS:
        for first in range(HOURS - width + 1):
            inside = (hours >= first) & (hours < first + width)
            if (inside & seen).sum() == width <= seen.sum() // 2:
                found.append(_time_of_day(first, width, total, count, inside))
    return found


def _time_of_day(first: int, width: int, total: Floats, count: Floats, inside: Bools) -> TimesOfDay:
    def means(chosen: Bools) -> Floats:
        n = count[:, chosen].sum(axis=1)
        return np.where(n > 0, total[:, chosen].sum(axis=1) / np.maximum(n, 1), np.nan)

    at_that_time = means(inside)
    rises = at_that_time - means(~inside)
    days = np.isfinite(rises).sum(axis=0)
    rise = np.nanmean(rises, axis=0)
    rise[days < DAYS_MIN] = np.nan
    return TimesOfDay(
        begin_hour=first,
        hours=width,
        rise=rise,
        error=np.nanstd(rises, axis=0, ddof=1) / np.sqrt(np.maximum(days, 1)),
        mostly=(rises > 0).sum(axis=0) >= DAYS_SLOW_MIN * days,
        level=np.nanmean(at_that_time, axis=0),
    )
