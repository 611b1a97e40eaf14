"""Whether requests that are alike in kind and size take longer where something is, at the same depth or place, too."""

from __future__ import annotations

from whodisk.evidence.thresholds import SAME_CELL_MIN, SAME_KEPT_MIN, SAME_SHARED_MIN
from whodisk.reading.views import Case, quoted


def longer_among_same(case: Case, rows: str, alike: str, by: str, there: str, change: float) -> bool:
    """Whether requests of `rows` (FROM) with the same `alike` (two expressions: op, size_class) and `by` take longer `there` (condition), too: half of `change` (log)."""
    data = case.arrays(
        f"""SELECT {alike} AS size_class, {by} AS of, {there} AS high, avg(ln(greatest(device_ns, 1))) AS v, count(*) AS n
FROM {rows} GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""
    )
    cells: dict[tuple[str, str, str], dict[bool, tuple[float, float]]] = {}
    for op, size, among, high, value, count in zip(
        *(data[name] for name in ("op", "size_class", "of", "high", "v", "n")), strict=True
    ):
        cells.setdefault((str(op), str(size), str(among)), {})[bool(high)] = (float(value), float(count))
    slow = sum(cell[True][1] for cell in cells.values() if True in cell)
    shared = [
        (cell[True][0] - cell[False][0], cell[True][1])
        for cell in cells.values()
        if len(cell) == 2 and min(cell[True][1], cell[False][1]) >= SAME_CELL_MIN
    ]
    weight = sum(count for _, count in shared)
    if weight < SAME_SHARED_MIN * slow:
        return False
    return sum(longer * count for longer, count in shared) >= SAME_KEPT_MIN * change * weight


def parts_in_order(case: Case, layer: str, device: str, timed: str, there: str) -> list[float]:
    """Which part of the requests (condition `timed`) follows the one before it on the device: of those `there` (condition), and of the others."""
    rows = case.rows(
        f"""SELECT high, avg(CASE WHEN offset_bytes = follows THEN 1.0 ELSE 0.0 END) AS part FROM (
  SELECT {there} AS high, offset_bytes, lag(offset_bytes + size_bytes) OVER (PARTITION BY op ORDER BY start_ns, op_id) AS follows
  FROM measured WHERE layer = '{layer}' AND device = {quoted(device)} AND {timed}) AS ordered GROUP BY 1"""
    )
    return [float(row["part"] or 0) for row in rows]
