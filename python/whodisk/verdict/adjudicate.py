"""Who explains what: the only place that sets what detectors say against each other.

Four passes, in this order. *Excuse*: detectors run one after the other on a context that nobody changes; each is given what those before it excused or accused, so that
it does not blame that again. *Accuse*: their claims together. *Correct*: all tests are corrected together, and each claim becomes a finding or a sentence.
*Narrate*: consequences stand inside their cause, and everything else in the order of the registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.detectors import DETECTORS
from whodisk.detectors.base import Candidate, Declined, Detector, Result
from whodisk.detectors.thresholds import (
    MEASURED_TOLD_MIN,
    MET_MIN,
    OBSERVED_MIN,
    OUTLIER_EPISODES_MIN,
    Q_VALUE_MAX,
    REASON_PART_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
    WORSE_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.replay import replayed_without_stops
from whodisk.evidence.time_lost import due_ratio, lost_values_sql
from whodisk.evidence.worse import worse
from whodisk.findings import Caveat, Cleared, Finding
from whodisk.statistics.stats import Bools, benjamini_hochberg
from whodisk.verdict.causes import merge, was_there
from whodisk.verdict.slowest import is_slow, makes_worse


@dataclass(frozen=True)
class Judged:
    """What all detectors together gave."""

    findings: list[Finding]
    #: The same before causes took in their consequences.
    claims: list[Finding]
    #: Detectors that could not run, and why.
    declined: list[Declined]
    #: What was seen and accuses nobody.
    minor: list[str]
    #: Of this, what was compared with what: without any of it, nobody looked.
    compared: list[str]
    cleared: list[Cleared]
    caveats: list[Caveat]
    #: `Result.trouble`.
    trouble: dict[str, str]
    #: `Verdict.served_from`.
    served_from: str
    limit: str | None
    limited: bool
    #: The experiment that would show that the limit does not bind.
    limit_refute: str | None
    #: Devices whose limits are reported.
    limiting_devices: frozenset[str]
    #: Whether anything was accepted for what it makes of all operations, not only of those that stand apart.
    slow: bool
    #: Slow operations that findings explain.
    explained: Bools
    #: The least that one of the findings costs inside operations, in parts of all latency; None: none does, but for stops between them.
    least_cost: float | None = None
    #: The largest part of all latency that a claim is large enough to accuse with, and that may be chance.
    by_chance: float = 0.0
    #: Whom that claim would accuse, in words.
    by_chance_of: str = ""
    #: Whether the recorder had the CPU that operations which stand apart needed.
    recorder_held: bool = False


@dataclass(frozen=True)
class Heard:
    """What detectors said, in the order of the registry."""

    #: (name of the detector, what it gave back)
    results: list[tuple[str, Result]]
    declined: list[Declined]


@dataclass(frozen=True)
class Corrected:
    """Claims after all tests were corrected together."""

    accepted: list[tuple[Candidate, Finding]]
    #: What was read off the record and none of them reports.
    measured: list[tuple[Candidate, Finding]]
    #: A sentence for each claim that is worth one and accuses nobody.
    told: list[str]
    explained: Bools
    #: Claims that hold, large or not.
    held: set[Key]
    #: The claim of `Judged.by_chance`; None: there is none.
    by_chance: Candidate | None


#: A claim, whichever round of the detectors it is from: the detector's name, and whom it accuses of what.
Key = tuple[str, str, str, str | None]


def adjudicate(context: Context) -> Judged:
    """Runs the registry and makes one verdict of what it says.

    What a claim explains is hidden from the detectors after it, so that they do not blame it again. Whether a claim holds is known only when
    all tests are corrected together; one that does not must hide nothing: then the detectors after it run again, without it.
    """
    failed: frozenset[Key] = frozenset()
    heard = excuse(context)
    while True:
        corrected = correct(context, accuse(heard), tested_of(heard))
        fell = {_key(name, c) for name, c in accuse(heard) if _hides(c)} - corrected.held - failed
        if not fell:
            return narrate(context, heard, corrected)
        failed |= fell
        heard = excuse(context, failed, heard)


def _key(detector: str, candidate: Candidate) -> Key:
    culprit = candidate.culprit
    return detector, culprit.kind, culprit.name, culprit.because_of


def _hides(candidate: Candidate) -> bool:
    """Whether what it explains is its alone, if it holds."""
    tested = candidate.basis != "measured" and _holds(candidate, candidate.p_value)
    return candidate.large and (tested or candidate.summed) and bool(candidate.explains.any())


def excuse(context: Context, failed: frozenset[Key] = frozenset(), before: Heard | None = None) -> Heard:
    """Runs every detector that can run, each after what those before it explained; claims that `failed` explain nothing.

    `before` is what they said when fewer had failed: up to the first detector that made one of these nothing changes.
    """
    results: list[tuple[str, Result]] = []
    declined: list[Declined] = []
    known = dict(before.results) if before is not None else {}
    makers = {detector for detector, *_ in failed}
    for detector in DETECTORS:
        reason = detector.declines(context)
        if reason is not None:
            declined.append(reason)
            continue
        result = known.get(detector.name) or _run(detector, context, results)
        results.append((detector.name, result))
        if detector.name in makers:
            known = {}
        masks = [item.explains for item in result.excuses]
        masks += [c.explains for c in result.candidates if _hides(c) and _key(detector.name, c) not in failed]
        if masks:
            context = context.after(np.logical_or.reduce([context.explained, *masks]))
    return Heard(results, declined)


def _run(detector: Detector, context: Context, before: Sequence[tuple[str, Result]]) -> Result:
    result = detector.run(context)
    if not detector.last_resort or not result.candidates:
        return result
    accounted = _accounted(context, [claim for _, earlier in before for claim in earlier.candidates])
    return detector.run(context.after(context.explained | accounted)) if accounted.any() else result


def _accounted(context: Context, claims: Sequence[Candidate]) -> Bools:
    """Slow operations of which measured claims account for half of what they lost, or more. Such claims hide nothing from other detectors: what a neighbour's
    requests cost would hide the device that was slow for both."""
    slow = context.slow
    lost_ns = np.zeros(len(slow))
    for claim in claims:
        if claim.basis == "measured" and claim.summed and claim.large and claim.lost_sql:
            found = context.case.arrays(
                f"SELECT op_id, sum(lost_ns) AS lost_ns FROM ({claim.lost_sql}) AS lost GROUP BY 1 ORDER BY 1"
            )
            _, at, of = np.intersect1d(slow.op_id, found["op_id"].astype(np.int64), return_indices=True)
            lost_ns[at] += found["lost_ns"].astype(np.float64)[of]
    return np.asarray(2 * lost_ns >= np.maximum(1, slow.excess_ns), np.bool_)


def accuse(heard: Heard) -> list[tuple[str, Candidate]]:
    """Every claim with the detector that makes it."""
    return [(name, candidate) for name, result in heard.results for candidate in result.candidates]


def tested_of(heard: Heard) -> list[float]:
    """p values of tests that led to no claim."""
    return [p_value for _, result in heard.results for p_value in result.tested]


def correct(context: Context, claims: list[tuple[str, Candidate]], tested: Sequence[float] = ()) -> Corrected:
    """Corrects all tests together (Benjamini-Hochberg), those too that led to no claim worth making (`tested`); what is large and unlikely
    enough then is accepted.

    What was read off the record needs no test, and takes none from the others: of all operations it is accepted if it is large, of single
    ones unless what was accepted reports it.
    """
    inferred = [(name, c) for name, c in claims if c.basis != "measured"]
    singles = [(name, c) for name, c in claims if c.basis == "measured" and not c.summed]
    corrected = iter(benjamini_hochberg([c.p_value for _, c in inferred] + list(tested)))
    judged = [
        (name, c, next(corrected) if c.basis != "measured" else None)
        for name, c in claims
        if c.basis != "measured" or c.summed
    ]
    accepted: list[tuple[Candidate, Finding]] = []
    told: list[str] = []
    explained = np.zeros(len(context.slow), np.bool_)
    stand = [_holds(c, q_value) and not _may_cost_nothing(context, c) for _, c, q_value in judged]
    accused = [
        c
        for (name, c, q_value), stands in zip(judged, stand, strict=True)
        if c.large and stands and _weighs(context, c, _finding(context, name, c, q_value))
    ]
    for (name, candidate, q_value), stands in zip(judged, stand, strict=True):
        # The seen cause of something that is accused is reported with it, and so first, even if it is too small by itself; but not a trifle, nor one beside what
        # it would explain, and where all that it costs was counted only if it is what held most of these operations.
        reason = candidate.share_of_latency >= SHARE_OF_LATENCY_FLOOR and any(
            (c.culprit.kind, c.culprit.name) in candidate.causes
            and was_there(candidate, c)
            and candidate.share_of_latency >= REASON_PART_MIN * c.share_of_latency
            and (not candidate.summed or _held_most(candidate, c))
            for c in accused
        )
        large = candidate.large or reason
        finding = _finding(context, name, candidate, q_value) if large and stands else None
        if finding is not None and (reason or _weighs(context, candidate, finding)):
            accepted.append((candidate, _proven(context, finding)))
            explained |= candidate.explains
        elif candidate.share_of_latency >= OBSERVED_MIN and not any(
            _same_culprit(candidate, other) for _, other in singles
        ):
            told.append(_told(candidate, q_value))
    untold = [(name, c) for name, c in singles if not _told_by(c, accepted)]
    for _, candidate in untold:
        explained |= candidate.explains
    return Corrected(
        accepted,
        [(c, _proven(context, _finding(context, name, c, None))) for name, c in untold],
        told,
        explained,
        {_key(name, c) for (name, c, _), stands in zip(judged, stand, strict=True) if stands},
        max(
            (c for _, c, q_value in judged if c.large and not _holds(c, q_value)),
            key=lambda c: c.share_of_latency,
            default=None,
        ),
    )


def _may_cost_nothing(context: Context, candidate: Candidate) -> bool:
    """Whether the interval of what an inferred claim costs includes nothing, and it makes neither the 99th percentile nor the throughput worse, as far as is known:
    a few of its operations are most of it then."""
    if candidate.basis == "measured" or candidate.effect.low is None or candidate.effect.low > 0:
        return False
    if (candidate.p99_ratio or 0.0) >= 1 + WORSE_MIN:
        return False
    made = candidate.worse or _worse(context, candidate)
    return "p99" in made and not makes_worse(made)


def _weighs(context: Context, candidate: Candidate, finding: Finding) -> bool:
    """Whether a claim makes the status `slow`, or reports what stands apart (DESIGN 8). What does neither is one of the things that happen in the tail of
    whoever waits for CPUs or devices."""
    if _makes_slow(candidate, finding):
        return True
    apart = [episode for episode, _ in context.longest if episode.apart]
    if any(episode.silence and episode.tid in candidate.stopped for episode in apart):
        return True
    ids = [op_id for episode in apart for op_id in episode.op_ids]
    return bool(np.isin(context.slow.op_id[candidate.explains], ids).any())


def _held_most(candidate: Candidate, accused: Candidate) -> bool:
    """Whether a counted cause held most of the operations that are accused: it explains them, too."""
    if not accused.explains.any():
        return False
    return bool(candidate.explains[accused.explains].mean() >= MET_MIN)


def _holds(candidate: Candidate, q_value: float | None) -> bool:
    """Whether a claim holds after correction, or needs none; one on what happened twice that one of both made large does not."""
    return q_value is None or (q_value < Q_VALUE_MAX and not _is_of_one_episode(candidate))


def _is_of_one_episode(candidate: Candidate) -> bool:
    """Whether slow operations happened twice, and without the episode that cost most would not be enough to accuse: two things that
    happen once each have nothing in common. (Of a single one nobody says that it has.)"""
    return (
        1 < candidate.episodes < OUTLIER_EPISODES_MIN
        and candidate.share_without_largest is not None
        and candidate.share_without_largest < SHARE_OF_LATENCY_MIN
    )


def narrate(context: Context, heard: Heard, corrected: Corrected) -> Judged:
    """Consequences inside their cause, and what else is to be said."""
    results = [result for _, result in heard.results]
    from_submit = context.case.counts_from_submit
    accused = corrected.accepted + corrected.measured
    chance = corrected.by_chance
    return Judged(
        # What fired a trigger is what was asked: it comes first.
        findings=sorted(
            merge(
                corrected.accepted,
                context.keeps_rate and not from_submit,
                from_submit,
                lambda candidate: _played_again(context, candidate),
                corrected.measured,
                context.survey.latency_ns,
            ),
            key=lambda finding: finding.answers != "trigger",
        ),
        claims=[finding for _, finding in corrected.accepted + corrected.measured],
        declined=heard.declined,
        minor=corrected.told + [line for result in results for line in [*result.observed, *result.compared]],
        compared=[line for result in results for line in result.compared],
        cleared=[item for result in results for item in result.cleared],
        # Several metrics of one device have one reason.
        caveats=[
            Caveat(what, because)
            for what, because in dict.fromkeys(each for result in results for each in result.caveats)
        ],
        trouble={device: told for result in results for device, told in result.trouble.items()},
        served_from=next((result.served_from for result in results if result.served_from), ""),
        limit=_limit(results),
        limited=any(result.limited for result in results),
        limit_refute=_binding(results).limit_refute,
        limiting_devices=frozenset(
            device
            for result in results
            for device in (result.limiting_device, "" if accused else result.timed_device)
            if device
        ),
        slow=any(_makes_slow(candidate, finding) for candidate, finding in corrected.accepted),
        explained=corrected.explained,
        least_cost=min(
            (c.share_of_latency for c, _ in accused if c.stops is None and not c.stopped), default=None
        ),
        by_chance=chance.share_of_latency if chance is not None else 0.0,
        by_chance_of=words.accused(chance.culprit.kind, chance.culprit.name, chance.culprit.because_of)
        if chance is not None
        else "",
        recorder_held=any(item.by_recorder for result in results for item in result.excuses),
    )


def _played_again(context: Context, candidate: Candidate) -> float | None:
    """By how much the 99th percentile, counted from when operations were due, is longer for a claim; None where that is not known."""
    if candidate.stops is not None:
        replay = replayed_without_stops(context, *candidate.stops, from_due=True)
        return None if replay is None else replay.p99_ratio
    lost_sql, explained = candidate.lost_sql, candidate.explains
    if not lost_sql and explained.any() and context.slow.thinning == 1.0:
        lost_sql = lost_values_sql(context.slow.op_id[explained], context.slow.excess_ns[explained])
    return due_ratio(context, lost_sql) if lost_sql else None


def _makes_slow(candidate: Candidate, finding: Finding) -> bool:
    """Whether what was accepted makes more than outliers; so does what is large and says nothing of single operations."""
    if (candidate.p99_ratio or 0.0) >= 1 + WORSE_MIN or is_slow(finding):
        return True
    return candidate.large and not candidate.explains.any()


def _binding(results: list[Result]) -> Result:
    """The first result whose limit binds; else the first that says what sets the speed."""
    said = [result for result in results if result.limit]
    return next((result for result in said if result.limited), said[0] if said else Result())


def _limit(results: list[Result]) -> str | None:
    """What binds most of the time, and what binds besides."""
    limit = _binding(results).limit
    besides = next((result.besides for result in results if result.besides), None)
    return f"{limit}. Besides: {besides}" if limit and besides else limit or besides


def _same_culprit(one: Candidate, other: Candidate) -> bool:
    return (one.culprit.kind, one.culprit.name) == (other.culprit.kind, other.culprit.name)


def _told_by(candidate: Candidate, accepted: list[tuple[Candidate, Finding]]) -> bool:
    """Whether findings that tests accepted report these operations already: they accuse the same one, report stops of the same threads, or
    explain most of them."""
    if any(_same_culprit(candidate, other) for other, _ in accepted):
        return True
    if candidate.stopped and any(candidate.stopped <= other.stopped for other, _ in accepted):
        return True
    if not candidate.explains.any():
        return False
    others = np.logical_or.reduce(
        [other.explains for other, _ in accepted] or [np.zeros_like(candidate.explains)]
    )
    return bool(others[candidate.explains].mean() >= MEASURED_TOLD_MIN)


def _told(candidate: Candidate, q_value: float | None) -> str:
    """The line of something that does not become a finding, with the reason why not."""
    said = f"{words.percent(candidate.share_of_latency)} of all latency"
    # Many a claim ends with its cost.
    cost = f"{candidate.otherwise} That is" + ("" if said in candidate.otherwise else f" {said},")
    if candidate.large and _is_of_one_episode(candidate):
        return f"{cost} large enough to accuse, but one episode made most of it: that is too few to tell a cause from chance."
    if candidate.large and not _holds(candidate, q_value):
        return f"{cost} large enough to accuse, but that these have this in common may be chance (q = {q_value:.2g})."
    if candidate.share_of_latency < SHARE_OF_LATENCY_MIN:
        # Outliers accuse from less on: another finding may have cost less than this.
        return f"{cost} under the {words.percent(SHARE_OF_LATENCY_MIN)} that accuse by themselves."
    return f"{cost} enough to accuse, {candidate.unless}."


def _finding(context: Context, detector: str, candidate: Candidate, q_value: float | None) -> Finding:
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
        basis=candidate.basis,
        answers=candidate.answers,
        worse=candidate.worse or _worse(context, candidate),
    )


def _proven(context: Context, finding: Finding) -> Finding:
    """The same with the rows of its evidence."""
    shown = [
        item if item.rows else replace(item, rows=context.case.known(item.query)) for item in finding.evidence
    ]
    return replace(finding, evidence=shown)


def _worse(context: Context, candidate: Candidate) -> dict[str, dict[str, float]]:
    """What the slow operations that a candidate explains make worse."""
    slow, chosen = context.slow, candidate.explains
    if not chosen.any():
        return {}
    ops = sorted({str(op) for op in slow.op[chosen]})
    held, typical = slow.latency_ns[chosen].astype(np.float64), slow.typical_ns[chosen]
    return worse(context.survey, ops, held, typical, slow.thinning, context.keeps_rate)
