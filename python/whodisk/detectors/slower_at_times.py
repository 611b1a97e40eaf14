"""A device without peers that is slower again and again, for a while each time, with no more to do: too warm, busy with itself, or its host is.

Neither level is a tail of the other, so no slow operations stand apart. The times between the windows are the baseline.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_by_loss
from whodisk.detectors.thresholds import (
    AT_TIMES_BLOCKS,
    AT_TIMES_CELL_MIN,
    AT_TIMES_KEPT_MIN,
    AT_TIMES_ORDER_MAX,
    AT_TIMES_PLACES,
    AT_TIMES_REQUESTS,
    AT_TIMES_SHARED_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.level_change import level_of
from whodisk.evidence.slow_operations import SOFTWARE_DEVICES, waited_for
from whodisk.evidence.steal import mostly_stolen, steal_of
from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, Survey, thinned
from whodisk.evidence.thresholds import LEVELS_WINDOWS_MIN, ORDINARY_WAIT_NS
from whodisk.evidence.time_lost import share_lost
from whodisk.evidence.two_levels import TwoLevels, two_levels
from whodisk.findings import Culprit, Effect
from whodisk.machine.peers import without_peers
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Ints


def run(context: Context) -> Result:
    """A candidate for each device that goes to and fro between two levels."""
    result = Result()
    survey = context.surveys.get("block")
    if survey is None or "device" not in survey.stages_observed:
        return result
    for device in without_peers(context, survey, 2 * LEVELS_WINDOWS_MIN * AT_TIMES_REQUESTS):
        blocks = _blocks(survey, device)
        levels = _levels(context, survey, device, blocks)
        if levels is None:
            continue
        because = _otherwise(context, survey, device, blocks, levels)
        candidate = _candidate(context, survey, device, blocks, levels)
        if because:
            result.observed.append(f"{candidate.claim} But {because}.")
            result.tested.append(candidate.p_value)
        else:
            result.candidates.append(candidate)
    return result


def _blocks(survey: Survey, device: str) -> int:
    requests = sum(s.operations for s in survey.select(device))
    return int(min(AT_TIMES_BLOCKS, requests // AT_TIMES_REQUESTS))


def _where(survey: Survey, device: str) -> str:
    return f"layer = '{survey.layer}' AND device = {quoted(device)} AND {thinned(survey.operations)}"


_TIMED = "device_ns IS NOT NULL AND op IN ('read', 'write')"


def series_sql(survey: Survey, device: str, blocks: int) -> str:
    """Mean log time in the device, number of requests and bytes, by kind, size and block of time; requests of all kinds are load."""
    return f"""SELECT op, {SIZE_CLASS} AS size_class, {survey.time_bin_sql(blocks)} AS block,
  coalesce(avg(ln(greatest(device_ns, 1))) FILTER ({_TIMED}), 0) AS v, count(*) FILTER ({_TIMED}) AS timed, count(*) AS n, sum(size_bytes) AS bytes
FROM measured WHERE {_where(survey, device)} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def _levels(context: Context, survey: Survey, device: str, blocks: int) -> TwoLevels | None:
    data = context.case.arrays(series_sql(survey, device, blocks))
    block, count = data["block"].astype(np.int64), data["timed"].astype(np.float64)
    value = data["v"].astype(np.float64)
    _, kind = np.unique(
        np.stack((data["op"].astype(str), data["size_class"].astype(str))), axis=1, return_inverse=True
    )
    timed = count > 0
    level = level_of(value[timed], count[timed], block[timed], kind.ravel()[timed], blocks)
    requests, moved = np.zeros(blocks), np.zeros(blocks)
    np.add.at(requests, block, data["n"].astype(np.float64))
    np.add.at(moved, block, data["bytes"].astype(np.float64))
    found = two_levels(level, requests)
    # Fewer and larger ones are more to do, too.
    return found if found is not None and two_levels(level, moved) is not None else None


