"""The longest operations of the judged layer, one per episode, and which of them stand apart from the rest of their kind.

Operations that overlap in time are no independent evidence: the longest of them stands for its episode. A silence in which a thread was
seen stopped is what its next operation would have taken, had it been submitted when it was meant: it counts as one of the thread's
operations, since none is there to hold it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, Stratum, Survey
from whodisk.evidence.thresholds import (
    APART_CALL_NS_MIN,
    COMMON_EPISODES_MIN,
    COMMON_PER_APART,
    EPISODES_KEPT_MIN,
    LIKE_LONGEST,
    LONGEST_MAX,
    RARE_KIND_OPERATIONS_MIN,
    RARE_KIND_RATIO_MIN,
)
from whodisk.reading.views import BINS_PER_OCTAVE, STAGES, Case, quoted
from whodisk.statistics.standing_apart import MAXIMA_MAX, Apart, standing_apart
from whodisk.statistics.stats import Floats, Ints, apart_from_earlier, episodes, quantile_from_bins

APP = STAGES.index("app")
#: Stages that are a device's: its requests show how long it usually holds them there, whoever waits for them.
BELOW = ("queue", "device", "interrupt")


@dataclass(frozen=True)
class Kind:
    """Operations that are compared with each other: one kind, one size class (an octave; -1: no data)."""

    op: str
    size_class: int
    operations: int
    median_ns: float
    apart: Apart | None
    #: Number of episodes that were compared.
    episodes: int
    #: They were compared by what they took apart from waiting for a CPU.
    without_cpu_waits: bool = False
    #: Too few for a tail of their own: compared with all operations.
    rare: bool = False


@dataclass(frozen=True)
class Silence:
    """A time in which a submitting thread was seen stopped."""

    tid: int
    comm: str
    start_ns: int
    duration_ns: int


@dataclass(frozen=True)
class Episode:
    """The longest operation of an episode, and how many shared it."""

    #: The operations of the episode, the longest first; empty for a silence.
    op_ids: tuple[int, ...]
    #: How long each of them took; of a silence how long it was.
    each_ns: tuple[float, ...]
    start_ns: int
    latency_ns: int
    op: str
    device: str
    comm: str
    tid: int
    #: Time in each stage of `STAGES`, ns. All of a silence is `app`.
    stage_ns: tuple[float, ...]
    #: The same beyond what is typical of operations like it.
    excess_ns: tuple[float, ...]
    typical_ns: float
    flags: int
    foreign_handler_ns: float
    #: No operation was in flight: the thread was stopped.
    silence: bool
    #: Stands apart from the rest of its kind.
    apart: bool
    kind: Kind
    #: It stood apart from its kind, but what it lost is common among all.
    common: bool = False

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.latency_ns

    @cached_property
    def stage(self) -> str:
        """The stage in which it lost most."""
        return STAGES[int(np.argmax(self.excess_ns))]

    @property
    def stage_excess_ns(self) -> float:
        """What it lost there."""
        return max(self.excess_ns)


def longest_sql(case: Case, survey: Survey) -> str:
    """The longest operations of each kind and size class."""
    chosen = are_longest(survey)
    source = case.judged_above(survey.layer, math.inf, chosen)
    return f"{_COLUMNS}\nFROM {source} WHERE layer = '{survey.layer}' AND {chosen}\n{_ORDER}"


def are_longest(survey: Survey) -> str:
    """Condition for the longest operations of each kind and size class: about `LONGEST_MAX` each, by a limit from the survey's histogram."""
    limits = [(op, size_class, _limit_ns(strata)) for (op, size_class), strata in kinds_of(survey)]
    chosen = " OR ".join(
        f"(latency_ns >= {limit} AND op = {quoted(op)} AND {SIZE_CLASS} = {size_class})"
        for op, size_class, limit in limits
    )
    return f"(latency_ns >= {min(limit for *_, limit in limits)} AND ({chosen}))"


def beyond_sql(survey: Survey, op: str | None, bound_ns: float) -> str:
    """The operations that take longer than a bound, `LONGEST_MAX` of the longest."""
    which = "" if op is None else f" AND op = {quoted(op)}"
    return f"{_COLUMNS}\nFROM judged WHERE layer = '{survey.layer}' AND latency_ns > {int(bound_ns)}{which}\n{_ORDER} LIMIT {LONGEST_MAX}"


def these_sql(survey: Survey, op_ids: list[int]) -> str:
    """These operations."""
    listed = ", ".join(str(op_id) for op_id in op_ids) or "NULL"
    return f"{_COLUMNS}\nFROM judged WHERE layer = '{survey.layer}' AND op_id IN ({listed})\n{_ORDER}"


