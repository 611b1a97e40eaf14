"""Devices that are slower from one moment on, to the end, with no more to do: an update, a full fast region, a link that lost lanes, spent credits.

The earlier part of the run is the baseline. It names a device (or all of them) and the moment; where the machine's facts changed meanwhile, it says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_by_loss
from whodisk.detectors.candidates import leave_device
from whodisk.detectors.newcomers import newcomer
from whodisk.detectors.thresholds import (
    SINCE_CELL_MIN,
    SINCE_DEVICES_PART,
    SINCE_PRESENT_MIN,
    SINCE_TIME_PART,
    SINCE_TOGETHER_BLOCKS,
    SINCE_WEIGHTS,
)
from whodisk.evidence.context import Context
from whodisk.evidence.device_pace import BYTES, pace_since
from whodisk.evidence.flush_work import flushes_of
from whodisk.evidence.level_change import LevelChange, blocks_of, level_change, level_of
from whodisk.evidence.slow_operations import waited_for
from whodisk.evidence.survey import SIZE_CLASS, WRITTEN_CLASS, Survey, thinned
from whodisk.evidence.thresholds import LEVEL_BLOCKS, LEVEL_PLACES
from whodisk.evidence.time_lost import share_lost
from whodisk.findings import Culprit, Effect
from whodisk.machine.volumes import volumes_of
from whodisk.reading.changes import changes_of
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Floats, Ints

#: What can change under a drive that stays, and how it is called.
_FACTS = {"firmware": "firmware", "pcie_link": "PCIe link"}
#: Kinds of requests that move data, and the others that are looked at: by themselves, as they may be few, and take as long as what was written before makes them.
_DATA, FLUSHES = ("read", "write"), ("flush",)


@dataclass(frozen=True)
class Since:
    """Requests of one kind of some devices, and how they changed."""

    devices: tuple[str, ...]
    ops: tuple[str, ...]
    change: LevelChange
    #: When, ns since the case's start.
    at_ns: int
    #: How flushes changed, where they did at that moment.
    flush: LevelChange | None = None

    @property
    def of_flushes(self) -> bool:
        """Whether only flushes changed."""
        return self.ops == FLUSHES


#: Requests and bytes per ns that a device has beside its flushes, in each block.
Beside = tuple[Floats, Floats]


@dataclass(frozen=True)
class Cells:
    """Median log time in the device of its requests, by device, kind, size and block of time; an element each. The size of a flush is what was written since
    the one before it."""

    device: np.ndarray[Any, np.dtype[Any]]
    op: np.ndarray[Any, np.dtype[Any]]
    size: Ints
    block: Ints
    value: Floats
    count: Floats
    #: Of flushes: mean bytes, and number of writes, before each.
    written: Floats
    writes: Floats
    #: Length of each block, ns, and when it begins.
    length_ns: Floats
    begin_ns: Ints

    def pick(self, chosen: Bools) -> Cells:
        """Some of them."""
        return replace(
            self,
            device=self.device[chosen],
            op=self.op[chosen],
            size=self.size[chosen],
            block=self.block[chosen],
            value=self.value[chosen],
            count=self.count[chosen],
            written=self.written[chosen],
            writes=self.writes[chosen],
        )

    def levels(self) -> Floats:
        """The level of each block: each size of each device against its own mean."""
        pairs = np.stack((self.device.astype(str), self.size.astype(str)))
        _, kind = np.unique(pairs, axis=1, return_inverse=True)
        return level_of(self.value, self.count, self.block, kind.ravel(), LEVEL_BLOCKS)

    def rates(self) -> Floats:
        """Requests per ns in each block."""
        return np.asarray(np.bincount(self.block, self.count, LEVEL_BLOCKS) / self.length_ns, np.float64)

    def per_flush(self) -> tuple[Floats, Floats]:
        """Bytes and writes before a flush in each block."""
        flushes = np.maximum(1.0, np.bincount(self.block, self.count, LEVEL_BLOCKS))
        written, writes = (
            np.bincount(self.block, self.count * of, LEVEL_BLOCKS) / flushes
            for of in (self.written, self.writes)
        )
        return written, writes


def run(context: Context) -> Result:
    """One candidate where all devices changed together, else one for each that did."""
    result = Result()
    survey = context.surveys.get("block")
    if survey is None or "device" not in survey.stages_observed:
        return result
    changed, of_data = _looked_for(context, survey, _DATA)
    flushes, of_flushes = _looked_for(context, survey, FLUSHES)
    of_any = tuple(sorted({*of_data, *of_flushes}))
    for since in _with_flushes(survey, _together(changed, of_data), _together(flushes, of_flushes)):
        candidate = _candidate(context, survey, since, of_any if since.of_flushes else of_data)
        part = _part_slower(context, survey, since)
        if part < SINCE_TIME_PART:
            result.observed.append(
                f"{candidate.claim} But only {words.percent(part)} of the time there is in requests that take longer; the others take what they took: "
                "these requests changed, not the device."
            )
            result.tested.append(candidate.p_value)
        elif _at_its_pace(context, survey, since) and not _facts_changed(context, since.devices):
            # Credits that are spent, say: what a device takes is a limit, and `device_rate` reports it.
            result.observed.append(candidate.claim)
            result.tested.append(candidate.p_value)
        else:
            result.candidates.append(candidate)
    return result


def _with_flushes(survey: Survey, changed: list[Since], flushes: list[Since]) -> list[Since]:
    """Changes of data, with those of the flushes of the same devices at the same moment; and the other changes of flushes."""
    near_ns = SINCE_TOGETHER_BLOCKS * survey.span_ns / LEVEL_BLOCKS
    told: list[Since] = []
    for since in changed:
        same = [
            one
            for one in flushes
            if set(one.devices) <= set(since.devices) and abs(one.at_ns - since.at_ns) <= near_ns
        ]
        told.append(replace(since, ops=(*since.ops, *FLUSHES), flush=same[0].change) if same else since)
        flushes = [one for one in flushes if one not in same]
    return told + flushes


def _looked_for(
    context: Context, survey: Survey, ops: tuple[str, ...]
) -> tuple[list[Since], tuple[str, ...]]:
    """Devices of which requests of these kinds changed, and all that could be looked at; in blocks of the first of `SINCE_WEIGHTS` in which one changed (Bonferroni over these).

    A device that takes five times as long from a fiftieth of the run on had served a tenth of its requests by then: that is a level, in blocks of as many
    requests each.
    """
    volumes = volumes_of(context.case)
    names = [device for device in survey.by_device() if device not in volumes]
    start_ns = context.operations[0]
    if ops == FLUSHES:
        start_ns = context.case.arrays(
            f"SELECT start_ns FROM {flushes_of(context.case, survey)} AS flushes ORDER BY start_ns, op_id"
        )["start_ns"].astype(np.int64)
        if len(start_ns) < SINCE_CELL_MIN * SINCE_PRESENT_MIN * LEVEL_BLOCKS:
            return [], ()
    first, *others = (
        blocks_of(start_ns, survey.begin_ns, survey.span_ns, weight) for weight in SINCE_WEIGHTS
    )
    # Where requests came evenly all of these are the same blocks.
    every = [
        first,
        *(block_of for block_of in others if np.abs(block_of - first).max() >= SINCE_TOGETHER_BLOCKS),
    ]
    looks = 0
    for block_of in every:
        looks += 1
        cells = _cells(context, survey, names, block_of, ops)
        devices = np.unique(cells.device).tolist()
        beside = _beside(context, survey, devices, block_of, cells) if ops == FLUSHES else {}
        changed, looked_at = changes(cells, devices, ops, beside)
        if (all_of_them := _as_one(cells, devices, ops, beside)) is not None:
            changed, looked_at = [all_of_them], all_of_them.devices
        if changed:
            break
    by_chance = [min(1.0, looks * since.change.p_value) for since in changed]
    told = [
        replace(since, change=replace(since.change, p_value=p))
        for since, p in zip(changed, by_chance, strict=True)
    ]
    return told, looked_at


def kinds_sql(survey: Survey, since: Since, flushes: str) -> str:
    """By kind and size, before and after the moment: median time in the device, and how many; and the time of those after. A flush makes written data
    durable, and so do carriers of flushes, which `measured` leaves out: what became slow for writes is slow for them. Where only flushes changed, by what was
    written before them (`flushes`: where these are)."""
    ops = (*since.ops, "flush") if "write" in since.ops else since.ops
    before, after = f"start_ns < {since.at_ns}", f"start_ns >= {since.at_ns}"
    kind, rows = (
        (f"'flush' AS op, {WRITTEN_CLASS}", f"{flushes} AS flushes WHERE true")
        if since.of_flushes
        else (
            f"op, {SIZE_CLASS}",
            f"{survey.layer}_ops WHERE NOT open AND device_ns IS NOT NULL AND op IN ({', '.join(map(quoted, ops))})",
        )
    )
    return f"""SELECT {kind} AS size_class, count(*) FILTER ({before}) AS n_before, count(*) FILTER ({after}) AS n_after,
  coalesce(median(device_ns) FILTER ({before}), 0) AS before_ns, coalesce(median(device_ns) FILTER ({after}), 0) AS after_ns,
  coalesce(sum(device_ns) FILTER ({after}), 0) AS all_ns
