"""Operations that are due at times of their own, played again without what some of them lost.

Where a request was late, those that fell due meanwhile waited for its slot, and those after them for theirs, until the backlog was worked off. What a
fault costs is what nobody would have waited for without it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import APP
from whodisk.evidence.thresholds import REPLAY_OPERATIONS_MAX
from whodisk.statistics.stats import Floats, Ints


@dataclass(frozen=True)
class Replay:
    """The judged operations in order of their begin, ns."""

    start_ns: Ints
    latency_ns: Ints
    #: What each would have taken less: by itself, and because of those before it.
    lost_ns: Floats


def replayed(context: Context, each_sql: str) -> Replay | None:
    """The judged operations without a loss; None where no moments are known at which they were due, or where they are too many.

    `each_sql`: the begin of a query with a table `each` (op_id, lost_ns).
    """
    survey = context.survey
    due = context.layer == "app" and context.keeps_rate and not context.case.counts_from_submit
    if not due or not any(stratum.stage_ns[APP] > 0 for stratum in survey.strata):
        return None
    # Of a sample nobody knows who waited for whom.
    if survey.operations > REPLAY_OPERATIONS_MAX or survey.seen < survey.operations:
        return None
    found = context.case.arrays(
        f"""{each_sql} SELECT coalesce(m.tid, 0) AS tid, m.start_ns, coalesce(m.app_ns, 0) AS app_ns, m.latency_ns, coalesce(e.lost_ns, 0) AS lost_ns
FROM measured AS m LEFT JOIN each AS e ON e.op_id = m.op_id WHERE m.layer = 'app' ORDER BY m.start_ns, m.op_id"""
    )
    tid, start, app, latency = (
        found[name].astype(np.int64) for name in ("tid", "start_ns", "app_ns", "latency_ns")
    )
    lost = np.minimum(found["lost_ns"].astype(np.float64), (latency - app).astype(np.float64))
    less = np.zeros(len(start))
    for thread in np.unique(tid):
        mine = np.flatnonzero(tid == thread)
        mine = mine[np.argsort(start[mine] + app[mine], kind="stable")]
        served = (latency - app)[mine].astype(np.float64)
        slots = _slots((start + app)[mine], (start + latency)[mine])
        ends = _ends(start[mine].tolist(), served.tolist(), slots)
        less[mine] = ends - _ends(start[mine].tolist(), (served - lost[mine]).tolist(), slots)
    return Replay(start, latency, np.clip(less, 0.0, latency.astype(np.float64)))


def _slots(begin: Ints, end: Ints) -> int:
    """Operations that were in flight at most; `begin` in order."""
    return int((np.arange(1, len(begin) + 1) - np.searchsorted(np.sort(end), begin, side="right")).max())


def _ends(due_ns: list[int], served_ns: list[float], slots: int) -> Floats:
    """When each operation ends that begins as soon as it is due and a slot is free, in this order."""
    busy: list[float] = []
    ends = []
    for due, served in zip(due_ns, served_ns, strict=True):
        begin = float(due) if len(busy) < slots else max(float(due), heapq.heappop(busy))
        ends.append(begin + served)
        heapq.heappush(busy, begin + served)
    return np.array(ends)
