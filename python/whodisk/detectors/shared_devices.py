"""Devices on which another program can be in the judged program's way."""

from __future__ import annotations

from whodisk.detectors.thresholds import SHARED_DEVICE_MIN, SHARED_KNOWN_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.findings import Culprit
from whodisk.machine.below_loop import disk_of_loop
from whodisk.machine.volumes import volumes_of
from whodisk.reading.views import quoted

#: Where a program works that asks one of them, in words.
SAME_DEVICE = "the same device"


def shared_devices(context: Context) -> list[str]:
    """Devices that the judged program makes requests to, but for those on which next to none of its time passes.

    A neighbour costs operations no more than what they spend at the device: who works all the time on the disk that a database was once started
    from is not in its way there. Where operations do not tell their devices, or those are volumes, all count.
    """
    rows = context.case.rows(
        f"""SELECT device, sum(latency_ns) AS busy_ns FROM measured
WHERE layer = 'block' AND device IS NOT NULL AND comm IN ({own_sql(context)}) GROUP BY 1 ORDER BY 1"""
    )
    requests = {str(row["device"]): float(row["busy_ns"] or 0) for row in rows}
    operations: dict[str, float] = {}
    for stratum in context.survey.strata:
        if stratum.device:
            operations[stratum.device] = operations.get(stratum.device, 0.0) + stratum.latency_ns
    if not operations or volumes_of(context.case):
        return list(requests)
    # Where most of the operations' time is at known devices, these few requests are nothing that they wait for.
    known = sum(operations.values()) >= SHARED_KNOWN_MIN * context.survey.latency_ns
    asked = (operations,) if known else (operations, requests)
    return [
        device
        for device in requests
        if any(times.get(device, 0.0) >= SHARED_DEVICE_MIN * sum(times.values()) for times in asked)
    ]


def disks_below(context: Context, devices: list[str]) -> dict[str, str]:
    """Disk -> which of these loop devices has its file there: who works on such a disk is in the way of what the loop device asks of it.

    What the loop device itself asks of the disk, threads of the kernel ask: those are nobody's neighbours.
    """
    found = {device: disk_of_loop(context, device) for device in devices}
    return {below[1]: device for device, below in found.items() if below and below[1] not in devices}


def asking(comm: str, disk: str | None) -> Culprit:
    """A program that asks this disk below a loop device, or the same devices as the judged one, as the culprit."""
    return Culprit("process", comm, f"requests on {disk or SAME_DEVICE}")


def where(disk: str | None, below: dict[str, str]) -> str:
    """Where a program works that mostly asks this disk below a loop device (`disk_asked`), or the same devices as the judged one: as the object of a sentence."""
    return SAME_DEVICE if disk is None else on_disk(disk, below)


def on_disk(disk: str, below: dict[str, str]) -> str:
    """A disk below a loop device, as the object of a sentence."""
    return f"{disk}, on which the file of {below[disk]} lies"


def disk_asked(context: Context, devices: list[str], below: dict[str, str], comm: str) -> str | None:
    """The disk below one of these devices that a program mostly asks for something; None if it asks one of them itself."""
    listed = ", ".join(map(quoted, (*devices, *below))) or "NULL"
    rows = context.case.rows(
        f"""SELECT device FROM (SELECT {program_sql(context)} AS comm, device FROM block_ops) AS requests
WHERE comm = {quoted(comm)} AND device IN ({listed}) GROUP BY 1 ORDER BY count(*) DESC, 1"""
    )
    asked = [str(row["device"]) for row in rows]
    return None if not asked or any(device in devices for device in asked) else asked[0]
