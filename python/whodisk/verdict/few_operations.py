"""What a case with too few operations for a verdict shows: how many of each kind, how long they took, the slowest, and what failed."""

from __future__ import annotations

import errno

from whodisk import words
from whodisk.evidence.thresholds import FEW_TOLD
from whodisk.reading.views import Case, quoted
from whodisk.types import Cell


def few_said(case: Case, layer: str) -> list[str]:
    """Sentences on the operations of a layer; none if none of them ended."""
    kinds = case.rows(
        f"""SELECT op, count(*) AS n, CAST(median(latency_ns) AS BIGINT) AS median_ns, max(latency_ns) AS max_ns
FROM measured WHERE layer = {quoted(layer)} AND latency_ns IS NOT NULL GROUP BY 1 ORDER BY max(latency_ns) DESC, 1"""
    )
    has = case.columns.get(f"ops/{layer}", frozenset())
    chosen = ", ".join(
        name if name in has else f"NULL AS {name}"
        for name in ("size_bytes", "device", "file", "comm", "error")
    )
    slowest = case.rows(
        f"""SELECT op, latency_ns, start_ns, {chosen} FROM measured WHERE layer = {quoted(layer)} AND latency_ns IS NOT NULL
ORDER BY latency_ns DESC, start_ns, op_id LIMIT {FEW_TOLD}"""
    )
    if not slowest:
        return []
    if len(slowest) == 1:
        return [f"It is {_operation(slowest[0])}."]
    # The first sentence is what the short verdict shows.
    counted = "; ".join(_kind(row) for row in kinds)
    said = [f"{counted}; the slowest is {_operation(slowest[0])}."]
    return [*said, f"Then {'; '.join(_operation(row) for row in slowest[1:])}."]


def _kind(row: dict[str, Cell]) -> str:
    op, count = str(row["op"]), int(row["n"] or 0)
    shown = words.things(count, op, words.plural_op(op))
    if count < 3:
        return f"{shown} of {words.duration(float(row['max_ns'] or 0))}{' at most' if count > 1 else ''}"
    return f"{shown}, half within {words.duration(float(row['median_ns'] or 0))}"


def _operation(row: dict[str, Cell]) -> str:
    op = str(row["op"])
    parts = ["an operation" if op == "other" else f"{'an' if op[0] in 'aeiou' else 'a'} {op}"]
    if row["size_bytes"]:
        parts.append(f"of {words.size(int(row['size_bytes']))}")
    if row["device"]:
        parts.append(f"on {row['device']}")
    elif row["file"]:
        parts.append(f"on {row['file']}")
    if row["comm"]:
        parts.append(f"by {row['comm']}")
    number = int(row["error"] or 0)
    failed = f", failed with {errno.errorcode.get(number, f'errno {number}')}" if number else ""
    took, at = words.duration(float(row["latency_ns"] or 0)), words.seconds(float(row["start_ns"] or 0))
    return f"{' '.join(parts)}: {took} (at {at}){failed}"
