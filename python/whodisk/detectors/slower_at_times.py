"""A device without peers that is slower again and again, for a while each time, with no more to do: too warm, busy with itself, or its host is.

Neither level is a tail of the other, so no slow operations stand apart. The times between the windows are the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_by_loss
from whodisk.detectors.thresholds import (
    AT_TIMES_BLOCKS,
    AT_TIMES_PLACES,
    AT_TIMES_REQUESTS,
)
from whodisk.evidence.context import Context
from whodisk.evidence.flush_work import flushes_of
from whodisk.evidence.level_change import level_of
from whodisk.evidence.same_requests import longer_among_same, parts_in_order
from whodisk.evidence.slow_operations import SOFTWARE_DEVICES, waited_for
from whodisk.evidence.steal import mostly_stolen, steal_of
from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, WRITTEN_CLASS, Survey, thinned
from whodisk.evidence.thresholds import LEVELS_WINDOWS_MIN, ORDINARY_WAIT_NS, SAME_ORDER_MAX
from whodisk.evidence.time_lost import share_lost
from whodisk.evidence.two_levels import TwoLevels, two_levels
from whodisk.findings import Culprit, Effect
from whodisk.machine.peers import without_peers
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Ints, placed


@dataclass(frozen=True)
class _Requests:
    """Requests of a device that are compared with each other over time."""

    device: str
    #: Parts of the time.
    blocks: int
    #: Where they are (FROM), and the expression for what they have to have in common.
    rows: str
    alike: str
    #: Condition in `measured`.
    timed: str
    of_flushes: bool = False

    @property
    def said(self) -> str:
        """What they are, in words."""
        return (
            "flushes after as much was written" if self.of_flushes else "requests of the same kind and size"
        )


def run(context: Context) -> Result:
    """A candidate for each device that goes to and fro between two levels."""
    result = Result()
    survey = context.surveys.get("block")
    if survey is None or "device" not in survey.stages_observed:
        return result
    for device in without_peers(context, survey, 2 * LEVELS_WINDOWS_MIN * AT_TIMES_REQUESTS):
        of = _data(survey, device)
        levels = _levels(context, survey, of)
        if levels is None:
            # Flushes are few beside them, perhaps, and all that is slower.
            of = _flushes(context, survey, device)
            levels = _levels(context, survey, of) if of.blocks >= 2 * LEVELS_WINDOWS_MIN else None
        if levels is None:
            continue
        because = _otherwise(context, survey, of, levels)
        candidate = _candidate(context, survey, of, levels)
        if because:
            result.observed.append(f"{candidate.claim} But {because}.")
            result.tested.append(candidate.p_value)
        else:
            result.candidates.append(candidate)
    return result


def _blocks(survey: Survey, device: str, op: str | None = None) -> int:
    requests = sum(s.operations for s in survey.select(device, op))
    return int(min(AT_TIMES_BLOCKS, requests // AT_TIMES_REQUESTS))


def _data(survey: Survey, device: str) -> _Requests:
    """Its reads and writes."""
    timed = "device_ns IS NOT NULL AND op IN ('read', 'write')"
    rows = f"measured WHERE {_where(survey, device)} AND {timed}"
    return _Requests(device, _blocks(survey, device), rows, f"op, {SIZE_CLASS}", timed)


def _flushes(context: Context, survey: Survey, device: str) -> _Requests:
    """Its flushes: how long one takes depends on what was written before it, so that is what they have in common."""
    rows = f"{flushes_of(context.case, survey)} AS flushes WHERE device = {quoted(device)}"
    timed = "device_ns IS NOT NULL AND op = 'flush'"
    return _Requests(
        device,
        _blocks(survey, device, "flush"),
        rows,
        f"'flush' AS op, {WRITTEN_CLASS}",
        timed,
        of_flushes=True,
    )


def _where(survey: Survey, device: str) -> str:
    return f"layer = '{survey.layer}' AND device = {quoted(device)} AND {thinned(survey.operations)}"


def series_sql(survey: Survey, of: _Requests) -> str:
    """Mean log time in the device, and number of requests, by kind, size and block of time; of flushes what was written before each, by that."""
    each = ", avg(written_bytes) AS written, avg(writes) AS writes" if of.of_flushes else ""
    return f"""SELECT {of.alike} AS size_class, {survey.time_bin_sql(of.blocks)} AS block, avg(ln(greatest(device_ns, 1))) AS v, count(*) AS n{each}
