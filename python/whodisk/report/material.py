"""What the report draws, gathered from the case's named views and aggregated until it is small.

Nothing here grows with the number of operations: histograms, the slowest few, sums.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.reading import views
from whodisk.reading.views import Case, Row
from whodisk.report import queries
from whodisk.statistics.stats import find_split

#: Time bins of the heat map before they are merged to stay below `CELLS_MAX`.
TIME_BINS = 1200
#: Latency bins per octave of the heat map: neighbours differ by 9 %.
HEAT_BINS_PER_OCTAVE = 8
#: Cells of all heat maps together; at about 4 bytes each they stay below 0.5 MB.
CELLS_MAX = 110_000
#: Devices with cells and curves of their own; the rest is drawn as one.
DEVICES_MAX = 8
#: Where no group stands apart: part of the operations called slow, and their least multiple of the median.
SLOW_PART = 0.001
SLOW_FACTOR = 3

Key = tuple[str, str, str | None]


@dataclass(frozen=True)
class Bins:
    """A latency histogram: exact lowest and highest latency of each bin, and its count."""

    low_ns: list[int]
    high_ns: list[int]
    n: list[int]

    @property
    def ops(self) -> int:
        """Operations in all bins."""
        return sum(self.n)

    def at(self, quantile: float) -> int:
        """Index of the bin that holds this quantile."""
        wanted = max(1, math.ceil(quantile * self.ops))
        seen = 0
        for index, n in enumerate(self.n):
            seen += n
            if seen >= wanted:
                return index
        return len(self.n) - 1


@dataclass(frozen=True)
class Threshold:
    """What is slow and what typical among the operations of one layer and kind."""

    layer: str
    op: str
    median_ns: int
    #: None where nothing is slow.
    slow_from_ns: int | None
    typical_from_ns: int
    typical_to_ns: int


def histograms(case: Case) -> dict[Key, Bins]:
    """Latency histograms by layer, kind and device; ramp phases left out."""
    rows = case.rows(
        "SELECT layer, op, device, bin, low_ns, high_ns, n FROM latency_histogram ORDER BY 1, 2, 3, 4"
    )
    gathered: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        gathered[(str(row["layer"]), str(row["op"]), _text(row["device"]))].append(row)
    return {key: _bins(members) for key, members in gathered.items()}


def summed(parts: dict[Key, Bins]) -> dict[tuple[str, str], Bins]:
    """The histograms over all devices."""
    cells: dict[tuple[str, str], dict[int, list[int]]] = defaultdict(dict)
    for (layer, op, _device), bins in parts.items():
        merged = cells[(layer, op)]
        for low, high, n in zip(bins.low_ns, bins.high_ns, bins.n, strict=True):
            cell = merged.setdefault(_bin_of(low), [low, high, 0])
            merged[_bin_of(low)] = [min(cell[0], low), max(cell[1], high), cell[2] + n]
    return {key: _sorted_bins(merged) for key, merged in cells.items()}


def _bin_of(latency_ns: int) -> int:
    return math.floor(math.log2(max(latency_ns, 1)) * views.BINS_PER_OCTAVE)


def _sorted_bins(merged: dict[int, list[int]]) -> Bins:
    rows = [merged[bin_] for bin_ in sorted(merged)]
    return Bins([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def _bins(rows: Iterable[Row]) -> Bins:
    return _sorted_bins(
        {whole(r["bin"]): [whole(r["low_ns"]), whole(r["high_ns"]), whole(r["n"])] for r in rows}
    )


def threshold(layer: str, op: str, bins: Bins) -> Threshold:
    """Slow: a group of its own beyond the body, else the slowest 0.1 % if beyond three medians.

    Typical: the middle half, without the slow ones.
    """
    median = max(1, bins.high_ns[bins.at(0.5)])
    latency = np.sqrt(np.maximum(bins.low_ns, 1) * np.maximum(bins.high_ns, 1).astype(np.float64))
    split = find_split(latency / median, np.array(bins.n, dtype=np.int64))
    limit = split.limit * median if split else SLOW_FACTOR * median
    if split is None:
        limit = max(limit, bins.low_ns[bins.at(1 - max(SLOW_PART, 1 / bins.ops) + 1e-12)])
    slow = next((low for low in bins.low_ns if low >= limit), None)
    low, high = bins.low_ns[bins.at(0.25)], bins.high_ns[bins.at(0.75)]
    return Threshold(layer, op, median, slow, low, high if slow is None else min(high, slow - 1))


def floor_ns(parts: dict[Key, Bins], layer: str, number: int) -> int:
    """A latency that at least `number` operations of a layer reach, close to the highest such; 0 if there are fewer."""
    cells = sorted(
        (
            pair
            for key, bins in parts.items()
            if key[0] == layer
            for pair in zip(bins.low_ns, bins.n, strict=True)
        ),
        reverse=True,
    )
    seen = 0
    for low, n in cells:
        seen += n
        if seen >= number:
            return low
    return 0


def shown_devices(parts: dict[Key, Bins]) -> list[str]:
    """The devices that get lines of their own: those with the slowest operations."""
    slowest: dict[str, int] = {}
    for (_layer, _op, device), bins in parts.items():
        if device is not None:
            slowest[device] = max(slowest.get(device, 0), bins.high_ns[-1])
    ranked = sorted(slowest, key=lambda name: (-slowest[name], name))
    return sorted(ranked if len(ranked) <= DEVICES_MAX else ranked[: DEVICES_MAX - 1])


def others_name(parts: dict[Key, Bins], shown: Sequence[str]) -> str:
    """Name of all devices that are not shown one by one."""
    names = {device for (_l, _o, device) in parts if device is not None}
    return f"{len(names) - len(shown)} other devices"


def curves(parts: dict[Key, Bins], shown: Sequence[str]) -> list[dict[str, Any]]:
    """Lines of the distribution by nines: per kind over all devices, and per device where there are two.

    `others`: the devices that are not shown one by one, as one line.
    """
    other = others_name(parts, shown)
    lines = [_curve(layer, op, None, bins) for (layer, op), bins in _ordered(summed(parts))]
    members = _grouped(parts, shown)
    many = {
        layer for layer in {key[0] for key in members} if len({k[2] for k in members if k[0] == layer}) > 1
    }
    lines += [
        {**_curve(layer, op, device, bins), "others": device == other}
        for (layer, op, device), bins in members.items()
        if layer in many
    ]
    return lines


def _grouped(parts: dict[Key, Bins], shown: Sequence[str]) -> dict[tuple[str, str, str], Bins]:
    """Histograms with the devices not shown as one; sorted by layer, kind and name."""
    other = others_name(parts, shown)
    groups: dict[tuple[str, str, str], dict[Key, Bins]] = defaultdict(dict)
    for key, bins in parts.items():
        device = "" if key[2] is None else key[2] if key[2] in shown else other
        groups[(key[0], key[1], device)][key] = bins
    ordered = sorted(groups, key=lambda key: (layer_rank(key[0]), op_rank(key[1]), key[2]))
    return {key: summed(groups[key])[(key[0], key[1])] for key in ordered}


def _curve(layer: str, op: str, device: str | None, bins: Bins) -> dict[str, Any]:
    """Points (latency, operations slower than it); the last point is the slowest operation itself."""
    latency, above, left = [bins.low_ns[0]], [bins.ops], bins.ops
    for high, n in zip(bins.high_ns, bins.n, strict=True):
        before, left = left, left - n
        last = left == 0
        if last:
            latency.append(high)
            above.append(before)
        if last or left < 0.99 * above[-1] or high > 1.05 * latency[-1]:
            latency.append(high)
            above.append(left)
    return {
        "layer": layer,
        "op": op,
        "device": device,
        "ops": bins.ops,
        "latency_ns": latency,
        "above": above,
    }


@dataclass(frozen=True)
class Cells:
    """Operations by time and latency, as `queries.cells` gives them: an array per column."""

    bin_ns: int
    bins: int
    columns: dict[str, npt.NDArray[Any]]


def cells(case: Case, end_ns: int, shown: Sequence[str]) -> Cells:
    """Reads the cells; the width of a time bin is a round number."""
    bin_ns = nice_step(end_ns / TIME_BINS)
    bins = max(1, math.ceil((end_ns + 1) / bin_ns))
    return Cells(bin_ns, bins, case.arrays(queries.cells(bin_ns, bins, HEAT_BINS_PER_OCTAVE, shown)))


def heatmap(found: Cells, other: str) -> dict[str, Any]:
    """Counts over time and latency, sparse, and the slowest operation of every time bin."""
    columns = found.columns
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index, (layer, op, named, device) in enumerate(
        zip(columns["layer"], columns["op"], columns["named"], columns["device"], strict=True)
    ):
        groups[(layer, op, ("" if _text(device) is None else device) if named else other)].append(index)
    factor = 1
    while True:
        series = [_series(key, columns, np.array(groups[key]), factor) for key in _heat_order(groups)]
        if sum(_cells(one) for one in series) <= CELLS_MAX or factor >= found.bins:
            break
        factor *= 2
    return {
        "bin_ns": found.bin_ns * factor,
        "bins": math.ceil(found.bins / factor),
        "bins_per_octave": HEAT_BINS_PER_OCTAVE,
        "other": other,
        "series": series,
    }


def _heat_order(groups: dict[tuple[str, str, str], list[int]]) -> list[tuple[str, str, str]]:
    return sorted(groups, key=lambda key: (layer_rank(key[0]), op_rank(key[1]), key[2]))


def _series(
    key: tuple[str, str, str], cells: dict[str, npt.NDArray[Any]], rows: npt.NDArray[Any], factor: int
) -> dict[str, Any]:
    time = cells["time_bin"][rows].astype(np.int64) // factor
    latency = cells["latency_bin"][rows].astype(np.int64)
    place, member = np.unique(np.stack([time, latency], axis=1), axis=0, return_inverse=True)
    n = np.bincount(member.ravel(), weights=cells["n"][rows].astype(np.float64))
    when, slot = np.unique(time, return_inverse=True)
    worst = np.zeros(len(when), dtype=np.int64)
    np.maximum.at(worst, slot.ravel(), cells["worst_ns"][rows].astype(np.int64))
    runs = _runs(place[:, 0].tolist(), place[:, 1].tolist(), np.rint(n).astype(np.int64).tolist())
    return {
        "layer": key[0],
        "op": key[1],
        "device": key[2],
        "runs": runs,
        "worst": np.column_stack([when, worst]).ravel().tolist(),
    }


def _runs(time: list[int], latency: list[int], n: list[int]) -> list[list[int]]:
    """Neighbouring latency bins of a time bin as one list: time bin, first latency bin, counts."""
    runs: list[list[int]] = []
    for t, row, many in zip(time, latency, n, strict=True):
        if runs and runs[-1][0] == t and runs[-1][1] + len(runs[-1]) - 2 == row:
            runs[-1].append(many)
        else:
            runs.append([t, row, many])
    return runs


def _cells(series: dict[str, Any]) -> int:
    return sum(len(run) - 2 for run in series["runs"])


def nice_step(step_ns: float) -> int:
    """The smallest 1, 2 or 5 times a power of ten that is at least `step_ns`."""
    power = 10 ** max(0, math.floor(math.log10(max(step_ns, 1))))
    return next(int(m * power) for m in (1, 2, 5, 10) if m * power >= step_ns or m == 10)


def layer_rank(layer: str) -> int:
    """Position of a layer, top of the stack first."""
    return views.LAYERS.index(layer) if layer in views.LAYERS else len(views.LAYERS)


_OPS = (
    "read",
    "write",
    "sync",
    "flush",
    "discard",
    "copy",
    "fault",
    *views.NAMESPACE_OPS,
    *views.SLEPT_OPS,
    "drop",
    "other",
)


def op_rank(op: str) -> int:
    """Position of a kind of operation, the common ones first."""
    return _OPS.index(op) if op in _OPS else len(_OPS)


def whole(value: Any) -> int:
    """A cell of a row as an integer; NULL is zero."""
    return int(value) if value is not None else 0


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _ordered(bins: dict[tuple[str, str], Bins]) -> list[tuple[tuple[str, str], Bins]]:
    return sorted(bins.items(), key=lambda item: (layer_rank(item[0][0]), op_rank(item[0][1])))
