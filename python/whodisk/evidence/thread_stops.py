"""What a submitter that was stopped cost its operations, where the stops themselves were seen (table `waits`).

Where all of a process was stopped, so were its threads that slept (`whodisk.evidence.process_stops`).
A silence shorter than the table `gaps` keeps still holds up whatever is in flight then, and whatever is due. Effects are computed
by subtraction: the 99th percentile of the operations that no stop touched, against that of all; where it is known when operations had ended below, these
have to agree with the subtraction of the time that operations waited during stops to be taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.context import Context
from whodisk.evidence.process_stops import ThreadStops, with_whole_processes
from whodisk.evidence.replay import Replay, replayed_without_stops
from whodisk.evidence.survey import thinned
from whodisk.evidence.thresholds import (
    STOP_APART_MIN,
    STOP_FELT_AFTER,
    STOP_FELT_AFTER_MAX,
    STOP_OWES_MAX,
    STOP_ROUNDS,
    STOP_TESTED_MAX,
    STOP_UNLIKE,
)
from whodisk.evidence.time_lost import submitters, threads_time, waits_sql
from whodisk.statistics.coincidence import Intervals, coincidence_p
from whodisk.statistics.stats import (
    Bools,
    Floats,
    Ints,
    overlap,
    spared_chance,
    weighted_quantile,
)


@dataclass(frozen=True)
class Stops:
    """Stops of submitting threads, and what their operations lost to them."""

    tid: Ints
    #: The name of each stopped thread.
    comm: npt.NDArray[Any]
    start_ns: Ints
    duration_ns: Ints
    #: Part of the submitting threads' time.
    share_of_time: float
    #: Part of the time of all operations that they spent while their thread was stopped; per stop, too.
    share_of_latency: float
    per_stop: Floats
    #: Operations that were not made for them, as a part of all that would have been; per stop. What is made up for right after a stop is not lost.
    unmade: Floats
    #: Operations that are due at times of their own, played again without the stops.
    replay: Replay | None
    #: 99th percentile with the stops, and of the operations that none touched (where most were touched, at least that of all without their
    #: time inside stops), ns; that of all without what their threads did not take meanwhile, where this is known and the two differ much.
    p99_ns: float
    p99_without_ns: float
    #: The tail's operations, and those longer by half a stop, and when any began: what the test looks at.
    late: tuple[Intervals, ...]
    places_ns: Ints

    @cached_property
    def p_value(self) -> float:
        """That neither kind of slow operations has to do with the stops (`coincidence_p`). Takes time: only where it decides."""
        held = Intervals(self.tid, self.start_ns, self.start_ns + self.duration_ns)
        least = min(coincidence_p(held, late, self.places_ns, STOP_ROUNDS) for late in self.late)
        return float(min(1.0, 2 * least))


def stops_sql(context: Context, state: str = "stopped", least_ns: int = 1) -> str:
    """The waits of submitting threads in that state inside the measured window, from that length on."""
    return waits_sql(context, submitters(context), state, least_ns)


def find_stops(context: Context, state: str = "stopped", least_ns: int = 1) -> Stops | None:
    """Stops, or other waits of a submitter in which it did nothing, and their cost; None without any."""
    found = context.case.arrays(stops_sql(context, state, least_ns))
    held = ThreadStops(
        found["tid"].astype(np.int64),
        np.array([str(name or "the submitter") for name in found["comm"]], dtype=object),
        found["start_ns"].astype(np.int64),
        found["duration_ns"].astype(np.int64),
    )
    if state == "stopped":
        held = with_whole_processes(context, submitters(context), held)
    tid, start, length = held.tid, held.start_ns, held.duration_ns
    if not len(tid):
        return None
    ops = context.case.arrays(
        f"""SELECT tid, start_ns, latency_ns, coalesce(app_ns, 0) + coalesce(reap_ns, 0) AS own_ns FROM measured
