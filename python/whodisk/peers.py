"""Members of a group that ought to be alike: which of them is slower than the others, since when, how much.

Input are matrices of log latencies, time blocks by members (`PeerGroup`); where they come from (single
operations or sampled series) does not matter here. Three ways to be slow are told apart:

* always: the member's mean lies above what its peers do (its *level*);
* at times: its slow third lies further above its better half than its peers' does (its *swing*), and its
  level is raised too;
* daily: at the same time of the day it is slower than at others, compared with what its peers do then.

All are compared with how much healthy members differ (robust spread over all groups of the case). The
evidence are chunks of neighbouring blocks: a member is exchanged with its peers within each chunk, and of
every round the largest statistic of any member is kept (max-T).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field

import numpy as np

from whodisk import probability
from whodisk.daily import Daily, TimeOfDay, times_of_day
from whodisk.stats import SEED, Bools, Floats, Ints

#: Chunks a recording is divided into: neighbouring blocks are not independent, chunks nearly are.
CHUNKS = 84
#: Fewer time blocks than this say nothing.
BLOCKS_MIN = 8
#: A member must stand out of the spread of its peers by so many robust standard deviations ...
LEVEL_Z_MIN = 4.5
#: (level and swing together, each counting half of the variance)
AT_TIMES_Z_MIN = 6.5
#: (the same, where it swings more than its peers in most parts of the recording: then it was no single bad hour)
AGAIN_Z_MIN = 5.0
PARTS, PARTS_MIN, PART_Z_MIN = 4, 3, 1.0
#: (what a member is slower at one time of the day than at others)
DAILY_Z_MIN = 4.5
#: ... and be slower by at least this (log): on average, in its slow third, or at that time of the day.
EFFECT_MIN = math.log(1.10)
#: Identical members are never taken to be more alike than this (log); with few of them, than this.
SPREAD_FLOOR = 0.006
SPREAD_FLOOR_FEW = 0.03
#: From so many members on their spread is believed.
FLEET_MIN = 8
#: The fast part of a group shows what is possible: members up to `EFFECT_MIN` above the one at this rank ...
REFERENCE_RANK = 1 / 3
#: ... unless they have less than this part of the usual load (log).
REFERENCE_LOAD_MIN = math.log(0.7)
#: One block counts for no more than this (log): a single bad moment is no slow member.
BLOCK_CLIP = 0.5
#: Blocks so far above the peers (log) count as slow when episodes are told.
SLOW_BLOCK = math.log(1.08)
ROUNDS = 999


@dataclass
class PeerGroup:
    """Members that ought to be alike.

    `latency` holds log latencies (with any common offset), blocks by members; NaN = not observed. `load`
    the log of what each member had to do, of the same shape; NaN = not observed. `begin_ns` is the begin of
    each block, ascending.
    """

    name: str
    members: list[str]
    latency: Floats
    load: Floats
    begin_ns: Ints


@dataclass(frozen=True)
class SlowMember:
    """A member that is slower than its peers; ratios are to the peers at the same time."""

    group: str
    member: str
    peers: int
    #: Geometric mean over time, its 95 % interval (chunks resampled), and over the slow third of it.
    ratio: float
    low: float
    high: float
    slow_ratio: float
    #: Slow all the time, or only at times.
    always: bool
    #: Robust standard deviations beyond the peers, of whatever made it stand out.
    z: float
    #: Max-T over all members of the case.
    p_value: float
    #: Separate runs of slow blocks, and their part of the observed time.
    episodes: int
    slow_share: float
    #: When it became slow, ns; None if it was so from the begin.
    onset_ns: int | None
    #: Slow at this time of the day.
    daily: Daily | None


@dataclass
class Comparison:
    """What comparing gave."""

    slow: list[SlowMember] = field(default_factory=list)
    #: What stands out, but not enough: (group, member, ratio, robust standard deviations).
    near: list[tuple[str, str, float, float]] = field(default_factory=list)
    #: Groups that cannot be compared, and why.
    skipped: list[tuple[str, str]] = field(default_factory=list)
    #: Members judged, and the robust spread (log) of their levels.
    judged: int = 0
    spread: float = SPREAD_FLOOR
    #: Log latency of the reference members, per group and block: what the group as a whole did.
    common: dict[str, Floats] = field(default_factory=dict)
    #: Log ratio to the reference, blocks by members.
    ratios: dict[str, Floats] = field(default_factory=dict)


@dataclass
class _Prepared:
    group: PeerGroup
    ratios: Floats
    common: Floats
    chunks: Floats
    reference: Bools
    level: Floats
    #: Per time scale (chunks, blocks) and member.
    swings: Floats
    #: Of blocks, per part of the recording and member.
    part_swings: Floats
    daily: list[TimeOfDay]


def compare(groups: list[PeerGroup], effect_min: float = EFFECT_MIN, *, daily: bool = True) -> Comparison:
    """Finds the slow members of all groups, with one spread for all of them.

    `effect_min` is the smallest log ratio that counts; `daily` says that members ought to be alike at every time of the day.
    """
    result = Comparison()
    prepared = []
    with warnings.catch_warnings():
        # Blocks in which nothing was observed are NaN and stay so.
        warnings.simplefilter("ignore", RuntimeWarning)
        for group in groups:
            trouble = _trouble(group)
            if trouble:
                result.skipped.append((group.name, trouble))
            else:
                prepared.append(_prepare(group, daily))
        if prepared:
            _judge(prepared, result, effect_min)
    return result


def _trouble(group: PeerGroup) -> str | None:
    observed = np.isfinite(group.latency)
    if (observed.sum(axis=0) >= BLOCKS_MIN).sum() < 2:
        return "it has no peers that were observed often enough"
    return None


def _judge(prepared: list[_Prepared], result: Comparison, effect_min: float) -> None:
    level = np.concatenate([p.level for p in prepared])
    swings = np.concatenate([p.swings for p in prepared], axis=1)
    reference = np.concatenate([p.reference for p in prepared])
    result.judged = int(np.isfinite(level).sum())
    middle, result.spread = _spread(level, level[reference])
    natural = [_spread(scale, scale) for scale in swings]
    parts = np.concatenate([p.part_swings for p in prepared], axis=1)
    natural_parts = [_spread(part, part) for part in parts]
    natural_daily = _natural_daily(prepared)
    for item, by_chance in zip(prepared, _exchange(prepared), strict=True):
        usual = [_usual_swing(own, *fleet) for own, fleet in zip(item.swings, natural, strict=True)]
        result.common[item.group.name] = item.common
        result.ratios[item.group.name] = item.ratios
        for number in np.flatnonzero(np.isfinite(item.level)):
            rise = float(item.level[number] - max(0.0, middle))
            level_z = rise / math.hypot(result.spread, _standard_error(item.chunks[:, number]))
            swing_z = max((float(s[number]) - m) / w for s, (m, w) in zip(item.swings, usual, strict=True))
            at_times_z = (rise / result.spread + swing_z) / math.sqrt(2.0)
            slow_third = _slow_third(item.chunks[:, number])
            if level_z >= LEVEL_Z_MIN and item.level[number] >= effect_min:
                p = max(by_chance[number], _natural_p(level_z, result.judged))
                result.slow.append(_member(item, int(number), level_z, True, p))
            # How large a swing is natural, only many peers can tell.
            elif (
                at_times_z >= (AGAIN_Z_MIN if _again(item, int(number), natural_parts) else AT_TIMES_Z_MIN)
                and slow_third >= effect_min
                and result.judged >= FLEET_MIN
            ):
                p = max(by_chance[number], _natural_p(at_times_z, result.judged))
                result.slow.append(_member(item, int(number), at_times_z, False, p))
            elif daily := _daily(item, int(number), natural_daily, effect_min):
                z, when = daily
                p = _natural_p(z, result.judged * len(natural_daily))
                result.slow.append(_member(item, int(number), z, False, p, when))
            elif level_z >= LEVEL_Z_MIN - 1 and item.level[number] >= effect_min / 2:
                ratio = math.exp(float(item.level[number]))
                result.near.append((item.group.name, item.group.members[number], ratio, level_z))
    result.slow.sort(key=lambda m: (-m.ratio, m.group, m.member))
    result.near.sort(key=lambda n: (-n[2], n[0], n[1]))


def _again(item: _Prepared, number: int, natural: list[tuple[float, float]]) -> bool:
    """Whether a member swings more than its peers in most parts of the recording."""
    above = 0
    for own, fleet in zip(item.part_swings, natural, strict=True):
        middle, spread = _usual_swing(own, *fleet)
        above += bool((own[number] - middle) / spread >= PART_Z_MIN)
    return above >= PARTS_MIN


def _natural_daily(prepared: list[_Prepared]) -> dict[tuple[int, int], tuple[float, float]]:
    """How much healthy members are slower at each time of the day: middle and spread; none where few members tell it."""
    rises: dict[tuple[int, int], list[Floats]] = {}
    for item in prepared:
        for when in item.daily:
            rises.setdefault((when.begin_ns, when.end_ns), []).append(when.rise)
    found = {}
    for when_key, parts in rises.items():
        values = np.concatenate(parts)
        if np.isfinite(values).sum() >= FLEET_MIN:
            found[when_key] = _spread(values, values)
    return found


def _daily(
    item: _Prepared, number: int, natural: dict[tuple[int, int], tuple[float, float]], effect_min: float
) -> tuple[float, Daily] | None:
    """The time of the day at which a member stands out most of its peers, and by how much; None: at none."""
    best: tuple[float, Daily] | None = None
    for when in item.daily:
        fleet = natural.get((when.begin_ns, when.end_ns))
        rise = float(when.rise[number])
        # Slower then than its peers, and mostly because of the time.
        if (
            fleet is None
            or not when.mostly[number]
            or not rise >= effect_min / 2
            or when.level[number] < effect_min
        ):
            continue
        middle, spread = _usual_rise(when.rise, *fleet)
        z = (rise - max(0.0, middle)) / max(spread, float(when.error[number]))
        if z >= DAILY_Z_MIN and (best is None or z > best[0]):
            then = float(when.level[number])
            best = z, Daily(when.begin_ns, when.end_ns, when.part_ns, then, then - rise)
    return best


def _usual_rise(own: Floats, middle: float, spread: float) -> tuple[float, float]:
    """As all members do, or as those of a restless group: that spread of few is uncertain, so its lower bound counts."""
    known = int(np.isfinite(own).sum())
    if known < FLEET_MIN:
        return middle, spread
    _, own_spread = _spread(own, own)
    return middle, max(spread, own_spread / (1.0 + 2.0 / math.sqrt(known)))


# -- one group ----------------------------------------------------------------------------------


def _prepare(group: PeerGroup, daily: bool) -> _Prepared:
    latency = explained_by_load(group.latency, group.load)
    reference = _reference(latency, group.load)
    common = np.nanmedian(latency[:, reference], axis=1)
    ratios = latency - common[:, None]
    ratios[:, np.isfinite(ratios).sum(axis=0) < BLOCKS_MIN] = np.nan
    clipped = np.clip(ratios, -BLOCK_CLIP, BLOCK_CLIP)
    chunks = _chunks(clipped)
    return _Prepared(
        group=group,
        ratios=ratios,
        common=common,
        chunks=chunks,
        reference=reference & np.isfinite(ratios).any(axis=0),
        level=np.nanmean(chunks, axis=0),
        swings=np.stack([_swing(chunks), _swing(clipped)]),
        part_swings=np.stack([_swing(part) for part in np.array_split(clipped, PARTS)]),
        daily=times_of_day(clipped, group.begin_ns) if daily else [],
    )


def explained_by_load(latency: Floats, load: Floats) -> Floats:
    """Latency without what a member's higher load explains.

    How latency grows with load is what it does when the load of the whole group changes. Less load than the
    peers have excuses nothing and accuses nobody.
    """
    if not np.isfinite(load).any():
        return latency.copy()
    group_load = np.nanmedian(load, axis=1)
    power = _slope(group_load, np.nanmedian(latency, axis=1))
    more = np.nan_to_num(load - group_load[:, None], nan=0.0).clip(0.0)
    return np.asarray(latency - power * more, np.float64)


def _slope(x: Floats, y: Floats) -> float:
    known = np.isfinite(x) & np.isfinite(y)
    if known.sum() < BLOCKS_MIN or np.ptp(x[known]) <= 0:
        return 0.0
    x, y = x[known] - x[known].mean(), y[known] - y[known].mean()
    return float(np.clip((x @ y) / (x @ x), 0.0, 1.0))


def _reference(latency: Floats, load: Floats) -> Bools:
    """Members that show what is possible: the fast third, and all that are hardly slower."""
    middle = np.nanmedian(latency, axis=1)
    level = np.nanmean(np.clip(latency - middle[:, None], -2.0, 2.0), axis=0)
    relative_load = np.nanmedian(load - np.nanmedian(load, axis=1)[:, None], axis=0)
    fair = np.isfinite(level) & ~(relative_load < REFERENCE_LOAD_MIN)
    if not fair.any():
        fair = np.isfinite(level)
    ranked = np.sort(level[fair])
    fast = ranked[math.ceil(len(ranked) * REFERENCE_RANK) - 1]
    reference: Bools = fair & (level <= fast + EFFECT_MIN)
    return reference


def _chunks(ratios: Floats) -> Floats:
    """Means of neighbouring blocks: at most about `CHUNKS` of them."""
    size = max(1, len(ratios) // CHUNKS)
    number = math.ceil(len(ratios) / size)
    padded = np.full((number * size, ratios.shape[1]), np.nan)
    padded[: len(ratios)] = ratios
    return np.asarray(np.nanmean(padded.reshape(number, size, -1), axis=1), np.float64)


def _swing(chunks: Floats) -> Floats:
    """Mean of the slow third less mean of the fast half, along the axis before the last."""
    ranked = np.sort(chunks, axis=-2)  # NaN last
    count = np.isfinite(ranked).sum(axis=-2)
    shape = [1] * ranked.ndim
    shape[-2] = ranked.shape[-2]
    place = np.arange(ranked.shape[-2]).reshape(shape)
    count_along = np.expand_dims(count, -2)
    slow = (place >= count_along - np.ceil(count_along / 3)) & (place < count_along)
    fast = place < np.ceil(count_along / 2)
    filled = np.nan_to_num(ranked, nan=0.0)
    difference = (filled * slow).sum(axis=-2) / slow.sum(axis=-2) - (filled * fast).sum(axis=-2) / fast.sum(
        axis=-2
    )
    return np.where(count >= BLOCKS_MIN, difference, np.nan)


def _slow_third(chunks: Floats) -> float:
    known = np.sort(chunks[np.isfinite(chunks)])
    return float(known[-math.ceil(len(known) / 3) :].mean()) if len(known) else math.nan


def _spread(values: Floats, healthy: Floats) -> tuple[float, float]:
    """Median of healthy members, and robust standard deviation of all that lie below it.

    What lies above may be slow; so the fast side says how much members differ by nature.
    """
    known, healthy = values[np.isfinite(values)], healthy[np.isfinite(healthy)]
    if len(healthy) == 0:
        return 0.0, SPREAD_FLOOR_FEW
    middle = float(np.median(healthy))
    below = middle - known[known < middle]
    spread = 1.4826 * float(np.median(below)) if len(below) else 0.0
    return middle, max(spread, SPREAD_FLOOR if len(known) >= FLEET_MIN else SPREAD_FLOOR_FEW)


def _usual_swing(own: Floats, middle: float, spread: float) -> tuple[float, float]:
    """What a group's members usually swing: as all members do, or more, if the group as a whole is restless."""
    if np.isfinite(own).sum() < FLEET_MIN:
        return middle, spread
    own_middle, own_spread = _spread(own, own)
    return max(middle, own_middle), max(spread, own_spread)


