"""Requests that begin or end within a physical block of their device: it has to read more than it was asked for, or read before it writes.

That a partition is misaligned says nothing: large requests touch one block more among hundreds. It is to blame where requests of the same kind and size that are
aligned are quicker on the same device at the same time.
"""

from __future__ import annotations

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_by_loss
from whodisk.detectors.thresholds import (
    GROUPS_RATIO_MIN,
    MISALIGNED_BLOCK_BYTES,
)
from whodisk.evidence.context import Context
from whodisk.evidence.matched_groups import compare_groups
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.survey import DEPTH_CLASS, Survey
from whodisk.evidence.time_lost import share_lost
from whodisk.findings import Culprit, Effect
from whodisk.machine.volumes import volumes_of
from whodisk.reading.views import quoted


def run(context: Context) -> Result:
    """One candidate for all devices with the same physical block."""
    result = Result()
    survey = context.surveys.get("block")
    if survey is None or "device" not in survey.stages_observed:
        return result
    volumes = volumes_of(context.case)
    by_block: dict[int, list[str]] = {}
    for device in sorted(survey.by_device()):
        if device and device not in volumes:
            by_block.setdefault(_block_bytes(context, device), []).append(device)
    for block_bytes, devices in by_block.items():
        candidate = _candidate(context, survey, block_bytes, devices, result)
        if candidate is not None:
            result.candidates.append(candidate)
    return result


def _block_bytes(context: Context, device: str) -> int:
    queue = ((context.case.system.get("devices") or {}).get(device) or {}).get("queue") or {}
    told = str(queue.get("physical_block_size", ""))
    # Flash drives that say 512 have pages of 4 KiB and more.
    return max(MISALIGNED_BLOCK_BYTES, int(told) if told.isdigit() else 0)


def _candidate(
    context: Context, survey: Survey, block_bytes: int, devices: list[str], result: Result
) -> Candidate | None:
    unaligned = f"(offset_bytes % {block_bytes} <> 0 OR size_bytes % {block_bytes} <> 0)"
    where = f"device IN ({', '.join(map(quoted, devices))}) AND op IN ('read', 'write')"
    found = compare_groups(context.case, survey, "device_ns", unaligned, where, ("device", DEPTH_CLASS))
    if found is None:
        return None
    if found.ratio < GROUPS_RATIO_MIN or found.low <= 1.0:
        result.tested.append(found.p_value)
        return None
    lost_sql = (
        f"SELECT op_id, {1.0 - 1.0 / found.ratio!r} * device_ns AS lost_ns FROM measured "
        f"WHERE layer = '{survey.layer}' AND {where} AND {unaligned} AND device_ns IS NOT NULL"
    )
    share, worse = share_lost(context, survey, lost_sql)
    claim = (
        f"Requests that begin or end within a physical block of {words.size(block_bytes)} take {words.significant(found.ratio)} times as long in the device as aligned ones of "
        f"the same kind, size and queue depth at the same time.{_partitions(context, block_bytes)}"
    )
    return Candidate(
        culprit=Culprit("request_shape", "alignment", f"physical blocks of {words.size(block_bytes)}"),
        claim=claim,
        baseline="aligned requests to the same device, of the same kind, size and queue depth, at the same time",
        effect=Effect("time in the device", found.ratio, "x aligned", found.low, found.high),
        share_of_excess=min(1.0, share),
        share_of_latency=min(1.0, share),
        p_value=found.p_value,
        episodes=found.blocks,
        evidence=[
            evidence(
                context.case,
                "median time in the device, aligned or not",
                f"""SELECT device, op, size_bytes, {unaligned} AS unaligned, count(*) AS requests, CAST(median(device_ns) AS BIGINT) AS median_ns
FROM measured WHERE layer = '{survey.layer}' AND {where} GROUP BY 1, 2, 3, 4 HAVING requests >= 30 ORDER BY 1, 2, 3, 4 LIMIT 40""",
            )
        ],
        refute="Copy a file from the misaligned place to an aligned one and repeat: if it is as slow there, its place is innocent.",
        remedy="Make the partition anew on a boundary of 1 MiB (`parted -a optimal`, `sfdisk` do so by themselves), or give the format below it its block size.",
        otherwise=claim,
        explains=none_of(context.slow),
        large=large_by_loss(share, worse),
        p99_ratio=worse,
        basis="estimated",
    )


def _partitions(context: Context, block_bytes: int) -> str:
    """Partitions that begin within a block, in a sentence."""
    found = []
    for described in (context.case.system.get("devices") or {}).values():
        facts = described.get("facts") or {}
        names = str(facts.get("partitions", "")).split()
        starts = str(facts.get("partition_starts_512", "")).split()
        if len(names) == len(starts):
            found += [
                f"{name} begins at sector {start}"
                for name, start in zip(names, starts, strict=True)
                if start.isdigit() and int(start) * 512 % block_bytes
            ]
    return f" {words.listed(found[:3])}." if found else ""


DETECTOR = Detector(
    name="misaligned",
    needs=("judged.latency_ns", "ops/block.device_ns", "ops/block.offset_bytes"),
    needs_stages=(),
    null_model="whether a request is aligned makes no difference to requests of the same device, kind, size and queue depth in the same block of time (sign-flip test)",
    smallest_effect="20 % longer in the device; 5 % of all latency, or a 99th percentile 10 % above that without",
    run=run,
)
