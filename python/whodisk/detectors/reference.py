"""Blame against a baseline from outside the case: another case, or what a person expects.

Used by `stage_blame`, for faults that leave no operation untouched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, evidence
from whodisk.detectors.layout import score
from whodisk.detectors.thresholds import (
    BEYOND_PART_MAX,
    EXPLAINED_QUANTILE_MIN,
    LAYOUT_SCORE_MIN,
    REFERENCE_RATE_MAX,
    REFERENCE_SCORE_RATIO_MIN,
    REFERENCE_SEGMENTS,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.expectations import Limit
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, Stratum, Survey
from whodisk.evidence.thresholds import LONGEST_MAX
from whodisk.findings import Culprit, Effect, Evidence
from whodisk.reading.views import STAGES, Case
from whodisk.statistics import probability
from whodisk.statistics.stats import SEED, Floats, permutation_p

#: (op, size class, depth class): devices may have other names in another case.
Key = tuple[str, int, int]


@dataclass
class Match:
    """Strata that both cases have, weighted by the operations of the judged case."""

    #: Operations, typical latency here and there (ns), stages here and there.
    weight: Floats
    here_ns: Floats
    there_ns: Floats
    stages_here_ns: Floats
    stages_there_ns: Floats
    keys: list[Key]


def compared(context: Context) -> list[Candidate]:
    """The stage that made this case slower than the one it is compared with."""
    other, other_survey = context.against, context.against_survey
    if other is None or other_survey is None:
        return []
    match = _match(context.survey, other_survey)
    if match is None:
        return []
    there_ns = float(match.weight @ match.there_ns)
    excess_ns = match.weight @ (match.stages_here_ns - match.stages_there_ns)
    total_ns = float(match.weight @ (match.here_ns - match.there_ns))
    if total_ns <= 0 or excess_ns.max() <= 0:
        return []
    stage = int(np.argmax(excess_ns))
    here = _segments(context.case, context.survey, match)
    there = _segments(other, other_survey, match)
    ratio = float(np.exp(here.mean() - there.mean())) if len(here) and len(there) else 1.0
    if ratio <= 1.0:
        # Typical operations take longer, all of them together do not.
        return []
    share_of_latency = total_ns / float(match.weight @ match.here_ns)
    # With more in flight each takes longer, and more is done: that is another load.
    more_is_done = _rate(context.survey) > REFERENCE_RATE_MAX * _rate(other_survey)
    name = context.stage(STAGES[stage])
    share = min(1.0, float(excess_ns[stage]) / total_ns)
    mean = float(match.weight.sum())
    claim = (
        f"Operations take {words.significant(ratio)} times as long as in {other.name} "
        f"({words.duration(float(match.weight @ match.here_ns) / mean)} against "
        f"{words.duration(there_ns / mean)}), and {words.percent(share)} of the difference lies in the {name} stage. "
        f"{words.rate(_rate(context.survey))} per second are done, {words.rate(_rate(other_survey))} there."
    )
    culprit = Culprit("stage", name, _only_device(context.survey))
    refute = "Record both again, alternating and several times: if runs of one kind differ as much among themselves, this is wrong."
    remedy = f"Find out what changed below or around the {name} stage between the two recordings."
    if STAGES[stage] in ("queue", "device") and (scores := _scores(context.case, other)):
        culprit = Culprit("layout", "fragmentation", f"layout score {scores[0]:g}, not {scores[1]:g}")
        claim += (
            f" The array measured its layout at {scores[0]:g} when the run began, at {scores[1]:g} there."
        )
        refute = "Reallocate the volume and repeat: if operations take as long, the layout is innocent."
        remedy = (
            "Reallocate the volume (`reallocate start -f` on ONTAP), on a schedule, and keep more of it free."
        )
    low, high = _ratio_interval(here, there)
    return [
        Candidate(
            culprit=culprit,
            claim=claim,
            baseline=f"the same kind, size class and queue depth class in the case {other.name}",
            effect=Effect("typical latency", ratio, "x baseline", low, high),
            share_of_excess=share,
            share_of_latency=share_of_latency,
            p_value=permutation_p(here, there),
            episodes=REFERENCE_SEGMENTS,
            evidence=[_stage_evidence(context)],
            refute=refute,
            remedy=remedy,
            otherwise=claim,
            explains=none_of(context.slow),
            # A difference with an interval that reaches 1 is none.
            large=share_of_latency >= SHARE_OF_LATENCY_MIN
            and (low is None or low > 1.0)
            and not more_is_done,
            unless="but more is done per second than there: that is another load"
            if more_is_done
            else "but it varies too much over time to accuse anybody",
            basis="estimated",
        )
    ]


def _rate(survey: Survey) -> float:
    return survey.operations / (survey.span_ns / 1e9)


def _scores(here: Case, there: Case) -> tuple[float, float] | None:
    """What the array measured of its layout here and there, if it is to be reallocated here and was in another state there."""
    ours, theirs = score(here), score(there)
    if ours is None or theirs is None or ours < max(LAYOUT_SCORE_MIN, REFERENCE_SCORE_RATIO_MIN * theirs):
        return None
    return ours, theirs


def _match(here: Survey, there: Survey) -> Match | None:
    ours, theirs = _by_key(here), _by_key(there)
    keys = sorted(key for key in ours if key in theirs)
    if not keys:
        return None
    return Match(
        weight=np.array([ours[key][0] for key in keys]),
        here_ns=np.array([ours[key][1] for key in keys]),
        there_ns=np.array([theirs[key][1] for key in keys]),
        stages_here_ns=np.array([ours[key][2] for key in keys]),
        stages_there_ns=np.array([theirs[key][2] for key in keys]),
        keys=keys,
    )


def _by_key(survey: Survey) -> dict[Key, tuple[float, float, Floats]]:
    """Operations, typical latency and stages per key, devices averaged by their operations."""
    groups: dict[Key, list[Stratum]] = {}
    for stratum in survey.strata:
        if stratum.operations >= 100:
            groups.setdefault((stratum.op, stratum.size_class, stratum.depth_class), []).append(stratum)
    result = {}
    for key, strata in groups.items():
        weight = sum(s.weight for s in strata)
        typical = sum(s.weight * s.own_median_ns for s in strata) / weight
        stages = np.sum([s.weight * s.typical_stages for s in strata], axis=0) / weight
        result[key] = (weight, typical, stages)
    return result


def _segments(case: Case, survey: Survey, match: Match) -> Floats:
    """Mean log latency over the baseline's typical, per segment of the run, strata weighted alike."""
    rows = case.arrays(
        f"""SELECT {survey.time_bin_sql(REFERENCE_SEGMENTS)} AS segment, op, {SIZE_CLASS} AS size_class, {DEPTH_CLASS} AS depth_class,
  avg(ln(greatest(latency_ns, 1))) AS log_latency
FROM measured WHERE layer = '{survey.layer}' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""
    )
    index = {key: number for number, key in enumerate(match.keys)}
    sums, weights = np.zeros(REFERENCE_SEGMENTS), np.zeros(REFERENCE_SEGMENTS)
    columns = (rows["segment"], rows["op"], rows["size_class"], rows["depth_class"], rows["log_latency"])
    for segment, op, size_class, depth_class, log_latency in zip(*columns, strict=True):
        number = index.get((str(op), int(size_class), int(depth_class)))
        if number is not None:
            weight = float(match.weight[number])
            sums[int(segment)] += weight * (float(log_latency) - float(np.log(match.there_ns[number])))
            weights[int(segment)] += weight
    filled = weights > 0
    return np.round(sums[filled] / weights[filled], 9)


def _ratio_interval(here: Floats, there: Floats) -> tuple[float | None, float | None]:
    if len(here) < 2 or len(there) < 2:
        return None, None
    generator = np.random.default_rng(SEED)
    first = generator.choice(here, (2000, len(here))).mean(axis=1)
    second = generator.choice(there, (2000, len(there))).mean(axis=1)
    low, high = np.percentile(np.exp(first - second), [2.5, 97.5])
    return float(low), float(high)


def _only_device(survey: Survey) -> str | None:
    devices = {stratum.device for stratum in survey.strata if stratum.device}
    return f"device:{next(iter(devices))}" if len(devices) == 1 else None


def _stage_evidence(context: Context) -> Evidence:
    means = ", ".join(
        f"CAST(avg({s}_ns) AS BIGINT) AS {s}_ns" for s in STAGES if s in context.survey.stages_observed
    )
    return evidence(
        context.case,
        "mean time per stage in this case (run the same query in the other one)",
        f"""SELECT op, count(*) AS operations, CAST(avg(latency_ns) AS BIGINT) AS latency_ns, {means}
FROM measured WHERE layer = '{context.layer}' GROUP BY 1 ORDER BY 1""",
    )


# -- expectations -------------------------------------------------------------------------------


def expected(context: Context) -> list[Candidate]:
    """The stage that holds the latency of operations beyond a broken expectation."""
    candidates = [_beyond(context, limit) for limit in context.broken_limits]
    return [candidate for candidate in candidates if candidate is not None]


def _beyond(context: Context, limit: Limit) -> Candidate | None:
    quantile = limit.quantile
    # A limit of the longest operation is explained by what held each of those beyond it (detector `outliers`).
    if quantile is None or explained_singly(context, limit):
        return None
    where = f" AND op = '{limit.op}'" if limit.op else ""
    stages = [s for s in STAGES if s in context.survey.stages_observed]
    sums = ", ".join(f"sum({stage}_ns) AS {stage}_ns" for stage in stages)
    bound_ns = int(limit.bound)
    ran = evidence(
        context.case,
        f"time per stage, in all, of operations within and beyond {words.duration(bound_ns)}",
        f"""SELECT latency_ns > {bound_ns} AS beyond, count(*) AS operations, sum(latency_ns) AS latency_ns, {sums}
FROM measured WHERE layer = '{context.layer}'{where} GROUP BY 1 ORDER BY 1""",
    )
    rows = {bool(row["beyond"]): row for row in context.case.known(ran.query)}
    beyond = rows.get(True)
    if beyond is None:
        return None
    over = int(beyond["operations"] or 0)
    slow = _explained_already(context, bound_ns, over)
    if slow:
        return None
    per_stage = np.array([float(beyond[f"{stage}_ns"] or 0) for stage in stages])
    total_ns = float(beyond["latency_ns"] or 0)
    stage = int(np.argmax(per_stage))
    operations = sum(s.operations for s in context.survey.select(op=limit.op))
    excess_ns = total_ns - over * float(bound_ns)
    name = context.stage(stages[stage])
    share = float(per_stage[stage]) / max(1.0, total_ns)
    claim = (
        f"{words.things(over, 'operation')} of {words.count(operations)} took longer than the "
        f"{words.duration(bound_ns)} of '{limit.text}', and spent {words.percent(share)} of their time in the {name} stage."
    )
    share_of_latency = excess_ns / max(1.0, context.survey.latency_ns)
    allowed = max(1.0 - quantile, 1e-12)
    p_value = probability.at_least(over, operations, allowed)
    return Candidate(
        culprit=Culprit("stage", name, _only_device(context.survey)),
        claim=claim,
        baseline=f"the expectation '{limit.text}'",
        effect=Effect("operations beyond the expectation", over / max(1, operations), "1"),
        share_of_excess=share,
        share_of_latency=share_of_latency,
        p_value=p_value,
        episodes=over,
        evidence=[ran],
        refute="If the expectation was not met before either, or on another machine of the same kind, it is the "
        "expectation that is wrong.",
        remedy=f"Look at the {name} stage first; compare with a case in which the expectation was met (--against).",
        otherwise=claim,
        explains=none_of(context.slow),
        large=True,
    )


def explained_singly(context: Context, limit: Limit) -> bool:
    """Whether the operations beyond a limit are exceptions, so that each is explained by what held it (detector `outliers`)."""
    if limit.quantile == 1.0:
        return True
    if (limit.quantile or 0.0) < EXPLAINED_QUANTILE_MIN:
        return False
    strata = context.survey.select(op=limit.op)
    values, counts = context.survey.histogram(strata)
    beyond = float(counts[values > limit.bound].sum())
    return beyond <= min(float(LONGEST_MAX), BEYOND_PART_MAX * sum(s.operations for s in strata))


def _explained_already(context: Context, bound_ns: int, over: int) -> bool:
    """Whether most operations beyond the expectation are slow ones that get a cause of their own."""
    slow = context.slow
    known = float((slow.latency_ns > bound_ns).sum()) * slow.thinning
    return known >= 0.5 * over
