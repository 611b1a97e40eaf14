"""Operations, or their submitters, that a controller holds back on purpose.

Writes that wait until the ones before them are on disk (the protected memory of an array is full) follow from the disks' load.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Excuse, Result, evidence
from whodisk.detectors.candidates import excuse_in_files, of_time_lost
from whodisk.detectors.thresholds import (
    DIRTY_BUSY_MAX,
    SEEN_P99_RATIO_MIN,
    SHARE_OF_LATENCY_FLOOR,
    STRETCH_EDGE,
    THROTTLE_MEANWHILE_MIN,
    THROTTLE_MOMENTS,
    THROTTLED_BESIDE_MIN,
    WHOLE_RUN_EDGE,
)
from whodisk.detectors.written_before import written_before
from whodisk.evidence.context import Context
from whodisk.evidence.links import two_levels_sql
from whodisk.evidence.outside_calls import lost_outside, sleeps_outside, sleeps_outside_sql
from whodisk.evidence.programs import own_sql
from whodisk.evidence.sleeps import DIRTY_SLEEPS
from whodisk.evidence.slow_operations import APP
from whodisk.evidence.thread_time import SYNC
from whodisk.evidence.thresholds import LOSS_BLOCKS
from whodisk.evidence.time_lost import (
    TimeLost,
    busy_submitters,
    kept_ns,
    late_in_waits,
    lost_in_stage,
    lost_in_waits,
    p99_ratio,
    waits_where,
)
from whodisk.findings import Culprit
from whodisk.reading.views import STAGES, WBT, quoted
from whodisk.statistics.stats import Bools

THROTTLE, FS = STAGES.index("throttle"), STAGES.index("fs")
#: Flag of operations that bypass the page cache.
DIRECT = 256
#: Flag of requests that nobody waits for by themselves.
BACKGROUND = 16


def run(context: Context) -> Result:
    """One candidate for the I/O controllers, one for the CPU controller."""
    result = Result()
    held, mapped = lost_in_stage(context, "throttle"), _of_mapped_files(context)
    if mapped is not None and (held is None or mapped.share > held.share or _above_block(context)):
        result.candidates.append(_dirty(context, mapped))
    elif held is not None and _above_block(context):
        result.candidates.append(_dirty(context, held))
    elif held is not None and _behind_earlier_writes(context):
        result.observed.append(
            f"Writes are held back until what was written before is on disk: {words.percent(held.share)} of all operations' time, "
            f"{words.duration(held.each_ns)} each. That follows from the disks' load."
        )
        result.excuses.append(Excuse("waited for earlier writes", _blamed(context)))
    elif held is not None:
        result.candidates.append(_io(context, held))
    if context.case.wbt:
        _tell_wbt(context, result)
    _tell_written_before(context, result)
    tids = busy_submitters(context)
    stopped = lost_in_waits(context, tids, "throttled")
    if stopped is not None:
        result.candidates.append(_cpu(context, stopped, tids))
    return result


def _of_mapped_files(context: Context) -> TimeLost | None:
    """What dirty throttling costs threads that write to pages of mapped files: a page that is in memory makes no operation when it gets dirty, and the thread sleeps in none."""
    if context.layer not in ("syscall", "app"):
        return None
    held = lost_outside(context, sleeps_outside(context, DIRTY_SLEEPS))
    return held if held is not None and held.share >= SHARE_OF_LATENCY_FLOOR else None


def _tell_written_before(context: Context, result: Result) -> None:
    """Calls that slept above the block layer while the file system wrote out what their program had written."""
    slow = context.slow
    at = np.flatnonzero(~context.explained & (slow.blamed == FS))
    waited = at[written_before(context, slow.tid[at], slow.start_ns[at], slow.end_ns[at])]
    excuse_in_files(
        context,
        result,
        waited,
        "while the file system wrote out what was written before or made room for more, request after request, none of them long",
        "The program made this work; earlier syncs spread it.",
        "waited for what was written before",
    )


def _tell_wbt(context: Context, result: Result) -> None:
    found = context.case.rows(
        f"""SELECT count(*) FILTER (flags & {WBT} > 0) AS held, sum(throttle_ns) FILTER (flags & {WBT} > 0) AS held_ns,
  sum(latency_ns) AS all_ns FROM {context.layer}_ops WHERE NOT open"""
    )[0]
    held_ns, all_ns = float(found["held_ns"] or 0), float(found["all_ns"] or 0)
    if held_ns < SHARE_OF_LATENCY_FLOOR * all_ns or not found["held"]:
        return
    devices = context.case.rows(
        f"SELECT device FROM block_ops WHERE flags & {WBT} > 0 GROUP BY 1 ORDER BY sum(throttle_ns) DESC, 1 LIMIT 1"
    )
    device = str(devices[0]["device"]) if devices else "DEVICE"
    held = int(found["held"])
    result.observed.append(
        f"Writeback throttling (wbt) held {words.things(held, 'operation')} back for {words.duration(held_ns / held)}{' each' * (held > 1)}: "
        f"{words.percent(held_ns / all_ns)} of all operations' time, counted as queue here. It lets writes pass as the device ends earlier ones, "
        f"so that reads need not wait behind them; `echo 0 > /sys/block/{device}/queue/wbt_lat_usec` for a minute shows what it costs."
    )


def _above_block(context: Context) -> bool:
    """Whether operations were held back before they reached the block layer: writers, for the sake of dirty pages.

    Reads, direct writes and syncs are never held back for these; a fault is, where it makes a page dirty. A write that syncs (O_DSYNC) leaves next to no dirty pages behind: what holds it is below. A
    program's own write may be a call that writes and one that syncs: where calls are known, they are asked.
    """
    if context.layer == "block" or "block" not in context.surveys:
        return False
    layer = "syscall" if context.case.program and "syscall" in context.surveys else context.layer
    # What reads, too (a copy, a fault, a write of a part of a page), may have been held back there: then its thread says where it slept.
    slept = (
        f"""SELECT op_id FROM (SELECT tid, start_ns AS begin_ns FROM waits WHERE cause IN ({", ".join(map(quoted, DIRTY_SLEEPS))})) AS sleeps
  ASOF JOIN above ON sleeps.tid = above.tid AND begin_ns >= above.start_ns WHERE begin_ns < above.until_ns"""
        if "waits" in context.case.columns
        else "SELECT NULL WHERE false"
    )
    held = context.case.rows(
        f"""WITH above AS (SELECT op_id, tid, start_ns, start_ns + latency_ns AS until_ns FROM measured
  WHERE layer = '{layer}' AND op IN ('write', 'fault', 'copy') AND throttle_ns > 0),