FROM {rows} AND device IN ({", ".join(map(quoted, since.devices))})
  AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns} GROUP BY 1, 2 ORDER BY 1, 2"""


def _part_slower(context: Context, survey: Survey, since: Since) -> float:
    """The part of the time in the device, after the change, of requests that take longer since, by half as much at least.

    A device that got slower is slower for what it mostly does. Where one size of its requests takes longer while those that it spends most of its time on
    do not, it is these requests that changed: their place, or what was ahead of them.
    """
    data = context.case.arrays(kinds_sql(survey, since, flushes_of(context.case, survey)))
    numbers = ("n_before", "n_after", "before_ns", "after_ns", "all_ns")
    n_before, n_after, before, after, all_ns = (data[name].astype(np.float64) for name in numbers)
    known = np.minimum(n_before, n_after) >= SINCE_CELL_MIN
    rise = np.log(np.maximum(after, 1.0) / np.maximum(before, 1.0))
    slower = rise >= 0.5 * np.log(since.change.ratio)
    return float(all_ns[known & slower].sum() / max(1.0, float(all_ns[known].sum())))


def _at_its_pace(context: Context, survey: Survey, since: Since) -> bool:
    """Whether devices that changed take requests at one pace from then on, and no more."""
    begin = np.array([since.at_ns])
    end = np.array([survey.end_ns])
    return any(
        pace.device in since.devices and pace.op in since.ops and bool(pace.covers(begin, end)[0])
        for pace in context.paces
    )


def _blocks_sql(block_of: Ints) -> str:
    """What joins rows `r` with a place in time to the block of that place."""
    places = ", ".join(f"({place}, {block})" for place, block in enumerate(block_of.tolist()))
    return f"JOIN (VALUES {places}) AS b(place, block) ON b.place = r.place"


def series_sql(survey: Survey, block_of: Ints) -> str:
    """Median log time in the device, and the number of requests, by device, kind, size and block of time (`block_of`: of each place in time)."""
    return f"""SELECT device, op, size_class, block, median(log_ns) AS v, count(*) AS n, 0.0 AS written, 0.0 AS writes
