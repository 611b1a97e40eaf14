"""Operations submitted on CPUs that are far from the device: the host's part of them takes longer than on the device's own NUMA node."""

from __future__ import annotations

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence, large_by_loss
from whodisk.detectors.thresholds import (
    GROUPS_RATIO_MIN,
    NODE_THREADS_RATIO_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.matched_groups import compare_groups
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.time_lost import p99_ratio
from whodisk.findings import Culprit, Effect
from whodisk.machine.nodes import node_of_cpu, node_of_devices

#: Stages of the device and of what is on the way to it: the rest is the host's.
_BELOW = ("throttle", "queue", "device", "runqueue")


def run(context: Context) -> Result:
    """A candidate if operations of the far CPUs take longer than those of the near ones."""
    result = Result()
    nodes = node_of_cpu(context.case)
    layer = next((name for name in (context.layer, "syscall", "app") if _has_cpu(context, name)), None)
    if not nodes or layer is None or layer not in context.surveys:
        return result
    survey = context.surveys[layer]
    near = node_of_devices(context.case, set(_devices(context)))
    if near is None:
        return result
    mine = sorted(cpu for cpu, node in nodes.items() if node == near)
    far = sorted(cpu for cpu, node in nodes.items() if node != near)
    group = f"cpu IN ({', '.join(map(str, far))})"
    below = [stage for stage in _BELOW if stage in survey.stages_observed]
    own = " - ".join(["latency_ns", *(f"coalesce({stage}_ns, 0)" for stage in below)])
    where = f"cpu IN ({', '.join(map(str, sorted(nodes)))})"
    # The host's part does not wait behind others in flight, and those that wait there are more in flight: depth is no stratum.
    # Threads that were on both nodes are compared with themselves; where all are pinned, only a difference that is larger than those of threads tells.
    found = compare_groups(context.case, survey, own, group, where, ("tid",))
    least = GROUPS_RATIO_MIN
    pinned = ""
    if found is None:
        found, least = (
            compare_groups(context.case, survey, own, group, where, ("comm",)),
            NODE_THREADS_RATIO_MIN,
        )
        pinned = (
            " No thread was on both nodes: that some threads do other work than the rest is not excluded."
        )
    if found is None:
        return result
    if found.ratio < least or found.low <= 1.0:
        result.tested.append(found.p_value)
        return result
    lost_sql = f"SELECT op_id, {1.0 - 1.0 / found.ratio!r} * ({own}) AS lost_ns FROM measured WHERE layer = '{layer}' AND {group} AND ({own}) > 0"
    rows = context.case.rows(f"SELECT coalesce(sum(lost_ns), 0) AS lost_ns FROM ({lost_sql})")
    share = min(1.0, float(rows[0]["lost_ns"] or 0) / max(1.0, survey.latency_ns))
    worse = p99_ratio(context, lost_sql) if layer == context.layer else None
    listed = words.listed([str(cpu) for cpu in far[:4]]) + (" and others" if len(far) > 4 else "")
    claim = (
        f"Operations submitted on CPUs {listed}, which are not on the devices' NUMA node {near}, spend {words.significant(found.ratio)} times as long in the host (all but "
        f"{words.listed(below)}) as those of the same kind and size on that node: {words.percent(share)} of all latency.{pinned}"
    )
    result.candidates.append(
        Candidate(
            culprit=Culprit("config", "NUMA distance", f"submitting cpu {listed}"),
            claim=claim,
            baseline=f"operations submitted on CPUs of node {near} ({len(mine)} CPUs), of the same kind and size, at the same time",
            effect=Effect("time in the host", found.ratio, "x near", found.low, found.high),
            share_of_excess=share,
            share_of_latency=share,
            p_value=found.p_value,
            episodes=found.blocks,
            evidence=[
                evidence(
                    context.case,
                    "median time in the host by node",
                    f"""SELECT op, {group} AS far, count(*) AS operations, CAST(median({own}) AS BIGINT) AS host_ns, CAST(median(latency_ns) AS BIGINT) AS latency_ns
FROM measured WHERE layer = '{layer}' AND {where} GROUP BY 1, 2 ORDER BY 1, 2""",
                )
            ],
            refute=f"Run the same under `numactl --cpunodebind={near} --membind={near}`: if it is as slow, the distance is innocent.",
            remedy=f"Keep the program, its memory and the device's interrupts on node {near} (numactl, CPUAffinity and NUMAPolicy of its unit), or use a device of "
            "the other node.",
            otherwise=claim,
            explains=none_of(context.slow),
            large=large_by_loss(share, worse),
            p99_ratio=worse,
            lost_sql=lost_sql,
            basis="estimated",
        )
    )
    return result


def _has_cpu(context: Context, layer: str) -> bool:
    return {"cpu", "tid", "comm"} <= context.case.columns.get(f"ops/{layer}", frozenset())


def _devices(context: Context) -> list[str]:
    block = context.surveys.get("block")
    described = context.case.system.get("devices") or {}
    seen = (block or context.survey).by_device()
    return [name for name in seen if name in described]


DETECTOR = Detector(
    name="far_node",
    needs=("judged.latency_ns",),
    needs_stages=(),
    null_model="the node makes no difference to operations of the same thread (or, where all are pinned, program), kind and size in the same block of time "
    "(sign-flip test)",
    smallest_effect="20 % longer in the host (half as long again where threads are pinned); 5 % of all latency, or a 99th percentile 10 % above that without",
    run=run,
)