reading AS (SELECT DISTINCT parent_id AS op_id FROM links JOIN above ON above.op_id = parent_id JOIN block_ops ON block_ops.op_id = child_id WHERE block_ops.op = 'read'),
dirtying AS (SELECT op_id FROM above ANTI JOIN reading USING (op_id) UNION {slept}),
held AS (SELECT layer, throttle_ns, coalesce(flags, 0) & {DIRECT | SYNC} = 0 AND op_id IN (SELECT op_id FROM dirtying) AS cached
  FROM measured WHERE throttle_ns > 0 AND layer IN ('block', '{layer}'))
SELECT sum(throttle_ns) FILTER (layer = 'block') AS block_ns, sum(throttle_ns) FILTER (layer = '{layer}') AS above_ns,
  sum(throttle_ns) FILTER (layer = '{layer}' AND cached) AS cached_ns FROM held"""
    )[0]
    block, above, cached = (float(held[name] or 0) for name in ("block_ns", "above_ns", "cached_ns"))
    return block < 0.1 * above and cached >= 0.5 * above


def _blamed(context: Context) -> Bools:
    return np.asarray(context.slow.blamed == THROTTLE, np.bool_)


def _behind_earlier_writes(context: Context) -> bool:
    """Whether only writes are held back, above the block layer, and only while what was written before is on its way to the disks.

    Then they wait for room (protected memory of an array, a log), and how fast that comes is the disks' matter.
    """
    if context.layer == "block" or "block" not in context.surveys:
        return False
    found = context.case.rows(
        f"""WITH held AS (SELECT op_id, layer, op, start_ns + coalesce(app_ns, 0) + throttle_ns // 2 AS moment_ns FROM measured
  WHERE throttle_ns > 0 AND layer IN ('block', '{context.layer}')),
