"""Where the parts of a file lie on the disk: place in the file against place on the disk.

A file in one piece is one line; a fragmented one jumps. Drawn is the file with most breaks among those that were read or
written through the accused disk. Only operations that one disk served whole count. Columns read: `file`, `offset_bytes`,
`size_bytes` (bytes) of operations; `links`; `device`, `offset_bytes`, `size_bytes`, `start_ns`, `latency_ns` (ns) of block
requests.
"""

from __future__ import annotations

from typing import Any

from whodisk import words
from whodisk.evidence.links import placed_sql
from whodisk.findings import Finding
from whodisk.reading.views import Row, quoted
from whodisk.report import units
from whodisk.report.material import whole
from whodisk.report.pictures.base import Drawn, Look, Picture, Trace, behind, colour, figure, hover, plain

#: Operations looked at, the first ones, and pieces drawn, evenly chosen.
OPERATIONS_MAX = 50_000
PIECES_MAX = 800


def pieces_sql(layer: str, device: str) -> str:
    """Requests of a disk in the order of the file that they belong to, with their places in the file and on the disk."""
    return f"""{placed_sql(layer, OPERATIONS_MAX)},
  pieces AS (SELECT a.op_id, a.file, a.size_bytes AS file_bytes, b.op_id AS request_id, b.start_ns, b.latency_ns,
    b.offset_bytes AS disk_offset, b.size_bytes AS disk_bytes,
    a.offset_bytes + coalesce(sum(b.size_bytes) OVER (PARTITION BY a.op_id ORDER BY b.start_ns, b.op_id
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS file_offset,
    sum(b.size_bytes) OVER (PARTITION BY a.op_id) AS op_bytes
  FROM below JOIN top AS a ON a.op_id = below.top_id JOIN block_ops AS b ON b.op_id = below.child_id
  WHERE b.device = {quoted(device)} AND b.op = a.op AND b.offset_bytes IS NOT NULL AND NOT b.open),
  placed AS (SELECT *, lag(disk_offset + disk_bytes) OVER w AS disk_before, lag(file_offset + disk_bytes) OVER w AS file_before
  FROM pieces WHERE op_bytes = file_bytes WINDOW w AS (PARTITION BY file ORDER BY file_offset, start_ns, request_id))
SELECT *, file_before = file_offset AND disk_before <> disk_offset AS jumps,
  count(*) FILTER (file_before = file_offset AND disk_before <> disk_offset) OVER (PARTITION BY file) AS breaks,
  count(*) FILTER (file_before = file_offset) OVER (PARTITION BY file) AS neighbours
FROM placed ORDER BY breaks DESC, file, file_offset, start_ns, request_id"""


def draw(look: Look, finding: Finding) -> Drawn | None:
    """A line for every piece that begins where its neighbour in the file ends, a point for every jump."""
    device = (finding.culprit.because_of or "").removeprefix("device:")
    rows = look.case.rows(pieces_sql(look.layer, device)) if device else []
    if not rows:
        return None
    file, breaks, neighbours = str(rows[0]["file"]), whole(rows[0]["breaks"]), whole(rows[0]["neighbours"])
    mine = [row for row in rows if row["file"] == rows[0]["file"]]
    # Whole runs of neighbours, so that what lies together still does.
    part = max(1, len(mine) // PIECES_MAX)
    shown = [row for index, row in enumerate(mine) if part == 1 or (index // 50) % part == 0][
        : 2 * PIECES_MAX
    ]
    file_unit, disk_unit = (
        _unit(max(whole(row[name]) for row in shown)) for name in ("file_offset", "disk_offset")
    )
    traces = [
        _pieces(shown, file_unit, disk_unit),
        _points([row for row in shown if not row["jumps"]], False, file_unit, disk_unit),
        _points([row for row in shown if row["jumps"]], True, file_unit, disk_unit),
    ]
    thinned = f" Every {words.count(part)}th run of 50 pieces is drawn." if part > 1 else ""
    return Drawn(
        lead=f"{file} on {device}: {words.count(breaks)} of {words.things(neighbours, 'pair')} of neighbours in the file lie apart on "
        f"the disk. A file in one piece would be one straight line.{thinned}",
        figure=figure(
            traces,
            {
                "xaxis": {
                    "ticksuffix": f" {file_unit[1]}",
                    "title": "place in the file",
                    "nticks": 6,
                    "rangemode": "tozero",
                },
                "yaxis": {"ticksuffix": f" {disk_unit[1]}", "title": "place on the disk", "nticks": 6},
            },
            height=380,
            margin={"l": 92, "r": 16, "t": 36, "b": 52},
            narrow={"margin": {"l": 82, "r": 8, "t": 36, "b": 52}},
            showlegend=True,
            legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False},
        ),
        op_ids=tuple(whole(row["request_id"]) for row in shown),
    )


def _unit(most: int) -> tuple[int, str]:
    return next(
        (
            (size, name)
            for size, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
            if most >= 2 * size
        ),
        (1, "B"),
    )


def _pieces(rows: list[Row], file_unit: tuple[int, str], disk_unit: tuple[int, str]) -> Trace:
    """Every piece as a line as long as it is; on a large file that is a dot, and the points below say more."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row in rows:
        length = whole(row["disk_bytes"])
        x += [_at(row, "file_offset", file_unit), (whole(row["file_offset"]) + length) / file_unit[0], None]
        y += [_at(row, "disk_offset", disk_unit), (whole(row["disk_offset"]) + length) / disk_unit[0], None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": {"color": colour("stage-device"), "width": 2.5},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _at(row: Row, key: str, unit: tuple[int, str]) -> float:
    return float(f"{whole(row[key]) / unit[0]:.8g}")


def _points(rows: list[Row], jumps: bool, file_unit: tuple[int, str], disk_unit: tuple[int, str]) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(
            "lies apart from its neighbour in the file" if jumps else "follows its neighbour, or has none"
        ),
        "x": [_at(row, "file_offset", file_unit) for row in rows] or [None],
        "y": [_at(row, "disk_offset", disk_unit) for row in rows] or [None],
        "marker": {
            "size": 4,
            "color": colour("mark" if jumps else "stage-device"),
            "symbol": "diamond" if jumps else "circle",
        },
        "hoverinfo": "text",
        "hovertext": [_text(row) for row in rows],
        "customdata": [[[str(row["op_id"]), str(row["request_id"])]] for row in rows],
        "meta": behind(["op_id"], title="the operation and its request"),
    }


def _text(row: Row) -> str:
    before: Any = row["disk_before"]
    apart = ""
    if row["jumps"] and before is not None:
        apart = f"{words.size(abs(whole(row['disk_offset']) - int(before)))} away from its neighbour"
    return hover(
        f"{words.size(whole(row['disk_bytes']))} in {words.duration(whole(row['latency_ns']))}",
        f"at {words.size(whole(row['file_offset']))} of the file, {words.size(whole(row['disk_offset']))} of the disk",
        apart,
        f"began at {units.moment(whole(row['start_ns']))}",
    )


PICTURE = Picture(
    name="layout_map",
    title="Where the file lies on the disk",
    reads=("ops.file", "ops.offset_bytes", "ops.size_bytes", "links.parent_id", "links.child_id"),
    draw=draw,
)
