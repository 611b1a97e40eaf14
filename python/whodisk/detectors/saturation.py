"""Latency that Little's law and depth explain: nothing is broken, and a stated limit binds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from whodisk import words
from whodisk.detectors.base import Context, Detector, Result
from whodisk.survey import Stratum
from whodisk.types import Cell

#: Little's law counts as fulfilled when throughput x latency is this close to the depth.
LITTLE_TOLERANCE = 0.10
#: A fixed rate counts as achieved from this part on.
RATE_ACHIEVED = 0.99
#: Latency that grows at least with this power of the depth means that more depth brings nothing.
SATURATED_SLOPE = 0.75
#: Sync or flush operations that take this part of the time make the workload bound by them.
SYNC_SHARE = 0.5


@dataclass
class Load:
    """What the workload kept in flight."""

    #: Operations per second.
    throughput: float
    #: Mean time an operation holds its slot, ns (without waiting for its turn).
    held_ns: float
    median_ns: float
    p99_ns: float
    #: Slots the workload may fill; None if it is not known or inferred.
    depth: float | None
    #: Mean number in flight.
    in_flight: float
    kind: str
    bytes_per_s: float


def run(context: Context) -> Result:
    """The limit that binds, if there is one."""
    result = Result()
    load = _load(context)
    if load is None:
        return result
    spec = _spec(context)
    rate = _number(spec.get("rate_per_s"))
    if rate:
        _fixed_rate(context, result, load, rate)
    elif load.depth is not None:
        _closed_loop(context, result, load)
    else:
        _foreign(context, result, load)
    return result


def _spec(context: Context) -> dict[str, Any]:
    workload = context.case.meta.get("workload")
    if not isinstance(workload, dict):
        return {}
    spec = workload.get("spec")
    return spec if isinstance(spec, dict) else workload


def _number(value: object) -> float | None:
    return (
        float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        else None
    )


def _load(context: Context) -> Load | None:
    survey = context.survey
    weight = sum(s.weight for s in survey.strata)
    if weight <= 0:
        return None
    seconds = survey.span_ns / 1e9
    waited_ns = sum(float(s.stage_ns[0]) for s in survey.strata)
    held_ns = max(0.0, survey.latency_ns - waited_ns) / weight
    spec = _spec(context)
    depth, workers = _number(spec.get("queue_depth")), _number(spec.get("workers")) or 1.0
    ops = {s.op for s in survey.strata}
    return Load(
        throughput=weight / seconds,
        held_ns=held_ns,
        median_ns=survey.quantile_ns(survey.strata, 0.5),
        p99_ns=survey.quantile_ns(survey.strata, 0.99),
        depth=depth * workers if depth and context.layer == "app" else None,
        in_flight=weight * held_ns / survey.span_ns,
        kind=next(iter(ops)) if len(ops) == 1 else "operation",
        bytes_per_s=sum(s.size_bytes for s in survey.strata) / seconds,
    )


def _little(load: Load, depth: float) -> str:
    allowed = depth / (load.held_ns / 1e9) if load.held_ns > 0 else math.inf
    return (
        f"queue depth {words.significant(depth)} at {words.duration(load.held_ns)} per {load.kind} allows "
        f"{words.rate(allowed)} IOPS; measured {words.rate(load.throughput)}"
    )


def _fixed_rate(context: Context, result: Result, load: Load, rate: float) -> None:
    achieved = load.throughput / rate
    if achieved >= RATE_ACHIEVED:
        result.limit = f"the workload offers {words.rate(rate)} operations per second and gets them all"
        return
    reason = _little(load, load.depth) if load.depth else "the reason is not visible in this case"
    result.limit = (
        f"offered {words.rate(rate)} operations per second, achieved {words.rate(load.throughput)} "
        f"({words.percent(achieved)}): {reason}"
    )
    result.limited = True


def _closed_loop(context: Context, result: Result, load: Load) -> None:
    assert load.depth is not None
    sync = _sync_limit(context, load)
    if sync:
        result.limit, result.limited = sync, True
        return
    filled = load.in_flight / load.depth
    if filled >= 1 - LITTLE_TOLERANCE:
        result.limit = _little(load, load.depth) + _bandwidth(load) + _saturated(context)
        result.limited = True
        return
    result.limit = (
        f"the submitting program: it may keep {words.significant(load.depth)} in flight and kept "
        f"{words.significant(load.in_flight)} ({_little(load, load.depth)})"
    )
    result.limited = True


def _foreign(context: Context, result: Result, load: Load) -> None:
    """Other programs: the depth is inferred from what was in flight at the block layer."""
    device = _busiest_device(context)
    if device is None:
        return
    rows = _depths(context, device)
    total = sum(_int(row["n"]) for row in rows)
    if total == 0:
        return
    depth = _upper_depth(rows, total)
    operations, busy_ns = _device_load(context, device)
    in_flight = busy_ns / context.survey.span_ns
    flush = _flush_share(context, device)
    if depth <= 0:
        return
    here = Load(
        throughput=operations / (context.survey.span_ns / 1e9),
        held_ns=busy_ns / operations,
        median_ns=load.median_ns,
        p99_ns=load.p99_ns,
        depth=float(depth),
        in_flight=in_flight,
        kind="request",
        bytes_per_s=load.bytes_per_s,
    )
    if flush >= SYNC_SHARE:
        result.limit = (
            f"flushes of {device}: they take {words.percent(flush)} of the time, one after the other"
        )
        result.limited = True
    elif in_flight / depth >= 1 - LITTLE_TOLERANCE:
        serial = "one request at a time: " if depth == 1 else ""
        result.limit = f"{device}: {serial}{_little(here, depth)}{_bandwidth(here)}{_saturated(context)}"
        result.limited = True


def _busiest_device(context: Context) -> str | None:
    held: dict[str, float] = {}
    for stratum in context.survey.strata:
        held[stratum.device] = held.get(stratum.device, 0.0) + stratum.latency_ns
    return max(sorted(held), key=lambda name: held[name]) if held else None


def _device_load(context: Context, device: str) -> tuple[float, float]:
    strata = context.survey.select(device)
    return sum(s.weight for s in strata), sum(s.latency_ns for s in strata)


def _depths(context: Context, device: str) -> list[dict[str, Cell]]:
    name = device.replace("'", "''")
    return context.case.rows(
        f"""SELECT queue_depth, count(*) AS n FROM measured
