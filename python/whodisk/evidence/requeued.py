"""Requests that their driver took and gave back: events `requeue`, one for each request that was, with how often.

A full queue makes them, and so does a device that says it is busy, or fails a request in a way that is tried again without an error. Whose doing it is they do not tell; where
the time went they do: until it is given again such a request waits in its queue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.links import below_sql
from whodisk.evidence.thresholds import REQUEUE_NOTED_NS
from whodisk.statistics.stats import Ints


@dataclass(frozen=True)
class Requeued:
    """Of some operations, those with requests that were given back."""

    part: float
    #: How often, of the median one.
    times: int


def requeued(context: Context, op_ids: Ints) -> Requeued | None:
    """None where none of them was, or where events or requests do not tell."""
    case = context.case
    needed = {"offset_bytes", "device", "latency_ns"}
    if (
        not len(op_ids)
        or "events" not in case.columns
        or not needed <= set(case.columns.get("ops/block", ()))
    ):
        return None
    if not case.rows("SELECT 1 AS n FROM events WHERE kind = 'requeue' LIMIT 1"):
        return None
    ids = ", ".join(str(op) for op in op_ids.tolist())
    own = f"SELECT op_id, op_id AS child_id FROM block_ops WHERE op_id IN ({ids})"
    reached = (
        f"{own} UNION SELECT op_id, child_id FROM ({below_sql(op_ids)})" if "links" in case.columns else own
    )
    found = case.arrays(
        f"""SELECT reached.op_id, max(e.times) AS times FROM ({reached}) AS reached JOIN block_ops AS b ON b.op_id = reached.child_id
JOIN (SELECT subject, time_ns, 512 * TRY_CAST(regexp_extract(detail, 'at sector ([0-9]+)', 1) AS BIGINT) AS offset_bytes,
    TRY_CAST(regexp_extract(detail, ': ([0-9]+) times', 1) AS BIGINT) AS times FROM events WHERE kind = 'requeue') AS e
  ON e.subject = b.device AND e.offset_bytes = b.offset_bytes
WHERE e.time_ns BETWEEN b.start_ns AND b.start_ns + b.latency_ns + {REQUEUE_NOTED_NS} GROUP BY 1 ORDER BY 1"""
    )
    if not len(found["op_id"]):
        return None
    return Requeued(len(found["op_id"]) / len(op_ids), int(np.median(found["times"].astype(np.float64))))
