"""`python -m tests.accuracy nulls`: how often each test rejects where there is nothing to find, and how often it finds what there is.

Every test is called through its detector's own function, on worlds of `ground_truth.nulls`; a p value is kept per test, family and seed, so a run that was
stopped goes on where it was. `--decisive` solves small cases as a whole.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ground_truth.nulls import FAMILIES, FLEETS, SPAN_NS, Floats, Ints, World, fleet, pieces, world
from tests.accuracy.referee.intervals import wilson
from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.detectors import (
    blamed_device,
    burst,
    layout,
    met_requests,
    neighbour,
    over_represented,
    shared_vector,
    silent_device,
    slow_host,
    stripe_wait,
    uncached_tail,
)
from whodisk.detectors.device_errors import error_p
from whodisk.detectors.member_tail import stuck_p
from whodisk.detectors.slower_since import FLUSHES, Cells, changes
from whodisk.detectors.thresholds import (
    AT_TIMES_BLOCKS,
    AT_TIMES_REQUESTS,
    ERROR_SLOW_RATIOS,
    HOSTS_MIN,
    NEIGHBOUR_BLOCKS,
    PAUSES_MIN,
    REFERENCE_SEGMENTS,
    SINCE_CELL_MIN,
    STRIPE_HOLDS_UP_MIN,
    STRIPE_SLOW_RATIO,
    STRIPES_MIN,
    TRAIT_ATTRIBUTABLE_MIN,
    TRAIT_BEYOND_MIN,
    TRAIT_COUNT_MIN,
    TRAIT_EPISODES_MIN,
    TRAIT_ROUNDS,
    TRAIT_SAME,
    VECTOR_BLOCKS,
    WATCHED_COST_MAX,
)
from whodisk.evidence import presence
from whodisk.evidence.host_kinds import host_kinds
from whodisk.evidence.level_change import blocks_of, level_change
from whodisk.evidence.matched_groups import matched
from whodisk.evidence.peer_comparison import PeerGroup, compare
from whodisk.evidence.service_times import Served
from whodisk.evidence.thread_stops import Stops, overlaps
from whodisk.evidence.thresholds import (
    FLUSH_OWNER_MIN,
    LEVEL_BLOCKS,
    LEVEL_PLACES,
    MATCHED_BLOCKS,
    MATCHED_CELL_MIN,
    TAIL_BEGIN,
)
from whodisk.evidence.two_levels import two_levels
from whodisk.statistics.coincidence import Intervals, coincidence_p
from whodisk.statistics.stats import (
    Bools,
    TailSplit,
    body_of,
    concentration_p,
    episodes,
    find_split,
    permutation_p,
    same_length_p,
    tail_p,
)
from whodisk.statistics.traits import Items, Rules, strongest
from whodisk.verdict.solve import solve

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "docs/reference/accuracy-nulls.md"
LEVEL = 0.01
#: Bars (DESIGN 10): of 1,000 worlds; between them 10,000 others decide.
PASSES, FAILS = 15, 25
#: Of 10,000 others.
DECIDED = 130
POWER_MIN = 0.9
#: Of 2,000 worlds, solved as whole cases.
DECISIVE_MAX = 10
EPISODES = 30
CHUNK = 50


@dataclass(frozen=True)
class Test:
    """A test of a detector, with the families of worlds that it must bear, and a world in which it has something to find."""

    detector: str
    what: str
    families: tuple[str, ...]
    #: p value in the null world of a family and seed.
    null: Callable[[str, int], float]
    #: p value in a world with an effect of the smallest size that counts, and thirty episodes; None: not simulated.
    power: Callable[[int], float] | None = None


# -- the tests, on worlds -----------------------------------------------------------------------


def _typical(w: World) -> Floats:
    sizes, index = np.unique(w.size_bytes, return_inverse=True)
    return np.array([np.median(w.own_ns[index == number]) for number in range(len(sizes))])[index]


def _traits(w: World, chosen: Ints | np.ndarray) -> dict[str, Any]:
    at = w.offset_bytes
    columns = {
        "device": w.device,
        "size": w.size_bytes,
        "alignment": np.select([at % (1 << 20) == 0, at % 65536 == 0], [1 << 20, 65536], 4096),
        "place": at * 16 // (1 << 30),
        "file": w.program,
        "thread": w.thread,
        "time": w.start_ns * 10 // SPAN_NS,
    }
    return {name: values[chosen].astype(str) for name, values in columns.items()}


def _strongest(w: World, slow: np.ndarray) -> float:
    typical = _typical(w)
    index = np.flatnonzero(slow)
    excess = (w.latency_ns - typical)[index]
    chosen = SimpleNamespace(start_ns=w.start_ns[index], end_ns=w.end_ns[index], excess_ns=excess)
    worst = over_represented._one_of_episodes(chosen, np.ones(len(index), np.bool_))  # type: ignore[arg-type]
    if len(worst) < TRAIT_EPISODES_MIN:
        return 1.0
    kind = np.full(len(w), "read")
    seen = Items(_traits(w, index[worst]), kind[index[worst]], excess[worst])
    usual = Items(_traits(w, np.arange(len(w))), kind, (TAIL_BEGIN - 1) * typical)
    there = np.where(slow, typical, w.latency_ns).astype(np.float64)
    rules = Rules(TRAIT_ROUNDS, TRAIT_ATTRIBUTABLE_MIN, TRAIT_COUNT_MIN, TRAIT_SAME, TRAIT_BEYOND_MIN)
    found = strongest(seen, usual, [np.ones(len(w)), there, there / w.depth()], rules)
    return 1.0 if found is None else found.p_value


def shared_trait(family: str, seed: int) -> float:
    w = world(family, seed)
    return _strongest(w, w.latency_ns > TAIL_BEGIN * _typical(w))


def shared_trait_power(seed: int) -> float:
    """Slow by themselves: 65 % of thirty episodes beyond chance are of one thread in four."""
    w = world("quiet", seed)
    mine = np.isin(w.thread, (0,))
    hit = np.concatenate(
        (w.rng.choice(np.flatnonzero(mine), 22, False), w.rng.choice(np.flatnonzero(~mine), 8, False))
    )
    w.latency_ns[hit] += 20_000_000
    return _strongest(w, w.latency_ns > TAIL_BEGIN * _typical(w))


def _silences(w: World, begin: Ints) -> Intervals:
    thread = w.rng.choice(np.unique(w.thread), len(begin))
    return Intervals(thread, begin, begin + 12_000_000)


def _late(w: World, chosen: np.ndarray) -> Intervals:
    return Intervals(w.thread[chosen], w.start_ns[chosen], w.end_ns[chosen])


def silence(family: str, seed: int) -> float:
    w = world(family, seed)
    late = w.latency_ns > TAIL_BEGIN * _typical(w)
    late |= w.rng.random(len(w)) < 0.03
    held = _silences(w, w.moments(EPISODES))
    w.latency_ns[late] = np.maximum(w.latency_ns[late], 8_000_000)
    return coincidence_p(held, _late(w, late), w.start_ns, 1999)


def silence_power(seed: int) -> float:
    """Half of thirty silences hold an operation up."""
    w = world("stalls", seed)
    at = w.rng.choice(len(w), EPISODES, replace=False)
    held = Intervals(w.thread[at], w.start_ns[at], w.start_ns[at] + 12_000_000)
    w.latency_ns[at[::2]] = 12_000_000
    order = np.argsort(held.begin_ns)
    held = Intervals(held.thread[order], held.begin_ns[order], held.end_ns[order])
    return coincidence_p(held, _late(w, w.latency_ns > TAIL_BEGIN * _typical(w)), w.start_ns, 1999)


def _stops(w: World, begin: Ints, thread: Ints) -> float:
    length = np.full(len(begin), 1_500_000)
    per_stop, _, touched, _ = overlaps((thread, begin, length), (w.thread, w.start_ns, w.latency_ns))
    without = float(np.quantile(w.latency_ns[~touched], 0.99))
    late = (w.latency_ns > without, w.latency_ns > np.median(w.latency_ns) + 0.5 * np.median(length))
    return Stops(
        thread,
        np.array(["w"] * len(thread), dtype=object),
        begin,
        length,
        0.0,
        0.0,
        per_stop,
        np.zeros(len(thread)),
        None,
        0.0,
        without,
        tuple(_late(w, m) for m in late),
        w.start_ns,
    ).p_value


def stops(family: str, seed: int) -> float:
    w = world(family, seed)
    return _stops(w, w.moments(EPISODES), w.rng.choice(np.unique(w.thread), EPISODES))


def stops_power(seed: int) -> float:
    """Thirty stops of 1.5 ms hold up an operation each."""
    w = world("quiet", seed)
    at = np.sort(w.rng.choice(len(w), EPISODES, replace=False))
    w.latency_ns[at] += 1_500_000
    return _stops(w, w.start_ns[at], w.thread[at])


def _present(w: World, begin: Ints, length: Ints, bins: int = 400) -> float:
    place = np.minimum(bins - 1, w.start_ns * bins // SPAN_NS)
    load = presence.Load(
        np.bincount(place, w.latency_ns, bins).astype(np.float64),
        np.bincount(place, minlength=bins).astype(np.float64),
    )
    return presence._p_value(load, begin, length)


def _late_while(w: World, begin: Ints, length: Ints, bins: int = 400) -> float:
    place = np.minimum(bins - 1, w.start_ns * bins // SPAN_NS)
    beyond_ns = float(np.quantile(w.latency_ns, 0.99))
    load = presence.late_load(place, w.latency_ns.astype(np.float64), beyond_ns, bins)
    return presence._p_value(load, begin, length)


def _windows(rng: np.random.Generator, moments: Ints, bins: int = 400) -> tuple[Ints, Ints]:
    there = np.zeros(bins, np.bool_)
    for at in (moments * bins // SPAN_NS).tolist():
        there[at : at + int(rng.integers(1, 8))] = True
    edges = np.flatnonzero(np.diff(np.concatenate(([0], there.astype(np.int8), [0]))))
    return edges[::2], edges[1::2] - edges[::2]


def _inside(w: World, begin: Ints, length: Ints, bins: int = 400) -> np.ndarray:
    """Which operations begin in these windows."""
    there = np.zeros(bins, np.bool_)
    for at, lasting in zip(begin, length, strict=True):
        there[at : at + lasting] = True
    return there[np.minimum(bins - 1, w.start_ns * bins // SPAN_NS)]


def present(family: str, seed: int) -> float:
    w = world(family, seed)
    return _present(w, *_windows(w.rng, np.sort(w.rng.uniform(0, SPAN_NS, 20)).astype(np.int64)))


def present_power(seed: int) -> float:
    """Thirty visits, in which operations take a quarter longer."""
    w = world("quiet", seed)
    begin, length = _windows(w.rng, np.sort(w.rng.uniform(0, SPAN_NS, EPISODES)).astype(np.int64))
    inside = _inside(w, begin, length)
    w.latency_ns[inside] = (w.latency_ns[inside] * 1.25).astype(np.int64)
    return _present(w, begin, length)


def late_presence(family: str, seed: int) -> float:
    w = world(family, seed)
    return _late_while(w, *_windows(w.rng, np.sort(w.rng.uniform(0, SPAN_NS, 20)).astype(np.int64)))


def late_presence_power(seed: int) -> float:
    """Thirty visits, in which one operation in thirty takes ten times as long."""
    w = world("quiet", seed)
    begin, length = _windows(w.rng, np.sort(w.rng.uniform(0, SPAN_NS, EPISODES)).astype(np.int64))
    inside = _inside(w, begin, length) & (w.rng.uniform(size=len(w)) < 1 / 30)
    w.latency_ns[inside] *= 10
    return _late_while(w, begin, length)


def _period(moments: Ints, bins: int = 2000) -> float:
    begin = np.unique(moments * bins // SPAN_NS).astype(np.float64)
    begin = begin[np.concatenate(([True], np.diff(begin) > 1))]
    return burst.period(begin, np.ones(len(begin)), bins)[2]


def period(family: str, seed: int) -> float:
    w = world(family, seed)
    return _period(np.sort(w.rng.uniform(0, SPAN_NS - 1, EPISODES)).astype(np.int64))


def period_power(seed: int) -> float:
    """A regularity of about 0.7, which is the least that accuses."""
    rng = np.random.default_rng([seed, 130])
    step = SPAN_NS / EPISODES
    at = (np.arange(EPISODES) + 0.5) * step + rng.normal(0, 0.12 * step, EPISODES)
    return _period(np.sort(at.clip(0, SPAN_NS - 1)).astype(np.int64))


def _tail_of(w: World) -> tuple[TailSplit | None, np.ndarray]:
    """Where the tail of a world splits, and the ratios beyond, in order of time."""
    every = w.own_ns / _typical(w)
    values, counts = _histogram(every)
    body = body_of(values, counts)
    beyond = values > max(TAIL_BEGIN, body.quartile)
    if not beyond.any():
        return None, every[:0]
    split = find_split(values[beyond], counts[beyond], body, max(TAIL_BEGIN, body.quartile))
    return split, every[:0] if split is None else every[every > split.limit]


def _tail_of_few(ratio: np.ndarray) -> tuple[TailSplit | None, np.ndarray]:
    """The same of ratios that are all looked at."""
    values, counts = _histogram(ratio)
    split = find_split(values, counts, body_of(values, counts), TAIL_BEGIN)
    return split, ratio[:0] if split is None else ratio[ratio > split.limit]


def _histogram(ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, counts = np.unique(np.floor(np.log2(ratio) * 64), return_counts=True)
    return np.exp2((values + 0.5) / 64), counts


def natural_tail(family: str, seed: int) -> float:
    split, beyond = _tail_of(world(family, seed))
    return 1.0 if split is None else tail_p(split, beyond)


def one_length(family: str, seed: int) -> float:
    split, beyond = _tail_of(world(family, seed))
    return 1.0 if split is None or len(beyond) == 0 else same_length_p(beyond, 1e-6)


def one_length_power(seed: int) -> float:
    """Twelve of a hundred operations that take 28 ms longer, in a tail that is heavy."""
    w = world("quiet", seed)
    own_ns = 300e3 * np.exp(w.rng.normal(0, 0.9, 104))
    own_ns[:12] = 28e6 + w.rng.uniform(0, 500e3, 12)
    split, beyond = _tail_of_few(own_ns / 300e3)
    return 1.0 if split is None else same_length_p(beyond, 1e-6)


def tail_power(seed: int) -> float:
    """Thirty operations that take twenty times as long as is typical."""
    w = world("quiet", seed)
    w.own_ns[w.rng.choice(len(w), EPISODES, replace=False)] *= 20
    split, beyond = _tail_of_few(w.own_ns / 300e3)
    return 1.0 if split is None else tail_p(split, beyond)


def bunched(family: str, seed: int) -> float:
    w = world(family, seed)
    slow = np.flatnonzero(w.rng.random(len(w)) < 0.02)
    latency = w.rng.uniform(4e6, 16e6, len(slow)).astype(np.int64)
    start = w.start_ns[slow]
    return concentration_p(episodes(start, start + latency), start, latency, w.start_ns)


def bunched_power(seed: int) -> float:
    """Five pauses of 60 ms."""
    w = world("quiet", seed)
    for at in w.rng.uniform(0, SPAN_NS - 10**8, 5).astype(np.int64):
        late = (w.start_ns >= at) & (w.start_ns < at + 60_000_000)
        w.latency_ns[late] += at + 60_000_000 - w.start_ns[late]
    slow = w.latency_ns > 4_000_000
    start, latency = w.start_ns[slow], w.latency_ns[slow]
    return concentration_p(episodes(start, start + latency), start, latency, w.start_ns)


def _stuck(w: World, slow: np.ndarray) -> float:
    devices = np.unique(w.device)
    requests = np.array([(w.device == d).sum() for d in devices], np.float64)
    each = np.array([np.median(w.latency_ns[w.device == d]) for d in devices])
    found = np.array(
        [
            0
            if not (slow & (w.device == d)).any()
            else episodes(w.start_ns[slow & (w.device == d)], w.end_ns[slow & (w.device == d)]).max() + 1
            for d in devices
        ],
        np.float64,
    )
    return min(stuck_p(found, requests, requests * each, number) for number in range(len(devices)))


def stuck(family: str, seed: int) -> float:
    w = world(family, seed)
    # Pauses of single devices, each as often, whatever they have to do.
    for at in w.rng.uniform(0, SPAN_NS - 10**8, 40).astype(np.int64):
        there = (w.device == w.rng.integers(4)) & (w.start_ns < at + 20_000_000) & (w.end_ns > at)
        w.latency_ns[there] += 20_000_000
    return _stuck(w, w.latency_ns > 2 * _typical(w))


def stuck_power(seed: int) -> float:
    """One of four devices pauses thirty times, each of the others eight times. (Twice as often, the least that accuses, cannot be shown with thirty: p = 0.01.)"""
    w = world("quiet", seed, devices=4)
    w.device = w.rng.integers(0, 4, len(w))
    slow = np.zeros(len(w), np.bool_)
    for device, count in ((0, EPISODES), (1, 8), (2, 8), (3, 8)):
        mine = np.flatnonzero(w.device == device)
        slow[w.rng.choice(mine, min(count, len(mine)), replace=False)] = True
    return _stuck(w, slow)


def member(family: str, seed: int) -> float:
    w = world(family, seed, devices=6)
    blocks = 84
    value = np.log(np.clip(w.latency_ns / _typical(w), 1 / 8, 8))
    place = np.minimum(blocks - 1, w.start_ns * blocks // SPAN_NS) * 6 + w.device
    count = np.bincount(place, minlength=blocks * 6)
    with np.errstate(invalid="ignore"):
        mean = np.where(count >= 3, np.bincount(place, value, blocks * 6) / count, np.nan).reshape(blocks, 6)
    group = PeerGroup("sd", [str(n) for n in range(6)], mean, mean * np.nan, np.arange(blocks))
    return min((m.p_value for m in compare([group]).slow), default=1.0)


def _groups(kind: str, seed: int) -> list[PeerGroup]:
    made = fleet(kind, seed)
    begin = np.arange(made.latency.shape[1]) * 3_600_000_000_000
    return [
        PeerGroup(f"host{n}", [f"disk{d}" for d in range(made.latency.shape[2])], one, load, begin)
        for n, (one, load) in enumerate(zip(made.latency, made.load, strict=True))
    ]


def drive(kind: str, seed: int) -> float:
    found = compare(_groups(kind, seed))
    return min((m.p_value for m in found.slow if m.cost >= WATCHED_COST_MAX), default=1.0)


def drive_power(seed: int) -> float:
    """A drive that is 20 % slower than its peers."""
    groups = _groups("plain", seed)
    groups[3].latency[:, 2] += np.log(1.2)
    return min((m.p_value for m in compare(groups).slow if m.group == "host3"), default=1.0)


def _host(groups: Sequence[PeerGroup]) -> float:
    latency = np.stack([np.median(g.latency, axis=1) for g in groups], axis=1)
    load = np.stack([np.median(g.load, axis=1) for g in groups], axis=1)
    level = latency - slow_host._explained(latency, load)
    best = 1.0
    kinds, _ = host_kinds(slow_host._facts(list(groups), level, load))
    for kind in kinds:
        hosts = kind.hosts
        if len(hosts) < HOSTS_MIN:
            continue
        names = [groups[n].name for n in hosts]
        found = [
            *slow_host._became_slow(names, level[:, hosts], groups[0].begin_ns).slow,
            *slow_host._are_slow(names, level[:, hosts], np.isin(hosts, kind.usual)).slow,
        ]
        best = min([best, *(min(1.0, 2 * m.p_value) for m in found)])
    return best


def host(kind: str, seed: int) -> float:
    return _host(_groups(kind, seed))


def host_power(seed: int) -> float:
    """A host all of whose drives are 1.4 times as slow."""
    groups = _groups("plain", seed)
    groups[3].latency[:] += np.log(1.4)
    return _host(groups)


def _guest(w: World, begun: Ints) -> float:
    classes = np.floor(np.log2(w.size_bytes)).astype(np.int64) * 64 + np.floor(
        np.log2(np.maximum(w.depth(), 1))
    ).astype(np.int64)
    _, kind = np.unique(classes, return_inverse=True)
    block = np.minimum(NEIGHBOUR_BLOCKS - 1, w.start_ns * NEIGHBOUR_BLOCKS // SPAN_NS)
    operations = neighbour.Operations(
        w.start_ns,
        w.latency_ns.astype(np.float64),
        w.latency_ns.astype(np.float64),
        kind.astype(np.int64),
        block,
    )
    near = neighbour._near(operations, "guest", begun, 300e3)
    return 1.0 if near is None else near.mean_p


def guest(family: str, seed: int) -> float:
    w = world(family, seed)
    return _guest(w, np.sort(np.concatenate((w.moments(100), w.rng.integers(0, SPAN_NS, 400)))))


def guest_power(seed: int) -> float:
    """Operations that begin within a typical request after one of the guest's take 40 % longer: 5 % of all latency."""
    w = world("quiet", seed)
    begun = np.sort(w.rng.choice(w.start_ns, 800, replace=False)) - 100_000
    since = w.start_ns - begun[np.searchsorted(begun, w.start_ns, side="right").clip(1) - 1]
    near = (since >= 0) & (since < 600_000)
    w.latency_ns[near] = (w.latency_ns[near] * 1.4).astype(np.int64)
    return _guest(w, begun)


