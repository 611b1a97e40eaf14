"""A slow device with interrupts that wait for somebody else's handler; and interrupts that all go to one CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import (
    SEEN_P99_RATIO_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
    VECTOR_BLOCKS,
    VECTOR_ONE_CPU,
    VECTOR_OPERATIONS_MIN,
    VECTOR_SUFFERS,
)
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.survey import LATENCY_BIN, Survey, bin_middle_ns
from whodisk.evidence.time_lost import lost_in_blocks, p99_ratio
from whodisk.findings import Culprit, Effect, Evidence
from whodisk.reading.views import quoted
from whodisk.statistics.stats import SEED, Floats, quantile_from_bins
from whodisk.types import Cell

#: Softirqs that complete block requests themselves: no foreign work.
OWN_SOFTIRQS = "'BLOCK', 'IRQ_POLL'"


@dataclass(frozen=True)
class Handler:
    """Runs of one handler on one vector and CPU."""

    name: str
    vector: int | None
    cpu: int
    device: str
    calls: int
    total_ns: float
    median_ns: float


@dataclass(frozen=True)
class Load:
    """Completed operations of one device by vector, CPU and time block."""

    device: str
    vector: int | None
    cpu: int
    block: int
    operations: int
    interrupt_ns: float
    foreign_ns: float


@dataclass(frozen=True)
class Cost:
    """What handlers cost the operations that completed behind them."""

    total_ns: float
    #: Part of the time in other handlers that is theirs.
    part: float
    per_device: dict[str, tuple[float, int]]
    cpus: frozenset[int]
    p_value: float
    blocks: int


def handlers_sql(survey: Survey, limit: int = 10_000) -> str:
    """Handlers by vector and CPU, the `limit` busiest first."""
    return f"""SELECT handler, vector, cpu, coalesce(device, '') AS device, count(*) AS calls,
  sum(duration_ns) AS total_ns, median(duration_ns) AS median_ns
FROM irqs WHERE start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns} AND handler NOT IN ({OWN_SOFTIRQS})
GROUP BY 1, 2, 3, 4 ORDER BY 6 DESC, 1, 2, 3, 4 LIMIT {limit}"""


def loads_sql(survey: Survey) -> str:
    """Time between interrupt and completion, and other handlers' part of it, per device, vector, CPU and time block."""
    return f"""SELECT device, vector, complete_cpu, {survey.time_bin_sql(VECTOR_BLOCKS)} AS block, count(*) AS operations,
  sum(interrupt_ns) AS interrupt_ns, sum(foreign_handler_ns) AS foreign_ns
FROM measured WHERE layer = 'block' AND complete_cpu IS NOT NULL AND foreign_handler_ns IS NOT NULL
  AND device IN (SELECT device FROM irqs WHERE device IS NOT NULL)
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""


def run(context: Context) -> Result:
    """One candidate per foreign handler, or one for interrupts that all go to one CPU."""
    result = Result()
    survey = context.surveys.get("block")
    if survey is None:
        return result
    handlers = [_handler(row) for row in context.case.rows(handlers_sql(survey))]
    loads = [_load(row) for row in context.case.rows(loads_sql(survey))]
    if sum(load.operations for load in loads) < VECTOR_OPERATIONS_MIN:
        return result
    for name in sorted({h.name for h in handlers if _is_foreign(h, handlers)}):
        own = [h for h in handlers if h.name == name]
        candidate = _foreign_candidate(context, survey, own, handlers, loads)
        if candidate is not None:
            result.candidates.append(candidate)
    crowded = _crowded_candidate(context, survey, handlers, loads)
    if crowded is not None:
        result.candidates.append(crowded)
    return result


def _int(value: Cell) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _number(value: Cell) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _handler(row: dict[str, Cell]) -> Handler:
    return Handler(
        name=str(row["handler"]),
        vector=_number(row["vector"]),
        cpu=_int(row["cpu"]),
        device=str(row["device"]),
        calls=_int(row["calls"]),
        total_ns=float(_int(row["total_ns"])),
        median_ns=float(_int(row["median_ns"])),
    )


def _load(row: dict[str, Cell]) -> Load:
    return Load(
        device=str(row["device"]),
        vector=_number(row["vector"]),
        cpu=_int(row["complete_cpu"]),
        block=_int(row["block"]),
        operations=_int(row["operations"]),
        interrupt_ns=float(_int(row["interrupt_ns"])),
        foreign_ns=float(_int(row["foreign_ns"])),
    )


def _is_foreign(handler: Handler, handlers: list[Handler]) -> bool:
    """Whether a handler serves no block device, or sits on a vector with another device's."""
    if not handler.device:
        return True
    return handler.vector is not None and any(
        other.vector == handler.vector and other.device not in ("", handler.device) for other in handlers
    )


