"""What a loop device does with its time: its file lies on a file system, and that on a disk which may be at work meanwhile.

Which request to the disk belongs to which of the loop device is not recorded, so this is about times only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.in_flight import in_flight
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.serving_waits import KERNEL_WORKERS
from whodisk.evidence.thresholds import ASLEEP_REQUESTS_MAX
from whodisk.machine.disks import disk_of
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Ints, overlap


@dataclass(frozen=True)
class Below:
    """The disk under a loop device."""

    loop: str
    file: str
    disk: str
    #: Part of the time asked about in which the disk had requests in flight.
    busy: float


def disk_of_loop(context: Context, device: str) -> tuple[str, str] | None:
    """The backing file of a loop device and the disk, or volume, that it lies on; None for other devices, or where the file lies on no disk."""
    if any(device in served for served in context.case.servers.values()):
        # Its file is on a file system of a process, whatever lies at that path elsewhere.
        return None
    devices = context.case.system.get("devices") or {}
    file = ((devices.get(device) or {}).get("facts") or {}).get("loop_backing_file")
    if not file:
        return None
    disk = disk_of(context, str(file))
    return (str(file), disk) if disk is not None else None


def below_loop(context: Context, device: str, begin_ns: Ints, end_ns: Ints) -> Below | None:
    """How much of these times the disk under a loop device was at work; None where that is not known, or it never was."""
    found = disk_of_loop(context, device) if len(begin_ns) else None
    if found is None:
        return None
    start, end = in_flight(context, found[1])
    busy = float(overlap(begin_ns, end_ns, start, end).sum()) / max(1.0, float((end_ns - begin_ns).sum()))
    return Below(device, *found, min(1.0, busy)) if busy > 0 else None


def workers_of(context: Context, device: str) -> list[int]:
    """Workers of the kernel that asked the disk under a loop device for something: whatever that device serves, one of them takes up."""
    found = disk_of_loop(context, device) if "block" in context.surveys else None
    if found is None:
        return []
    rows = context.case.rows(
        f"SELECT DISTINCT tid FROM block_ops WHERE device = {quoted(found[1])} AND tid > 0 AND {KERNEL_WORKERS} ORDER BY 1"
    )
    return [int(row["tid"] or 0) for row in rows]


@dataclass(frozen=True)
class User:
    """A program that is not judged, and what it asked of a disk."""

    comm: str
    requests: int
    bytes: float
    #: Part of the time asked about in which requests of it were in flight.
    busy: float


def foremost_user(context: Context, disk: str, begin_ns: Ints, end_ns: Ints) -> User | None:
    """Who had requests in flight on a disk for most of these times: another program, no thread of the kernel; None without any, or of too many requests."""
    block = context.surveys.get("block")
    if block is None or block.operations > ASLEEP_REQUESTS_MAX:
        return None
    data = context.case.arrays(
        f"""SELECT who, start_ns, end_ns, size_bytes FROM (SELECT {program_sql(context)} AS who, start_ns, start_ns + latency_ns AS end_ns,
  coalesce(size_bytes, 0) AS size_bytes FROM block_ops WHERE device = {quoted(disk)} AND NOT open AND comm IS NOT NULL) AS requests
WHERE who NOT IN ({own_sql(context)}) ORDER BY 2, 3, 1"""
    )
    names, users = data["who"].astype(str), list[User]()
    whole = max(1.0, float((end_ns - begin_ns).sum()))
    for name in np.unique(names).tolist():
        if is_kernel_thread(context.case, name):
            continue
        start, end, size = (
            data[of][names == name].astype(np.int64) for of in ("start_ns", "end_ns", "size_bytes")
        )
        busy = float(overlap(begin_ns, end_ns, start, end).sum()) / whole
        users.append(User(name, len(start), float(size.sum()), min(1.0, busy)))
    return max(users, key=lambda user: user.busy, default=None)


def always_below_loop(context: Context, device: str) -> Below | None:
    """The same of all its requests."""
    return below_loop(context, device, *in_flight(context, device)) if disk_of_loop(context, device) else None
