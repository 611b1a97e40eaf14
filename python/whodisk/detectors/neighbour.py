"""Another program's requests on the same device: operations that begin soon after one of them, against all others.

`background_work` compares times of presence, and needs absence; here the unit is the single request of the other program, so
it finds both a program that never stops and one that hardly does anything. When it asks is its own affair, however slow the
device is meanwhile; how long it is served is not. So only the begin of its requests counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import leave_device
from whodisk.detectors.shared_devices import asking, disk_asked, disks_below, shared_devices, where
from whodisk.detectors.thresholds import (
    NEIGHBOUR_BLOCKS,
    NEIGHBOUR_BLOCKS_MIN,
    NEIGHBOUR_KIND_LATER_MIN,
    NEIGHBOUR_LATER_MIN,
    NEIGHBOUR_LEFT_OUT_MAX,
    NEIGHBOUR_OPERATIONS_MAX,
    NEIGHBOUR_PROGRAMS_MAX,
    NEIGHBOUR_REQUESTS_MAX,
    NEIGHBOUR_REQUESTS_MIN,
    NEIGHBOUR_SOON,
    SEEN_P99_RATIO_MIN,
    SHARE_FOR_P99_MIN,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, thinned
from whodisk.findings import Effect
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.machine.peers import rotates
from whodisk.reading.views import quoted
from whodisk.statistics.probability import mean_above_zero
from whodisk.statistics.stats import Bools, Floats, Ints, bootstrap_ratio


@dataclass(frozen=True)
class Operations:
    """Judged operations, in order of start."""

    start_ns: Ints
    latency_ns: Floats
    #: The same without the time until the submitter took them, and without a CPU: no device holds that.
    held_ns: Floats
    #: Operations that can be compared: same kind, size class, own queue depth class.
    kind: Ints
    block: Ints


@dataclass(frozen=True)
class Near:
    """What operations soon after a program's requests take, against operations of the same kinds."""

    comm: str
    requests: int
    soon_ns: float
    #: Operations that begin later may still meet one of the requests: what these cost is the least.
    is_least: bool
    #: Part of the operations that begin soon after a request.
    part: float
    #: Mean time of these (`Operations.held_ns`), and what the same kinds take otherwise, ns.
    with_ns: float
    without_ns: float
    #: 99th percentile of all, and of those that begin later, with as many of each kind, ns.
    p99_ns: float
    p99_later_ns: float
    #: Time beyond that of operations of the same kinds, over all time of operations; 95 % interval.
    share: float
    low: float
    high: float
    blocks: int
    #: Null: in a block of time operations soon after a request take as long as the others; ...
    mean_p: float
    #: ... and are as often among the slowest hundredth.
    tail_p: float


def run(context: Context) -> Result:
    """A candidate for each program with requests near which the judged operations are slower."""
    result = Result()
    if context.layer not in ("app", "syscall") or "block" not in context.surveys:
        return result
    shared = [device for device in shared_devices(context) if not rotates(context, device)]
    below = {disk: loop for disk, loop in disks_below(context, shared).items() if not rotates(context, disk)}
    asked = [*shared, *below]
    programs = context.case.rows(programs_sql(context, shared))
    if below:
        # Whoever asks the shared devices is judged by that.
        seen = {row["comm"] for row in context.case.rows(programs_sql(context, shared, 1))}
        further = context.case.rows(programs_sql(context, [*below]))
        programs += [row for row in further if row["comm"] not in seen]
    programs = [row for row in programs if not is_kernel_thread(context.case, str(row["comm"]))][
        :NEIGHBOUR_PROGRAMS_MAX
    ]
    if not programs:
        return result
    block = context.surveys["block"]
    typical_ns = block.quantile_ns([s for device in shared for s in block.select(device)], 0.5)
    operations = _operations(context)
    for row in programs:
        comm = str(row["comm"])
        disk = disk_asked(context, shared, below, comm)
        on = shared if disk is None else [*below]
        begun = context.case.arrays(_begun_sql(context, on, comm))["start_ns"].astype(np.int64)
        near = _near(operations, comm, begun, typical_ns)
        if near is not None:
            # At a fixed rate what a request delays delays others: they are compared at equal queue depth, so that is left out.
            near = replace(near, is_least=near.is_least or context.case.offered_per_s is not None)
            result.candidates.append(_candidate(context, near, asked, disk, where(disk, below)))
    return result


