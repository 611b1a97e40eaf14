"""The slow operations of a layer: which they are, what they lost where, and which belong together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.asleep_for_requests import slept_for
from whodisk.evidence.journal_commits import waited_for_commits
from whodisk.evidence.late_places import late_in_place
from whodisk.evidence.serving_waits import ServingWaits, serving_sql, serving_waits
from whodisk.evidence.slowest import are_longest, kinds_of
from whodisk.evidence.survey import (
    DEPTH_CLASS,
    SIZE_CLASS,
    Stratum,
    Survey,
    drawn,
    ratio_histogram,
    thinned,
)
from whodisk.evidence.thresholds import (
    FAMILY_OPERATIONS,
    KIND_PART,
    KNOCK_ON_SHARE,
    LONGEST_MAX,
    ORDINARY_SHARE,
    ORDINARY_WAIT_NS,
    SLOW_OPERATIONS_MAX,
    TAIL_BEGIN,
    TAIL_KEPT_OPERATIONS_MIN,
    TAIL_KEPT_ROWS_MAX,
    TURNS_PER_OPERATION,
    UNLIKE_KINDS,
    UNLIKE_MIN,
    UNLIKE_RATIO,
)
from whodisk.reading.flush_waits import FLUSH
from whodisk.reading.views import BINS_PER_OCTAVE, STAGES, Case, quoted
from whodisk.statistics.stats import (
    NARROW,
    Body,
    Bools,
    Floats,
    Ints,
    TailSplit,
    apart_from_earlier,
    body_of,
    disjoint,
    extents,
    find_split,
    overlap,
)

APP, FS, QUEUE, DEVICE = (STAGES.index(name) for name in ("app", "fs", "queue", "device"))

#: Stages that hold the slots others wait for, the ones further down last: they decide.
HOLDERS = tuple(STAGES.index(name) for name in ("queue", "device", "interrupt"))
#: Stages in which an operation waits for a slot.
WAITERS = tuple(STAGES.index(name) for name in ("fs", "throttle", "queue"))

#: Stages in which the submitter itself works, or waits for its CPU.
CPU_STAGES = tuple(STAGES.index(name) for name in ("app", "fs", "reap", "runqueue"))
#: Stages in which a software device works; its worker threads need a CPU too.
SOFTWARE_STAGES = tuple(STAGES.index(name) for name in ("queue", "device"))
SOFTWARE_DEVICES = ("loop", "nbd", "zram", "ram", "ublk")


@dataclass(frozen=True)
class Family:
    """Operations of one kind on one device that lost their time in one stage, as a slow group of its own."""

    device: str
    op: str
    #: Index into `STAGES`: where each of these operations spent most.
    stage: int
    operations: int
    split: TailSplit
    #: What the split's ratios are to, ns; None: to what is typical in each operation's stratum. A cause that always takes the same
    #: time does so whatever is typical.
    typical_ns: float | None = None


@dataclass
class SlowSet:
    """Slow operations, one array element each, in order of their start."""

    op_id: Ints
    start_ns: Ints
    latency_ns: Ints
    open: Bools
    op: npt.NDArray[Any]
    device: npt.NDArray[Any]
    comm: npt.NDArray[Any]
    tid: Ints
    weight: Floats
    #: Index into `families`.
    family: Ints
    #: What is typical in the operation's stratum, ns.
    typical_ns: Floats
    #: Latency beyond typical per stage of `STAGES`; rows are operations, ns.
    stage_excess_ns: Floats
    #: Stage in which each operation waited, ns.
    stage_ns: Floats
    families: list[Family]
    #: 1, or the inverse part of slow operations that was kept.
    thinning: float = 1.0
    #: Stage that is to blame for each operation: index into `STAGES`.
    blamed: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    #: A flush command was part of the operation, or of what it waited for.
    flushed: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: Waits of a time slice's length in stages that need a CPU: reported, never accused.
    ordinary: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: Its thread slept in the file system for a request: what that lost at its device is the device's here, and the file system's in the tables of the case.
    for_request: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: The device of that request; empty: there is none.
    for_device: npt.NDArray[np.object_] = field(default_factory=lambda: np.zeros(0, np.object_))

    def __len__(self) -> int:
        return len(self.op_id)

    @property
    def end_ns(self) -> Ints:
        return self.start_ns + self.latency_ns

    @property
    def excess_ns(self) -> Floats:
        """Latency beyond typical, weighted, ns."""
        excess: Floats = np.maximum(self.latency_ns - self.typical_ns, 0.0) * self.weight * self.thinning
        return excess

    @property
    def ratio(self) -> Floats:
        """Latency over typical."""
        return np.asarray(self.latency_ns / self.typical_ns, np.float64)

    def ratio_in(self, family: Family) -> Floats:
        """Latency in the unit of a family's split."""
        return np.asarray(self.latency_ns / (family.typical_ns or self.typical_ns), np.float64)


