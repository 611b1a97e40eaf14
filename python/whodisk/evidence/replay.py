"""Operations that are due at times of their own, played again without what some of them lost.

Where a request was late, those that fell due meanwhile waited for its slot, and those after them for theirs, until the backlog was worked off. What a
fault costs is what nobody would have waited for without it.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import APP
from whodisk.evidence.thresholds import P99_LOST_MIN, REPLAY_OPERATIONS_MAX, SYNCS_ALONE_MIN
from whodisk.statistics.stats import Bools, Floats, Ints, episodes, overlap, upper_quantile


@dataclass(frozen=True)
class Replay:
    """The judged operations in order of their begin, ns."""

    start_ns: Ints
    latency_ns: Ints
    #: What each would have taken less: by itself, and because of those before it.
    lost_ns: Floats

    @property
    def p99_ns(self) -> float:
        """99th percentile, ns."""
        return _p99(self.latency_ns.astype(np.float64))

    @property
    def p99_without_ns(self) -> float:
        """The same without the loss; where next to nothing was lost, with it."""
        latency = self.latency_ns.astype(np.float64)
        lost = self.lost_ns if self.lost_ns.sum() >= P99_LOST_MIN * latency.sum() else 0.0
        return max(1.0, _p99(latency - lost))

    @property
    def p99_ratio(self) -> float:
        """99th percentile over that without the loss."""
        return self.p99_ns / self.p99_without_ns

    @property
    def lost_per_episode_ns(self) -> Floats:
        hit = self.lost_ns > 0
        numbers = episodes(self.start_ns[hit], (self.start_ns + self.latency_ns)[hit])
        return np.asarray(np.bincount(numbers, self.lost_ns[hit]), np.float64)

    def lost_per_event_ns(self, begin_ns: Ints) -> Floats:
        """What was lost to each of several events, given when they began, in order: an operation to the last one before its end.

        Where a backlog lasts from one event to the next, all that was lost is one episode, and many events.
        """
        hit = np.flatnonzero(self.lost_ns > 0)
        last = np.searchsorted(begin_ns, (self.start_ns + self.latency_ns)[hit]) - 1
        return np.bincount(np.maximum(last, 0), self.lost_ns[hit], len(begin_ns)).astype(np.float64)


def _p99(values: Floats) -> float:
    return upper_quantile(np.sort(values)[::-1], len(values), 0.01)


def replayed(context: Context, each_sql: str, *, from_due: bool = False) -> Replay | None:
    """The judged operations without a loss; None where no moments are known at which they were due, or where they are too many.

    `each_sql`: the begin of a query with a table `each` (op_id, lost_ns). `from_due`: they count from these moments even where they are judged from
    their submit on.
    """
    if not _are_due(context, from_due):
        return None
    ops = _operations(context, each_sql)
    served = (ops.latency_ns - ops.app_ns).astype(np.float64)
    lost = np.minimum(ops.lost_ns, served)
    less = np.zeros(len(served))
    for mine in ops.by_thread():
        later = _ends(mine, served[mine.places]) - _ends(mine, (served - lost)[mine.places])
        less[mine.places] = np.where(mine.is_alone, lost[mine.places], later)
    return ops.less(less)


def replayed_without_stops(
    context: Context, tid: Ints, begin_ns: Ints, length_ns: Ints, *, from_due: bool = False
) -> Replay | None:
    """The same without stops of submitting threads, which are in order: a thread that is stopped neither submits what is due nor takes what has ended."""
    if not _are_due(context, from_due):
        return None
    ops = _operations(
        context, "WITH each AS (SELECT op_id, reap_ns AS lost_ns FROM measured WHERE layer = 'app')"
    )
    end = ops.start_ns + ops.latency_ns
    served = (ops.latency_ns - ops.app_ns).astype(np.float64)
    less = np.zeros(len(served))
    for mine in ops.by_thread():
        at = mine.places
        theirs = tid == ops.tid[at[0]]
        stops = begin_ns[theirs], (begin_ns + length_ns)[theirs]
        # What had ended below, and was not taken.
        done = end[at] - ops.lost_ns[at].astype(np.int64)
        untaken = overlap(done, end[at], *stops)
        later = _ends(mine, served[at], stops) - _ends(mine, served[at] - untaken)
        less[at] = np.where(mine.is_alone, untaken, later)
    return ops.less(less)


@dataclass(frozen=True)
class _Thread:
    """The operations of a thread in the order in which they were submitted."""

    #: Which they are among all.
    places: Ints
    #: When they were due, ns.
    due_ns: Ints
    #: How many it has in flight at most.
    slots: int
    #: Syncs that it makes with nothing else in flight, and how much later than the end of all before it each was submitted, ns. Such a sync follows what was
    #: done before, whenever that is done, and holds up whatever falls due meanwhile.
    is_alone: Bools
    after_ns: Ints


@dataclass(frozen=True)
class _Operations:
    """The judged operations in order of their begin, ns."""

    tid: Ints
    start_ns: Ints
    app_ns: Ints
    latency_ns: Ints
    lost_ns: Floats
    is_sync: Bools

    def by_thread(self) -> Iterator[_Thread]:
        """The operations of each thread."""
        submit = self.start_ns + self.app_ns
        for thread in np.unique(self.tid):
            mine = np.flatnonzero(self.tid == thread)
            mine = mine[np.argsort(submit[mine], kind="stable")]
            begin, end = submit[mine], (self.start_ns + self.latency_ns)[mine]
            after = begin - np.append(begin[0], np.maximum.accumulate(end)[:-1])
            apart = (after >= 0) & (np.append(begin[1:], end[-1]) >= end)
            syncs = self.is_sync[mine]
            alone = syncs & apart
            # Of a thread that makes them beside others some stand alone by chance.
            if alone.sum() < SYNCS_ALONE_MIN * syncs.sum():
                alone = np.zeros(len(mine), np.bool_)
            yield _Thread(mine, self.start_ns[mine], _slots(begin, end), alone, after)

    def less(self, lost_ns: Floats) -> Replay:
        return Replay(
            self.start_ns, self.latency_ns, np.clip(lost_ns, 0.0, self.latency_ns.astype(np.float64))
        )


def _are_due(context: Context, from_due: bool) -> bool:
    """Whether the moments at which operations were due are known, and all operations."""
    survey, case = context.survey, context.case
    if context.layer != "app" or not case.offered_per_s or case.counts_from_submit != from_due:
        return False
    if not from_due and not any(stratum.stage_ns[APP] > 0 for stratum in survey.strata):
        return False
    # Of a sample nobody knows who waited for whom.
    return survey.operations <= REPLAY_OPERATIONS_MAX and survey.seen >= survey.operations


def _operations(context: Context, each_sql: str) -> _Operations:
    # As they were recorded: the judged ones may count from their submit on.
    found = context.case.arrays(
        f"""{each_sql} SELECT coalesce(m.tid, 0) AS tid, o.start_ns, coalesce(o.app_ns, 0) AS app_ns, o.latency_ns, coalesce(e.lost_ns, 0) AS lost_ns, o.op = 'sync' AS is_sync
