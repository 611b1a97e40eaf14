"""Operations that waited while their device served large requests of their own program: a compaction, a checkpoint, files that were deleted.

A read of 4 KiB behind a write of 2 MiB takes as long as the write, on any drive. It accuses nobody: nothing is broken where these large requests
took no longer than such requests do there, and the slow operations lie behind them far more often than by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Detector, Excuse, Result
from whodisk.detectors.thresholds import (
    BULK_BYTES_MIN,
    BULK_CHANCE_MAX,
    BULK_COVERS_MIN,
    BULK_ODDS_MIN,
    BULK_ORDINARY_MAX,
    BULK_REQUESTS_MAX,
    BULK_SIZE_RATIO_MIN,
    BULK_TOLD_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.dirtied_before import dirtied_before
from whodisk.evidence.programs import program_sql
from whodisk.machine.kernel_threads import made_for
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics import probability
from whodisk.statistics.stats import Bools, Floats, Ints, disjoint, episodes, overlap

#: Where an operation waits for its device.
THERE = [STAGES.index(stage) for stage in ("queue", "device")]


@dataclass(frozen=True)
class Bulk:
    """Large requests of the judged program on one device, and who waited for them."""

    device: str
    #: Bytes of a typical one.
    size_bytes: float
    #: Part of the time in which the device served one.
    share: float
    #: Slow operations that waited for them.
    behind: Bools


def run(context: Context) -> Result:
    """Excuses what waited for them, and says what that costs."""
    result = Result()
    for bulk in behind_bulk(context, context):
        result.excuses.append(Excuse(f"{bulk.device} served large requests of the same program", bulk.behind))
        share = context.share_lost(bulk.behind)
        if share < BULK_TOLD_MIN:
            continue
        slow = context.slow
        number = words.things(float(bulk.behind.sum()) * slow.thinning, "operation")
        result.observed.append(
            f"{number} waited while {bulk.device} served large requests of the same program ({words.size(bulk.size_bytes)} each, in {words.percent(bulk.share)} of the time): "
            f"{words.duration(float(np.median(slow.latency_ns[bulk.behind])))} where {words.duration(float(np.median(slow.typical_ns[bulk.behind])))} is typical, "
            f"{words.percent(share)} of all latency. Writing or deleting less at a time, at a lower rate, would spread it."
        )
    return result


def behind_bulk(context: Context, judged: Context) -> list[Bulk]:
    """For each device with such requests. Empty where no requests were recorded, or slow operations have nothing to do with them.

    `context` is that of the operations that waited (or of requests), `judged` knows whose they are.
    """
    slow, found = context.slow, list[Bulk]()
    if "block" not in context.surveys or not len(slow):
        return found
    waited = ~context.explained & np.isin(slow.blamed, THERE)
    there_ns = slow.stage_ns[:, THERE].sum(axis=1)
    for device in sorted(set(slow.device[waited].astype(str).tolist()) - {""}):
        mine = np.flatnonzero(waited & (slow.device == device))
        served = _served(judged, device)
        if served is None:
            continue
        begin, end = (values[mine].astype(np.float64) for values in (slow.start_ns, slow.end_ns))
        least_ns = BULK_COVERS_MIN * np.maximum(1.0, there_ns[mine])
        covered = np.asarray(overlap(begin, end, served.begin_ns, served.end_ns) >= least_ns, np.bool_)
        share = float((served.end_ns - served.begin_ns).sum()) / max(1.0, float(context.survey.span_ns))
        # However long they are, by chance no more of them are covered so far than this (Markov's inequality).
        chance = share * float(np.mean((end - begin) / least_ns))
        if _has_to_do(slow.start_ns[mine], slow.end_ns[mine], covered, chance):
            behind = np.zeros(len(slow), np.bool_)
            behind[mine[covered]] = True
            found.append(Bulk(device, served.size_bytes, share, behind))
    return found


def _has_to_do(start_ns: Ints, end_ns: Ints, covered: Bools, chance: float) -> bool:
    """Whether episodes lie behind such requests far more often than by chance."""
    numbers = episodes(start_ns, end_ns)
    total = np.bincount(numbers)
    behind, count = int((np.bincount(numbers, covered) > 0.5 * total).sum()), len(total)
    if not 0 < chance < 1:
        return False
    odds = behind / max(0.5, count - behind)
    return (
        odds >= BULK_ODDS_MIN * chance / (1 - chance)
        and probability.at_least(behind, count, chance) < BULK_CHANCE_MAX
    )


@dataclass(frozen=True)
class _Served:
    """When a device served large requests that took what such requests take there; times do not overlap."""

    begin_ns: Floats
    end_ns: Floats
    size_bytes: float


def _served(context: Context, device: str) -> _Served | None:
    """None where there are none of the judged program, or more than can be looked at."""
    of_device = f"device = {quoted(device)} AND NOT open AND device_ns IS NOT NULL"
    sizes = context.case.arrays(
        f"SELECT size_bytes, count(*) AS n FROM block_ops WHERE {of_device} AND op IN ('read', 'write') AND size_bytes > 0 GROUP BY 1 ORDER BY 1"
    )
    counted = np.cumsum(sizes["n"].astype(np.int64))
    typical = float(sizes["size_bytes"][np.searchsorted(counted, counted[-1] / 2)]) if len(counted) else 0.0
    least = max(BULK_BYTES_MIN, BULK_SIZE_RATIO_MIN * typical)
    data = context.case.arrays(
        f"""SELECT who, begin_ns, end_ns, size_bytes FROM (SELECT coalesce(who, '') AS who,
  start_ns + latency_ns - device_ns - coalesce(interrupt_ns, 0) AS begin_ns, start_ns + latency_ns AS end_ns, size_bytes,
  device_ns <= {BULK_ORDINARY_MAX} * median(device_ns) OVER (PARTITION BY op, floor(log2(size_bytes))) AS ordinary
FROM (SELECT *, {program_sql(context)} AS who FROM block_ops WHERE {of_device} AND size_bytes >= {int(least)}) AS large) AS told
WHERE ordinary ORDER BY begin_ns, end_ns LIMIT {BULK_REQUESTS_MAX + 1}"""
    )
    names = data["who"].astype(str)
    ours = made_for(context.case, names, context.own_programs[0])
    if dirtied_before(context, device):
        # What flushers write is mostly somebody else's.
        ours &= np.isin(names, context.own_programs[0])
    if not ours.any() or len(names) > BULK_REQUESTS_MAX:
        return None
    begin, end = disjoint(data["begin_ns"][ours].astype(np.float64), data["end_ns"][ours].astype(np.float64))
    return _Served(begin, end, float(np.median(data["size_bytes"][ours].astype(np.float64))))


DETECTOR = Detector(
    name="own_bulk",
    needs=("judged.start_ns", "judged.latency_ns", "ops/block.device_ns"),
    needs_stages=("device",),
    null_model="slow operations lie behind the program's large requests as often as these have the device",
    smallest_effect="none: it excuses operations that wait for large requests of their own program, which have them at five times the odds of chance",
    run=run,
    needs_all=True,
)
