"""The operations behind the pictures: a bounded number of rows that the report carries.

Kept are the slowest operation of every moment and of every part of the latency axis, some typical ones of each class of latency, and
those that a picture asked for. A
click on a picture shows the ones behind it, and the query that lists all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.reading.views import STAGES, Case, Row
from whodisk.report.material import Cells

#: Rows that the heat map's cells choose, and rows in all: a row takes about 170 bytes of the report.
CHOSEN_MAX = 5_000
ROWS_MAX = 10_000
#: Of these, operations that are carried as typical ones: a few of each class of latency, spread over the recording.
TYPICAL_MAX = 2_000
TYPICAL_EACH = 8
#: Latency bins of the heat map that share one kept operation: a quarter of an octave.
LATENCY_BINS = 2

#: What is kept of a row; those of TEXTS are names and kept once.
NUMBERS = (
    "start_ns",
    "latency_ns",
    "open",
    "offset_bytes",
    "size_bytes",
    "queue_depth",
    "tid",
    "cpu",
    "complete_cpu",
    "vector",
    "error",
    *(f"{stage}_ns" for stage in STAGES),
    "foreign_handler_ns",
)
TEXTS = ("layer", "op", "device", "file", "comm")


def chosen(cells: Cells) -> list[int]:
    """Ids of the slowest operation of every time bin, and of every class of latency in as many time bins as there is room for."""
    columns = cells.columns
    if not len(columns["n"]):
        return []
    worst, ids = columns["worst_ns"].astype(np.int64), columns["worst_id"].astype(np.int64)
    layer, op, device = (_numbers(columns[name]) for name in ("layer", "op", "device"))
    time, latency = (
        columns["time_bin"].astype(np.int64),
        columns["latency_bin"].astype(np.int64) // LATENCY_BINS,
    )
    kept = {*_slowest(worst, ids, layer, time), *_slowest(worst, ids, layer, op, device, latency)}
    factor = 1
    while True:
        more = {*kept, *_slowest(worst, ids, layer, op, latency, time // factor)}
        if len(more) <= CHOSEN_MAX:
            return sorted(more)
        if factor > cells.bins:
            latency_of = dict(zip(ids.tolist(), worst.tolist(), strict=True))
            return sorted(sorted(kept, key=lambda op_id: (-latency_of[op_id], op_id))[:CHOSEN_MAX])
        factor *= 2


def typical(cells: Cells) -> list[int]:
    """Ids of operations that no rule of slowness chose: a few of each layer, kind, device and class of latency, spread over time."""
    columns = cells.columns
    if not len(columns["n"]):
        return []
    keys = [_numbers(columns[name]) for name in ("layer", "op", "device")]
    keys.append(columns["latency_bin"].astype(np.int64) // LATENCY_BINS)
    time = columns["time_bin"].astype(np.int64)
    order = np.lexsort((time, *keys))
    stacked = np.stack([key[order] for key in keys])
    first = np.flatnonzero(np.append(True, np.any(stacked[:, 1:] != stacked[:, :-1], axis=0)))
    ids = columns["any_id"].astype(np.int64)[order]
    groups = np.split(ids, first[1:])
    each = max(1, min(TYPICAL_EACH, TYPICAL_MAX // len(groups)))
    picked = [group[np.unique(np.linspace(0, len(group) - 1, each).astype(np.int64))] for group in groups]
    return sorted(int(op_id) for op_id in np.concatenate(picked))[:TYPICAL_MAX]


def _numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A number for each text, the same for the same."""
    names = np.array(["" if not isinstance(value, str) else value for value in values])
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _slowest(
    worst: npt.NDArray[np.int64], ids: npt.NDArray[np.int64], *keys: npt.NDArray[np.int64]
) -> list[int]:
    """The id of the slowest operation of each group."""
    order = np.lexsort((ids, worst, *keys))
    stacked = np.stack([key[order] for key in keys])
    last = np.append(np.any(stacked[:, 1:] != stacked[:, :-1], axis=0), True)
    return [int(op_id) for op_id in ids[order][last]]


def kept(case: Case, op_ids: Iterable[int], rows: Iterable[Row]) -> dict[str, Any]:
    """The operations with these ids, and these rows, by columns; ids are text, since scripts have no such integers."""
    found = {_id(row): row for row in rows}
    missing = sorted({op_id for op_id in op_ids if op_id not in found})[: max(0, ROWS_MAX - len(found))]
    if missing:
        listed = ", ".join(str(op_id) for op_id in missing)
        names = ", ".join(("op_id", *TEXTS, *NUMBERS))
        found.update(
            (_id(row), row) for row in case.rows(f"SELECT {names} FROM ops WHERE op_id IN ({listed})")
        )
    ordered = [found[op_id] for op_id in sorted(found)]
    return {
        "op_id": [str(_id(row)) for row in ordered],
        "numbers": {name: [row.get(name) for row in ordered] for name in NUMBERS},
        "texts": {name: _texts([row.get(name) for row in ordered]) for name in TEXTS},
        "stages": {layer: [case.stage_name(layer, stage) for stage in STAGES] for layer in case.layers},
    }


def _id(row: Row) -> int:
    return int(row["op_id"] or 0)


def _texts(values: Sequence[Any]) -> dict[str, Any]:
    """Names once, and which of them each row has; -1 = not observed."""
    names = sorted({str(value) for value in values if value is not None})
    place = {name: index for index, name in enumerate(names)}
    return {"names": names, "at": [-1 if value is None else place[str(value)] for value in values]}