FROM (SELECT device, op, {SIZE_CLASS} AS size_class, {survey.time_bin_sql(LEVEL_PLACES)} AS place, ln(greatest(device_ns, 1)) AS log_ns
  FROM measured WHERE layer = '{survey.layer}' AND device_ns IS NOT NULL AND op IN ('read', 'write') AND {thinned(survey.operations)}) AS r
{_blocks_sql(block_of)}
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""


def flushes_sql(survey: Survey, block_of: Ints, flushes: str) -> str:
    """The same of flushes (`flushes`: where these are), by what was written before each, and the means of that."""
    return f"""SELECT device, 'flush' AS op, size_class, block, median(log_ns) AS v, count(*) AS n, avg(written_bytes) AS written, avg(writes) AS writes
FROM (SELECT *, {WRITTEN_CLASS} AS size_class, {survey.time_bin_sql(LEVEL_PLACES)} AS place, ln(greatest(device_ns, 1)) AS log_ns FROM {flushes} AS flushes) AS r
{_blocks_sql(block_of)}
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""


def _beside(
    context: Context, survey: Survey, devices: list[str], block_of: Ints, cells: Cells
) -> dict[str, Beside]:
    data = context.case.arrays(
        f"""SELECT device, block, count(*) AS n, sum(size_bytes) AS bytes
