"""A case as a run of `statistics.repeated`: moments with totals and a histogram, small whatever the number of operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whodisk.detectors.thresholds import STEADY_EXCURSION_MAX, STEADY_RANGE_MAX
from whodisk.errors import CaseError, WhodiskError
from whodisk.experiment.metrics import KINDS, PROGRAM_KINDS, TIER
from whodisk.reading.untimed import need_times
from whodisk.reading.views import STAGES, Case, mostly_within, quoted
from whodisk.statistics import steadiness
from whodisk.statistics.repeated import BINS_PER_OCTAVE, Run, low_edge, per_moment
from whodisk.statistics.stats import Floats, Ints

#: Moments that a run is cut into.
MOMENTS = 240
#: The slowest rows of a run are kept, to count episodes: this part of them, this many at least and at most.
KEPT_PART = 0.01
KEPT_MIN, KEPT_MAX = 20_000, 1_000_000
#: A stage is compared if it holds this part of all latency in some run.
STAGE_MIN = 0.002


@dataclass(frozen=True)
class Kind:
    """Operations of one kind ("" = reads, writes, and a program's own) of a run."""

    run: Run
    #: Begin and latency of the slowest, ns.
    slow_start_ns: Ints
    slow_latency_ns: Ints


@dataclass(frozen=True)
class Measured:
    """One run, ready to be compared."""

    path: Path
    layer: str
    kinds: dict[str, Kind]
    seconds: float
    operations: int
    #: Stages that hold a part of the latency worth telling.
    stages: tuple[str, ...]
    #: Names of stages that this observer could not distinguish.
    stage_names: dict[str, str]
    #: Operations in flight on average (Little's law).
    in_flight: float
    #: What a reader wants beside the numbers: kernel, version, device, fixed rate.
    about: dict[str, Any] = field(default_factory=dict)
    #: Whether the rate was in a steady state; None if the run is too short to say.
    steady: bool | None = None
    #: Seconds left out at the begin because the rate had not settled.
    left_out_s: float = 0.0
    simulated: bool = False

    @property
    def whole(self) -> Kind:
        """Reads, writes and a program's own operations; of a run without any, all operations."""
        return self.kinds[""]


def layers_of(path: Path) -> tuple[str, ...]:
    """Layers that a case has operations of."""
    with Case(path) as case:
        return case.layers


def _is_sampled(path: Path) -> bool:
    with Case(path) as case:
        return "series" in case.columns and bool(case.rows("SELECT 1 AS one FROM series LIMIT 1"))


def measure(path: Path, layer: str, *, settle: bool = False) -> Measured:
    """Reads one layer of a case. With `settle`, what comes before the rate is steady is left out.

    Raises CaseError for a case without that layer, or without an operation that ended.
    """
    with Case(path) as case:
        if layer not in case.layers:
            raise CaseError(
                path,
                "layers",
                f"operations of layer {layer}",
                ", ".join(case.layers) or "none",
                "choose --layer",
            )
        case.need_all_of(layer)
        need_times(case, layer)
        begin_ns, end_ns = _window(case, layer)
        left_out_s = 0.0
        if settle:
            series = _rate(case, layer, begin_ns, end_ns)
            out = steadiness.ramp_length(series, STEADY_RANGE_MAX, STEADY_EXCURSION_MAX) or 0
            left_out_s = (end_ns - begin_ns) * out / len(series) / 1e9
            begin_ns += int((end_ns - begin_ns) * out / len(series))
        return _measured(case, path, layer, (begin_ns, end_ns), left_out_s)


def _window(case: Case, layer: str) -> tuple[int, int]:
    row = case.rows(
        f"SELECT min(start_ns) AS low, max(start_ns) AS high, count(*) AS n FROM measured WHERE layer = '{layer}'"
    )[0]
    if not row["n"]:
        raise CaseError(case.path, f"layer {layer}", "operations that ended", "none", "record a longer run")
    low, high = int(row["low"] or 0), int(row["high"] or 0)
    phases = case.phases()
    if phases:
        # A phase that was to last longer than the run says nothing of the time after it.
        return min(start for start, _ in phases), max(
            high + 1, min(max(e for _, e in phases), case.duration_ns or high)
        )
    return low, max(high, low) + 1


def _rate(case: Case, layer: str, begin_ns: int, end_ns: int) -> Floats:
    step = (end_ns - begin_ns) / MOMENTS
    rows = case.arrays(
        f"SELECT CAST(floor((start_ns - {begin_ns}) / {step!r}) AS INTEGER) AS moment, count(*) AS n "
        f"FROM measured WHERE layer = '{layer}' GROUP BY 1"
    )
    series = np.zeros(MOMENTS)
    inside = (rows["moment"] >= 0) & (rows["moment"] < MOMENTS)
    series[rows["moment"][inside].astype(np.int64)] = rows["n"][inside]
    return series


def _measured(case: Case, path: Path, layer: str, window: tuple[int, int], left_out_s: float) -> Measured:
    begin_ns, end_ns = window
    step = (end_ns - begin_ns) / MOMENTS
    moment = f"CAST(floor((start_ns - {begin_ns}) / {step!r}) AS INTEGER)"
    where = f"layer = '{layer}' AND start_ns >= {begin_ns} AND start_ns < {end_ns}"
    sums = ", ".join(f"sum(coalesce({stage}_ns, 0)) AS {stage}" for stage in STAGES)
    totals = case.arrays(
        f"SELECT op, {moment} AS moment, count(*) AS operations, sum(latency_ns) AS latency, "
        f"sum(coalesce(size_bytes, 0)) AS bytes, {sums} FROM measured WHERE {where} GROUP BY 1, 2 ORDER BY 1, 2"
    )
    bins = case.arrays(
        f"SELECT op, {moment} AS moment, CAST(floor(log2(greatest(latency_ns, 1)) * {BINS_PER_OCTAVE}) AS INTEGER) AS bin, "
        f"count(*) AS n FROM measured WHERE {where} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
    if not len(totals["op"]):
        raise CaseError(path, f"layer {layer}", "operations that ended", "none", "record a longer run")
    seconds = (end_ns - begin_ns) / 1e9
    extra = _extra(case, begin_ns, step)
    kinds: dict[str, Kind] = {}
    present = {str(op) for op in totals["op"]}
    counted = tuple(sorted(present & {"read", "write", *PROGRAM_KINDS}))
    wanted = {"": counted or tuple(sorted(present))}
    wanted |= {op: (op,) for op in KINDS if op in present}
    for name, ops in wanted.items():
        run = _run(totals, bins, ops, seconds, extra if not name else {})
        kinds[name] = _with_slow(case, run, where, ops)
    of_all = kinds[""].run.totals
    latency = float(of_all["latency"].sum())
    stages = tuple(s for s in STAGES if float(of_all[s].sum()) >= STAGE_MIN * latency)
    rate = of_all["operations"]
    return Measured(
        path,
        layer,
        kinds,
        seconds,
        int(rate.sum()),
        stages,
        {stage: case.stage_name(layer, stage) for stage in stages},
        latency / 1e9 / seconds,
        _about(case),
        steadiness.judge(rate).within(STEADY_RANGE_MAX, STEADY_EXCURSION_MAX)
        if rate.sum() >= 20 * steadiness.ROUNDS
        else None,
        left_out_s,
        bool(case.meta.get("simulated")),
    )


def _run(
    totals: dict[str, Any],
    bins: dict[str, Any],
    ops: tuple[str, ...],
    seconds: float,
    extra: dict[str, Floats],
) -> Run:
    mine = np.isin(totals["op"].astype(str), ops)
    moment = totals["moment"][mine].astype(np.int64)
    made = {
        name: per_moment(moment, totals[name][mine].astype(np.float64), MOMENTS)
        for name in ("operations", "latency", "bytes", *STAGES)
    }
    made["seconds"] = np.full(MOMENTS, seconds / MOMENTS)
    chosen = np.isin(bins["op"].astype(str), ops)
    return Run(
        made | extra,
        bins["moment"][chosen].astype(np.int64),
        bins["bin"][chosen].astype(np.int64),
        bins["n"][chosen].astype(np.int64),
    )


def _with_slow(case: Case, run: Run, where: str, ops: tuple[str, ...]) -> Kind:
    """Adds the slowest operations."""
    order = np.argsort(run.bin, kind="stable")
    passed = np.cumsum(run.number[order])
    kept = max(KEPT_MIN, KEPT_PART * passed[-1])
    at = int(np.searchsorted(passed, max(0.0, passed[-1] - kept)))
    limit = float(low_edge(run.bin[order][[min(at, len(order) - 1)]])[0])
    named = ", ".join(f"'{op}'" for op in ops)
    rows = case.arrays(
        f"SELECT start_ns, latency_ns FROM measured WHERE {where} AND op IN ({named}) AND latency_ns >= {limit!r} "
        f"ORDER BY latency_ns DESC, start_ns LIMIT {KEPT_MAX}"
    )
    return Kind(run, rows["start_ns"].astype(np.int64), rows["latency_ns"].astype(np.int64))


def _extra(case: Case, begin_ns: int, step: float) -> dict[str, Floats]:
    """Totals of the prefetch and cache tables and of the answers to a copy, per moment."""
    found: dict[str, Floats] = {}

    def add(rows: dict[str, Any], names: dict[str, str]) -> None:
        inside = (rows["moment"] >= 0) & (rows["moment"] < MOMENTS)
        for name, column in names.items():
            weights = np.nan_to_num(rows[column][inside].astype(np.float64))
            found[name] = per_moment(rows["moment"][inside].astype(np.int64), weights, MOMENTS)

    if (answers := case.path / "copies.parquet").exists():
        # Where a copy got to, by what was answered: a read of an offload and its write are the same bytes.
        end = f"end_ns - {int(case.meta['clock']['start_ns'])}"
        rows = case.arrays(
            f"SELECT CAST(floor(({end} - {begin_ns}) / {step!r}) AS INTEGER) AS moment, sum(transferred_bytes) AS bytes "
            f"FROM {quoted(str(answers))} WHERE kind IN ('write', 'copy') GROUP BY 1"
        )
        add(rows, {"copied_bytes": "bytes"})
    if "prefetch" in case.columns:
        begin = f"greatest(start_ns, {begin_ns})"
        rows = case.arrays(
            f"SELECT CAST(floor(({begin} - {begin_ns}) / {step!r}) AS INTEGER) AS moment, sum(used_bytes) AS used, "
            "sum(issued_bytes) AS issued, sum(used_bytes + coalesce(missed_bytes, 0)) AS wanted FROM prefetch "
            f"WHERE {mostly_within(begin_ns, begin_ns + step * MOMENTS)} GROUP BY 1"
        )
        add(rows, {"prefetch_used": "used", "prefetch_issued": "issued", "prefetch_wanted": "wanted"})
    if "cache" in case.columns:
        moment = f"CAST(floor((r.start_ns - {begin_ns}) / {step!r}) AS INTEGER) AS moment"
        add(case.arrays(f"SELECT {moment}, {_TAILS}"), {"tail_misses": "tails", "looked_up_reads": "reads"})
        tiers = case.arrays(
            f"SELECT c.tier, {moment}, sum(c.size_bytes) AS bytes FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id "
            "GROUP BY 1, 2"
        )
        found["looked_up_bytes"] = np.zeros(MOMENTS)
        for tier in sorted({str(name) for name in tiers["tier"]}):
            mine = tiers["tier"].astype(str) == tier
            add({name: tiers[name][mine] for name in ("moment", "bytes")}, {f"{TIER}{tier}": "bytes"})
            found["looked_up_bytes"] = found["looked_up_bytes"] + found[f"{TIER}{tier}"]
    return found


#: Reads that waited for their end while their begin was there, and all reads that the cache table speaks of.
_TAILS = """count(DISTINCT r.op_id) AS reads, count(DISTINCT CASE WHEN c.wait_ns > 0 AND c.offset_bytes > r.offset_bytes
  AND c.offset_bytes + c.size_bytes >= r.offset_bytes + r.size_bytes THEN r.op_id END) AS tails
FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id WHERE r.op = 'read' GROUP BY 1"""


def _about(case: Case) -> dict[str, Any]:
    kernel = case.system.get("kernel")
    if isinstance(kernel, dict):
        kernel = kernel.get("release")
    return {
        "kernel": kernel,
        "whodisk": case.meta.get("tool_version") or case.meta.get("version"),
        "observer": case.meta.get("observer"),
        "offered_per_s": case.offered_per_s,
    }


def common_layer(paths: list[Path], wanted: str | None) -> str:
    """The layer to compare: the one asked for, else the topmost that all cases have. Raises WhodiskError if there is none."""
    if wanted is not None:
        return wanted
    layers = [layers_of(path) for path in paths]
    for layer in layers[0]:
        if all(layer in others for others in layers):
            return layer
    if sampled := [
        path for path, found in zip(paths, layers, strict=True) if not found and _is_sampled(path)
    ]:
        raise WhodiskError(
            f"{sampled[0]}: expected single operations, found samples or summaries only; compare two of such cases with whodisk solve CASE --against CASE"
        )
    each = "; ".join(
        f"{path}: {', '.join(found) or 'none'}" for path, found in zip(paths, layers, strict=True)
    )
    raise WhodiskError(
        f"expected a layer that all cases observed, found none ({each}); record the same layers"
    )
