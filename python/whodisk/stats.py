"""Statistics of the solver. Everything here is deterministic and free of units unless a name says so.

The unit of evidence is the episode: operations that were slow together count once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats as distributions

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: Seed of every resampling; fixed, so that the same case gives the same findings.
SEED = 20_240_229

#: An episode is cut into pieces of this many times its longest operation (see `episodes`).
EPISODE_LENGTH_MAX = 4.0


# -- tails ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TailSplit:
    """Where a distribution of ratios falls apart into a body and a separate slow group.

    ``threshold`` and ``gap`` are ratios: of ``beyond`` operations over ``threshold``, ``far`` are
    even over ``threshold * gap``. ``index`` is the tail index a natural tail would have at least.
    ``tests`` is how many splits were looked at.
    """

    threshold: float
    gap: float
    beyond: int
    far: int
    index: float
    tests: int

    @property
    def limit(self) -> float:
        """Ratio from which on an operation counts as slow: the middle of the hole."""
        return self.threshold * math.sqrt(self.gap)


#: Splits are looked for at half octaves of the ratio to typical, from 2x up.
SPLIT_STEP = math.sqrt(2.0)
#: No healthy tail is assumed to be thinner than this index, whatever the body looks like.
TAIL_INDEX_MAX = 2.0


def find_split(ratios: Floats, counts: Ints) -> TailSplit | None:
    """Looks for a slow group that is separate from the body of a distribution.

    `ratios` are latencies over their stratum's typical (ascending), `counts` operations at each.
    A natural tail only gets thinner on its way out: if N operations lie beyond t, at most
    N * gap^-index are expected beyond gap * t, where index is what the body showed up to t (never
    taken thinner than `TAIL_INDEX_MAX`). A slow group of its own leaves a hole after t and so breaks
    this. Among all splits the one with the largest likelihood ratio wins; None if no split has more
    operations far out than that. Scale-free: multiplying all latencies changes nothing.
    """
    total = int(counts.sum())
    if total < 2:
        return None
    above = total - np.concatenate(([0], np.cumsum(counts)))

    def beyond(threshold: float) -> int:
        return int(above[np.searchsorted(ratios, threshold, side="right")])

    start = max(1.05, quantile_from_bins(ratios, counts, 0.75))
    share_at_start = max(beyond(start), 1) / total
    octaves = max(1, math.ceil(2 * math.log2(max(float(ratios[-1]), 4.0))))
    thresholds = [2.0 * SPLIT_STEP**step for step in range(octaves)]
    gaps = [2.0**step for step in range(1, 13)]
    best: tuple[float, TailSplit] | None = None
    tests = sum(1 for t in thresholds for g in gaps if t * g <= float(ratios[-1]))
    for threshold in thresholds:
        count = beyond(threshold)
        if threshold < start or count == 0:
            continue
        index = _index(share_at_start, count / total, threshold / start)
        for gap in gaps:
            far = beyond(threshold * gap)
            if far == 0:
                break
            score = count * _divergence(far / count, gap**-index)
            if far / count > gap**-index and (best is None or score > best[0]):
                best = (score, TailSplit(threshold, gap, count, far, index, tests))
    return best[1] if best else None


def _index(share_start: float, share_end: float, ratio: float) -> float:
    """Tail index between two points of a survival function, between 0.05 and `TAIL_INDEX_MAX`."""
    if ratio <= 1.0 or share_end >= share_start:
        return 0.05
    return min(TAIL_INDEX_MAX, max(0.05, math.log(share_start / share_end) / math.log(ratio)))


def _divergence(observed: float, expected: float) -> float:
    """Binomial divergence per trial (nats)."""
    parts = ((observed, expected), (1.0 - observed, 1.0 - expected))
    return sum(p * math.log(p / q) for p, q in parts if p > 0.0)


def tail_p(split: TailSplit, beyond: int, far: int) -> float:
    """Probability that a natural tail puts `far` of `beyond` episodes past the split's gap.

    Bonferroni over every split that was looked at.
    """
    if beyond <= 0 or far <= 0:
        return 1.0
    p = float(distributions.binom.sf(far - 1, beyond, split.gap**-split.index))
    return min(1.0, p * max(split.tests, 1))


# -- episodes -------------------------------------------------------------------------------


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


def concentration_p(episode: Ints, start_ns: Ints, latency_ns: Ints, span_ns: int) -> float:
    """Probability that operations spread at random over `span_ns` would bunch like the largest episode.

    Null model: each slow operation could have happened at any time, independently. It shows that slow
    operations had an event in common, not who caused it. 1 for episodes of a single operation.
    """
    total = len(episode)
    if total < 2 or span_ns <= 0:
        return 1.0
    best = 1.0
    numbers, sizes = np.unique(episode, return_counts=True)
    # The largest few decide; Bonferroni below counts all of them.
    for position in np.argsort(-sizes, kind="stable")[:16]:
        number, size = numbers[position], int(sizes[position])
        if size < 2:
            break
        inside = episode == number
        window_ns = float(np.ptp(start_ns[inside])) + float(np.median(latency_ns[inside]))
        chance = min(1.0, 2.0 * window_ns / span_ns)
        p = total * float(distributions.binom.sf(size - 2, total - 1, chance))
        best = min(best, p * len(numbers))
    return best


def circular_shift_p(
    begin_ns: Ints, length_ns: Ints, wait_begin_ns: Ints, wait_end_ns: Ints, span: tuple[int, int]
) -> float:
    """Probability that intervals shifted in time cover the waits as well as they do unshifted.

    Null model: silences and late operations have nothing to do with each other; all silences are
    shifted together around the circle of the measured span, which keeps their spacing. 1,999 shifts.
    """
    low, high = span
    length = high - low
    if len(begin_ns) == 0 or len(wait_begin_ns) == 0 or length <= 0:
        return 1.0
    observed = _covered(begin_ns, length_ns, wait_begin_ns, wait_end_ns)
    if observed <= 0:
        return 1.0
    shifts = np.random.default_rng(SEED).integers(1, max(2, length), 1999)
    at_least = 0
    for shift in shifts:
        moved = low + (begin_ns - low + shift) % length
        at_least += _covered(moved, length_ns, wait_begin_ns, wait_end_ns) >= observed
    return (1 + at_least) / (1 + len(shifts))


def _covered(begin_ns: Ints, length_ns: Ints, wait_begin_ns: Ints, wait_end_ns: Ints) -> float:
    """Total overlap of waits with intervals, ns (intervals do not overlap each other much)."""
    order = np.argsort(begin_ns, kind="stable")
    edges = np.column_stack((begin_ns[order], begin_ns[order] + length_ns[order])).astype(np.float64)
    points = np.maximum.accumulate(edges.ravel())
    covered = np.concatenate(
        ([0.0], np.cumsum((points[1:] - points[:-1]) * (np.arange(len(points) - 1) % 2 == 0)))
    )
    upto_end = np.interp(wait_end_ns, points, covered)
    upto_begin = np.interp(wait_begin_ns, points, covered)
    return float(np.sum(upto_end - upto_begin))


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


def bootstrap_sum(values: Floats, *, rounds: int = 2000) -> tuple[float, float]:
    """95 % interval of a sum over episodes, where their number varies too (Poisson bootstrap).

    With few episodes the number itself is uncertain: the interval is at least the exact Poisson
    interval of the count times the mean.
    """
    count = len(values)
    if count == 0:
        return (0.0, 0.0)
    mean = float(values.mean())
    low_count = float(distributions.chi2.ppf(0.025, 2 * count)) / 2
    high_count = float(distributions.chi2.ppf(0.975, 2 * count + 2)) / 2
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
    return 1.0 - float(distributions.beta.ppf(confidence, exceeding + 1, operations - exceeding))


def quantile_from_bins(values: Floats, counts: Ints, quantile: float) -> float:
    """Quantile of a histogram (`values` ascending): the value at which it is reached."""
    cumulated = np.cumsum(counts)
    position = int(np.searchsorted(cumulated, quantile * cumulated[-1], side="left"))
    return float(values[min(position, len(values) - 1)])


def quantile_needs(quantile: float) -> int:
    """Operations that are needed before a quantile means anything: three beyond it are expected."""
    return math.ceil(3.0 / max(1e-12, 1.0 - quantile) - 1e-6)


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
