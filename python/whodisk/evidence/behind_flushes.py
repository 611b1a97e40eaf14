"""How long operations waited while a device worked on flush commands: those that served them, and those that they waited behind.

A flush command is a row of its own at layer block (docs/reference/case-format.md, Flags). Who waits for it is linked to it: directly, through
the write that carried the flush, or, of a write that came too late for it, by `queued_behind`.
"""

from __future__ import annotations

import numpy as np

from whodisk.evidence.links import below_sql
from whodisk.evidence.thresholds import FLUSH_LOOKED_UP_MAX
from whodisk.reading.views import Case
from whodisk.statistics.stats import Floats, Ints


def in_flushes_ns(case: Case, op_ids: Ints) -> Floats:
    """For each operation the time, ns, in which a flush command that it waited for was at the device, 0 where there was none
    or nobody knows; NaN beyond the first `FLUSH_LOOKED_UP_MAX`. Flush commands of several queues count each for itself, up to the operation's latency.
    """
    found = np.full(len(op_ids), np.nan)
    found[:FLUSH_LOOKED_UP_MAX] = 0.0
    if not case.carriers or not len(op_ids):
        return found
    data = case.arrays(flushes_sql(op_ids[:FLUSH_LOOKED_UP_MAX]))
    time_ns = dict(zip(data["op_id"].tolist(), data["flush_ns"].tolist(), strict=True))
    found[:FLUSH_LOOKED_UP_MAX] = [
        float(time_ns.get(number, 0.0)) for number in op_ids[:FLUSH_LOOKED_UP_MAX].tolist()
    ]
    return found


def flushes_sql(op_ids: Ints) -> str:
    """(op_id, flushes, flush_ns): the flush commands below operations, and their time at the device within those."""
    return f"""SELECT op_id, count(*) AS flushes, least(sum(flush_ns), any_value(latency_ns)) AS flush_ns FROM (
  SELECT DISTINCT o.op_id, o.latency_ns, f.op_id AS flush_id, greatest(0,
    least(o.start_ns + o.latency_ns, f.start_ns + coalesce(f.queue_ns, 0) + coalesce(f.device_ns, 0))
    - greatest(o.start_ns, f.start_ns + coalesce(f.queue_ns, 0))) AS flush_ns
  FROM ({below_sql(op_ids)}) AS p JOIN block_ops AS f ON f.op_id = p.child_id AND f.op = 'flush'
    JOIN ops AS o ON o.op_id = p.op_id)
GROUP BY op_id ORDER BY op_id"""