_COLUMNS = f"""SELECT op_id, start_ns, latency_ns, op, {SIZE_CLASS} AS size_class, {DEPTH_CLASS} AS depth_class, coalesce(device, '') AS device,
  coalesce(comm, '') AS comm, coalesce(tid, -1) AS tid, coalesce(flags, 0) AS flags, coalesce(foreign_handler_ns, 0) AS foreign_handler_ns,
  {", ".join(f"coalesce({stage}_ns, 0) AS {stage}_ns" for stage in STAGES)}"""
_ORDER = "ORDER BY latency_ns DESC, start_ns, op_id"


def kinds_of(survey: Survey) -> list[tuple[tuple[str, int], list[Stratum]]]:
    """(op, size class) -> its strata, in order."""
    found: dict[tuple[str, int], list[Stratum]] = {}
    for stratum in survey.strata:
        found.setdefault((stratum.op, stratum.size_class), []).append(stratum)
    return sorted(found.items())


def _limit_ns(strata: list[Stratum]) -> int:
    """A latency that about `LONGEST_MAX` operations reach; 0 if there are no more."""
    bins = np.concatenate([s.bins for s in strata])
    counts = np.concatenate([s.counts for s in strata])
    order = np.argsort(-bins, kind="stable")
    beyond = np.cumsum(counts[order])
    if beyond[-1] <= LONGEST_MAX:
        return 0
    return int(np.exp2(bins[order][np.searchsorted(beyond, LONGEST_MAX)] / BINS_PER_OCTAVE))


def find_longest(case: Case, survey: Survey, silences: list[Silence]) -> list[Episode]:
    """The longest episodes: all that stand apart, and some more; those that stand apart first, then the longest."""
    if not survey.strata:
        return []
    rows = case.arrays(longest_sql(case, survey))
    kinds = kinds_of(survey)
    home = _kind_of_threads(rows)
    found: list[Episode] = []
    for (op, size_class), strata in kinds:
        mine = np.flatnonzero((rows["op"] == op) & (rows["size_class"] == size_class))
        theirs = [s for s in silences if home.get(s.tid, kinds[0][0]) == (op, size_class)]
        values, counts = survey.histogram(strata)
        median = quantile_from_bins(values, counts, 0.5)
        maxima = _maxima(rows, mine, theirs)
        operations = sum(s.operations for s in strata)
        apart = standing_apart(_lengths(maxima), operations, median, len(kinds))
        kind = Kind(op, size_class, operations, median, apart, len(maxima))
        ahead = maxima[: apart.count] if apart else []
        if apart is None and theirs:
            # A stop that met no operation may have been shorter than those that did: it would fill the gap behind them.
            others = _maxima(rows, mine, [])
            apart = standing_apart(_lengths(others), operations, median, 4 * len(kinds))
            if apart is not None:
                kind, ahead = replace(kind, apart=apart, episodes=len(others)), others[: apart.count]
        if apart is None and rows["runqueue_ns"][mine].any():
            # Where threads crowd each other out, many wait for a CPU for milliseconds: no measure of what a device or a lock did to a few.
            others, lengths = _without_cpu_waits(rows, mine, theirs)
            apart = standing_apart(lengths, operations, median, 2 * len(kinds))
            if apart is not None:
                kind = replace(kind, apart=apart, episodes=len(others), without_cpu_waits=True)
                ahead = others[: apart.count]
        chosen = set(ahead)
        listed = ahead + [place for place in maxima if place not in chosen]
        for place in listed[: max(EPISODES_KEPT_MIN, len(ahead))]:
            episode = _episode(survey, rows, mine, theirs, place, kind, place in chosen)
            # What was left out of the comparison cannot be what sets it apart.
            by_cpu = kind.without_cpu_waits and episode.stage == "runqueue"
            found.append(replace(episode, apart=False) if by_cpu else episode)
    return ranked(_without_common(case, survey, _with_rare_kinds(survey, rows, kinds, found)))