def _cost(accused: list[Handler], handlers: list[Handler], loads: list[Load]) -> Cost | None:
    """Other handlers' time is the accused ones' in proportion to how long they ran on that CPU.

    The p value is a signed-rank test over time blocks: if the handlers cost nothing, operations that complete on their CPUs
    spend as much time in interrupts as those on other CPUs; without other CPUs: as in their own handlers.
    """
    names = {h.name for h in accused}
    cpus = frozenset(h.cpu for h in accused)
    per_device: dict[str, tuple[float, int]] = {}
    here, there = np.zeros((VECTOR_BLOCKS, 2)), np.zeros((VECTOR_BLOCKS, 2))
    blamed, foreign_ns = np.zeros(VECTOR_BLOCKS), 0.0
    for load in loads:
        if load.cpu not in cpus:
            there[load.block] += (load.interrupt_ns, load.operations)
            continue
        others = [h for h in handlers if h.cpu == load.cpu and h.device != load.device]
        whole = sum(h.total_ns for h in others)
        part = sum(h.total_ns for h in others if h.name in names) / whole if whole else 0.0
        here[load.block] += (load.interrupt_ns, load.operations)
        blamed[load.block] += part * load.foreign_ns
        foreign_ns += load.foreign_ns
        cost, operations = per_device.get(load.device, (0.0, 0))
        per_device[load.device] = (cost + part * load.foreign_ns, operations + load.operations)
    if here[:, 1].sum() < VECTOR_OPERATIONS_MIN:
        return None
    own = here[:, 0] - blamed
    elsewhere = np.where(
        there[:, 1] > 0, there[:, 0] / np.maximum(there[:, 1], 1), own / np.maximum(here[:, 1], 1)
    )
    compared = here[:, 1] > 0
    worse = blamed / np.maximum(here[:, 1], 1) > elsewhere
    rejected = int((worse & compared).sum())
    more = (blamed / np.maximum(here[:, 1], 1) - elsewhere)[compared]
    total_ns = float(blamed.sum())
    return Cost(total_ns, total_ns / max(1.0, foreign_ns), per_device, cpus, _signed_rank_p(more), rejected)


def _of_all_waits(cost: Cost, loads: list[Load]) -> float:
    """Part of what requests waited behind other devices' handlers, on any CPU, that waited for these."""
    return min(1.0, cost.total_ns / max(1.0, sum(load.foreign_ns for load in loads)))


def _lost_sql(cost: Cost) -> str:
    """What each request lost to the handlers."""
    cpus = ", ".join(str(cpu) for cpu in sorted(cost.cpus))
    return f"""SELECT op_id, start_ns, {cost.part!r} * foreign_handler_ns AS lost_ns FROM measured
WHERE layer = 'block' AND foreign_handler_ns > 0 AND complete_cpu IN ({cpus}) AND device IN (SELECT device FROM irqs WHERE device IS NOT NULL)"""


def _signed_rank_p(more: Floats) -> float:
    """Probability that differences that scatter around nothing come out like these.

    Their size counts: a handler that begins in the middle of a recording has nothing to show in half of the blocks.
    """
    if not np.any(more > 0):
        return 1.0
    from scipy import stats as distributions  # slow to import, and seldom needed

    return float(distributions.wilcoxon(more, alternative="greater").pvalue)


