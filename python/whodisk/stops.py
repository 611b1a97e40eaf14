"""What a submitter that was stopped cost its operations, where the stops themselves were seen (table `waits`).

A silence shorter than the table `gaps` keeps still holds up whatever is in flight then, and whatever is due. Effects are told
by subtraction: the 99th percentile of the operations that no stop touched, against that of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whodisk.detectors.base import Context
from whodisk.held import submitters, waits_sql
from whodisk.stats import (
    SEED,
    Bools,
    Floats,
    Ints,
    episodes,
    extents,
    overlap,
    spared_chance,
    weighted_quantile,
)
from whodisk.survey import thinned

#: A stop is felt by operations that begin up to this part of its length after it: those that were due meanwhile. And by those that begin
#: until one is as quick as is typical again, up to so many times its length after it: what had piled up takes its time where there is much to do.
AFTER, AFTER_MAX = 1.0, 8.0
#: What an operation owes to stops is at most so many times their length: itself, and what waited in front of it.
OWES_MAX = 2.0
#: Fewer operations that no stop touched are a choice: where most are touched, the others may be those that anything else spared, too.
APART_MIN = 0.5
ROUNDS = 1999
#: Operations that the test looks at.
TESTED_MAX = 2_000


@dataclass(frozen=True)
class Stops:
    """Stops of submitting threads, and what their operations lost to them."""

    tid: Ints
    comm: str
    start_ns: Ints
    duration_ns: Ints
    #: Part of the submitting threads' time.
    share_of_time: float
    #: Part of the time of all operations that they spent while their thread was stopped; per stop, too.
    share_of_latency: float
    per_stop: Floats
    #: 99th percentile with the stops, and of the operations that none touched (where most were touched, at least that of all without their
    #: time inside stops), ns.
    p99_ns: float
    p99_without_ns: float
    #: Begins and ends of the tail's operations, and of those longer by half a stop, and the measured window: what the test looks at.
    late: tuple[tuple[Ints, Ints], ...]
    window: tuple[int, int]

    @cached_property
    def p_value(self) -> float:
        """That neither kind of slow operations has to do with the stops (`scattered_p`). Takes a second: only where it decides."""
        least = 1.0
        for begin, end in self.late:
            if least > 1 / (1 + ROUNDS):
                least = min(least, scattered_p(self.start_ns, self.duration_ns, begin, end, self.window))
        return min(1.0, 2 * least)


def stops_sql(context: Context, state: str = "stopped", least_ns: int = 1) -> str:
    """The waits of submitting threads in that state inside the measured window, from that length on."""
    return waits_sql(context, submitters(context), state, least_ns)


def find_stops(context: Context, state: str = "stopped", least_ns: int = 1) -> Stops | None:
    """Stops, or other waits of a submitter in which it did nothing, and their cost; None without any."""
    found = context.case.arrays(stops_sql(context, state, least_ns))
    if not len(found["tid"]):
        return None
    tid, start = found["tid"].astype(np.int64), found["start_ns"].astype(np.int64)
    length = found["duration_ns"].astype(np.int64)
    ops = context.case.arrays(
        f"""SELECT tid, start_ns, latency_ns FROM measured
WHERE layer = '{context.layer}' AND tid IS NOT NULL AND {thinned(context.survey.operations)} ORDER BY start_ns, op_id"""
    )
    op_tid, op_start = ops["tid"].astype(np.int64), ops["start_ns"].astype(np.int64)
    latency = ops["latency_ns"].astype(np.int64)
    if not len(latency):
        return None
    per_stop, inside, touched, chance = overlaps((tid, start, length), (op_tid, op_start, latency))
    if touched.all():
        return None
    whole, apart = float(np.quantile(latency, 0.99)), latency[~touched].astype(np.float64)
    # Each stands for those like it that a stop touched; nothing gets slower without a stop.
    without = min(whole, weighted_quantile(apart, 1.0 / chance[~touched], 0.99))
    if (~touched).mean() < APART_MIN:
        without = max(without, float(np.quantile(latency - inside, 0.99)))
    survey = context.survey
    # Those of the tail, and those that are longer than usual by half a stop: either may tell that it is stops that hold them.
    held_up = latency > np.median(latency) + 0.5 * np.median(length)
    late = map(_some, (latency > without, held_up))
    return Stops(
        tid=tid,
        comm=next((str(name) for name in found["comm"] if name), "the submitter"),
        start_ns=start,
        duration_ns=length,
        share_of_time=float(length.sum()) / (len(submitters(context)) * survey.span_ns),
        share_of_latency=float(per_stop.sum()) / max(1.0, float(latency.sum())),
        per_stop=per_stop,
        p99_ns=whole,
        p99_without_ns=without,
        late=tuple((op_start[places], (op_start + latency)[places]) for places in late),
        window=(survey.begin_ns, survey.end_ns),
    )


def _some(chosen: Bools) -> Ints:
    """Their places; of very many an even part."""
    places = np.flatnonzero(chosen)
    return places[:: max(1, len(places) // TESTED_MAX)]


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
        most = OWES_MAX * np.maximum(stopped, length[mine][near])
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
    least, most = (end + (part * length).astype(np.int64) for part in (AFTER, AFTER_MAX))
    drained: Ints = begins[next_quick[np.searchsorted(op_begin, least)]]
    return np.clip(drained, least, most)


def _stopped_until(begin: Ints, end: Ints, moments: Ints) -> Floats:
    """How long a thread had been stopped in all at each moment; its stops are in order and apart."""
    edges = np.stack((begin, end), axis=1).ravel()
    total = np.cumsum(np.stack((np.zeros_like(begin), end - begin), axis=1).ravel())
    return np.asarray(np.interp(moments, edges, total), np.float64)


def scattered_p(
    start_ns: Ints, length_ns: Ints, late_begin_ns: Ints, late_end_ns: Ints, span: tuple[int, int]
) -> float:
    """Probability that stops at random moments cover the late operations as well as they do.

    Null model: stops come from outside, each at any moment, and late operations have nothing to do with them. Stops
    keep their lengths, not their spacing: a shift of regular stops by their own period is no other arrangement.
    """
    observed = float(overlap(late_begin_ns, late_end_ns, start_ns, start_ns + length_ns).sum())
    if observed <= 0:
        return 1.0
    generator = np.random.default_rng(SEED)
    # Threads of a process are stopped together, and stay together.
    group = episodes(start_ns, start_ns + length_ns)
    first, _ = extents(group, start_ns, start_ns)
    at_least = 0
    for _ in range(ROUNDS):
        begin = generator.integers(span[0], max(span[0] + 1, span[1]), len(first))
        moved = start_ns + (begin - first)[group]
        at_least += float(overlap(late_begin_ns, late_end_ns, moved, moved + length_ns).sum()) >= observed
    return (1 + at_least) / (1 + ROUNDS)
