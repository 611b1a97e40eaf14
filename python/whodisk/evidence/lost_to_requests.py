"""What judged operations lost to requests that they waited for, however many layers down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.context import Context
from whodisk.evidence.links import above_sql
from whodisk.statistics.stats import Bools, Floats, Ints, disjoint, moved_quantile


@dataclass(frozen=True)
class Lost:
    """Judged operations that waited for such requests, an element each."""

    op_id: Ints
    op: npt.NDArray[Any]
    latency_ns: Floats
    #: Time by which the requests prolonged it, ns; what overlaps counts once.
    lost_ns: Floats
    #: The largest `label` of its requests.
    label: Ints
    #: Operations that each of them stands for.
    weight: float


def lost_to_requests(
    context: Context, request_id: Ints, end_ns: Ints | Floats, excess_ns: Floats, label: Ints, weight: float
) -> Lost:
    """What each judged operation lost to these requests: when they ended, and the last part of each, ns, that it should not have taken."""
    data = context.case.arrays(waiting_sql(context, request_id))
    order = np.argsort(request_id)
    at = order[np.searchsorted(request_id[order], data["request_id"].astype(np.int64))]
    op_id, first, index = np.unique(data["op_id"].astype(np.int64), return_index=True, return_inverse=True)
    start = data["start_ns"].astype(np.float64)
    end = start + data["latency_ns"].astype(np.float64)
    request_end = end_ns[at].astype(np.float64)
    excess = np.maximum(0.0, excess_ns)[at]
    begin = np.maximum(start, request_end - excess)
    until = np.maximum(begin, np.minimum(end, request_end))
    # Operations are laid out one behind the other, so that only what overlaps within one counts once.
    latency = (end - start)[first]
    base = (np.cumsum(latency) - latency)[index] - start
    order = np.argsort(begin + base, kind="stable")
    low, high = disjoint((begin + base)[order], (until + base)[order])
    lost = np.bincount(index[order], np.maximum(0.0, high - low), minlength=len(op_id))
    last = np.zeros(len(op_id), np.int64)
    np.maximum.at(last, index, label[at])
    # A buffered write has requests that begin when it is over: it did not wait for them.
    waited = lost > 0
    return Lost(
        op_id[waited],
        data["op"][first][waited].astype(str),
        latency[waited],
        lost[waited].astype(np.float64),
        last[waited],
        weight,
    )


def p99_without(context: Context, lost: Lost, chosen: Bools) -> tuple[float, float]:
    """The 99th percentile of the judged operations, and what it would be had the chosen ones not lost that time, ns."""
    latency = context.sorted_latency_ns
    each = lost.weight * len(latency) / max(1.0, context.survey.operations)
    late = lost.latency_ns[chosen]
    moved = np.maximum(1.0, late - lost.lost_ns[chosen])
    return float(np.quantile(latency, 0.99)), max(1.0, moved_quantile(latency, late, moved, each, 0.99))


def waiting_sql(context: Context, request_ids: Ints) -> str:
    """(request_id, op_id, op, start_ns, latency_ns): the judged operations that waited for these requests."""
    return f"""SELECT DISTINCT p.child_id AS request_id, m.op_id, m.op, m.start_ns, m.latency_ns
FROM ({above_sql(request_ids)}) AS p JOIN measured AS m ON m.op_id = p.op_id
WHERE m.layer = '{context.layer}' ORDER BY 2, 1"""
