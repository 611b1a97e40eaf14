"""A disk with one arm serves one request after the other: how long each of them took it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whodisk.evidence.commit_askers import for_askers
from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.thresholds import SERVICE_REQUESTS_MAX
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Floats, Ints, overlap


@dataclass(frozen=True)
class Served:
    """Requests of one disk, whoever made them, in the order in which it served them."""

    device: str
    op_id: Ints
    #: Empty: not known.
    comm: npt.NDArray[np.str_]
    #: The judged program made it.
    own: Bools
    #: "read", "write", "flush", ...: a flush has no place, and the arm is busy with it.
    op: npt.NDArray[np.str_]
    start_ns: Ints
    end_ns: Ints
    #: It lies behind the one served before it.
    follows: Bools
    #: From the end of the one served before it that has a place to its begin, bytes, either way; 0 for a flush.
    distance_bytes: Ints
    #: How long the disk took for it alone.
    service_ns: Floats

    def places(self, op_ids: Ints) -> Ints:
        """Where these requests stand here."""
        order = np.argsort(self.op_id)
        return np.asarray(order[np.searchsorted(self.op_id, op_ids, sorter=order)], np.int64)

    def guests_ns(self, start_ns: Ints, end_ns: Ints) -> Floats:
        """How long, in each of these times, the disk served requests that the judged program did not make."""
        guest = ~self.own
        return overlap(start_ns, end_ns, (self.end_ns - self.service_ns)[guest], self.end_ns[guest])


def requests_sql(context: Context, device: str) -> str:
    """The requests to a disk, and whether the judged program made them."""
    return f"""SELECT op_id, coalesce(who, '') AS comm, coalesce(who IN ({own_sql(context)}), false) AS own, op, start_ns, latency_ns, offset_bytes, size_bytes
FROM (SELECT *, {program_sql(context)} AS who FROM block_ops) AS requests WHERE device = {quoted(device)} AND (offset_bytes IS NOT NULL OR op = 'flush') AND NOT open AND latency_ns IS NOT NULL
ORDER BY start_ns, op_id LIMIT {SERVICE_REQUESTS_MAX}"""


def served_by(context: Context, device: str) -> Served:
    """What a disk served, and how long it took for each: from its completion back to the one before it, or to its start."""
    data = context.case.arrays(requests_sql(context, device))
    start = data["start_ns"].astype(np.int64)
    end = start + data["latency_ns"].astype(np.int64)
    order = np.lexsort((start, end))
    start, end = start[order], end[order]
    op = data["op"].astype(str)[order]
    placed = op != "flush"
    begin, size = (data[name][order][placed].astype(np.int64) for name in ("offset_bytes", "size_bytes"))
    before = np.concatenate((np.zeros(1, np.int64), end))[:-1]
    apart = np.zeros(len(begin), np.int64)
    apart[1:] = np.abs(begin[1:] - (begin + size)[:-1])
    distance = np.zeros(len(order), np.int64)
    distance[placed] = apart
    follows = placed & (distance == 0)
    follows[np.flatnonzero(placed)[:1]] = False
    comm = for_askers(context, device, data["comm"].astype(str)[order], start)
    return Served(
        device=device,
        op_id=data["op_id"].astype(np.int64)[order],
        comm=comm,
        own=data["own"].astype(np.bool_)[order],
        op=op,
        start_ns=start,
        end_ns=end,
        follows=follows,
        distance_bytes=distance,
        service_ns=(end - np.maximum(start, before)).clip(0).astype(np.float64),
    )
