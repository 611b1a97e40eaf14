"""A device with a fixed maximum rate of bytes (or requests), and a program that waits for it: the limit that binds.

It accuses nobody: within one case nothing shows whether a device that was always like this is broken, or just no faster. Operations that
waited for it are explained by that, and not blamed on anything else.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Detector, Excuse, Result
from whodisk.detectors.thread_limit import synced_mount
from whodisk.detectors.thresholds import PACE_OWN_MIN, PACE_TOLD_MIN, THREAD_BINDS_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.device_pace import BYTES, WAITS, Pace
from whodisk.evidence.main_program import main_program
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.room import FOR_ROOM
from whodisk.evidence.thresholds import PACE_LONG
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import Bools, overlap

#: What a thread sleeps in that waits for writes: one, those of a page, all of a file system, or those that make room in it (case-format, waits).
FOR_WRITES = ("io", "page under writeback", "wb_wait_for_completion", *FOR_ROOM)


def run(context: Context) -> Result:
    """The limit, if a program waits for a device that keeps a pace; and which slow operations that explains."""
    result = Result()
    for pace in (pace for pace in context.paces if _is_own(context, pace)):
        waited = _waited(context, pace)
        if waited < PACE_TOLD_MIN:
            continue
        if not result.limited:
            result.limited, result.limiting_device = True, pace.device
            said = said_of(pace, waited)
            if waited >= THREAD_BINDS_MIN:
                program = main_program(context)
                synced = (
                    synced_mount(context, program) if program is not None and pace.op == "write" else None
                )
                result.limit = said + (f". Its files lie on {synced.said}" if synced else "")
                result.limit_refute = _refute(pace) + (f" {synced.refute}" if synced else "")
            else:
                result.besides = said
        explains = _behind(context, pace)
        if explains.any():
            result.excuses.append(Excuse(f"waited for {pace.device}, which took no more", explains))
    return result


def _is_own(context: Context, pace: Pace) -> bool:
    """Whether most of what the device took was the judged program's, or written by the kernel for it.

    What kernel threads alone read from a device, they read for others: a program's own reads of it would be there, too.
    """
    rows = context.case.rows(
        f"""SELECT coalesce(who, '') AS comm, who IN ({own_sql(context)}) AS own, count(*) AS requests
FROM (SELECT {program_sql(context)} AS who FROM block_ops WHERE device = {quoted(pace.device)} AND op = {quoted(pace.op)}) AS r GROUP BY 1, 2"""
    )
    mine = [
        row
        for row in rows
        if row["own"] or not row["comm"] or is_kernel_thread(context.case, str(row["comm"]))
    ]
    if pace.op == "read" and not any(row["own"] for row in rows):
        return False
    return sum(int(row["requests"] or 0) for row in mine) > PACE_OWN_MIN * sum(
        int(row["requests"] or 0) for row in rows
    )


def _waited(context: Context, pace: Pace) -> float:
    """Part of the time in which the device was at its pace and an operation waited for it."""
    # A program's own operations are not all that it waits for: what it makes ready between them is in its calls.
    layers = [context.layer]
    if context.layer == "app" and context.case.program is not None and "syscall" in context.surveys:
        layers.append("syscall")
    below = " + ".join(f"coalesce({stage}_ns, 0)" for stage in WAITS if stage != "fs")
    of = [
        f"""SELECT start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM measured
WHERE layer = '{layer}' AND ((device = {quoted(pace.device)} AND 2 * ({below}) >= latency_ns)
  OR (op NOT IN ('read', 'write') AND coalesce(device, {quoted(pace.device)}) = {quoted(pace.device)} AND latency_ns >= {int(PACE_LONG * pace.each_ns)}))"""
        for layer in layers
    ]
    if (
        pace.op == "write"
        and "waits" in context.case.columns
        and "tid" in context.case.columns.get(f"ops/{context.layer}", frozenset())
    ):
        # Calls that were not recorded as operations (sync of a whole file system) wait, too.
        of.append(
            f"""SELECT start_ns, start_ns + duration_ns FROM waits WHERE state = 'blocked' AND cause IN ({", ".join(map(quoted, FOR_WRITES))})
  AND tid IN (SELECT tid FROM judged WHERE layer = '{context.layer}')"""
        )
    data = context.case.arrays(" UNION ALL ".join(of))
    begin, end = (data[name].astype(np.float64) for name in ("begin_ns", "end_ns"))
    return min(1.0, float(overlap(pace.begin_ns, pace.end_ns, begin, end).sum()) / pace.span_ns)


def _behind(context: Context, pace: Pace) -> Bools:
    """Slow operations that waited for a device, or for room on the way, mostly while it was at its pace."""
    slow = context.slow
    waiting = np.isin(slow.blamed, [STAGES.index(stage) for stage in WAITS])
    there = np.array([pace.is_of(str(device)) for device in slow.device], np.bool_)
    held = pace.held_up(context.case, slow.tid, slow.start_ns, slow.end_ns)
    return np.asarray(waiting & there & held, np.bool_)


def said_of(pace: Pace, waited: float) -> str:
    """The limit in words."""
    plural = words.plural_op(pace.op)
    when = f"{words.percent(waited)} of the time, operations wait for it at that rate"
    if pace.unit == BYTES:
        return (
            f"the bandwidth of {pace.device}: it takes {pace.rate} of {plural} and no more, small or large "
            f"({words.percent(pace.held)} of its time with {plural} at the same rate within a tenth); {when}"
        )
    # Their means go with their rate; the median request may be much smaller.
    size = words.size(pace.bytes_per_s / pace.per_s)
    usual = "" if size == words.size(pace.size_bytes) else " on average"
    alone = (
        f". It was never asked for two {plural} at once, so {words.duration(1e9 / pace.per_s)} may be what one takes, and not what it lets through"
        if pace.alone
        else ""
    )
    return (
        f"{pace.device}: it takes one {pace.op} of {size}{usual} in {words.duration(1e9 / pace.per_s)}, one after the other, which is {pace.rate} "
        f"({words.percent(pace.held)} of its time with {plural} within a tenth of that); {when}{alone}"
    )


def _refute(pace: Pace) -> str:
    if pace.alone:
        return (
            f"Run two of it at once: if throughput grows, one {pace.op} takes {pace.device} that long by itself, and what limits is that there is one at a time; "
            f"if it does not, {pace.device} lets through no more."
        )
    return (
        f"Run the same on another device, or with half the bytes: if it does not get faster, {pace.device} is not what limits it. "
        "An earlier case of the same device (--against) shows whether it was always like this."
    )


DETECTOR = Detector(
    name="device_rate",
    needs=("judged.start_ns", "judged.latency_ns", "ops/block.device_ns"),
    needs_stages=(),
    null_model="none: that the times from end to end, each over its bytes, are all the same stands in the record",
    smallest_effect="in 5 % of the time something waits for a device that keeps one pace within a tenth, in half of its time or more",
    run=run,
    needs_all=True,
)
