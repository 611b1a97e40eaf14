"""The threads and processes that submit, out of one pass over a layer that several ask for."""

from __future__ import annotations

from whodisk.reading.views import Case, Row


def _threads(case: Case, layer: str) -> list[Row]:
    sql = f"SELECT tid, pid, open, count(*) AS n FROM judged WHERE layer = '{layer}' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    return case.known(case.expand(sql))


def operations_of(case: Case, layer: str, *, ended: bool = False) -> dict[int, int]:
    """Thread -> its operations (`ended`: those that did), in order of threads; one without operations is not there."""
    found: dict[int, int] = {}
    for row in _threads(case, layer):
        if row["tid"] is not None and not (ended and row["open"]):
            found[int(row["tid"])] = found.get(int(row["tid"]), 0) + int(row["n"] or 0)
    return found


def processes_of(case: Case, layer: str) -> list[int]:
    """The processes with operations in a layer."""
    return sorted({int(row["pid"]) for row in _threads(case, layer) if row["pid"] is not None})
