"""Members of a group that ought to be alike: which of them is slower than the others, since when, how much.

Input are matrices of log latencies, time blocks by members (`PeerGroup`); where they come from (single
operations or sampled series) does not matter here. The test distinguishes three ways to be slow:

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

from whodisk.evidence.thresholds import (
    AGAIN_Z_MIN,
    AT_TIMES_Z_MIN,
    BLOCK_CLIP,
    DAILY_Z_MIN,
    FLEET_MIN,
    LEVEL_Z_MIN,
    PEER_BLOCKS_MIN,
    PEER_CHUNKS,
    PEER_EFFECT_MIN,
    PEER_PART_Z_MIN,
    PEER_PARTS,
    PEER_PARTS_MIN,
    PEER_ROUNDS,
    REFERENCE_LOAD_MIN,
    REFERENCE_RANK,
    ROLE_HOSTS_MIN,
    ROLE_PART_MIN,
    ROLE_SMALL_MAX,
    SLOW_BLOCK,
    SPREAD_FLOOR,
    SPREAD_FLOOR_FEW,
)
from whodisk.evidence.times_of_day import Daily, TimeOfDay, times_of_day
from whodisk.statistics import probability
from whodisk.statistics.draws import drawn_p
from whodisk.statistics.stats import SEED, Bools, Floats, Ints

#: How many values a robust standard deviation of as many is worth (median absolute deviation; Huber, Robust Statistics, 1981).
MAD_EFFICIENCY = 0.37


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
    #: Where the members are; several groups of a host have names of their own. "" = the name.
    host: str = ""
    #: Only the kernel's names say that they are alike: nobody declared it, and no facts are known.
    by_name_only: bool = False


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
    #: Part of its own mean latency that it would not take if it were as its peers are, and where it has a role, as those with that role are.
    cost: float


@dataclass
class Comparison:
    """What comparing gave."""

    slow: list[SlowMember] = field(default_factory=list)
    #: What stands out, but not enough: (group, member, ratio, robust standard deviations).
    near: list[tuple[str, str, float, float]] = field(default_factory=list)
    #: Groups that cannot be compared, and why.
    skipped: list[tuple[str, str]] = field(default_factory=list)
    #: Members judged, and the robust spread (log) of their levels (0: nobody was judged).
    judged: int = 0
    spread: float = 0.0
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


def compare(
    groups: list[PeerGroup], effect_min: float | None = None, *, daily: bool = True, few: bool = False
) -> Comparison:
    """Finds the slow members of all groups, with one spread for all of them.

    `effect_min` is the smallest log ratio that counts (None: PEER_EFFECT_MIN); `daily` says that members ought to be alike at every time of the day, `few` that fewer
    than `FLEET_MIN` of them may say of one that it is slow at times.
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
            _judge(prepared, result, PEER_EFFECT_MIN if effect_min is None else effect_min, few)
    return result


def _trouble(group: PeerGroup) -> str | None:
    observed = np.isfinite(group.latency)
    if (observed.sum(axis=0) >= PEER_BLOCKS_MIN).sum() < 2:
        return "it has no peers that were observed often enough"
    return None