def _with_rare_kinds(
    survey: Survey,
    rows: dict[str, npt.NDArray[Any]],
    kinds: list[tuple[tuple[str, int], list[Stratum]]],
    found: list[Episode],
) -> list[Episode]:
    """The same, with those that stand apart from all operations together, where the tail of their own kind is not known well enough to tell.

    A kind may be too rare to have a tail, and of many kinds, a stall now and then meets one operation each. Kinds differ: what is far longer than all others must be far
    longer than is usual of its own kind, too.
    """
    rare = {
        (e.start_ns, e.latency_ns): e
        for e in found
        if not e.silence
        and e.kind.operations >= RARE_KIND_OPERATIONS_MIN
        and e.kind.apart is None
        and e.latency_ns >= RARE_KIND_RATIO_MIN * e.kind.median_ns
    }
    if not rare:
        return found
    maxima = _maxima(rows, np.arange(len(rows["start_ns"])), [])
    alone = {(e.start_ns, e.latency_ns): e for e in found if e.apart}
    ahead = list(itertools.takewhile(lambda place: place[:2] in rare or place[:2] in alone, maxima))
    if not ahead:
        return found
    values, counts = survey.histogram(survey.strata)
    median = quantile_from_bins(values, counts, 0.5)
    operations = sum(s.operations for s in survey.strata)
    apart = standing_apart(_lengths(maxima), operations, median, len(kinds))
    if apart is None:
        return found
    # Longer than usual of its kind may be many that do not stand apart.
    ahead = ahead[: apart.count]
    these = [rare.get(place[:2]) or alone[place[:2]] for place in ahead]
    if not any(place[:2] in rare for place in ahead) or len(ahead) == len(maxima):
        return found
    # With those that stand apart from their own kind they are one thing only if they were held in the same place.
    if any(e.apart for e in these) and len({(e.stage, e.device) for e in these}) > 1:
        return found
    next_ns = float(maxima[len(ahead)][1])
    if ahead[-1][1] < RARE_KIND_RATIO_MIN * next_ns:
        return found
    apart = replace(apart, count=len(ahead), next_value=next_ns)
    chosen = {id(rare[place[:2]]) for place in ahead if place[:2] in rare}
    return [
        replace(e, apart=True, kind=replace(e.kind, apart=apart, episodes=len(maxima), rare=True))
        if id(e) in chosen
        else e
        for e in found
    ]


def _without_common(case: Case, survey: Survey, found: list[Episode]) -> list[Episode]:
    """The same, without standing apart those that are as long in their stage as operations of other kinds are again and again.

    An operation that is rarely that long stands apart from its kind; but where the device holds every other flush for 8 ms, one call
    of another kind that met such a flush is nothing apart. And a call into the kernel that takes less than a millisecond is what page
    cache, locks and interrupts make of one now and then.
    """
    apart = [e for e in found if e.apart]
    common: dict[tuple[str, str], list[int]] = {}
    for number, episode in enumerate(apart):
        common.setdefault((episode.stage, episode.device if episode.stage in BELOW else ""), []).append(
            number
        )
    fell: set[int] = set()
    for (stage, device), numbers in common.items():
        asked = [number for number in numbers if not apart[number].silence]
        if survey.layer in ("app", "syscall"):
            short = {number for number in asked if apart[number].stage_excess_ns < APART_CALL_NS_MIN}
            fell |= {id(apart[number]) for number in short}
            asked = [number for number in asked if number not in short]
        for alike in sorted({_kind_alike(apart[number]) for number in asked}):
            same = [apart[number] for number in asked if _kind_alike(apart[number]) == alike]
            as_long = _as_long(case, survey, stage, device, alike, min(_least_ns(e, stage) for e in same))
            beside = _beside(as_long, apart)
            fell |= {id(e) for e in same if _is_common(beside, _least_ns(e, stage), len(numbers))}
    # Those were compared with all operations: where one that is beyond the gap, too, is nothing apart, neither are they.
    of_all = [e for e in apart if e.kind.rare and e.kind.apart]
    least = min((e.kind.apart.next_value for e in of_all if e.kind.apart), default=math.inf)
    if any(id(e) in fell and e.latency_ns > least for e in apart):
        fell |= {id(e) for e in of_all}
    return [replace(e, apart=False, common=True) if id(e) in fell else e for e in found]


def _kind_alike(episode: Episode) -> str:
    """The kind of a call that carries no data; empty for others."""
    return "" if episode.op in ("read", "write") else episode.op


def _least_ns(episode: Episode, stage: str) -> int:
    return int(LIKE_LONGEST * episode.stage_ns[STAGES.index(stage)])


def _as_long(
    case: Case, survey: Survey, stage: str, device: str, alike: str, least_ns: int
) -> dict[str, Ints]:
    source = case.judged_above(survey.layer, least_ns - 1)
    data = case.arrays(
        common_sql(survey, source, stage, device, least_ns, "block" in case.layers, alike or None)
    )
    return {name: data[name].astype(np.int64) for name in ("start_ns", "end_ns", "held_ns")}


