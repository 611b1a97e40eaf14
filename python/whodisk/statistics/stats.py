"""Statistics of the solver. Everything here is deterministic and free of units unless a name says so.

The unit of evidence is the episode: operations that were slow together count once.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.statistics import probability

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: Seed of every resampling; fixed, so that the same case gives the same findings.
SEED = 20_240_229

#: At most this many operations show when the load was.
CLOCK_MAX = 200_000

#: An episode is cut into pieces of this many times its longest operation (see `episodes`).
EPISODE_LENGTH_MAX = 4.0


# -- tails ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TailSplit:
    """Where a distribution of ratios falls apart into a body and a slow group of its own.

    The valley is [``valley``, 2^``octaves`` ``valley``); ``hump`` is the ratio at which the densest
    stretch of that width beyond it begins. ``in_valley`` and ``in_hump`` are operations in these octaves, ``beyond``
    those over ``limit``. ``index`` is the tail index that a natural tail would have at least;
    ``tests`` is how many valleys were looked at.
    """

    valley: float
    hump: float
    in_valley: int
    in_hump: int
    beyond: int
    index: float
    tests: int
    octaves: float = 1.0

    @property
    def limit(self) -> float:
        """Ratio from which on an operation counts as slow: the middle of the valley."""
        return self.valley * math.exp2(self.octaves / 2)

    @property
    def is_narrow(self) -> bool:
        """Whether no octave shows the group, but only narrower stretches."""
        return self.octaves < 1.0


#: Widths of valley and hump, in octaves; both are looked for in steps of half their width.
OCTAVE = (1.0,)
#: ... inside a heavy tail, where octaves show nothing; the next one only if a wider one shows nothing.
NARROW = (0.5, 0.25, 0.125)
STEPS_PER_WIDTH = 2
#: The hump must be this many times as dense as the valley, per octave.
HUMP_RATIO_MIN = 3.0
#: A hump within an octave, in the middle of a heavy tail, must be this much likelier than none (log likelihood ratio, nats): narrow
#: stretches hold few operations, and of few operations chance makes humps.
NARROW_SCORE_MIN = 10.0
#: This part of the episodes beyond a split must have one length for the cause to be one that always takes the same time.
SAME_LENGTH_SHARE = 0.75
#: No healthy tail is assumed to be thinner than this index, whatever the body looks like.
TAIL_INDEX_MAX = 2.0


@dataclass(frozen=True)
class Body:
    """What a tail is the tail of: all operations, and the ratio that three quarters of them stay below."""

    operations: int
    quartile: float


def body_of(ratios: Floats, counts: Ints) -> Body:
    """The body of a whole distribution (`ratios` ascending)."""
    return Body(int(counts.sum()), max(1.05, quantile_from_bins(ratios, counts, 0.75)))


def find_split(
    ratios: Floats,
    counts: Ints,
    body: Body | None = None,
    start: float | None = None,
    widths: tuple[float, ...] = OCTAVE,
) -> TailSplit | None:
    """Looks for a slow group that is separate from the body of a distribution.

    `ratios` are latencies over their stratum's typical (ascending), `counts` operations at each.
    Natural tails (log-normal, exponential, Pareto, queueing) have one thing in common whatever their
    weight: counted per octave they only get thinner on their way out. A cause that acts now and
    then adds a second hump. So: among all octaves the one with an emptiness that,
    compared with the densest octave further out, is least likely if both were equally dense. A cause that always takes the same time
    may hide in a heavy tail that fills every octave; `widths` (in octaves) says what is looked at instead. The search
    begins at `start` (default: the body's quartile); `counts` may be a part of the tail only (the operations that lost their time in one
    stage). None if no stretch further out is `HUMP_RATIO_MIN` times as dense. Scale-free: multiplying all latencies
    changes nothing.
    """
    total = int(counts.sum())
    if total == 0:
        return None
    body = body or body_of(ratios, counts)
    start = start or body.quartile
    if float(ratios[-1]) <= start:
        return None
    above = total - np.concatenate(([0], np.cumsum(counts)))
    reach = math.log2(float(ratios[-1]) / start)
    for octaves in widths:
        steps = max(1, math.ceil(STEPS_PER_WIDTH / octaves * reach) + 1)
        edges = start * np.exp2(np.arange(steps + 2 * STEPS_PER_WIDTH) * octaves / STEPS_PER_WIDTH)
        beyond = above[np.searchsorted(ratios, edges, side="right")]
        density = beyond[:-STEPS_PER_WIDTH] - beyond[STEPS_PER_WIDTH:]
        places = _emptiest(density, 0.0 if octaves >= 1.0 else NARROW_SCORE_MIN)
        if places is None:
            continue
        valley, hump = places
        middle = float(edges[valley]) * math.exp2(octaves / 2)
        return TailSplit(
            valley=float(edges[valley]),
            hump=float(edges[hump]),
            in_valley=int(density[valley]),
            in_hump=int(density[hump]),
            beyond=int(above[np.searchsorted(ratios, middle, side="right")]),
            index=_index(0.25, int(beyond[valley]) / body.operations, float(edges[valley]) / body.quartile),
            tests=len(density),
            octaves=octaves,
        )
    return None


def _emptiest(density: Ints, score_min: float) -> tuple[int, int] | None:
    """Places of the valley and of its hump among overlapping stretches; None if nothing further out is dense enough."""
    scores = np.zeros(len(density))
    humps = np.zeros(len(density), np.int64)
    for valley in range(len(density) - STEPS_PER_WIDTH):
        hump = valley + STEPS_PER_WIDTH + int(np.argmax(density[valley + STEPS_PER_WIDTH :]))
        humps[valley] = hump
        if density[hump] >= HUMP_RATIO_MIN * max(density[valley], 1 / HUMP_RATIO_MIN):
            scores[valley] = _imbalance(int(density[valley]), int(density[hump]))
    if scores.max(initial=0.0) <= score_min:
        return None
    # Of equally empty valleys the one in the middle, away from both sides.
    best = np.flatnonzero(scores == scores.max())
    valley = int(best[len(best) // 2])
    return valley, int(humps[valley])


def _imbalance(few: int, many: int) -> float:
    """Log likelihood ratio of two counts against equal expectations (nats)."""
    whole = few + many
    return sum(n * math.log(2.0 * n / whole) for n in (few, many) if n)


def _index(share_start: float, share_end: float, ratio: float) -> float:
    """Tail index between two points of a survival function, between 0.05 and `TAIL_INDEX_MAX`."""
    if ratio <= 1.0 or share_end >= share_start or share_end <= 0:
        return 0.05
    return min(TAIL_INDEX_MAX, max(0.05, math.log(share_start / share_end) / math.log(ratio)))


def tail_p(split: TailSplit, worst: Floats) -> float:
    """Probability that a natural tail puts that many episodes into the hump or beyond it.

    `worst` is the largest ratio of each slow episode. If N episodes lie beyond the valley's begin, a
    tail of the split's index puts at most N (hump / valley)^-index of them beyond the hump's begin.
    A hump narrower than an octave is compared with the valley alone: a natural tail is no denser further out.
    The operations in the valley count as episodes, each of its own. Bonferroni over the valleys (and humps).
    """
    if split.is_narrow:
        inside = int(((worst >= split.hump) & (worst < split.hump * math.exp2(split.octaves))).sum())
        return min(1.0, split.tests**2 * probability.at_least(inside, inside + split.in_valley, 0.5))
    far = int((worst >= split.hump).sum())
    if far == 0:
        return 1.0
    chance = (split.hump / split.valley) ** -split.index
    p = probability.at_least(far, len(worst) + split.in_valley, chance)
    return min(1.0, p * max(split.tests, 1))


def same_length_p(latency: Floats, resolution: float) -> float:
    """Probability that a natural tail puts so many episodes so close to one length.

    `latency` is of one operation of each episode beyond a split, in any unit, `resolution` the part of a length that two of the same length may differ by for the clock's sake.
    Given the shortest of those that lie close together, each further one of a tail with index `TAIL_INDEX_MAX` lies within their width by chance. Bonferroni over the
    sets of most of the episodes, and over the first one of each.
    """
    count = len(latency)
    places = np.sort(np.log(latency))
    best = 1.0
    for inside in range(math.ceil(SAME_LENGTH_SHARE * count), count + 1):
        if inside < 2:
            continue
        width = float((places[inside - 1 :] - places[: count - inside + 1]).min()) + resolution
        chance = -math.expm1(-TAIL_INDEX_MAX * width)
        best = min(best, probability.at_least(inside - 1, count - 1, chance))
    sets = count - math.ceil(SAME_LENGTH_SHARE * count) + 1
    return min(1.0, count * sets * best)


# -- episodes -------------------------------------------------------------------------------


def apart_from_earlier(start_ns: Ints, end_ns: Ints, most: int | None = None) -> Bools:
    """Which intervals overlap with none of those before them in the list that are chosen themselves; the first `most` of them."""
    begins: list[int] = []
    ends: list[int] = []
    chosen = np.zeros(len(start_ns), np.bool_)
    for number, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        at = bisect.bisect_right(begins, start)
        # The chosen ones do not overlap, so only the neighbours can.
        if (at and ends[at - 1] > start) or (at < len(begins) and begins[at] < end):
            continue
        begins.insert(at, start)
        ends.insert(at, end)
        chosen[number] = True
        if len(begins) == most:
            break
    return chosen


def episodes(start_ns: Ints, end_ns: Ints) -> Ints:
    """Number of the episode each operation belongs to: intervals that overlap, as a chain.

    At high rates independent slow operations overlap by chance and would all be one chain, so a chain
    is cut into pieces `EPISODE_LENGTH_MAX` times as long as its longest operation.
    """
    count = len(start_ns)
    if count == 0:
        return np.zeros(0, np.int64)
    order = np.argsort(start_ns, kind="stable")
    starts, ends = start_ns[order], end_ns[order]
    reach = np.maximum.accumulate(ends)
    begins = np.concatenate(([True], starts[1:] > reach[:-1]))
    chain = np.cumsum(begins) - 1
    first = starts[begins]
    longest = np.zeros(len(first), np.int64)
    np.maximum.at(longest, chain, ends - starts)
    piece_ns = np.maximum(1.0, EPISODE_LENGTH_MAX * longest[chain])
    piece = np.floor((starts - first[chain]) / piece_ns).astype(np.int64)
    changed = np.concatenate(([True], (chain[1:] != chain[:-1]) | (piece[1:] != piece[:-1])))
    numbers = np.empty(count, np.int64)
    numbers[order] = np.cumsum(changed) - 1
    return numbers


def concentration_p(episode: Ints, start_ns: Ints, latency_ns: Ints, every_start_ns: Ints) -> float:
    """Probability that operations which are slow each by itself would bunch like the largest episode.

    Null model: each slow operation could have been any other one, of which `every_start_ns` are the begins (or a sample of them, in any order), and
    have taken as long as any slow one. So the load may come in bursts, and slow operations with it. It shows that slow operations had an
    event in common, not who caused it. 1 for episodes of a single operation.
    """
    total = len(episode)
    if total < 2 or not len(every_start_ns):
        return 1.0
    every_start_ns = every_start_ns[:: max(1, len(every_start_ns) // CLOCK_MAX)]
    lasting = np.random.default_rng(SEED).choice(latency_ns, len(every_start_ns))
    clocks = [np.sort(every_start_ns), np.sort(every_start_ns + lasting)]
    best = 1.0
    numbers, sizes = np.unique(episode, return_counts=True)
    # The largest few decide; Bonferroni below counts all of them.
    for position in np.argsort(-sizes, kind="stable")[:16]:
        number, size = numbers[position], int(sizes[position])
        if size < 2:
            break
        inside = episode == number
        # What waited for one event began together or ended together; the better of the two counts.
        moments = [start_ns[inside], start_ns[inside] + latency_ns[inside]]
        together = int(np.argmin([np.ptp(moments[0]), np.ptp(moments[1])]))
        window_ns = float(np.ptp(moments[together])) + 0.01 * float(np.median(latency_ns[inside]))
        middle = 0.5 * float(moments[together].min() + moments[together].max())
        near = np.searchsorted(clocks[together], (middle - window_ns, middle + window_ns))
        # They are among all themselves: at least as many as there are.
        chance = min(1.0, max(size, int(near[1] - near[0])) / len(clocks[together]))
        p = total * probability.at_least(size - 1, total - 1, chance)
        best = min(best, 2 * p * len(numbers))
    return min(1.0, best)


def overlap(
    begin_ns: Ints | Floats, end_ns: Ints | Floats, low_ns: Ints | Floats, high_ns: Ints | Floats
) -> Floats:
    """How much of each interval [begin, end] lies in the union of the intervals [low, high], ns."""
    if len(low_ns) == 0:
        return np.zeros(len(begin_ns))
    lows, highs = disjoint(low_ns, high_ns)
    points = np.column_stack((lows, highs)).ravel()
    steps = np.diff(points) * (np.arange(len(points) - 1) % 2 == 0)
    covered = np.concatenate(([0.0], np.cumsum(steps)))
    upto_end = np.interp(np.asarray(end_ns, np.float64), points, covered)
    upto_begin = np.interp(np.asarray(begin_ns, np.float64), points, covered)
    return np.asarray(upto_end - upto_begin, np.float64)


def disjoint(low_ns: Ints | Floats, high_ns: Ints | Floats) -> tuple[Floats, Floats]:
    """The same union as intervals that do not overlap, in order; some may be empty."""
    order = np.argsort(low_ns, kind="stable")
    lows = np.asarray(low_ns, np.float64)[order]
    highs = np.maximum.accumulate(np.asarray(high_ns, np.float64)[order])
    # Where an interval begins inside the earlier ones, only what it adds counts.
    lows[1:] = np.maximum(lows[1:], highs[:-1])
    return lows, highs


def common(
    first: tuple[Ints | Floats, Ints | Floats], second: tuple[Ints | Floats, Ints | Floats]
) -> tuple[Floats, Floats]:
    """The times that lie in an interval of each of the two."""
    points = np.concatenate([*first, *second])
    order = np.argsort(points, kind="stable")
    inside = np.ones(max(0, len(points) - 1), np.bool_)
    for mine in (True, False):
        steps = np.concatenate(
            [
                np.full(len(low), sign) * (its == mine)
                for low, its in ((first[0], True), (second[0], False))
                for sign in (1, -1)
            ]
        )
        inside &= np.cumsum(steps[order])[:-1] > 0
    points = np.asarray(points[order], np.float64)
    return points[:-1][inside], points[1:][inside]


def extents(number: Ints, begin_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """When the first interval of each group begins, and when its last one ends; groups are numbered 0, 1, ... without gaps."""
    groups = int(number.max()) + 1 if len(number) else 0
    first, last = np.full(groups, np.iinfo(np.int64).max), np.full(groups, np.iinfo(np.int64).min)
    np.minimum.at(first, number, begin_ns)
    np.maximum.at(last, number, end_ns)
    return first, last


def touched(start_ns: Ints, latency_ns: Ints, low_ns: Ints, high_ns: Ints) -> Bools:
    """Operations that were in flight in one of the times [low, high], or began within its length after it: what piled up
    meanwhile is late, too."""
    return np.asarray(overlap(start_ns, start_ns + latency_ns, low_ns, 2 * high_ns - low_ns) > 0, np.bool_)


#: An operation so long that a smaller part of all moments would have spared it stands for no more others than this.
SPARED_MIN = 0.02


def spared_quantile(
    start_ns: Ints, latency_ns: Ints, spared: Bools, low_ns: Ints, high_ns: Ints, quantile: float
) -> float:
    """Quantile of the latencies that operations have by themselves: of those `spared` (not `touched`), ns; NaN if none is.

    A long operation is seldom spared, whatever made it long: each counts for those of its length that were not, by the chance of one
    that begins at a random moment (Horvitz and Thompson 1952). Times may overlap.
    """
    if not spared.any():
        return math.nan
    span = float(start_ns.min()), float((start_ns + latency_ns).max())
    length = latency_ns[spared].astype(np.float64)
    return weighted_quantile(
        length, 1.0 / spared_chance(length, low_ns, 2 * high_ns - low_ns, span), quantile
    )


def spared_chance(length_ns: Floats, low_ns: Ints, high_ns: Ints, span: tuple[float, float]) -> Floats:
    """How often an operation of each length that begins at a random moment of `span` is in flight in none of the times [low, high]."""
    lows, highs = disjoint(low_ns, high_ns)
    begin_ns, end_ns = span[0], max(span[1], float(highs[-1]))
    free = np.sort((np.append(lows, end_ns) - np.append(begin_ns, highs)).clip(0))
    # Moments at which one of length L may begin and touches nothing: of each free stretch what is longer than L.
    after = np.append(np.cumsum(free[::-1])[::-1], 0.0)
    place = np.searchsorted(free, length_ns)
    chance = (after[place] - length_ns * (len(free) - place)) / max(1.0, end_ns - begin_ns)
    return np.maximum(chance, SPARED_MIN)


def moved_quantile(values: Ints, removed: Floats, added: Floats, weight: float, quantile: float) -> float:
    """Quantile of `values` (ascending) after observations of this weight each left at `removed` and came back at `added`, as many.

    Where more weight leaves than was there, the distribution stays flat instead of falling.
    """
    moved = np.unique(np.concatenate([removed, added]))
    came, left = (
        np.searchsorted(np.sort(part), moved, side="right").astype(np.float64) for part in (added, removed)
    )
    # One step before the first change and one from each change on: values up to and with the next one are reached at this balance.
    balance = np.append(0.0, weight * (came - left))
    passed = np.append(0, np.searchsorted(values, moved, side="right"))
    needed = np.ceil(quantile * len(values) - balance).astype(np.int64)
    step = int(np.argmax(needed <= np.append(passed[1:], len(values))))
    if step > 0 and needed[step] <= passed[step]:
        return float(moved[step - 1])
    return float(values[min(int(needed[step]), len(values)) - 1])


def weighted_quantile(values: Floats, weights: Floats, quantile: float) -> float:
    """The smallest value that has this part of all weight at or below it."""
    ranks = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[ranks])
    return float(values[ranks][np.searchsorted(passed, quantile * passed[-1]).clip(max=len(ranks) - 1)])


# -- intervals and corrections ----------------------------------------------------------------


def bootstrap_ratio(numerator: Floats, denominator: Floats, *, rounds: int = 2000) -> tuple[float, float]:
    """95 % interval of sum(numerator) / sum(denominator), resampling episodes (one value each)."""
    count = len(numerator)
    total = float(denominator.sum())
    if count == 0 or total == 0.0:
        return (math.nan, math.nan)
    if count == 1:
        value = float(numerator.sum()) / total
        return (value, value)
    generator = np.random.default_rng(SEED)
    values = np.empty(rounds)
    step = max(1, 2_000_000 // count)
    for begin in range(0, rounds, step):
        size = min(step, rounds - begin)
        picks = generator.integers(0, count, (size, count))
        sums = denominator[picks].sum(axis=1)
        values[begin : begin + size] = numerator[picks].sum(axis=1) / np.where(sums == 0, np.nan, sums)
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return (float(low), float(high))


def bootstrap_log_ratio(below: Floats, above: Floats, *, rounds: int = 2000) -> tuple[float, float]:
    """95 % interval of the ratio whose logarithm is mean(above) - mean(below), resampling both."""
    generator = np.random.default_rng(SEED)
    upper = generator.choice(above, (rounds, len(above))).mean(axis=1)
    lower = generator.choice(below, (rounds, len(below))).mean(axis=1)
    low, high = np.percentile(np.exp(upper - lower), [2.5, 97.5])
    return (float(low), float(high))


def bootstrap_sum(values: Floats, *, rounds: int = 2000) -> tuple[float, float]:
    """95 % interval of a sum over episodes, where their number varies too (Poisson bootstrap).

    With few episodes the number itself is uncertain: the interval is at least the exact Poisson
    interval of the count times the mean.
    """
    count = len(values)
    if count == 0:
        return (0.0, 0.0)
    mean = float(values.mean())
    low_count = probability.chi_squared_quantile(0.025, 2 * count) / 2
    high_count = probability.chi_squared_quantile(0.975, 2 * count + 2) / 2
    spread = float(values.std()) * 1.96 * math.sqrt(count)
    total = float(values.sum())
    low = total - math.hypot(total - low_count * mean, spread)
    high = total + math.hypot(high_count * mean - total, spread)
    return (max(0.0, low), high)


def benjamini_hochberg(p_values: list[float]) -> list[float]:
    """False discovery rate of each test when everything at most as unlikely is accepted."""
    count = len(p_values)
    if count == 0:
        return []
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * count / np.arange(1, count + 1)
    q = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    result = np.empty(count)
    result[order] = q
    return [float(value) for value in result]


def cleared_quantile(operations: int, exceeding: int, confidence: float = 0.95) -> float:
    """Quantile that stays within a bound with `confidence`, if `exceeding` of `operations` broke it.

    Exact binomial (Clopper-Pearson, one-sided); for none exceeding it is the rule of three, 1 - 3/n.
    """
    if operations <= 0 or exceeding >= operations:
        return 0.0
    return 1.0 - probability.beta_quantile(confidence, exceeding + 1, operations - exceeding)


def quantile_from_bins(values: Floats, counts: Ints | Floats, quantile: float) -> float:
    """Quantile of a histogram (`values` ascending): the value at which it is reached."""
    cumulated = np.cumsum(counts)
    position = int(np.searchsorted(cumulated, quantile * cumulated[-1], side="left"))
    return float(values[min(position, len(values) - 1)])


def upper_quantile(largest: Floats, count: int, part: float) -> float:
    """The value that `part` of `count` values exceed, from the largest of them in descending order; 0 for no values.

    Each value counts by the chance that it is the one, were as many drawn anew (Harrell and Davis, Biometrika 69, 1982): where a few
    values more or fewer decide between two levels, a single rank would be either.
    """
    if not len(largest):
        return 0.0
    if part >= 1:
        return float(largest[-1])
    above, below = (count + 1) * part, (count + 1) * (1 - part)
    weights = np.diff(probability.beta_at_most(np.arange(len(largest) + 1) / max(1, count), above, below))
    return float((weights * largest).sum() / max(1e-12, float(weights.sum())))


def quantile_needs(quantile: float) -> int:
    """Operations that are needed before a quantile means anything: three beyond it are expected."""
    return math.ceil(round(3.0 / max(1e-12, 1.0 - quantile), 3))


def permutation_p(first: Floats, second: Floats, rounds: int = 4999) -> float:
    """Probability that a mean difference this large (first > second) arises by shuffling labels.

    Null model: time blocks of both cases are exchangeable.
    """
    if len(first) == 0 or len(second) == 0:
        return 1.0
    pooled = np.concatenate((first, second))
    observed = float(first.mean() - second.mean())
    generator = np.random.default_rng(SEED)
    at_least = 0
    for _ in range(rounds):
        shuffled = generator.permutation(pooled)
        at_least += float(shuffled[: len(first)].mean() - shuffled[len(first) :].mean()) >= observed
    return (1 + at_least) / (1 + rounds)


def runs(flags: Bools) -> tuple[Ints, Ints]:
    """First place of each run of True, and the place after its last."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return edges[::2], edges[1::2]


def sum_of_runs(values: Floats, begin: Ints, end: Ints) -> Floats:
    """Sum of `values` over each run from `begin` to before `end` (of :func:`runs`)."""
    edges = np.column_stack((begin, end)).ravel()
    return np.asarray(np.add.reduceat(np.concatenate((values, [0.0])), edges)[::2], np.float64)


def spread_out(cuts: npt.NDArray[Any], length: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Begins of runs of these lengths, in this order, if the free time before each one ends at `cuts` (ascending)."""
    return cuts + np.concatenate(([0], np.cumsum(length)[:-1]))


def placed(place: npt.NDArray[Any], values: npt.NDArray[Any], length: int, empty: float = 0.0) -> Floats:
    """`length` numbers of which those at `place` are `values`, the others `empty`."""
    result = np.full(length, empty)
    result[place.astype(np.int64)] = values.astype(np.float64)
    return result
