"""Stops of other processes than a thread's own, and when that thread slept in them outside of its calls until another thread let it go on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.outside_calls import slept_outside_sql
from whodisk.evidence.process_stops import united
from whodisk.evidence.time_lost import NONE_HELD, Rows, held_rows
from whodisk.statistics.stats import Ints, common, overlap


@dataclass(frozen=True)
class Stops:
    """The stops of all processes in the measured window; an array element each, in order of time."""

    pid: Ints
    begin_ns: Ints
    end_ns: Ints

    def of(self, pids: list[int], *, others: bool = False) -> tuple[Ints, Ints]:
        """Those of these processes, or of all others; several at once are one."""
        chosen = np.isin(self.pid, pids, invert=others)
        if not chosen.any():
            return NONE_HELD[1], NONE_HELD[2]
        return united(self.begin_ns[chosen], self.end_ns[chosen])


def stops_of_all_sql(context: Context) -> str:
    """Query for these stops."""
    survey = context.survey
    return f"""SELECT start_ns, duration_ns, comm, tid, pid, cause FROM waits
WHERE state = 'stopped' AND pid IS NOT NULL AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns} ORDER BY start_ns, tid"""


def stops_of_all(context: Context) -> Stops:
    """The stops that were recorded of any process."""
    found = context.case.arrays(stops_of_all_sql(context))
    pid, begin, length = (found[name].astype(np.int64) for name in ("pid", "start_ns", "duration_ns"))
    return Stops(pid, begin, begin + length)


def slept_meanwhile(context: Context, tids: list[int], stops: Stops) -> Rows:
    """What of the sleeps of these threads lies in a stop of another process and, mostly, in none of their own."""
    processes = {
        int(row["tid"] or 0): int(row["pid"] or 0)
        for row in context.case.rows(
            f"SELECT tid, min(pid) AS pid FROM waits WHERE pid IS NOT NULL AND tid IN ({', '.join(map(str, tids)) or 'NULL'}) GROUP BY 1"
        )
    }
    slept = held_rows(context, slept_outside_sql(context, tids))
    found: list[tuple[int, int, int]] = []
    for tid in sorted(set(slept[0].tolist()) & set(processes)):
        begin, end = slept[1][slept[0] == tid], slept[2][slept[0] == tid]
        pieces = common((begin, end), stops.of([processes[tid]], others=True))
        own_ns = overlap(*pieces, *stops.of([processes[tid]]))
        free = 2 * own_ns < pieces[1] - pieces[0]
        low, high = (edges[free].astype(np.int64).tolist() for edges in pieces)
        found += [(tid, *piece) for piece in zip(low, high, strict=True)]
    if not found:
        return NONE_HELD
    tids_of, begins, ends = np.array(sorted(found, key=lambda piece: piece[1:]), np.int64).T
    return tids_of, begins, ends
