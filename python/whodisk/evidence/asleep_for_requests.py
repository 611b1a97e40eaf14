"""Calls that slept in the file system for I/O while one request was under way: that request's stages are where they were held.

A page may be read, or written, for somebody else: by readahead, by writeback, by the journal; or by the process that serves the file system (FUSE). No link
of the call leads to such a request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.room import FOR_IO
from whodisk.evidence.sleeps import HELD_TO_WRITE, Sleeps, of_threads
from whodisk.evidence.thresholds import (
    ASLEEP_OPERATIONS_MAX,
    COVERS_MIN,
    EXPLAINED_PART,
    REQUESTS_RARE_MAX,
    WOKE_NS,
)
from whodisk.reading.views import Case, without_volumes_sql
from whodisk.statistics.stats import Floats, Ints, overlap


@dataclass(frozen=True)
class Request:
    """The request that a call slept for, and how long of that sleep it was queued, and at its device, ns."""

    op: str
    #: The thread that made it; empty: nobody is known.
    comm: str
    device: str
    queue_ns: float
    device_ns: float


def slept_for(case: Case, tid: Ints, begin_ns: Ints, end_ns: Ints, lost_ns: Floats) -> dict[int, Request]:
    """For each of these calls that slept for I/O the request that was under way for nearly all that it lost (`lost_ns`), where there is but one, and those of its
    device are rarely that long; of several the one that completed when the sleep ended. Who waits for a turn to write waits for the
    device that completed nothing meanwhile, whichever of its requests that held. Of many calls the `ASLEEP_OPERATIONS_MAX` that lost most are looked at."""
    found: dict[int, Request] = {}
    if "block" not in case.layers or not len(tid):
        return found
    chosen = np.argsort(-lost_ns, kind="stable")[:ASLEEP_OPERATIONS_MAX]
    slept, for_turn, woke_ns = np.zeros(len(chosen)), np.zeros(len(chosen)), np.zeros(len(chosen), np.int64)
    causes = (*FOR_IO, HELD_TO_WRITE)
    for mine, sleeps in of_threads(
        case, tid[chosen], begin_ns[chosen], end_ns[chosen], causes, held=True, served=True
    ):
        slept[mine] = overlap(begin_ns[chosen][mine], end_ns[chosen][mine], sleeps.begin_ns, sleeps.end_ns)
        woke_ns[mine] = _woke(begin_ns[chosen][mine], end_ns[chosen][mine], sleeps)
        turns = sleeps.cause == HELD_TO_WRITE
        for_turn[mine] = overlap(
            begin_ns[chosen][mine], end_ns[chosen][mine], sleeps.begin_ns[turns], sleeps.end_ns[turns]
        )
    long = (slept > 0) & (slept >= EXPLAINED_PART * lost_ns[chosen])
    to_write = chosen[long & (for_turn >= EXPLAINED_PART * lost_ns[chosen])]
    chosen, woke_ns = chosen[long], woke_ns[long]
    if not len(chosen):
        return found
    data = case.arrays(_long_sql(case, int(COVERS_MIN * lost_ns[chosen].min())))
    begin, end = data["begin_ns"].astype(np.int64), data["end_ns"].astype(np.int64)
    device, took = data["device"].astype(str), end - begin
    total = {
        str(row["device"]): int(row["n"] or 0)
        for row in case.rows(
            "SELECT device, count(*) AS n FROM block_ops WHERE device IS NOT NULL GROUP BY 1"
        )
    }
    still = _stood_still(case, to_write, begin_ns, end_ns, lost_ns)
    for at, woke in zip(chosen.tolist(), woke_ns.tolist(), strict=True):
        least_ns = COVERS_MIN * lost_ns[at]
        inside = np.minimum(end, end_ns[at]) - np.maximum(begin, begin_ns[at])
        covers = np.flatnonzero(inside >= least_ns)
        if at in to_write:
            ours = covers[device[covers] == still.get(at, "")]
            # What ended first is what the others came behind.
            one, rare = (int(ours[np.argmin(end[ours])]) if len(ours) else -1), True
        elif len(covers) == 1:
            one = int(covers[0])
            as_long = int(((device == device[one]) & (took >= least_ns)).sum())
            rare = as_long <= REQUESTS_RARE_MAX * total[device[one]]
        else:
            # Several at once may each be what it slept for; the completion of one of them woke it.
            one = _completed_at(end[covers], woke)
            one, rare = (
                (int(covers[one]) if one >= 0 else -1),
                len(covers) * WOKE_NS <= REQUESTS_RARE_MAX * lost_ns[at],
            )
        if one >= 0 and rare:
            held = (min(float(data[name][one]), float(inside[one])) for name in ("queue_ns", "device_ns"))
            found[at] = Request(str(data["op"][one]), str(data["comm"][one]), device[one], *held)
    return found


def _stood_still(case: Case, at: Ints, begin_ns: Ints, end_ns: Ints, lost_ns: Floats) -> dict[int, str]:
    """For each of these times the device that completed nothing for nearly as long as was lost, with requests under way; where it is one."""
    if not len(at):
        return {}
    times = ", ".join(
        f"({number}, {begin_ns[number]}, {end_ns[number]}, {int(COVERS_MIN * lost_ns[number])})"
        for number in at.tolist()
    )
    rows = case.rows(
        f"""WITH e(n, low_ns, high_ns, least_ns) AS (VALUES {times}),