def _met(w: World, other: Bools) -> float:
    """Of a world the requests `other` are another program's."""
    mine = ~other
    sizes = np.floor(np.log2(w.size_bytes)).astype(np.int64)
    begin, end = w.start_ns[mine], w.end_ns[mine]
    in_flight = np.arange(len(begin)) - np.searchsorted(np.sort(end), begin, side="right")
    kind = sizes[mine] * 64 + np.ceil(np.log2(in_flight + 1)).astype(np.int64)
    waited = met_requests.Waited(np.flatnonzero(mine), begin, end, kind)
    block = np.minimum(NEIGHBOUR_BLOCKS - 1, begin * NEIGHBOUR_BLOCKS // SPAN_NS)
    found = met_requests.met(waited, block, w.start_ns[other], w.end_ns[other], np.sort(w.end_ns))
    return 1.0 if found is None else found.p_value


def met(family: str, seed: int) -> float:
    """A third of the requests are another program's; all are as slow as they would be without it."""
    w = world(family, seed)
    return _met(w, w.rng.random(len(w)) < 1 / 3)


def met_power(seed: int) -> float:
    """A drive that serves one after the other: requests that find some of the other program's, which come four at once ten times a second, wait for these."""
    w = world("quiet", seed)
    begun = np.sort(w.rng.integers(0, SPAN_NS, SPAN_NS // 10**8))
    start = np.concatenate((w.start_ns, np.repeat(begun, 4)))
    other = np.repeat([False, True], [len(w), len(start) - len(w)])
    order = np.argsort(start, kind="stable")
    takes = np.concatenate((w.own_ns, np.full(4 * len(begun), 150e3)))[order]
    start, other = start[order], other[order]
    end, free = np.zeros(len(start), np.int64), 0
    for number, (at, needs) in enumerate(zip(start.tolist(), takes.tolist(), strict=True)):
        end[number] = free = max(at, free) + int(needs)
    both = replace(w, start_ns=start, latency_ns=end - start, size_bytes=np.full(len(start), 4096))
    return _met(both, other)


def _after_data(w: World, other: Bools, flush: Bools) -> float:
    """Of a world the writes `other` are another program's; operations that `flush` make durable what ended before them, since the flush before."""
    writes = ~flush
    ended = np.argsort(w.end_ns[writes], kind="stable")
    at, size, its = w.end_ns[writes][ended], w.size_bytes[writes][ended], other[writes][ended]
    begin, end = w.start_ns[flush], w.end_ns[flush]
    last = np.searchsorted(at, begin, side="right")
    first = np.append(0, last[:-1])
    sums = [np.append(0, np.cumsum(size * chosen)) for chosen in (its, ~its)]
    its_bytes, other_bytes = (of[last] - of[first] for of in sums)
    flushes = met_requests.Flushes(
        np.flatnonzero(flush),
        begin,
        end,
        np.floor(np.log2(np.maximum(other_bytes, 1))).astype(np.int64),
        np.asarray(its_bytes > FLUSH_OWNER_MIN * (its_bytes + other_bytes), np.bool_),
        np.zeros(len(begin), np.bool_),
    )
    block = np.minimum(NEIGHBOUR_BLOCKS - 1, begin * NEIGHBOUR_BLOCKS // SPAN_NS)
    found = met_requests.flushed_after(flushes, block)
    return 1.0 if found is None else found.p_value


def after_data(family: str, seed: int) -> float:
    """A third of the operations are flushes, a third another program's writes; flushes are as slow as they would be without these."""
    w = world(family, seed)
    turn = w.rng.random(len(w))
    return _after_data(w, turn < 1 / 3, turn > 2 / 3)


def after_data_power(seed: int) -> float:
    """A flush after a write of the other program, of which there are 300, takes twice as long."""
    w = world("quiet", seed)
    flush = np.asarray(w.rng.random(len(w)) > 0.5, np.bool_)
    other = np.zeros(len(w), np.bool_)
    other[w.rng.choice(np.flatnonzero(~flush), 300, replace=False)] = True
    next_flush = np.searchsorted(w.start_ns[flush], w.end_ns[other])
    slow = np.flatnonzero(flush)[next_flush[next_flush < flush.sum()]]
    w.latency_ns[slow] *= 2
    w.size_bytes[other] = 1 << 20
    return _after_data(w, other, flush)


def errors(family: str, seed: int) -> float:
    w = world(family, seed)
    times = np.sort(np.concatenate((w.moments(15), w.rng.integers(0, SPAN_NS, 15))))
    return _errors(w, times)


def _errors(w: World, times: Ints) -> float:
    found = [1.0]
    for ratio in ERROR_SLOW_RATIOS:
        slow = w.latency_ns > ratio * np.median(w.latency_ns)
        if slow.any():
            p_value = error_p(times, w.start_ns[slow], w.end_ns[slow] + 10**6, w.start_ns, (0, SPAN_NS))
            found.append(len(ERROR_SLOW_RATIOS) * p_value)
    return min(found)


def errors_power(seed: int) -> float:
    """Half of thirty errors fall into slow operations."""
    w = world("heavy_tails", seed)
    slow = w.latency_ns > max(ERROR_SLOW_RATIOS) * np.median(w.latency_ns)
    at = w.rng.choice(np.flatnonzero(slow), EPISODES // 2, replace=False)
    times = np.sort(np.concatenate((w.start_ns[at] + 10**5, w.rng.integers(0, SPAN_NS, EPISODES // 2))))
    return _errors(w, times)


def pauses(family: str, seed: int) -> float:
    w = world(family, seed, operations=8000)
    depth = np.minimum(7, np.floor(np.log2(w.depth())).astype(np.int64))
    found = silent_device.find_pauses(
        silent_device.Requests(
            w.start_ns,
            w.end_ns,
            np.floor(np.log2(w.size_bytes)).astype(np.int64) * silent_device.DEPTHS + depth,
        )
    )
    return found.p_value if len(found) >= PAUSES_MIN else 1.0


def _placed(data: dict[str, Any]) -> float:
    begin, size = data["disk_offset"], data["disk_bytes"]
    distance = np.concatenate(([0], np.abs(begin[1:] - (begin + size)[:-1])))
    end = data["start_ns"] + data["latency_ns"]
    served = Served(
        "sda", data["request"], np.full(len(end), "a"), np.ones(len(end), np.bool_), np.full(len(end), "read"), data["start_ns"], end,
        np.concatenate(([False], distance[1:] == 0)), distance, data["latency_ns"].astype(np.float64),
    )  # fmt: skip
    found = layout._layout(data, served)
    return 1.0 if found is None else found.p_value


def placed(family: str, seed: int) -> float:
    return _placed(pieces(seed, family == "here and there"))


def placed_power(seed: int) -> float:
    """Thirty breaks that cost 4 ms each."""
    data = pieces(seed, False)
    data["disk_offset"] = np.arange(3000) * 4096 + np.arange(3000) // 100 * 10**6
    data["latency_ns"] = data["latency_ns"] + np.where(np.arange(3000) % 100 == 0, 4_000_000, 0)
    data["start_ns"] = np.cumsum(data["latency_ns"] + 20_000) - data["latency_ns"]
    return _placed(data)


def level(family: str, seed: int) -> float:
    """Of a world, or of a level that drifts or walks at random."""
    rng = np.random.default_rng([seed, 131])
    load = np.ones(LEVEL_BLOCKS)
    if family == "drift":
        values = np.linspace(0, rng.uniform(0.2, 1.0), LEVEL_BLOCKS) + rng.normal(0, 0.03, LEVEL_BLOCKS)
    elif family == "random walk":
        values = np.cumsum(rng.normal(0, 0.1, LEVEL_BLOCKS))
    else:
        values, load = _levels(world(family, seed))
    found = level_change(values, load)
    return 1.0 if found is None else found.p_value


def _levels(w: World) -> tuple[Floats, Floats]:
    block_of = blocks_of(w.start_ns, 0, SPAN_NS)
    block = block_of[np.minimum(LEVEL_PLACES - 1, w.start_ns * LEVEL_PLACES // SPAN_NS)]
    logs = np.log(w.latency_ns / _typical(w))
    values = np.full(LEVEL_BLOCKS, np.nan)
    for number in range(LEVEL_BLOCKS):
        if (block == number).sum() >= SINCE_CELL_MIN:
            values[number] = np.median(logs[block == number])
    places = np.bincount(block_of, minlength=LEVEL_BLOCKS)
    return values, np.bincount(block, minlength=LEVEL_BLOCKS) / np.maximum(1.0, places)


def at_times(family: str, seed: int) -> float:
    """Of a world, or of a level that drifts or walks at random."""
    rng = np.random.default_rng([seed, 132])
    count = AT_TIMES_BLOCKS
    if family == "drift":
        found = two_levels(
            np.linspace(0, rng.uniform(0.2, 1.0), count) + rng.normal(0, 0.03, count), np.ones(count)
        )
    elif family == "random walk":
        found = two_levels(np.cumsum(rng.normal(0, 0.1, count)), np.ones(count))
    else:
        found = two_levels(*_parts(world(family, seed)))
    return 1.0 if found is None else found.p_value


def _parts(w: World) -> tuple[Floats, Floats]:
    """Mean log time and requests of each part of the time."""
    count = int(min(AT_TIMES_BLOCKS, len(w.start_ns) // AT_TIMES_REQUESTS))
    block = np.minimum(count - 1, w.start_ns * count // SPAN_NS)
    load = np.bincount(block, minlength=count).astype(np.float64)
    sums = np.bincount(block, np.log(w.latency_ns / _typical(w)), count)
    return np.where(load > 0, sums / np.maximum(load, 1.0), np.nan), load


def at_times_power(seed: int) -> float:
    """Ten times, for a third of the time, half as long again."""
    w = world("quiet", seed)
    warm = w.start_ns % (SPAN_NS // 10) < SPAN_NS // 30
    w.latency_ns[warm] = (w.latency_ns[warm] * 1.5).astype(np.int64)
    found = two_levels(*_parts(w))
    return 1.0 if found is None else found.p_value


def level_power(seed: int) -> float:
    """From a moment on, to the end, half as long again (one change: it has no episodes)."""
    w = world("quiet", seed)
    late = w.start_ns > 0.4 * SPAN_NS
    w.latency_ns[late] = (w.latency_ns[late] * 1.5).astype(np.int64)
    found = level_change(*_levels(w))
    return 1.0 if found is None else found.p_value


def _flushed(w: World, transaction: np.ndarray, slower: np.ndarray) -> float:
    """Of a world of writes, each `transaction` of which (a number per write, ascending) is made durable by a flush. That takes the longer the more was written,
    and `slower` times as long (a number per transaction)."""
    first = np.flatnonzero(np.diff(transaction, prepend=-1))
    start = np.append(w.start_ns[first[1:]], w.start_ns[-1])
    written, writes = np.bincount(transaction, w.size_bytes), np.bincount(transaction)
    took = np.maximum(1.0, w.own_ns[first] / _typical(w)[first] * 100e3 * (written / 4096) ** 0.7 * slower)
    block_of = blocks_of(start, 0, SPAN_NS)
    place = np.minimum(LEVEL_PLACES - 1, start * LEVEL_PLACES // SPAN_NS)
    size = np.floor(np.log2(written)).astype(np.int64)
    kinds, of = np.unique(np.stack((block_of[place], size)), axis=1, return_inverse=True)
    each = np.maximum(1.0, np.bincount(of.ravel()))
    length = np.maximum(1.0, np.bincount(block_of, minlength=LEVEL_BLOCKS) * (SPAN_NS / LEVEL_PLACES))
    cells = Cells(
        device=np.full(len(each), "sda"),
        op=np.full(len(each), "flush"),
        size=kinds[1],
        block=kinds[0],
        value=np.array([np.median(np.log(took[of.ravel() == number])) for number in range(len(each))]),
        count=each,
        written=np.bincount(of.ravel(), written) / each,
        writes=np.bincount(of.ravel(), writes) / each,
        length_ns=length,
        begin_ns=(np.cumsum(length) - length).astype(np.int64),
    )
    of_write = block_of[np.minimum(LEVEL_PLACES - 1, w.start_ns * LEVEL_PLACES // SPAN_NS)]
    beside = (
        np.bincount(of_write, minlength=LEVEL_BLOCKS) / length,
        np.bincount(of_write, w.size_bytes, LEVEL_BLOCKS) / length,
    )
    found, _ = changes(cells, ["sda"], FLUSHES, {"sda": beside})
    return min((since.change.p_value for since in found), default=1.0)


def flushed(family: str, seed: int) -> float:
    """Transactions of one to eight writes, and in two thirds of the worlds more from a moment on: two to twenty times as many."""
    w = world("quiet" if family == "larger" else family, seed)
    rng = np.random.default_rng([seed, 133])
    at = rng.uniform(0.2, 0.8)
    lengths: list[int] = []
    more = rng.uniform(2, 20) if family == "larger" or seed % 3 else 1.0
    while (reached := sum(lengths)) < len(w.start_ns):
        late = w.start_ns[reached] > at * SPAN_NS
        lengths.append(int(rng.integers(1, 9) * (more if late else 1.0)))
    number = np.repeat(np.arange(len(lengths)), lengths)[: len(w.start_ns)]
    return _flushed(w, number, np.ones(int(number[-1]) + 1))


def flushed_power(seed: int) -> float:
    """Transactions of three writes; from a moment on, to the end, a flush takes half as long again."""
    w = world("quiet", seed)
    number = np.arange(len(w.start_ns)) // 3
    start = w.start_ns[np.flatnonzero(np.diff(number, prepend=-1))]
    return _flushed(w, number, np.where(start > 0.4 * SPAN_NS, 1.5, 1.0))


def _groups_p(w: World, group: np.ndarray) -> float:
    block = np.minimum(MATCHED_BLOCKS - 1, w.start_ns * MATCHED_BLOCKS // SPAN_NS)
    depth = np.floor(np.log2(np.maximum(w.depth(), 1))).astype(np.int64)
    size = np.log2(w.size_bytes).astype(np.int64)
    _, cell = np.unique(np.stack((block, w.device, size, depth)), axis=1, return_inverse=True)
    logs = np.log(np.maximum(w.latency_ns, 1))
    rows = []
    for number in range(int(cell.max()) + 1):
        here = np.flatnonzero(cell.ravel() == number)
        one, other = logs[here[group[here]]], logs[here[~group[here]]]
        if min(len(one), len(other)) >= MATCHED_CELL_MIN:
            rows.append((block[here[0]], len(one), len(other), np.median(one) - np.median(other)))
    if not rows:
        return 1.0
    at, n_one, n_other, difference = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    found = matched(at.astype(np.int64), n_one, n_other, difference)
    return 1.0 if found is None else found.p_value


def groups(family: str, seed: int) -> float:
    w = world(family, seed)
    return _groups_p(w, w.rng.random(len(w)) < 0.5)


def groups_power(seed: int) -> float:
    """Half of the operations take a fifth longer, the least that accuses."""
    w = world("quiet", seed)
    group = w.rng.random(len(w)) < 0.5
    w.latency_ns[group] = (w.latency_ns[group] * 1.2).astype(np.int64)
    return _groups_p(w, group)


def _stripes(w: World, members: Floats) -> float:
    """Stripes of four members each, which end in so many ns: whom the slow ones waited for."""
    latency = members.max(axis=1)
    latest = members.argmax(axis=1)
    slow = np.flatnonzero(latency >= STRIPE_SLOW_RATIO * np.median(latency))
    if len(slow) < STRIPES_MIN:
        return 1.0
    start = w.start_ns[slow]
    order = np.argsort(start)
    numbers = episodes(start[order], (start + latency[slow].astype(np.int64))[order])
    counts = np.bincount(latest[slow], minlength=4)
    mine = latest[slow][order] == counts.argmax()
    if counts.max() < min(STRIPE_HOLDS_UP_MIN / 4, (1 + 1 / 4) / 2) * len(slow):
        return 1.0
    return stripe_wait.held_up(numbers, mine, 1 / 4, 4)[1]


def _members(w: World) -> Floats:
    """What each of four members takes of a stripe: as long as the operation, give or take, and none longer than the others."""
    return np.asarray(w.latency_ns[:, None] * np.exp(w.rng.normal(0, 0.3, (len(w), 4))), np.float64)


def stripes(family: str, seed: int) -> float:
    w = world(family, seed)
    return _stripes(w, _members(w))


def stripes_power(seed: int) -> float:
    """One of four members is the last one of eight in ten of thirty slow stripes, ten times as late as is typical; nothing else is slow."""
    w = world("quiet", seed)
    members = 300e3 * np.exp(w.rng.normal(0, 0.1, (len(w), 4)))
    at = w.rng.choice(len(w), EPISODES, replace=False)
    members[at, np.where(w.rng.random(EPISODES) < 0.8, 0, w.rng.integers(0, 4, EPISODES))] *= 10
    return _stripes(w, members)


#: Parts of a read that is not in the cache: from and to, as parts of it, by family.
MISSES = {"short misses": (0.02, 0.2), "half misses": (0.3, 0.6), "long misses": (0.6, 0.9)}


def _missed(read_bytes: int, begin: Ints, length: Ints, reads: int) -> float:
    places, count = np.unique(np.stack((begin, length)), axis=1, return_counts=True)
    waits = {
        "at_bytes": places[0],
        "size_bytes": places[1],
        "waited": count,
        "wait_ns": count * 1e6,
        "tiers": np.full(len(count), "device"),
    }
    tails = uncached_tail._tails(read_bytes, reads, waits)
    return min((uncached_tail._p_value(tail, tail.waited) for tail in tails), default=1.0)


def missed(family: str, seed: int) -> float:
    """Every read misses a part of itself, anywhere in it."""
    rng = np.random.default_rng([seed, sorted(MISSES).index(family), 123])
    pages, reads = 256, 400
    length = np.maximum(1, (rng.uniform(*MISSES[family], reads) * pages).astype(np.int64))
    begin = (rng.random(reads) * (pages - length + 1)).astype(np.int64)
    return _missed(pages * 4096, begin * 4096, length * 4096, reads)


def missed_power(seed: int) -> float:
    """Thirty reads of 1 MiB miss their last 64 KiB each time."""
    return _missed(1 << 20, np.full(EPISODES, (1 << 20) - 65536), np.full(EPISODES, 65536), EPISODES)


def _behind_handlers(w: World, foreign_ns: Floats) -> float:
    """Operations complete on two CPUs; on the first one handlers of another device run, `foreign_ns` of each operation's time in interrupts."""
    cpu = w.rng.integers(0, 2, len(w))
    block = np.minimum(VECTOR_BLOCKS - 1, w.start_ns * VECTOR_BLOCKS // SPAN_NS)
    interrupt = 3_000 * np.exp(w.rng.normal(0, 0.4, len(w))) * (w.own_ns / np.median(w.own_ns)) ** 0.2
    foreign = np.where(cpu == 0, foreign_ns, 0.0)
    loads = []
    for number in range(2):
        for at in range(VECTOR_BLOCKS):
            here = (cpu == number) & (block == at)
            if here.any():
                whole = float((interrupt + foreign)[here].sum())
                loads.append(
                    shared_vector.Load(
                        "nvme0n1", 40, number, at, int(here.sum()), whole, float(foreign[here].sum())
                    )
                )
    handler = shared_vector.Handler("other", 41, 0, "nvme1n1", 1000, 1e6, 1e3)
    own = shared_vector.Handler("nvme0n1", 40, 0, "nvme0n1", 1000, 1e6, 1e3)
    cost = shared_vector._cost([handler], [handler, own], loads)
    return 1.0 if cost is None else cost.p_value


def handlers(family: str, seed: int) -> float:
    """The handlers cost as much as interrupts take on the other CPU, and no more."""
    w = world(family, seed)
    return _behind_handlers(w, 3_000 * np.exp(w.rng.normal(0, 0.4, len(w))))


def handlers_power(seed: int) -> float:
    """Handlers that cost each operation twice what its interrupt takes elsewhere."""
    w = world("quiet", seed)
    return _behind_handlers(w, np.full(len(w), 6_500.0))


def _owned(w: World, slow: np.ndarray) -> float:
    if not slow.any():
        return 1.0
    start, end = w.start_ns[slow], w.end_ns[slow]
    numbers = episodes(start, end)
    held = np.zeros((int(numbers.max()) + 1, 4))
    np.add.at(held, (numbers, w.device[slow]), (w.latency_ns - _typical(w))[slow])
    owned = np.bincount(np.argmax(held, axis=1), minlength=4)
    operations = {str(d): int((w.device == d).sum()) for d in range(4)}
    busy = {str(d): float(_typical(w)[w.device == d].sum()) for d in range(4)}
    return blamed_device.owner_p(owned, np.bincount(numbers), str(int(owned.argmax())), operations, busy)


def owned(family: str, seed: int) -> float:
    w = world(family, seed)
    return _owned(w, w.latency_ns > TAIL_BEGIN * _typical(w))


def owned_power(seed: int) -> float:
    """Two thirds of thirty slow operations are of one of four devices, each an episode of its own."""
    w = world("quiet", seed)
    part = w.start_ns * EPISODES // SPAN_NS
    of_one = np.repeat([True, False], [EPISODES * 2 // 3, EPISODES // 3])
    parts = w.rng.permutation(EPISODES)
    hit = [
        int(w.rng.choice(there))
        for number, mine in zip(parts, of_one, strict=True)
        if len(there := np.flatnonzero((part == number) & ((w.device == 0) == mine)))
    ]
    w.latency_ns[hit] += 20_000_000
    return _owned(w, w.latency_ns > 10 * _typical(w))


def _segments_of(w: World, typical: float) -> Floats:
    place = np.minimum(REFERENCE_SEGMENTS - 1, w.start_ns * REFERENCE_SEGMENTS // SPAN_NS)
    value = np.log(np.maximum(w.latency_ns, 1) / _typical(w)) + np.log(typical)
    count = np.bincount(place, minlength=REFERENCE_SEGMENTS)
    return (np.bincount(place, value, REFERENCE_SEGMENTS) / np.maximum(count, 1))[count > 0]


def against(family: str, seed: int) -> float:
    """Two runs of one world."""
    return permutation_p(
        _segments_of(world(family, seed), 1.0), _segments_of(world(family, seed + 10**6), 1.0)
    )


def against_power(seed: int) -> float:
    """The second run takes a tenth longer (eight segments each: it has no episodes)."""
    return permutation_p(
        _segments_of(world("quiet", seed), 1.1), _segments_of(world("quiet", seed + 10**6), 1.0)
    )


ALL = tuple(FAMILIES)
NO_STALLS = tuple(name for name, family in FAMILIES.items() if not family.stalls)
TESTS: dict[str, Test] = {
    "over_represented": Test("over_represented", "what slow episodes share", ALL, shared_trait, shared_trait_power),
    "silences": Test("submitter_gap", "late operations lie in silences", ALL, silence, silence_power),
    "stops": Test("submitter_gap, cpu_delay", "slow operations lie in stops", ALL, stops, stops_power),
    "presence": Test("background_work, stolen_cpu", "slower while something is there", ALL, present, present_power),
    "late presence": Test("background_work, stolen_cpu", "more are late while something is there", ALL, late_presence, late_presence_power),
    "period": Test("burst", "stalls have a period", ALL, period, period_power),
    "tail": Test("stage_blame, silent_device", "a group apart from the natural tail", ALL, natural_tail, tail_power),
    "same length": Test(
        "stage_blame, slow_requests",
        "a group apart is of one length",
        ALL,
        one_length,
        one_length_power,
    ),
    "bunching": Test("stage_blame", "slow operations have an event in common", ALL, bunched, bunched_power),
    "stuck": Test("member_tail", "one device is stuck more often", ALL, stuck, stuck_power),
    "member": Test("slow_member", "one device is slower, operation by operation", ALL, member),
    "drives": Test("slow_member_sampled", "one drive is slower, sampled", tuple(FLEETS), drive, drive_power),
    "hosts": Test("slow_host", "one host is slower, sampled", tuple(FLEETS), host, host_power),
    "guest": Test("neighbour", "slower soon after another program's requests", ALL, guest, guest_power),
    "met": Test("met_requests", "slower beside another program's requests in the device", ALL, met, met_power),
    "after data": Test(
        "met_requests", "flushes slower after mostly another program's data", ALL, after_data, after_data_power
    ),
    "errors": Test("device_errors", "errors fall into slow operations", ALL, errors, errors_power),
    "pauses": Test("silent_device", "all requests under way stand still", NO_STALLS, pauses),
    "layout": Test("layout", "breaks cost time", ("here and there", "in order"), placed, placed_power),
    "level": Test("slower_since", "slower from a moment on", (*ALL, "drift", "random walk"), level, level_power),
    "flush level": Test("slower_since", "flushes slower from a moment on", (*ALL, "larger"), flushed, flushed_power),
    "at times": Test("slower_at_times", "slower in windows of time", (*ALL, "drift", "random walk"), at_times, at_times_power),
    "stripes": Test("stripe_wait", "slow stripes wait for one member", ALL, stripes, stripes_power),
    "missed": Test("uncached_tail", "reads miss the same part each time", tuple(MISSES), missed, missed_power),
    "handlers": Test("shared_vector", "handlers of others cost more than interrupts do", ALL, handlers, handlers_power),
    "owned": Test("blamed_device", "slow episodes are of one device", ALL, owned, owned_power),
    "against": Test("stage_blame (--against)", "one of two runs takes longer", ALL, against, against_power),
    "groups": Test("misaligned, far_node", "one of two matched groups takes longer", ALL, groups, groups_power),
}  # fmt: skip


# -- whole cases --------------------------------------------------------------------------------


def wrong_findings(family: str, seed: int, folder: Path) -> list[str]:
    """What `solve` says of a small world as a case, and should not: findings other than those of the stalls that are really there."""
    path = write_world(world(family, seed, operations=3000), folder)
    wrong = []
    for finding in solve(path).findings:
        there = finding.culprit.kind == "stage" and bool(FAMILIES[family].stalls)
        if finding.basis != "measured" and not there:
            wrong.append(f"{finding.detector}: {finding.culprit.kind} {finding.culprit.name}")
    return wrong


def write_world(w: World, path: Path) -> Path:
    """A world as a sealed case: its operations, and the request below each; four drives of one model."""
    names = np.array([f"nvme{number}n1" for number in range(4)])
    count = np.arange(len(w))
    common = {
        "start_ns": w.start_ns,
        "op": ["read"] * len(w),
        "device": names[w.device],
        "comm": np.array([f"worker-{p}" for p in range(8)])[w.program],
        "size_bytes": w.size_bytes,
        "offset_bytes": w.offset_bytes,
        "queue_depth": w.depth(),
        "pid": 4200,
        "tid": 4300 + w.thread,
        "device_ns": w.latency_ns - 2_000,
    }
    app = {
        **common,
        "op_id": APP_ID_BASE + count,
        "latency_ns": w.latency_ns,
        "fs_ns": np.full(len(w), 1_000),
        "reap_ns": np.full(len(w), 1_000),
        "file": np.array([f"/data/{p}" for p in range(8)])[w.program],
    }
    block = {
        **common,
        "op_id": BLOCK_ID_BASE + count,
        "start_ns": w.start_ns + 1_000,
        "latency_ns": w.latency_ns - 2_000,
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    case = write_case(
        path,
        app=app,
        block=block,
        links=links,
        devices=tuple(names),
        meta={"duration_ns": SPAN_NS, "observer": "record"},
    )
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    for device in names:
        system["devices"][str(device)] |= {
            "facts": {"driver": "nvme", "model": "A"},
            "queue": {"rotational": "0"},
        }
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


# -- the command --------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """`python -m tests.accuracy nulls`; exit code 1 if a test fails its bar."""
    parser = argparse.ArgumentParser(prog="make accuracy ARGS='nulls'", description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000, help="worlds per test and family [1000]")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one [0]")
    parser.add_argument("--power", type=int, default=200, help="worlds with an effect, per test [200]")
    parser.add_argument("--decisive", type=int, default=0, help="small worlds to solve as whole cases [0]")
    parser.add_argument("--tests", nargs="+", choices=list(TESTS), default=list(TESTS), metavar="TEST")
    families = sorted({family for test in TESTS.values() for family in test.families})
    parser.add_argument(
        "--families", nargs="+", choices=families, metavar="FAMILY", help="only these families of worlds"
    )
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "nulls.jsonl", help="kept p values")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--fresh", action="store_true", help="forget what is kept of these tests")
    options = parser.parse_args(arguments)
    kept = Kept(options.state)
    if options.fresh:
        kept.forget(options.tests)
    seeds = range(options.first, options.first + options.worlds)
    for name in options.tests:
        test = TESTS[name]
        for family in test.families:
            if not options.families or family in options.families:
                kept.fill(name, family, seeds, test.null)
        if test.power is not None:
            kept.fill(name, POWER, range(options.power), _powered(test.power))
    for number in range(options.decisive):
        family = list(FAMILIES)[number % len(FAMILIES)]
        kept.fill(DECISIVE, family, range(number // len(FAMILIES) + 1), _decisive)
    options.output.write_text(document(kept), encoding="utf-8")
    print(f"written: {options.output}")
    return 1 if kept.failing() else 0


POWER, DECISIVE = "power", "decisive"


def _powered(power: Callable[[int], float]) -> Callable[[str, int], float]:
    return lambda _, seed: power(seed)


def _decisive(family: str, seed: int) -> float:
    """0 where a finding is wrong, else 1."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = wrong_findings(family, seed, Path(folder) / "case")
    if wrong:
        print(f"decisive {family} seed {seed}: {'; '.join(wrong)}", flush=True)
    return 0.0 if wrong else 1.0


class Kept:
    """p values by test, family and seed, a line of JSON for each fifty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[tuple[str, str], dict[int, float]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.found.setdefault((row["test"], row["family"]), {}).update(
                    {int(seed): float(p) for seed, p in row["p"].items()}
                )

    def forget(self, tests: Sequence[str]) -> None:
        """Drops what is known of these tests."""
        self.found = {key: values for key, values in self.found.items() if key[0] not in tests}
        self.path.unlink(missing_ok=True)
        for (test, family), values in self.found.items():
            self._write(test, family, values)

    def fill(self, test: str, family: str, seeds: Sequence[int], one: Callable[[str, int], float]) -> None:
        """Computes what is missing."""
        known = self.found.setdefault((test, family), {})
        todo = [seed for seed in seeds if seed not in known]
        begin = time.monotonic()
        for place in range(0, len(todo), CHUNK):
            chunk = {seed: one(family, seed) for seed in todo[place : place + CHUNK]}
            known.update(chunk)
            self._write(test, family, chunk)
        if len(todo) >= CHUNK:
            low = sum(p < LEVEL for p in known.values())
            print(
                f"{test:18} {family:15} {low:4} of {len(known)} at p < {LEVEL}  {time.monotonic() - begin:6.1f} s",
                flush=True,
            )

    def _write(self, test: str, family: str, values: dict[int, float]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"test": test, "family": family, "p": values}) + "\n")

    def counted(self, test: str, family: str) -> tuple[int, int]:
        """How many worlds gave p < 0.01, and of how many."""
        values = self.found.get((test, family), {})
        return sum(p < LEVEL for p in values.values()), len(values)

    def failing(self) -> list[tuple[str, str]]:
        """Tests and families beyond the bar."""
        return [key for key in self.found if key[1] != POWER and judged(*self.counted(*key)) == "fails"]


def judged(low: int, worlds: int) -> str:
    """The bar of DESIGN 10 for 1,000 worlds, and in proportion for another number."""
    if worlds >= 10_000:
        return "passes" if low <= DECIDED * worlds / 10_000 else "fails"
    if low <= PASSES * worlds / 1000:
        return "passes" if worlds >= 1000 else "passes so far"
    return "fails" if low >= FAILS * worlds / 1000 else "between: 10,000 other worlds decide"


HEAD = """# Null worlds

Written by `python -m tests.accuracy nulls`. Every test of a detector is called through the detector's own function on made worlds in which what it looks for is absent, and all
else is as nasty as in practice (`ground_truth/nulls.py`): how often is p < 0.01? Of 1,000 worlds 15 or fewer pass, 25 or more fail; between, 10,000 others decide (130). A p value of a
test that had nothing to look at (no episodes, no hump, no trait that half of them share) is 1: such a world counts, as it would in practice. Power: p < 0.01 with thirty episodes of the
effect that is named, the smallest that counts where nothing else is said. Rows with fewer worlds than 1,000 were not finished; tests without a row were not run yet, and `make test` looks at
a few worlds of each.

"""


def document(kept: Kept) -> str:
    """The page, from what is kept."""
    lines = [
        HEAD,
        "| test | of detector | family | p < 0.01 | worlds | 95 % interval | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, test in TESTS.items():
        for family in test.families:
            low, worlds = kept.counted(name, family)
            if worlds:
                bounds = wilson(low, worlds)
                lines.append(
                    f"| {test.what} | {test.detector} | {family} | {low} | {worlds} | {bounds.low:.1%} to {bounds.high:.1%} | {judged(low, worlds)} |"
                )
    lines += [
        "",
        "| test | effect | found (p < 0.01) | worlds | power | 95 % interval | bar 90 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, test in TESTS.items():
        effect = ((test.power and test.power.__doc__) or "").strip()
        found, worlds = kept.counted(name, POWER)
        if worlds:
            bounds = wilson(found, worlds)
            bar = "reached" if found >= POWER_MIN * worlds else "missed"
            lines.append(
                f"| {test.what} | {effect} | {found} | {worlds} | {found / worlds:.1%} | {bounds.low:.1%} to {bounds.high:.1%} | {bar} |"
            )
    rows = [(family, *kept.counted(DECISIVE, family)) for family in FAMILIES]
    worlds = sum(count for _, _, count in rows)
    if worlds:
        wrong = sum(low for _, low, _ in rows)
        lines += [
            "",
            f"Solved as whole cases: {wrong} of {worlds} worlds with an inferred or estimated finding that is wrong (bar: {DECISIVE_MAX} of 2,000). Where a family has stalls, the stage that they were in "
            "is right: "
            + ", ".join(f"{family} {low} of {count}" for family, low, count in rows if count)
            + ".",
        ]
    lines += ["", "Families:", ""]
    lines += [f"- **{name}**: {family.what}" for name, family in FAMILIES.items()]
    lines += [f"- **{name}** (fleets): {what}" for name, what in FLEETS.items()]
    lines += [
        "- **here and there**, **in order**: reads of a file in pieces on a disk whose service time does not depend on place",
        "- **drift**, **random walk**: levels of 48 parts of the time that rise evenly, or by steps of 10 % up or down",
        "- **short misses**, **half misses**, **long misses**: each read of 1 MiB misses 2 to 20, 30 to 60 or 60 to 90 % of itself, anywhere in it",
        "",
    ]
    return "\n".join(lines)