FROM (SELECT device, {survey.time_bin_sql(LEVEL_PLACES)} AS place, coalesce(size_bytes, 0) AS size_bytes
  FROM measured WHERE layer = '{survey.layer}' AND op <> 'flush') AS r
{_blocks_sql(block_of)} GROUP BY 1, 2 ORDER BY 1, 2"""
    )
    block, of = data["block"].astype(np.int64), data["device"].astype(str)
    found: dict[str, Beside] = {}
    for device in devices:
        mine = of == device
        requests, moved = (
            np.bincount(block[mine], data[name].astype(np.float64)[mine], LEVEL_BLOCKS) / cells.length_ns
            for name in ("n", "bytes")
        )
        found[device] = requests, moved
    return found


def _cells(
    context: Context, survey: Survey, devices: list[str], block_of: Ints, ops: tuple[str, ...]
) -> Cells:
    data = context.case.arrays(
        flushes_sql(survey, block_of, flushes_of(context.case, survey))
        if ops == FLUSHES
        else series_sql(survey, block_of)
    )
    length = np.bincount(block_of, minlength=LEVEL_BLOCKS) * (survey.span_ns / LEVEL_PLACES)
    begin = survey.begin_ns + (np.cumsum(length) - length).astype(np.int64)
    cells = Cells(
        device=data["device"].astype(str),
        op=data["op"].astype(str),
        size=data["size_class"].astype(np.int64),
        block=data["block"].astype(np.int64),
        value=data["v"].astype(np.float64),
        count=data["n"].astype(np.float64),
        written=data["written"].astype(np.float64),
        writes=data["writes"].astype(np.float64),
        length_ns=np.maximum(length, 1.0),
        begin_ns=begin,
    )
    return cells.pick(np.isin(cells.device, devices))


def _change(kept: Cells, of_op: Cells, beside: list[Beside]) -> LevelChange | None:
    """How requests of one kind changed, in sizes that are there all the time; flushes only if no more is written before each, and their devices have no more to
    do beside them."""
    if not len(kept.value):
        return None
    loads = [of_op.rates()]
    if beside:
        loads += [
            *kept.per_flush(),
            *(np.sum([each[number] for each in beside], axis=0) for number in (0, 1)),
        ]
    return level_change(kept.levels(), *loads)


def changes(
    cells: Cells, devices: list[str], ops: tuple[str, ...], beside: dict[str, Beside]
) -> tuple[list[Since], tuple[str, ...]]:
    """Devices that changed, and all that could be looked at."""
    cells = cells.pick(cells.count >= SINCE_CELL_MIN)
    found: list[Since] = []
    looked_at: list[str] = []
    for device in devices:
        mine = cells.pick(cells.device == device)
        by_op: dict[str, LevelChange] = {}
        enough = False
        for op in ops:
            of_op = mine.pick(mine.op == op)
            kept = of_op.pick(np.isin(of_op.size, _present(of_op)))
            if not len(kept.value):
                continue
            enough = True
            change = _change(kept, of_op, [beside[device]] if beside else [])
            if change is not None:
                by_op[op] = change
        if enough:
            looked_at.append(device)
        if by_op:
            found.append(_since(cells, (device,), by_op))
    return found, tuple(looked_at)


def _present(cells: Cells) -> Ints:
    """Sizes that occur in most blocks."""
    sizes, of_size = np.unique(cells.size, return_inverse=True)
    blocks = [len(np.unique(cells.block[of_size == number])) for number in range(len(sizes))]
    return np.asarray(sizes[np.array(blocks, np.int64) >= SINCE_PRESENT_MIN * LEVEL_BLOCKS], np.int64)


def _since(cells: Cells, devices: tuple[str, ...], by_op: dict[str, LevelChange]) -> Since:
    strongest = max(by_op.values(), key=lambda one: one.ratio)
    ops = tuple(op for op, one in by_op.items() if abs(one.block - strongest.block) <= SINCE_TOGETHER_BLOCKS)
    return Since(devices, ops, strongest, int(cells.begin_ns[strongest.block]), by_op.get("flush"))


def _as_one(
    cells: Cells, devices: list[str], ops: tuple[str, ...], beside: dict[str, Beside]
) -> Since | None:
    """All devices together, if they changed as one: each has too few requests by itself, perhaps, to show it."""
    by_op: dict[str, LevelChange] = {}
    for op in ops:
        of_op = cells.pick(cells.op == op)
        kept = of_op.pick(np.isin(of_op.size, _present(of_op)))
        change = _change(kept, of_op, list(beside.values()))
        if change is not None and _each_changed(kept, devices, change):
            by_op[op] = change
    return _since(cells, tuple(devices), by_op) if by_op and len(devices) > 1 else None


def _each_changed(cells: Cells, devices: list[str], change: LevelChange) -> bool:
    """Whether nearly all devices take longer since then, each by half as much at least: what one of them does is no change of all."""
    count = 0
    for device in devices:
        mine = cells.pick(cells.device == device)
        level = mine.levels()
        before, after = level[: change.block], level[change.block :]
        before, after = before[np.isfinite(before)], after[np.isfinite(after)]
        if len(before) and len(after):
            count += bool(np.median(after) - np.median(before) >= 0.5 * np.log(change.ratio))
    return count >= SINCE_DEVICES_PART * len(devices)


def _together(changed: list[Since], looked_at: tuple[str, ...]) -> list[Since]:
    """What to report: all devices as one, if nearly all changed at the same time."""
    if len(looked_at) < 2 or not changed:
        return changed
    middle = int(np.median([since.change.block for since in changed]))
    same = [since for since in changed if abs(since.change.block - middle) <= SINCE_TOGETHER_BLOCKS]
    if len(same) < SINCE_DEVICES_PART * len(looked_at):
        return changed
    typical = sorted(same, key=lambda since: since.change.ratio)[len(same) // 2]
    devices = tuple(device for since in same for device in since.devices)
    ops = tuple(sorted({op for since in same for op in since.ops}))
    change = replace(
        typical.change,
        low=min(since.change.low for since in same),
        high=max(since.change.high for since in same),
        # The least convinced of them speaks for all.
        p_value=max(since.change.p_value for since in same),
    )
    return [Since(devices, ops, change, typical.at_ns, change if typical.flush else None)]


def _candidate(context: Context, survey: Survey, since: Since, looked_at: tuple[str, ...]) -> Candidate:
    change = since.change
    at_ns = since.at_ns
    where = (
        f"layer = '{survey.layer}' AND device IN ({', '.join(map(quoted, since.devices))}) "
        f"AND op IN ({', '.join(map(quoted, since.ops))}) AND device_ns IS NOT NULL"
    )
    part = repr(1.0 - 1.0 / change.ratio)
    if since.flush is not None:
        part = f"CASE op WHEN 'flush' THEN {1.0 - 1.0 / since.flush.ratio!r} ELSE {part} END"
    lost_sql = (
        f"SELECT op_id, {part} * device_ns AS lost_ns FROM measured WHERE {where} AND start_ns >= {at_ns}"
    )
    share, worse = share_lost(context, survey, lost_sql)
    facts = _facts_changed(context, since.devices)
    came = None if facts else newcomer(context, since.devices, at_ns)
    said = _said_of_flushes(context, survey, since) if since.of_flushes else _said(context, survey, since)
    cost = f" That is {words.percent(min(1.0, share))} of all latency." if since.of_flushes else ""
    claim = said + cost + (facts or (came.said if came else ""))
    return Candidate(
        culprit=_culprit(context, since, looked_at)
        if came is None
        else Culprit("process", came.comm, f"device:{came.device}"),
        claim=claim,
        baseline=f"the same devices before, {'flushes after as much was written' if since.of_flushes else 'requests of the same kind and size'} ({words.duration(at_ns - survey.begin_ns)})",
        effect=Effect("time in the device", change.ratio, "x before", change.low, change.high),
        share_of_excess=min(1.0, share),
        share_of_latency=min(1.0, share),
        p_value=change.p_value,
        episodes=1,
        evidence=[
            evidence(
                context.case,
                "median time in the device before and after",
                f"""SELECT device, op, start_ns >= {at_ns} AS after, count(*) AS requests, CAST(median(device_ns) AS BIGINT) AS median_ns
