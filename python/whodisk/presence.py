"""What operations cost while something is there, against those while it is not, in the same recording.

What is always there has no baseline, and accuses nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import (
    P99_RATIO_MIN,
    SHARE_OF_LATENCY_MIN,
    Candidate,
    Context,
    none_of,
)
from whodisk.findings import Culprit, Effect, Evidence
from whodisk.stats import SEED, Bools, Floats, Ints, bootstrap_sum, placed, runs, spread_out, sum_of_runs
from whodisk.survey import thinned

BINS = 400
#: Operations per bin on average, and the fewest bins.
OPERATIONS_PER_BIN = 10
BINS_MIN = 40
#: It must be absent from, and present in, this part of the time; and come so many times.
PRESENT_MIN, PRESENT_MAX = 0.01, 0.85
TIMES_MIN = 3
ROUNDS = 1999

SMALLEST_EFFECT = (
    "5 % of all latency, or a 99th percentile 20 % above that without it; present at least three times, and "
    "absent at least 15 % of the time"
)


@dataclass(frozen=True)
class Load:
    """The judged operations that begin in each time bin."""

    #: Sum of their latencies, ns.
    latency_ns: Floats
    operations: Floats

    @property
    def bins(self) -> int:
        return len(self.latency_ns)

    def mean_ns(self, chosen: Bools) -> float:
        """Mean latency in the chosen bins."""
        return float(self.latency_ns[chosen].sum() / max(1.0, self.operations[chosen].sum()))


@dataclass(frozen=True)
class Presence:
    """When something was there, and what operations cost then."""

    times: int
    #: Part of the time.
    part: float
    #: Operations per second while it is there, over those while it is not; moments without any do not count.
    rate_ratio: float
    #: Mean latency while it is there and while it is not, ns.
    with_ns: float
    without_ns: float
    #: 99th percentile of all operations, and of those that began in its absence, ns.
    p99_with_ns: float
    p99_without_ns: float
    #: Latency beyond that of its absence, per time it came, ns.
    excess_ns: Floats
    p_value: float


def bins_of(context: Context, most: int = BINS) -> int | None:
    """How many time bins there are operations for; None if too few."""
    bins = int(min(most, BINS, context.survey.operations // OPERATIONS_PER_BIN))
    return bins if bins >= BINS_MIN else None


def load_of(context: Context, bins: int) -> Load:
    """The judged operations per time bin."""
    data = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(bins)} AS bin, sum(latency_ns) AS latency_ns, count(*) AS n
FROM measured WHERE layer = '{context.layer}' GROUP BY 1 ORDER BY 1"""
    )
    return Load(placed(data["bin"], data["latency_ns"], bins), placed(data["bin"], data["n"], bins))


def compare(context: Context, load: Load, present: Bools) -> Presence | None:
    """Operations in the bins in which something is present, against all others; None if they are no slower, or it was hardly ever (or
    nearly always) there."""
    begin, end = runs(present)
    part = float(present.mean())
    if not PRESENT_MIN <= part <= PRESENT_MAX or len(begin) < TIMES_MIN:
        return None
    with_ns, without_ns = load.mean_ns(present), load.mean_ns(~present)
    if without_ns <= 0 or with_ns <= without_ns:
        return None
    beyond = np.where(present, load.latency_ns - load.operations * without_ns, 0.0)
    p99_with_ns, p99_without_ns = _p99s(context, present)
    return Presence(
        times=len(begin),
        part=part,
        rate_ratio=_rate(load, present) / max(1e-9, _rate(load, ~present)),
        with_ns=with_ns,
        without_ns=without_ns,
        p99_with_ns=p99_with_ns,
        p99_without_ns=p99_without_ns,
        excess_ns=np.maximum(0.0, sum_of_runs(beyond, begin, end)),
        p_value=_p_value(load, begin, end - begin),
    )


def _rate(load: Load, chosen: Bools) -> float:
    """Operations per bin, of the chosen bins that have any."""
    some = load.operations[chosen & (load.operations > 0)]
    return float(some.mean()) if len(some) else 0.0


def _p99s(context: Context, present: Bools) -> tuple[float, float]:
    ops = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(len(present))} AS bin, latency_ns FROM measured
WHERE layer = '{context.layer}' AND {thinned(context.survey.operations)} ORDER BY op_id"""
    )
    latency = ops["latency_ns"].astype(np.float64)
    away = ~present[ops["bin"].astype(np.int64)]
    if not away.any():
        return 0.0, 0.0
    return float(np.quantile(latency, 0.99)), float(np.quantile(latency[away], 0.99))


def _p_value(load: Load, begin: Ints, length: Ints) -> float:
    """Probability that the same times in any order, at any distances, would meet operations as slow.

    Mean latency inside against outside; the free time between them is divided at random.
    """

    def slower(at: Ints, lasting: Ints) -> float:
        inside = np.zeros(load.bins + 1)
        np.add.at(inside, at, 1.0)
        np.add.at(inside, np.minimum(load.bins, at + lasting), -1.0)
        chosen: Bools = np.cumsum(inside)[: load.bins] > 0
        return load.mean_ns(chosen) - load.mean_ns(~chosen)

    observed = slower(begin, length)
    generator = np.random.default_rng(SEED)
    free = load.bins - int(length.sum())
    at_least = 0
    for _ in range(ROUNDS):
        order = generator.permutation(len(begin))
        cuts = np.sort(generator.integers(0, free + 1, len(begin)))
        drawn = spread_out(cuts, length[order])
        at_least += slower(drawn, length[order]) >= observed
    return (1 + at_least) / (1 + ROUNDS)


def candidate(
    context: Context,
    presence: Presence,
    *,
    culprit: Culprit,
    what: str,
    baseline: str,
    evidence: list[Evidence],
    refute: str,
    remedy: str,
) -> Candidate:
    """What is said of something that comes and goes; `what` is the beginning of the sentence."""
    total = max(1.0, context.survey.latency_ns)
    share = min(1.0, float(presence.excess_ns.sum()) / total)
    low, high = bootstrap_sum(presence.excess_ns / total)
    worse = presence.p99_with_ns / max(1.0, presence.p99_without_ns)
    claim = (
        f"{what}, and operations take {words.duration(presence.with_ns)} on average then, "
        f"{words.duration(presence.without_ns)} otherwise: {words.percent(share)} of all latency. The 99th percentile is "
        f"{words.duration(presence.p99_with_ns)}, without these times {words.duration(presence.p99_without_ns)}."
    )
    return Candidate(
        culprit=culprit,
        claim=claim,
        baseline=baseline,
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        p_value=presence.p_value,
        episodes=presence.times,
        evidence=evidence,
        refute=refute,
        remedy=remedy,
        otherwise=claim,
        explains=none_of(context.slow),
        p99_ratio=worse,
        # Where the times differ so much that there may be no cost at all, nobody is accused.
        large=low > 0 and (share >= SHARE_OF_LATENCY_MIN or worse >= P99_RATIO_MIN),
    )
