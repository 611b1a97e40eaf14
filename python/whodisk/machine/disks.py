"""Which disk, or volume, a path lies on; and the ones with swap space."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whodisk.evidence.context import Context


def mount_point_of(path: str, points: Iterable[str]) -> str | None:
    """The longest of these mount points that a path is below; None where it is below none."""
    return max((point for point in points if path.startswith(point.rstrip("/") + "/")), key=len, default=None)


def disk_of(context: Context, path: str) -> str | None:
    """Of a device node its disk, of a file the disk of its file system; None where the case does not say, or it is no disk."""
    return disk_in(context.case.system, path)


def disk_in(system: dict[str, Any], path: str) -> str | None:
    """The same, by system.json."""
    devices = system.get("devices") or {}
    if not path.startswith("/dev/") or path.startswith("/dev/shm/"):
        mounts = system.get("mounts") or {}
        point = mount_point_of(path, mounts)
        path = str(mounts[point][0]) if point is not None else ""
    name = path.rsplit("/", 1)[-1] if path.startswith("/dev/") else ""
    for disk, about in devices.items():
        facts = about.get("facts") or {}
        if name and (
            name in (disk, facts.get("dm_name")) or name in str(facts.get("partitions") or "").split()
        ):
            return str(disk)
    return None


def swap_disks(context: Context) -> list[str]:
    """Disks that memory is swapped out to; none where the case does not say."""
    found = (disk_of(context, str(path)) for path in context.case.system.get("swaps") or [])
    return sorted({disk for disk in found if disk is not None})
