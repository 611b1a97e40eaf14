"""A drive that waits for a PCIe link that carries less than it could: a slot with fewer lanes, a link that was trained down.

That a link is narrow says nothing: most are wide enough. It is to blame for requests that end one after the other at just the rate that it carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_by_loss
from whodisk.detectors.thresholds import (
    LINK_ALWAYS_MIN,
    LINK_EFFICIENCY_MAX,
    LINK_EFFICIENCY_MIN,
    LINK_REQUESTS_MIN,
    LINK_WINDOW,
)
from whodisk.evidence.context import Context
from whodisk.evidence.device_pace import WAITS
from whodisk.evidence.slow_operations import waited_for
from whodisk.evidence.survey import SIZE_CLASS, Survey
from whodisk.evidence.time_lost import share_lost
from whodisk.findings import Culprit, Effect
from whodisk.machine.links import link_bytes_per_s, narrow_links
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Floats, Ints


@dataclass(frozen=True)
class Full:
    """When a link was full."""

    #: Whether it was, for each request in order of its end.
    requests: Bools
    #: What it carried then, bytes per second.
    bytes_per_s: float


def run(context: Context) -> Result:
    """One candidate for each drive that waits for its link; narrow links that are wide enough are reported only."""
    result = Result()
    survey = context.surveys.get("block")
    if survey is None or "device" not in survey.stages_observed:
        return result
    for device, (link, most) in narrow_links(context.case).items():
        if sum(s.operations for s in survey.select(device)) < LINK_REQUESTS_MIN:
            continue
        candidate = _candidate(context, survey, device, link, most)
        if candidate is None:
            result.observed.append(f"{device} has a link of {link}, and could have {most}; it was not full.")
        else:
            result.candidates.append(candidate)
    return result


def requests_sql(device: str) -> str:
    """Requests of a device that carry bytes, in order of their ends."""
    return f"""SELECT op_id, device_ns, size_bytes, {SIZE_CLASS} AS size_class, start_ns + latency_ns AS end_ns FROM block_ops
WHERE device = {quoted(device)} AND op IN ('read', 'write') AND NOT open AND device_ns IS NOT NULL AND size_bytes > 0 ORDER BY end_ns, op_id"""


def full_link(end_ns: Ints, size_bytes: Ints, carries_per_s: float) -> Full | None:
    """When a link of this rate was full: windows of `LINK_WINDOW` requests in a row that ended at its rate; None if it never was, or if more
    went over it than it carries: then it is not what the facts say. A link that was trained down meanwhile carried more until then."""
    if len(end_ns) < max(LINK_REQUESTS_MIN, LINK_WINDOW + 1):
        return None
    upto = np.concatenate(([0.0], np.cumsum(size_bytes.astype(np.float64))))
    span: Floats = np.maximum(1.0, (end_ns[LINK_WINDOW:] - end_ns[:-LINK_WINDOW]).astype(np.float64))
    moved = upto[LINK_WINDOW + 1 :] - upto[1:-LINK_WINDOW]
    rate = moved / span * 1e9
    more = rate > carries_per_s
    # Windows up to here carried more than that mostly, and those after it did not.
    wider = np.concatenate(([0], np.cumsum(np.where(more, 1, -1))))
    narrowed = int(np.argmax(wider))
    # Ends that are recorded late come in bunches: the quickest tenth is not looked at.
    if len(rate) - narrowed < LINK_REQUESTS_MIN or more[narrowed:].mean() > 0.1:
        return None
    at_rate = (rate >= LINK_EFFICIENCY_MIN * carries_per_s) & (rate <= LINK_EFFICIENCY_MAX * carries_per_s)
    at_rate[:narrowed] = False
    if not at_rate.any():
        return None
    edges = np.zeros(len(end_ns) + 1)
    begins = np.flatnonzero(at_rate)
    np.add.at(edges, begins + 1, 1.0)
    np.add.at(edges, begins + LINK_WINDOW + 1, -1.0)
    return Full(np.asarray(np.cumsum(edges)[:-1] > 0, np.bool_), float(np.median(rate[at_rate])))


def _candidate(context: Context, survey: Survey, device: str, link: str, most: str) -> Candidate | None:
    carries, could = link_bytes_per_s(link), link_bytes_per_s(most)
    if carries is None or could is None:
        return None
    data = context.case.arrays(requests_sql(device))
    size = data["size_bytes"].astype(np.int64)
    full = full_link(data["end_ns"].astype(np.int64), size, carries)
    if full is None:
        return None
    lost_sql = _lost_sql(device, full, data, carries / could)
    share, worse = share_lost(context, survey, lost_sql)
    if share <= 0:
        return None
    part = float(size[full.requests].sum() / size.sum())
    claim = (
        f"{device} is on a PCIe link of {link}, and could have {most}. {words.percent(part)} of its bytes ended one after the other at "
        f"{words.size(full.bytes_per_s)}/s, which is what that link carries ({words.size(carries)}/s with headers): they waited for it. With all lanes and speed, and if the drive "
        f"keeps up, {words.percent(min(1.0, share))} of all latency would be gone."
    )
    return Candidate(
        culprit=Culprit("device", device, f"PCIe link {link}, could be {most}"),
        claim=claim,
        baseline="requests of the same device and size that waited for nothing (the quickest twentieth), or transfers over the link that it could have",
        effect=Effect("part of all latency", min(1.0, share), "1"),
        share_of_excess=min(1.0, share),
        share_of_latency=min(1.0, share),
        p_value=0.0,
        episodes=1,
        evidence=[
            evidence(
                context.case,
                "bytes per second of the device, by 10 ms",
                f"""SELECT (start_ns + latency_ns) // 10000000 AS ms_10, sum(size_bytes) * 100 AS bytes_per_s, count(*) AS requests
