"""What a loop device does with its time: its file lies on a file system, and that on a disk which may be at work meanwhile.

Which request to the disk belongs to which of the loop device is not recorded, so this is about times only.
"""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.evidence.context import Context
from whodisk.evidence.in_flight import in_flight
from whodisk.machine.disks import disk_of
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


def always_below_loop(context: Context, device: str) -> Below | None:
    """The same of all its requests."""
    return below_loop(context, device, *in_flight(context, device)) if disk_of_loop(context, device) else None