moments AS (SELECT DISTINCT moment_ns FROM held WHERE layer <> 'block' ORDER BY hash(moment_ns) LIMIT {THROTTLE_MOMENTS}),
on_its_way AS (SELECT start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM block_ops WHERE flags & {BACKGROUND} > 0)
SELECT (SELECT count(*) FROM held WHERE layer = 'block' OR op <> 'write') AS others, (SELECT count(*) FROM moments) AS looked_at,
  count(DISTINCT moment_ns) AS meanwhile
FROM on_its_way JOIN moments ON begin_ns <= moment_ns AND end_ns > moment_ns"""
    )[0]
    return not found["others"] and float(found["meanwhile"] or 0) >= THROTTLE_MEANWHILE_MIN * float(
        found["looked_at"] or 1
    )


def _dirty(context: Context, held: TimeLost) -> Candidate:
    busy, limit = _writing_part(context), _dirty_limit(context)
    is_limit = busy is not None and busy < DIRTY_BUSY_MAX
    why = (
        f"Disks had writes to do in {words.percent(busy or 0.0)} of the time only: what holds writers back is the limit{f' ({limit})' if limit else ''}, not the disks."
        if is_limit
        else f"They write faster than the devices below take it{f' ({limit})' if limit else ''}."
    )
    of = (
        "the time of all operations"
        if held.threads_ns is None
        else "their threads' time, in pages of mapped files, so in no call that is recorded"
    )
    claim = f"Writers are held back until dirty pages are written: {words.percent(held.share)} of {of}, {words.duration(held.each_ns)} each. {why}"
    return of_time_lost(
        held,
        culprit=Culprit("config", "limit of dirty pages", "stage:throttle"),
        claim=claim,
        baseline="the same operations without the time in which they were held back",
        metric="part of the operations' time" if held.threads_ns is None else "part of the threads' time",
        evidence=[
            evidence(
                context.case,
                "who was held back, and for how long",
                _held_sql(context) if held.threads_ns is None else _held_outside_sql(context),
            )
        ],
        refute="Raise vm.dirty_bytes, or vm.dirty_ratio, for a minute and repeat: if operations take as long, they waited for something else."
        if is_limit
        else "Write at a rate that the devices take (io.max, or a rate limit of the program): if operations take as long, "
        "they waited for something else.",
        remedy="Raise vm.dirty_bytes (or vm.dirty_ratio), and vm.dirty_background_bytes with it: the disks have time for more."
        if is_limit
        else "Look at vm.dirty_ratio, vm.dirty_background_ratio (and dirty_bytes) and the limits of the device's bdi; more room "
        "only delays it, if the writers never pause.",
        explains=_blamed(context),
        causes=(("stage", "throttle"),),
    )


def _writing_part(context: Context) -> float | None:
    """Part of the run in which a disk had a write in flight, waiting or at work; None where requests were not recorded."""
    survey = context.surveys.get("block")
    if survey is None:
        return None
    row = context.case.rows(
        """WITH writes AS (SELECT start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM measured WHERE layer = 'block' AND op = 'write'),
