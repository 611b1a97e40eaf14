"""Devices that are slower from one moment on, to the end, with no more to do: an update, a full fast region, a link that lost lanes, spent credits.

The earlier part of the run is the baseline. It names a device (or all of them) and the moment; where the machine's facts changed meanwhile, it says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_by_loss
from whodisk.detectors.thresholds import (
    SINCE_CELL_MIN,
    SINCE_DEVICES_PART,
    SINCE_PRESENT_MIN,
    SINCE_TOGETHER_BLOCKS,
)
from whodisk.evidence.context import Context
from whodisk.evidence.level_change import LevelChange, level_change, level_of
from whodisk.evidence.slow_operations import waited_for
from whodisk.evidence.survey import SIZE_CLASS, Survey
from whodisk.evidence.thresholds import LEVEL_BLOCKS
from whodisk.evidence.time_lost import share_lost
from whodisk.findings import Culprit, Effect
from whodisk.machine.volumes import volumes_of
from whodisk.reading.changes import changes_of
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools

#: What can change under a drive that stays, and how it is called.
_FACTS = {"firmware": "firmware", "pcie_link": "PCIe link"}


@dataclass(frozen=True)
class Since:
    """Requests of one kind of some devices, and how they changed."""

    devices: tuple[str, ...]
    ops: tuple[str, ...]
    change: LevelChange


def run(context: Context) -> Result:
    """One candidate where all devices changed together, else one for each that did."""
    result = Result()
    survey = context.surveys.get("block")
    if survey is None or "device" not in survey.stages_observed:
        return result
    volumes = volumes_of(context.case)
    devices = sorted(device for device in survey.by_device() if device and device not in volumes)
    changed, looked_at = _changes(context, survey, set(devices))
    for since in _together(changed, looked_at):
        candidate = _candidate(context, survey, since, looked_at)
        if _at_its_pace(context, survey, since) and not _facts_changed(context, since.devices):
            # Credits that are spent, say: what a device takes is a limit, and `device_rate` reports it.
            result.observed.append(candidate.claim)
            result.tested.append(candidate.p_value)
        else:
            result.candidates.append(candidate)
    return result


def _at_its_pace(context: Context, survey: Survey, since: Since) -> bool:
    """Whether devices that changed take requests at one pace from then on, and no more."""
    begin = np.array([_moment_ns(survey, since.change)])
    end = np.array([survey.end_ns])
    return any(
        pace.device in since.devices and pace.op in since.ops and bool(pace.covers(begin, end)[0])
        for pace in context.paces
    )


def _moment_ns(survey: Survey, change: LevelChange) -> int:
    return survey.begin_ns + int(change.block * survey.span_ns / LEVEL_BLOCKS)


def series_sql(survey: Survey) -> str:
    """Median log time in the device, and the number of requests, by device, kind, size and block of time."""
    return f"""SELECT device, op, {SIZE_CLASS} AS size_class, {survey.time_bin_sql(LEVEL_BLOCKS)} AS block, median(ln(greatest(device_ns, 1))) AS v,
  count(*) AS n
FROM measured WHERE layer = '{survey.layer}' AND device_ns IS NOT NULL AND op IN ('read', 'write')
GROUP BY 1, 2, 3, 4 HAVING n >= {SINCE_CELL_MIN} ORDER BY 1, 2, 3, 4"""


def _changes(context: Context, survey: Survey, devices: set[str]) -> tuple[list[Since], tuple[str, ...]]:
    """Devices that changed, and all that could be looked at."""
    data = context.case.arrays(series_sql(survey))
    block, count = data["block"].astype(np.int64), data["n"].astype(np.float64)
    value = data["v"].astype(np.float64)
    found: list[Since] = []
    looked_at: list[str] = []
    for device in sorted(devices.intersection(data["device"].astype(str))):
        mine = data["device"].astype(str) == device
        by_op: dict[str, LevelChange] = {}
        enough = False
        for op in ("read", "write"):
            of_op = mine & (data["op"].astype(str) == op)
            load = np.bincount(block[of_op], count[of_op], LEVEL_BLOCKS).astype(np.float64)
            sizes, blocks_of = np.unique(data["size_class"][of_op], return_counts=True)
            present = sizes[blocks_of >= SINCE_PRESENT_MIN * LEVEL_BLOCKS]
            if not len(present):
                continue
            enough = True
            kept = of_op & np.isin(data["size_class"], present)
            level = level_of(value[kept], count[kept], block[kept], data["size_class"][kept], LEVEL_BLOCKS)
            change = level_change(level, load)
            if change is not None:
                by_op[op] = change
        if enough:
            looked_at.append(device)
        if by_op:
            strongest = max(by_op.values(), key=lambda one: one.ratio)
            ops = tuple(
                op for op, one in by_op.items() if abs(one.block - strongest.block) <= SINCE_TOGETHER_BLOCKS
            )
            found.append(Since((device,), ops, strongest))
    return found, tuple(looked_at)


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
    return [Since(devices, ops, change)]


def _candidate(context: Context, survey: Survey, since: Since, looked_at: tuple[str, ...]) -> Candidate:
    change = since.change
    at_ns = _moment_ns(survey, change)
    where = (
        f"layer = '{survey.layer}' AND device IN ({', '.join(map(quoted, since.devices))}) "
        f"AND op IN ({', '.join(map(quoted, since.ops))}) AND device_ns IS NOT NULL"
    )
    lost_sql = f"SELECT op_id, {1.0 - 1.0 / change.ratio!r} * device_ns AS lost_ns FROM measured WHERE {where} AND start_ns >= {at_ns}"
    share, worse = share_lost(context, survey, lost_sql)
    who = f"All {len(since.devices)} devices" if len(since.devices) > 1 else since.devices[0]
    takes = "take" if len(since.devices) > 1 else "takes"
    kinds = words.listed([words.plural_op(op) for op in since.ops])
    facts = _facts_changed(context, since.devices)
    claim = (
        f"{who} {takes} {words.significant(change.ratio)} times as long for {kinds} of the same size from {words.duration(at_ns - survey.begin_ns)} on, to the end of the "
        f"run, and had no more to do than before.{facts}"
    )
    return Candidate(
        culprit=_culprit(context, since, looked_at),
        claim=claim,
        baseline=f"the same devices before, requests of the same kind and size ({words.duration(at_ns - survey.begin_ns)})",
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
        refute="Repeat the run from the same state: if the change comes at another time, or never, something else made it.",
        remedy="Find out what happened at that moment: an update, temperature, a region that ran full, credits of a virtual disk that were spent, the link "
        "(lspci -vv), the kernel's log.",
        otherwise=claim,
        explains=_behind(context, since, at_ns),
        large=large_by_loss(share, worse),
        p99_ratio=worse,
        # The finding that accuses one of them for a reason of its own reports this, too.
        consequence=True,
        joins=tuple(("device", device) for device in since.devices),
        basis="estimated",
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
    """Slow operations after the change that waited for these devices."""
    slow = context.slow
    of_it = (slow.start_ns >= at_ns) & np.isin(slow.op.astype(str), since.ops)
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
