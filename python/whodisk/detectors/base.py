"""What every detector shares: what it is given, what it gives back, and the smallest effect.

A detector is one file with a `DETECTOR` and one line in the registry (`whodisk.detectors`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from whodisk.detectors.thresholds import (
    OUTLIER_EPISODES_MIN,
    OUTLIER_RATIO_MIN,
    SEEN_P99_RATIO_MIN,
    SHARE_OF_EXCESS_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.findings import Cleared, Culprit, Effect, Evidence
from whodisk.reading.views import Case
from whodisk.statistics.stats import Bools, Ints


def large_by_loss(share_of_latency: float, p99_ratio: float | None) -> bool:
    """Whether what a seen cause costs becomes a finding: by its part of all latency, or by what it does to the 99th percentile, if known."""
    return share_of_latency >= SHARE_OF_LATENCY_MIN or (
        p99_ratio is not None and p99_ratio >= SEEN_P99_RATIO_MIN
    )


def large_enough(share_of_latency: float, share_of_excess: float, ratio: float, episodes: int) -> bool:
    """Whether an effect reaches the smallest one that becomes a finding.

    `ratio` is how many times as long as typical the slow operations took.
    """
    if share_of_latency >= SHARE_OF_LATENCY_MIN:
        return True
    outliers = ratio >= OUTLIER_RATIO_MIN and episodes >= OUTLIER_EPISODES_MIN
    return outliers and share_of_excess >= SHARE_OF_EXCESS_MIN and share_of_latency >= SHARE_OF_LATENCY_FLOOR


@dataclass
class Candidate:
    """A claim before the tests of all detectors are corrected together."""

    culprit: Culprit
    claim: str
    baseline: str
    effect: Effect
    share_of_excess: float
    share_of_latency: float
    #: Of its test; nobody looks at that of a measured claim.
    p_value: float
    episodes: int
    evidence: list[Evidence]
    refute: str
    remedy: str
    #: The sentence for `observed`, if it does not become a finding.
    otherwise: str
    #: Which slow operations it explains.
    explains: Bools
    share_low: float | None = None
    share_high: float | None = None
    #: Whether the effect is large enough (see `large_enough`).
    large: bool = False
    #: Why not, where its part of all latency is: the end of a sentence that begins with that part.
    unless: str = "but it varies too much over time to accuse anybody"
    #: (kind, name) of culprits that this one is the reason of: findings that accuse them become its consequences.
    causes: tuple[tuple[str, str], ...] = ()
    #: Slow operations that it met at their begin or end; it is the reason only of what mostly lies there. None: not known.
    met: Bools | None = None
    #: Whether it only says what a culprit led to: it joins the finding that accuses the same one, if there is one.
    consequence: bool = False
    #: Whether it makes more to do for a device; and whether a device is slower with no more to do, which the former is never the reason of.
    makes_requests: bool = False
    no_more_to_do: bool = False
    #: 99th percentile of the operations over what it would be without this culprit; None = not known. Several findings stand in this
    #: order if it is known of all of them.
    p99_ratio: float | None = None
    #: What `share_of_latency` is a part of, ns, where that is the time of threads; None: the time of all operations. Orders findings.
    of_ns: float | None = None
    #: Where `share_of_latency` is only the least that it can be: what it is with what such things usually do. Orders findings, no more.
    likely_share: float | None = None
    #: Part of the operations that were not made because of it, where that was counted. Orders findings where a workload falls behind its rate.
    unmade: float | None = None
    #: Query (op_id, lost_ns) of what operations, or requests below them, lost to it; or when it stopped submitting threads (thread, begin and length in ns).
    #: Where a workload falls behind its rate it is played again without these, which orders findings.
    lost_sql: str = ""
    stops: tuple[Ints, Ints, Ints] | None = None
    #: (kind, name) of further culprits: a consequence may join their finding; the name `*` means any.
    joins: tuple[tuple[str, str], ...] = ()
    #: One of `findings.BASES`: a measured claim is read off the record, and no test decides on it.
    basis: str = "inferred"
    #: What asked for it: one of `findings.QUESTIONS`.
    answers: str = ""
    #: `share_of_latency` without the episode that cost most, where slow operations may be of so few that one of them makes the claim.
    share_without_largest: float | None = None
    #: Measured over all operations, not of single ones: it is large or not, and stands beside what tests accept.
    summed: bool = False
    #: It reports the stops of these threads: a finding with the stops of more threads reports these, too.
    stopped: frozenset[int] = frozenset()
    #: What it makes worse (`findings.Finding.worse`), where the slow operations that it explains do not show it.
    worse: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Excuse:
    """Slow operations that are nobody's fault, and why."""

    because: str
    explains: Bools
    #: Whether the recorder itself held them up.
    by_recorder: bool = False


