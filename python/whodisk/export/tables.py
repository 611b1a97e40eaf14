"""SQL of the tables that formats carry as they are."""

from __future__ import annotations

from whodisk.export.base import Wanted
from whodisk.reading.views import OP_COLUMNS, TABLES, Case

#: What rows are sorted by; the first of them that a table has.
_ORDER = ("start_ns", "time_ns")


def table_sql(case: Case, wanted: Wanted) -> str:
    """The wanted rows, sorted by time where they have one; stages that the case does not have are left away."""
    if wanted.table == "ops":
        there = set().union(*(case.columns[f"ops/{layer}"] for layer in wanted.layers or case.layers))
        columns = ", ".join(["layer", *(name for name in OP_COLUMNS if name in there)])
        return f"SELECT {columns} FROM recorded_ops WHERE {wanted.condition()} ORDER BY start_ns, op_id"
    view = "recorded_links" if wanted.table == "links" else wanted.table
    order = next((name for name in _ORDER if name in TABLES[wanted.table]), None)
    return f"SELECT * FROM {view}" + (f" ORDER BY {order}" if order else "")
