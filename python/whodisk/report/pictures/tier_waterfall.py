"""One read, piece by piece: which tier served each, how long the read waited for it, and the requests below it.

The read is a typical one of those that waited: the median of their waits. Waits are laid end to end in the order of the
pieces (the case knows how long each took, not when it began); requests stand where they really were. Columns read:
`op_id`, `tier`, `offset_bytes`, `size_bytes` (bytes), `wait_ns` (ns) of `cache`; `links`; `start_ns`, `latency_ns` (ns) of
operations.
"""

from __future__ import annotations

from typing import Any

from whodisk import words
from whodisk.findings import Finding
from whodisk.reading.views import Row
from whodisk.report import queries
from whodisk.report.falls import lower, what
from whodisk.report.material import whole
from whodisk.report.pictures.base import Drawn, Look, Picture, Trace, behind, colour, figure, hover, plain
from whodisk.report.pictures.request_map import accused_size, ordered_tiers, tier_colour

#: Pieces and requests drawn at most.
PIECES_MAX = 24
REQUESTS_MAX = 16
ROW_PX = 24
#: A bar that is this part of the picture carries its text inside.
LONG = 0.55


def draw(look: Look, finding: Finding) -> Drawn | None:
    """A bar per piece with its wait, then a bar per request."""
    size = accused_size(look, finding)
    read = _typical(look, size) if size is not None else None
    if read is None:
        return None
    op_id, start, latency = (whole(read[name]) for name in ("op_id", "start_ns", "latency_ns"))
    pieces = _merged(
        look.case.rows(
            f"""SELECT tier, coalesce(offset_bytes, 0) - {whole(read["offset_bytes"])} AS at_bytes, size_bytes, wait_ns
FROM cache WHERE op_id = {op_id} ORDER BY offset_bytes, tier"""
        )
    )
    left_out = max(0, len(pieces) - PIECES_MAX)
    pieces = pieces[:PIECES_MAX]
    requests = look.case.rows(queries.requests([op_id]))[:REQUESTS_MAX]
    tiers = ordered_tiers(row["tier"] for row in pieces)
    labels = [_piece(row) for row in pieces] + [f"{lower(row)}: {what(row)}" for row in requests]
    waited = sum(whole(row["wait_ns"]) for row in pieces)
    end = max([latency, waited, *(whole(r["start_ns"]) + whole(r["latency_ns"]) - start for r in requests)])
    divisor, unit = next(((d, u) for d, u in ((1e9, "s"), (1e6, "ms"), (1e3, "us")) if end >= d), (1.0, "ns"))
    more = f" {words.things(left_out, 'piece')} more are not drawn." if left_out else ""
    below = " Below: its requests, where they really were." if requests else ""
    traces = [*_waits(pieces, tiers, divisor, end), *_requests(requests, len(pieces), start, divisor)]
    inner = ROW_PX * len(labels)
    return Drawn(
        lead=f"A read of {words.size(size or 0)} that took {words.duration(latency)}, {words.duration(waited)} of it waiting for data. "
        f"What was there costs nothing; what was waited for is laid end to end.{below}{more}",
        figure=figure(
            traces,
            {
                "xaxis": {
                    "range": [0, end / divisor * 1.02],
                    "ticksuffix": f" {unit}",
                    "nticks": 7,
                    "title": "time in the read",
                },
                "yaxis": {
                    "tickvals": list(range(len(labels))),
                    "labels": labels,
                    "range": [len(labels) - 0.5, -0.5],
                    "showgrid": False,
                    "ticks": "",
                },
            },
            height=inner + 96,
            margin={"l": 230, "r": 16, "t": 40, "b": 56},
            narrow={"margin": {"l": 124, "r": 10, "t": 40, "b": 56}},
            barmode="overlay",
            showlegend=True,
            legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False},
            shapes=[_end(latency / divisor)],
        ),
        op_ids=(op_id, *(whole(row["op_id"]) for row in requests)),
    )


