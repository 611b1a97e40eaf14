"""Whether a case holds logs of different times: their moments are of one calendar, and somebody may have put a file beside another by mistake."""

from __future__ import annotations

from whodisk import words
from whodisk.evidence.thresholds import LOGS_APART_MIN_NS
from whodisk.evidence.times_of_day import DAY_NS
from whodisk.reading.views import Case


def logs_apart(case: Case) -> list[str]:
    """A sentence on the longest time without a sample, where it is so long that logs of different times are in the case; else none."""
    if "series" not in case.columns:
        return []
    row = case.rows(
        """WITH moments AS (SELECT DISTINCT time_ns FROM series),
steps AS (SELECT time_ns, time_ns - lag(time_ns) OVER (ORDER BY time_ns) AS step FROM moments)
SELECT max(step) AS longest, arg_max(time_ns, step) AS end_ns FROM steps"""
    )[0]
    longest, end_ns = int(row["longest"] or 0), int(row["end_ns"] or 0)
    if longest < LOGS_APART_MIN_NS:
        return []
    return [
        f"No sample for {words.things(longest / DAY_NS, 'day')}, from {_day(case, end_ns - longest)} to {_day(case, end_ns)}: the case holds logs of different times."
    ]


def _day(case: Case, at_ns: int) -> str:
    """The day of a moment, or its second where the clock is in no calendar: beside a log with dates, that is one without."""
    moment = case.calendar(at_ns)
    return case.moment(at_ns) if moment is None else f"{moment:%Y-%m-%d}"
