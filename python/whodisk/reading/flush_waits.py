"""SQL about flush commands: who waited behind which, and which rows are commands that a device was given.

A write that asks for a flush is a carrier (docs/reference/case-format.md, Flags): the flush commands that serve it have rows of their
own. The commands it was issued show what a device did, so carriers are no requests of a device; and who waits in the queue until an
earlier flush command is done, waits for the device that takes its time over it.
"""

from __future__ import annotations

from whodisk.reading.thresholds import BEHIND_PART_MIN

#: Flag of a carrier at layer block, of what waited for one at the layers above (crates/case/src/schema.rs, flags).
FLUSH = 1 << 10
#: Flag of a request that a thread of the kernel submitted.
KERNEL = 1 << 11

#: SQL: a row is a command that a device was given, or a bio of a volume; no carrier.
IS_ISSUED = f"coalesce(flags, 0) & {FLUSH} = 0"


def behind_sql(layers: tuple[str, ...]) -> str:
    """(op_id, behind_ns): operations of `layers` above the block layer that waited behind flush commands for half of their time in
    the queue or more, and how long flush commands that did not serve them were at the device meanwhile, ns.

    An operation waits behind a flush command if a carrier that it waits for does. Two of its carriers that wait
    behind the same one do so once.
    """
    above = "\nUNION ALL\n".join(
        f"SELECT op_id, start_ns, latency_ns, queue_ns FROM {layer}_ops" for layer in layers
    )
    return f"""SELECT op_id, CAST(least(sum(overlap_ns), any_value(queue_ns)) AS BIGINT) AS behind_ns FROM (
  SELECT o.op_id, any_value(o.queue_ns) AS queue_ns, b.child_id, max(
      least(o.start_ns + o.latency_ns, c.start_ns + c.latency_ns, f.start_ns + coalesce(f.queue_ns, 0) + coalesce(f.device_ns, 0))
      - greatest(o.start_ns, c.start_ns, f.start_ns + coalesce(f.queue_ns, 0))) AS overlap_ns
  FROM links AS b JOIN block_ops AS c ON c.op_id = b.parent_id JOIN block_ops AS f ON f.op_id = b.child_id
    JOIN links AS w ON w.child_id = b.parent_id AND w.kind <> 'queued_behind'
    JOIN ({above}) AS o ON o.op_id = w.parent_id
  WHERE b.kind = 'queued_behind' GROUP BY o.op_id, b.child_id)
WHERE overlap_ns > 0 GROUP BY op_id HAVING sum(overlap_ns) >= {BEHIND_PART_MIN} * any_value(queue_ns) AND any_value(queue_ns) > 0"""


#: What the columns of `judged` say of such an operation: its wait was the device's.
QUEUE_BEHIND_IS_DEVICE = {
    "queue_ns": "CASE WHEN op_id IN (SELECT op_id FROM behind_flushes) THEN 0 ELSE {queue_ns} END",
    "device_ns": "CASE WHEN op_id IN (SELECT op_id FROM behind_flushes) THEN coalesce(device_ns, 0) + coalesce({queue_ns}, 0) "
    "ELSE device_ns END",
}

#: The same view where nobody waited behind one, or nobody knows.
NOBODY_BEHIND = "SELECT CAST(NULL AS BIGINT) AS op_id, CAST(NULL AS BIGINT) AS behind_ns WHERE FALSE"