FROM measured AS m JOIN ops AS o ON o.op_id = m.op_id LEFT JOIN each AS e ON e.op_id = m.op_id
WHERE m.layer = 'app' AND o.layer = 'app' ORDER BY o.start_ns, o.op_id"""
    )
    tid, start, app, latency = (
        found[name].astype(np.int64) for name in ("tid", "start_ns", "app_ns", "latency_ns")
    )
    return _Operations(
        tid, start, app, latency, found["lost_ns"].astype(np.float64), found["is_sync"].astype(np.bool_)
    )


def _slots(begin: Ints, end: Ints) -> int:
    """Operations that were in flight at most; `begin` in order."""
    return int((np.arange(1, len(begin) + 1) - np.searchsorted(np.sort(end), begin, side="right")).max())


def _ends(mine: _Thread, served_ns: Floats, stops: tuple[Ints, Ints] | None = None) -> Floats:
    """When each operation of a thread ends that begins as soon as it is due and a slot is free, in this order, and its thread is not stopped (from, until);
    a sync that it makes alone, as soon as what was before has ended, and nothing begins before that ends."""
    busy: list[float] = []
    ends = []
    since, until = ([], []) if stops is None else (stops[0].tolist(), stops[1].tolist())
    # When all so far have ended, and the last sync.
    last_end = float(mine.due_ns[0])
    synced = 0.0
    each = zip(
        mine.due_ns.tolist(), served_ns.tolist(), mine.is_alone.tolist(), mine.after_ns.tolist(), strict=True
    )
    for due, served, alone, after in each:
        if alone:
            begin = last_end + after
            busy.clear()
        else:
            begin = max(float(due), synced)
            if len(busy) >= mine.slots:
                begin = max(begin, heapq.heappop(busy))
        last = bisect_right(since, begin) - 1
        if last >= 0:
            begin = max(begin, float(until[last]))
        end = begin + served
        if alone:
            synced = end
        last_end = max(last_end, end)
        ends.append(end)
        heapq.heappush(busy, end)
    return np.array(ends)
