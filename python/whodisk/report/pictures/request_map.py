"""Which part of its requests a workload waits for: every request from its first byte to its last.

Above, which tier served the bytes at each place in the request; below, over time, the part of the bytes at that place that
had to be waited for. Reads of the size that the finding accuses, or else of the size that waits longest in all. Columns
read: `op_id`, `tier`, `offset_bytes`, `size_bytes` (bytes), `wait_ns` (ns) of `cache`; `offset_bytes`, `size_bytes`,
`start_ns` of operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from whodisk import words
from whodisk.findings import Finding
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
    heat_bar,
    heat_scale,
    hover,
    plain,
)
from whodisk.statistics.stats import Floats

#: Places in a request, and time bins.
PLACES = 66
TIME_BINS = 40
#: Reads looked at, thinned out evenly by a hash of their id.
READS_MAX = 20_000
#: Colours of tiers, the fastest first; others follow in order of name.
TIERS = {
    "ram": "stage-device",
    "readahead": "stage-interrupt",
    "ssd": "stage-fs",
    "hdd": "stage-queue",
    "device": "stage-queue",
}
OTHER_TIERS = ("stage-reap", "stage-app", "stage-throttle")


def accused_size(look: Look, finding: Finding) -> int | None:
    """Size of the requests to look at, bytes: the one that the finding names, or the one that waits longest."""
    named = re.match(r"(?:read|copy) of (\d+) bytes$", finding.culprit.name)
    rows = look.case.rows(
        """SELECT r.size_bytes, sum(c.wait_ns) AS wait_ns FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
WHERE r.op = 'read' AND c.offset_bytes IS NOT NULL AND r.offset_bytes IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"""
    )
    sizes = [whole(row["size_bytes"]) for row in rows]
    if named and int(named[1]) in sizes:
        return int(named[1])
    return sizes[0] if sizes else None


def ordered_tiers(tiers: Iterable[Any]) -> list[str]:
    """Each tier once, the fastest first."""
    known = list(TIERS)
    return sorted(
        {str(tier) for tier in tiers}, key=lambda name: (known.index(name) if name in TIERS else 99, name)
    )


def tier_colour(tier: str, tiers: list[str]) -> str:
    """The colour of a tier in every picture."""
    others = sorted(name for name in tiers if name not in TIERS)
    return colour(TIERS[tier] if tier in TIERS else OTHER_TIERS[others.index(tier) % len(OTHER_TIERS)])


def pieces_sql(size: int, part: int) -> str:
    """Pieces of the reads of one size, one in `part` of them, by their place inside the request."""
    return f"""SELECT c.op_id, c.tier, greatest(c.offset_bytes, r.offset_bytes) - r.offset_bytes AS at_bytes,
  least(c.offset_bytes + c.size_bytes, r.offset_bytes + r.size_bytes) - r.offset_bytes AS to_bytes, c.wait_ns, r.start_ns
FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id
WHERE r.op = 'read' AND r.size_bytes = {size} AND c.offset_bytes IS NOT NULL AND r.offset_bytes IS NOT NULL
  AND hash(r.op_id) % {part} = 0
