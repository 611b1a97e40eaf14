"""What a log of summaries says of expectations (`whodisk.evidence.expectations`): its percentiles bound those of all operations, its slowest is theirs."""

from __future__ import annotations

import math

from whodisk import words
from whodisk.evidence.expectations import OPS, Limit
from whodisk.evidence.sampled_latencies import NO_LOAD, Kind, Subject, kind_name, subjects_of
from whodisk.findings import Expectation
from whodisk.reading.views import Case
from whodisk.statistics.stats import quantile_needs


def sampled_expectations(case: Case, limits: list[Limit]) -> list[Expectation]:
    """Each expectation, met or not where the log decides it.

    A percentile, or the mean, of several records together lies between the least and the most of theirs, whether these are runs, intervals, jobs or kinds; the slowest
    of all is the most of theirs. Middles of bins, and latencies whose unit the log does not say, decide nothing.
    """
    if not limits or "series" not in case.columns:
        return [_undecided(limit, "the case has no single operations") for limit in limits]
    subjects = [one for one in subjects_of(case) if one.name not in NO_LOAD]
    return [_check(limit, subjects) for limit in limits]


def _undecided(limit: Limit, why: str) -> Expectation:
    return Expectation(limit.text, None, f"'{limit.text}' cannot be judged: {why}.")


def _check(limit: Limit, subjects: list[Subject]) -> Expectation:
    if not limit.is_latency:
        return _undecided(limit, "the case has no single operations")
    chosen = [
        (one, name, kind) for one in subjects for name, kind in one.kinds.items() if _is_of(limit, one, name)
    ]
    if not chosen:
        return _undecided(
            limit,
            f"the case has no single operations, and no latencies of {words.plural_op(limit.op)}"
            if limit.op
            else "the case has no single operations",
        )
    if any(one.doubt for one, *_ in chosen):
        return _undecided(limit, "the log does not say the unit of its latencies")
    if any(one.about for one, *_ in chosen):
        return _undecided(limit, "the log has latencies in bins, and no exact ones")
    needs = quantile_needs(limit.quantile) if limit.quantile is not None and limit.quantile < 1 else 0
    few = min((kind.operations for _, _, kind in chosen if kind.operations), default=math.inf)
    if few < needs:
        return _undecided(
            limit,
            f"{limit.metric} needs {words.count(needs)} operations, and a record has {words.count(few)}",
        )
    bounds = [(_bounds(limit, kind), kind_name(name, one.name)) for one, name, kind in chosen]
    if limit.metric == "max":
        # The slowest of all is not below the slowest of any.
        low, whose = max(((low, whose) for (low, _), whose in bounds), key=lambda pair: pair[0])
        high = max(high for (_, high), _ in bounds)
    else:
        low, _ = min(((low, whose) for (low, _), whose in bounds), key=lambda pair: pair[0])
        high, whose = max(((high, whose) for (_, high), whose in bounds), key=lambda pair: pair[0])
    met = {limit.holds(low), limit.holds(high)}
    if len(met) > 1:
        lacking = [whose for (_, high), whose in bounds if not math.isfinite(high)]
        why = (
            f"the log has no {limit.metric} of {words.some(lacking, 1)}"
            if lacking
            else f"{limit.metric} of its records is {words.duration(low)} to {words.duration(high)}"
        )
        return _undecided(limit, f"the case has no single operations, and {why}")
    [is_met] = met
    if not math.isfinite(high):
        shown = f"{words.duration(low)} or more"
    elif limit.metric == "max" or words.duration(low) == words.duration(high):
        shown = words.duration(high)
    else:
        shown = f"{words.duration(low)} to {words.duration(high)} in its records"
    which = whose if len(chosen) == 1 or limit.metric == "max" else "all operations"
    return Expectation(
        limit.text,
        is_met,
        f"'{limit.text}' {'is met' if is_met else 'is not met'}: {limit.metric} of {which} is {shown}.",
    )


def _is_of(limit: Limit, subject: Subject, name: str) -> bool:
    """Whether a kind is what is asked for; YCSB's kinds are subjects, and what a store does behind its writers (`db_compaction`) is none. Where a log sums up the run, its
    intervals say less."""
    if name == "" and (run := subject.kinds.get("run")) is not None and _bounds(limit, run)[1] < math.inf:
        return False
    if limit.op is None:
        return name in ("", "run", *OPS)
    return name == limit.op or (name in ("", "run") and subject.name.lower() == limit.op)


def _bounds(limit: Limit, kind: Kind) -> tuple[float, float]:
    """Least and most that it may be, by what is printed of one kind."""
    # The slowest takes as long as anything that is known, a mean included.
    known = [value for of, value in kind.of.items() if of != "stddev"]
    if limit.metric == "max":
        return max(value.most_ns for value in known), kind.of["max"].most_ns if "max" in kind.of else math.inf
    value = kind.of.get("mean" if limit.metric == "mean" else limit.metric.removeprefix("p"))
    return (value.least_ns, value.most_ns) if value is not None else (0.0, math.inf)
