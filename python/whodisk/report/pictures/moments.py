"""What the slowest operation of every moment waited for, and where all the time of that moment went.

Shows stalls, bursts and steady faults alike, so it is the picture of every finding that has none of its own. Columns read:
`start_ns`, `latency_ns` (ns), the stages (ns) of the top layer, and for stolen CPUs the series `steal_ratio` (parts of all
CPU time).
"""

from __future__ import annotations

from typing import Any

from whodisk import words
from whodisk.findings import Finding
from whodisk.reading.views import STAGES, Row
from whodisk.report import units
from whodisk.report.material import whole
from whodisk.report.pictures.base import (
    MOMENTS,
    Drawn,
    Look,
    Picture,
    Trace,
    behind,
    caption,
    clock_axis,
    colour,
    figure,
    hover,
    log_time_axis,
    plain,
)

#: A stage with less of all time cannot be seen: it is drawn, but not in the legend.
SEEN_MIN = 0.005


def draw(look: Look, finding: Finding) -> Drawn | None:
    """Points above, stacked shares below."""
    slowest = look.slowest
    if not slowest:
        return None
    held = {stage: sum(whole(row[f"{stage}_ns"]) for row in look.moments) for stage in STAGES}
    stages = [stage for stage in STAGES if held[stage]]
    seen = {stage for stage in stages if held[stage] > SEEN_MIN * sum(held.values())}
    stolen = _stolen(look, finding)
    foot = 0.24 if stolen else 0.0
    low = min(whole(row["latency_ns"]) for row in slowest)
    high = max(whole(row["latency_ns"]) for row in slowest)
    traces = [*_points(look, slowest, stages, seen), *_shares(look, stages), *stolen]
    # Below the points: the stages, if any were observed, and the hypervisor, if it is accused.
    lower = [foot, foot + (0.24 if stolen else 0.3)] if stages else [0.0, foot and foot - 0.1]
    last = "y3" if stolen else "y2" if stages else "y"
    above = lower[1] + 0.12 if stages or stolen else 0.0
    axes: dict[str, Any] = {
        "xaxis": clock_axis(look.end_ns, anchor=last, title="time since the start"),
        "yaxis": log_time_axis(low, high, domain=[above, 1]),
    }
    notes = [caption("slowest operation of each moment (latency)", "", xref="paper")]
    if stages:
        axes["yaxis2"] = {
            "domain": lower,
            "range": [0, 1],
            "tickformat": ".0%",
            "nticks": 3,
            "showgrid": False,
        }
        notes.append(caption("time of all operations, by stage", "2", xref="paper"))
    if stolen:
        axes["yaxis3"] = {"domain": [0, foot - 0.1], "rangemode": "tozero", "tickformat": ".0%", "nticks": 3}
        notes.append(caption("CPU time taken by the hypervisor", "3", xref="paper"))
    return Drawn(
        lead=f"Each point is the slowest {look.layer} operation that began in {words.duration(look.bin_ns)}, in the colour of the "
        "stage that held most of it"
        + ("; below, where all the time of that moment went." if stages else "."),
        figure=figure(
            traces,
            axes,
            height=430 if stolen else 360 if stages else 270,
            margin={"l": 62, "r": 14, "t": 52, "b": 50},
            barmode="stack",
            bargap=0,
            showlegend=True,
            legend={"orientation": "h", "x": 0, "y": 1.08, "yanchor": "bottom", "itemclick": False},
            annotations=notes,
        ),
        op_ids=tuple(whole(row["op_id"]) for row in slowest),
    )


def _main_stage(row: Row, stages: list[str]) -> str:
    held = max(stages, key=lambda stage: whole(row[f"{stage}_ns"]), default="unknown")
    return held if stages and whole(row[f"{held}_ns"]) else "unknown"