ORDER BY c.op_id, 3, c.tier"""


def draw(look: Look, finding: Finding) -> Drawn | None:
    """The two panels."""
    size = accused_size(look, finding)
    if size is None:
        return None
    layer = _layer_of(look, size)
    reads = whole(
        look.case.rows(f"SELECT count(*) AS n FROM measured WHERE op = 'read' AND size_bytes = {size}")[0][
            "n"
        ]
    )
    part = max(1, -(-reads // READS_MAX))
    data = look.case.arrays(pieces_sql(size, part))
    if not len(data["op_id"]):
        return None
    places = min(PLACES, max(1, size // 512))
    step = size / places
    tiers = ordered_tiers(data["tier"])
    tier = np.array([tiers.index(str(name)) for name in data["tier"]])
    served = np.stack([_covered(data, tier == index, places, step) for index in range(len(tiers))])
    moment = np.clip(data["start_ns"] * TIME_BINS // (look.end_ns + 1), 0, TIME_BINS - 1).astype(np.int64)
    waited = _over_time(data, data["wait_ns"] > 0, moment, places, step)
    every = _over_time(data, data["wait_ns"] >= 0, moment, places, step)
    thinned = f" One read in {words.count(part)} was looked at." if part > 1 else ""
    unit, name = _unit(size)
    traces = [*_profile(served, tiers, step, unit, name), _map(look, waited, every, step, unit, size, layer)]
    return Drawn(
        lead=f"Reads of {words.size(size)}, from their first byte to their last ({words.things(len(np.unique(data['op_id'])), 'read')})."
        f" Above: which tier served the bytes at each place. Below: the part of them that was waited for, over time.{thinned}",
        figure=figure(
            traces,
            {
                "xaxis": {
                    "range": [0, size / unit],
                    "ticksuffix": f" {name}",
                    "anchor": "y2",
                    "title": "place inside the request",
                },
                "yaxis": {"domain": [0.72, 1], "range": [0, 1.001], "tickformat": ".0%", "nticks": 3},
                "yaxis2": {
                    "domain": [0, 0.46],
                    "range": [0, look.end_ns / 1e9],
                    "ticksuffix": " s",
                    "nticks": 6,
                },
            },
            height=400,
            margin={"l": 62, "r": 14, "t": 52, "b": 50},
            barmode="stack",
            bargap=0,
            showlegend=True,
            legend={"orientation": "h", "x": 0, "y": 1.09, "yanchor": "bottom", "itemclick": False},
            annotations=[
                caption("served by", "", xref="paper"),
                caption("waited for, over time", "2", xref="paper"),
            ],
        ),
    )


def _layer_of(look: Look, size: int) -> str:
    """The layer of the reads that the table of the cache speaks of."""
    rows = look.case.rows(
        f"""SELECT r.layer FROM cache AS c JOIN measured AS r ON r.op_id = c.op_id WHERE r.size_bytes = {size} LIMIT 1"""
    )
    return str(rows[0]["layer"]) if rows else look.layer


def _covered(data: dict[str, Any], chosen: Any, places: int, step: float) -> Floats:
    """Bytes of the chosen pieces at each place."""
    once = np.zeros(len(data["op_id"]), np.int64)
    return np.asarray(_over_time(data, chosen, once, places, step)[0], np.float64)


def _over_time(data: dict[str, Any], chosen: Any, moment: Any, places: int, step: float) -> Floats:
    """Bytes of the chosen pieces per moment and place: the ends of the pieces, summed up along the request."""
    rows = int(moment.max()) + 1 if len(moment) else 1
    edges = np.zeros((max(rows, 1), places + 2))
    for sign, key in ((1.0, "at_bytes"), (-1.0, "to_bytes")):
        at = np.clip(data[key][chosen].astype(np.float64) / step, 0, places)
        cell = np.floor(at).astype(np.int64)
        # A piece begins inside a place: this place has the rest of it only, every later one all of it.
        np.add.at(edges, (moment[chosen], cell), sign * (1 - (at - cell)))
        np.add.at(edges, (moment[chosen], cell + 1), sign * (at - cell))
    cumulative = np.cumsum(edges, axis=1)
    return np.asarray(cumulative[:, :places] * step, np.float64)


def _unit(size: int) -> tuple[int, str]:
    return (1 << 20, "MiB") if size >= 4 << 20 else (1 << 10, "KiB") if size >= 4 << 10 else (1, "B")


def _profile(served: Floats, tiers: list[str], step: float, unit: int, name: str) -> list[Trace]:
    total = np.maximum(served.sum(axis=0), 1e-9)
    places = served.shape[1]
    traces = []
    for index, tier in enumerate(tiers):
        shares = served[index] / total
        traces.append(
            {
                "type": "bar",
                "name": plain(tier),
                "x": [round((place + 0.5) * step / unit, 6) for place in range(places)],
                "y": [float(f"{share:.4g}") for share in shares],
                "width": step / unit,
                "marker": {"color": tier_colour(tier, tiers), "line": {"width": 0}},
                "hoverinfo": "text",
                "textposition": "none",
                "hovertext": [
                    hover(
                        f"{units.share(min(1.0, float(share)))} from {tier}",
                        f"bytes {place * step / unit:.4g} to {(place + 1) * step / unit:.4g} {name} of the request",
                    )
                    for place, share in enumerate(shares)
                ],
            }
        )
    return traces


def _map(look: Look, waited: Floats, every: Floats, step: float, unit: int, size: int, layer: str) -> Trace:
    places = waited.shape[1]
    width = (look.end_ns + 1) / TIME_BINS
    z: list[list[float | None]] = []
    text, cells = [], []
    for row in range(TIME_BINS):
        there = every[row] if row < len(every) else np.zeros(places)
        mine = waited[row] if row < len(waited) else np.zeros(places)
        share = [float(f"{m / t:.3g}") if t > 1e-6 else None for m, t in zip(mine, there, strict=True)]
        z.append(share)
        span = [int(row * width), int((row + 1) * width) + 1]
        cells.append([[span]] * places)
        text.append(
            [
                ""
                if part is None
                else hover(
                    f"{units.share(min(1.0, part))} waited for",
                    f"{words.size(place * step)} to {words.size((place + 1) * step)} of the request, from {units.moment(span[0])}",
                )
                for place, part in enumerate(share)
            ]
        )
    return {
        "type": "heatmap",
        "yaxis": "y2",
        "x": [round(place * step / unit, 6) for place in range(places + 1)],
        "y": [round(row * width / 1e9, 6) for row in range(TIME_BINS + 1)],
        "z": z,
        "zmin": 0,
        "zmax": 1,
        "hovertext": text,
        "hoverinfo": "text",
        "hoverongaps": False,
        "colorscale": heat_scale(),
        "colorbar": heat_bar("part of the bytes", tickformat=".0%", tickvals=[0, 0.5, 1], x=0.98, y=0.53),
        "customdata": cells,
        "meta": behind(
            ["start_ns"],
            layer=layer,
            op="read",
            size_bytes=size,
            title=f"reads of {words.size(size)} in that time",
        ),
    }


PICTURE = Picture(
    name="request_map",
    title="Where inside the request it waits",
    reads=(
        "cache.tier",
        "cache.offset_bytes",
        "cache.size_bytes",
        "cache.wait_ns",
        "ops.offset_bytes",
        "ops.size_bytes",
    ),
    draw=draw,
)