def find_families(case: Case, survey: Survey) -> list[Family]:
    """Every (device, op, stage) of the layer with a slow group that is separate from the body.

    Tails are looked at stage by stage: waits for a CPU that spread over every latency must not hide
    requests that were stuck in the device.
    """
    kinds = [
        key
        for key in survey.families()
        if sum(s.operations for s in survey.select(*key)) >= FAMILY_OPERATIONS
    ]
    if not kinds:
        return []
    _keep_tail(case, survey, kinds)
    data = case.arrays(tails_sql(case, survey, kinds))
    found = []
    for number, (device, op) in enumerate(kinds):
        strata = survey.select(device, op)
        body = body_of(*ratio_histogram(strata))
        for stage in range(len(STAGES)):
            rows = (data["kind"] == number) & (data["stage"] == stage)
            if not rows.any():
                continue
            split = find_split(*_tail(data, rows, "ratio"), body, max(TAIL_BEGIN, body.quartile))
            if split is not None:
                found.append(Family(device, op, stage, body.operations, split))
                continue
            unit_ns = _unit_ns(strata)
            split = find_split(*_tail(data, rows, "time"), body, max(TAIL_BEGIN, body.quartile), NARROW)
            if split is not None:
                found.append(Family(device, op, stage, body.operations, split, unit_ns))
    return found


def _unit_ns(strata: list[Stratum]) -> float:
    """Unit of the scale `time`: what is typical in the slowest stratum of a kind."""
    return max(stratum.typical_ns for stratum in strata)


def _tail(data: dict[str, npt.NDArray[Any]], rows: Bools, scale: str) -> tuple[Floats, Ints]:
    """One of the two histograms of a tail: its ratios, and the operations at each."""
    rows = rows & (data["scale"] == scale)
    return np.exp2((data["bin"][rows] + 0.5) / BINS_PER_OCTAVE), data["n"][rows].astype(np.int64)


def _keep_tail(case: Case, survey: Survey, kinds: list[tuple[str, str]]) -> None:
    """Lets the case keep what all of the next queries ask for, if the layer is large and its tail is not."""
    if survey.operations < TAIL_KEPT_OPERATIONS_MIN:
        return
    strata = [stratum for key in kinds for stratum in survey.select(*key)]
    lowest_ns = min(int(TAIL_BEGIN * stratum.typical_ns) for stratum in strata)
    above = sum(
        int(s.counts[np.exp2((s.bins + 1) / BINS_PER_OCTAVE) > lowest_ns].sum()) for s in survey.strata
    )
    few = drawn(survey.operations)
    longest = sum(min(LONGEST_MAX, sum(s.operations for s in strata)) for _, strata in kinds_of(survey))
    if above + longest <= TAIL_KEPT_ROWS_MAX:
        case.keep(survey.layer, lowest_ns, are_longest(survey), few)
    elif above <= TAIL_KEPT_ROWS_MAX:
        case.keep(survey.layer, lowest_ns, few)


