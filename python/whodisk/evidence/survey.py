"""One pass over all operations of a layer: histograms per stratum, and what is typical there.

A stratum is (device, operation kind, size class, queue depth class); both classes are octaves.
Everything later works on this survey and on the few slow operations only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.thresholds import (
    DRAWN_OPERATIONS,
    SURVEY_BLOCKS,
    THINNED_OPERATIONS_MAX,
    TRUSTED_BLOCKS,
    TRUSTED_OPERATIONS,
)
from whodisk.reading.views import BINS_PER_OCTAVE, STAGES, Case
from whodisk.reading.weighted_rows import FIRST_COPY
from whodisk.statistics.stats import Floats, Ints, quantile_from_bins


def _octave(column: str) -> str:
    """Expression: the octave of a number; -1 of none, and of 0."""
    return f"CAST(floor(log2(greatest(CAST(coalesce({column}, 0) AS DOUBLE), 0.5e0))) AS INTEGER)"


SIZE_CLASS = _octave("size_bytes")
DEPTH_CLASS = _octave("queue_depth")
#: Of what was written before a flush (`flush_work`).
WRITTEN_CLASS = _octave("written_bytes")


def bin_sql(time: str) -> str:
    """Expression: histogram bin of a time, ns; `bin_middle_ns` is the way back."""
    return f"CAST(floor(log2(greatest({time}, 1)) * {BINS_PER_OCTAVE}) AS INTEGER)"


LATENCY_BIN = bin_sql("latency_ns")
#: A prime: operations are chosen by their number modulo this, in an order that their numbers do not have.
_THIN = 1_000_003
_LOT = f"(op_id % {_THIN}) * 7919 % {_THIN}"


def is_thinned(operations: float, most: int | None = None) -> bool:
    """Whether `thinned` leaves out any of this many operations."""
    return operations > (THINNED_OPERATIONS_MAX if most is None else most)


def thinned(operations: float, most: int | None = None) -> str:
    """SQL: keeps about `most` (None: THINNED_OPERATIONS_MAX) of this many operations, by operation id, so always the same ones."""
    most = THINNED_OPERATIONS_MAX if most is None else most
    if not is_thinned(operations, most):
        return "true"
    return f"{_LOT} < {int(_THIN * most / operations)}"


def drawn(operations: int) -> str:
    """SQL: keeps about `DRAWN_OPERATIONS` of this many operations, in the same way."""
    return f"{_LOT} < {max(1, round(_THIN * min(1.0, DRAWN_OPERATIONS / max(1, operations))))}"


@dataclass
class Stratum:
    """Operations that can be compared with each other."""

    device: str
    op: str
    size_class: int
    depth_class: int
    #: Ascending latency bins: middle of each (ns), operations in each.
    bins: Ints
    counts: Ints
    operations: int
    weight: float
    latency_ns: float
    #: Sum per stage of `STAGES`, ns.
    stage_ns: Floats
    #: Largest value per stage, ns.
    stage_max_ns: Floats
    latency_max_ns: int
    size_bytes: float
    #: Part of the time blocks it occurs in.
    blocks: float
    #: Rows that were recorded: fewer than `operations` in a sampled case.
    seen: int
    #: Position in `Survey.strata`.
    number: int = 0
    #: Typical latency and stages: from this stratum, or from its nearest trusted neighbour.
    typical_ns: float = 0.0
    typical_stage_ns: Floats | None = None

    @property
    def own_median_ns(self) -> float:
        """Median latency of these operations, ns (to half a bin, 0.5 %)."""
        return quantile_from_bins(bin_middle_ns(self.bins), self.counts, 0.5)

    @property
    def typical_stages(self) -> Floats:
        """Typical time per stage, ns; sums to about `typical_ns`."""
        assert self.typical_stage_ns is not None, "typicals are filled in by survey_layer"
        return self.typical_stage_ns


def time_bin_sql(begin_ns: int, span_ns: int, bins: int, moment: str = "start_ns") -> str:
    """Expression: in which of `bins` equal parts of a window a row begins (or another moment of it lies); what lies outside counts to the nearest."""
    return f"CAST(least({bins - 1}, greatest(0, floor(({moment} - {begin_ns}) * {bins / span_ns!r}))) AS INTEGER)"


@dataclass
class Survey:
    """A layer as one pass sees it."""

    layer: str
    strata: list[Stratum]
    #: Measured time window, ns since the case's start.
    begin_ns: int
    end_ns: int
    #: Stages that are not NULL everywhere.
    stages_observed: frozenset[str]
    #: Strata by device, filled at first use: there may be a hundred thousand devices.
    _of_device: dict[str, list[Stratum]] = field(default_factory=dict, repr=False)

    @property
    def operations(self) -> int:
        return sum(stratum.operations for stratum in self.strata)

    @property
    def seen(self) -> int:
        """Operations that were recorded: fewer than `operations` in a sampled case."""
        return sum(stratum.seen for stratum in self.strata)

    @property
    def latency_ns(self) -> float:
        """Latency of all operations together (weighted), ns."""
        return sum(stratum.latency_ns for stratum in self.strata)

    @property
    def span_ns(self) -> int:
        """Length of the measured window."""
        return max(1, self.end_ns - self.begin_ns)

    def time_bin_sql(self, bins: int, moment: str = "start_ns") -> str:
        """Expression: in which of `bins` equal parts of the window a row begins (or another moment of it lies), 0 to bins - 1."""
        return time_bin_sql(self.begin_ns, self.span_ns, bins, moment)

    def by_device(self) -> dict[str, int]:
        """Operations of each device."""
        counts: dict[str, int] = {}
        for stratum in self.strata:
            counts[stratum.device] = counts.get(stratum.device, 0) + stratum.operations
        return counts

    def select(self, device: str | None = None, op: str | None = None) -> list[Stratum]:
        """Strata of a device and an operation kind; None = any."""
        if device is None:
            return [s for s in self.strata if op in (None, s.op)]
        if not self._of_device:
            for stratum in self.strata:
                self._of_device.setdefault(stratum.device, []).append(stratum)
        return [s for s in self._of_device.get(device, []) if op in (None, s.op)]

    def families(self) -> list[tuple[str, str]]:
        """Every (device, op), the busiest first."""
        weights: dict[tuple[str, str], float] = {}
        for stratum in self.strata:
            key = (stratum.device, stratum.op)
            weights[key] = weights.get(key, 0.0) + stratum.latency_ns
        return sorted(weights, key=lambda key: (-weights[key], key))

    def histogram(self, strata: list[Stratum]) -> tuple[Floats, Ints]:
        """Latency (ns, ascending) and number of operations over several strata."""
        return _merged([s.bins for s in strata], [s.counts for s in strata])

    def quantile_ns(self, strata: list[Stratum], quantile: float) -> float:
        """Latency quantile over several strata, ns, to half a bin."""
        values, counts = self.histogram(strata)
        return quantile_from_bins(values, counts, quantile)


def bin_middle_ns(bins: Ints) -> Floats:
    """Latency in the (geometric) middle of histogram bins, ns."""
    return np.exp2((bins + 0.5) / BINS_PER_OCTAVE)


def survey_sql(case: Case, layer: str, begin_ns: int, end_ns: int) -> str:
    """The histogram pass over a layer. Unfinished operations count with their age, a lower bound."""
    # Columns that are the same everywhere need not be read.
    alike = {name: value for name, value in case.constant_columns(layer).items() if value is not None}
    # Multiplying by a weight of 1 would be a third of the whole cost.
    if _is_weighted(case, layer):

        def total(column: str) -> str:
            return f"sum(CAST({column} * CAST(weight AS DOUBLE) AS BIGINT))"

        operations = "sum(CAST(weight AS DOUBLE))"
    else:

        def total(column: str) -> str:
            if column in alike:
                return f"CAST(count(*) AS DOUBLE) * {alike[column]}"
            # Exact up to 104 days in one bin, and quicker than integers of 128 bits.
            return f"sum(CAST({column} AS DOUBLE))"

        operations = "CAST(count(*) AS DOUBLE)"

    def largest(column: str) -> str:
        return f"CAST({alike[column]} AS BIGINT)" if column in alike else f"max({column})"

    listed = _stages_listed(case, layer)
    sums = ", ".join(
        f"{total(s + '_ns')} AS {s}_sum, {largest(s + '_ns')} AS {s}_max"
        if s in listed
        else f"CAST(NULL AS BIGINT) AS {s}_sum, CAST(NULL AS BIGINT) AS {s}_max"
        for s in STAGES
    )
    # As in `time_bin_sql`, but whole numbers (which do not overflow): this is a good part of the pass.
    place = f"(start_ns - {begin_ns}) // {max(1, -((begin_ns - end_ns) // SURVEY_BLOCKS))}"
    block = f"least({SURVEY_BLOCKS - 1}, greatest(0, {place}))"
    seen = f" count(CASE WHEN {FIRST_COPY} THEN 1 END) AS n_seen," if layer in case.copied else ""
    return f"""SELECT coalesce(device, '') AS device, op,
  {_octave(str(alike.get("size_bytes", "size_bytes")))} AS size_class,
  {_octave(str(alike.get("queue_depth", "queue_depth")))} AS depth_class,
  {LATENCY_BIN} AS bin,
  count(*) AS n,{seen} {operations} AS n_weighted, {total("latency_ns")} AS latency_sum,
  max(latency_ns) AS latency_max, bit_or(CAST(1 AS BIGINT) << {block}) AS blocks,
  {total("size_bytes")} AS size_sum,
  {sums}
