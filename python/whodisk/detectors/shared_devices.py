"""Devices on which another program can be in the judged program's way."""

from __future__ import annotations

from whodisk.detectors.thresholds import SHARED_DEVICE_MIN, SHARED_KNOWN_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql
from whodisk.machine.volumes import volumes_of


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
