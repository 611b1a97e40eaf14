"""Stops of a whole process: a signal or the freezer of its control group stops all of its threads, also those that were asleep.

A thread that sleeps when its control group is frozen stays where it is, and the scheduler tells of no wait: only of those that ran, or were woken. So the
stops of any thread of a process are united, and each submitting thread of it without a stop of its own then was stopped as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.context import Context
from whodisk.statistics.stats import Ints

#: What stops one thread, and not its process: a tracer, by where it stood (kernel/signal.c).
_BY_TRACER = "ptrace"


@dataclass(frozen=True)
class ThreadStops:
    """One element for each stop of a thread, in order of time."""

    tid: Ints
    comm: npt.NDArray[Any]
    start_ns: Ints
    duration_ns: Ints


def processes_sql(context: Context, tids: list[int]) -> str:
    """The processes of these threads."""
    listed = ", ".join(map(str, tids)) or "NULL"
    return f"SELECT DISTINCT pid FROM measured WHERE layer = '{context.layer}' AND tid IN ({listed}) AND pid IS NOT NULL"


def process_stops_sql(context: Context, tids: list[int]) -> str:
    """The stops of all threads of the processes of these threads, inside the measured window."""
    survey, listed = context.survey, ", ".join(map(str, tids)) or "NULL"
    return f"""SELECT tid, comm, pid, start_ns, duration_ns, cause FROM waits
WHERE state = 'stopped' AND (tid IN ({listed}) OR pid IN ({processes_sql(context, tids)})) AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns}
ORDER BY start_ns, tid"""


def with_whole_processes(context: Context, tids: list[int], own: ThreadStops) -> ThreadStops:
    """The stops of these threads, and those of them that were asleep while their process was stopped."""
    found = context.case.arrays(process_stops_sql(context, tids))
    by_tracer = np.array([_BY_TRACER in str(cause or "") for cause in found["cause"]], np.bool_)
    pid_or_nan = found["pid"].astype(np.float64)
    whole = ~np.isnan(pid_or_nan) & ~by_tracer
    if not whole.any():
        return own
    pids = pid_or_nan[whole].astype(np.int64)
    begin = found["start_ns"][whole].astype(np.int64)
    end = begin + found["duration_ns"][whole].astype(np.int64)
    owners = _owners(context, tids)
    rows = [own]
    for pid in np.unique(pids).tolist():
        low, high = united(begin[pids == pid], end[pids == pid])
        for tid, comm in owners.get(pid, []):
            mine = own.tid == tid
            rows.append(_asleep(context, tid, comm, low, high, own.start_ns[mine], own.duration_ns[mine]))
    joined = ThreadStops(
        np.concatenate([row.tid for row in rows]),
        np.concatenate([row.comm for row in rows]),
        np.concatenate([row.start_ns for row in rows]),
        np.concatenate([row.duration_ns for row in rows]),
    )
    order = np.lexsort((joined.tid, joined.start_ns))
    return ThreadStops(
        joined.tid[order], joined.comm[order], joined.start_ns[order], joined.duration_ns[order]
    )


def united(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Intervals in order of their begins, joined where they touch."""
    reach = np.maximum.accumulate(end)
    first = np.concatenate(([True], begin[1:] > reach[:-1]))
    return begin[first], reach[np.concatenate((first[1:], [True]))]


def _owners(context: Context, tids: list[int]) -> dict[int, list[tuple[int, str]]]:
    """Threads by process, with their names."""
    listed = ", ".join(map(str, tids)) or "NULL"
    rows = context.case.rows(
        f"""SELECT tid, min(pid) AS pid, min(comm) AS comm FROM measured
WHERE layer = '{context.layer}' AND tid IN ({listed}) AND pid IS NOT NULL GROUP BY 1 HAVING count(DISTINCT pid) = 1 ORDER BY 1"""
    )
    found: dict[int, list[tuple[int, str]]] = {}
    for row in rows:
        found.setdefault(int(row["pid"] or 0), []).append((int(row["tid"] or 0), str(row["comm"] or "")))
    return found


def _asleep(
    context: Context, tid: int, comm: str, low: Ints, high: Ints, own_start: Ints, own_duration: Ints
) -> ThreadStops:
    """The stops of the process in which this thread had none of its own, each from the end of what was in flight when it began. A thread that began something
    meanwhile was not stopped."""
    ops = context.case.arrays(
        f"SELECT start_ns, latency_ns FROM measured WHERE layer = '{context.layer}' AND tid = {tid} ORDER BY start_ns, op_id"
    )
    op_start = ops["start_ns"].astype(np.int64)
    reach = np.maximum.accumulate(op_start + ops["latency_ns"].astype(np.int64))
    had_own = np.array(
        [
            bool(((own_start < e) & (own_start + own_duration > b)).any())
            for b, e in zip(low, high, strict=True)
        ],
        np.bool_,
    )
    before = np.searchsorted(op_start, low, side="left")
    free = np.where(before > 0, reach[np.maximum(before - 1, 0)], low) if len(reach) else low
    start = np.maximum(low, free)
    began = np.searchsorted(op_start, high, side="left") - before
    # Only while it was there: between its first operation and its last.
    there = (before > 0) & (before < len(op_start))
    chosen = ~had_own & (start < high) & (began == 0) & there
    count = int(chosen.sum())
    return ThreadStops(
        np.full(count, tid, np.int64),
        np.array([comm or "the submitter"] * count, dtype=object),
        start[chosen],
        (high - start)[chosen],
    )