FROM judged WHERE layer = '{layer}'
GROUP BY 1, 2, 3, 4, 5
ORDER BY 1, 2, 3, 4, 5"""


def _is_weighted(case: Case, layer: str) -> bool:
    rows = case.rows(f"SELECT min(weight) AS low, max(weight) AS high FROM judged WHERE layer = '{layer}'")
    return not rows[0]["low"] == rows[0]["high"] == 1


def _stages_listed(case: Case, layer: str) -> tuple[str, ...]:
    """Stages that case.json lists for a layer (all where it lists none), as far as there is something in them."""
    listed = ((case.meta.get("layers") or {}).get(layer) or {}).get("stages") or {}
    empty = {name for name, value in case.constant_columns(layer).items() if value is None}
    return tuple(
        s for s in tuple(s for s in STAGES if f"{s}_ns" in listed) or STAGES if f"{s}_ns" not in empty
    )


def measured_window(case: Case, layer: str) -> tuple[int, int]:
    """Begin and end of what counts, ns since the case's start."""
    phases = case.phases()
    if phases:
        return min(begin for begin, _ in phases), max(end for _, end in phases)
    if case.duration_ns is not None:
        return 0, case.duration_ns
    row = case.rows(
        f"SELECT min(start_ns) AS low, max(start_ns + latency_ns) AS high FROM measured WHERE layer = '{layer}'"
    )[0]
    return int(row["low"] or 0), int(row["high"] or 0) + 1


