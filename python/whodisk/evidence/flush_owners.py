"""Whose work a flush command is: it has no program, and makes durable what was written before it.

A backup writes 24 MiB and syncs: that takes the device half a second, most of it in the flush. Whoever wrote most of what ended on a device since the flush before, it
is that one's flush, however many others wait for it, too.
"""

from __future__ import annotations

from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.thresholds import ASLEEP_REQUESTS_MAX, FLUSH_OWNER_MIN
from whodisk.reading.views import quoted


def flushes_of_others(context: Context) -> str:
    """A view of the flush commands that make mostly another program's data durable (op_id, device, start_ns, end_ns, comm, size_bytes of these data); empty where there
    are too many requests to ask."""
    name = "flushes_of_others"
    if name not in context.case.views:
        block = context.surveys["block"]
        few = block.operations <= ASLEEP_REQUESTS_MAX and bool(block.select(op="flush"))
        context.case.add_view(name, _owners_sql(context) if few else _NONE)
    return name


def written_before_flushes(context: Context, device: str, comm: str, thirds: list[str]) -> str:
    """What a query selects from: flush commands of a device (op_id), what this program wrote of what ended since the one before it (`its_bytes`), what others did
    (`other_bytes`), and the most that one of `thirds` did (`third_bytes`)."""
    listed = ", ".join(map(quoted, thirds)) or "NULL"
    return f"""(WITH {_written_sql(context, quoted(device), "start_ns + coalesce(queue_ns, 0)")}
SELECT f.op_id, coalesce(sum(w.size_bytes) FILTER (w.program = {quoted(comm)}), 0) AS its_bytes, coalesce(sum(w.size_bytes) FILTER (w.program <> {quoted(comm)}), 0) AS other_bytes,
  coalesce(max(w.size_bytes) FILTER (w.program IN ({listed})), 0) AS third_bytes
FROM numbered AS f LEFT JOIN written AS w ON w.device = f.device AND w.number = f.number WHERE f.op = 'flush' GROUP BY 1)"""


#: Such a view without rows.
_NONE = """SELECT CAST(NULL AS BIGINT) AS op_id, CAST(NULL AS VARCHAR) AS device, CAST(NULL AS BIGINT) AS start_ns, CAST(NULL AS BIGINT) AS end_ns,
  CAST(NULL AS VARCHAR) AS comm, CAST(NULL AS BIGINT) AS size_bytes WHERE false"""


def _owners_sql(context: Context) -> str:
    return f"""WITH {_written_sql(context, "SELECT DISTINCT device FROM block_ops WHERE op = 'flush'", "start_ns")}
SELECT f.op_id, f.device, f.start_ns, f.end_ns, w.program AS comm, CAST(w.size_bytes AS BIGINT) AS size_bytes
FROM numbered AS f JOIN written AS w ON w.device = f.device AND w.number = f.number
WHERE f.op = 'flush' AND w.size_bytes > {FLUSH_OWNER_MIN} * w.all_bytes AND w.program <> '' AND w.program NOT IN ({own_sql(context)})"""


def _written_sql(context: Context, devices: str, flush_ns: str) -> str:
    """Tables for `WITH`: flushes and writes of these devices with how many flushes came before each (`numbered`; a flush counts from `flush_ns` on, a write from its end), and what each
    program wrote between two of them (`written`)."""
    return f"""seen AS (SELECT op_id, op, device, start_ns, start_ns + latency_ns AS end_ns, CASE WHEN op = 'write' THEN coalesce(size_bytes, 0) ELSE 0 END AS size_bytes,
    CASE WHEN op = 'write' THEN coalesce({program_sql(context)}, '') END AS program, CASE WHEN op = 'flush' THEN {flush_ns} ELSE start_ns + latency_ns END AS at_ns
  FROM block_ops WHERE NOT open AND op IN ('write', 'flush') AND device IN ({devices})),
numbered AS (SELECT *, count(*) FILTER (op = 'flush') OVER (PARTITION BY device ORDER BY at_ns, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS number FROM seen),
written AS (SELECT device, number, program, sum(size_bytes) AS size_bytes, sum(sum(size_bytes)) OVER (PARTITION BY device, number) AS all_bytes
  FROM numbered WHERE op = 'write' GROUP BY 1, 2, 3)"""
