"""Which disk, or volume, a path lies on; and the ones with swap space."""

from __future__ import annotations

from whodisk.evidence.context import Context


def disk_of(context: Context, path: str) -> str | None:
    """Of a device node its disk, of a file the disk of its file system; None where the case does not say, or it is no disk."""
    devices = context.case.system.get("devices") or {}
    if not path.startswith("/dev/") or path.startswith("/dev/shm/"):
        mounts = context.case.system.get("mounts") or {}
        # The longest mount point that a path begins with is the one that it is on.
        on = [point for point in mounts if path.startswith(point.rstrip("/") + "/")]
        path = str(mounts[max(on, key=len)][0]) if on else ""
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