def _leaf_latency(survey: Survey, loads: list[Load]) -> float:
    devices = {load.device for load in loads}
    return max(1.0, sum(s.latency_ns for s in survey.strata if s.device in devices))


def _foreign_candidate(
    context: Context, survey: Survey, own: list[Handler], handlers: list[Handler], loads: list[Load]
) -> Candidate | None:
    cost = _cost(own, handlers, loads)
    if cost is None or cost.total_ns <= 0:
        return None
    shared = _shared_vectors(own, handlers)
    victims = _victims(cost)
    # Those that share the vector first: the others only share its CPU.
    on_vector = {
        d for h in handlers if h.vector in shared and h.name != own[0].name and (d := h.device)
    } & set(victims)
    main = next((v for v in victims if v in on_vector), victims[0] if victims else "")
    if not main:
        return None
    share = cost.total_ns / _leaf_latency(survey, loads)
    operations = sum(load.operations for load in loads)
    ratio, low, high = _p99_ratio(
        context, survey, main, sorted({load.device for load in loads} - set(victims))
    )
    busy = max(sum(h.total_ns for h in own if h.cpu == cpu) for cpu in cost.cpus) / survey.span_ns
    lost_sql = _lost_sql(cost)
    # What costs less is no finding, whatever it does to the slowest.
    worse = p99_ratio(context, lost_sql) if share >= SHARE_OF_LATENCY_FLOOR else None
    name = own[0].name
    claim = (
        f"{main} is slow because {_vectors(shared, own)} with the handler {name}, which takes "
        f"{words.duration(max(h.median_ns for h in own))} per call and {words.percent(busy)} of that CPU. The mean over all "
        f"operations hides it: {words.duration(cost.total_ns / max(1, operations))} more"
        + (
            f", while {main}'s p99 is {words.significant(ratio)} times its peers'."
            if np.isfinite(ratio)
            else "."
        )
    )
    beside = [device for device in victims if device != main]
    if beside:
        claim += f" {words.listed(beside)} {'suffers' if len(beside) == 1 else 'suffer'} too: interrupts go to the same CPU."
    return Candidate(
        culprit=Culprit("vector", str(shared[0]) if shared else name, f"handler:{name}"),
        claim=claim,
        baseline="the same operations without the time in which that handler ran before theirs",
        effect=Effect("p99 latency", ratio, "x peers", low, high)
        if np.isfinite(ratio)
        else Effect("part of latency", share, "1"),
        share_of_excess=_of_all_waits(cost, loads),
        share_of_latency=share,
        p_value=cost.p_value,
        episodes=cost.blocks,
        evidence=_evidence(context, survey),
        refute=f"Move {_vectors_short(shared, name)} to a CPU of its own, or stop what drives {name}, and repeat: if {main} "
        "stays slow, the handler is innocent.",
        remedy=f"Unload the module behind {name} if it is not needed (modprobe -r), or give the drive a vector that it "
        f"does not share (fewer vectors per drive), or move the interrupt: echo CPU > /proc/irq/{shared[0] if shared else 'N'}/smp_affinity_list.",
        otherwise=claim,
        explains=none_of(context.slow),
        causes=(*(("device", device) for device in victims), ("stage", "interrupt")),
        large=_large(share, worse),
        p99_ratio=worse,
        lost_sql=lost_sql,
    )


def _large(share: float, p99_ratio: float | None) -> bool:
    """What handlers cost was seen, run by run: less of it counts, if the slowest operations owe it much."""
    return share >= SHARE_OF_LATENCY_MIN or (
        share >= SHARE_OF_LATENCY_FLOOR and p99_ratio is not None and p99_ratio >= SEEN_P99_RATIO_MIN
    )


def _evidence(context: Context, survey: Survey) -> list[Evidence]:
    busiest = handlers_sql(survey, limit=12)
    return [
        evidence(context.case, "handlers by vector and CPU, the busiest first", busiest),
        evidence(context.case, "what each device's interrupts waited for", _devices_sql()),
    ]


