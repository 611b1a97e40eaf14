"""Latency against the size of a request, or the number in flight: where a case holds a sweep.

Median and 99th percentile with 95 % intervals (time blocks of the recording resampled, since operations are not
independent). Columns read: `op`, `size_bytes` (bytes), `queue_depth`, `start_ns`, `latency_ns` (ns) of the top layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whodisk import words
from whodisk.findings import Finding
from whodisk.report.elements import table
from whodisk.report.markup import Markup
from whodisk.report.pictures.base import (
    Drawn,
    Look,
    Picture,
    Trace,
    behind,
    colour,
    figure,
    histograms,
    hover,
    log_time_axis,
)
from whodisk.statistics.stats import SEED, Floats, quantile_from_bins

#: Time blocks that are resampled, and how often.
BLOCKS = 32
ROUNDS = 200
#: Neighbouring latency bins differ by 1.1 %; an interval is never narrower than its bins.
BINS_PER_OCTAVE = 64
#: A value of the swept quantity counts with this many operations; fewer values are no sweep.
OPERATIONS_MIN = 200
VALUES_MIN = 3
VALUES_MAX = 24


@dataclass(frozen=True)
class Step:
    """One value of what is swept: (value, low, high) of two quantiles, ns."""

    value: int
    n: int
    median_ns: tuple[float, float, float]
    p99_ns: tuple[float, float, float]


def draw(look: Look, finding: Finding) -> Drawn | None:
    """Points with intervals, and the table behind them."""
    depth = finding.culprit.kind == "saturation"
    column, op = ("queue_depth" if depth else "size_bytes"), _main_kind(look)
    if op is None:
        return None
    data = look.case.arrays(_sql(look, column, op))
    steps = [_step(data, int(value)) for value in np.unique(data["value"])]
    steps = [step for step in steps if step.n >= OPERATIONS_MIN]
    steps = sorted(
        sorted(steps, key=lambda step: (-step.n, step.value))[:VALUES_MAX], key=lambda step: step.value
    )
    if len(steps) < VALUES_MIN:
        return None
    ends = [value for step in steps for value in (*step.median_ns, *step.p99_ns)]
    labels = [_label(step.value, depth) for step in steps]
    traces = [
        _trace(look, steps, labels, op, column, name, key)
        for name, key in (("99th percentile", "p99_ns"), ("median", "median_ns"))
    ]
    what = "operations in flight" if depth else "request size"
    return Drawn(
        lead=f"{words.plural_op(op).capitalize()} by {what}: median and 99th percentile of the latency, with 95 % intervals (parts of the "
        "recording resampled).",
        figure=figure(
            traces,
            {
                "xaxis": {
                    "tickvals": list(range(len(steps))),
                    "labels": labels,
                    "range": [-0.5, len(steps) - 0.5],
                    "title": what,
                    "showgrid": False,
                },
                "yaxis": log_time_axis(min(ends), max(ends), title="latency"),
            },
            height=300,
            margin={"l": 72, "r": 14, "t": 34, "b": 52},
            showlegend=True,
            legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False},
        ),
        table=_table(steps, labels, what),
    )


def _main_kind(look: Look) -> str | None:
    """The kind of operation that most time goes to."""
    rows = look.case.rows(
        f"SELECT op, sum(latency_ns) AS latency_ns FROM stage_totals WHERE layer = '{look.layer}' GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return str(rows[0]["op"]) if rows else None


def _sql(look: Look, column: str, op: str) -> str:
    block = (
        f"CAST(least(greatest(floor(start_ns * {BLOCKS} / {look.end_ns + 1}), 0), {BLOCKS - 1}) AS INTEGER)"
    )
    return f"""SELECT {column} AS value, {block} AS block,
  CAST(floor(log2(greatest(latency_ns, 1)) * {BINS_PER_OCTAVE}) AS INTEGER) AS bin, count(*) AS n
FROM measured WHERE layer = '{look.layer}' AND op = '{op}' AND {column} IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def _step(data: dict[str, Any], value: int) -> Step:
    mine = {key: values[data["value"] == value] for key, values in data.items()}
    middle, counts = histograms(mine, BLOCKS, "block", BINS_PER_OCTAVE)
    return Step(
        value,
        int(counts.sum()),
        _interval(middle, counts, 0.5),
        _interval(middle, counts, 0.99),
    )


def _interval(middle: Floats, counts: Floats, quantile: float) -> tuple[float, float, float]:
    """A quantile and its 95 % interval; only blocks in which there were any are drawn from."""
    counts = counts[counts.sum(axis=1) > 0]
    generator = np.random.default_rng(SEED)
    draws = generator.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), ROUNDS)
    found = [quantile_from_bins(middle, (one @ counts).astype(np.int64), quantile) for one in draws]
    low, high = np.percentile(found, [2.5, 97.5])
    value = quantile_from_bins(middle, counts.sum(axis=0).astype(np.int64), quantile)
    half = 2 ** (0.5 / BINS_PER_OCTAVE)
    return float(value), float(min(low, value) / half), float(max(high, value) * half)


def _label(value: int, depth: bool) -> str:
    return words.count(value) if depth else words.size(value)


def _trace(
    look: Look, steps: list[Step], labels: list[str], op: str, column: str, name: str, key: str
) -> Trace:
    found: list[tuple[float, float, float]] = [getattr(step, key) for step in steps]
    shade = colour("stage-device" if key == "median_ns" else "stage-queue")
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(range(len(steps))),
        "y": [round(value) for value, _, _ in found],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [round(high - value) for value, _, high in found],
            "arrayminus": [round(value - low) for value, low, _ in found],
            "color": shade,
            "thickness": 1.4,
            "width": 4,
        },
        "line": {"color": shade, "width": 1.6},
        "marker": {"size": 7, "color": shade, "symbol": "circle" if key == "median_ns" else "diamond"},
        "hoverinfo": "text",
        "hovertext": [
            hover(
                f"{label}: {words.duration(value)}",
                f"{name}, 95 %: {words.duration(low)} to {words.duration(high)}",
                words.things(step.n, "operation"),
            )
            for step, label, (value, low, high) in zip(steps, labels, found, strict=True)
        ],
        "customdata": [[step.value, step.n] for step in steps],
        "meta": behind([column, "n"], layer=look.layer, op=op, title="operations of this kind"),
    }


def _table(steps: list[Step], labels: list[str], what: str) -> Markup:
    """The same numbers as text."""
    rows = [
        (label, words.count(step.n), *_said(step.median_ns), *_said(step.p99_ns))
        for step, label in zip(steps, labels, strict=True)
    ]
    head = (what, "operations", "median", "95 %", "99th percentile", "95 %")
    return table(head, rows, numbers=(0, 1, 2, 3, 4, 5), fit=True)


def _said(found: tuple[float, float, float]) -> tuple[str, str]:
    value, low, high = found
    return words.duration(value), f"{words.duration(low)} to {words.duration(high)}"


PICTURE = Picture(
    name="sweep",
    title="The sweep",
    reads=("ops.size_bytes", "ops.queue_depth", "ops.start_ns", "ops.latency_ns"),
    draw=draw,
)
