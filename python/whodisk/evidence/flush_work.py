"""Flushes as requests of a kind of their own: how long each took, and how much was written to its device since the one before it.

How long a flush takes depends on that: only flushes after about as much (the same power of two of bytes) are compared with each other.
"""

from __future__ import annotations

from whodisk.evidence.survey import Survey
from whodisk.reading.views import Case

#: Writes count where they end, a flush where it is given to the device: what ended before is what it makes durable. Carriers count with their own data.
_VIEW = """SELECT op_id, start_ns, device_ns, device, queue_depth, CAST(written_bytes AS DOUBLE) AS written_bytes, CAST(writes AS DOUBLE) AS writes FROM (
  SELECT *, bytes - lag(bytes) OVER one_by_one AS written_bytes, number - lag(number) OVER one_by_one AS writes FROM (
    SELECT *, sum(moved) OVER in_order AS bytes, sum(CAST(moved > 0 AS INTEGER)) OVER in_order AS number FROM (
      SELECT op_id, op, start_ns, device_ns, device, queue_depth, CASE op WHEN 'write' THEN coalesce(size_bytes, 0) ELSE 0 END AS moved,
        CASE op WHEN 'flush' THEN start_ns + coalesce(queue_ns, 0) ELSE start_ns + latency_ns END AS at_ns
      FROM block_ops WHERE NOT open AND op IN ('write', 'flush') AND device IN (SELECT DISTINCT device FROM block_ops WHERE op = 'flush'))
    WINDOW in_order AS (PARTITION BY device ORDER BY at_ns, op_id))
  WHERE op = 'flush' WINDOW one_by_one AS (PARTITION BY device ORDER BY at_ns, op_id))
WHERE written_bytes IS NOT NULL AND device_ns IS NOT NULL"""


def flushes_of(case: Case, survey: Survey) -> str:
    """What a query selects from: flushes of the measured time that have one before them (op_id, start_ns, device_ns, device, queue_depth, and since that one
    written_bytes and how many writes)."""
    if "flush_work" not in case.views:
        case.add_view("flush_work", _VIEW)
    return f"(SELECT * FROM flush_work WHERE start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns})"