def programs_sql(context: Context, devices: list[str], least: int | None = None) -> str:
    """Programs that are not judged, and their requests to these devices; those with `least` requests or more (NEIGHBOUR_REQUESTS_MIN)."""
    least = NEIGHBOUR_REQUESTS_MIN if least is None else least
    names = ", ".join(quoted(device) for device in devices) or "NULL"
    return f"""SELECT comm, count(*) AS requests, sum(size_bytes) AS bytes, CAST(avg(latency_ns) AS BIGINT) AS mean_latency_ns
FROM (SELECT {program_sql(context)} AS comm, size_bytes, latency_ns FROM measured
  WHERE layer = 'block' AND comm IS NOT NULL AND device IN ({names})) AS requests WHERE comm NOT IN ({own_sql(context)})
GROUP BY 1 HAVING count(*) >= {least} ORDER BY 2 DESC, 1"""


def _begun_sql(context: Context, devices: list[str], comm: str) -> str:
    names = ", ".join(quoted(device) for device in devices)
    return f"""SELECT start_ns FROM measured WHERE layer = 'block' AND {program_sql(context)} = {quoted(comm)} AND device IN ({names})
ORDER BY start_ns LIMIT {NEIGHBOUR_REQUESTS_MAX}"""


def _operations(context: Context) -> Operations:
    data = context.case.arrays(
        f"""SELECT start_ns, latency_ns, latency_ns - coalesce(reap_ns, 0) - coalesce(runqueue_ns, 0) AS held_ns, hash(op, {SIZE_CLASS}, {DEPTH_CLASS}) AS kind, {context.survey.time_bin_sql(NEIGHBOUR_BLOCKS)} AS block
FROM measured WHERE layer = '{context.layer}' AND {thinned(context.survey.operations, NEIGHBOUR_OPERATIONS_MAX)} ORDER BY start_ns, op_id"""
    )
    return Operations(
        start_ns=data["start_ns"].astype(np.int64),
        latency_ns=data["latency_ns"].astype(np.float64),
        held_ns=data["held_ns"].astype(np.float64),
        kind=np.unique(data["kind"], return_inverse=True)[1].astype(np.int64),
        block=data["block"].astype(np.int64),
    )


def _near(operations: Operations, comm: str, begun: Ints, typical_ns: float) -> Near | None:
    """None where too few operations begin later than soon after a request, or all do."""
    if not len(begun) or not len(operations.start_ns):
        return None
    last = np.searchsorted(begun, operations.start_ns, side="right") - 1
    since = np.where(last >= 0, operations.start_ns - begun[last.clip(0)], np.iinfo(np.int64).max)
    if len(begun) == NEIGHBOUR_REQUESTS_MAX:
        since = np.where(operations.start_ns <= begun[-1], since, np.iinfo(np.int64).max)
    kinds = int(operations.kind.max()) + 1
    for multiple in NEIGHBOUR_SOON:
        soon = np.asarray(since < multiple * typical_ns, np.bool_)
        later = np.bincount(operations.kind[~soon], minlength=kinds)
        kept = (later >= NEIGHBOUR_KIND_LATER_MIN)[operations.kind]
        if (~soon).mean() >= NEIGHBOUR_LATER_MIN and kept.mean() >= 1 - NEIGHBOUR_LEFT_OUT_MAX:
            break
    else:
        return None
    if not (soon & kept).any():
        return None
    chosen = Operations(
        operations.start_ns[kept],
        operations.latency_ns[kept],
        operations.held_ns[kept],
        operations.kind[kept],
        operations.block[kept],
    )
    return _compare(
        chosen, soon[kept], comm, len(begun), multiple * typical_ns, multiple < NEIGHBOUR_SOON[0], kinds
    )