FROM measured WHERE {where} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT 40""",
            )
        ],
        refute=f"Stop {came.comm} for a while: if requests take as long, its own cost nothing."
        if came is not None
        else "Repeat the run from the same state: if the change comes at another time, or never, something else made it.",
        remedy=leave_device(came.comm)
        if came is not None
        else "Find out what happened at that moment: an update, temperature, a region that ran full, credits of a virtual disk that were spent, the link "
        f"(lspci -vv), {'a cache that lost its battery, ' if since.of_flushes else ''}the kernel's log.",
        otherwise=claim,
        explains=_behind(context, since, at_ns),
        large=large_by_loss(share, worse),
        p99_ratio=worse,
        lost_sql=lost_sql,
        # The finding that accuses one of them for a reason of its own reports this, too.
        consequence=came is None,
        no_more_to_do=came is None,
        causes=()
        if came is None
        else (("stage", "device"), ("stage", "queue"), *(("device", device) for device in since.devices)),
        joins=tuple(("device", device) for device in since.devices),
        basis="estimated",
    )


def _said(context: Context, survey: Survey, since: Since) -> str:
    who = f"All {len(since.devices)} devices" if len(since.devices) > 1 else since.devices[0]
    takes = "take" if len(since.devices) > 1 else "takes"
    kinds = words.listed([words.plural_op(op) for op in since.ops if op != "flush"])
    flushes = f", {words.significant(since.flush.ratio)} times as long for flushes" if since.flush else ""
    when = f"from {words.duration(since.at_ns - survey.begin_ns)} on, to the end of the run"
    longer = f"{words.significant(since.change.ratio)} times as long for {kinds} of the same size{flushes}"
    pace = (
        pace_since(context.case, since.devices[0], since.at_ns, survey.end_ns)
        if len(since.devices) == 1
        else None
    )
    if pace is None:
        return f"{who} {takes} {longer} {when}, and had no more to do than before."
    # A limit that somebody set, or credits that are spent: however many wait, so many come through.
    rate = pace.rate if pace.unit == BYTES else f"{words.rate(pace.per_s)} requests a second"
    return f"{who} {takes} {rate} and no more {when}: {longer}, with no more to do than before."


def _said_of_flushes(context: Context, survey: Survey, since: Since) -> str:
    of = since.devices[0] if len(since.devices) == 1 else f"all {len(since.devices)} devices"
    row = context.case.rows(
        f"""SELECT median(device_ns) FILTER (start_ns < {since.at_ns}) AS before_ns, median(device_ns) FILTER (start_ns >= {since.at_ns}) AS after_ns
