"""What a case with too few operations for a verdict shows: how many of each kind, how long they took, the slowest, and what failed."""

from __future__ import annotations

import errno

from whodisk import words
from whodisk.evidence.thresholds import FEW_TOLD
from whodisk.reading.views import STAGES, Case, quoted
from whodisk.types import Cell


def few_said(case: Case, layer: str) -> list[str]:
    """Sentences on the operations of a layer; none if none of them ended."""
    # Of an even number half are within the lower one of both in the middle; their mean is the time of none.
    kinds = case.rows(
        f"""SELECT op, count(*) AS n, quantile_disc(latency_ns, 0.5) AS median_ns, max(latency_ns) AS max_ns
FROM measured WHERE layer = {quoted(layer)} AND latency_ns IS NOT NULL GROUP BY 1 ORDER BY max(latency_ns) DESC, 1"""
    )
    slowest = slowest_said(case, layer, FEW_TOLD)
    if not slowest:
        return []
    if len(slowest) == 1:
        return [f"It is {slowest[0]}."]
    # The first sentence is what the short verdict shows.
    counted = "; ".join(_kind(row) for row in kinds)
    said = [f"{counted}; the slowest is {slowest[0]}."]
    return [*said, f"Then {'; '.join(slowest[1:])}."]


def slowest_said(case: Case, layer: str, most: int) -> list[str]:
    """The slowest operations of a layer that ended, each in a few words: kind, size, place, program, latency, where most of it passed, moment."""
    has = case.columns.get(f"ops/{layer}", frozenset())
    stages = [f"{stage}_ns" for stage in STAGES if stage != "unknown"]
    chosen = ", ".join(
        name if name in has else f"NULL AS {name}"
        for name in ("size_bytes", "device", "file", "comm", "error", *stages)
    )
    rows = case.rows(
        f"""SELECT op, latency_ns, start_ns, {chosen} FROM measured WHERE layer = {quoted(layer)} AND latency_ns IS NOT NULL
ORDER BY latency_ns DESC, start_ns, op_id LIMIT {most}"""
    )
    return [_operation(case, layer, row) for row in rows]


def _kind(row: dict[str, Cell]) -> str:
    op, count = str(row["op"]), int(row["n"] or 0)
    shown = words.things(count, op, words.plural_op(op))
    if count < 3:
        return f"{shown} of {words.duration(float(row['max_ns'] or 0))}{' at most' if count > 1 else ''}"
    return f"{shown}, half within {words.duration(float(row['median_ns'] or 0))}"


def _operation(case: Case, layer: str, row: dict[str, Cell]) -> str:
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
    took, at = words.duration(float(row["latency_ns"] or 0)), case.moment(float(row["start_ns"] or 0))
    return f"{' '.join(parts)}: {took}{_mostly(case, layer, row)} (at {at}){failed}"


def _mostly(case: Case, layer: str, row: dict[str, Cell]) -> str:
    """The stage that most of it passed in, where the log tells stages apart."""
    known = {stage: float(row[f"{stage}_ns"] or 0) for stage in STAGES if row.get(f"{stage}_ns")}
    if len(known) < 2:
        return ""
    longest = max(known, key=lambda stage: known[stage])
    if known[longest] * 2 <= float(row["latency_ns"] or 0):
        return ""
    return f", {words.duration(known[longest])} of it in stage {words.stage(case.stage_name(layer, longest))}"