def tails_sql(case: Case, survey: Survey, kinds: list[tuple[str, str]]) -> str:
    """Operations far from typical, counted per kind, per stage that took most, and per ratio to what is typical in their stratum (scale
    `ratio`), or in the kind's slowest stratum (scale `time`: the same time is at the same place whatever the stratum)."""
    rows, lowest_ns = [], math.inf
    for number, key in enumerate(kinds):
        strata = survey.select(*key)
        unit_ns = _unit_ns(strata)
        for stratum in strata:
            limit_ns = int(TAIL_BEGIN * stratum.typical_ns)
            rows.append(_limit_row(number, -1, stratum, limit_ns, unit_ns))
            lowest_ns = min(lowest_ns, limit_ns)
    place = f"CAST(floor(log2(latency_ns / CAST({{}} AS DOUBLE)) * {BINS_PER_OCTAVE}) AS INTEGER)"
    return f"""WITH tail AS (SELECT l.family AS kind, m.stage, m.latency_ns, l.typical_ns, l.unit_ns
  FROM {_classified(case, survey, int(lowest_ns), "")}
  JOIN {_limits(rows)}
    ON m.d = l.device AND m.op = l.op AND m.size_class = l.size_class AND m.depth_class = l.depth_class
  WHERE m.latency_ns > l.limit_ns)
SELECT 'ratio' AS scale, kind, stage, {place.format("typical_ns")} AS bin, count(*) AS n FROM tail GROUP BY 2, 3, 4
UNION ALL
SELECT 'time', kind, stage, {place.format("unit_ns")}, count(*) FROM tail GROUP BY 2, 3, 4
ORDER BY 1, 2, 3, 4"""


def slow_sql(case: Case, survey: Survey, families: list[Family], thinning: float) -> str:
    """The query for the slow operations: one limit per stratum and stage."""
    rows, lowest_ns = [], math.inf
    for number, family in enumerate(families):
        for stratum in survey.select(family.device, family.op):
            limit_ns = int((family.typical_ns or stratum.typical_ns) * family.split.limit)
            rows.append(_limit_row(number, family.stage, stratum, limit_ns))
            lowest_ns = min(lowest_ns, limit_ns)
    stages = ", ".join(f"m.{stage}_ns" for stage in STAGES)
    keep = "" if thinning <= 1 else f"\n  AND {thinned(thinning, 1)}"
    return f"""SELECT m.op_id, m.start_ns, m.latency_ns, m.open, m.op, m.device, m.comm, m.tid, m.weight,
  coalesce(m.flags, 0) & {FLUSH} <> 0 OR m.op = 'flush' AS flushed,
  l.family, l.typical_ns, l.stratum, {stages}
FROM {_classified(case, survey, int(lowest_ns), keep)}
JOIN {_limits(rows)}
  ON m.d = l.device AND m.op = l.op AND m.size_class = l.size_class AND m.depth_class = l.depth_class
    AND m.stage = l.stage
WHERE m.latency_ns > l.limit_ns
ORDER BY m.start_ns, m.op_id"""


def _classified(case: Case, survey: Survey, lowest_ns: int, keep: str) -> str:
    """Operations over a latency with their stratum and the stage that took most of it."""
    observed = [stage for stage in STAGES if stage in survey.stages_observed]
    most = "greatest(" + ", ".join(f"coalesce({stage}_ns, 0)" for stage in observed) + ")"
    cases = " ".join(f"WHEN coalesce({s}_ns, 0) = {most} THEN {STAGES.index(s)}" for s in observed)
    return f"""(SELECT *, coalesce(device, '') AS d, {SIZE_CLASS} AS size_class, {DEPTH_CLASS} AS depth_class,
    CASE {cases} END AS stage
  FROM {case.judged_above(survey.layer, lowest_ns)} WHERE layer = '{survey.layer}' AND latency_ns > {lowest_ns}{keep}) AS m"""


def _limits(rows: list[str]) -> str:
    text = ",\n    ".join(rows)
    columns = "family, stage, stratum, device, op, size_class, depth_class, typical_ns, limit_ns, unit_ns"
    return f"(VALUES\n    {text}) AS l({columns})"


def _limit_row(family: int, stage: int, stratum: Stratum, limit_ns: int, unit_ns: float = 1.0) -> str:
    return (
        f"({family}, {stage}, {stratum.number}, {quoted(stratum.device)}, '{stratum.op}', {stratum.size_class}, "
        f"{stratum.depth_class}, {round(stratum.typical_ns)}, {limit_ns}, {round(unit_ns)})"
    )