def _otherwise(context: Context, survey: Survey, device: str, blocks: int, levels: TwoLevels) -> str:
    """What else would explain the windows; nothing if nothing would."""
    begin, end = _moments(survey, blocks, levels)
    usual_ns = float(np.median([s.own_median_ns for s in survey.select(device)]))
    if device.startswith(SOFTWARE_DEVICES) and (levels.ratio - 1) * usual_ns < ORDINARY_WAIT_NS:
        return "the threads that serve it need a CPU, and none may have been free"
    steal = steal_of(context.case, survey)
    if steal is not None and (~mostly_stolen(context.case, steal, begin, end)).sum() < LEVELS_WINDOWS_MIN:
        return "the host of this machine had taken its CPUs away"
    # A pace that is as much slower in the windows is what the windows show, and no limit.
    at_pace = [
        pace for pace in context.paces if pace.device == device and pace.times(begin, end) < levels.ratio**0.5
    ]
    if any(pace.covers(begin, end).mean() > 0.5 for pace in at_pace):
        return "it then takes requests at a fixed pace, which is a limit"
    change = float(np.log(levels.ratio))
    # Where operations are due at times of their own, and no more of them came, more is in flight because each takes longer.
    if not context.keeps_rate and not _holds(context, survey, device, blocks, levels, DEPTH_CLASS, change):
        return "more was in flight there then"
    if not _holds(context, survey, device, blocks, levels, _place(survey, device), change):
        return "the requests went to other places of it then"
    if not _same_order(context, survey, device, blocks, levels):
        return "the requests came in another order of places then"
    return ""


def _is_high(survey: Survey, blocks: int, levels: TwoLevels) -> str:
    return f"{survey.time_bin_sql(blocks)} IN ({', '.join(map(str, np.flatnonzero(levels.high)))})"


def _place(survey: Survey, device: str) -> str:
    """Expression: in which of equal parts of the used range a request lies."""
    where = f"layer = '{survey.layer}' AND device = {quoted(device)}"
    first, last = (f"(SELECT {of}(offset_bytes) FROM measured WHERE {where})" for of in ("min", "max"))
    return f"CAST(floor({AT_TIMES_PLACES} * (offset_bytes - {first}) / ({last} - {first} + 1.0)) AS INTEGER)"


