"""From a sealed case to a verdict."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whodisk import clearing, words
from whodisk.causes import merge
from whodisk.caveats import caveats_of, unseen
from whodisk.detectors import DETECTORS
from whodisk.detectors.base import Q_VALUE_MAX, SHARE_OF_LATENCY_FLOOR, Candidate, Context, Result
from whodisk.expect import Limit, check, parse
from whodisk.findings import Caveat, Cleared, Expectation, Finding, Verdict
from whodisk.slow import empty_slow_set, find_slow
from whodisk.stats import Bools, benjamini_hochberg
from whodisk.survey import Survey, survey_layer
from whodisk.views import STAGES, Case

#: With fewer operations there is no verdict.
OPERATIONS_MIN = 100
#: Effects below this part of all latency are not even mentioned.
OBSERVED_MIN = 0.001
#: Operations are counted from their submit on if they waited this part of their time for a free slot, ...
BACKLOG_SHARE_MIN = 0.5
#: ... while this part of all slots was taken.
BACKLOG_FULL_MIN = 0.5


def solve(case: Path, *, expect: list[str] | None = None, against: Path | None = None) -> Verdict:
    """Runs every detector over a sealed case.

    `expect` are expectations (`whodisk.expect`), `against` another sealed case to compare with. Raises
    WhodiskError (ExpectationError, CaseError; NotSealedError if the case has to be sealed first).
    """
    limits = [parse(text) for text in expect or []]
    with Case(case) as opened:
        if against is None:
            return _solve(opened, limits, None)
        with Case(against) as other:
            return _solve(opened, limits, other)


@dataclass
class Judged:
    """What all detectors together gave."""

    findings: list[Finding]
    observed: list[str]
    cleared: list[Cleared]
    caveats: list[Caveat]
    limit: str | None
    limited: bool
    #: Slow operations that findings explain.
    explained: Bools


def _solve(case: Case, limits: list[Limit], against: Case | None) -> Verdict:
    surveys = {layer: survey_layer(case, layer) for layer in case.layers}
    surveys = {layer: survey for layer, survey in surveys.items() if survey.operations}
    layer = _judged_layer(surveys)
    operations = surveys[layer].operations if layer else 0
    if layer is None or operations < OPERATIONS_MIN:
        if case.rows("SELECT count(*) AS n FROM (SELECT 1 AS one FROM series LIMIT 1)")[0]["n"]:
            return _solve_series(case, limits)
        return _insufficient(case, surveys, operations, limits)
    expectations = [check(limit, surveys[layer]) for limit in limits]
    backlog = _backlog(case, surveys[layer])
    if backlog:
        case.count_from_submit()
        surveys[layer] = survey_layer(case, layer)
    context = _context(case, surveys, layer, against)
    context.broken_limits = _broken(limits, expectations)
    judged = _judge(context)
    status = _status(judged, expectations)
    slow_ns = clearing.median_excess_ns(context, judged.explained) if judged.findings else None
    errors = _errors(context)
    verdict = Verdict(
        case=case.path.resolve().name,
        status=status,
        summary=[],
        where_time_goes=_where_time_goes(context),
        operations=operations,
        limit=judged.limit,
        findings=judged.findings,
        observed=errors + backlog + judged.observed,
        cleared=judged.cleared + clearing.clear(context, judged.findings, slow_ns),
        cannot_exclude=judged.caveats + caveats_of(context, bool(limits or against)),
        expectations=expectations,
        next_steps=_next_steps(judged),
        simulated=bool(case.meta.get("simulated")),
    )
    verdict.summary.extend(_summary(verdict, context, errors))
    return verdict


def _solve_series(case: Case, limits: list[Limit]) -> Verdict:
    """The verdict where only sampled counters are known: whatever detectors can say without operations."""
    nothing = Survey("app", [], 0, max(1, case.duration_ns or 1), frozenset())
    slow = empty_slow_set()
    context = Context(case, {}, "app", slow, np.zeros(0, np.bool_))
    context.surveys["app"] = nothing
    judged = _judge(context)
    texts = [f"'{limit.text}' cannot be judged: the case has no single operations." for limit in limits]
    compared = any("were compared" in line for line in judged.observed)
    verdict = Verdict(
        case=case.path.resolve().name,
        status="slow" if judged.findings else "healthy" if compared else "insufficient",
        summary=[],
        where_time_goes={},
        operations=0,
        findings=judged.findings,
        observed=[line for line in judged.observed if " declined: " not in line],
        cannot_exclude=judged.caveats + unseen(case),
        expectations=[Expectation(limit.text, None, text) for limit, text in zip(limits, texts, strict=True)],
        next_steps=_next_steps(judged)[:3]
        or ["Record the operations of one host: sampled counters hide outliers."],
        simulated=bool(case.meta.get("simulated")),
    )
    verdict.summary.append("No verdict." if verdict.status == "insufficient" else _headline(verdict))
    verdict.summary.extend(finding.claim for finding in judged.findings[:3])
    if len(judged.findings) > 3:
        verdict.summary.append(f"{len(judged.findings) - 3} more findings follow.")
    verdict.summary.extend([line for line in verdict.observed if "were compared" in line][:1] + texts)
    if verdict.cannot_exclude:
        first = verdict.cannot_exclude[0]
        verdict.summary.append(f"Not excluded: {first.what} ({first.because}).")
    return verdict


def _judged_layer(surveys: dict[str, Survey]) -> str | None:
    """`app` where its stages tell something, else the block layer, else whatever there is."""
    app, block = surveys.get("app"), surveys.get("block")
    if app is not None and block is not None:
        unknown = sum(float(s.stage_ns[STAGES.index("unknown")]) for s in app.strata)
        joined = unknown <= 0.5 * app.latency_ns and app.stages_observed
        return "app" if joined else "block"
    return next(iter(surveys), None)


def _context(case: Case, surveys: dict[str, Survey], layer: str, against: Case | None) -> Context:
    survey = surveys[layer]
    slow = find_slow(case, survey) if survey.stages_observed else empty_slow_set()
    explained = np.zeros(len(slow), np.bool_)
    context = Context(case, surveys, layer, slow, explained, against=against)
    if against is not None and layer in against.layers:
        context.against_survey = survey_layer(against, layer)
    return context


def _backlog(case: Case, survey: Survey) -> list[str]:
    """A sentence if operations mostly waited for free slots because the ones before them took so long; else nothing.

    Such a wait is a consequence: what filled the slots is what is asked for. Where the rate is kept, it passes: there it counts as what
    its cause cost (`whodisk.backlog`).
    """
    if survey.layer != "app" or "app" not in survey.stages_observed or survey.keeps(case.offered_per_s):
        return []
    waited = sum(float(s.stage_ns[STAGES.index("app")]) for s in survey.strata)
    if waited < BACKLOG_SHARE_MIN * survey.latency_ns:
        return []
    row = case.rows(
        """SELECT count(DISTINCT tid) AS threads, max(queue_depth) AS deepest, sum(latency_ns - app_ns) AS inside_ns,
  min(start_ns + app_ns) AS begin_ns, max(start_ns + latency_ns) AS end_ns