def _standard_error(chunks: Floats) -> float:
    """Of a member's mean over chunks; neighbours may still be alike, which doubles it."""
    known = chunks[np.isfinite(chunks)]
    return 2.0 * float(known.std()) / math.sqrt(len(known))


# -- evidence -----------------------------------------------------------------------------------


def _natural_p(z: float, members: int) -> float:
    """Probability that any of so many healthy members stands out so far; tails as heavy as Student's t."""
    return min(1.0, members * probability.student_above(z, max(10, min(30, members - 1))))


def _exchange(prepared: list[_Prepared]) -> list[Floats]:
    """Max-T probability of each member's level when it changes places with its peers in each chunk."""
    generator = np.random.default_rng(SEED)
    largest = np.full(ROUNDS, -np.inf)
    observed = []
    for item in prepared:
        scores = np.full(len(item.group.members), -np.inf)
        for number in np.flatnonzero(np.isfinite(item.level)):
            peers = item.reference.copy()
            peers[number] = False
            known = np.isfinite(item.chunks[:, number]) & np.isfinite(item.chunks[:, peers]).any(axis=1)
            if known.sum() < BLOCKS_MIN:
                continue
            # The member itself comes first in its pool.
            pool = np.column_stack((item.chunks[known, number], item.chunks[known][:, peers]))
            scores[number] = _exchanged(pool, largest, generator)
        observed.append(scores)
    return [(1 + (largest[None, :] >= s[:, None] - 1e-9).sum(axis=1)) / (1 + ROUNDS) for s in observed]


