"""The requests that an operation caused, however many layers down: file system, volume, drive."""

from __future__ import annotations

from whodisk.stats import Ints

#: Links from an operation to the bottom: to its system call, to the volume, to the drive, and one more.
LEVELS = 4


def below_sql(op_ids: Ints) -> str:
    """(op_id, child_id) of everything linked below these operations."""
    ids = ", ".join(str(int(number)) for number in op_ids) or "NULL"
    steps = [f"level_1 AS (SELECT parent_id AS op_id, child_id FROM links WHERE parent_id IN ({ids}))"]
    for level in range(2, LEVELS + 1):
        steps.append(
            f"level_{level} AS (SELECT u.op_id, l.child_id FROM level_{level - 1} AS u JOIN links AS l ON l.parent_id = u.child_id)"
        )
    every = " UNION ALL ".join(f"SELECT op_id, child_id FROM level_{level + 1}" for level in range(LEVELS))
    return f"WITH {', '.join(steps)} {every}"
