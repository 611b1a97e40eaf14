"""Slow operations that were late because their thread was: not submitted, or not taken, while it was held up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.slowest import columns_of
from whodisk.evidence.thresholds import LATE_INSIDE_MIN, TAKEN_SOON_MAX, TAKEN_WAIT_MIN_NS
from whodisk.reading.views import STAGES
from whodisk.statistics.coincidence import Covered, Intervals
from whodisk.statistics.stats import Bools, Ints

TAKEN_LATE = "taken late, behind a slow operation of the same thread or program"

REAP = STAGES.index("reap")
APP = STAGES.index("app")
FS = STAGES.index("fs")
#: An operation that is held there may hold its thread, or whatever the thread waits for next.
HOLDING = tuple(STAGES.index(name) for name in ("fs", "throttle", "queue", "device", "interrupt"))


@dataclass
class LateOperations:
    """Slow operations that waited for their submitter, and when they did."""

    explained: Bools
    begin_ns: Ints
    end_ns: Ints
    #: The same of all slow operations of these threads that waited for their submitter, whether it was held up then or not.
    every: Intervals


def late_while_held(
    context: Context, tid: Ints, start_ns: Ints, duration_ns: Ints, *, seen: bool = False
) -> LateOperations:
    """Slow operations with a wait (to be taken, or to be submitted) that lies in one of these times of their thread.

    Times of one thread do not overlap, and rise with their begin. Of threads that were `seen` stopped, operations that lost their time in stage fs count, too: no
    thread is stopped within a call, so these had ended below, and where that is not recorded (buffered libaio) they waited to be taken.
    """
    slow = context.slow
    explained = np.zeros(len(slow), np.bool_)
    late = np.isin(slow.blamed, (REAP, APP, FS) if seen else (REAP, APP))
    # The wait to be taken is at the end of an operation, the wait to be submitted at its begin.
    reaping = slow.stage_ns[:, REAP] >= slow.stage_ns[:, APP] if len(slow) else explained
    begin = np.where(reaping, slow.end_ns - slow.stage_ns[:, REAP], slow.start_ns).astype(np.int64)
    end = np.where(reaping, slow.end_ns, slow.start_ns + slow.stage_ns[:, APP]).astype(np.int64)
    wait_ns = end - begin
    if seen and len(slow):
        # It is not known when it ended below. A stop in which it waited to be taken was not in that stage.
        in_fs = slow.blamed == FS
        until = slow.end_ns - slow.stage_ns[:, REAP].astype(np.int64)
        begin, end = np.where(in_fs, slow.start_ns, begin), np.where(in_fs, until, end)
        wait_ns = np.where(in_fs, slow.stage_excess_ns[:, FS], wait_ns)
    for number in np.unique(tid):
        held = tid == number
        mine = np.flatnonzero(late & (slow.tid == number))
        low, high = start_ns[held], (start_ns + duration_ns)[held]
        # The last one that began before the wait ended.
        nearest = np.clip(np.searchsorted(low, end[mine]) - 1, 0, None)
        inside = np.minimum(end[mine], high[nearest]) - np.maximum(begin[mine], low[nearest])
        explained[mine] = inside >= LATE_INSIDE_MIN * wait_ns[mine]
    every = late & np.isin(slow.tid, tid)
    return LateOperations(
        explained, begin[explained], end[explained], Intervals(slow.tid[every], begin[every], end[every])
    )


def taken_late(context: Context, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Bools:
    """Which of these waits to be taken lie mostly in slow operations that were held further down: of their own thread, or of another one of their program
    that ended just before them, as where one thread takes what others began.

    A thread that sits in one call, or waits until the last of several operations has ended, takes nothing of what has ended before: that
    wait is a consequence.
    """
    slow = context.slow
    held = np.isin(slow.blamed, HOLDING)
    apart = [e for e, _ in context.longest if e.apart and not e.silence and STAGES.index(e.stage) in HOLDING]
    thread, low, high = (
        np.concatenate([column[held], more])
        for column, more in zip(
            (slow.tid, slow.start_ns, slow.end_ns),
            columns_of(apart, "tid", "start_ns", "end_ns"),
            strict=True,
        )
    )
    inside = Covered(Intervals(thread, low, high)).by(tid, begin_ns, end_ns)
    late = np.asarray(inside >= np.maximum(1, LATE_INSIDE_MIN * (end_ns - begin_ns)), np.bool_)
    rest = np.flatnonzero(~late)
    late[rest] = _ended_with_another(context, tid[rest], begin_ns[rest], end_ns[rest])
    return late


def untaken(context: Context, least_ns: int) -> Intervals:
    """The waits to be taken, from that length on, of operations of our own workload, which takes each when it has ended: meanwhile its thread did nothing.

    Not those in which it was held where operations are submitted. Of other programs nobody knows whether they wait for several operations.
    """
    case, survey = context.case, context.survey
    none = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
    observed = {"tid", "reap_ns"} <= case.columns.get(f"ops/{context.layer}", frozenset())
    if context.layer != "app" or case.program is not None or not case.spec or not observed:
        return none
    waits = case.arrays(
        f"""SELECT tid, start_ns + latency_ns - reap_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM measured
