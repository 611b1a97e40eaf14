"""Members of a group that are slower than their peers at the same time of every day.

What happens each day for an hour or a few (a scrub, a patrol read, heat) raises a member's mean little, and its slow
third lies no further above the rest than chance puts that of a restless member. Compared within each day, what
a member does from day to day cancels, and so does what all members do at that time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.thresholds import DAILY_WIDTHS, DAYS_MIN, DAYS_SLOW_MIN, PART_OF_DAY_NS
from whodisk.statistics.stats import Bools, Floats, Ints

DAY_NS = 86_400_000_000_000


@dataclass(frozen=True)
class TimeOfDay:
    """What members do at one time of the day, against their other times."""

    #: Since the begin of a day, and the length of the parts that days are divided into.
    begin_ns: int
    end_ns: int
    part_ns: int
    #: Per member: mean over days of the log ratio to the peers at that time less that at other times of the same day (NaN: on
    #: too few days), its standard error, and whether it was slower on most days.
    rise: Floats
    error: Floats
    mostly: Bools
    #: Mean log ratio to the peers at that time.
    level: Floats


@dataclass(frozen=True)
class Daily:
    """One member that is slow at a time of the day: from when to when, and its mean log ratios to the peers then and otherwise."""

    begin_ns: int
    end_ns: int
    part_ns: int
    then: float
    otherwise: float


def times_of_day(ratios: Floats, begin_ns: Ints) -> list[TimeOfDay]:
    """Every time of the day in `ratios` (log ratios to the peers, blocks by members); none if there are too few days."""
    if len(begin_ns) < 2:
        return []
    parts_of_day = DAY_NS // max(PART_OF_DAY_NS, int(np.diff(begin_ns).min()))
    if parts_of_day < 2:
        return []
    part_ns = DAY_NS // parts_of_day
    days, day = np.unique(begin_ns // DAY_NS, return_inverse=True)
    parts, part = np.unique(begin_ns // part_ns % parts_of_day, return_inverse=True)
    if len(days) < DAYS_MIN or len(parts) < 2:
        return []
    known = np.isfinite(ratios)
    total = np.zeros((len(days), len(parts), ratios.shape[1]))
    count = np.zeros_like(total)
    np.add.at(total, (day, part), np.where(known, ratios, 0.0))
    np.add.at(count, (day, part), known)
    # A part of which a few minutes were seen says less about it than about the recording's edge.
    seen = count.sum(axis=(0, 2)) >= 0.5 * count.sum(axis=(0, 2)).max()
    found = []
    for width in DAILY_WIDTHS:
        for first in range(parts_of_day - width + 1):
            inside = (parts >= first) & (parts < first + width)
            if (inside & seen).sum() == width <= seen.sum() // 2:
                found.append(_time_of_day((first, width, part_ns), total, count, inside))
    return found


def _time_of_day(when: tuple[int, int, int], total: Floats, count: Floats, inside: Bools) -> TimeOfDay:
    def means(chosen: Bools) -> Floats:
        n = count[:, chosen].sum(axis=1)
        return np.where(n > 0, total[:, chosen].sum(axis=1) / np.maximum(n, 1), np.nan)

    at_that_time = means(inside)
    rises = at_that_time - means(~inside)
    days = np.isfinite(rises).sum(axis=0)
    first, width, part_ns = when
    return TimeOfDay(
        begin_ns=first * part_ns,
        end_ns=(first + width) * part_ns,
        part_ns=part_ns,
        rise=np.where(days < DAYS_MIN, np.nan, np.nanmean(rises, axis=0)),
        error=np.nanstd(rises, axis=0, ddof=1) / np.sqrt(np.maximum(days, 1)),
        mostly=(rises > 0).sum(axis=0) >= DAYS_SLOW_MIN * days,
        level=np.nanmean(at_that_time, axis=0),
    )
