"""Operations that waited for a request which a volume held by itself: it had it, and nothing was in flight in any device that it is made of.

A volume that is suspended holds what comes until it is resumed; one that encrypts, or delays, holds each request for a while. Links lead to such a request from whoever waits
for it, also through the journal's thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.links import below_sql
from whodisk.evidence.thresholds import VOLUME_OPERATIONS_MAX
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Ints, disjoint, overlap


@dataclass(frozen=True)
class Held:
    """The volume that held most of an operation's time by itself."""

    volume: str
    #: Devices that it is made of.
    members: tuple[str, ...]
    #: How long, ns.
    held_ns: float


def members_of(case: Case) -> dict[str, set[str]]:
    """Volume -> the devices that it is made of; of volumes of which requests are known that went on to one. The system may name more of them."""
    rows = case.rows(
        """SELECT DISTINCT p.device AS volume, c.device AS member FROM links AS l JOIN block_ops AS p ON p.op_id = l.parent_id
JOIN block_ops AS c ON c.op_id = l.child_id WHERE l.kind = 'stacked' AND p.device <> c.device ORDER BY 1, 2"""
    )
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(str(row["volume"]), set()).add(str(row["member"]))
    devices = case.system.get("devices") or {}
    for volume, members in found.items():
        facts = (devices.get(volume) or {}).get("facts") or {}
        members.update(str(facts.get("members") or "").split())
    return found


def held_in_volumes(case: Case, op_ids: Ints) -> dict[int, Held]:
    """For each of these operations the volume that held it longest by itself, if one did; of many the first `VOLUME_OPERATIONS_MAX` are looked at."""
    members = members_of(case) if "links" in case.columns and "block" in case.layers else {}
    if not members or not len(op_ids):
        return {}
    names = ", ".join(map(quoted, sorted(members)))
    # Several requests of one operation may be held at once.
    data = case.arrays(
        f"""SELECT DISTINCT p.op_id, b.device, b.op_id AS request_id, greatest(b.start_ns, o.start_ns) AS begin_ns,
  least(b.start_ns + b.latency_ns, o.start_ns + o.latency_ns) AS end_ns
FROM ({below_sql(op_ids[:VOLUME_OPERATIONS_MAX])}) AS p JOIN block_ops AS b ON b.op_id = p.child_id JOIN ops AS o ON o.op_id = p.op_id
WHERE b.device IN ({names}) AND b.start_ns < o.start_ns + o.latency_ns AND b.start_ns + b.latency_ns > o.start_ns ORDER BY 1, 2, 3"""
    )
    op_id, device = data["op_id"].astype(np.int64), data["device"].astype(str)
    begin, end = data["begin_ns"].astype(np.int64), data["end_ns"].astype(np.int64)
    found: dict[int, Held] = {}
    for volume in np.unique(device).tolist():
        mine = np.flatnonzero(device == volume)
        below = _in_flight(case, members[volume], int(begin[mine].min()), int(end[mine].max()))
        for operation in np.unique(op_id[mine]).tolist():
            low, high = disjoint(*(times[mine][op_id[mine] == operation] for times in (begin, end)))
            held_ns = float(((high - low) - overlap(low, high, *below)).sum())
            if held_ns > 0 and (operation not in found or held_ns > found[operation].held_ns):
                found[operation] = Held(volume, tuple(sorted(members[volume])), held_ns)
    return found


def _in_flight(case: Case, devices: set[str], low_ns: int, high_ns: int) -> tuple[Ints, Ints]:
    """Begin and end of the requests of these devices around then; of one without an end, all that follows."""
    data = case.arrays(
        f"""SELECT start_ns AS begin_ns, CASE WHEN open THEN {high_ns} ELSE start_ns + latency_ns END AS end_ns FROM block_ops
WHERE device IN ({", ".join(map(quoted, sorted(devices))) or "NULL"}) AND start_ns < {high_ns} AND (open OR start_ns + latency_ns > {low_ns}) ORDER BY 1, 2"""
    )
    begin, end = data["begin_ns"].astype(np.int64), data["end_ns"].astype(np.int64)
    return begin, np.maximum(begin, end)
