"""What a case holds as operations that the engine does again: the same kinds, places and sizes, at the same moments.

Times are those of the recording, to the nanosecond, and the engine's schedule never shifts (decision 0280).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whodisk.errors import CaseError, WhodiskError
from whodisk.export.fio_log import LINES
from whodisk.reading.views import Case

#: Largest operation of the engine, bytes: longer ones become several of the same moment.
PIECE_BYTES = 16 << 20
#: Most operations in flight, and most memory for them, bytes.
DEPTH_MAX, BUFFERS_BYTES = 256, 1 << 30
#: Where a file or device begins on the target, and what places are rounded down to if they are scaled.
ALIGN_BYTES = 4096

#: What the engine can do again.
_MOVES = "op IN ('read', 'write') AND offset_bytes IS NOT NULL AND size_bytes > 0"
_CHOSEN = f"(({_MOVES}) OR op IN ('sync', 'flush'))"


@dataclass(frozen=True)
class Operations:
    """What was written, and what the target must have."""

    layer: str
    number: int
    #: End of the last place, and the largest operation, bytes.
    end_bytes: int
    size_max_bytes: int
    writes: bool
    #: Whether each place and size is a multiple of 512 bytes, and most operations bypassed the page cache.
    direct: bool


def layer_of(case: Case) -> str:
    """The topmost layer that has operations with places. Raises CaseError."""
    for layer in case.layers:
        if case.rows(f"SELECT 1 AS one FROM {layer}_ops WHERE {_MOVES} LIMIT 1"):
            return layer
    raise CaseError(
        case.path,
        "layers",
        "reads or writes with offset and size",
        ", ".join(case.layers) or "none",
        "replay a case that has them",
    )


def times_of(speed: str, arm: str) -> float | None:
    """How many times as fast: 1 for `timed`, 2 for `2x`; None for `fast`. Raises WhodiskError."""
    if speed == "fast":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x", "1x" if speed == "timed" else speed)
    if not match or not 0.05 <= float(match[1]) <= 50:
        raise WhodiskError(
            f"arm '{arm}': speed: expected timed, fast, or times such as 2x (0.05x to 50x), found '{speed}'"
        )
    return float(match[1])


def scale_of(value: Any, arm: str) -> float:
    """By how much places are divided. Raises WhodiskError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.001 <= value <= 1e6:
        raise WhodiskError(
            f"arm '{arm}': scale: expected a number such as 4, which divides all places, found {value!r}"
        )
    return float(value)


def about(case: Case, scale: float) -> Operations:
    """What a replay needs. Raises CaseError for a case without places, or one of a sample."""
    layer = layer_of(case)
    row = case.rows(
        f"""{_placed(layer, scale)} SELECT count(*) AS n, max(at_bytes + size_bytes) AS end_bytes,
  max(size_bytes) FILTER (WHERE op IN ('read', 'write')) AS size_max, bool_or(op = 'write') AS writes,
  bool_and(at_bytes % 512 = 0 AND size_bytes % 512 = 0) AS whole, avg(CAST(direct AS INTEGER)) AS direct, max(weight) AS weight FROM placed"""
    )[0]
    if float(row["weight"] or 1) > 1:
        raise CaseError(
            case.path, f"layer {layer}", "every operation", "a sample of them", "record without --cpu-budget"
        )
    return Operations(
        layer,
        int(row["n"] or 0),
        int(row["end_bytes"] or 0),
        min(PIECE_BYTES, int(row["size_max"] or 0)),
        bool(row["writes"]),
        bool(row["whole"]) and (layer == "block" or float(row["direct"] or 0) > 0.5),
    )