def survey_layer(case: Case, layer: str) -> Survey:
    """Runs the histogram pass and fills in what is typical in each stratum."""
    begin_ns, end_ns = measured_window(case, layer)
    data = case.arrays(survey_sql(case, layer, begin_ns, end_ns))
    observed = frozenset(s for s in STAGES if not np.isnan(_numbers(data[f"{s}_sum"])).all())
    survey = Survey(layer, _strata(data), begin_ns, end_ns, observed)
    for number, stratum in enumerate(survey.strata):
        stratum.number = number
    _fill_typicals(survey, data)
    return survey


def _strata(data: dict[str, npt.NDArray[Any]]) -> list[Stratum]:
    if len(data["n"]) == 0:
        return []
    keys = ("device", "op", "size_class", "depth_class")
    changed = np.zeros(len(data["n"]), np.bool_)
    changed[0] = True
    for key in keys:
        changed[1:] |= data[key][1:] != data[key][:-1]
    begins = np.flatnonzero(changed)
    ends = np.append(begins[1:], len(changed))
    used = int(np.bitwise_or.reduce(data["blocks"].astype(np.int64)))
    # Once for all strata: there may be a hundred thousand.
    totals = {
        kind: np.add.reduceat(
            np.nan_to_num(np.column_stack([_numbers(data[f"{s}_sum"]) for s in STAGES]), nan=0.0),
            begins,
            axis=0,
        )
        if kind == "sum"
        else np.maximum.reduceat(
            np.nan_to_num(np.column_stack([_numbers(data[f"{s}_max"]) for s in STAGES]), nan=0.0).clip(0.0),
            begins,
            axis=0,
        )
        for kind in ("sum", "max")
    }
    return [
        _stratum(data, slice(b, e), used, totals["sum"][number], totals["max"][number])
        for number, (b, e) in enumerate(zip(begins, ends, strict=True))
    ]


def _stratum(
    data: dict[str, npt.NDArray[Any]], rows: slice, used: int, stage_sum: Floats, stage_max: Floats
) -> Stratum:
    first = rows.start
    blocks = int(np.bitwise_or.reduce(data["blocks"][rows].astype(np.int64)))
    return Stratum(
        device=str(data["device"][first]),
        op=str(data["op"][first]),
        size_class=int(data["size_class"][first]),
        depth_class=int(data["depth_class"][first]),
        bins=data["bin"][rows].astype(np.int64),
        counts=data["n"][rows].astype(np.int64),
        operations=int(data["n"][rows].sum()),
        weight=float(data["n_weighted"][rows].sum()),
        latency_ns=float(_numbers(data["latency_sum"][rows]).sum()),
        stage_ns=stage_sum,
        stage_max_ns=stage_max,
        latency_max_ns=int(data["latency_max"][rows].max()),
        size_bytes=float(np.nansum(_numbers(data["size_sum"][rows]))),
        blocks=blocks.bit_count() / max(1, used.bit_count()),
        seen=int(data.get("n_seen", data["n"])[rows].sum()),
    )


