"""Who runs on which interrupt vector and CPU, and what the requests that complete there wait for.

Above: handlers, and the part of the CPU's time that each takes. Below: devices, and how long their requests wait on the
average for handlers of others. A column is a vector on a CPU; the accused ones are framed. Columns read: `handler`,
`vector`, `cpu`, `device`, `duration_ns` (ns) of `irqs`; `device`, `vector`, `complete_cpu`, `foreign_handler_ns` (ns) of
block requests.
"""

from __future__ import annotations

from typing import Any

from whodisk import words
from whodisk.findings import Finding
from whodisk.reading.views import Row
from whodisk.report import units
from whodisk.report.material import whole
from whodisk.report.pictures.base import (
    Drawn,
    Look,
    Picture,
    Trace,
    behind,
    caption,
    colour,
    figure,
    heat_scale,
    hover,
)

#: Columns, handlers and devices drawn at most: the busiest, and what the finding speaks of.
COLUMNS_MAX = 20
ROWS_MAX = 16
#: Height of a row, pixels.
ROW_PX = 24
#: ... and of the names of the columns, which stand upright.
LABELS_PX = 104

#: Vector and CPU.
Place = tuple[int, int]


def handlers_sql() -> str:
    """Time of each handler per vector and CPU; softirqs have no vector."""
    return """SELECT handler, coalesce(device, '') AS device, coalesce(vector, -1) AS vector, cpu, count(*) AS calls,
  sum(duration_ns) AS total_ns, max(duration_ns) AS max_ns
FROM irqs WHERE kind = 'hard' GROUP BY 1, 2, 3, 4 ORDER BY 6 DESC, 1, 2, 3, 4"""


def waits_sql() -> str:
    """Requests per device, vector and CPU, and what they waited for handlers of others."""
    return """SELECT device, coalesce(vector, -1) AS vector, complete_cpu AS cpu, count(*) AS n,
  avg(foreign_handler_ns) AS mean_ns, max(foreign_handler_ns) AS max_ns, quantile_disc(latency_ns, 0.99) AS p99_ns
FROM measured WHERE layer = 'block' AND device IS NOT NULL AND complete_cpu IS NOT NULL AND foreign_handler_ns IS NOT NULL
GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"""


def draw(look: Look, finding: Finding) -> Drawn | None:
    """The two matrices, one above the other."""
    handlers = look.case.rows(handlers_sql())
    waits = [row for row in look.case.rows(waits_sql()) if row["device"] not in look.stacked]
    if not handlers or not waits:
        return None
    accused = _accused(finding, handlers)
    places = _places(handlers, waits, accused)
    because = (finding.culprit.because_of or "").removeprefix("handler:")
    rows = _names(handlers, "handler", "total_ns", places, accused, because)
    devices = _names(waits, "device", "mean_ns", places, accused)
    labels = [_place(place) for place in places]
    above, below = len(rows) * ROW_PX, len(devices) * ROW_PX
    inner = above + below + 46
    split = below / inner
    traces = [
        _matrix(handlers, "handler", rows, places, _handler_cells(look)),
        {
            **_matrix(waits, "device", devices, places, _wait_cells()),
            "yaxis": "y2",
            "zmax": _most(waits, devices),
        },
    ]
    traces[1]["customdata"] = _behind(waits, devices, places)
    traces[1]["meta"] = behind(
        ["device", "vector", "complete_cpu", "n"],
        layer="block",
        order="foreign_handler_ns",
        title="requests that complete there",
    )
    frames = [
        _frame(places.index(place), axis) for place in places if place in accused for axis in ("y", "y2")
    ]
    return Drawn(
        lead="A column is an interrupt vector and the CPU that takes it. Above, the handlers that run there and their part of "
        "that CPU; below, how long a device's requests wait for other handlers on average. What shares a framed column "
        "shares the accused vector.",
        figure=figure(
            traces,
            {
                "xaxis": {
                    "tickvals": list(range(len(places))),
                    "labels": labels,
                    "range": [-0.5, len(places) - 0.5],
                    "anchor": "y2",
                    "tickangle": -90,
                    "showgrid": False,
                    "ticks": "",
                },
                "yaxis": _category(rows, [split + 46 / inner, 1]),
                "yaxis2": _category(devices, [0, split]),
            },
            height=inner + 24 + LABELS_PX,
            margin={"l": 150, "r": 14, "t": 24, "b": LABELS_PX},
            narrow={"margin": {"l": 92, "r": 8, "t": 24, "b": LABELS_PX}},
            shapes=frames,
            annotations=[
                caption("handler: part of the CPU's time", "", xref="paper"),
                caption("device: mean wait for other handlers", "2", xref="paper"),
            ],
        ),
    )


def _accused(finding: Finding, handlers: list[Row]) -> set[Place]:
    """The vector by its number, or all of a CPU; and every other vector on which the accused handler runs."""
    kind, _, number = finding.culprit.name.partition(" ")
    because = (finding.culprit.because_of or "").removeprefix("handler:")
    found = {_of(row): str(row["handler"]) == because for row in handlers}
    for row in handlers:
        found[_of(row)] |= str(row["handler"]) == because
    if kind == "cpu":
        return {place for place in found if str(place[1]) == number}
    return {place for place, its in found.items() if its or str(place[0]) == finding.culprit.name}


def _of(row: Row) -> Place:
    return whole(row["vector"]), whole(row["cpu"])


