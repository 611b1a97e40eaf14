"""Whether one of several devices is slower than its peers, or only what stands in front of it."""

from __future__ import annotations

import math

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import PEER_EFFECT_MIN
from whodisk.reading.views import quoted


def waits_in_front(context: Context, survey: Survey, device: str, devices: list[str]) -> bool:
    """Whether requests of `device` take longer than those of its peers only because they wait in its queue: in the device itself they take as
    long. False where the record does not distinguish the two stages."""
    if not {"queue", "device"} <= survey.stages_observed:
        return False
    rows = context.case.rows(times_sql(survey, devices))
    times = {str(row["device"]): (float(row["queue_ns"] or 0), float(row["inside_ns"] or 0)) for row in rows}
    own = times.pop(device, None)
    if own is None or not times:
        return False
    queue_ns, inside_ns = (float(np.median(values)) for values in zip(*times.values(), strict=True))
    slower_inside = math.log(max(1.0, own[1]) / max(1.0, inside_ns))
    return slower_inside < PEER_EFFECT_MIN / 2 and own[0] - queue_ns > own[1] - inside_ns


def in_front_said(device: str) -> str:
    """The sentence that clears it."""
    return (
        f"Requests of {device} wait in front of it; once it has them, it takes as long for them as its peers."
    )


def times_sql(survey: Survey, devices: list[str]) -> str:
    """Mean time of requests in the queue of each device, and in the device."""
    names = ", ".join(quoted(name) for name in devices)
    return f"""SELECT device, avg(queue_ns) AS queue_ns, avg(coalesce(device_ns, 0) + coalesce(interrupt_ns, 0)) AS inside_ns
FROM measured WHERE layer = '{survey.layer}' AND device IN ({names}) GROUP BY 1 ORDER BY 1"""