def _points(look: Look, slowest: list[Row], stages: list[str], seen: set[str]) -> list[Trace]:
    """One trace per stage, so that the legend names them."""
    traces = []
    for stage in [*(s for s in stages if s != "unknown"), "unknown"]:
        mine = [row for row in slowest if _main_stage(row, stages) == stage]
        name = look.case.stage_name(look.layer, stage) if stage in stages else "stages not observed"
        if not mine and stage not in stages:
            continue
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plain(name),
                "showlegend": bool(mine) or stage in seen,
                # An empty trace keeps its place in the legend: the bars below have the colour, too.
                "x": [whole(row["start_ns"]) / 1e9 for row in mine] if mine else [None],
                "y": [max(1, whole(row["latency_ns"])) for row in mine] if mine else [None],
                "marker": {"size": 6, "color": colour(f"stage-{stage}")},
                "hoverinfo": "text",
                "hovertext": [_point(row, stage, name) for row in mine],
                "customdata": [[[str(row["op_id"])]] for row in mine],
                "meta": behind(["op_id"], layer=look.layer, title="the slowest operation of this moment"),
            }
        )
    return traces


def _point(row: Row, stage: str, name: str) -> str:
    size = f" {words.size(whole(row['size_bytes']))}" if row["size_bytes"] else ""
    held = whole(row[f"{stage}_ns"]) / max(1, whole(row["latency_ns"]))
    return hover(
        words.duration(whole(row["latency_ns"])),
        f"{row['op']}{size}, began at {units.moment(whole(row['start_ns']))}",
        f"{units.share(held)} of it {name}" if held else "",
        str(row["device"] or row["file"] or ""),
    )


def _shares(look: Look, stages: list[str]) -> list[Trace]:
    width = look.bin_ns / 1e9
    traces = []
    for stage in stages:
        name = look.case.stage_name(look.layer, stage)
        rows = [row for row in look.moments if whole(row[f"{stage}_ns"])]
        shares = [min(1.0, whole(row[f"{stage}_ns"]) / max(1, whole(row["latency_ns"]))) for row in rows]
        traces.append(
            {
                "type": "bar",
                "yaxis": "y2",
                "showlegend": False,
                "width": width,
                "x": [(whole(row["moment"]) + 0.5) * width for row in rows],
                "y": [float(f"{share:.4g}") for share in shares],
                "marker": {"color": colour(f"stage-{stage}"), "line": {"width": 0}},
                "hoverinfo": "text",
                "textposition": "none",
                "hovertext": [
                    hover(
                        f"{name}: {units.share(share)}",
                        f"of the time of {words.things(whole(row['n']), 'operation')}",
                    )
                    for row, share in zip(rows, shares, strict=True)
                ],
                "customdata": [[_span(look, row), whole(row["n"])] for row in rows],
                "meta": behind(
                    ["start_ns", "n"],
                    layer=look.layer,
                    order=f"{stage}_ns",
                    title="operations of this moment",
                ),
            }
        )
    return traces


def _span(look: Look, row: Row) -> list[int | None]:
    moment = whole(row["moment"])
    return [moment * look.bin_ns, None if moment == MOMENTS - 1 else (moment + 1) * look.bin_ns]


def _stolen(look: Look, finding: Finding) -> list[Trace]:
    """The hypervisor's part of the CPUs, where it is what the finding is about."""
    if finding.detector != "stolen_cpu":
        return []
    rows = look.case.rows(
        f"""SELECT CAST(floor(time_ns / {look.bin_ns}) AS INTEGER) AS moment, max(value) AS stolen FROM series
WHERE metric = 'steal_ratio' GROUP BY 1 ORDER BY 1"""
    )
    if not rows:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "yaxis": "y3",
            "showlegend": False,
            "fill": "tozeroy",
            "line": {"color": colour("gap"), "width": 1.5, "shape": "hv"},
            "x": [whole(row["moment"]) * look.bin_ns / 1e9 for row in rows],
            "y": [float(row["stolen"] or 0) for row in rows],
            "hoverinfo": "text",
            "hovertext": [
                hover(f"{units.share(float(row['stolen'] or 0))} stolen", "of the time of all CPUs")
                for row in rows
            ],
        }
    ]


PICTURE = Picture(
    name="moments",
    title="The slowest operation of every moment",
    reads=("ops.start_ns", "ops.latency_ns", "ops.<stage>_ns", "series.value"),
    draw=draw,
)
