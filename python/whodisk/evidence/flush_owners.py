"""Whose work a flush command is: it has no program, and makes durable what was written before it.

A backup writes 24 MiB and syncs: that takes the device half a second, most of it in the flush. Whoever wrote most of what ended on a device since the flush before, it
is that one's flush, however many others wait for it, too.
"""

from __future__ import annotations

from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.thresholds import FLUSH_OWNER_MIN
from whodisk.reading.views import quoted


def flushes_of_others_sql(context: Context, devices: list[str]) -> str:
    """SQL: flush commands of these devices that make mostly another program's data durable (op_id, start_ns, end_ns, comm, size_bytes of these data)."""
    names = ", ".join(quoted(device) for device in devices) or "NULL"
    return f"""WITH seen AS (SELECT op_id, op, device, start_ns, start_ns + latency_ns AS end_ns, CASE WHEN op = 'write' THEN coalesce(size_bytes, 0) ELSE 0 END AS size_bytes,
    CASE WHEN op = 'write' THEN coalesce({program_sql(context)}, '') END AS program, CASE WHEN op = 'flush' THEN start_ns ELSE start_ns + latency_ns END AS at_ns
  FROM block_ops WHERE NOT open AND op IN ('write', 'flush') AND device IN ({names})),
numbered AS (SELECT *, count(*) FILTER (op = 'flush') OVER (PARTITION BY device ORDER BY at_ns, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS number FROM seen),
written AS (SELECT device, number, program, sum(size_bytes) AS size_bytes, sum(sum(size_bytes)) OVER (PARTITION BY device, number) AS all_bytes
  FROM numbered WHERE op = 'write' GROUP BY 1, 2, 3)
SELECT f.op_id, f.start_ns, f.end_ns, w.program AS comm, w.size_bytes FROM numbered AS f JOIN written AS w ON w.device = f.device AND w.number = f.number
WHERE f.op = 'flush' AND w.size_bytes > {FLUSH_OWNER_MIN} * w.all_bytes AND w.program <> '' AND w.program NOT IN ({own_sql(context)})"""
