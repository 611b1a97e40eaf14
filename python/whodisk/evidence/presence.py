"""What operations cost while something is there, against those while it is not, in the same recording.

What is always there has no baseline, and accuses nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.survey import thinned
from whodisk.evidence.thresholds import (
    PRESENCE_BINS,
    PRESENCE_BINS_MIN,
    PRESENCE_OPERATIONS_PER_BIN,
    PRESENCE_PART_MAX,
    PRESENCE_PART_MIN,
    PRESENCE_ROUNDS,
    PRESENCE_TIMES_MIN,
)
from whodisk.statistics.draws import drawn_p
from whodisk.statistics.stats import (
    SEED,
    Bools,
    Floats,
    Ints,
    placed,
    runs,
    spread_out,
    sum_of_runs,
)

#: Beyond a 99th percentile.
LATE_ANYWAY = 0.01


@dataclass(frozen=True)
class Load:
    """The judged operations that begin in each time bin."""

    #: Sum of their latencies (or of what is looked at of these), ns.
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
    #: Operations beyond the 99th percentile of its absence, above the one in a hundred that are beyond it anyway, per time it came.
    late: Floats
    #: That operations are as slow on average at any other times, and that as many are beyond the 99th percentile.
    p_value: float
    late_p_value: float


def bins_of(context: Context, most: int | None = None) -> int | None:
    """How many time bins there are operations for, at most `most`; None if too few."""
    bins = int(
        min(
            PRESENCE_BINS if most is None else most,
            PRESENCE_BINS,
            context.survey.operations // PRESENCE_OPERATIONS_PER_BIN,
        )
    )
    return bins if bins >= PRESENCE_BINS_MIN else None


def load_of(context: Context, bins: int, time: str = "latency_ns") -> Load:
    """The judged operations per time bin; `time`: what of theirs is looked at (SQL)."""
    data = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(bins)} AS bin, sum({time}) AS latency_ns, count(*) AS n
FROM measured WHERE layer = '{context.layer}' GROUP BY 1 ORDER BY 1"""
    )
    return Load(placed(data["bin"], data["latency_ns"], bins), placed(data["bin"], data["n"], bins))


def compare(context: Context, load: Load, present: Bools, came: Bools | None = None) -> Presence | None:
    """Operations in the bins in which something is present, against all others; None if they are no slower, or it was hardly ever (or
    nearly always) there. `came`: when it began to do something; what of that goes on until it does so again are two times, not one."""
    begin, end = visits(present, came)
    part = float(present.mean())
    if not PRESENCE_PART_MIN <= part <= PRESENCE_PART_MAX or len(begin) < PRESENCE_TIMES_MIN:
        return None
    with_ns, without_ns = load.mean_ns(present), load.mean_ns(~present)
    if without_ns <= 0 or with_ns <= without_ns:
        return None
    beyond = np.where(present, load.latency_ns - load.operations * without_ns, 0.0)
    tail = _tail(context, present)
    late = tail.late_without.latency_ns - LATE_ANYWAY * tail.late_without.operations
    return Presence(
        times=len(begin),
        part=part,
        rate_ratio=_rate(load, present) / max(1e-9, _rate(load, ~present)),
        with_ns=with_ns,
        without_ns=without_ns,
        p99_with_ns=tail.with_ns,
        p99_without_ns=tail.without_ns,
        excess_ns=np.maximum(0.0, sum_of_runs(beyond, begin, end)),
        late=np.maximum(0.0, sum_of_runs(late, begin, end)),
        p_value=_p_value(load, begin, end - begin),
        # Beyond a limit that does not know when it was there: else the times would not be exchangeable.
        late_p_value=_p_value(tail.late, begin, end - begin),
    )


def visits(present: Bools, came: Bools | None) -> tuple[Ints, Ints]:
    """Begins and ends (the bin behind each) of the times in which something is present, parted where it began to do something again."""
    begin, end = runs(present)
    if came is None:
        return begin, end
    again = runs(came)[0]
    inside = again[present[again] & ~np.isin(again, begin)]
    return np.sort(np.concatenate((begin, inside))), np.sort(np.concatenate((end, inside)))


def _rate(load: Load, chosen: Bools) -> float:
    """Operations per bin, of the chosen bins that have any."""
    some = load.operations[chosen & (load.operations > 0)]
    return float(some.mean()) if len(some) else 0.0


@dataclass(frozen=True)
class Tail:
    """The slowest operations, and when they began."""

    #: 99th percentile of all operations, and of those that began in its absence, ns.
    with_ns: float
    without_ns: float
    #: Per bin, the number of operations beyond the former (for latencies), and of all.
    late: Load
    #: The same beyond the latter.
    late_without: Load


def late_load(bin_of_each: Ints, latency_ns: Floats, beyond_ns: float, bins: int) -> Load:
    """How many operations of each bin took longer than that, in the place of their latencies."""
    late = np.bincount(bin_of_each[latency_ns > beyond_ns], minlength=bins).astype(np.float64)
    return Load(late, np.bincount(bin_of_each, minlength=bins).astype(np.float64))


def _tail(context: Context, present: Bools) -> Tail:
    ops = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(len(present))} AS bin, latency_ns FROM measured
WHERE layer = '{context.layer}' AND {thinned(context.survey.operations)} ORDER BY op_id"""
    )
    latency, at = ops["latency_ns"].astype(np.float64), ops["bin"].astype(np.int64)
    away = ~present[at]
    with_ns = float(np.quantile(latency, 0.99)) if len(latency) else 0.0
    without_ns = float(np.quantile(latency[away], 0.99)) if away.any() else 0.0
    return Tail(
        with_ns,
        without_ns,
        late_load(at, latency, with_ns, len(present)),
        late_load(at, latency, without_ns, len(present)),
    )


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
    differences = np.zeros(PRESENCE_ROUNDS)
    for number in range(PRESENCE_ROUNDS):
        order = generator.permutation(len(begin))
        cuts = np.sort(generator.integers(0, free + 1, len(begin)))
        drawn = spread_out(cuts, length[order])
        differences[number] = slower(drawn, length[order])
    return drawn_p(differences, observed)
