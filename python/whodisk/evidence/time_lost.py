"""What a stage in which operations are held up costs: a CPU that is busy, a controller that holds back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.evidence.late_threads import late_while_held
from whodisk.evidence.replay import replayed
from whodisk.evidence.slow_operations import SlowSet
from whodisk.evidence.submitters import operations_of
from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import (
    BUSY_PART_MIN,
    LINK_LEVELS,
    LOSS_BLOCKS,
    ONE_WINDOW_PART_MAX,
    P99_LOST_MIN,
    TAIL_ERRORS,
    TAIL_MAX,
)
from whodisk.reading.views import quoted
from whodisk.statistics.stats import (
    Bools,
    Floats,
    Ints,
    bootstrap_sum,
    episodes,
    overlap,
    placed,
    runs,
    sum_of_runs,
    upper_quantile,
)

#: Where a process sleeps until one that it started ends (kernel/exit.c).
WAITS_FOR_CHILD = "do_wait"


@dataclass(frozen=True)
class TimeLost:
    """Time lost in one way, against all time in operations (or of submitting threads)."""

    share: float
    low: float
    high: float
    #: Contiguous windows of blocks in which something was lost, and how long they are together, ns. One window is one piece of evidence,
    #: however many blocks it is cut into.
    windows: int
    windows_ns: float
    #: Part of the time that they cover.
    part: float
    #: Operations that were held up, or waits of their threads: `unit`.
    count: int
    #: Typical time each of them lost, ns.
    each_ns: float
    unit: str = "operation"
    #: The time of submitting threads, ns, where that is what `share` is a part of.
    threads_ns: float | None = None

    @property
    def times(self) -> str:
        """`12 operations, typically 3 ms each`."""
        return f"{words.things(self.count, self.unit)}, typically {words.duration(self.each_ns)} each"

    @property
    def said(self) -> str:
        """A sentence where one event is all there is: it is true of this recording, and says nothing of others."""
        if self.windows != 1 or self.part >= ONE_WINDOW_PART_MAX:
            return ""
        return f" All of that lies in one window of {words.duration(self.windows_ns)}: one event, within this run."


def lost_in_stage(context: Context, stage: str, least_ns: int = 1) -> TimeLost | None:
    """What a stage costs those of the judged operations that spent `least_ns` there; None if it costs nothing."""
    chosen = f"{stage}_ns >= {least_ns}"
    data = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(LOSS_BLOCKS)} AS block, coalesce(sum({stage}_ns) FILTER ({chosen}), 0) AS lost_ns, sum(latency_ns) AS all_ns,
  count(*) FILTER ({chosen}) AS n, median({stage}_ns) FILTER ({chosen}) AS each_ns
FROM measured WHERE layer = '{context.layer}' AND {stage}_ns IS NOT NULL GROUP BY 1 ORDER BY 1"""
    )
    lost, whole = (placed(data["block"], data[name], LOSS_BLOCKS) for name in ("lost_ns", "all_ns"))
    each = data["each_ns"].astype(np.float64)
    return weigh(lost, whole, int(data["n"].sum()), each, context.survey.span_ns)


def submitters(context: Context) -> list[int]:
    """Threads with at least a tenth of the operations, or of an even part of them."""
    found = operations_of(context.case, context.layer, ended=True)
    least = 0.1 * context.survey.operations / max(1, len(found))
    return [tid for tid, operations in found.items() if operations >= least]


def busy_submitters(context: Context) -> list[int]:
    """Those submitters whose operations take at least a tenth of the time that those of the busiest take: a client that only read its program from the disk is none, however
    few operations the others make."""
    listed = ", ".join(map(str, submitters(context))) or "NULL"
    rows = context.case.rows(
        f"SELECT tid, sum(latency_ns) AS took_ns FROM measured WHERE layer = '{context.layer}' AND tid IN ({listed}) GROUP BY 1 ORDER BY 1"
    )
    most = max((float(row["took_ns"] or 0) for row in rows), default=0.0)
    return [int(row["tid"] or 0) for row in rows if float(row["took_ns"] or 0) >= BUSY_PART_MIN * most]


def waits_where(context: Context, tids: list[int], state: str) -> str:
    """Condition for waits of submitting threads inside the measured window."""
    survey = context.survey
    listed = ", ".join(str(tid) for tid in tids) or "NULL"
    return f"state = '{state}' AND tid IN ({listed}) AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns}"


