"""Threads that wait for storage while none of their calls is an operation: pages of a mapped file that another call needs (writev to a socket), say.

No layer has these waits, so nothing can be said of them but how long they were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.room import FOR_IO
from whodisk.evidence.sleeps import HELD_TO_WRITE
from whodisk.evidence.thresholds import OUTSIDE_CALLS_MIN
from whodisk.evidence.time_lost import (
    NONE_HELD,
    Rows,
    TimeLost,
    held_rows,
    lost_in_rows,
    threads_time,
)
from whodisk.reading.views import quoted

#: What else a thread sleeps in that writes out a file: pages that are locked for I/O, and writeback throttling.
IN_WRITING = ("__folio_lock", HELD_TO_WRITE)


@dataclass(frozen=True)
class OutsideCalls:
    """Of the program that waited longest so."""

    comm: str
    waits: int
    #: All of them together, and the longest one, ns.
    waited_ns: float
    longest_ns: float
    #: What threads slept in for most of it.
    cause: str
    #: Whether it is more than all that was seen of calls: then nothing is known of most that the program waited for.
    most: bool


def sleeps_outside_sql(context: Context, causes: tuple[str, ...], *, of_callers: bool = True) -> str:
    """Query for the sleeps of the judged program's threads in one of these that began in the measured window while no call of theirs was recorded.

    `of_callers`: of threads with operations alone. One without any may be one that the kernel made for io_uring: it sleeps in operations of others.
    """
    listed = ", ".join(map(quoted, causes))
    # Where the calls of others are not recorded, all of their waits are outside of calls that are.
    own = ", ".join(map(str, context.own_programs[1])) or "NULL"
    callers = " AND tid IN (SELECT tid FROM calls)" if of_callers else ""
    return _outside_sql(
        context,
        f"SELECT tid FROM waits WHERE cause IN ({listed})",
        f"pid IN ({own}) AND cause IN ({listed}){callers}",
    )


def _outside_sql(context: Context, tids: str, which: str) -> str:
    """The sleeps of which that is true (`tids`: what lists their threads) that began in the measured window while no call of their thread was recorded."""
    survey = context.survey
    waker = (
        "waker, waker_pid"
        if "waker_tid" in context.case.columns["waits"]
        else "CAST(NULL AS VARCHAR) AS waker, CAST(NULL AS INTEGER) AS waker_pid"
    )
    return f"""WITH calls AS (SELECT tid, start_ns, start_ns + latency_ns AS end_ns FROM ops WHERE layer = 'syscall' AND tid IN ({tids}))
SELECT a.* FROM (SELECT tid, comm, cause, start_ns, start_ns + duration_ns AS end_ns, {waker} FROM waits
  WHERE state = 'blocked' AND {which} AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns}) AS a
ASOF LEFT JOIN calls AS c ON a.tid = c.tid AND a.start_ns >= c.start_ns WHERE c.end_ns IS NULL OR a.start_ns >= c.end_ns"""


def slept_outside_sql(context: Context, tids: list[int]) -> str:
    """Query for all sleeps of these threads outside of their calls that another thread ended."""
    listed = ", ".join(map(str, tids)) or "NULL"
    return _outside_sql(context, listed, f"tid IN ({listed}) AND waker_tid IS NOT NULL")


def sleeps_outside(context: Context, causes: tuple[str, ...]) -> Rows:
    """Thread, begin and end of these sleeps, ns; none where that was not recorded."""
    if "waits" not in context.case.columns or "syscall" not in context.case.layers:
        return NONE_HELD
    return held_rows(context, sleeps_outside_sql(context, causes))


def lost_outside(context: Context, sleeps: Rows) -> TimeLost | None:
    """What such sleeps cost the threads that slept so, against all of their time; None without any."""
    tids = [int(tid) for tid in np.unique(sleeps[0])]
    if not tids:
        return None
    whole = threads_time(context, tids)
    held = lost_in_rows(context, tids, sleeps, whole=whole)
    return held and replace(held, unit="sleep", threads_ns=float(whole.sum()))


def outside_calls(context: Context) -> OutsideCalls | None:
    """None where that is little: less than `OUTSIDE_CALLS_MIN` of the run."""
    survey = context.survey
    if context.layer != "syscall" or "waits" not in context.case.columns:
        return None
    rows = context.case.rows(
        f"""WITH apart AS (SELECT *, end_ns - start_ns AS duration_ns FROM ({sleeps_outside_sql(context, (*FOR_IO, *IN_WRITING), of_callers=False)}) AS found),
each AS (SELECT comm, cause, count(*) AS n, sum(duration_ns) AS ns, max(duration_ns) AS longest_ns FROM apart WHERE comm IS NOT NULL GROUP BY 1, 2)
SELECT comm, arg_max(cause, ns) AS cause, sum(n) AS n, sum(ns) AS ns, max(longest_ns) AS longest_ns FROM each GROUP BY 1 ORDER BY 4 DESC, 1 LIMIT 1"""
    )
    if not rows:
        return None
    waited_ns = float(rows[0]["ns"] or 0)
    if waited_ns < OUTSIDE_CALLS_MIN * survey.span_ns:
        return None
    return OutsideCalls(
        str(rows[0]["comm"]),
        int(rows[0]["n"] or 0),
        waited_ns,
        float(rows[0]["longest_ns"] or 0),
        str(rows[0]["cause"]),
        waited_ns >= survey.latency_ns,
    )
