"""When threads had nothing in flight: all of the recording, and the longest silence from near.

Above, the operations that began in every moment, and one line per thread with its silences. Below, everything that the
thread of the longest silence had in flight around it: time in the kernel or below, and time between completion and the
moment it was taken. Columns read: `tid`, `comm`, `start_ns`, `duration_ns` (ns), `state`, `meant_busy` of `gaps`;
`start_ns`, `latency_ns`, `app_ns`, `reap_ns` (ns), `tid` of operations.
"""

from __future__ import annotations

from typing import Any

from whodisk import words
from whodisk.findings import Finding
from whodisk.reading.views import Row
from whodisk.report import units
from whodisk.report.falls import thread
from whodisk.report.material import whole
from whodisk.report.pictures.base import (
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
)

#: Threads with a line of their own, those that were silent longest; silences drawn in all.
THREADS_MAX = 8
SILENCES_MAX = 600
#: Operations drawn around the longest silence, and what is shown before and after it as a part of its length.
OPERATIONS_MAX = 240
MARGIN = 0.6
#: Lanes for them.
LANES_MAX = 40
LANE_PX = 5
#: An operation that began earlier than this before the window is not looked for.
REACH_NS = 2_000_000_000


def draw(look: Look, finding: Finding) -> Drawn | None:
    """The timeline, and the longest silence from near."""
    stopped = "state stopped" in (finding.culprit.because_of or "")
    gaps = look.case.rows(_gaps_sql(look.layer, stopped)) or look.case.rows(_gaps_sql(look.layer, False))
    if not gaps:
        return None
    longest = gaps[0]
    threads = list(dict.fromkeys(whole(row["tid"]) for row in gaps))[:THREADS_MAX]
    silent = {tid: [row for row in gaps if whole(row["tid"]) == tid] for tid in threads}
    near, ids, lanes = _near(look, longest)
    lanes_px, near_px = 18 * len(threads), max(60, lanes * LANE_PX)
    inner = 90 + 26 + lanes_px + 74 + near_px

    def domain(top: float, px: float) -> list[float]:
        return [1 - (top + px) / inner, 1 - top / inner]

    names = [thread(silent[tid][0]) for tid in threads]
    axes = {
        "xaxis": clock_axis(look.end_ns, anchor="y2", title="time since the start"),
        "yaxis": {"domain": domain(0, 90), "rangemode": "tozero", "nticks": 4},
        "yaxis2": {
            "domain": domain(116, lanes_px),
            "tickvals": list(range(len(threads))),
            "labels": names,
            "range": [len(threads) - 0.5, -0.5],
            "showgrid": False,
            "ticks": "",
        },
        "xaxis2": {"anchor": "y3", **_near_axis(longest)},
        "yaxis3": {
            "domain": domain(190 + lanes_px, near_px),
            "range": [lanes - 0.4, -0.6],
            "showticklabels": False,
            "showgrid": False,
            "ticks": "",
        },
    }
    length = words.duration(whole(longest["duration_ns"]))
    shapes = [
        _window("x", "y domain", whole(longest["start_ns"]) / 1e9, whole(longest["duration_ns"]) / 1e9),
        _window("x2", "y3 domain", 0.0, whole(longest["duration_ns"]) / 1e6),
    ]
    number = whole(longest["gaps"])
    return Drawn(
        lead=f"{words.things(number, 'silence')} of threads that had work, {words.duration(whole(longest['silent_ns']))} in "
        f"all: nothing of theirs was in flight. The longest, {length}, is shaded above and drawn from near below: what "
        f"{thread(longest)} had in flight around it.",
        figure=figure(
            [*_began(look), *_lines(silent, threads), *near],
            axes,
            height=inner + 30 + 50,
            margin={"l": 150, "r": 14, "t": 30, "b": 50},
            narrow={"margin": {"l": 84, "r": 8, "t": 30, "b": 50}},
            barmode="overlay",
            bargap=0,
            shapes=shapes,
            annotations=[
                caption("operations that began, per second", "", xref="paper"),
                caption("silences of each thread", "2", xref="paper"),
                caption(
                    f"<span style='color:{colour('op-read')}'>in flight below</span>, "
                    f"<span style='color:{colour('stage-reap')}'>complete, not yet taken</span>",
                    "3",
                    xref="paper",
                ),
            ],
        ),
        op_ids=ids,
    )


def _gaps_sql(layer: str, stopped: bool) -> str:
    """Silences in which the workload meant to be busy, or was seen stopped; the longest first."""
    which = "state = 'stopped'" if stopped else "(meant_busy OR state = 'stopped')"
    return f"""SELECT tid, comm, start_ns, duration_ns, state, meant_busy, count(*) OVER () AS gaps,
  sum(duration_ns) OVER () AS silent_ns
FROM gaps WHERE layer = '{layer}' AND {which} ORDER BY duration_ns DESC, start_ns, tid LIMIT {SILENCES_MAX}"""


def _began(look: Look) -> list[Trace]:
    """Operations per second that began in every moment."""
    step = look.bin_ns / 1e9
    counts = {whole(row["moment"]): whole(row["n"]) for row in look.moments}
    last = max(counts, default=0)
    moments = list(range(last + 1))
    return [
        {
            "type": "bar",
            "x": [round((moment + 0.5) * step, 6) for moment in moments],
            "y": [float(f"{counts.get(moment, 0) / step:.4g}") for moment in moments],
            "width": step,
            "marker": {"color": colour("stage-device"), "line": {"width": 0}},
            "hoverinfo": "text",
            "textposition": "none",
            "hovertext": [
                hover(
                    f"{words.things(counts.get(moment, 0), 'operation')} began",
                    f"in {words.duration(look.bin_ns)} from {units.moment(moment * look.bin_ns)}",
                )
                for moment in moments
            ],
            "customdata": [
                [[moment * look.bin_ns, (moment + 1) * look.bin_ns], counts.get(moment, 0)]
                for moment in moments
            ],
            "meta": behind(["start_ns", "n"], layer=look.layer, title="operations that began in this moment"),
        }
    ]


