"""One verdict out of many findings: each cause reports its consequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from whodisk.detectors.base import Candidate
from whodisk.detectors.thresholds import (
    MERGED_SHARE_MAX,
    MET_MIN,
    PLAYED_AGAIN_MIN,
    SHARE_OF_LATENCY_FLOOR,
    WORSE_MIN,
)
from whodisk.findings import Culprit, Evidence, Finding


def merge(
    accepted: list[tuple[Candidate, Finding]],
    keeps_rate: bool = False,
    falls_behind: bool = False,
    played_again: Callable[[Candidate], float | None] | None = None,
    singles: Sequence[tuple[Candidate, Finding]] = (),
    latency_ns: float = 0.0,
) -> list[Finding]:
    """The findings that are left when each cause reports its consequences, what does most harm first (see `_harm`); then the `singles`, which report
    single operations, each before what costs less than it (see `_passes`). `latency_ns` is the time of all operations.

    A finding is a consequence if another one lists its culprit (or why it is one) among what it is the reason of (`Candidate.causes`), or if
    it only says what a culprit led to (`Candidate.consequence`) and another finding accuses the same one. Its claim joins
    the cause's, and its evidence the cause's evidence. `keeps_rate`: nothing here costs throughput. `falls_behind`: throughput is what counts, or
    where the run can be played again without each of them (`played_again`) what that does to the 99th percentile.
    """
    told_by: list[int | None] = [None] * len(accepted)
    for number in range(len(accepted)):
        told_by[number] = _cause_of(number, accepted, told_by)
    merged: list[tuple[float, _Group]] = []
    # Of a program that computes most of its time, much of the time of its operations is little of its threads' time, which other claims are a part of.
    threads_ns = max((c.of_ns for c, _ in accepted if c.of_ns is not None), default=0.0)
    part = latency_ns / threads_ns if 0 < latency_ns < threads_ns else 1.0
    for number, (candidate, cause) in enumerate(accepted):
        if told_by[number] is not None:
            continue
        told = [n for n in range(len(accepted)) if n != number and _root(n, told_by) == number]
        whole = [candidate, *(accepted[n][0] for n in told)]
        known = [c for c in whole if c.p99_ratio is not None]
        # Where only the 99th percentile counts, who knows it decides.
        harm = max(
            _harm(c, keeps_rate, falls_behind, part) for c in (known if keeps_rate and known else whole)
        )
        merged.append((harm, _Group(_with(cause, [accepted[n][1] for n in told]), whole)))
    if falls_behind and played_again is not None and len(merged) > 1:
        again = [
            max((ratio for c in group.claims if (ratio := played_again(c)) is not None), default=None)
            for _, group in merged
        ]
        harms = [harm if ratio is None else ratio for ratio, (harm, _) in zip(again, merged, strict=True)]
        first, second, *_ = sorted(harms, reverse=True)
        # What is much the same that way may be so because a run that is played again knows no syncs, and only what was seen to be lost.
        if first >= PLAYED_AGAIN_MIN * second:
            merged = [(harm, group) for harm, (_, group) in zip(harms, merged, strict=True)]
    # Time that could not be attributed names nobody: whoever is named comes before it.
    merged.sort(key=lambda pair: (_names_nobody(pair[1]), -pair[0], -pair[1].finding.share_of_latency))
    order = [group for _, group in merged]
    for candidate, finding in singles:
        single = _Group(finding, [candidate])
        place = len(order)
        # Where the workload keeps its rate, time is not what counts.
        while not keeps_rate and place and _passes(single, order[place - 1], latency_ns):
            place -= 1
        order.insert(place, single)
    return [group.finding for group in order]


def _names_nobody(group: _Group) -> bool:
    return (group.finding.culprit.kind, group.finding.culprit.name) == ("stage", "unknown")


@dataclass(frozen=True)
class _Group:
    """A finding, and all claims that it reports."""

    finding: Finding
    claims: list[Candidate]

    def lost_ns(self, latency_ns: float) -> float:
        """What it cost operations and threads, together."""
        return max(_share(c) * (latency_ns if c.of_ns is None else c.of_ns) for c in self.claims)

    def moves_p99(self) -> bool:
        """Whether it makes the 99th percentile as much worse as makes a case slow, and that counts."""
        told = self.finding.worse.get("p99")
        seen = told["with"] / max(1.0, told["without"]) if told else 1.0
        return any(_counts_p99(c) and max(c.p99_ratio or 1.0, seen) >= 1 + WORSE_MIN for c in self.claims)


def _passes(single: _Group, other: _Group, latency_ns: float) -> bool:
    """Whether single operations stand before another finding: they cost more time, and it does nothing to the 99th percentile that they do not show.

    What was read off the record of one operation says nothing of others, so it stands behind what makes many of them worse."""
    return not other.moves_p99() and single.lost_ns(latency_ns) > other.lost_ns(latency_ns)


def _share(candidate: Candidate) -> float:
    return max(candidate.share_of_latency, candidate.likely_share or 0.0)


def _counts_p99(candidate: Candidate) -> bool:
    """Whether what it does to the 99th percentile says more than what it costs: from the part of all latency on that is worth mentioning. Among operations
    of very different lengths the percentile is that of short ones, and doubles for a thousandth of the time that others cost."""
    return _share(candidate) >= SHARE_OF_LATENCY_FLOOR


def _harm(candidate: Candidate, keeps_rate: bool, falls_behind: bool, part: float) -> float:
    """How many times worse it makes things: the 99th percentile, where that is known and counts (`_counts_p99`), or the mean, whichever suffers more.

    The mean stands for throughput: in a closed loop it falls as the mean rises. Where the workload keeps its rate, only the 99th percentile
    counts; where it falls behind its rate, operations are later and later for want of throughput, and only the mean counts, or the operations that
    were not made. `part`: of the threads' time, that of their operations.
    """
    if falls_behind and candidate.unmade is not None:
        return 1.0 / (1.0 - min(candidate.unmade, MERGED_SHARE_MAX))
    if keeps_rate and candidate.p99_ratio:
        return candidate.p99_ratio
    share = _share(candidate) * (part if candidate.of_ns is None else 1.0)
    counts_p99 = _counts_p99(candidate)
    if _is_around(candidate):
        share, counts_p99 = min(share, max(0.0, candidate.effect.low or 0.0)), False
    mean = 1.0 / (1.0 - min(share, MERGED_SHARE_MAX))
    return mean if falls_behind or not counts_p99 else max(candidate.p99_ratio or 1.0, mean)


def _is_around(candidate: Candidate) -> bool:
    """Whether it is what the machine lives in, inferred from when operations were slower: a hypervisor that has other guests takes some of the CPUs nearly all the time,
    and what else is wrong is wrong beside it. What it costs at least is what it is weighed by."""
    return candidate.culprit.because_of == "steal" and candidate.basis == "inferred"


def _with(cause: Finding, consequences: list[Finding]) -> Finding:
    claims = [cause.claim] + [f"Consequence: {finding.claim}" for finding in consequences]
    told = [
        Evidence(f"consequence: {item.what}", item.query, item.rows)
        for finding in consequences
        for item in finding.evidence
    ]
    # Each detector sees a part of what its culprit costs (slow writes, say, or pauses only): the finding reports the most that one of them saw.
    same = [f for f in consequences if f.effect.metric == cause.effect.metric and _accuse_one(f, cause)]
    most = max([cause, *same], key=lambda finding: finding.effect.value)
    return replace(
        cause,
        claim=" ".join(claims),
        evidence=[*cause.evidence, *told],
        effect=most.effect,
        share_of_latency=most.share_of_latency,
    )


def _accuse_one(one: Finding, other: Finding) -> bool:
    """Whether two findings accuse the same one, one of them perhaps as the reason of something."""

    def names(finding: Finding) -> set[str | None]:
        return {f"{finding.culprit.kind}:{finding.culprit.name}", finding.culprit.because_of} - {None}

    return not names(one).isdisjoint(names(other))


def _root(number: int, told_by: list[int | None]) -> int:
    """The finding that reports another one in the end."""
    while (cause := told_by[number]) is not None:
        number = cause
    return number


def _cause_of(
    number: int, accepted: list[tuple[Candidate, Finding]], told_by: list[int | None]
) -> int | None:
    """The finding that reports this one, if any: the one that costs most, and that this one does not report itself."""
    candidate, finding = accepted[number]
    found = [
        other
        for other, (reason, _) in enumerate(accepted)
        if other != number
        and (
            _is_reason(reason, candidate, finding)
            or _same(candidate, reason)
            or _repeats(accepted[number], accepted[other])
        )
        and _root(other, told_by) != number
    ]
    return max(found, key=lambda other: accepted[other][1].share_of_latency, default=None)


def _names(culprit: Culprit) -> list[str]:
    """Where boundaries were not observed a stage has a merged name."""
    return culprit.name.split("+") if culprit.kind == "stage" else [culprit.name]


def was_there(reason: Candidate, candidate: Candidate) -> bool:
    """Whether what comes and goes was there in most of the slow operations that a candidate explains; so too where that is not known."""
    if reason.met is None or not candidate.explains.any():
        return True
    return bool(reason.met[candidate.explains].mean() >= MET_MIN)


def _is_reason(reason: Candidate, candidate: Candidate, finding: Finding) -> bool:
    if not was_there(reason, candidate) or (reason.makes_requests and candidate.no_more_to_do):
        return False
    kind = finding.culprit.kind
    if reason.consequence and finding.culprit.because_of == f"{reason.culprit.kind}:{reason.culprit.name}":
        # It joins what accuses the same one, and does not take it over.
        return False
    return any(
        (kind, name) in reason.causes for name in [*_names(finding.culprit), finding.culprit.because_of]
    )


def _repeats(one: tuple[Candidate, Finding], other: tuple[Candidate, Finding]) -> bool:
    """Whether another detector accuses the same one of more."""
    mine, theirs = one[0].culprit, other[0].culprit
    same = (mine.kind, mine.name) == (theirs.kind, theirs.name) and one[0].consequence == other[0].consequence
    return (
        same and one[1].detector != other[1].detector and one[0].share_of_latency < other[0].share_of_latency
    )


def _same(candidate: Candidate, other: Candidate) -> bool:
    if not candidate.consequence:
        return False
    mine, theirs = candidate.culprit, other.culprit
    if any((theirs.kind, name) in candidate.joins for name in [*_names(theirs), "*"]):
        return True
    same = (mine.kind, mine.name) == (theirs.kind, theirs.name)
    return not other.consequence and (same or theirs.because_of == f"{mine.kind}:{mine.name}")