WHERE layer = 'app' AND tid IS NOT NULL AND reap_ns >= {least_ns} AND start_ns + latency_ns - reap_ns < {survey.end_ns} ORDER BY 2, 1"""
    )
    tid, begin, end = (waits[name].astype(np.int64) for name in ("tid", "begin_ns", "end_ns"))
    if not len(tid):
        return none
    submitting = " + ".join(f"coalesce({name}_ns, 0)" for name in ("fs", "throttle", "queue"))
    held = case.arrays(
        f"""SELECT tid, start_ns + coalesce(app_ns, 0) AS begin_ns, start_ns + coalesce(app_ns, 0) + {submitting} AS end_ns FROM measured
WHERE layer = 'app' AND tid IS NOT NULL AND {submitting} >= {int(LATE_INSIDE_MIN * least_ns)}"""
    )
    by = Intervals(*(held[name].astype(np.int64) for name in ("tid", "begin_ns", "end_ns")))
    free = Covered(by).by(tid, begin, end) < LATE_INSIDE_MIN * (end - begin)
    return Intervals(tid[free], begin[free], end[free])


def _ended_with_another(context: Context, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Bools:
    """Which waits lie mostly in a call of another thread of their program that was held further down, and ended as soon as it did."""
    found = np.zeros(len(begin_ns), np.bool_)
    took_ns = end_ns - begin_ns
    long = np.flatnonzero(took_ns >= TAKEN_WAIT_MIN_NS)
    known = context.case.columns.get(f"ops/{context.layer}", frozenset())
    if not len(long) or not {"tid", "comm"} <= known:
        return found
    below = " + ".join(f"coalesce({STAGES[stage]}_ns, 0)" for stage in HOLDING)
    calls = context.case.arrays(
        f"""SELECT coalesce(tid, -1) AS tid, coalesce(comm, '') AS comm, start_ns, start_ns + latency_ns AS end_ns FROM measured
WHERE layer = '{context.layer}' AND latency_ns >= {int(LATE_INSIDE_MIN * took_ns[long].min())} AND 2 * ({below}) >= latency_ns ORDER BY 4, 3"""
    )
    thread, comm = calls["tid"].astype(np.int64), calls["comm"].astype(str)
    low, high = calls["start_ns"].astype(np.int64), calls["end_ns"].astype(np.int64)
    # Waits are those of slow operations, or of the longest.
    program = dict(zip(context.slow.tid.tolist(), context.slow.comm.astype(str).tolist(), strict=True))
    program |= {episode.tid: episode.comm for episode, _ in context.longest}
    first = np.searchsorted(high, end_ns - TAKEN_SOON_MAX * took_ns, side="left")
    last = np.searchsorted(high, end_ns, side="right")
    for place in long.tolist():
        these = slice(first[place], last[place])
        within = low[these] <= begin_ns[place] + (1 - LATE_INSIDE_MIN) * took_ns[place]
        theirs = (comm[these] == program.get(int(tid[place]))) & (thread[these] != tid[place])
        found[place] = bool((within & theirs).any())
    return found