def _holds(
    context: Context, survey: Survey, device: str, blocks: int, levels: TwoLevels, by: str, change: float
) -> bool:
    """Whether requests of the same kind, size and `by` take longer in the windows, too."""
    data = context.case.arrays(
        f"""SELECT op, {SIZE_CLASS} AS size_class, {by} AS of, {_is_high(survey, blocks, levels)} AS high, avg(ln(greatest(device_ns, 1))) AS v, count(*) AS n
FROM measured WHERE {_where(survey, device)} AND {_TIMED} GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""
    )
    cells: dict[tuple[str, str, str], dict[bool, tuple[float, float]]] = {}
    for op, size, of, high, value, count in zip(
        *(data[name] for name in ("op", "size_class", "of", "high", "v", "n")), strict=True
    ):
        cells.setdefault((str(op), str(size), str(of)), {})[bool(high)] = (float(value), float(count))
    slow = sum(cell[True][1] for cell in cells.values() if True in cell)
    shared = [
        (cell[True][0] - cell[False][0], cell[True][1])
        for cell in cells.values()
        if len(cell) == 2 and min(cell[True][1], cell[False][1]) >= AT_TIMES_CELL_MIN
    ]
    weight = sum(count for _, count in shared)
    if weight < AT_TIMES_SHARED_MIN * slow:
        return False
    return sum(longer * count for longer, count in shared) >= AT_TIMES_KEPT_MIN * change * weight


def _same_order(context: Context, survey: Survey, device: str, blocks: int, levels: TwoLevels) -> bool:
    """Whether about as many requests follow the one before them on the device in the windows as between them."""
    rows = context.case.rows(
        f"""SELECT high, avg(CASE WHEN offset_bytes = follows THEN 1.0 ELSE 0.0 END) AS part FROM (
  SELECT {_is_high(survey, blocks, levels)} AS high, offset_bytes, lag(offset_bytes + size_bytes) OVER (PARTITION BY op ORDER BY start_ns, op_id) AS follows
  FROM measured WHERE layer = '{survey.layer}' AND device = {quoted(device)} AND {_TIMED}) AS ordered GROUP BY 1"""
    )
    parts = [float(row["part"] or 0) for row in rows]
    return max(parts) - min(parts) < AT_TIMES_ORDER_MAX


def _moments(survey: Survey, blocks: int, levels: TwoLevels) -> tuple[Ints, Ints]:
    """Begin and end of the windows, ns."""
    begin, end = (
        survey.begin_ns + (edge * (survey.span_ns / blocks)).astype(np.int64)
        for edge in (levels.begin, levels.end)
    )
    return begin, end


def _candidate(context: Context, survey: Survey, device: str, blocks: int, levels: TwoLevels) -> Candidate:
    begin, end = _moments(survey, blocks, levels)
    is_high = _is_high(survey, blocks, levels)
    where = f"layer = '{survey.layer}' AND device = {quoted(device)} AND {_TIMED}"
    lost_sql = f"SELECT op_id, {1.0 - 1.0 / levels.ratio!r} * device_ns AS lost_ns FROM measured WHERE {where} AND {is_high}"
    share, worse = share_lost(context, survey, lost_sql)
    share = min(1.0, share)
    claim = (
        f"{device} takes {words.significant(levels.ratio)} times as long for requests of the same kind and size in "
        f"{words.things(len(begin), 'window')} of {words.duration(float(np.median(end - begin)))} "
        f"({words.percent(float((end - begin).sum()) / survey.span_ns)} of the time) as between them, and had no more to do."
    )
    return Candidate(
        culprit=Culprit("device", device),
        claim=claim,
        baseline="the same device between these windows, requests of the same kind and size",
        effect=Effect("time in the device", levels.ratio, "x between", levels.low_ratio, levels.high_ratio),
        share_of_excess=share,
        share_of_latency=share,
        p_value=levels.p_value,
        episodes=len(begin),
        evidence=[
            evidence(
                context.case,
                "median time in the device in the slow windows and between them",
                f"""SELECT op, {is_high} AS in_windows, count(*) AS requests, CAST(median(device_ns) AS BIGINT) AS median_ns
FROM measured WHERE {where} GROUP BY 1, 2 ORDER BY 1, 2""",
            )
        ],
        refute="Repeat the run with a pause before it, and with another device: windows that come at the same moments of the load are the load's.",
        remedy=f"Look at what {device} does by itself in such windows: its temperature and its throttling (smart-log), garbage collection, its log pages; of a "
        "virtual disk, at its host and neighbours.",
        otherwise=claim,
        explains=_behind(context, device, begin, end),
        large=large_by_loss(share, worse),
        p99_ratio=worse,
        causes=(("stage", "device"),),
        # The finding that accuses it for a reason of its own reports this, too.
        consequence=True,
        joins=(("stage", context.stage("device")),),
        basis="estimated",
    )


def _behind(context: Context, device: str, begin: Ints, end: Ints) -> Bools:
    """Slow operations that began in a window and waited for this device."""
    slow = context.slow
    at = np.searchsorted(begin, slow.start_ns, side="right") - 1
    inside = (at >= 0) & (slow.start_ns < end[np.maximum(at, 0)])
    return np.asarray(inside & waited_for(slow, (device,)), np.bool_)


DETECTOR = Detector(
    name="slower_at_times",
    needs=("judged.latency_ns", "ops/block.device_ns", "ops/block.offset_bytes"),
    needs_stages=(),
    null_model="parts of the time are slow independently of each other: they do not lie together in so few windows (runs); and the shape is that of two levels "
    "with hardly anything between them, at the same queue depths (unless the workload keeps a rate of its own), places and order of requests",
    smallest_effect="15 % slower in the device in at least 3 windows and a tenth of the time; 5 % of all latency, or a 99th percentile 10 % above that without",
    run=run,
    needs_all=True,
)
