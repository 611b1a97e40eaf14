"""What every detector shares: what it is given, what it gives back, and the smallest effect.

A detector is one file with a `DETECTOR` and one line in the registry (`whodisk.detectors`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from whodisk.backlog import Behind, waits_behind
from whodisk.expect import Limit
from whodisk.findings import Cleared, Culprit, Effect, Evidence
from whodisk.slow import SlowSet
from whodisk.stats import Bools, Ints
from whodisk.survey import Survey, thinned
from whodisk.views import Case

#: A finding must be this unlikely under its null model, after Benjamini-Hochberg.
Q_VALUE_MAX = 0.01
#: Smallest effect: this part of all latency ...
SHARE_OF_LATENCY_MIN = 0.05
#: ... or outliers: this part of the slow operations' excess, beyond what chance gives, ...
SHARE_OF_EXCESS_MIN = 0.20
#: ... if it is worth mentioning at all: this part of all latency, ...
SHARE_OF_LATENCY_FLOOR = 0.01
#: ... an order of magnitude beyond typical, ...
OUTLIER_RATIO_MIN = 10.0
#: ... and not just once or twice.
OUTLIER_EPISODES_MIN = 3
#: Where the cause itself was seen, and its effect is told by subtraction: the 99th percentile with it, over without.
P99_RATIO_MIN = 1.2
#: ... and less where each time it struck was seen, and what it cost by itself: from here on a fault counts (DESIGN 9).
SEEN_P99_RATIO_MIN = 1.1
#: Outliers that are a smaller part of all latency accuse if the 99th percentile is so many times what it is apart from them:
#: short operations among long ones can be late by any factor for little time. At least this part of all latency.
SHARE_FOR_P99_MIN = 0.002


def large_enough(share_of_latency: float, share_of_excess: float, ratio: float, episodes: int) -> bool:
    """Whether an effect reaches the smallest one that becomes a finding.

    `ratio` is how many times as long as typical the slow operations took.
    """
    if share_of_latency >= SHARE_OF_LATENCY_MIN:
        return True
    outliers = ratio >= OUTLIER_RATIO_MIN and episodes >= OUTLIER_EPISODES_MIN
    return outliers and share_of_excess >= SHARE_OF_EXCESS_MIN and share_of_latency >= SHARE_OF_LATENCY_FLOOR


@dataclass
class Context:
    """What a detector may look at."""

    case: Case
    #: Survey of each observed layer.
    surveys: dict[str, Survey]
    #: Layer whose operations are judged: `app` where its stages are known, else `block`.
    layer: str
    #: Slow operations of that layer.
    slow: SlowSet
    #: Slow operations that an earlier detector explained.
    explained: Bools
    #: Latency limits that were asked for and broken.
    broken_limits: list[Limit] = field(default_factory=list)
    #: A case to compare with, and its survey of the same layer.
    against: Case | None = None
    against_survey: Survey | None = None

    @property
    def survey(self) -> Survey:
        """Survey of the judged layer."""
        return self.surveys[self.layer]

    @cached_property
    def keeps_rate(self) -> bool:
        """Whether operations are due at times of their own, and are done as often: then nothing that delays them costs
        throughput."""
        return self.survey.keeps(self.case.offered_per_s)

    @cached_property
    def operations(self) -> tuple[Ints, Ints]:
        """Start and latency of the judged operations, ns; of many a sample."""
        found = self.case.arrays(
            f"""SELECT start_ns, latency_ns FROM measured
WHERE layer = '{self.layer}' AND {thinned(self.survey.operations)}"""
        )
        return found["start_ns"].astype(np.int64), found["latency_ns"].astype(np.int64)

    @cached_property
    def behind(self) -> Behind:
        """What waiting behind the slow operations cost others."""
        return waits_behind(self.case, self.survey, self.slow)

    def stage(self, stage: str) -> str:
        """Printed name of a stage of the judged layer."""
        return self.case.stage_name(self.layer, stage)


@dataclass
class Candidate:
    """A claim before the tests of all detectors are corrected together."""

    culprit: Culprit
    claim: str
    baseline: str
    effect: Effect
    share_of_excess: float
    share_of_latency: float
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
    #: (kind, name) of culprits that this one is the reason of: findings that accuse them become its consequences.
    causes: tuple[tuple[str, str], ...] = ()
    #: Whether it only says what a culprit led to: it joins the finding that accuses the same one, if there is one.
    consequence: bool = False
    #: 99th percentile of the operations over what it would be without this culprit; None = not known. Several findings stand in this
    #: order if it is known of all of them.
    p99_ratio: float | None = None
    #: Where `share_of_latency` is only the least that it can be: what it is with what such things usually do. Orders findings, no more.
    likely_share: float | None = None
    #: (kind, name) of further culprits whose finding a consequence may join; the name `*` means any.
    joins: tuple[tuple[str, str], ...] = ()


@dataclass
class Result:
    """What a detector gives back."""

    candidates: list[Candidate] = field(default_factory=list)
    observed: list[str] = field(default_factory=list)
    cleared: list[Cleared] = field(default_factory=list)
    #: (what, because) pairs.
    caveats: list[tuple[str, str]] = field(default_factory=list)
    limit: str | None = None
    #: Whether `limit` means that the workload cannot go faster although nothing is broken.
    limited: bool = False


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
    #: Whether it looks at the order, the places or the absence of operations, of which a sample tells nothing.
    needs_all: bool = False

    def missing(self, context: Context) -> str | None:
        """Why it declines, naming the columns; None if it can run."""
        absent = [need for need in self.needs if not _has(context, need)]
        if absent:
            return f"{self.name} declined: the case has no {', '.join(absent)}"
        if self.needs_all and context.case.copied:
            return f"{self.name} declined: typical operations were sampled, and it needs every one"
        observed = context.survey.stages_observed
        if self.needs_stages and not observed.intersection(self.needs_stages):
            names = ", ".join(f"{stage}_ns" for stage in self.needs_stages)
            return f"{self.name} declined: layer {context.layer} has none of {names}"
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
    """Runs `sql` (views allowed) and keeps it as it ran, views written out, with what it returned."""
    return Evidence(what, case.expand(sql), case.rows(sql))


def none_of(slow: SlowSet) -> Bools:
    """A mask that chooses no slow operation."""
    return np.zeros(len(slow), np.bool_)