def _exchanged(pool: Floats, largest: Floats, generator: np.random.Generator) -> float:
    """Standardized sum of the pool's first column; raises `largest` to that of random picks per row."""
    middle = np.nanmean(pool, axis=1)
    spread = math.sqrt(float(np.nansum(np.nanvar(pool, axis=1)))) or 1.0
    width = pool.shape[1]
    picks = generator.integers(0, width, (ROUNDS, len(pool)))
    drawn = pool[np.arange(len(pool)), picks] - middle
    np.fmax(largest, np.nansum(drawn, axis=1) / spread, out=largest)
    return float((pool[:, 0] - middle).sum()) / spread


def _member(
    item: _Prepared, number: int, z: float, always: bool, p_value: float, daily: Daily | None = None
) -> SlowMember:
    ratios = item.ratios[:, number]
    known = np.isfinite(ratios)
    series = ratios[known]
    begins = item.group.begin_ns[known]
    whole = _chunks(ratios[:, None])[:, 0]
    low, high = _interval(whole[np.isfinite(whole)])
    slow = series >= SLOW_BLOCK
    runs = int(slow[0]) + int((slow[1:] & ~slow[:-1]).sum())
    return SlowMember(
        group=item.group.name,
        member=item.group.members[number],
        peers=int(item.reference.sum()) - int(item.reference[number]),
        ratio=math.exp(float(np.nanmean(whole))),
        low=low,
        high=high,
        slow_ratio=math.exp(_slow_third(whole)),
        always=always,
        z=z,
        p_value=p_value,
        episodes=max(1, runs),
        slow_share=float(slow.mean()),
        onset_ns=_onset(series, begins),
        daily=daily,
    )


def _interval(chunks: Floats) -> tuple[float, float]:
    picks = np.random.default_rng(SEED).choice(chunks, (2000, len(chunks)))
    low, high = np.percentile(np.exp(picks.mean(axis=1)), [2.5, 97.5])
    return float(low), float(high)


def _onset(series: Floats, begins: Ints) -> int | None:
    """When the member became slow; None = it was so from the begin.

    The moment at which the sum of what exceeds the smallest effect is lowest: before it blocks were
    mostly below, after it mostly above.
    """
    total = np.cumsum(np.clip(series, -BLOCK_CLIP, BLOCK_CLIP) - EFFECT_MIN)
    last_before = int(np.argmin(total))
    if total[last_before] >= 0 or not BLOCKS_MIN <= last_before + 1 < len(series):
        return None
    return int(begins[last_before + 1])
