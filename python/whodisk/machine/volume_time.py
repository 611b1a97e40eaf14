"""Time that requests spend in volumes themselves: encryption, checksums, copies for a snapshot, parity, a delay; not in the devices below.

At layer `block` a volume's own part is the stage `fs` of its rows; to the operations above it is above their requests, as a file system's is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.evidence.in_flight import in_flight
from whodisk.evidence.links import below_sql
from whodisk.evidence.thresholds import ASLEEP_REQUESTS_MAX, VOLUME_ALONE_MIN, VOLUME_OPERATIONS_MAX
from whodisk.machine.volumes import volumes_of
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Ints, overlap


@dataclass(frozen=True)
class VolumeTime:
    """The volume with most time of its own, and its part of that of the operations above it."""

    volume: str
    part: float
    #: Devices below it.
    members: tuple[str, ...]
    #: Part of its own time in which none of them had a request in flight.
    alone: float

    @property
    def said(self) -> str:
        """Where that time passes: in the volume, or in requests that it makes besides those of who waits."""
        below = words.listed(list(self.members)) or "what lies below it"
        if self.alone >= VOLUME_ALONE_MIN:
            return f"the volume {self.volume} itself, not in {below}"
        return f"the volume {self.volume}, while {below} had requests in flight that are not tied to these (parity, copies)"


def _volumes(context: Context) -> str:
    if "fs_ns" not in context.case.columns.get("ops/block", ()):
        return ""
    return ", ".join(map(quoted, sorted(volumes_of(context.case))))


def in_volumes(context: Context, op_ids: Ints) -> VolumeTime | None:
    """Of some operations; None where no volume is known to have taken part."""
    names, ids = _volumes(context), op_ids[:VOLUME_OPERATIONS_MAX]
    if not names or not len(ids):
        return None
    listed = ", ".join(str(op) for op in ids.tolist())
    return _most(
        context,
        f"""SELECT b.device, sum(least(b.fs_ns, o.latency_ns)) AS own_ns FROM ({below_sql(ids)}) AS p
JOIN block_ops AS b ON b.op_id = p.child_id JOIN ops AS o ON o.op_id = p.op_id WHERE b.device IN ({names}) AND b.fs_ns IS NOT NULL GROUP BY 1""",
        f"SELECT sum(latency_ns) AS all_ns FROM ops WHERE op_id IN ({listed})",
    )


def in_all_volumes(context: Context, ops: tuple[str, ...]) -> VolumeTime | None:
    """Of all judged operations of these kinds."""
    names = _volumes(context)
    if not names:
        return None
    kinds = ", ".join(map(quoted, ops))
    return _most(
        context,
        f"""SELECT b.device, sum(least(b.fs_ns, coalesce(m.fs_ns, b.fs_ns))) AS own_ns FROM links JOIN measured AS m ON m.op_id = links.parent_id JOIN block_ops AS b ON b.op_id = links.child_id
WHERE m.layer = '{context.layer}' AND m.op IN ({kinds}) AND b.device IN ({names}) AND b.fs_ns IS NOT NULL GROUP BY 1""",
        f"SELECT sum(latency_ns) AS all_ns FROM measured WHERE layer = '{context.layer}' AND op IN ({kinds})",
    )


def _most(context: Context, by_volume: str, whole: str) -> VolumeTime | None:
    rows = context.case.rows(
        f"SELECT device, own_ns FROM ({by_volume}) AS own ORDER BY own_ns DESC, device LIMIT 1"
    )
    all_ns = float(context.case.rows(whole)[0]["all_ns"] or 0)
    if not rows or all_ns <= 0:
        return None
    volume = str(rows[0]["device"])
    members = context.case.rows(
        f"""SELECT c.device FROM links AS l JOIN block_ops AS p ON p.op_id = l.parent_id JOIN block_ops AS c ON c.op_id = l.child_id
WHERE l.kind = 'stacked' AND p.device = {quoted(volume)} GROUP BY 1 ORDER BY 1"""
    )
    below = tuple(str(row["device"]) for row in members)
    part = min(1.0, float(rows[0]["own_ns"] or 0) / all_ns)
    return VolumeTime(volume, part, below, _alone(context, volume, below))


def _alone(context: Context, volume: str, members: tuple[str, ...]) -> float:
    """Part of a volume's own time in which no request of a member was in flight; 1 where the requests are too many to tell."""
    block = context.surveys.get("block")
    if not members or block is None or block.operations > ASLEEP_REQUESTS_MAX:
        return 1.0
    own = context.case.arrays(
        f"SELECT start_ns, start_ns + latency_ns AS end_ns, fs_ns FROM block_ops WHERE device = {quoted(volume)} AND NOT open AND fs_ns IS NOT NULL ORDER BY 1, 2"
    )
    begin, end = (own[name].astype(np.int64) for name in ("start_ns", "end_ns"))
    apart = np.maximum(0.0, (end - begin) - overlap(begin, end, *in_flight(context, *members)))
    own_ns = own["fs_ns"].astype(np.float64)
    return float(np.minimum(apart, own_ns).sum()) / max(1.0, float(own_ns.sum()))
