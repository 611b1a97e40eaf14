"""Operations as late as requests are in their part of a device, and hardly ever are in other parts.

A turn on a CPU, missed by the threads of a software device, holds up whatever they serve then. It does not know where on the device that lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.links import below_sql
from whodisk.evidence.thresholds import (
    KIND_PART,
    LATE_PLACES,
    LATE_PLACES_TIMES,
    LATE_REGION_PLACES,
    UNLIKE_KINDS,
    UNLIKE_MIN,
)
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Bools, Floats, Ints, apart_from_earlier


def late_in_place(case: Case, layer: str, device: str, op_id: Ints, lost_ns: Floats) -> Bools:
    """Which of these operations waited for a read of such a part of a device: how long a read takes is asked of each part, against the others at the same time.

    Writes are not asked: the file below a software device takes them as its own file system does, and may know some of its parts better than others.
    """
    found: Bools = np.zeros(len(op_id), np.bool_)
    if not len(op_id) or "block" not in case.layers:
        return found
    reads = _reads_sql(case, device)
    part, known = _parts(case, layer, reads, op_id)
    if not known.any():
        return found
    there = _grid(
        case.arrays(f"SELECT part, moment, count(*) AS n FROM ({reads}) AS reads GROUP BY 1, 2 ORDER BY 1, 2")
    )
    # Operations that lost about as much are asked about together.
    octave = np.floor(np.log2(np.maximum(1.0, KIND_PART * lost_ns))).astype(np.int64)
    late = case.arrays(
        f"""SELECT part, moment, start_ns, start_ns + latency_ns AS end_ns, device_ns FROM ({reads}) AS reads
WHERE device_ns >= {2 ** int(octave[known].min())} ORDER BY start_ns, op_id"""
    )
    for number in np.unique(octave[known]).tolist():
        mine = np.flatnonzero(known & (octave == number))
        as_late = late["device_ns"] >= 2**number
        found[mine] = parts_apart(there, {name: values[as_late] for name, values in late.items()})[part[mine]]
    return found


@dataclass(frozen=True)
class Region:
    """A range of a device in which most reads are late, and there are as many of these as elsewhere, or more."""

    #: Its first byte, and the one behind it.
    low: int
    high: int
    reads: int
    late: int
    #: Part of the reads elsewhere that are late.
    elsewhere: float


def late_region(case: Case, device: str, late_ns: float) -> Region | None:
    """Where on a device reads take `late_ns` and longer; None if no part of it stands apart (`parts_apart`), or most that are late lie elsewhere."""
    if "block" not in case.layers or late_ns <= 0:
        return None
    reads = _reads_sql(case, device)
    there = _grid(
        case.arrays(f"SELECT part, moment, count(*) AS n FROM ({reads}) AS reads GROUP BY 1, 2 ORDER BY 1, 2")
    )
    late = case.arrays(
        f"""SELECT part, moment, start_ns, start_ns + latency_ns AS end_ns FROM ({reads}) AS reads