def waits_sql(context: Context, tids: list[int], state: str, least_ns: int = 1) -> str:
    """The waits of submitting threads in that state inside the measured window, from that length on."""
    return f"""SELECT tid, comm, start_ns, duration_ns FROM waits
WHERE {waits_where(context, tids, state)} AND duration_ns >= {least_ns} ORDER BY start_ns, tid"""


def lost_in_waits(context: Context, tids: list[int], state: str, least_ns: int = 1) -> TimeLost | None:
    """The same out of the waits of submitting threads that lasted `least_ns`, against their time; None if there are none."""
    data = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(LOSS_BLOCKS)} AS block, sum(duration_ns) AS lost_ns, count(*) AS n, median(duration_ns) AS each_ns
FROM waits WHERE {waits_where(context, tids, state)} AND duration_ns >= {least_ns} GROUP BY 1 ORDER BY 1"""
    )
    lost = placed(data["block"], data["lost_ns"], LOSS_BLOCKS)
    each = placed(data["block"], data["each_ns"], LOSS_BLOCKS, np.nan)
    whole = threads_time(context, tids)
    held = weigh(lost, whole, int(data["n"].sum()), each, context.survey.span_ns)
    return held and replace(held, unit="wait", threads_ns=float(whole.sum()))


def threads_time(context: Context, tids: list[int]) -> Floats:
    """How long these threads were there, in each of `LOSS_BLOCKS` blocks of the measured window, ns: each from the first to the last of its operations
    and waits; together at least as long as one thread that is always there.

    A script starts one program after the other, so that most of its threads are there for a moment only; and while it waits for one to end, that one works in its place.
    """
    survey, listed = context.survey, ", ".join(map(str, tids)) or "NULL"
    waits = (
        f" UNION ALL SELECT tid, start_ns, duration_ns FROM waits WHERE tid IN ({listed})"
        if "waits" in context.case.columns
        else ""
    )
    lives = context.case.arrays(
        f"""SELECT greatest(min(start_ns), {survey.begin_ns}) AS begin_ns, least(max(start_ns + latency_ns), {survey.end_ns}) AS end_ns FROM
  (SELECT tid, start_ns, latency_ns FROM measured WHERE layer = '{context.layer}' AND tid IN ({listed}){waits}) GROUP BY tid ORDER BY 1, 2"""
    )
    there = _there(context, lives)
    if waits:
        there -= _there(
            context,
            context.case.arrays(
                f"""SELECT greatest(start_ns, {survey.begin_ns}) AS begin_ns, least(start_ns + duration_ns, {survey.end_ns}) AS end_ns FROM waits
WHERE tid IN ({listed}) AND state = 'blocked' AND cause = '{WAITS_FOR_CHILD}' AND start_ns < {survey.end_ns} AND start_ns + duration_ns > {survey.begin_ns} ORDER BY 1, 2"""
            ),
        )
    return np.asarray(np.maximum(there, survey.span_ns / LOSS_BLOCKS), np.float64)


def _there(context: Context, times: dict[str, npt.NDArray[Any]]) -> Floats:
    """Sum of these times in each of `LOSS_BLOCKS` blocks, ns."""
    return in_blocks(context, *(times[name].astype(np.float64) for name in ("begin_ns", "end_ns")))


def in_blocks(context: Context, begin_ns: Floats, end_ns: Floats) -> Floats:
    """Sum of these times, several of which may pass at once, in each of `LOSS_BLOCKS` blocks of the measured window, ns."""
    edges = np.linspace(context.survey.begin_ns, context.survey.end_ns, LOSS_BLOCKS + 1)
    return np.diff(_before(np.sort(begin_ns), edges) - _before(np.sort(end_ns), edges))


def _before(moments: Floats, edges: Floats) -> Floats:
    """For each edge the time from each moment before it up to it, summed up; `moments` in order."""
    number = np.searchsorted(moments, edges)
    summed = np.concatenate(([0.0], np.cumsum(moments)))
    return np.asarray(number * edges - summed[number], np.float64)


def lost_in_blocks(context: Context, lost_sql: str, column: str) -> TimeLost | None:
    """The same out of any query with `start_ns` and a time lost per row, against the time of all judged operations."""
    block = context.survey.time_bin_sql(LOSS_BLOCKS)
    lost_data = context.case.arrays(
        f"""SELECT {block} AS block, sum({column}) AS lost_ns, count(*) AS n, median({column}) AS each_ns