WHERE layer = '{context.layer}' AND tid IS NOT NULL AND {thinned(context.survey.operations)} ORDER BY start_ns, op_id"""
    )
    op_tid, op_start = ops["tid"].astype(np.int64), ops["start_ns"].astype(np.int64)
    latency = ops["latency_ns"].astype(np.int64)
    if not len(latency):
        return None
    per_stop, inside, touched, chance = overlaps((tid, start, length), (op_tid, op_start, latency))
    if touched.all():
        return None
    whole, survey = float(np.quantile(latency, 0.99)), context.survey
    # Each stands for those like it that a stop touched; nothing gets slower without a stop.
    apart = latency[~touched].astype(np.float64)
    without = min(whole, weighted_quantile(apart, 1.0 / chance[~touched], 0.99))
    if (~touched).mean() < STOP_APART_MIN:
        without = max(without, float(np.quantile(latency - inside, 0.99)))
    if state == "stopped" and "reap" in survey.stages_observed:
        # A thread that is stopped begins nothing and takes nothing, and devices go on. What the others show includes what piled up behind a stop; where they
        # show something else altogether, they are those that another trouble at the same times spared, too.
        stopped = _stopped_in((tid, start, length), op_tid, op_start, op_start + latency)
        less = float(np.quantile(latency - np.minimum(stopped, ops["own_ns"].astype(np.int64)), 0.99))
        without = without if less <= STOP_UNLIKE * without and without <= STOP_UNLIKE * less else less
    # Those of the tail, and those that are longer than usual by half a stop: either may show that it is stops that hold them.
    held_up = latency > np.median(latency) + 0.5 * np.median(length)
    late = map(_some, (latency > without, held_up))
    return Stops(
        tid=tid,
        comm=held.comm,
        start_ns=start,
        duration_ns=length,
        share_of_time=min(1.0, float(length.sum()) / float(threads_time(context, submitters(context)).sum())),
        share_of_latency=float(per_stop.sum()) / max(1.0, float(latency.sum())),
        per_stop=per_stop,
        unmade=unmade_operations((tid, start, length), op_tid, op_start, (survey.begin_ns, survey.end_ns)),
        replay=replayed_without_stops(context, tid, start, length) if state == "stopped" else None,
        p99_ns=whole,
        p99_without_ns=without,
        late=tuple(Intervals(op_tid[p], op_start[p], (op_start + latency)[p]) for p in late),
        places_ns=op_start,
    )


def unmade_operations(
    stops: tuple[Ints, Ints, Ints], op_tid: Ints, op_start: Ints, window_ns: tuple[int, int]
) -> Floats:
    """Operations that each stop left unmade, over all that there would have been.

    A thread in a closed loop makes none while it is stopped and no more than usual afterwards; one that serves what others send catches up. So each
    stop is looked at with as much time after it, as far as it was measured, against the thread's rate elsewhere. `op_start` is in order.
    """
    tid, start, length = stops
    unmade = np.zeros(len(tid))
    for thread in np.unique(tid):
        mine, begins = np.flatnonzero(tid == thread), op_start[op_tid == thread]
        # Stops that follow each other closely share the time after them.
        begin = start[mine]
        end = np.minimum(begin + 2 * length[mine], np.append(begin[1:], window_ns[1]))
        made = np.searchsorted(begins, end) - np.searchsorted(begins, begin)
        elsewhere_ns = max(1.0, window_ns[1] - window_ns[0] - float((end - begin).sum()))
        rate = max(0, len(begins) - int(made.sum())) / elsewhere_ns
        unmade[mine] = np.clip(rate * (end - begin) - made, 0.0, rate * length[mine])
    return unmade / max(1.0, len(op_start) + float(unmade.sum()))


def _stopped_in(stops: tuple[Ints, Ints, Ints], op_tid: Ints, begin_ns: Ints, end_ns: Ints) -> Floats:
    """How long the thread of each operation was stopped while that was in flight, ns."""
    tid, start, length = stops
    stopped = np.zeros(len(op_tid))
    for thread in np.unique(tid):
        mine, theirs = tid == thread, op_tid == thread
        stopped[theirs] = overlap(begin_ns[theirs], end_ns[theirs], start[mine], (start + length)[mine])
    return stopped


def _some(chosen: Bools) -> Ints:
    """Their places; of very many an even part."""
    places = np.flatnonzero(chosen)
    return places[:: max(1, len(places) // STOP_TESTED_MAX)]


def overlaps(
    stops: tuple[Ints, Ints, Ints], ops: tuple[Ints, Ints, Ints]
) -> tuple[Floats, Floats, Bools, Floats]:
    """Time of operations inside each stop of their thread, by stop and by operation, the operations that one touched, and how often
    one of their length that begins at any moment is touched by none (1: it would not have been, wherever it began)."""
    tid, start, length = stops
    op_tid, op_start, latency = ops
    per_stop, per_op = np.zeros(len(tid)), np.zeros(len(op_tid))
    touched, chance = np.zeros(len(op_tid), np.bool_), np.ones(len(op_tid))
    span = float(op_start.min()), float((op_start + latency).max())
    typical = float(np.median(latency))
    for thread in np.unique(tid):
        mine, theirs = np.flatnonzero(tid == thread), np.flatnonzero(op_tid == thread)
        begin, end = start[mine], start[mine] + length[mine]
        op_begin, op_end = op_start[theirs], op_start[theirs] + latency[theirs]
        last = np.searchsorted(begin, op_end, side="left") - 1
        known = last >= 0
        near = np.maximum(last, 0)
        inside = np.minimum(op_end, end[near]) - np.maximum(op_begin, begin[near])
        inside = np.where(known, np.maximum(inside, 0), 0)
        np.add.at(per_stop, mine[near], inside.astype(np.float64))
        per_op[theirs] = inside
        until = _felt_until(end, length[mine], op_begin, latency[theirs] <= typical)
        after = until[near]
        # Long operations are in flight during some stop whatever made them long: it touched them if it could have.
        stopped = _stopped_until(begin, end, op_end) - _stopped_until(begin, end, op_begin)
        most = STOP_OWES_MAX * np.maximum(stopped, length[mine][near])
        could = latency[theirs] - most <= typical
        touched[theirs] = known & (op_begin < after) & could
        by_place = spared_chance(latency[theirs].astype(np.float64), begin, until, span)
        chance[theirs] = np.where(could, by_place, 1.0)
    return per_stop, per_op, touched, chance


def _felt_until(end: Ints, length: Ints, op_begin: Ints, quick: Bools) -> Ints:
    """Until when operations of the thread may owe something to each stop; they are in order."""
    places = np.append(np.where(quick, np.arange(len(quick)), len(quick)), len(quick))
    next_quick = np.minimum.accumulate(places[::-1])[::-1]
    begins = np.append(op_begin, np.iinfo(np.int64).max)
    least, most = (end + (part * length).astype(np.int64) for part in (STOP_FELT_AFTER, STOP_FELT_AFTER_MAX))
    drained: Ints = begins[next_quick[np.searchsorted(op_begin, least)]]
    return np.clip(drained, least, most)


def _stopped_until(begin: Ints, end: Ints, moments: Ints) -> Floats:
    """How long a thread had been stopped in all at each moment; its stops are in order and apart."""
    edges = np.stack((begin, end), axis=1).ravel()
    total = np.cumsum(np.stack((np.zeros_like(begin), end - begin), axis=1).ravel())
    return np.asarray(np.interp(moments, edges, total), np.float64)