def find_slow(case: Case, survey: Survey) -> SlowSet:
    """Fetches the slow operations of a layer with their excess per stage; none where no stage was observed."""
    families = find_families(case, survey) if survey.stages_observed else []
    if not families:
        return empty_slow_set()
    expected = sum(family.split.beyond for family in families)
    thinning = max(1.0, expected / SLOW_OPERATIONS_MAX)
    data = case.arrays(slow_sql(case, survey, families, thinning))
    slow = _slow_set(data, survey, families)
    slow.thinning = thinning
    slow.blamed = blame(slow, in_flight_before(case, survey))
    _move_to_requests(case, survey, slow)
    waits = cpu_waits(case, survey)
    unlike = late_kinds(case, slow) | late_places(case, survey, slow) | waited_for_commits(case, survey, slow)
    slow.ordinary = ordinary_waits(slow, waits, unlike, serving_waits(case))
    return slow


def _move_to_requests(case: Case, survey: Survey, slow: SlowSet) -> None:
    """Blames what held the request that an operation slept for in the file system (`asleep_for_requests`)."""
    slow.for_request = np.zeros(len(slow), np.bool_)
    slow.for_device = np.full(len(slow), "", np.object_)
    if survey.layer == "block":
        return
    asked = np.flatnonzero((slow.blamed == FS) & (np.argmax(slow.stage_excess_ns, axis=1) == FS))
    lost_ns = slow.stage_excess_ns[asked, FS]
    requests = slept_for(case, slow.tid[asked], slow.start_ns[asked], slow.end_ns[asked], lost_ns)
    devices = survey.by_device()
    for place, request in requests.items():
        at = int(asked[place])
        left = float(lost_ns[place])
        for stage, held_ns in ((QUEUE, request.queue_ns), (DEVICE, request.device_ns)):
            part = min(left, held_ns)
            left -= part
            for values in (slow.stage_ns, slow.stage_excess_ns):
                values[at, FS] -= part
                values[at, stage] += part
        slow.for_request[at], slow.for_device[at] = True, request.device
        slow.blamed[at] = DEVICE if request.device_ns >= request.queue_ns else QUEUE
        if request.device in devices:
            slow.device[at] = slow.device[at] or request.device


@dataclass(frozen=True)
class CpuWaits:
    """How long threads of the judged programs waited for a CPU, and how often they needed one."""

    #: ns, ascending.
    waited_ns: Ints
    woken: int
    #: Operations for which devices worked.
    served: int

    def chance(self, at_least_ns: Floats) -> Floats:
        """Part of the times a thread needed a CPU in which it waited this long."""
        longer = self._as_long(at_least_ns)
        return np.asarray(longer / max(1, self.woken, len(self.waited_ns)), np.float64)

    def as_many(self, lost_ns: Floats) -> Bools:
        """Whether at least as many waits as there are losses of that length or longer were as long as `KIND_PART` of each."""
        rank = np.empty(len(lost_ns))
        rank[np.argsort(-lost_ns, kind="stable")] = np.arange(1, len(lost_ns) + 1)
        return np.asarray(self._as_long(KIND_PART * lost_ns) >= rank, np.bool_)

    def _as_long(self, at_least_ns: Floats) -> Ints:
        """Waits that took as long, or longer."""
        return np.asarray(
            len(self.waited_ns) - np.searchsorted(self.waited_ns, at_least_ns, side="left"), np.int64
        )


def cpu_waits(case: Case, survey: Survey) -> CpuWaits | None:
    """The waits for a CPU that were recorded; None where the scheduler was not."""
    if "waits" not in case.columns:
        return None
    woken = case.rows("SELECT count(*) AS n FROM waits WHERE state = 'blocked'")[0]["n"]
    waited = case.arrays(
        f"SELECT duration_ns FROM waits WHERE state = 'runnable' AND NOT coalesce({serving_sql(case)}, false) ORDER BY 1"
    )["duration_ns"]
    served = case.rows(
        f"SELECT count(*) AS n FROM judged WHERE layer = '{survey.layer}' AND coalesce(queue_ns, 0) + coalesce(device_ns, 0) > 0"
    )[0]["n"]
    return (
        CpuWaits(waited.astype(np.int64), int(woken or 0), int(served or 0))
        if woken and len(waited)
        else None
    )