def _shared_vectors(own: list[Handler], handlers: list[Handler]) -> list[int]:
    """Vectors on which the handler runs beside a block device's; those that cost least are left out."""
    cost: dict[int, float] = {}
    for h in own:
        if h.vector is not None and any(
            o.vector == h.vector and o.name != h.name and o.device for o in handlers
        ):
            cost[h.vector] = cost.get(h.vector, 0.0) + h.total_ns
    worst = max(cost.values(), default=0.0)
    return sorted(vector for vector, total in cost.items() if total >= 0.5 * worst)


def _victims(cost: Cost) -> list[str]:
    """Devices that the handler really slows, the worst first."""
    means = {device: ns / max(1, n) for device, (ns, n) in cost.per_device.items()}
    worst = max(means.values(), default=0.0)
    chosen = [device for device, mean in means.items() if mean > 0 and mean >= VECTOR_SUFFERS * worst]
    return sorted(chosen, key=lambda device: (-means[device], device))


def _vectors(shared: list[int], own: list[Handler]) -> str:
    if shared:
        names = words.listed([str(vector) for vector in shared])
        return f"vector {names} is shared" if len(shared) == 1 else f"vectors {names} are shared"
    cpus = words.listed([str(cpu) for cpu in sorted({h.cpu for h in own})])
    return f"its interrupts share CPU {cpus}"


def _vectors_short(shared: list[int], name: str) -> str:
    return f"vector {words.listed([str(v) for v in shared])}" if shared else f"the interrupt of {name}"


def _devices_sql() -> str:
    return """SELECT device, vector, complete_cpu, count(*) AS operations, CAST(avg(latency_ns) AS BIGINT) AS mean_ns,
  CAST(avg(interrupt_ns) AS BIGINT) AS mean_interrupt_ns, CAST(avg(foreign_handler_ns) AS BIGINT) AS mean_foreign_ns
FROM measured WHERE layer = 'block' AND device IN (SELECT device FROM irqs WHERE device IS NOT NULL)
GROUP BY 1, 2, 3 ORDER BY 7 DESC, 1, 2, 3 LIMIT 40"""