def _lines(silent: dict[int, list[Row]], threads: list[int]) -> list[Trace]:
    rows = [(index, row) for index, tid in enumerate(threads) for row in silent[tid]]
    return [
        {
            "type": "bar",
            "orientation": "h",
            "yaxis": "y2",
            "width": 0.6,
            "base": [whole(row["start_ns"]) / 1e9 for _, row in rows],
            "x": [whole(row["duration_ns"]) / 1e9 for _, row in rows],
            "y": [index for index, _ in rows],
            "marker": {"color": colour("gap"), "line": {"color": colour("gap"), "width": 1}},
            "hoverinfo": "text",
            "textposition": "none",
            "hovertext": [
                hover(
                    f"silent for {words.duration(whole(row['duration_ns']))}",
                    f"{thread(row)}, from {units.moment(whole(row['start_ns']))}",
                    f"state: {row['state']}",
                )
                for _, row in rows
            ],
            # What was in flight when the silence began, or began in it.
            "customdata": [
                [
                    [
                        whole(row["start_ns"]) - whole(row["duration_ns"]),
                        whole(row["start_ns"]) + whole(row["duration_ns"]),
                    ],
                    whole(row["tid"]),
                ]
                for _, row in rows
            ],
            "meta": behind(["start_ns", "tid"], title="operations of this thread before and in the silence"),
        }
    ]


def _near(look: Look, gap: Row) -> tuple[list[Trace], tuple[int, ...], int]:
    """What the thread had in flight around a silence, in as few lanes as it needs."""
    start, length = whole(gap["start_ns"]), whole(gap["duration_ns"])
    low, high = start - int(MARGIN * length), start + length + int(MARGIN * length)
    rows = look.case.rows(
        f"""SELECT op_id, op, start_ns, latency_ns, coalesce(app_ns, 0) AS app_ns, coalesce(reap_ns, 0) AS reap_ns, size_bytes
FROM (SELECT * FROM {look.layer}_ops WHERE tid = {whole(gap["tid"])} AND start_ns >= {low - REACH_NS} AND start_ns < {high}
  AND start_ns + latency_ns > {low} ORDER BY abs(start_ns - {start}), op_id LIMIT {OPERATIONS_MAX}) AS near
ORDER BY start_ns, op_id"""
    )
    ends: list[int] = []
    bars: list[tuple[int, Row]] = []
    for row in rows:
        begin = whole(row["start_ns"]) + whole(row["app_ns"])
        lane = next((index for index, end in enumerate(ends) if end <= begin), len(ends))
        if lane >= LANES_MAX:
            continue
        ends[lane : lane + 1] = [whole(row["start_ns"]) + whole(row["latency_ns"])]
        bars.append((lane, row))
    ids = tuple(whole(row["op_id"]) for _, row in bars)
    return [_bars(bars, start, part, look.layer) for part in ("inside", "reap")], ids, max(1, len(ends))


def _bars(bars: list[tuple[int, Row]], zero: int, part: str, layer: str) -> Trace:
    base, length = [], []
    for _, row in bars:
        begin = whole(row["start_ns"]) + whole(row["app_ns"])
        inside = whole(row["latency_ns"]) - whole(row["app_ns"]) - whole(row["reap_ns"])
        base.append((begin - zero + (inside if part == "reap" else 0)) / 1e6)
        length.append((whole(row["reap_ns"]) if part == "reap" else inside) / 1e6)
    shade = colour("stage-reap" if part == "reap" else "op-read")
    return {
        "type": "bar",
        "orientation": "h",
        "xaxis": "x2",
        "yaxis": "y3",
        "width": 0.7,
        "base": base,
        "x": length,
        "y": [lane for lane, _ in bars],
        "marker": {"color": shade, "line": {"color": shade, "width": 0.5}},
        "hoverinfo": "text",
        "textposition": "none",
        "hovertext": [
            hover(
                f"{row['op']} {words.size(whole(row['size_bytes'])) if row['size_bytes'] else ''}: "
                f"{words.duration(whole(row['latency_ns']))}",
                f"{words.duration(whole(row['reap_ns']))} of it complete, not yet taken"
                if row["reap_ns"]
                else "",
            )
            for _, row in bars
        ],
        "customdata": [[[str(row["op_id"])]] for _, row in bars],
        "meta": behind(["op_id"], layer=layer, title="this operation"),
    }


def _near_axis(gap: Row) -> dict[str, Any]:
    length = whole(gap["duration_ns"]) / 1e6
    return {
        "range": [-MARGIN * length, (1 + MARGIN) * length],
        "ticksuffix": " ms",
        "nticks": 6,
        "title": "time since the silence began",
    }


def _window(x: str, y: str, start: float, length: float) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": x,
        "yref": y,
        "x0": start,
        "x1": start + length,
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "fillcolor": colour("gap"),
        "opacity": 0.16,
        "line": {"color": colour("gap"), "width": 1},
    }


PICTURE = Picture(
    name="silences",
    title="The silence on the clock",
    reads=(
        "gaps.tid",
        "gaps.start_ns",
        "gaps.duration_ns",
        "gaps.state",
        "ops.start_ns",
        "ops.latency_ns",
        "ops.reap_ns",
    ),
    draw=draw,
)