passed AS (SELECT begin_ns, end_ns, max(end_ns) OVER (ORDER BY begin_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns FROM writes)
SELECT sum(greatest(0, end_ns - greatest(begin_ns, coalesce(before_ns, begin_ns)))) AS busy_ns FROM passed"""
    )[0]
    return min(1.0, float(row["busy_ns"] or 0) / max(1, survey.span_ns))


def _dirty_limit(context: Context) -> str:
    """The limit of dirty pages, as the machine has it; empty where the case does not say."""
    limits = context.case.system.get("dirty_limits") or {}
    if most := int(limits.get("dirty_bytes") or 0):
        return f"vm.dirty_bytes was {words.size(most)} when the recording began"
    ratio = int(limits.get("dirty_ratio") or 0)
    return (
        f"vm.dirty_ratio was {ratio} % of what memory is available when the recording began" if ratio else ""
    )


def _held_sql(context: Context) -> str:
    return f"""SELECT comm, device, op, count(*) AS operations, count(*) FILTER (throttle_ns > 0) AS held_back,
  CAST(avg(throttle_ns) AS BIGINT) AS mean_throttle_ns, sum(throttle_ns) AS throttle_ns
FROM measured WHERE layer = '{context.layer}' GROUP BY 1, 2, 3 ORDER BY 7 DESC NULLS LAST, 1, 2, 3 LIMIT 10"""


def _held_outside_sql(context: Context) -> str:
    return f"""SELECT comm, tid, count(*) AS sleeps, CAST(avg(end_ns - start_ns) AS BIGINT) AS mean_ns, sum(end_ns - start_ns) AS slept_ns
FROM ({sleeps_outside_sql(context, DIRTY_SLEEPS[:1])}) AS apart GROUP BY 1, 2 ORDER BY 5 DESC, 2 LIMIT 10"""


def _io(context: Context, held: TimeLost) -> Candidate:
    worse = p99_ratio(context, _LOST_SQL.format(layer=context.layer))
    group, device = _group(context), _device(context)
    of_device = f" of {device}" if device else ""
    passing = _passing(context, group, device)
    way = f"; meanwhile {passing} pass to {device}" if passing else device and f" on the way to {device}"
    claim = (
        f"A controller holds operations back on purpose{_held_since(context)}: {words.percent(held.share)} of their time, {words.duration(held.each_ns)} "
        f"each{way}{f', group {group}' if group else ''}. The device does not limit them."
    )
    found = of_time_lost(
        held,
        culprit=Culprit(
            "config", f"I/O limit of {group}" if group else f"I/O limit{of_device}", "stage:throttle"
        ),
        claim=claim,
        baseline="the same operations without the time in which they were held back",
        metric="part of the operations' time",
        evidence=[evidence(context.case, "who was held back, and for how long", _held_sql(context))],
        refute="Raise the limit (io.max, io.latency, io.cost, wbt_lat_usec) for a minute and repeat: if operations take as "
        "long, they waited for something else.",
        remedy=f"Look at {_limits(context, group)} and at /sys/block/{device or 'DEVICE'}/queue/wbt_lat_usec; raise what binds, if "
        "it is not meant.",
        explains=_blamed(context),
        causes=(("stage", "throttle"),),
    )
    found.p99_ratio = worse
    found.large |= held.share >= SHARE_OF_LATENCY_FLOOR and worse >= SEEN_P99_RATIO_MIN
    return found


def _held_since(context: Context) -> str:
    """Since when, where that was not all of the run."""
    first = context.case.rows(
        f"SELECT min(start_ns) AS first_ns FROM measured WHERE layer = '{context.layer}' AND throttle_ns > 0"
    )[0]["first_ns"]
    survey = context.survey
    if first is None or int(first) - survey.begin_ns <= WHOLE_RUN_EDGE * survey.span_ns:
        return ""
    return f" from {context.case.moment(int(first))} on"


#: What a controller's holding back cost each operation.
_LOST_SQL = "SELECT op_id, throttle_ns AS lost_ns FROM measured WHERE layer = '{layer}' AND throttle_ns > 0"


def _passing(context: Context, group: str, device: str) -> str:
    """How many requests of the kinds that held operations wait for pass to the device in those parts of the run in which some are held back, kind by kind; empty where requests were not recorded.

    Not the operations: what memory answers passes no controller, and one that does may be many requests. Not all of the run: a limit may be set in the middle of it,
    or leave times in which nothing waits.
    """
    if "block" not in context.surveys or not device:
        return ""
    if context.layer == "block":
        kinds = "SELECT op FROM block_ops WHERE throttle_ns > 0"
    elif "links" in context.case.columns:
        held = two_levels_sql(
            f"SELECT op_id FROM measured WHERE layer = '{context.layer}' AND throttle_ns > 0"
        )
        kinds = (
            f"{held} SELECT op FROM below JOIN block_ops ON op_id = child_id WHERE device = {quoted(device)}"
        )
    else:
        return ""
    # Who is in no limited group passes uncounted. A request without data (a flush, of a group that nobody recorded) counts for the controller as any other.
    of_group = (
        f"AND (cgroup = {quoted(group)} OR (cgroup IS NULL AND op <> 'flush' AND coalesce(size_bytes, 0) = 0 AND coalesce(comm IN ({own_sql(context)}), TRUE)))"
        if group
        else ""
    )
    # A controller lets requests pass in bursts, and holds all of them between two: both belong to the parts in which some are held.
    part, part_s = context.survey.time_bin_sql(LOSS_BLOCKS), context.survey.span_ns / LOSS_BLOCKS / 1e9
    first, last = (
        part,
        context.survey.time_bin_sql(LOSS_BLOCKS, "start_ns + coalesce(app_ns, 0) + throttle_ns"),
    )
    rows = context.case.rows(
        f"""WITH parts AS (SELECT DISTINCT unnest(range({first}, {last} + 1)) AS part FROM measured WHERE layer = '{context.layer}' AND throttle_ns > 0)
SELECT op, count(*) AS n, sum(size_bytes) AS size_bytes, (SELECT count(*) FROM parts) AS parts
FROM (SELECT op, size_bytes, {part} AS part FROM block_ops WHERE device = {quoted(device)} {of_group} AND op IN ({kinds})) AS asked
WHERE part IN (SELECT part FROM parts) GROUP BY 1 ORDER BY 2 DESC, 1"""
    )
    each = []
    for row in rows:
        per_s = 1.0 / (int(row["parts"] or 1) * part_s)
        number, moved = float(row["n"] or 0) * per_s, float(row["size_bytes"] or 0) * per_s
        each.append(f"{words.rate(number)} {words.plural_op(str(row['op']))} ({words.size(moved)})")
    return f"{words.listed(each)} per second" if each else ""


def _group(context: Context) -> str:
    """Folder of the control group that most of the judged program's requests are accounted to, while some are held back; empty if unknown, or no group's.

    A program that was put into a group in the middle of the run had another one before.
    """
    if "block" not in context.surveys:
        return ""
    held = context.case.rows(
        f"SELECT min(start_ns) AS first_ns, max(start_ns + throttle_ns) AS last_ns FROM measured WHERE layer IN ('block', '{context.layer}') AND throttle_ns > 0"
    )[0]
    first, last = int(held["first_ns"] or 0), int(held["last_ns"] or context.survey.end_ns)
    rows = context.case.rows(
        f"""SELECT cgroup, count(*) AS n, sum(count(*)) OVER () AS all_n FROM measured
WHERE layer = 'block' AND comm IN ({own_sql(context)}) AND start_ns BETWEEN {first} AND {last} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1"""
    )
    if not rows or rows[0]["cgroup"] is None or 2 * float(rows[0]["n"] or 0) <= float(rows[0]["all_n"] or 0):
        return ""
    group = str(rows[0]["cgroup"])
    # The root of a hierarchy is everybody, and has no limits.
    return "" if group in (context.case.system.get("mounts") or {}) else group


def _limits(context: Context, group: str) -> str:
    """The files in which a control group's limits stand: those of version 1 of the controllers have other names."""
    mounts: dict[str, list[str]] = context.case.system.get("mounts") or {}
    # Without a group: where version 1 has the controller of requests, version 2 has none.
    v1 = [target for target, mount in mounts.items() if mount[1] == "cgroup" and target.endswith("/blkio")]
    if any(mount[1] == "cgroup" and group.startswith(f"{target}/") for target, mount in mounts.items()):
        return f"{group}/blkio.throttle.*_device"
    if not group and v1:
        return f"{v1[0]}/GROUP/blkio.throttle.*_device"
    return f"{group or '/sys/fs/cgroup/GROUP'}/io.max (and io.latency, io.cost.qos)"


def _device(context: Context) -> str:
    """The device with most of the requests' time in the stage, by the block layer where it was seen; else none by name."""
    for layer in ("block", context.layer):
        rows = context.case.rows(
            f"""SELECT device, sum(throttle_ns) AS ns, sum(sum(throttle_ns)) OVER () AS all_ns FROM measured
WHERE layer = '{layer}' AND device IS NOT NULL GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 LIMIT 1"""
        )
        if rows and rows[0]["ns"]:
            return str(rows[0]["device"]) if 2 * float(rows[0]["ns"]) > float(rows[0]["all_ns"] or 0) else ""
    return ""


def _cpu(context: Context, held: TimeLost, tids: list[int]) -> Candidate:
    sql = f"""SELECT tid, comm, count(*) AS waits, sum(duration_ns) AS waited_ns, max(duration_ns) AS longest_ns
FROM waits WHERE {waits_where(context, tids, "throttled")} GROUP BY 1, 2 ORDER BY 4 DESC, 1 LIMIT 10"""
    stopped = context.case.rows(sql)
    comm = str(stopped[0]["comm"] or "the submitter")
    others = len({row["tid"] for row in stopped}) - 1
    who = f"{comm} and {words.things(others, 'other thread')}" if others else comm
    claim = (
        f"{who} had used up the CPU time of {'their' if others else 'its'} control group {words.things(held.count, 'time')}{_when_stopped(context, tids)} and {'were' if others else 'was'} stopped for "
        f"{words.percent(held.share)} of {'their' if others else 'its'} time (typically {words.duration(held.each_ns)}): no I/O was submitted then."
    )
    found = of_time_lost(
        held,
        culprit=Culprit("config", f"CPU limit of {comm}", "stage:runqueue"),
        claim=claim,
        baseline="the rest of the time, in which its threads ran",
        metric="part of the submitters' time",
        evidence=[evidence(context.case, "threads that were stopped, and for how long", sql)],
        refute="Raise cpu.max of the group (cpu.cfs_quota_us of cgroup v1) and repeat: if it is silent as often, something else stopped it.",
        remedy="Look at cpu.max (cpu.cfs_quota_us of cgroup v1) and cpu.stat (nr_throttled) of its control group; raise the quota, or use fewer threads.",
        explains=late_in_waits(context, tids, "throttled") | _beside_throttled(context),
        # A silence is `runnable` either way: what kept the thread from running is in the waits.
        # What is done is not taken, and what a worker was to go on with stays in the file system, while the group may not run.
        causes=(
            *(("stage", stage) for stage in ("runqueue", "fs", "reap")),
            ("process", "silence of the submitter, state runnable"),
        ),
    )
    found.met = found.explains | _meanwhile(context)
    return found


def _when_stopped(context: Context, tids: list[int]) -> str:
    """Since when the controller kept threads from running, or between which moments, where that is not all of the run."""
    survey = context.survey
    data = context.case.arrays(
        f"SELECT start_ns, duration_ns FROM waits WHERE {waits_where(context, tids, 'throttled')} ORDER BY start_ns, tid"
    )
    start, took = (data[name].astype(np.int64) for name in ("start_ns", "duration_ns"))
    first, last = int(start[0]), int((start + took).max())
    # A few stops of a moment, long before or behind the others, are no stretch of the run.
    upto = np.cumsum(took)
    first_at, last_at = np.searchsorted(upto, [STRETCH_EDGE * upto[-1], (1 - STRETCH_EDGE) * upto[-1]])
    low, high = int(start[first_at]), int((start + took)[last_at])
    mostly = 2 * (high - low) < last - first
    if mostly:
        first, last = low, high
    edge_ns = WHOLE_RUN_EDGE * survey.span_ns
    late, early = first - survey.begin_ns > edge_ns, survey.end_ns - last > edge_ns
    begin, end = context.case.moment(first), context.case.moment(last)
    if late and early:
        when = f" between {begin} and {end}"
    elif late:
        when = f" from {begin} on"
    else:
        when = f" until {end}" if early else ""
    return f", mostly{when}," if mostly and when else when


def _meanwhile(context: Context) -> Bools:
    """Slow operations during most of which the controller kept a thread from running."""
    kept = kept_ns(context, "throttled") >= THROTTLED_BESIDE_MIN * context.slow.latency_ns
    return np.asarray(kept, np.bool_)


def _beside_throttled(context: Context) -> Bools:
    """Slow operations of a program that waited for itself while the controller kept one of its threads from running, which may have held the lock."""
    slow = context.slow
    if context.layer != "app" or context.case.program is None or not len(slow):
        return np.zeros(len(slow), np.bool_)
    return np.asarray((slow.blamed == APP) & _meanwhile(context), np.bool_)


DETECTOR = Detector(
    name="throttle",
    needs=("judged.throttle_ns or waits.state",),
    needs_stages=(),
    null_model="none: how long operations, or their threads, were held back stands in the record",
    smallest_effect="5 % of the time of all operations, or 1 % and a 99th percentile 10 % above that without it (5 % of the submitting threads for the CPU controller)",
    run=run,
)