FROM {of.rows} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def load_sql(survey: Survey, of: _Requests) -> str:
    """Requests of all kinds, and bytes, by block of time."""
    return f"""SELECT {survey.time_bin_sql(of.blocks)} AS block, count(*) AS n, coalesce(sum(size_bytes), 0) AS bytes
FROM measured WHERE {_where(survey, of.device)} GROUP BY 1 ORDER BY 1"""


def _levels(context: Context, survey: Survey, of: _Requests) -> TwoLevels | None:
    data = context.case.arrays(series_sql(survey, of))
    block, count = data["block"].astype(np.int64), data["n"].astype(np.float64)
    if not len(block):
        return None
    _, kind = np.unique(
        np.stack((data["op"].astype(str), data["size_class"].astype(str))), axis=1, return_inverse=True
    )
    level = level_of(data["v"].astype(np.float64), count, block, kind.ravel(), of.blocks)
    asked = context.case.arrays(load_sql(survey, of))
    # Fewer and larger ones are more to do, too.
    loads = [placed(asked["block"], asked[name], of.blocks) for name in ("n", "bytes")]
    if of.of_flushes:
        every = np.maximum(1.0, np.bincount(block, count, of.blocks))
        loads += [
            np.bincount(block, count * data[name].astype(np.float64), of.blocks) / every
            for name in ("written", "writes")
        ]
    return two_levels(level, *loads)


def _otherwise(context: Context, survey: Survey, of: _Requests, levels: TwoLevels) -> str:
    """What else would explain the windows; nothing if nothing would."""
    device = of.device
    begin, end = _moments(survey, of.blocks, levels)
    strata = survey.select(device, "flush" if of.of_flushes else None)
    usual_ns = float(np.median([s.own_median_ns for s in strata]))
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
    if not context.keeps_rate and not _holds(context, survey, of, levels, DEPTH_CLASS, change):
        return "more was in flight there then"
    if of.of_flushes:
        # They have no place.
        return ""
    if not _holds(context, survey, of, levels, _place(survey, device), change):
        return "the requests went to other places of it then"
    if not _same_order(context, survey, of, levels):
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
    context: Context, survey: Survey, of: _Requests, levels: TwoLevels, by: str, change: float
) -> bool:
    """Whether requests of the same kind, size and `by` take longer in the windows, too."""
    return longer_among_same(context.case, of.rows, of.alike, by, _is_high(survey, of.blocks, levels), change)


def _same_order(context: Context, survey: Survey, of: _Requests, levels: TwoLevels) -> bool:
    """Whether about as many requests follow the one before them on the device in the windows as between them."""
    is_high = _is_high(survey, of.blocks, levels)
    parts = parts_in_order(context.case, survey.layer, of.device, of.timed, is_high)
    return max(parts) - min(parts) < SAME_ORDER_MAX


def _moments(survey: Survey, blocks: int, levels: TwoLevels) -> tuple[Ints, Ints]:
    """Begin and end of the windows, ns."""
    begin, end = (
        survey.begin_ns + (edge * (survey.span_ns / blocks)).astype(np.int64)
        for edge in (levels.begin, levels.end)
    )
    return begin, end


def _candidate(context: Context, survey: Survey, of: _Requests, levels: TwoLevels) -> Candidate:
    device = of.device
    begin, end = _moments(survey, of.blocks, levels)
    is_high = _is_high(survey, of.blocks, levels)
    where = f"layer = '{survey.layer}' AND device = {quoted(device)} AND {of.timed}"
    lost_sql = f"SELECT op_id, {1.0 - 1.0 / levels.ratio!r} * device_ns AS lost_ns FROM measured WHERE {where} AND {is_high}"
    share, worse = share_lost(context, survey, lost_sql)
    share = min(1.0, share)
    what = (
        f"Flushes of {device} take {words.significant(levels.ratio)} times as long"
        if of.of_flushes
        else f"{device} takes {words.significant(levels.ratio)} times as long for {of.said}"
    )
    more = (
        "with no more written before each, and no more to do beside them."
        if of.of_flushes
        else "and had no more to do."
    )
    cost = f" That is {words.percent(share)} of all latency." if of.of_flushes else ""
    claim = (
        f"{what} in "
        f"{words.things(len(begin), 'window')} of {words.duration(float(np.median(end - begin)))} "
        f"({words.percent(float((end - begin).sum()) / survey.span_ns)} of the time) as between them, {more}{cost}"
    )
    return Candidate(
        culprit=Culprit("device", device),
        claim=claim,
        baseline=f"the same device between these windows, {of.said}",
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