def _beside(as_long: dict[str, Ints], apart: list[Episode]) -> dict[str, Ints]:
    """Those of them that met none of the operations that stand apart, in order of their start."""
    begin, end = as_long["start_ns"], as_long["end_ns"]
    beside = np.ones(len(begin), np.bool_)
    for other in apart:
        beside &= (begin >= other.end_ns) | (end <= other.start_ns)
    order = np.flatnonzero(beside)
    order = order[np.argsort(begin[order], kind="stable")]
    return {name: values[order] for name, values in as_long.items()}


def _is_common(beside: dict[str, Ints], least_ns: int, count: int) -> bool:
    """Whether others are in the same stage for half as long, and more, in many more episodes than those that stand apart."""
    chosen = beside["held_ns"] >= least_ns
    if not chosen.any():
        return False
    happened = int(episodes(beside["start_ns"][chosen], beside["end_ns"][chosen]).max()) + 1
    return happened >= max(COMMON_EPISODES_MIN, COMMON_PER_APART * count)


def common_sql(
    survey: Survey, source: str, stage: str, device: str, least_ns: int, requests: bool, op: str | None
) -> str:
    """Operations (of `source`), and requests of a device, that were this long in a stage; `LONGEST_MAX` of the longest.

    `op`: a kind of calls that carry no data; those of any size that took this long belong to them, whatever held them.
    """
    where = f"{stage}_ns >= {max(1, least_ns)}" + (f" AND device = {quoted(device)}" if device else "")
    of = [
        f"SELECT start_ns, latency_ns, {stage}_ns AS held_ns FROM {source} WHERE layer = '{survey.layer}' AND {where}"
    ]
    if device and requests and survey.layer != "block":
        of.append(f"SELECT start_ns, latency_ns, {stage}_ns FROM block_ops WHERE NOT open AND {where}")
    if op is not None:
        of.append(
            f"SELECT start_ns, latency_ns, latency_ns FROM {source} WHERE layer = '{survey.layer}' AND op = {quoted(op)} AND latency_ns >= {least_ns}"
        )
    return f"""SELECT start_ns, start_ns + latency_ns AS end_ns, held_ns FROM ({" UNION ALL ".join(of)})
ORDER BY held_ns DESC, start_ns LIMIT {LONGEST_MAX}"""


def columns_of(episodes: list[Episode], *names: str) -> list[Ints]:
    """These whole numbers of each episode, an array a name."""
    return [np.array([getattr(episode, name) for episode in episodes], np.int64) for name in names]


def ranked(episodes: list[Episode]) -> list[Episode]:
    """Those that stand apart first, then the longest."""
    return sorted(episodes, key=lambda e: (not e.apart, -e.latency_ns, e.start_ns))


def find_beyond(case: Case, survey: Survey, op: str | None, bound_ns: float) -> list[Episode]:
    """The episodes of operations beyond a bound, the longest first."""
    return _episodes_of(case.arrays(beyond_sql(survey, op, bound_ns)), survey)


def find_these(case: Case, survey: Survey, op_ids: list[int]) -> list[Episode]:
    """The episodes of these operations, the longest first."""
    return _episodes_of(case.arrays(these_sql(survey, op_ids)), survey)


def _episodes_of(rows: dict[str, npt.NDArray[Any]], survey: Survey) -> list[Episode]:
    found = []
    for (name, size_class), strata in kinds_of(survey):
        mine = np.flatnonzero((rows["op"] == name) & (rows["size_class"] == size_class))
        maxima = _maxima(rows, mine, [])
        values, counts = survey.histogram(strata)
        median = quantile_from_bins(values, counts, 0.5)
        kind = Kind(name, size_class, sum(s.operations for s in strata), median, None, len(maxima))
        found += [_episode(survey, rows, mine, [], place, kind, False) for place in maxima]
    return ranked(found)


def _kind_of_threads(rows: dict[str, npt.NDArray[Any]]) -> dict[int, tuple[str, int]]:
    """Thread -> kind and size class of most of its long operations."""
    found = zip(rows["tid"].tolist(), rows["op"].tolist(), rows["size_class"].tolist(), strict=True)
    counted: dict[int, dict[tuple[str, int], int]] = {}
    for (tid, op, size_class), number in Counter(found).items():
        counted.setdefault(int(tid), {})[(str(op), int(size_class))] = number
    return {tid: max(sorted(mine), key=lambda key: mine[key]) for tid, mine in counted.items()}


#: Start, latency, and place among the rows of a kind; of a silence -1 - its place.
_Place = tuple[int, int, int]


def _lengths(maxima: list[_Place]) -> Floats:
    return np.array([latency for _, latency, _ in maxima], np.float64)