def _places(handlers: list[Row], waits: list[Row], accused: set[Place]) -> list[Place]:
    """Columns: the accused ones, then those where most time goes; drawn in order of CPU and vector."""
    busy: dict[Place, float] = {}
    for row in handlers:
        place = _of(row)
        busy[place] = busy.get(place, 0.0) + whole(row["total_ns"])
    for row in waits:
        busy.setdefault(_of(row), 0.0)
    ranked = sorted(busy, key=lambda place: (place not in accused, -busy[place], place))
    return sorted(ranked[:COLUMNS_MAX], key=lambda place: (place[1], place[0]))


def _place(place: Place) -> str:
    return f"CPU {place[1]}, " + ("no vector" if place[0] < 0 else f"vector {place[0]}")


def _names(
    rows: list[Row], key: str, weight: str, places: list[Place], accused: set[Place], because: str = ""
) -> list[str]:
    """Row names: the accused handler, what shares a vector with it, then the heaviest; drawn along the columns."""
    total: dict[str, float] = {}
    where: dict[str, tuple[float, int]] = {}
    beside: set[str] = set()
    for row in rows:
        name, value = str(row[key]), float(row[weight] or 0)
        total[name] = total.get(name, 0.0) + value
        if _of(row) in places:
            where[name] = max(where.get(name, (-1.0, 0)), (value, -places.index(_of(row))))
        if _of(row) in accused and len(accused) < len(places):
            beside.add(name)
    shown = [name for name in total if name in where]
    shown.sort(key=lambda name: (name != because, name not in beside, -total[name], name))
    return sorted(
        shown[:ROWS_MAX], key=lambda name: (name != because, name not in beside, -where[name][1], name)
    )


def _matrix(rows: list[Row], key: str, names: list[str], places: list[Place], cells: Any) -> Trace:
    """`cells`: (value, text, hover) of a row."""
    size = (len(names), len(places))
    z: list[list[float | None]] = [[None] * size[1] for _ in range(size[0])]
    text = [[""] * size[1] for _ in range(size[0])]
    hovers = [[""] * size[1] for _ in range(size[0])]
    most = 0.0
    for row in rows:
        place = _of(row)
        if str(row[key]) not in names or place not in places:
            continue
        r, c = names.index(str(row[key])), places.index(place)
        value, said, more = cells(row)
        z[r][c], hovers[r][c] = float(f"{value:.4g}"), more
        text[r][c] = said if len(places) <= COLUMNS_MAX // 2 else ""
        most = max(most, value)
    return {
        "type": "heatmap",
        "x": list(range(len(places))),
        "y": list(range(len(names))),
        "z": z,
        "text": text,
        "texttemplate": "%{text}",
        "textfont": {"size": 11},
        "hovertext": hovers,
        "hoverinfo": "text",
        "hoverongaps": False,
        "colorscale": heat_scale(),
        "showscale": False,
        "zmin": 0,
        "zmax": most or 1,
        "xgap": 2,
        "ygap": 2,
    }


def _handler_cells(look: Look) -> Any:
    def cell(row: Row) -> tuple[float, str, str]:
        part = whole(row["total_ns"]) / max(1, look.end_ns)
        each = whole(row["total_ns"]) / max(1, whole(row["calls"]))
        served = f"serves {row['device']}" if row["device"] else "serves no block device"
        return (
            part,
            units.share(part),
            hover(
                f"{row['handler']}: {units.share(part)} of CPU {row['cpu']}",
                served,
                f"{words.things(whole(row['calls']), 'call')}, {words.duration(each)} each, longest "
                f"{words.duration(whole(row['max_ns']))}",
            ),
        )

    return cell


def _wait_cells() -> Any:
    def cell(row: Row) -> tuple[float, str, str]:
        mean = float(row["mean_ns"] or 0)
        return (
            mean,
            words.duration(mean),
            hover(
                f"{row['device']}: {words.duration(mean)} on average",
                f"{words.things(whole(row['n']), 'request')} complete on CPU {row['cpu']}",
                f"at most {words.duration(whole(row['max_ns']))}; 99 % of them within {words.duration(whole(row['p99_ns']))}",
            ),
        )

    return cell


def _most(waits: list[Row], devices: list[str]) -> float:
    return max([1.0, *(float(row["mean_ns"] or 0) for row in waits if str(row["device"]) in devices)])


def _behind(waits: list[Row], devices: list[str], places: list[Place]) -> list[list[Any]]:
    cells: list[list[Any]] = [[None] * len(places) for _ in devices]
    for row in waits:
        place = _of(row)
        if str(row["device"]) in devices and place in places:
            vector = None if place[0] < 0 else place[0]
            cells[devices.index(str(row["device"]))][places.index(place)] = [
                str(row["device"]),
                vector,
                place[1],
                whole(row["n"]),
            ]
    return cells


def _category(names: list[str], domain: list[float]) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(names))),
        "labels": names,
        "range": [len(names) - 0.5, -0.5],
        "domain": domain,
        "showgrid": False,
        "ticks": "",
    }


def _frame(column: int, axis: str) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "x",
        "yref": f"{axis} domain",
        "x0": column - 0.5,
        "x1": column + 0.5,
        "y0": 0,
        "y1": 1,
        "line": {"color": colour("mark"), "width": 2},
    }


PICTURE = Picture(
    name="vectors",
    title="Vectors, handlers and devices",
    reads=(
        "irqs.handler",
        "irqs.vector",
        "irqs.cpu",
        "irqs.duration_ns",
        "ops.vector",
        "ops.foreign_handler_ns",
    ),
    draw=draw,
)
