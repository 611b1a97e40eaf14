"""When threads of a program ran, or could have: what lies between their waits. A thread of a pool, or of an event loop, says nothing of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.statistics.stats import Bools, Floats, Ints, disjoint, overlap


@dataclass(frozen=True)
class Running:
    """The times in which threads of a program ran, and those in which that is not known; ns, by thread."""

    tid: Ints
    begin_ns: Floats
    end_ns: Floats
    #: Whether a time is not known: the end of a wait was lost there, and the thread may have slept.
    unknown: Bools
    #: Times in which a thread had no CPU, or its control group no CPU time.
    ready_begin_ns: Floats
    ready_end_ns: Floats
    #: What threads are called.
    names: dict[int, str]

    def outside(
        self, begin_ns: Floats, end_ns: Floats, calls_begin_ns: Floats, calls_end_ns: Floats
    ) -> float:
        """How much of these times passes without a call and without a thread that ran, was ready to, or may have run, ns."""
        begin, end = disjoint(begin_ns, end_ns)
        low = np.concatenate((calls_begin_ns, self.begin_ns, self.ready_begin_ns))
        high = np.concatenate((calls_end_ns, self.end_ns, self.ready_end_ns))
        return float(np.maximum(0.0, end - begin).sum() - overlap(begin, end, low, high).sum())

    def computes(
        self, calls_begin_ns: Floats, calls_end_ns: Floats, low_ns: float, high_ns: float
    ) -> tuple[float, int, float]:
        """For how long in all, from `low_ns` to `high_ns`, some thread ran while there was no call; the thread that did so longest, and for how long, ns."""
        known = ~self.unknown
        begin = np.clip(self.begin_ns[known], low_ns, high_ns)
        end = np.clip(self.end_ns[known], low_ns, high_ns)
        own = end - begin - overlap(begin, end, calls_begin_ns, calls_end_ns)
        tids, index = np.unique(self.tid[known], return_inverse=True)
        if not len(tids):
            return 0.0, 0, 0.0
        each = np.bincount(index, own)
        most = int(np.argmax(each))
        lows, highs = disjoint(begin, end)
        highs = np.maximum(lows, highs)
        whole = (highs - lows).sum() - overlap(lows, highs, calls_begin_ns, calls_end_ns).sum()
        return float(whole), int(tids[most]), float(each[most])


def running_of(context: Context, threads_sql: str, low_ns: float, high_ns: float) -> Running:
    """When threads (`threads_sql`: a condition on rows of `waits`) ran between these moments.

    A thread is looked at from its first wait to its last: before and behind, nothing tells whether it was there. Waits that are too short to be listed
    (`min_ns`, 10 us) count as running.
    """
    data = context.case.arrays(
        f"""SELECT tid, coalesce(comm, '') AS comm, state IN ('blocked', 'stopped') AS asleep, start_ns AS begin_ns, start_ns + duration_ns AS end_ns
FROM waits WHERE {threads_sql} ORDER BY tid, begin_ns, end_ns"""
    )
    tid = data["tid"].astype(np.int64)
    begin, end = (data[name].astype(np.float64) for name in ("begin_ns", "end_ns"))
    if not len(tid):
        none = np.zeros(0)
        return Running(tid, none, none, np.zeros(0, np.bool_), none, none, {})
    # A wait may lie inside of another one of its thread: what counts is the latest end before.
    first = np.flatnonzero(np.concatenate(([True], tid[1:] != tid[:-1])))
    latest = np.concatenate([np.maximum.accumulate(part) for part in np.split(end, first[1:])])
    gap: Bools = np.asarray((tid[1:] == tid[:-1]) & (begin[1:] > latest[:-1]), np.bool_)
    ran_begin, ran_end = latest[:-1][gap], begin[1:][gap]
    unknown = _unknown(context, ran_begin, ran_end)
    inside: Bools = np.asarray((ran_end > low_ns) & (ran_begin < high_ns), np.bool_)
    ready = ~data["asleep"].astype(np.bool_)
    comm = data["comm"].astype(str)
    return Running(
        tid[1:][gap][inside],
        ran_begin[inside],
        ran_end[inside],
        unknown[inside],
        begin[ready],
        end[ready],
        {int(tid[at]): str(comm[at]) for at in first},
    )


def _unknown(context: Context, begin_ns: Floats, end_ns: Floats) -> Bools:
    """Which of these times between waits may be a sleep that was lost: where so many were lost, as many of the longest that reach into that stretch."""
    unknown = np.zeros(len(begin_ns), np.bool_)
    if "losses" not in context.case.columns:
        return unknown
    losses = context.case.rows(
        "SELECT start_ns, end_ns, lost FROM losses WHERE split_part(probe, '/', 1) = 'sched' ORDER BY start_ns"
    )
    for row in losses:
        there = np.flatnonzero((end_ns > int(row["start_ns"] or 0)) & (begin_ns < int(row["end_ns"] or 0)))
        lost = len(there) if row["lost"] is None else int(row["lost"] or 0)
        longest = np.argsort((begin_ns - end_ns)[there], kind="stable")[:lost]
        unknown[there[longest]] = True
    return unknown