def _p99_ratio(context: Context, survey: Survey, victim: str, peers: list[str]) -> tuple[float, float, float]:
    """p99 of the victim over its peers', with the 95 % interval of resampled time blocks."""
    if not peers:
        return float("nan"), float("nan"), float("nan")
    listed = ", ".join(quoted(device) for device in (victim, *peers))
    data = context.case.arrays(
        f"""SELECT {survey.time_bin_sql(VECTOR_BLOCKS)} AS block, device = {quoted(victim)} AS mine, {LATENCY_BIN} AS bin, count(*) AS n
FROM measured WHERE layer = 'block' AND device IN ({listed}) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
    )
    bins, place = np.unique(data["bin"].astype(np.int64), return_inverse=True)
    counts = np.zeros((2, VECTOR_BLOCKS, len(bins)))
    counts[data["mine"].astype(int), data["block"].astype(int), place] = data["n"]
    values = bin_middle_ns(bins)

    def ratio(weights: Floats) -> float:
        both = [quantile_from_bins(values, weights @ counts[side], 0.99) for side in (1, 0)]
        return both[0] / max(1.0, both[1])

    generator = np.random.default_rng(SEED)
    draws = generator.multinomial(VECTOR_BLOCKS, np.full(VECTOR_BLOCKS, 1 / VECTOR_BLOCKS), 200)
    low, high = np.percentile([ratio(draw.astype(np.float64)) for draw in draws], [2.5, 97.5])
    return ratio(np.ones(VECTOR_BLOCKS)), float(low), float(high)


# -- all interrupts on one CPU ----------------------------------------------------------------


def _crowded_candidate(
    context: Context, survey: Survey, handlers: list[Handler], loads: list[Load]
) -> Candidate | None:
    """Devices' own handlers, crowded on one CPU: what they cost each other, whoever submits."""
    total = sum(load.operations for load in loads)
    per_cpu: dict[int, int] = {}
    for load in loads:
        per_cpu[load.cpu] = per_cpu.get(load.cpu, 0) + load.operations
    cpu = max(sorted(per_cpu), key=lambda number: per_cpu[number])
    own = [h for h in handlers if h.cpu == cpu and h.device]
    vectors = {h.vector for h in own}
    submitting = _submitting(context)
    if per_cpu[cpu] < VECTOR_ONE_CPU * total or len(vectors) < 2:
        return None
    cost = _cost(own, handlers, [load for load in loads if load.cpu == cpu])
    if cost is None:
        return None
    share = cost.total_ns / _leaf_latency(survey, loads)
    lost_sql = _lost_sql(cost)
    held = lost_in_blocks(context, lost_sql, "lost_ns")
    if held is None:
        return None
    low, high = _interval(cost, loads, cpu, survey)
    worse = p99_ratio(context, lost_sql)
    busy = sum(h.total_ns for h in own) / survey.span_ns
    claim = (
        f"CPU {cpu} completes {words.percent(per_cpu[cpu] / total)} of all requests; {words.things(submitting, 'CPU')} "
        f"{'submits' if submitting == 1 else 'submit'} them. {len(vectors)} vectors of "
        f"{words.things(len({h.device for h in own}), 'device')} go there, and their handlers take {words.percent(busy)} of it. "
        f"A request waits {words.duration(cost.total_ns / max(1, per_cpu[cpu]))} for other requests' handlers, "
        f"{words.percent(share)} of its latency."
    )
    return Candidate(
        culprit=Culprit("vector", f"cpu {cpu}", "affinity"),
        claim=claim,
        baseline="the same requests, each completed on a CPU where no other device's handler is in front of it",
        effect=Effect("part of latency", share, "1", low, high),
        share_of_excess=_of_all_waits(cost, loads),
        share_of_latency=share,
        p_value=0.0,
        episodes=held.windows,
        basis="measured",
        summed=True,
        evidence=_evidence(context, survey),
        refute="Spread the vectors over the CPUs that submit and repeat: if requests take as long, the crowd is innocent.",
        remedy=f"Spread them: echo CPU > /proc/irq/N/smp_affinity_list for the vectors {_first(vectors)} ..., one CPU "
        "each, and see who set them (irqbalance, the driver, a boot parameter).",
        otherwise=claim,
        explains=none_of(context.slow),
        causes=(("stage", "interrupt"),),
        large=_large(share, worse),
        p99_ratio=worse,
        lost_sql=lost_sql,
    )


def _first(vectors: set[int | None]) -> str:
    return words.listed([str(vector) for vector in sorted(v for v in vectors if v is not None)[:3]])


def _submitting(context: Context) -> int:
    """CPUs that submit a noticeable part of the requests."""
    rows = context.case.rows(
        "SELECT cpu, count(*) AS n FROM measured WHERE layer = 'block' AND cpu IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    total = sum(_int(row["n"]) for row in rows)
    return sum(_int(row["n"]) >= 0.02 * total for row in rows)


def _interval(cost: Cost, loads: list[Load], cpu: int, survey: Survey) -> tuple[float, float]:
    """95 % interval of the share, time blocks resampled."""
    per_block = np.zeros(VECTOR_BLOCKS)
    for load in loads:
        if load.cpu == cpu:
            per_block[load.block] += load.foreign_ns
    factor = cost.total_ns / max(1.0, float(per_block.sum())) / _leaf_latency(survey, loads)
    generator = np.random.default_rng(SEED)
    picks: Any = generator.integers(0, VECTOR_BLOCKS, (1000, VECTOR_BLOCKS))
    low, high = np.percentile(per_block[picks].sum(axis=1) * factor, [2.5, 97.5])
    return float(low), float(min(1.0, high))


DETECTOR = Detector(
    name="shared_vector",
    needs=("irqs.handler", "ops/block.foreign_handler_ns"),
    needs_stages=(),
    null_model="operations that complete on the handler's CPUs spend as long in interrupts as those on other CPUs (without "
    "others: as in their own handlers): a signed-rank test over blocks of time",
    smallest_effect="5 % of the latency of all requests, or 1 % and a 99th percentile 10 % above that without it",
    run=run,
)