FROM measured WHERE layer = 'app' AND app_ns IS NOT NULL"""
    )[0]
    threads, deepest, inside, begin, end = (float(value or 0) for value in row.values())
    if end <= begin or inside < BACKLOG_FULL_MIN * threads * deepest * (end - begin):
        return []
    return [
        f"The workload asks for more than it gets: {words.percent(waited / survey.latency_ns)} of the time of operations, "
        "counted from when they were due, is waiting for the ones before them. So they are counted from their submit on here."
    ]


def _broken(limits: list[Limit], expectations: list[Expectation]) -> list[Limit]:
    pairs = zip(limits, expectations, strict=True)
    return [limit for limit, done in pairs if done.met is False and limit.is_latency]


# -- detectors --------------------------------------------------------------------------------


def _judge(context: Context) -> Judged:
    """Runs the registry and corrects all tests together."""
    results: list[tuple[str, Result]] = []
    observed: list[str] = []
    for detector in DETECTORS:
        declined = detector.missing(context)
        if declined:
            observed.append(declined + ".")
            continue
        result = detector.run(context)
        results.append((detector.name, result))
        for candidate in result.candidates:
            if candidate.large and candidate.p_value < Q_VALUE_MAX:
                context.explained |= candidate.explains
    candidates = [(name, c) for name, result in results for c in result.candidates]
    q_values = benjamini_hochberg([candidate.p_value for _, candidate in candidates])
    accepted: list[tuple[Candidate, Finding]] = []
    explained = np.zeros(len(context.slow), np.bool_)
    likely = [c for (_, c), q_value in zip(candidates, q_values, strict=True) if q_value < Q_VALUE_MAX]
    accused = {(c.culprit.kind, c.culprit.name) for c in likely if c.large}
    for (name, candidate), q_value in zip(candidates, q_values, strict=True):
        # The seen cause of something that is accused is told with it, and so first, even if it is too small by itself; but not a trifle.
        reason = candidate.share_of_latency >= SHARE_OF_LATENCY_FLOOR and not accused.isdisjoint(
            candidate.causes
        )
        large = candidate.large or reason
        if large and q_value < Q_VALUE_MAX:
            accepted.append((candidate, _finding(name, candidate, q_value)))
            explained |= candidate.explains
        elif candidate.share_of_latency >= OBSERVED_MIN:
            observed.append(_observed(candidate, q_value))
    findings = merge(accepted, context.keeps_rate)
    for _, result in results:
        observed += result.observed
    limit = next((result.limit for _, result in results if result.limit), None)
    return Judged(
        findings=findings,
        observed=observed,
        cleared=[item for _, result in results for item in result.cleared],
        caveats=[Caveat(what, because) for _, result in results for what, because in result.caveats],
        limit=limit,
        limited=any(result.limited for _, result in results),
        explained=explained,
    )


def _observed(candidate: Candidate, q_value: float) -> str:
    """The line of something that does not become a finding, with the reason why not."""
    cost = f"{words.percent(candidate.share_of_latency)} of all latency"
    if not candidate.large:
        return f"{candidate.otherwise} That is {cost}, less than a finding needs."
    happened = words.things(candidate.episodes, "episode")
    return f"{candidate.otherwise} That is {cost}, but {happened} may be chance (q = {q_value:.2g})."


def _finding(detector: str, candidate: Candidate, q_value: float) -> Finding:
    return Finding(
        detector=detector,
        culprit=candidate.culprit,
        claim=candidate.claim,
        baseline=candidate.baseline,
        effect=candidate.effect,
        share_of_excess=candidate.share_of_excess,
        q_value=q_value,
        episodes=candidate.episodes,
        evidence=candidate.evidence,
        refute=candidate.refute,
        remedy=candidate.remedy,
        share_of_latency=candidate.share_of_latency,
        share_low=candidate.share_low,
        share_high=candidate.share_high,
    )


def _status(judged: Judged, expectations: list[Expectation]) -> str:
    if judged.findings:
        return "slow"
    return "limited" if judged.limited else "healthy"


# -- the rest of the verdict --------------------------------------------------------------------


def _where_time_goes(context: Context) -> dict[str, dict[str, float]]:
    survey = context.survey
    result: dict[str, dict[str, float]] = {}
    for op in sorted({s.op for s in survey.strata}):
        strata = survey.select(op=op)
        total = sum(s.latency_ns for s in strata)
        if total <= 0:
            continue
        sums = np.sum([s.stage_ns for s in strata], axis=0)
        shares = {
            context.stage(stage): float(value) / total
            for stage, value in zip(STAGES, sums, strict=True)
            if stage in survey.stages_observed and value > 0
        }
        rest = 1.0 - sum(shares.values())
        if rest > 1e-6:
            shares["unknown"] = shares.get("unknown", 0.0) + rest
        result[op] = shares
    return result


def _errors(context: Context) -> list[str]:
    """Failed operations, one line per kind and error number.

    Opens and the like fail as a matter of course (a program looks for its files): only I/O is told.
    """
    rows = context.case.rows(
        f"""SELECT op, coalesce(device, '') AS device, error, count(*) AS n FROM judged