FROM block_ops WHERE device = {quoted(device)} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20""",
            )
        ],
        refute=f"Put {device} into a slot with all lanes: if it is as slow there, the link is innocent.",
        remedy=f"lspci -vv shows LnkSta against LnkCap; reseat {device}, exchange riser or cable, or choose another slot (`whodisk locate {device}`).",
        otherwise=claim,
        explains=_behind(context, device),
        causes=(("device", device), ("stage", "device"), ("stage", f"device:{device}")),
        large=large_by_loss(share, worse),
        p99_ratio=worse,
        lost_sql=lost_sql,
        basis="measured",
        summed=True,
    )


def _lost_sql(device: str, full: Full, data: dict[str, Any], wider: float) -> str:
    """What requests lost while the link was full, ns (op_id, lost_ns).

    `wider`: a transfer's time over the link that the drive could have, as a part of today's. The SQL names times and sizes, not requests: there may be
    a hundred million of these.
    """
    held, classes = data["device_ns"].astype(np.float64), data["size_class"].astype(np.int64)
    # What the drive takes where nothing waits for the link: of the same size, the quickest twentieth.
    quick = {int(one): float(np.quantile(held[classes == one], 0.05)) for one in np.unique(classes)}
    # Where it was always full none was quick. Who waits behind others' transfers waits as much less as these are quicker, if the drive keeps up.
    part = 1.0 - wider if full.requests.mean() > LINK_ALWAYS_MIN else 0.0
    edges = np.diff(np.concatenate(([0], full.requests.astype(np.int8), [0])))
    end_ns = data["end_ns"].astype(np.int64)
    stretches = zip(
        end_ns[np.flatnonzero(edges == 1)].tolist(),
        end_ns[np.flatnonzero(edges == -1) - 1].tolist(),
        strict=True,
    )
    times = ", ".join(f"({begin}, {end})" for begin, end in stretches)
    bases = ", ".join(f"({one}, {ns})" for one, ns in quick.items())
    return f"""SELECT r.op_id, CAST(greatest(r.device_ns - b.base_ns, {part} * r.device_ns, 0) AS BIGINT) AS lost_ns
FROM ({requests_sql(device)}) AS r JOIN (VALUES {bases}) AS b (size_class, base_ns) ON b.size_class = r.size_class
ASOF JOIN (VALUES {times}) AS f (begin_ns, end_ns) ON f.begin_ns <= r.end_ns WHERE r.end_ns <= f.end_ns"""


def _behind(context: Context, device: str) -> Bools:
    return waited_for(context.slow, (device,), WAITS)


DETECTOR = Detector(
    name="narrow_link",
    needs=("judged.latency_ns", "ops/block.device_ns"),
    needs_stages=(),
    null_model="none: that requests end one after the other at the rate of a link that could carry more stands in the record and in the machine's facts",
    smallest_effect="5 % of all latency, or a 99th percentile 10 % above that without",
    run=run,
    needs_all=True,
)