r AS (SELECT n, low_ns, high_ns, least_ns, device, start_ns, start_ns + latency_ns AS end_ns
  FROM e JOIN block_ops ON start_ns < high_ns AND start_ns + latency_ns > low_ns WHERE NOT open AND device IS NOT NULL AND {without_volumes_sql(case)}),
still AS (SELECT n, device, least_ns, least(end_ns, high_ns) - greatest(coalesce(lag(end_ns) OVER (PARTITION BY n, device ORDER BY end_ns), 0), start_ns, low_ns) AS still_ns FROM r)
SELECT n, min(device) AS device FROM still WHERE still_ns >= least_ns GROUP BY 1 HAVING count(DISTINCT device) = 1"""
    )
    return {int(row["n"] or 0): str(row["device"]) for row in rows}


def _woke(begin_ns: Ints, end_ns: Ints, sleeps: Sleeps) -> Ints:
    """When a thread was woken from the sleep that took most of each of these times, ns."""
    first = np.searchsorted(np.maximum.accumulate(sleeps.end_ns), begin_ns, side="right")
    last = np.searchsorted(sleeps.begin_ns, end_ns, side="left")
    woke = np.zeros(len(begin_ns), np.int64)
    for number in np.flatnonzero(last > first):
        inside = slice(int(first[number]), int(last[number]))
        most = np.argmax(
            np.minimum(end_ns[number], sleeps.end_ns[inside])
            - np.maximum(begin_ns[number], sleeps.begin_ns[inside])
        )
        woke[number] = sleeps.end_ns[inside][most]
    return woke


def _completed_at(end_ns: Ints, woke_ns: int) -> int:
    """Which of these requests completed just before that moment, if none of the others completed around it; -1: none, or several may be meant."""
    near = np.flatnonzero(np.abs(end_ns - woke_ns) <= WOKE_NS)
    return int(near[0]) if len(near) == 1 and end_ns[near[0]] <= woke_ns else -1


def _long_sql(case: Case, least_ns: int) -> str:
    """Requests to devices at the bottom that took so long."""
    return f"""SELECT device, start_ns AS begin_ns, start_ns + latency_ns AS end_ns, coalesce(queue_ns, 0) AS queue_ns, coalesce(device_ns, 0) AS device_ns,
  op, coalesce(comm, '') AS comm
FROM block_ops WHERE NOT open AND device IS NOT NULL AND latency_ns >= {max(1, least_ns)} AND {without_volumes_sql(case)} ORDER BY 2, 3"""