def _numbers(values: npt.NDArray[Any]) -> Floats:
    """Floats with NaN where SQL had NULL (an all-NULL column may arrive as objects)."""
    if values.dtype == object:
        return np.array([np.nan if v is None else float(v) for v in values])
    return values.astype(np.float64)


def _fill_typicals(survey: Survey, data: dict[str, npt.NDArray[Any]]) -> None:
    """Typical latency of a stratum: its own median if it is trusted, else its nearest neighbour's.

    Stages are the mean composition of the operations around the median (bins between the 25th and the
    75th percentile), scaled to the typical latency.
    """
    first = 0
    shapes: dict[int, Floats] = {}
    for stratum in survey.strata:
        rows = slice(first, first + len(stratum.bins))
        first = rows.stop
        shapes[id(stratum)] = _central_stages(stratum, data, rows)
    for stratum in survey.strata:
        model, factor = _model_of(survey, stratum)
        stratum.typical_ns = max(1.0, model.own_median_ns * factor)
        stratum.typical_stage_ns = shapes[id(model)] * stratum.typical_ns


def _central_stages(stratum: Stratum, data: dict[str, npt.NDArray[Any]], rows: slice) -> Floats:
    """Share of each stage in the latency of the operations around the median; sums to at most 1."""
    cumulated = np.cumsum(stratum.counts)
    low = np.searchsorted(cumulated, 0.25 * cumulated[-1])
    high = np.searchsorted(cumulated, 0.75 * cumulated[-1])
    central = slice(rows.start + int(low), rows.start + int(high) + 1)
    total = float(_numbers(data["latency_sum"][central]).sum())
    sums = np.array([np.nansum(_numbers(data[f"{s}_sum"][central])) for s in STAGES])
    return sums / total if total > 0 else sums * 0.0


def _model_of(survey: Survey, stratum: Stratum) -> tuple[Stratum, float]:
    """The stratum to take the typical latency from, and the factor for its queue depth.

    A depth class that hardly occurs outside a few moments is judged by the nearest one that does. At
    a saturated device latency grows at most in proportion to depth (Little's law), so the factor is
    the ratio of depths: generous, never an accusation.
    """
    if _trusted(stratum):
        return stratum, 1.0
    same = [
        s
        for s in survey.select(stratum.device, stratum.op)
        if s.size_class == stratum.size_class and _trusted(s)
    ]
    lower = [s for s in same if s.depth_class < stratum.depth_class]
    if lower:
        model = max(lower, key=lambda s: s.depth_class)
        return model, 2.0 ** (stratum.depth_class - model.depth_class)
    if same:
        return min(same, key=lambda s: s.depth_class), 1.0
    return stratum, 1.0


def _trusted(stratum: Stratum) -> bool:
    return stratum.seen >= TRUSTED_OPERATIONS and stratum.blocks >= TRUSTED_BLOCKS


def _merged(bins: list[Ints], counts: list[Ints]) -> tuple[Floats, Ints]:
    if not bins:
        return np.zeros(0), np.zeros(0, np.int64)
    values, inverse = np.unique(np.concatenate(bins), return_inverse=True)
    sums = np.zeros(len(values), np.int64)
    np.add.at(sums, inverse, np.concatenate(counts))
    return bin_middle_ns(values), sums


def ratio_histogram(strata: list[Stratum]) -> tuple[Floats, Ints]:
    """Latency over the stratum's typical (ascending) and number of operations, strata pooled."""
    if not strata:
        return np.zeros(0), np.zeros(0, np.int64)
    shifted = [
        np.round((s.bins + 0.5) - BINS_PER_OCTAVE * np.log2(s.typical_ns)).astype(np.int64) for s in strata
    ]
    values, inverse = np.unique(np.concatenate(shifted), return_inverse=True)
    sums = np.zeros(len(values), np.int64)
    np.add.at(sums, inverse, np.concatenate([s.counts for s in strata]))
    return np.exp2(values / BINS_PER_OCTAVE), sums