def _unlike_cpu_waits(slow: SlowSet, waits: CpuWaits) -> Bools:
    """Operations that are too many, for how long they are, to have waited for some worker's turn on a CPU.

    The threads that serve a software device take turns on the same CPUs as those that ask it. Where these hardly ever wait that long
    for one, neither do those.
    """
    chosen = np.flatnonzero(np.isin(slow.blamed, SOFTWARE_STAGES))
    lost_ns = slow.latency_ns[chosen] - slow.typical_ns[chosen]
    order = chosen[np.argsort(-lost_ns, kind="stable")]
    # What waited at the same time may have waited for the same turn. Chains of such operations are no one turn: who waits for the same one goes on when it ends.
    new = apart_from_earlier(slow.start_ns[order], slow.end_ns[order]).astype(np.float64)
    lost_ns = slow.latency_ns[order] - slow.typical_ns[order]
    turns = TURNS_PER_OPERATION * waits.served * waits.chance(lost_ns / 2)
    unlike: Bools = np.zeros(len(slow), np.bool_)
    unlike[order] = np.cumsum(new) * slow.thinning > np.maximum(UNLIKE_MIN, UNLIKE_RATIO * turns)
    return unlike


def late_kinds(case: Case, slow: SlowSet) -> Bools:
    """Operations as late as requests of their kind are at their device, and requests of other kinds hardly ever.

    A turn on a CPU is missed by whatever the threads of a software device serve. Where flush commands, or reads, take a time `UNLIKE_KINDS` times as often
    as the requests beside them, that is what they cost there. Writes are not asked: the file below such a device takes them as its own file system does.
    """
    unlike = none_of(slow)
    software = _at_software(slow)
    kinds = {"flush": software & slow.flushed, "read": software & ~slow.flushed & (slow.op == "read")}
    chosen = np.flatnonzero(kinds["flush"] | kinds["read"])
    if not len(chosen) or "block" not in case.layers:
        return unlike
    counted = case.arrays(late_requests_sql(np.unique(slow.device[chosen].astype(str)).tolist()))
    for kind, members in kinds.items():
        others = ("read", "write") if kind == "flush" else ("write",)
        for device in np.unique(slow.device[members].astype(str)):
            mine = np.flatnonzero(members & (slow.device == device))
            unlike[mine] = _late_unlike(counted, slow, mine, kind, others)
    return unlike


def late_places(case: Case, survey: Survey, slow: SlowSet) -> Bools:
    """Operations as late as reads are in their part of a software device, and hardly ever in other parts."""
    unlike = none_of(slow)
    chosen = _at_software(slow)
    for device in np.unique(slow.device[chosen].astype(str)):
        mine = np.flatnonzero(chosen & (slow.device == device))
        lost_ns = (slow.latency_ns - slow.typical_ns)[mine]
        unlike[mine] = late_in_place(case, survey.layer, str(device), slow.op_id[mine], lost_ns)
    return unlike


def _late_unlike(
    counted: dict[str, npt.NDArray[Any]], slow: SlowSet, mine: Ints, kind: str, others: tuple[str, ...]
) -> Bools:
    """Which of these operations of one device are as late as a kind of its requests is, and other kinds are not."""
    there = counted["device"] == slow.device[mine[0]]
    lost_ns = (slow.latency_ns - slow.typical_ns)[mine]
    bins = np.floor(np.log2(np.maximum(1.0, KIND_PART * lost_ns)) * BINS_PER_OCTAVE).astype(np.int64)
    late, of_kind = _late(counted, there & (counted["kind"] == kind), bins)
    others_late, of_others = _late(counted, there & np.isin(counted["kind"], others), bins)
    # One more than there are: what was not seen yet may be next.
    expected = UNLIKE_KINDS * (others_late + 1) / of_others
    unlike: Bools = (late > UNLIKE_MIN) & (late / of_kind > expected)
    return unlike


def _late(counted: dict[str, npt.NDArray[Any]], rows: Bools, bins: Ints) -> tuple[Floats, float]:
    """Requests among these rows in each of the bins and beyond, and how many requests there are, 1 at least."""
    bin_of, counts = counted["bin"][rows].astype(np.int64), counted["n"][rows].astype(np.float64)
    order = np.argsort(bin_of, kind="stable")
    at_least = np.append(np.cumsum(counts[order][::-1])[::-1], 0.0)
    first = np.searchsorted(bin_of[order], bins, side="left")
    return at_least[first], max(1.0, float(counts.sum()))