@dataclass(frozen=True)
class Declined:
    """A detector that cannot run on a case: which columns it has not, or why else."""

    detector: str
    because: str
    #: Columns that are not there (`a.x or b.y`: neither is).
    columns: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return f"{self.detector} declined: {self.because}"


@dataclass
class Result:
    """What a detector gives back."""

    candidates: list[Candidate] = field(default_factory=list)
    excuses: list[Excuse] = field(default_factory=list)
    observed: list[str] = field(default_factory=list)
    #: p values of tests that led to no claim worth making: they are corrected for, too.
    tested: list[float] = field(default_factory=list)
    #: What was compared with what, where that is all that single operations do not show: the verdict reports it after `observed`.
    compared: list[str] = field(default_factory=list)
    cleared: list[Cleared] = field(default_factory=list)
    #: (what, because) pairs.
    caveats: list[tuple[str, str]] = field(default_factory=list)
    #: Device -> what it reported and no operation lost time by (``12 errors``): a verdict then neither says that all is well nor clears it.
    trouble: dict[str, str] = field(default_factory=dict)
    #: The tier that served nearly all that was read, where it is faster than the one that the run is about: nothing below it was shown.
    served_from: str = ""
    limit: str | None = None
    #: What limits it in a smaller part of the time: the verdict reports it after the limit.
    besides: str | None = None
    #: Whether `limit` means that the workload cannot go faster although nothing is broken.
    limited: bool = False
    #: The experiment that would show that `limit` does not bind.
    limit_refute: str | None = None
    #: Device whose limit this result reports, as what binds or besides: it is not cleared.
    limiting_device: str = ""
    #: The device that the limit names with how long its requests take: it is not cleared beside that, unless a finding says what held those that were slow.
    timed_device: str = ""


@dataclass(frozen=True)
class Detector:
    """A detector and what it promises."""

    name: str
    #: Columns it cannot do without: `judged.latency_ns` (of the judged layer), `gaps.duration_ns`; `x or y`.
    needs: tuple[str, ...]
    #: At least one of these stages must have been observed; empty = no such need.
    needs_stages: tuple[str, ...]
    #: What would be true if nothing were wrong.
    null_model: str
    smallest_effect: str
    run: Callable[[Context], Result]
    #: Whether it looks at the order, the places or the absence of operations, of which a sample shows nothing.
    needs_all: bool = False
    #: Whether it names what nobody else has named: then it leaves alone what measured claims account for, too, which hide nothing from others.
    last_resort: bool = False

    def declines(self, context: Context) -> Declined | None:
        """Why it cannot run on this case, naming the columns; None if it can."""
        absent = [need for need in self.needs if not _has(context, need)]
        if absent:
            return Declined(self.name, f"the case has no {', '.join(absent)}", tuple(absent))
        if self.needs_all and context.case.copied:
            return Declined(self.name, "typical operations were sampled, and it needs every one")
        observed = context.survey.stages_observed
        if self.needs_stages and not observed.intersection(self.needs_stages):
            columns = tuple(f"{stage}_ns" for stage in self.needs_stages)
            return Declined(self.name, f"layer {context.layer} has none of {', '.join(columns)}", columns)
        return None


def _has(context: Context, need: str) -> bool:
    """Whether the case has a column; of `a.x or b.y` either will do."""
    for choice in need.split(" or "):
        table, column = choice.split(".")
        key = f"ops/{context.layer}" if table == "judged" else table
        if column in context.case.columns.get(key, frozenset()):
            return True
    return False


def evidence(case: Case, what: str, sql: str) -> Evidence:
    """A fact by `sql` (views allowed), with views written out. It runs when the claim becomes a finding (`verdict.adjudicate`): most do not."""
    return Evidence(what, case.expand(sql))


def evidence_above(case: Case, layer: str, what: str, sql: str, above_ns: int, *conditions: str) -> Evidence:
    """The same, of a query that asks `measured` for the rows of a layer above a latency, or of these conditions, and for no others: where those are kept,
    it runs now, and reads them there."""
    source = case.judged_above(layer, above_ns, *conditions)
    if source == "judged":
        return evidence(case, what, sql)
    return _read_there(case, what, sql, "measured", f"(SELECT * FROM {source} WHERE NOT open) AS measured")


def evidence_beyond(case: Case, layer: str, what: str, sql: str, above_ns: int) -> Evidence:
    """The same, of a query that asks the table of a layer, which it names once."""
    source = case.judged_above(layer, above_ns)
    if source == "judged" or not case.judges_all:
        return evidence(case, what, sql)
    return _read_there(case, what, sql, f"{layer}_ops", source)


def _read_there(case: Case, what: str, sql: str, table: str, source: str) -> Evidence:
    """A fact by `sql` whose rows are read now, from a table that holds all that it asks of its own."""
    return Evidence(what, case.expand(sql), case.rows(sql.replace(f"FROM {table}", f"FROM {source}")))