def _judge(prepared: list[_Prepared], result: Comparison, effect_min: float, few: bool) -> None:
    level = np.concatenate([p.level for p in prepared])
    swings = np.concatenate([p.swings for p in prepared], axis=1)
    reference = np.concatenate([p.reference for p in prepared])
    result.judged = int(np.isfinite(level).sum())
    roles = _roles(prepared)
    middle, result.spread = _spread(level, level[reference])
    natural = [_spread(scale, scale) for scale in swings]
    parts = np.concatenate([p.part_swings for p in prepared], axis=1)
    natural_parts = [_spread(part, part) for part in parts]
    natural_daily = _natural_daily(prepared)
    # How large a swing is natural, few peers tell only roughly: tails are heavier by that.
    degrees = min(30.0, MAD_EFFICIENCY * result.judged) if few else None
    for item, by_chance in zip(prepared, _exchange(prepared), strict=True):
        usual = [_usual_swing(own, *fleet) for own, fleet in zip(item.swings, natural, strict=True)]
        result.common[item.group.name] = item.common
        result.ratios[item.group.name] = item.ratios
        for number in np.flatnonzero(np.isfinite(item.level)):
            # What members with this role are on many other hosts, too, is their work.
            role = roles.get(item.group.members[number], 0.0)
            rise = float(item.level[number] - max(0.0, middle, role))
            level_z = rise / math.hypot(result.spread, _standard_error(item.chunks[:, number]))
            swing_z = max((float(s[number]) - m) / w for s, (m, w) in zip(item.swings, usual, strict=True))
            at_times_z = (rise / result.spread + swing_z) / math.sqrt(2.0)
            slow_third = _slow_third(item.chunks[:, number])
            if level_z >= LEVEL_Z_MIN and item.level[number] - role >= effect_min:
                p = max(by_chance[number], natural_p(level_z, result.judged))
                result.slow.append(_member(item, int(number), level_z, True, p, role))
            elif (
                at_times_z >= (AGAIN_Z_MIN if _again(item, int(number), natural_parts) else AT_TIMES_Z_MIN)
                and slow_third - role >= effect_min
                and (few or result.judged >= FLEET_MIN)
            ):
                p = max(by_chance[number], natural_p(at_times_z, result.judged, degrees))
                result.slow.append(_member(item, int(number), at_times_z, False, p, role))
            elif daily := _daily(item, int(number), natural_daily, effect_min, role):
                z, when = daily
                p = natural_p(z, result.judged * len(natural_daily))
                result.slow.append(_member(item, int(number), z, False, p, role, when))
            elif level_z >= LEVEL_Z_MIN - 1 and item.level[number] >= effect_min / 2:
                ratio = math.exp(float(item.level[number]))
                result.near.append((item.group.name, item.group.members[number], ratio, level_z))
    result.slow.sort(key=lambda m: (-m.ratio, m.group, m.member))
    result.near.sort(key=lambda n: (-n[2], n[0], n[1]))


def _roles(prepared: list[_Prepared]) -> dict[str, float]:
    """What a role (a slot that has the same name on every host) costs: the level that a good part of the hosts' members with it reach, and beyond `ROLE_SMALL_MAX` that half
    of them reach: other work costs so much everywhere, or nowhere. None for names that few hosts have."""
    levels: dict[str, list[float]] = {}
    for item in prepared:
        for name, level in zip(item.group.members, item.level.tolist(), strict=True):
            if math.isfinite(level):
                levels.setdefault(name, []).append(level)
    found = {}
    for name, values in levels.items():
        if len(values) >= ROLE_HOSTS_MIN:
            of_a_part, of_half = np.quantile(values, (1 - ROLE_PART_MIN, 0.5)).tolist()
            found[name] = max(0.0, of_half, min(of_a_part, ROLE_SMALL_MAX))
    return found