def late_requests_sql(devices: list[str]) -> str:
    """How long devices worked for flush commands, and for reads and writes without a flush, in bins."""
    names = ", ".join(quoted(device) for device in devices)
    return f"""SELECT device, op AS kind, CAST(floor(log2(greatest(device_ns, 1)) * {BINS_PER_OCTAVE}) AS INTEGER) AS bin, count(*) AS n
FROM block_ops WHERE NOT open AND device IN ({names}) AND device_ns IS NOT NULL
  AND (op = 'flush' OR op IN ('read', 'write') AND coalesce(flags, 0) & {FLUSH} = 0)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def is_software(device: str) -> bool:
    """Whether a device works by threads of this machine, which need a CPU."""
    return device.startswith(SOFTWARE_DEVICES)


def _at_software(slow: SlowSet) -> Bools:
    """Operations that waited for a device that works by threads."""
    software = np.array([is_software(str(name)) for name in slow.device], np.bool_)
    return software & np.isin(slow.blamed, SOFTWARE_STAGES)


def ordinary_waits(slow: SlowSet, waits: CpuWaits | None, unlike: Bools, serving: ServingWaits) -> Bools:
    """Slow operations that may just have waited for a CPU; those that are `unlike` such waits did not, nor those at a software device whose
    servers had a CPU all the time.

    Of a software device's those do that are no more than waits for a CPU as long as theirs, which were recorded, can tell. Where such waits make a good part of a family's slow group, longer operations have to be a hump of
    their own beyond them, or they are the end of the same tail; the family's split moves there.
    """
    wait_ns = slow.latency_ns - slow.typical_ns
    at_software = _at_software(slow)
    for device in np.unique(slow.device[at_software].astype(str)):
        mine = np.flatnonzero(at_software & (slow.device == device))
        at_software[mine] = serving.may_have_held(
            str(device), slow.start_ns[mine], slow.end_ns[mine], wait_ns[mine].astype(np.float64)
        )
    needs_cpu = (np.isin(slow.blamed, CPU_STAGES) | at_software) & ~unlike
    if waits is not None:
        needs_cpu &= ~_unlike_cpu_waits(slow, waits)
    ordinary: Bools = needs_cpu & (wait_ns < ORDINARY_WAIT_NS)
    if waits is not None:
        # Where somebody keeps the CPUs for longer, the threads of a software device wait for them as long as the program's own.
        below = np.flatnonzero(needs_cpu & at_software & ~ordinary)
        ordinary[below] = waits.as_many(wait_ns[below])
    for number, family in enumerate(slow.families):
        members = slow.family == number
        if ordinary[members].sum() < max(1.0, ORDINARY_SHARE * members.sum()):
            continue
        ratio = slow.ratio_in(family)
        values, counts = np.unique(ratio[members], return_counts=True)
        body = Body(family.operations, family.split.valley)
        further = find_split(values, counts.astype(np.int64), body, float(values[0]) * 1.001)
        if further is None:
            ordinary |= members & needs_cpu
        else:
            ordinary |= members & needs_cpu & (ratio < further.limit)
            slow.families[number] = replace(family, split=further)
    return ordinary


def _slow_set(data: dict[str, npt.NDArray[Any]], survey: Survey, families: list[Family]) -> SlowSet:
    typical = np.array([stratum.typical_stages for stratum in survey.strata])
    stage_ns = np.column_stack([_zero_for_null(data[f"{stage}_ns"]) for stage in STAGES])
    excess = stage_ns - typical[data["stratum"].astype(np.int64)] if len(stage_ns) else stage_ns
    return SlowSet(
        op_id=data["op_id"].astype(np.int64),
        start_ns=data["start_ns"].astype(np.int64),
        latency_ns=data["latency_ns"].astype(np.int64),
        open=data["open"].astype(np.bool_),
        op=data["op"],
        device=np.array(["" if name is None else str(name) for name in data["device"]], dtype=object),
        comm=np.array(["" if name is None else str(name) for name in data["comm"]], dtype=object),
        tid=_zero_for_null(data["tid"]).astype(np.int64),
        weight=data["weight"].astype(np.float64),
        family=data["family"].astype(np.int64),
        typical_ns=data["typical_ns"].astype(np.float64),
        stage_excess_ns=excess,
        stage_ns=stage_ns,
        families=families,
        flushed=data["flushed"].astype(np.bool_),
    )


def empty_slow_set() -> SlowSet:
    """No slow operation at all."""
    ints, floats, names = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, object)
    stages = np.zeros((0, len(STAGES)))
    bools = np.zeros(0, np.bool_)
    return SlowSet(
        ints, ints, ints, bools, names, names, names, ints, floats, ints, floats, stages, stages, []
    )


def none_of(slow: SlowSet) -> Bools:
    """A mask that chooses no slow operation."""
    return np.zeros(len(slow), np.bool_)


def waited_for(
    slow: SlowSet, devices: tuple[str, ...], stages: tuple[str, ...] = ("queue", "device")
) -> Bools:
    """Slow operations that waited for one of these devices, in these stages; those that name no device may have."""
    waiting = np.isin(slow.blamed, [STAGES.index(stage) for stage in stages])
    return np.asarray(waiting & np.isin(slow.device.astype(str), [*devices, "", "None"]), np.bool_)


def _zero_for_null(values: npt.NDArray[Any]) -> Floats:
    if values.dtype == object:
        return np.array([0.0 if value is None else float(value) for value in values])
    return np.nan_to_num(values.astype(np.float64), nan=0.0)


def in_flight_before(case: Case, survey: Survey) -> SlowSet:
    """What was far from typical and still in flight when the measured time began: it is not judged, but judged operations may wait for it."""
    phases = case.phases()
    if not phases:
        return empty_slow_set()
    stages = ", ".join(f"{stage}_ns" for stage in STAGES)
    data = case.arrays(
        f"""SELECT op_id, start_ns, latency_ns, open, op, coalesce(device, '') AS device, comm, tid, weight, {stages},
  coalesce(flags, 0) & {FLUSH} <> 0 OR op = 'flush' AS flushed, {SIZE_CLASS} AS size_class, {DEPTH_CLASS} AS depth_class