WHERE layer = '{context.layer}' AND coalesce(device, '') = '{name}' AND queue_depth > 0
GROUP BY 1 ORDER BY 1"""
    )


def _upper_depth(rows: list[dict[str, Cell]], total: int) -> int:
    """The depth that 95 % of the requests found, themselves included."""
    seen = 0
    for row in rows:
        seen += _int(row["n"])
        if seen >= 0.95 * total:
            return _int(row["queue_depth"])
    return 0


def _int(value: Cell) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _flush_share(context: Context, device: str) -> float:
    busy = sum(s.latency_ns for s in context.survey.select(device) if s.op in ("flush", "sync"))
    return busy / context.survey.span_ns


def _sync_limit(context: Context, load: Load) -> str | None:
    """Workloads that wait for a sync most of the time."""
    strata = [s for s in context.survey.strata if s.op == "sync"]
    if not strata or load.depth is None:
        return None
    spec = _spec(context)
    workers = _number(spec.get("workers")) or 1.0
    busy = sum(s.latency_ns for s in strata) / (workers * context.survey.span_ns)
    if busy < SYNC_SHARE:
        return None
    number = sum(s.weight for s in strata)
    mean_ns = sum(s.latency_ns for s in strata) / number
    return (
        f"sync writes: each worker waits {words.percent(busy)} of the time for a sync, {words.duration(mean_ns)} "
        f"each, {words.rate(number / (context.survey.span_ns / 1e9))} per second"
    )


def _bandwidth(load: Load) -> str:
    mean_bytes = load.bytes_per_s / load.throughput if load.throughput else 0
    return f" ({words.size(load.bytes_per_s)}/s)" if mean_bytes >= 65536 else ""


def _saturated(context: Context) -> str:
    """Whether latency grew in proportion to depth where the case has several depths of one kind."""
    strata = context.surveys.get("block", context.survey).strata
    if not strata:
        return ""
    main = max(strata, key=lambda s: s.latency_ns)
    same = [s for s in strata if _same_kind(s, main) and s.operations >= 0.01 * main.operations]
    low = min(same, key=lambda s: s.depth_class)
    octaves = main.depth_class - low.depth_class
    if octaves < 2 or low.own_median_ns <= 0:
        return ""
    slope = math.log2(main.own_median_ns / low.own_median_ns) / octaves
    if slope < SATURATED_SLOPE:
        return ""
    return (
        f"; {main.device or 'the device'} is at its limit: latency grows with depth "
        f"({words.duration(low.own_median_ns)} at about {2**low.depth_class}, "
        f"{words.duration(main.own_median_ns)} at about {2**main.depth_class})"
    )


def _same_kind(stratum: Stratum, main: Stratum) -> bool:
    return (stratum.device, stratum.op, stratum.size_class) == (main.device, main.op, main.size_class)


DETECTOR = Detector(
    name="saturation",
    needs=("judged.start_ns", "judged.latency_ns"),
    needs_stages=(),
    null_model="Little's law: in a closed loop throughput x latency equals depth; no test, an identity to check",
    smallest_effect="throughput x latency within 10 % of the depth",
    run=run,
)