FROM ({lost_sql}) AS lost GROUP BY 1 ORDER BY 1"""
    )
    all_data = context.case.arrays(
        f"""SELECT {block} AS block, sum(latency_ns) AS all_ns FROM measured
WHERE layer = '{context.layer}' GROUP BY 1 ORDER BY 1"""
    )
    whole = placed(all_data["block"], all_data["all_ns"], LOSS_BLOCKS)
    lost = placed(lost_data["block"], lost_data["lost_ns"], LOSS_BLOCKS)
    each = placed(lost_data["block"], lost_data["each_ns"], LOSS_BLOCKS, np.nan)
    return weigh(np.minimum(lost, whole), whole, int(lost_data["n"].sum()), each, context.survey.span_ns)


def p99_ratio(context: Context, lost_sql: str) -> float:
    """99th percentile of the judged operations over that without what they lost: the sum of `lost_ns` of any query with `op_id`.

    What was lost may be of operations further down: of requests to a drive, say. In a closed loop more operations would be done in the
    same time without the loss; what else strikes strikes at moments of its own, and would hit a smaller part of them. Where they are due at times of their
    own, those that waited behind lost it, too. 1 where next to nothing was lost.
    """
    each = _each_sql(context, lost_sql)
    replay = replayed(context, each)
    return _p99_ratio(context, each) if replay is None else replay.p99_ratio


def _p99_ratio(context: Context, each: str) -> float:
    without = "greatest(0, m.latency_ns - coalesce(e.lost_ns, 0))"
    source = f"FROM measured AS m LEFT JOIN each AS e ON e.op_id = m.op_id WHERE m.layer = '{context.layer}'"
    row = context.case.rows(
        f"{each} SELECT count(*) AS n, sum(m.latency_ns) AS all_ns, sum({without}) AS without_ns {source}"
    )[0]
    count, all_ns, without_ns = (float(row[name] or 0) for name in ("n", "all_ns", "without_ns"))
    if all_ns - without_ns < P99_LOST_MIN * all_ns:
        return 1.0
    more = 1.0 if context.case.offered_per_s else all_ns / max(1.0, without_ns)

    def p99_ns(begin: str, value: str, source: str, part: float) -> float:
        part = min(1.0, part)
        most = math.ceil(count * part + TAIL_ERRORS * (math.sqrt(count * part) + 1))
        if most > TAIL_MAX:
            [found] = context.case.rows(
                f"{begin} SELECT quantile_cont({value}, {1 - part!r}) AS p99_ns {source}"
            )
            return float(found["p99_ns"] or 0)
        tail = context.case.arrays(f"{begin} SELECT {value} AS ns {source} ORDER BY 1 DESC LIMIT {most}")[
            "ns"
        ]
        return upper_quantile(tail.astype(np.float64), int(count), part)

    # What they take with all losses is the same whoever asks.
    with_all_ns = p99_ns("", "latency_ns", f"FROM measured WHERE layer = '{context.layer}'", 0.01)
    return with_all_ns / max(1.0, p99_ns(each, without, source, 0.01 * more))


def lost_values_sql(op_id: Ints, lost_ns: Floats) -> str:
    """Query (op_id, lost_ns) of what is known operation by operation: one or more, ns."""
    rows = ", ".join(f"({op}, {round(ns)})" for op, ns in zip(op_id.tolist(), lost_ns.tolist(), strict=True))
    return f"SELECT op_id, lost_ns FROM (VALUES {rows}) AS each_of(op_id, lost_ns)"


def due_ratio(context: Context, lost_sql: str) -> float | None:
    """By how much the 99th percentile of the operations, counted from when they were due, is longer for a loss, where a workload falls behind its rate; None
    where that cannot be played again."""
    replay = replayed(context, _each_sql(context, lost_sql), from_due=True)
    return None if replay is None else replay.p99_ratio


def lost_above(context: Context, survey: Survey, lost_sql: str) -> tuple[Floats, float] | None:
    """What the judged operations lost in requests of another layer (`lost_per_episode`, `p99_ratio`); None if they are of that layer
    themselves, or if nobody is known to have waited for one."""
    if survey.layer == context.layer:
        return None
    each = _each_sql(context, lost_sql)
    replay = replayed(context, each)
    lost = _lost_per_episode(context, each) if replay is None else replay.lost_per_episode_ns
    if not len(lost):
        return None
    return lost, _p99_ratio(context, each) if replay is None else replay.p99_ratio


def share_lost(context: Context, survey: Survey, lost_sql: str) -> tuple[float, float | None]:
    """The part of all latency of the judged operations that was lost in requests of another layer, and by how much that made their 99th
    percentile longer; where it is not known who above waited for what, the part of the requests' own latency, and None. Where that is known, and nobody waited (all was
    read ahead in time), nothing was lost."""
    if above := lost_above(context, survey, lost_sql):
        lost, worse = above
        return float(lost.sum()) / max(1.0, context.survey.latency_ns), worse
    if survey.layer != context.layer and _waits_are_known(context):
        return 0.0, None
    rows = context.case.rows(f"SELECT coalesce(sum(lost_ns), 0) AS lost_ns FROM ({lost_sql})")
    return float(rows[0]["lost_ns"] or 0) / max(1.0, survey.latency_ns), None


def _waits_are_known(context: Context) -> bool:
    """Whether it was recorded for which requests judged operations waited: some did."""
    if "links" not in context.case.columns:
        return False
    return bool(
        context.case.rows(
            f"SELECT 1 FROM links JOIN measured ON op_id = parent_id WHERE layer = '{context.layer}' AND kind <> 'carries' LIMIT 1"
        )
    )


def lost_per_episode(context: Context, lost_sql: str) -> Floats:
    """What the judged operations lost, as in `p99_ratio`, at most all of their latency; one value per episode, ns."""
    each = _each_sql(context, lost_sql)
    replay = replayed(context, each)
    return _lost_per_episode(context, each) if replay is None else replay.lost_per_episode_ns


def _lost_per_episode(context: Context, each: str) -> Floats:
    lost = context.case.arrays(
        f"""{each}