WHERE device_ns >= {late_ns!r} ORDER BY start_ns, op_id"""
    )
    if not parts_apart(there, late).any():
        return None
    data = case.arrays(
        f"""SELECT CAST(floor(place * {LATE_REGION_PLACES}) AS INTEGER) AS bin, min(offset_bytes) AS low, max(offset_bytes + size_bytes) AS high, count(*) AS n,
  count(*) FILTER (device_ns >= {late_ns!r}) AS late FROM ({reads}) AS reads GROUP BY 1 ORDER BY 1"""
    )
    n, of_late = data["n"].astype(np.int64), data["late"].astype(np.int64)
    first, last = densest(n, of_late)
    inside = slice(first, last)
    inside_n, inside_late = int(n[inside].sum()), int(of_late[inside].sum())
    if 2 * inside_late < of_late.sum() or not inside_n:
        return None
    return Region(
        low=int(data["low"][first]),
        high=int(data["high"][inside].max()),
        reads=inside_n,
        late=inside_late,
        elsewhere=float(of_late.sum() - inside_late) / max(1, int(n.sum()) - inside_n),
    )


def densest(reads: Ints, late: Ints) -> tuple[int, int]:
    """The range of places (first, one behind the last) in which late reads outnumber others the most; an empty one where they do nowhere."""
    upto = np.concatenate(([0], np.cumsum(2 * late - reads)))
    lowest = np.minimum.accumulate(upto)
    last = int(np.argmax(upto - lowest))
    first = int(np.argmin(upto[: last + 1]))
    return first, last


def parts_apart(there: Ints, late: Mapping[str, npt.NDArray[Any]]) -> Bools:
    """The parts in which reads are late `UNLIKE_KINDS` times as often as in others; `there`: how many reads of each part (rows) there are at each time (columns).

    The others are those least often late that have half of all other reads: what is wrong may lie across several parts. Who reads one part after the other is compared
    with nobody: what is late there may be late for what happens then. Reads that are late at once may be so for the same turn on a CPU, and count as one.
    """
    part, moment, start, end = (
        late[name].astype(np.int64) for name in ("part", "moment", "start_ns", "end_ns")
    )
    late_there = np.zeros_like(there)
    np.add.at(late_there, (part, moment), 1)
    often = late_there.sum(axis=1) / np.maximum(1, there.sum(axis=1))
    apart: Bools = np.zeros(len(there), np.bool_)
    for one in np.unique(part).tolist():
        own = np.flatnonzero(part == one)
        if len(own) <= UNLIKE_MIN:
            continue
        others = np.argsort(often, kind="stable")
        others = others[others != one]
        before = np.cumsum(there[others].sum(axis=1)) - there[others].sum(axis=1)
        others = others[2 * before < there[others].sum()]
        # One more than there are: what was not seen yet may be next.
        chance = (late_there[others].sum(axis=0) + 1) / np.maximum(1, there[others].sum(axis=0))
        expected = float((there[one] * np.minimum(1.0, chance)).sum())
        apart[one] = int(apart_from_earlier(start[own], end[own]).sum()) > max(
            UNLIKE_MIN, UNLIKE_KINDS * expected
        )
    return apart


def _reads_sql(case: Case, device: str) -> str:
    """Reads of a device, each with its part of what is read there, and its part of the time."""
    of = f"block_ops WHERE NOT open AND device = {quoted(device)} AND op = 'read' AND offset_bytes IS NOT NULL AND device_ns IS NOT NULL"
    [reach] = case.rows(
        f"SELECT coalesce(max(offset_bytes), 0) AS far, coalesce(min(start_ns), 0) AS first_ns, coalesce(max(start_ns), 0) AS last_ns FROM {of}"
    )
    far, first, last = (int(reach[name] or 0) for name in ("far", "first_ns", "last_ns"))
    return f"""SELECT op_id, start_ns, latency_ns, device_ns, offset_bytes, size_bytes, CAST(offset_bytes AS DOUBLE) / {far + 1} AS place,
  CAST(floor(offset_bytes * {LATE_PLACES}.0 / {far + 1}) AS INTEGER) AS part,
  CAST(floor((start_ns - {first}) * {LATE_PLACES_TIMES}.0 / {last - first + 1}) AS INTEGER) AS moment
FROM {of}"""


def _grid(data: dict[str, npt.NDArray[np.generic]]) -> Ints:
    there = np.zeros((LATE_PLACES, LATE_PLACES_TIMES), np.int64)
    there[data["part"].astype(np.int64), data["moment"].astype(np.int64)] = data["n"].astype(np.int64)
    return there


def _parts(case: Case, layer: str, reads: str, op_id: Ints) -> tuple[Ints, Bools]:
    """The part of the longest read that each of these operations waited for, and whether there is any."""
    none = np.zeros(len(op_id), np.int64), np.zeros(len(op_id), np.bool_)
    if layer != "block" and "links" not in case.columns:
        return none
    below = below_sql(op_id) if layer != "block" else "SELECT op_id, op_id AS child_id FROM block_ops"
    data = case.arrays(
        f"""SELECT below.op_id, max_by(part, device_ns) AS part FROM ({below}) AS below JOIN ({reads}) AS reads ON reads.op_id = child_id
GROUP BY 1 ORDER BY 1"""
    )
    ids = data["op_id"].astype(np.int64)
    if not len(ids):
        return none
    place = np.searchsorted(ids, op_id).clip(max=len(ids) - 1)
    return data["part"].astype(np.int64)[place], np.asarray(ids[place] == op_id, np.bool_)