def _again(item: _Prepared, number: int, natural: list[tuple[float, float]]) -> bool:
    """Whether a member swings more than its peers in most parts of the recording."""
    above = 0
    for own, fleet in zip(item.part_swings, natural, strict=True):
        middle, spread = _usual_swing(own, *fleet)
        above += bool((own[number] - middle) / spread >= PEER_PART_Z_MIN)
    return above >= PEER_PARTS_MIN


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
    item: _Prepared,
    number: int,
    natural: dict[tuple[int, int], tuple[float, float]],
    effect_min: float,
    role: float,
) -> tuple[float, Daily] | None:
    """The time of the day at which a member stands out most of its peers, and by how much; None: at none. What its `role` costs is no part of it."""
    best: tuple[float, Daily] | None = None
    for when in item.daily:
        fleet = natural.get((when.begin_ns, when.end_ns))
        rise = float(when.rise[number])
        # Slower then than its peers, and mostly because of the time.
        if (
            fleet is None
            or not when.mostly[number]
            or not rise >= effect_min / 2
            or when.level[number] - role < effect_min
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
    ratios[:, np.isfinite(ratios).sum(axis=0) < PEER_BLOCKS_MIN] = np.nan
    # One that is beyond the limit in most blocks is that much slower: its blocks are limited around its own median.
    centre = np.nanmedian(ratios, axis=0)
    centre = np.where(centre > BLOCK_CLIP, centre, 0.0)
    clipped = np.clip(ratios - centre, -BLOCK_CLIP, BLOCK_CLIP) + centre
    chunks = _chunks(clipped)
    return _Prepared(
        group=group,
        ratios=ratios,
        common=common,
        chunks=chunks,
        reference=reference & np.isfinite(ratios).any(axis=0),
        level=np.nanmean(chunks, axis=0),
        swings=np.stack([_swing(chunks), _swing(clipped)]),
        part_swings=np.stack([_swing(part) for part in np.array_split(clipped, PEER_PARTS)]),
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
    if known.sum() < PEER_BLOCKS_MIN or np.ptp(x[known]) <= 0:
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
    reference: Bools = fair & (level <= fast + PEER_EFFECT_MIN)
    return reference


def _chunks(ratios: Floats) -> Floats:
    """Means of neighbouring blocks: at most about `PEER_CHUNKS` of them."""
    size = max(1, len(ratios) // PEER_CHUNKS)
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
    return np.where(count >= PEER_BLOCKS_MIN, difference, np.nan)


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


def natural_p(z: float, members: int, degrees: float | None = None) -> float:
    """Probability that any of `members` healthy members stands out so far; tails as heavy as Student's t (None: 10 to 30 degrees of freedom)."""
    degrees = max(10, min(30, members - 1)) if degrees is None else max(2.0, degrees)
    return min(1.0, members * probability.student_above(z, degrees))


def _exchange(prepared: list[_Prepared]) -> list[Floats]:
    """Max-T probability of each member's level when it changes places with its peers in each chunk."""
    generator = np.random.default_rng(SEED)
    largest = np.full(PEER_ROUNDS, -np.inf)
    observed = []
    for item in prepared:
        scores = np.full(len(item.group.members), -np.inf)
        for number in np.flatnonzero(np.isfinite(item.level)):
            peers = item.reference.copy()
            peers[number] = False
            known = np.isfinite(item.chunks[:, number]) & np.isfinite(item.chunks[:, peers]).any(axis=1)
            if known.sum() < PEER_BLOCKS_MIN:
                continue
            # The member itself comes first in its pool.
            pool = np.column_stack((item.chunks[known, number], item.chunks[known][:, peers]))
            scores[number] = _exchanged(pool, largest, generator)
        observed.append(scores)
    return [np.array([drawn_p(largest, float(score)) for score in scores]) for scores in observed]


def _exchanged(pool: Floats, largest: Floats, generator: np.random.Generator) -> float:
    """Standardized sum of the pool's first column; raises `largest` to that of random picks per row."""
    middle = np.nanmean(pool, axis=1)
    spread = math.sqrt(float(np.nansum(np.nanvar(pool, axis=1)))) or 1.0
    width = pool.shape[1]
    picks = generator.integers(0, width, (PEER_ROUNDS, len(pool)))
    drawn = pool[np.arange(len(pool)), picks] - middle
    np.fmax(largest, np.nansum(drawn, axis=1) / spread, out=largest)
    return float((pool[:, 0] - middle).sum()) / spread


def _member(
    item: _Prepared,
    number: int,
    z: float,
    always: bool,
    p_value: float,
    role: float,
    daily: Daily | None = None,
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
        cost=_cost(item.group.latency[:, number][known], series - role),
    )


def steady_member(
    group: str, member: str, peers: int, chunks: Floats, z: float, p_value: float
) -> SlowMember:
    """One that is slower than its peers all the time, from the log ratios to them in chunks of time."""
    low, high = _interval(chunks)
    ratio = math.exp(float(chunks.mean()))
    return SlowMember(
        group=group,
        member=member,
        peers=peers,
        ratio=ratio,
        low=low,
        high=high,
        slow_ratio=math.exp(_slow_third(chunks)),
        always=True,
        z=z,
        p_value=p_value,
        episodes=1,
        slow_share=float((chunks >= SLOW_BLOCK).mean()),
        onset_ns=None,
        daily=None,
        cost=1.0 - 1.0 / ratio,
    )


def _cost(latency: Floats, ratios: Floats) -> float:
    """Of a member's latency (log), the part beyond its peers; where it is quicker than they are counts against that."""
    own = np.exp(latency - float(latency.mean()))
    return float(1.0 - (own * np.exp(-ratios)).sum() / own.sum())


def _interval(chunks: Floats) -> tuple[float, float]:
    picks = np.random.default_rng(SEED).choice(chunks, (2000, len(chunks)))
    low, high = np.percentile(np.exp(picks.mean(axis=1)), [2.5, 97.5])
    return float(low), float(high)


def _onset(series: Floats, begins: Ints) -> int | None:
    """When the member became slow; None = it was so from the begin.

    The moment at which the sum of what exceeds the smallest effect is lowest: before it blocks were
    mostly below, after it mostly above.
    """
    total = np.cumsum(np.clip(series, -BLOCK_CLIP, BLOCK_CLIP) - PEER_EFFECT_MIN)
    last_before = int(np.argmin(total))
    if total[last_before] >= 0 or not PEER_BLOCKS_MIN <= last_before + 1 < len(series):
        return None
    return int(begins[last_before + 1])
