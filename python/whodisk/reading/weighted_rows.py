"""SQL that counts a sampled operation as often as its weight says: it is there several times, and so are its links.

Copies have ids of their own, and weight 1. So no query needs a weighted form: what counts, adds up or takes a quantile estimates the
whole. Copies overlap in time, and so are one episode: they are no further evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Ids of copies are so far apart: sequence numbers are below, the number of the layer is above.
COPY_STEP = 1 << 44
#: SQL: whether a row of a layer that is counted by copies is the one that was recorded.
FIRST_COPY = f"op_id % {1 << 56} < {COPY_STEP}"


def copies_sql(weights: Sequence[float]) -> str:
    """A table of the numbers of copies, 0 and up, for each of some weights, which are whole numbers."""
    listed = ", ".join(f"({weight:.0f})" for weight in weights)
    return (
        f"(SELECT w.weight, c.copy FROM (VALUES {listed}) AS w(weight) "
        f"JOIN range(0, {int(max(weights))}) AS c(copy) ON c.copy < w.weight) AS copies"
    )


def ops_sql(kept: str, columns: Sequence[str], copies: str) -> str:
    """Operations of a layer by copies; `kept` has one row for each that was recorded."""
    moved = {
        "op_id": f"op_id + copies.copy * {COPY_STEP} AS op_id",
        "weight": "CAST(1 AS DOUBLE) AS weight",
    }
    chosen = ", ".join(["layer", *(moved.get(name, name) for name in columns)])
    return f"SELECT {chosen}\nFROM ({kept}) AS kept JOIN {copies} ON kept.weight = copies.weight"


def weights_sql(kept: Mapping[str, str]) -> str:
    """Weights above 1 of the operations of several layers, by id."""
    parts = (
        f"SELECT op_id, weight FROM ({sql}) AS {layer}_rows WHERE weight > 1" for layer, sql in kept.items()
    )
    return "(" + " UNION ALL ".join(parts) + ")"


def links_sql(links: str, weights: str, copies: str) -> str:
    """Links by copies: each of a parent's copies waits for the child's copy of the same number, or for the child that has none."""
    return f"""SELECT
  parent_id + CASE WHEN p.weight > 1 THEN copies.copy * {COPY_STEP} ELSE 0 END AS parent_id,
  child_id + CASE WHEN c.weight > 1 THEN copies.copy * {COPY_STEP} ELSE 0 END AS child_id, bytes, kind
FROM ({links}) AS l
LEFT JOIN {weights} AS p ON p.op_id = l.parent_id LEFT JOIN {weights} AS c ON c.op_id = l.child_id
JOIN {copies} ON copies.weight = greatest(coalesce(p.weight, 1), coalesce(c.weight, 1))"""


def pieces_sql(pieces: str, columns: Sequence[str], weights: str, copies: str) -> str:
    """Rows that belong to an operation (`cache`), by its copies. `columns`: all but its id."""
    return f"""SELECT l.op_id + copies.copy * {COPY_STEP} AS op_id, {", ".join(columns)}
FROM ({pieces}) AS l LEFT JOIN {weights} AS p ON p.op_id = l.op_id
JOIN {copies} ON copies.weight = coalesce(p.weight, 1)"""