FROM {flushes_of(context.case, survey)} AS flushes WHERE device IN ({", ".join(map(quoted, since.devices))})"""
    )[0]
    before, after = (words.duration(float(row[name] or 0)) for name in ("before_ns", "after_ns"))
    return (
        f"Flushes of {of} take {words.significant(since.change.ratio)} times as long from {words.duration(since.at_ns - survey.begin_ns)} on, to the end of the run: "
        f"{after}, before {before}. No more is written before each, and there is no more to do beside them than before."
    )


def _culprit(context: Context, since: Since, looked_at: tuple[str, ...]) -> Culprit:
    """One of several devices, or what all of them (one, perhaps) have in common."""
    if len(since.devices) == 1 and len(looked_at) > 1:
        return Culprit("device", since.devices[0], "slower since a moment")
    alone = f"device:{since.devices[0]}" if len(since.devices) == 1 else None
    return Culprit("stage", context.stage("device"), alone)


def _facts_changed(context: Context, devices: tuple[str, ...]) -> str:
    """What the recorder found different at the end, in a sentence."""
    found: dict[str, list[str]] = {}
    for change in changes_of(context.case.system):
        if change.kind == "device" and change.fact in _FACTS and change.subject in devices:
            what = f"{_FACTS[change.fact]} {change.was}, at the end {change.now}"
            found.setdefault(what, []).append(change.subject)
    told = [
        f"{words.listed(names[:3])}{' and others' if len(names) > 3 else ''} had {what}"
        for what, names in found.items()
    ]
    return f" Meanwhile it changed: {words.listed(told)}." if told else ""


def _behind(context: Context, since: Since, at_ns: int) -> Bools:
    """Slow operations after the change that waited for these devices. Whatever has to be durable waits for flushes: syncs, writes, calls that change names."""
    slow = context.slow
    op = slow.op.astype(str)
    durable = ~np.isin(op, ("read", "fault")) & ("flush" in since.ops)
    of_it = (slow.start_ns >= at_ns) & (np.isin(op, since.ops) | durable)
    return np.asarray(of_it & waited_for(slow, since.devices), np.bool_)


DETECTOR = Detector(
    name="slower_since",
    needs=("judged.latency_ns", "ops/block.device_ns"),
    needs_stages=(),
    null_model="blocks of time may change places: the best of all splits of them into a before and an after is no better than by chance; and the shape is that of "
    "two levels (what drifts, comes back or follows the load is none)",
    smallest_effect="15 % slower in the device for a tenth of the run and to its end; 5 % of all latency, or a 99th percentile 10 % above that without",
    run=run,
    needs_all=True,
)
