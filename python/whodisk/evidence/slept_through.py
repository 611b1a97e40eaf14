"""Calls that were in flight for the length of a stop of another process: they began and ended with it.

A file system of a process (FUSE), or a device of one, waits for that process, and for all that it waits for in turn: a server of files that another one feeds over a
pipe or a socket. Nothing of that is in the record but when a process was stopped, and when calls ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whodisk.evidence.context import Context
from whodisk.evidence.others_stopped import Stops, stops_of_all
from whodisk.evidence.thresholds import COVERS_MIN, STOPS_BY_CHANCE_MAX
from whodisk.evidence.time_lost import busy_submitters
from whodisk.statistics.probability import at_least
from whodisk.statistics.stats import Ints, overlap


@dataclass(frozen=True)
class SleptThrough:
    """The calls that were in flight through stops of a process, an array element each."""

    pids: tuple[int, ...]
    op_id: Ints
    tid: Ints
    begin_ns: Ints
    end_ns: Ints
    #: Stops of the process, and those that calls were in flight through.
    stops: int
    met: int
    #: The chance that as many of the calls that are as long lie on stops, if they began at any time; Bonferroni over processes. 0 where the process serves the device of all
    #: these calls: then they are known to have waited for it.
    p_value: float
    #: That device; empty where none is known that it serves.
    serves: str = ""


def slept_through(context: Context) -> SleptThrough | None:
    """Of the processes that do not belong to the program the one with whose stops most of the time of calls of its busy threads passed; processes that
    were stopped together count as one. None where there is none, or where chance might have made it."""
    if "waits" not in context.case.columns or "syscall" not in context.case.layers:
        return None
    stops = stops_of_all(context)
    if not len(stops.pid):
        return None
    found = _through_any(context, busy_submitters(context), stops, context.own_programs[1])
    return found if found is not None and found.p_value < STOPS_BY_CHANCE_MAX else None


def _through_any(context: Context, tids: list[int], stops: Stops, own: list[int]) -> SleptThrough | None:
    others = np.isin(stops.pid, own, invert=True)
    own_stops = stops.of(own)
    if not others.any() or not tids:
        return None
    shortest_ns = int(COVERS_MIN * (stops.end_ns - stops.begin_ns)[others].min())
    calls = context.case.arrays(
        f"""SELECT op_id, tid, start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM measured
WHERE layer = '{context.layer}' AND NOT open AND tid IN ({", ".join(map(str, tids))}) AND latency_ns >= {max(1, shortest_ns)} ORDER BY start_ns, op_id"""
    )
    # Who is stopped itself waits for nobody.
    begin, end = calls["begin_ns"].astype(np.int64), calls["end_ns"].astype(np.int64)
    free = 2 * overlap(begin, end, *own_stops) < end - begin
    calls = {name: values[free] for name, values in calls.items()}
    if not len(calls["op_id"]):
        return None
    pids = np.unique(stops.pid[others])
    found = [
        each for pid in pids.tolist() if (each := _through(context, pid, *stops.of([pid]), calls)) is not None
    ]
    best = max(found, key=lambda each: int((each.end_ns - each.begin_ns).sum()), default=None)
    if best is None:
        return None
    serves = _served(context, best)
    # A job control shell, or a freezer, stops several at once.
    with_it = tuple(each.pids[0] for each in found if np.array_equal(each.op_id, best.op_id))
    return SleptThrough(
        with_it,
        best.op_id,
        best.tid,
        best.begin_ns,
        best.end_ns,
        best.stops,
        best.met,
        0.0 if serves else min(1.0, best.p_value * len(pids)),
        serves,
    )


def _served(context: Context, through: SleptThrough) -> str:
    """The device of all these calls, if the process is known to serve it."""
    served = context.case.servers.get(through.pids[0])
    if not served:
        return ""
    listed = ", ".join(map(str, through.op_id.tolist()))
    rows = context.case.rows(
        f"SELECT DISTINCT coalesce(device, '') AS device FROM measured WHERE layer = '{context.layer}' AND op_id IN ({listed})"
    )
    device = str(rows[0]["device"])
    return device if len(rows) == 1 and device in served else ""


def _through(
    context: Context, pid: int, low: Ints, high: Ints, calls: dict[str, npt.NDArray[np.generic]]
) -> SleptThrough | None:
    begin, end = calls["begin_ns"].astype(np.int64), calls["end_ns"].astype(np.int64)
    # Those of a thread that are as long as the shortest of these stops.
    long = np.flatnonzero(end - begin >= COVERS_MIN * (high - low).min())
    at = np.clip(np.searchsorted(low, (begin[long] + end[long]) // 2, side="right") - 1, 0, len(low) - 1)
    inside = np.minimum(end[long], high[at]) - np.maximum(begin[long], low[at])
    mine = inside >= COVERS_MIN * np.maximum(end[long] - begin[long], high[at] - low[at])
    if not mine.any():
        return None
    met = np.unique(at[mine])
    # Calls that are long at other times, those of several threads at once counting once.
    apart = long[~mine]
    reach = np.maximum.accumulate(end[apart]) if len(apart) else end[apart]
    elsewhere = 1 + int((begin[apart][1:] > reach[:-1]).sum()) if len(apart) else 0
    near_ns = 2 * (1 - COVERS_MIN) * float((high - low).sum())
    chance = min(1.0, near_ns / max(1, context.survey.span_ns))
    held = long[mine]
    return SleptThrough(
        (pid,),
        calls["op_id"][held].astype(np.int64),
        calls["tid"][held].astype(np.int64),
        np.maximum(begin[held], low[at[mine]]),
        np.minimum(end[held], high[at[mine]]),
        len(low),
        len(met),
        at_least(len(met), len(met) + elsewhere, chance),
    )