SELECT m.start_ns, m.latency_ns, least(e.lost_ns, m.latency_ns) AS lost_ns
FROM measured AS m JOIN each AS e ON e.op_id = m.op_id WHERE m.layer = '{context.layer}' ORDER BY m.start_ns, m.op_id"""
    )
    start = lost["start_ns"].astype(np.int64)
    numbers = episodes(start, start + lost["latency_ns"].astype(np.int64))
    return np.asarray(np.bincount(numbers, lost["lost_ns"].astype(np.float64)), np.float64)


def _each_sql(context: Context, lost_sql: str) -> str:
    """The begin of a query: `each` (op_id, lost_ns), what operations lost by themselves and by all that is linked below them."""
    reached = "SELECT op_id, op_id AS source FROM lost"
    levels = ""
    if "links" in context.case.columns:
        for level in range(1, LINK_LEVELS + 1):
            below = "lost" if level == 1 else f"above_{level - 1}"
            source = "op_id" if level == 1 else "source"
            levels += (
                f", above_{level} AS (SELECT DISTINCT l.parent_id AS op_id, s.{source} AS source FROM {below} AS s "
                "JOIN links AS l ON l.child_id = s.op_id)"
            )
            reached += f" UNION SELECT op_id, source FROM above_{level}"
    return f"""WITH lost AS (SELECT op_id, sum(lost_ns) AS lost_ns FROM ({lost_sql}) AS parts GROUP BY 1){levels},
  each AS (SELECT r.op_id, sum(lost.lost_ns) AS lost_ns FROM ({reached}) AS r JOIN lost ON lost.op_id = r.source GROUP BY 1)"""


def late_in_waits(context: Context, tids: list[int], state: str, least_ns: int = 1) -> Bools:
    """Slow operations that were not submitted, or not taken, because of these waits of their thread."""
    if "waits" not in context.case.columns or not len(context.slow):
        return np.zeros(len(context.slow), np.bool_)
    data = context.case.arrays(waits_sql(context, tids, state, least_ns))
    tid, start, duration = (data[name].astype(np.int64) for name in ("tid", "start_ns", "duration_ns"))
    return late_while_held(context, tid, start, duration).explained


#: Thread, begin and end of times in which a thread was held, ns; in order of their begin.
Rows = tuple[Ints, Ints, Ints]
NONE_HELD: Rows = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def held_rows(context: Context, sql: str) -> Rows:
    """The rows of a query with `tid`, `start_ns` and `end_ns`, in the order of their begin."""
    data = context.case.arrays(f"SELECT tid, start_ns, end_ns FROM ({sql}) AS held ORDER BY 2, 3, 1")
    tid, begin, end = (data[name].astype(np.int64) for name in ("tid", "start_ns", "end_ns"))
    return tid, begin, end


def lost_in_rows(
    context: Context, tids: list[int], *of: Rows, whole: Floats | None = None
) -> TimeLost | None:
    """What these times cost the threads, against their time (or `whole`, per block, ns), each moment of a thread counted once; None without any."""
    survey = context.survey
    edges = np.linspace(survey.begin_ns, survey.end_ns, LOSS_BLOCKS + 1)
    lost = np.zeros(LOSS_BLOCKS)
    each: list[Floats] = []
    for thread in tids:
        begin, end = (np.concatenate([rows[part][rows[0] == thread] for rows in of]) for part in (1, 2))
        if len(begin):
            lost += overlap(edges[:-1], edges[1:], begin, end)
            each.append((end - begin).astype(np.float64))
    count = sum(len(lengths) for lengths in each)
    whole = threads_time(context, tids) if whole is None else whole
    return weigh(lost, whole, count, np.concatenate(each or [np.zeros(0)]), survey.span_ns)


def lost_meanwhile(context: Context, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Bools:
    """Slow operations that lost half or more of their excess in these times of their thread."""
    slow = context.slow
    held = np.zeros(len(slow))
    for thread in np.unique(slow.tid):
        mine, its = slow.tid == thread, tid == thread
        held[mine] = overlap(slow.start_ns[mine], slow.end_ns[mine], begin_ns[its], end_ns[its])
    return lost_mostly(slow, held)


def lost_mostly(slow: SlowSet, lost_ns: Floats) -> Bools:
    """Slow operations for which this is half of their excess or more."""
    return np.asarray((lost_ns > 0) & (lost_ns >= 0.5 * (slow.latency_ns - slow.typical_ns)), np.bool_)


def kept_ns(context: Context, *states: str) -> Floats:
    """How much of each slow operation's time some thread was kept from running, in one of these states of `waits`, ns.

    Of a recorded command, one of its own processes: they are those that made calls. A neighbour that is stopped holds nobody up.
    """
    case = context.case
    listed = ", ".join(map(quoted, states))
    own = "TRUE"
    if case.meta.get("command") and "syscall" in case.layers:
        own = "pid IS NULL OR pid IN (SELECT pid FROM syscall_ops WHERE pid IS NOT NULL GROUP BY 1)"
    waits = case.arrays(
        f"SELECT start_ns, start_ns + duration_ns AS end_ns FROM waits WHERE state IN ({listed}) AND ({own}) ORDER BY 1"
    )
    return overlap(
        context.slow.start_ns,
        context.slow.end_ns,
        waits["start_ns"].astype(np.int64),
        waits["end_ns"].astype(np.int64),
    )


def weigh(lost: Floats, whole: Floats, count: int, each: Floats, span_ns: int) -> TimeLost | None:
    """Time lost per block of time against all time per block, in `span_ns` together; None if nothing was lost.

    What was lost is read off the record: there is no test. The interval is over windows, not blocks: neighbouring blocks of one condition are
    no independent evidence.
    """
    total = float(whole.sum())
    if lost.sum() <= 0 or total <= 0:
        return None
    begin, end = runs(np.asarray(lost > 0, np.bool_))
    share = min(1.0, float(lost.sum()) / total)
    if len(begin) > 1:
        low, high = bootstrap_sum(sum_of_runs(lost, begin, end) / total)
    else:
        low = high = share
    blocks = int((end - begin).sum())
    return TimeLost(
        share=share,
        low=low,
        high=min(1.0, high),
        windows=len(begin),
        windows_ns=blocks * span_ns / len(lost),
        part=blocks / len(lost),
        count=count,
        each_ns=float(np.nanmedian(each)) if np.isfinite(each).any() else 0.0,
    )
