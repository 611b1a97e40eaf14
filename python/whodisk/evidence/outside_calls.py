"""Threads that wait for storage while none of their calls is an operation: pages of a mapped file that another call needs (writev to a socket), say.

No layer has these waits, so nothing can be said of them but how long they were.
"""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.evidence.context import Context
from whodisk.evidence.room import FOR_IO
from whodisk.evidence.surroundings import HELD_TO_WRITE
from whodisk.evidence.thresholds import OUTSIDE_CALLS_MIN
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


def outside_calls(context: Context) -> OutsideCalls | None:
    """None where that is little: less than `OUTSIDE_CALLS_MIN` of the run."""
    survey = context.survey
    if context.layer != "syscall" or "waits" not in context.case.columns:
        return None
    causes = ", ".join(map(quoted, (*FOR_IO, *IN_WRITING)))
    # Where the calls of others are not recorded, all of their waits are outside of calls that are.
    own = ", ".join(map(str, context.own_programs[1])) or "NULL"
    rows = context.case.rows(
        f"""WITH asleep AS (SELECT tid, comm, cause, start_ns, duration_ns FROM waits
  WHERE state = 'blocked' AND pid IN ({own}) AND cause IN ({causes}) AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns}),
calls AS (SELECT tid, start_ns, start_ns + latency_ns AS end_ns FROM ops WHERE layer = 'syscall' AND tid IN (SELECT tid FROM asleep GROUP BY 1)),
apart AS (SELECT a.comm, a.cause, a.duration_ns FROM asleep AS a ASOF LEFT JOIN calls AS c ON a.tid = c.tid AND a.start_ns >= c.start_ns
  WHERE c.end_ns IS NULL OR a.start_ns >= c.end_ns),
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
