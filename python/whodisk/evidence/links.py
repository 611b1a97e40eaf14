"""The requests that an operation caused, however many layers down: file system, volume, drive."""

from __future__ import annotations

from whodisk.evidence.thresholds import LINK_LEVELS
from whodisk.statistics.stats import Ints


def placed_sql(layer: str, operations_max: int) -> str:
    """The begin of a query: `top`, the first reads and writes of known places in files, and what is `below` (`two_levels_sql`)."""
    return two_levels_sql(f"""SELECT op_id, op, file, offset_bytes, size_bytes FROM measured
    WHERE layer = '{layer}' AND op IN ('read', 'write') AND file IS NOT NULL AND offset_bytes IS NOT NULL
    ORDER BY start_ns, op_id LIMIT {operations_max}""")


def two_levels_sql(top: str) -> str:
    """The begin of a query: `top`, operations with their `op_id`, and `below` (top_id, child_id), what they waited for one and two levels down."""
    return f"""WITH top AS ({top}),
  waited AS (SELECT parent_id, child_id FROM links WHERE kind = 'waits_for'),
  first AS (SELECT t.op_id AS top_id, l.child_id FROM top AS t JOIN waited AS l ON l.parent_id = t.op_id),
  second AS (SELECT f.top_id, l.child_id FROM first AS f JOIN waited AS l ON l.parent_id = f.child_id),
  below AS (SELECT * FROM first UNION SELECT * FROM second)"""


def below_sql(op_ids: Ints) -> str:
    """(op_id, child_id) of everything linked below these operations."""
    return _reached_sql(op_ids, "op_id", "parent_id", "child_id")


def above_sql(op_ids: Ints) -> str:
    """(child_id, op_id) of everything that these are linked below."""
    reached = _reached_sql(op_ids, "child_id", "child_id", "parent_id")
    return f"SELECT child_id, parent_id AS op_id FROM ({reached}) AS reached"


def _reached_sql(op_ids: Ints, start: str, near: str, far: str) -> str:
    """(`start`, `far`): what is reached from these operations, up to `LINK_LEVELS` links from the column `near` to the column `far`."""
    ids = ", ".join(str(int(number)) for number in op_ids) or "NULL"
    steps = [f"level_1 AS (SELECT {near} AS {start}, {far} FROM links WHERE {near} IN ({ids}))"]
    for level in range(2, LINK_LEVELS + 1):
        steps.append(
            f"level_{level} AS (SELECT u.{start}, l.{far} FROM level_{level - 1} AS u JOIN links AS l ON l.{near} = u.{far})"
        )
    every = " UNION ALL ".join(
        f"SELECT {start}, {far} FROM level_{level + 1}" for level in range(LINK_LEVELS)
    )
    return f"WITH {', '.join(steps)} {every}"


def waited_sql(layer: str) -> str:
    """(child_id) of everything that operations of this layer waited for, however many layers down."""
    steps = [
        f"level_1 AS (SELECT DISTINCT l.child_id FROM links AS l JOIN measured AS m ON m.op_id = l.parent_id WHERE m.layer = '{layer}' AND l.kind = 'waits_for')"
    ]
    for level in range(2, LINK_LEVELS + 1):
        steps.append(
            f"level_{level} AS (SELECT DISTINCT l.child_id FROM level_{level - 1} AS u JOIN links AS l ON l.parent_id = u.child_id WHERE l.kind = 'waits_for')"
        )
    every = " UNION ".join(f"SELECT child_id FROM level_{level + 1}" for level in range(LINK_LEVELS))
    return f"WITH {', '.join(steps)} {every}"