def _compare(
    operations: Operations, soon: Bools, comm: str, requests: int, soon_ns: float, is_least: bool, kinds: int
) -> Near | None:
    latency, held, kind, block = (
        operations.latency_ns,
        operations.held_ns,
        operations.kind,
        operations.block,
    )
    later = np.bincount(kind[~soon], minlength=kinds)
    usual = (np.bincount(kind[~soon], held[~soon], kinds) / np.maximum(1, later))[kind]
    # As many of each kind as there are in all: then only the other program's requests differ.
    weight = (np.bincount(kind, minlength=kinds) / np.maximum(1, later))[kind]
    p99_later_ns = _quantile(latency[~soon], weight[~soon], 0.99)
    beyond, whole = (
        np.bincount(block, values, NEIGHBOUR_BLOCKS).astype(np.float64) for values in (held - usual, latency)
    )
    share = float(beyond.sum() / max(1.0, whole.sum()))
    if share <= 0:
        return None
    mean_p, blocks = _differ(np.log(np.maximum(held, 1.0) / np.maximum(usual, 1.0)), soon, block)
    tail_p, _ = _differ((latency > p99_later_ns).astype(np.float64), soon, block)
    if blocks < NEIGHBOUR_BLOCKS_MIN:
        return None
    low, high = bootstrap_ratio(beyond, whole)
    return Near(
        comm=comm,
        requests=requests,
        soon_ns=soon_ns,
        is_least=is_least,
        part=float(soon.mean()),
        with_ns=float(held[soon].mean()),
        without_ns=float(usual[soon].mean()),
        p99_ns=float(np.quantile(latency, 0.99)),
        p99_later_ns=p99_later_ns,
        share=share,
        low=low,
        high=min(1.0, high),
        blocks=blocks,
        mean_p=mean_p,
        tail_p=tail_p,
    )


def _differ(values: Floats, soon: Bools, block: Ints) -> tuple[float, int]:
    """That the mean of values soon after a request is not above that of the others of the same block of time (Student's t over
    blocks), and how many blocks have both."""
    soon_count = np.bincount(block[soon], minlength=NEIGHBOUR_BLOCKS)
    later_count = np.bincount(block[~soon], minlength=NEIGHBOUR_BLOCKS)
    both = (soon_count > 0) & (later_count > 0)
    soon_mean = np.bincount(block[soon], values[soon], NEIGHBOUR_BLOCKS)[both] / soon_count[both]
    later_mean = np.bincount(block[~soon], values[~soon], NEIGHBOUR_BLOCKS)[both] / later_count[both]
    return mean_above_zero(soon_mean - later_mean), int(both.sum())


def _quantile(values: Floats, weights: Floats, quantile: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, quantile * below[-1])])


def _candidate(context: Context, near: Near, devices: list[str], disk: str | None, place: str) -> Candidate:
    worse = near.p99_ns / max(1.0, near.p99_later_ns)
    by_mean = near.share >= SHARE_OF_LATENCY_MIN
    by_tail = near.share >= SHARE_FOR_P99_MIN and worse >= SEEN_P99_RATIO_MIN
    least = "at least " if near.is_least else ""
    claim = (
        f"{near.comm} uses {place} ({words.things(near.requests, 'request')}), and operations that begin within "
        f"{words.duration(near.soon_ns)} after one of its requests ({words.percent(near.part)} of them) take "
        f"{words.duration(near.with_ns)} on average, others of their kind {words.duration(near.without_ns)} (until they are done, not until the program takes them): "
        f"{least}{words.percent(near.share)} of all latency. The 99th percentile is {words.duration(near.p99_ns)}, of operations that begin later "
        f"{words.duration(near.p99_later_ns)}."
    )
    return Candidate(
        culprit=asking(near.comm, disk),
        claim=claim,
        baseline=f"operations of the same kind, size class and queue depth class that begin later than that after a request of {near.comm}",
        effect=Effect(f"{least}part of all latency", near.share, "1", near.low, near.high),
        share_of_excess=near.share,
        share_of_latency=near.share,
        p_value=min(1.0, near.mean_p if by_mean else max(near.mean_p, near.tail_p)),
        episodes=near.blocks,
        evidence=[
            evidence(context.case, "other programs on the same devices", programs_sql(context, devices))
        ],
        refute=f"Stop {near.comm} for a while: operations that stay slow are not its.",
        remedy=leave_device(near.comm),
        otherwise=claim,
        explains=none_of(context.slow),
        causes=(("stage", "device"), ("stage", "queue")),
        large=near.low > 0 and (by_mean or by_tail),
        # Where its times have a period, `burst` reports it; where it comes and goes, `background_work` does.
        consequence=True,
        p99_ratio=worse,
    )


DETECTOR = Detector(
    name="neighbour",
    needs=("judged.start_ns", "judged.comm"),
    needs_stages=(),
    null_model="in a block of time, operations that begin soon after a request of the other program take as long as others of their kind",
    smallest_effect="5 % of all latency, or 0.2 % and a 99th percentile 10 % above that of operations that begin later",
    run=run,
    needs_all=True,
)
