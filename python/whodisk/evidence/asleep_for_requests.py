"""Calls that slept in the file system for I/O while one request was under way: that request's stages are where they were held.

A page may be read, or written, for somebody else: by readahead, by writeback, by the journal. No link of the call leads to such a request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.room import FOR_IO
from whodisk.evidence.sleeps import of_threads
from whodisk.evidence.thresholds import ASLEEP_OPERATIONS_MAX, COVERS_MIN, EXPLAINED_PART, REQUESTS_RARE_MAX
from whodisk.reading.views import Case, without_volumes_sql
from whodisk.statistics.stats import Floats, Ints, overlap


@dataclass(frozen=True)
class Request:
    """The request that a call slept for, and how long of that sleep it was queued, and at its device, ns."""

    device: str
    queue_ns: float
    device_ns: float


def slept_for(case: Case, tid: Ints, begin_ns: Ints, end_ns: Ints, lost_ns: Floats) -> dict[int, Request]:
    """For each of these calls that slept for I/O the request that was under way for nearly all that it lost (`lost_ns`), where there is but one, and those of its
    device are rarely that long. Of many calls the `ASLEEP_OPERATIONS_MAX` that lost most are looked at."""
    found: dict[int, Request] = {}
    if "block" not in case.layers or not len(tid):
        return found
    chosen = np.argsort(-lost_ns, kind="stable")[:ASLEEP_OPERATIONS_MAX]
    slept = np.zeros(len(chosen))
    for mine, sleeps in of_threads(case, tid[chosen], begin_ns[chosen], end_ns[chosen], FOR_IO):
        slept[mine] = overlap(begin_ns[chosen][mine], end_ns[chosen][mine], sleeps.begin_ns, sleeps.end_ns)
    chosen = chosen[(slept > 0) & (slept >= EXPLAINED_PART * lost_ns[chosen])]
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
    for at in chosen.tolist():
        least_ns = COVERS_MIN * lost_ns[at]
        inside = np.minimum(end, end_ns[at]) - np.maximum(begin, begin_ns[at])
        covers = np.flatnonzero(inside >= least_ns)
        # Several at once may each be what it slept for.
        if len(covers) != 1:
            continue
        one = int(covers[0])
        as_long = int(((device == device[one]) & (took >= least_ns)).sum())
        if as_long <= REQUESTS_RARE_MAX * total[device[one]]:
            held = (min(float(data[name][one]), float(inside[one])) for name in ("queue_ns", "device_ns"))
            found[at] = Request(device[one], *held)
    return found


def _long_sql(case: Case, least_ns: int) -> str:
    """Requests to devices at the bottom that took so long."""
    return f"""SELECT device, start_ns AS begin_ns, start_ns + latency_ns AS end_ns, coalesce(queue_ns, 0) AS queue_ns, coalesce(device_ns, 0) AS device_ns
FROM block_ops WHERE NOT open AND device IS NOT NULL AND latency_ns >= {max(1, least_ns)} AND {without_volumes_sql(case)} ORDER BY 2, 3"""