def _typical(look: Look, size: int | None) -> Row | None:
    """The read with the median wait of all reads of that size that waited."""
    rows = look.case.rows(
        f"""SELECT op_id, start_ns, latency_ns, offset_bytes FROM (
  SELECT r.op_id, r.start_ns, r.latency_ns, r.offset_bytes, percent_rank() OVER (ORDER BY sum(c.wait_ns), r.op_id) AS place
  FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
  WHERE r.op = 'read' AND r.size_bytes = {size} AND c.wait_ns > 0
  GROUP BY r.op_id, r.start_ns, r.latency_ns, r.offset_bytes) AS waited
WHERE place >= 0.5 ORDER BY place, op_id LIMIT 1"""
    )
    return rows[0] if rows else None


def _merged(pieces: list[Row]) -> list[Row]:
    """Neighbours of one tier that were there at once are one piece."""
    merged: list[Row] = []
    for row in pieces:
        last = merged[-1] if merged else None
        if last and last["tier"] == row["tier"] and not whole(last["wait_ns"]) and not whole(row["wait_ns"]):
            merged[-1] = {**last, "size_bytes": whole(last["size_bytes"]) + whole(row["size_bytes"])}
        else:
            merged.append(row)
    return merged


def _piece(row: Row) -> str:
    return f"{row['tier']}: {words.size(whole(row['size_bytes']))} at {words.size(max(0, whole(row['at_bytes'])))}"


def _waits(pieces: list[Row], tiers: list[str], divisor: float, end_ns: int) -> list[Trace]:
    traces, at, begins = [], 0, []
    for row in pieces:
        begins.append(at)
        at += whole(row["wait_ns"])
    for tier in tiers:
        mine = [index for index, row in enumerate(pieces) if row["tier"] == tier]
        traces.append(
            {
                **_bar(colour_of := tier_colour(tier, tiers)),
                "name": plain(tier),
                "base": [begins[index] / divisor for index in mine],
                "x": [whole(pieces[index]["wait_ns"]) / divisor for index in mine],
                "y": mine,
                "text": [_said(whole(pieces[index]["wait_ns"])) for index in mine],
                "hovertext": [
                    hover(_piece(pieces[index]), _said(whole(pieces[index]["wait_ns"]))) for index in mine
                ],
                "textposition": [
                    "inside" if whole(pieces[index]["wait_ns"]) > LONG * end_ns else "outside"
                    for index in mine
                ],
                "insidetextanchor": "end",
                "constraintext": "none",
                "textangle": 0,
                "cliponaxis": False,
                "marker": {"color": colour_of, "line": {"color": colour_of, "width": 1.5}},
            }
        )
    return traces


def _said(wait_ns: int) -> str:
    return f"waited {words.duration(wait_ns)}" if wait_ns else "there"


def _requests(requests: list[Row], first: int, start: int, divisor: float) -> list[Trace]:
    if not requests:
        return []
    return [
        {
            **_bar(colour("stage-unknown")),
            "name": "request below",
            "base": [(whole(row["start_ns"]) - start) / divisor for row in requests],
            "x": [whole(row["latency_ns"]) / divisor for row in requests],
            "y": [first + index for index in range(len(requests))],
            "textposition": "none",
            "hovertext": [
                hover(
                    f"{lower(row)}: {what(row)}, {words.duration(whole(row['latency_ns']))}",
                    f"from {words.duration(whole(row['start_ns']) - start)} after the read began",
                )
                for row in requests
            ],
            "customdata": [[[str(row["op_id"])]] for row in requests],
            "meta": behind(["op_id"], title="this request"),
        }
    ]


def _bar(shade: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "width": 0.62,
        "hoverinfo": "text",
        "textfont": {"size": 11.5},
        "marker": {"color": shade},
    }


def _end(at: float) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": at,
        "x1": at,
        "y0": 0,
        "y1": 1,
        "line": {"color": colour("faint"), "width": 1, "dash": "dot"},
    }


PICTURE = Picture(
    name="tier_waterfall",
    title="One of these reads, by tier",
    reads=(
        "cache.tier",
        "cache.offset_bytes",
        "cache.size_bytes",
        "cache.wait_ns",
        "links.child_id",
        "ops.latency_ns",
    ),
    draw=draw,
)