def _maxima(
    rows: dict[str, npt.NDArray[Any]], mine: Ints, silences: list[Silence], waited: Ints | None = None
) -> list[_Place]:
    """The longest operation or silence of each episode, descending: each that overlaps with no longer one before it in this list.

    `waited`: a part of each operation's latency, ns, that does not count for which is longer.
    """
    silent = np.array([(s.start_ns, s.duration_ns) for s in silences], np.int64).reshape(-1, 2)
    begin = np.concatenate((rows["start_ns"][mine].astype(np.int64), silent[:, 0]))
    length = np.concatenate((rows["latency_ns"][mine].astype(np.int64), silent[:, 1]))
    number = np.concatenate((np.arange(len(mine)), -1 - np.arange(len(silent))))
    counted = length.copy()
    if waited is not None:
        counted[: len(mine)] -= waited
    order = np.lexsort((number, begin, -counted))
    begin, length, number = begin[order], length[order], number[order]
    chosen = np.flatnonzero(apart_from_earlier(begin, begin + length, MAXIMA_MAX))
    return list(zip(*(values[chosen].tolist() for values in (begin, length, number)), strict=True))


def _without_cpu_waits(
    rows: dict[str, npt.NDArray[Any]], mine: Ints, silences: list[Silence]
) -> tuple[list[_Place], Floats]:
    """The same by what each took apart from waiting for a CPU, which comes along, ns. Operations that are not among the rows took less than any of them:
    what is longer than the shortest is all there is."""
    waited = rows["runqueue_ns"][mine].astype(np.int64)
    least_ns = int(rows["latency_ns"][mine].min()) if len(mine) else 0
    maxima = _maxima(rows, mine, silences, waited)
    took = np.array(
        [length - (waited[number] if number >= 0 else 0) for _, length, number in maxima], np.int64
    )
    enough = took >= least_ns
    return [place for place, kept in zip(maxima, enough, strict=True) if kept], took[enough].astype(
        np.float64
    )


def _episode(
    survey: Survey,
    rows: dict[str, npt.NDArray[Any]],
    mine: Ints,
    silences: list[Silence],
    place: _Place,
    kind: Kind,
    apart: bool,
) -> Episode:
    start, latency, number = place
    begin, length = rows["start_ns"][mine], rows["latency_ns"][mine]
    with_it = (begin < start + latency) & (begin + length > start) & (length >= LIKE_LONGEST * latency)
    members = mine[with_it]
    members = members[np.argsort(-rows["latency_ns"][members], kind="stable")]
    op_ids = tuple(int(op_id) for op_id in rows["op_id"][members])
    if number < 0:
        silence = silences[-1 - number]
        alone = tuple(float(latency) if stage == APP else 0.0 for stage in range(len(STAGES)))
        each = tuple(float(v) for v in rows["latency_ns"][members]) or (float(latency),)
        return Episode(
            op_ids,
            each,
            start,
            latency,
            kind.op,
            "",
            silence.comm,
            silence.tid,
            alone,
            alone,
            kind.median_ns,
            0,
            0.0,
            True,
            apart,
            kind,
        )
    row = mine[number]
    stage_ns = np.array([float(rows[f"{stage}_ns"][row]) for stage in STAGES])
    typical_ns, typical = _typical(survey, rows, int(row))
    op_id = int(rows["op_id"][row])
    return Episode(
        op_ids=(op_id, *(other for other in op_ids if other != op_id)),
        each_ns=tuple(float(v) for v in rows["latency_ns"][members]),
        start_ns=start,
        latency_ns=latency,
        op=kind.op,
        device=str(rows["device"][row]),
        comm=str(rows["comm"][row]),
        tid=int(rows["tid"][row]),
        stage_ns=tuple(float(v) for v in stage_ns),
        excess_ns=tuple(float(v) for v in stage_ns - typical),
        typical_ns=typical_ns,
        flags=int(rows["flags"][row]),
        foreign_handler_ns=float(rows["foreign_handler_ns"][row]),
        silence=False,
        apart=apart,
        kind=kind,
    )


def _typical(survey: Survey, rows: dict[str, npt.NDArray[Any]], row: int) -> tuple[float, Floats]:
    """What is typical of operations like this one: latency and stages, ns."""
    for stratum in survey.select(str(rows["device"][row]), str(rows["op"][row])):
        if (stratum.size_class, stratum.depth_class) == (
            int(rows["size_class"][row]),
            int(rows["depth_class"][row]),
        ):
            return stratum.typical_ns, stratum.typical_stages
    return 1.0, np.zeros(len(STAGES))