WHERE layer = '{context.layer}' AND error <> 0 AND op <> 'other' GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"""
    )
    lines = []
    for row in rows[:10]:
        number = int(row["error"] or 0)
        name = errno.errorcode.get(number, f"errno {number}")
        place = f" on {row['device']}" if row["device"] else ""
        op = str(row["op"])
        lines.append(
            f"{words.things(float(row['n'] or 0), op, words.plural_op(op))}{place} failed with {name}."
        )
    return lines


def _next_steps(judged: Judged) -> list[str]:
    steps = []
    for finding in judged.findings:
        steps.append(finding.refute)
    if not judged.findings and judged.limited:
        steps.append(
            "Run the same with twice the queue depth: if throughput does not grow, the device is the limit."
        )
    return steps


def _insufficient(case: Case, surveys: dict[str, Survey], operations: int, limits: list[Limit]) -> Verdict:
    if not case.layers:
        why = "The case holds no layer: nothing was observed."
    elif operations == 0:
        why = "The case holds no finished operation outside its ramp phase."
    else:
        why = f"The case holds {words.things(operations, 'operation')}; a verdict needs {OPERATIONS_MIN}."
    step = "Record for longer, or while the workload is running; as root, so that the block layer is seen."
    texts = [f"'{limit.text}' cannot be judged: too few operations." for limit in limits]
    expectations = [Expectation(limit.text, None, text) for limit, text in zip(limits, texts, strict=True)]
    return Verdict(
        case=case.path.resolve().name,
        status="insufficient",
        summary=[f"No verdict. {why}", *texts, step],
        where_time_goes={},
        operations=operations,
        cannot_exclude=unseen(case),
        expectations=expectations,
        next_steps=[step],
        simulated=bool(case.meta.get("simulated")),
    )


def _summary(verdict: Verdict, context: Context, errors: list[str]) -> list[str]:
    """The verdict in about five plain sentences."""
    sentences = [_headline(verdict)]
    for finding in verdict.findings[:2]:
        sentences.append(finding.claim)
    if verdict.findings and verdict.findings[0].share_low is not None:
        sentences.append(_weight(verdict.findings[0]))
    if not verdict.findings:
        sentences.append(_speed(context))
        sentences.append(_main_stage(verdict, context))
    if verdict.limit and verdict.status != "slow":
        sentences.append(f"What sets its speed: {verdict.limit}.")
    sentences += errors[:1]
    if verdict.cleared:
        sentences.append(_cleared_sentence(verdict))
    sentences += [expectation.sentence for expectation in verdict.expectations]
    if verdict.cannot_exclude:
        first = verdict.cannot_exclude[0]
        sentences.append(f"Not excluded: {first.what} ({first.because}).")
    return sentences


def _headline(verdict: Verdict) -> str:
    if verdict.status == "slow":
        culprit = verdict.findings[0].culprit
        said = words.accused(culprit.kind, culprit.name, culprit.because_of)
        return f"Slow: {said} is to blame."
    if verdict.status == "limited":
        return "Nothing is broken; the workload runs into a limit."
    return "Healthy: no operation was slow for a reason that stands out."


def _weight(finding: Finding) -> str:
    interval = ""
    if finding.share_low is not None and finding.share_high is not None and finding.share_low < 0.9995:
        interval = f" (95 %: {words.percent(finding.share_low)} to {words.percent(finding.share_high)})"
    return (
        f"That is {words.percent(finding.share_of_excess)}{interval} of what slow operations lost and "
        f"{words.percent(finding.share_of_latency)} of all latency, in {words.things(finding.episodes, 'separate episode')}."
    )


def _speed(context: Context) -> str:
    parts = []
    for op in _main_kinds(context):
        strata = context.survey.select(op=op)
        number = sum(s.operations for s in strata)
        quantiles = [
            (q, n) for q, n in ((0.5, "half"), (0.99, "99 %"), (0.999, "99.9 %")) if number * (1 - q) >= 3
        ]
        if quantiles:
            said = ", ".join(
                f"{n} within {words.duration(context.survey.quantile_ns(strata, q))}" for q, n in quantiles
            )
            worst = words.duration(max(s.latency_max_ns for s in strata))
            parts.append(f"{words.count(number)} {words.plural_op(op)}: {said}, the slowest {worst}")
    return "; ".join(parts) + "." if parts else "Too few operations of each kind for percentiles."


def _main_kinds(context: Context) -> list[str]:
    """Operation kinds worth a sentence: a twentieth of all latency or of all operations."""
    survey = context.survey
    kinds = []
    for op in sorted({s.op for s in survey.strata}):
        strata = survey.select(op=op)
        busy = sum(s.latency_ns for s in strata) >= 0.05 * survey.latency_ns
        if busy or sum(s.operations for s in strata) >= 0.05 * survey.operations:
            kinds.append(op)
    return kinds


def _main_stage(verdict: Verdict, context: Context) -> str:
    parts = []
    for op in _main_kinds(context):
        shares = verdict.where_time_goes.get(op)
        if shares:
            stage = max(sorted(shares), key=lambda name: shares[name])
            parts.append(
                f"{words.plural_op(op)} spend {words.percent(shares[stage])} of their time in the stage {stage}"
            )
    text = words.listed(parts)
    return text[:1].upper() + text[1:] + "." if text else "Where the time goes was not observed."


def _cleared_sentence(verdict: Verdict) -> str:
    parts = [
        f"{item.what.split(':', 1)[1]} ({item.bound}: {words.percent(item.quantile)} at {words.percent(item.confidence)})"
        for item in verdict.cleared[:3]
    ]
    return "Cleared: " + "; ".join(parts) + "."