def _placed(layer: str, scale: float) -> str:
    """Operations and their places on one target: what were several files or devices lies there one after the other."""
    where = "device" if layer in ("block", "device") else "file"
    at = "coalesce(offset_bytes, 0)"
    if scale != 1:
        at = f"CAST(floor({at} / {scale!r} / {ALIGN_BYTES}) AS BIGINT) * {ALIGN_BYTES}"
    return f"""WITH chosen AS (SELECT start_ns, op_id, op, coalesce({where}, '') AS place, {at} AS offset_bytes, weight,
    (coalesce(flags, 0) & 256) <> 0 OR '{where}' = 'device' AS direct,
    CASE WHEN op IN ('read', 'write') THEN size_bytes ELSE 0 END AS size_bytes FROM recorded_ops WHERE layer = '{layer}' AND {_CHOSEN}),
  ends AS (SELECT place, min(start_ns) AS first_ns, (max(offset_bytes + size_bytes) + {ALIGN_BYTES - 1}) // {ALIGN_BYTES} * {ALIGN_BYTES} AS end_bytes
    FROM chosen GROUP BY 1),
  bases AS (SELECT place, coalesce(sum(end_bytes) OVER (ORDER BY first_ns, place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS base
    FROM ends),
  placed AS (SELECT start_ns, op_id, op, CAST(base + offset_bytes AS BIGINT) AS at_bytes, size_bytes, direct, weight
    FROM chosen JOIN bases USING (place))"""


def write(case: Case, file: Path, *, layer: str, times: float | None, scale: float) -> None:
    """The file of the engine's key `replay`: moment, kind, place and size of each operation, in order. `times`: how many times as fast."""
    pieces = f"generate_series(0, greatest(size_bytes - 1, 0) // {PIECE_BYTES})"
    sql = f"""{_placed(layer, scale)}, cut AS (SELECT start_ns, op_id, op, at_bytes, size_bytes, unnest({pieces}) * {PIECE_BYTES} AS from_bytes
    FROM placed)
SELECT concat_ws(' ', CAST((start_ns - (SELECT min(start_ns) FROM placed)) / {times or 1.0!r} AS BIGINT),
  CASE op WHEN 'flush' THEN 'sync' ELSE op END, CASE WHEN size_bytes = 0 THEN 0 ELSE at_bytes + from_bytes END,
  least({PIECE_BYTES}, size_bytes - from_bytes)) AS line FROM cut ORDER BY start_ns, op_id, from_bytes"""
    case.copy(sql, file, LINES, lambda *_: None)


def workload(
    arm: str, case_path: Path, file: Path, *, target: str, speed: str, scale: Any, override: dict[str, Any]
) -> dict[str, Any]:
    """Writes the operations to `file` and gives the access specification that does them. Raises WhodiskError."""
    times, divided = times_of(speed, arm), scale_of(scale, arm)
    with Case(case_path) as case:
        found = about(case, divided)
        room = _size_of(Path(target))
        if room is not None and room < found.end_bytes:
            raise WhodiskError(
                f"arm '{arm}': replay: expected a target of {found.end_bytes} bytes or more, found {room} at {target}; "
                f"say scale = {-(-found.end_bytes * divided // room):g}, or name a larger one"
            )
        if not file.exists():
            part = file.with_suffix(".part")
            write(case, part, layer=found.layer, times=times, scale=divided)
            part.replace(file)
    table: dict[str, Any] = {
        "targets": [target],
        "replay": str(file),
        "replay_pace": "fast" if times is None else "timed",
        "block_sizes": f"{found.size_max_bytes}B",
        "read": "50%" if found.writes else "100%",
        "io": "direct" if found.direct else "buffered",
        "queue_depth": max(1, min(DEPTH_MAX, BUFFERS_BYTES // max(1, found.size_max_bytes))),
    }
    if room is None:
        table["file_size"] = f"{-(-found.end_bytes // ALIGN_BYTES) * ALIGN_BYTES}B"
    elif Path(target).is_block_device() and found.writes:
        # What is mounted or holds data was refused before.
        table["allow_overwrite"] = True
    return table | override


def _size_of(target: Path) -> int | None:
    """Bytes of a file or a block device; None if there is none yet."""
    if not target.exists():
        return None
    with target.open("rb") as file:
        return file.seek(0, 2)