FROM {survey.layer}_ops WHERE start_ns < {survey.begin_ns} AND start_ns + latency_ns > {survey.begin_ns} ORDER BY start_ns, op_id"""
    )
    known = {(s.device, s.op, s.size_class, s.depth_class): s for s in survey.strata}
    keys = zip(*(data[name].tolist() for name in ("device", "op", "size_class", "depth_class")), strict=True)
    strata = [known.get(key) for key in keys]
    late = [
        stratum is not None and latency > TAIL_BEGIN * stratum.typical_ns
        for stratum, latency in zip(strata, data["latency_ns"].tolist(), strict=True)
    ]
    chosen = np.flatnonzero(np.array(late, np.bool_))
    of = [stratum for stratum in (strata[place] for place in chosen) if stratum is not None]
    kept = {name: values[chosen] for name, values in data.items()}
    kept["stratum"] = np.array([stratum.number for stratum in of], np.int64)
    kept["typical_ns"] = np.array([stratum.typical_ns for stratum in of])
    kept["family"] = np.zeros(len(of), np.int64)
    return _slow_set(kept, survey, [])


def blame(slow: SlowSet, before: SlowSet | None = None) -> Ints:
    """The stage to blame for each slow operation: where most of its excess is, knock-on waits aside.

    Whoever waits for a slot (a tag, a request, the submitter's own queue depth) waits in a stage above
    the one that holds the slots. So an operation that waited in `fs`, `throttle` or `queue` while
    operations of the same device were stuck further down is blamed on where those were stuck; one
    that waited in `app` on what held the operations of its thread. Without anything stuck further
    down at that time, the stage itself is to blame. `before`: others that began earlier (`in_flight_before`).
    """
    if len(slow) == 0:
        return np.zeros(0, np.int64)
    if before is not None and len(before):
        return blame(_one_after_the_other(before, slow))[len(before) :]
    blamed: Ints = np.argmax(slow.stage_excess_ns, axis=1).astype(np.int64)
    own = blamed.copy()
    for device in np.unique(slow.device.astype(str)):
        mine = np.flatnonzero(slow.device.astype(str) == device)
        for holder in HOLDERS:
            stuck = mine[own[mine] == holder]
            waiting = mine[np.isin(own[mine], WAITERS) & (own[mine] < holder)]
            if len(stuck) and len(waiting):
                behind = _covered_share(slow, waiting, stuck, holder) >= KNOCK_ON_SHARE
                blamed[waiting[behind]] = holder
    return _blame_backlog(slow, own, blamed)


def _one_after_the_other(one: SlowSet, two: SlowSet) -> SlowSet:
    """The operations of both, in this order, to be blamed anew; of the rest what the second one has."""
    both: dict[str, Any] = {
        of.name: np.concatenate((getattr(one, of.name), getattr(two, of.name)))
        for of in fields(SlowSet)
        if of.name not in ("families", "thinning", "blamed", "ordinary")
    }
    return replace(two, **both, blamed=np.zeros(0, np.int64), ordinary=np.zeros(0, np.bool_))


def _covered_share(slow: SlowSet, waiting: Ints, stuck: Ints, holder: int) -> Floats:
    """Part of each wait during which something was stuck in the stage `holder`."""
    rows = np.arange(len(waiting))
    before = np.cumsum(slow.stage_ns, axis=1) - slow.stage_ns
    stage = np.argmax(slow.stage_excess_ns[waiting], axis=1)
    wait_ns = slow.stage_ns[waiting][rows, stage]
    from_ns = slow.start_ns[waiting] + before[waiting][rows, stage]
    low = slow.start_ns[stuck] + before[stuck, holder]
    high = low + slow.stage_ns[stuck, holder]
    covered: Floats = overlap(from_ns, from_ns + wait_ns, low, high) / np.maximum(wait_ns, 1.0)
    return covered


def _blame_backlog(slow: SlowSet, own: Ints, blamed: Ints) -> Ints:
    """Operations that were due while all slots of their thread were taken, and the backlog after that."""
    waiting = own == APP
    for tid in np.unique(slow.tid[waiting]):
        mine = np.flatnonzero(slow.tid == tid)
        chain = chains(slow.start_ns[mine], slow.end_ns[mine])
        held = np.zeros((int(chain.max()) + 1, len(STAGES)))
        causes = ~waiting[mine]
        np.add.at(held, (chain[causes], blamed[mine[causes]]), slow.excess_ns[mine[causes]])
        caused = np.bincount(chain[causes], minlength=len(held)) > 0
        one_by_one = _held_below(slow, mine, chain, len(held))
        held = np.where(caused[:, None], held, one_by_one)
        inherits = waiting[mine] & (held.sum(axis=1) > 0)[chain]
        blamed[mine[inherits]] = np.argmax(held, axis=1)[chain[inherits]]
    return blamed


def _held_below(slow: SlowSet, mine: Ints, chain: Ints, count: int) -> Floats:
    """What the operations of each chain lost below, per stage, ns; nothing where their slots stood empty for longer than that held them.

    Where each operation is late behind the one before, all of them wait in `app`, and none is slow for what it did below by itself.
    """
    lost = slow.stage_excess_ns[mine].clip(0.0)
    lost[:, APP] = 0.0
    held = np.zeros((count, len(STAGES)))
    np.add.at(held, chain, lost)
    start, end = slow.start_ns[mine], slow.end_ns[mine]
    submit = (start + slow.stage_ns[mine, APP]).astype(np.int64)
    first, last = extents(chain, start, end)
    # Chains of a thread come one after the other, and so do their parts here.
    low, high = disjoint(submit, end)
    busy = np.bincount(chain[np.argsort(submit, kind="stable")], high - low, count)
    inside = np.bincount(chain, end - submit, count)
    late = busy * held.sum(axis=1) / np.maximum(inside, 1.0)
    return np.where((late > (last - first) - busy)[:, None], held, 0.0)


def chains(start_ns: Ints, end_ns: Ints) -> Ints:
    """Number of the chain of overlapping intervals, not cut, that each belongs to (intervals in order of their start)."""
    reach = np.maximum.accumulate(end_ns)
    begins = np.concatenate(([True], start_ns[1:] > reach[:-1]))
    return np.cumsum(begins, dtype=np.int64) - 1
