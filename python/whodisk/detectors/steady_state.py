"""Whether the run was steady: warm-up, drift, a cliff, and idle time inside a mean.

It accuses nobody. Numbers from a run that was not steady are a snapshot, and the verdict says so. The test is
SNIA's (Solid State Storage Performance Test Specification, steady state): over the measured window the range of the
rounds is at most 20 % of their mean, and the fitted line rises or falls by at most 10 % of it.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Detector, Result
from whodisk.detectors.thresholds import (
    STEADY_EXCURSION_MAX,
    STEADY_IDLE_PART,
    STEADY_IDLE_TOLD,
    STEADY_RANGE_MAX,
    STEADY_ROUNDS,
    STEADY_SECONDS_MIN,
)
from whodisk.evidence.context import Context
from whodisk.statistics.stats import Bools, Floats
from whodisk.statistics.steadiness import judge


def seconds_sql(context: Context) -> str:
    """Operations that began per second of the measured window, idle seconds left out."""
    return f"""SELECT CAST(floor((start_ns - {context.survey.begin_ns}) / 1e9) AS BIGINT) AS second,
  sum(weight) AS operations
FROM measured WHERE layer = '{context.layer}' AND start_ns >= {context.survey.begin_ns} GROUP BY 1 ORDER BY 1"""


def run(context: Context) -> Result:
    """Sentences about drift and idle seconds."""
    result = Result()
    seconds = int(context.survey.span_ns / 1e9)
    if seconds < STEADY_SECONDS_MIN:
        return result
    data = context.case.arrays(seconds_sql(context))
    per_second = np.zeros(seconds)
    inside = (data["second"] >= 0) & (data["second"] < seconds)
    per_second[data["second"][inside].astype(np.int64)] = data["operations"][inside].astype(np.float64)
    if not per_second.any():
        # One that began before the first whole second, and took longer than the rest.
        return result
    busy = per_second > STEADY_IDLE_PART * float(np.median(per_second[per_second > 0]))
    _idle(result, per_second, busy)
    found = judge(per_second[busy], STEADY_ROUNDS) if busy.sum() >= STEADY_ROUNDS else None
    if found is None or found.within(STEADY_RANGE_MAX, STEADY_EXCURSION_MAX):
        return result
    fifths = np.array_split(per_second[busy], STEADY_ROUNDS)
    first, last = float(fifths[0].mean()), float(fifths[-1].mean())
    direction = "fell" if found.excursion < 0 else "rose"
    result.observed.append(
        f"Not a steady state: the rate {direction} from {words.rate(first)} to {words.rate(last)} operations per second "
        f"between the first and the last fifth of {seconds} s (range of the fifths {words.percent(found.range)} of their "
        f"mean, fitted drift {words.percent(abs(found.excursion))}; steady is at most 20 % and 10 %)."
    )
    result.caveats.append(
        (
            "that a mean over this run holds for a longer one",
            "the run was not in a steady state (warm-up, drift or a cliff); measure after a ramp, until the fifths of the "
            "window agree",
        )
    )
    return result


def _idle(result: Result, per_second: Floats, busy: Bools) -> None:
    idle = int((~busy).sum())
    if idle < STEADY_IDLE_TOLD * len(per_second):
        return
    with_idle, without = float(per_second.mean()), float(per_second[busy].mean())
    result.observed.append(
        f"{words.things(idle, 'second')} of {len(per_second)} were idle: the mean over all of them is "
        f"{words.rate(with_idle)} operations per second, over the busy ones {words.rate(without)}."
    )


DETECTOR = Detector(
    name="steady_state",
    needs=("judged.start_ns", "judged.latency_ns"),
    needs_stages=(),
    null_model="none: it tests no hypothesis",
    smallest_effect="the fifths of the window differ by 20 % of their mean, or drift by 10 %",
    run=run,
    needs_all=True,
)
