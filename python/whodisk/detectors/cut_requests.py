"""Requests that a setting cuts into small pieces: `max_sectors_kb` far below what the device takes at once.

A read of 128 KiB that becomes 16 requests of 8 KiB costs their number: of interrupts, of turns in the queue, of what a device does for each request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import (
    CUT_BELOW_KB,
    CUT_EPISODES_MIN,
    CUT_OPERATIONS_MAX,
    CUT_WAITING_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.links import two_levels_sql
from whodisk.findings import Culprit, Effect
from whodisk.machine.volumes import volumes_of
from whodisk.reading.views import quoted
from whodisk.statistics.stats import bootstrap_sum, episodes


@dataclass(frozen=True)
class Limit:
    """How large a request to a device may be: as set, and as the device takes it, KiB."""

    device: str
    set_kb: int
    most_kb: int


def run(context: Context) -> Result:
    """A candidate per device that gets small pieces of large operations."""
    result = Result()
    if context.layer == "block" or "block" not in context.surveys:
        return result
    volumes = volumes_of(context.case)
    for device in sorted(context.surveys["block"].by_device()):
        limit = _limit(context, device) if device and device not in volumes else None
        if limit is None or limit.set_kb >= min(CUT_BELOW_KB, limit.most_kb):
            continue
        found = _candidate(context, limit)
        if found is not None:
            result.candidates.append(found)
    return result


def _limit(context: Context, device: str) -> Limit | None:
    queue = ((context.case.system.get("devices") or {}).get(device) or {}).get("queue") or {}
    try:
        return Limit(device, int(queue["max_sectors_kb"]), int(queue["max_hw_sectors_kb"]))
    except (KeyError, TypeError, ValueError):
        return None


def waits_sql(context: Context, limit: Limit) -> str:
    """Operations with pieces as large as the limit, each with another one right behind it, and how long each was in flight while a piece was."""
    top = f"""SELECT op_id, start_ns, start_ns + latency_ns AS end_ns FROM measured
    WHERE layer = '{context.layer}' ORDER BY start_ns, op_id LIMIT {CUT_OPERATIONS_MAX}"""
    return f"""{two_levels_sql(top)},
  pieces AS (SELECT below.top_id, b.start_ns AS begin_ns, b.start_ns + b.latency_ns AS end_ns, b.size_bytes = {limit.set_kb * 1024}
      AND lead(b.offset_bytes) OVER (PARTITION BY below.top_id, b.op ORDER BY b.offset_bytes) = b.offset_bytes + b.size_bytes AS goes_on
    FROM below JOIN block_ops AS b ON b.op_id = below.child_id
    WHERE b.device = {quoted(limit.device)} AND b.op IN ('read', 'write') AND NOT b.open),
  cut AS (SELECT top_id, count(*) AS pieces, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns FROM pieces
    GROUP BY top_id HAVING count(*) FILTER (goes_on) > 0)
SELECT top.op_id, top.start_ns, top.end_ns, cut.pieces,
  greatest(0, least(top.end_ns, cut.end_ns) - greatest(top.start_ns, cut.begin_ns)) AS wait_ns
FROM top JOIN cut ON cut.top_id = top.op_id ORDER BY top.start_ns, top.op_id"""


def _candidate(context: Context, limit: Limit) -> Candidate | None:
    waits = context.case.arrays(waits_sql(context, limit))
    if not len(waits["wait_ns"]):
        return None
    wait_ns = waits["wait_ns"].astype(np.float64)
    # Of more operations than are looked at, these stand for all.
    looked = context.case.rows(
        f"SELECT sum(latency_ns) AS all_ns FROM (SELECT latency_ns FROM measured WHERE layer = '{context.layer}' "
        f"ORDER BY start_ns, op_id LIMIT {CUT_OPERATIONS_MAX}) AS first"
    )
    all_ns = max(1.0, float(looked[0]["all_ns"] or 0))
    share = float(wait_ns.sum()) / all_ns
    numbers = episodes(waits["start_ns"].astype(np.int64), waits["end_ns"].astype(np.int64))
    per_episode = np.bincount(numbers, wait_ns) / all_ns
    if share < CUT_WAITING_MIN or len(per_episode) < CUT_EPISODES_MIN:
        return None
    low, high = bootstrap_sum(per_episode)
    pieces = int(np.median(waits["pieces"]))
    size = words.size(limit.set_kb * 1024)
    claim = (
        f"What is asked of {limit.device} is cut into requests of {size} (max_sectors_kb = {limit.set_kb}; it takes up to {limit.most_kb} at once): operations waited "
        f"{words.percent(share)} of their time for such pieces, typically {pieces} of them."
    )
    return Candidate(
        culprit=Culprit("config", f"max_sectors_kb of {limit.device}", f"{limit.set_kb} KiB"),
        claim=claim,
        baseline="the same data asked for in as few requests as the device allows",
        effect=Effect("part of the operations' time", share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        # That requests end at the limit and go on, and who waited for them, is read off the record.
        p_value=0.0,
        basis="measured",
        summed=True,
        episodes=len(per_episode),
        evidence=[
            evidence(
                context.case,
                "sizes of requests",
                f"""SELECT op, size_bytes, count(*) AS requests, CAST(median(latency_ns) AS BIGINT) AS median_ns FROM measured
WHERE layer = 'block' AND device = {quoted(limit.device)} GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10""",
            )
        ],
        refute=f"Set max_sectors_kb of {limit.device} to {limit.most_kb} and repeat: if the same takes as long, the number of requests is not what it waits for.",
        remedy=f"echo {limit.most_kb} > /sys/block/{limit.device}/queue/max_sectors_kb",
        otherwise=claim,
        explains=np.isin(context.slow.op_id, waits["op_id"].astype(np.int64)),
        causes=(("stage", "device"), ("stage", "queue"), ("stage", "fs")),
        large=True,
    )


DETECTOR = Detector(
    name="cut_requests",
    needs=("links.child_id", "ops/block.offset_bytes", "judged.latency_ns"),
    needs_stages=(),
    null_model="none: which requests end at the limit and go on, and who waited for them, stands in the record",
    smallest_effect="20 % of the time of all operations is waiting for pieces of a limit below 128 KiB and below what the device takes",
    run=run,
    needs_all=True,
)
