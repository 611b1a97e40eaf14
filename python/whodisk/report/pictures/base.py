"""What every picture of a finding shares: what it may look at, what it gives back, axes, hover text.

A picture is one file in this folder and one line of the registry (`whodisk.report.pictures`). It describes
itself as data for Plotly (traces, axes, shapes), colours by the names of the style sheet; `assets/figure.js` draws
all of them. A click on a point shows the operations behind it: the trace's `meta` says which (`behind`).
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from whodisk.findings import Finding
from whodisk.reading.views import STAGES, Case, Row
from whodisk.report.markup import Markup
from whodisk.statistics.stats import Floats

#: Time bins of a timeline.
MOMENTS = 240
#: Links that are looked at, evenly chosen, to learn which devices are stacked.
STACKED_LOOKED_AT = 50_000
#: `packed` holds an op_id in the low bits, so that one `max` gives the slowest operation and, of equals, always the same.
ID_BITS = 60

Figure = dict[str, Any]
Trace = dict[str, Any]


@dataclass(frozen=True)
class Drawn:
    """A picture, ready to be embedded."""

    #: What is to be seen, in a sentence or two.
    lead: str
    #: Traces, axes, layout, height; see `figure`.
    figure: Figure
    #: Operations that a click can ask for, beyond those that the report carries anyway.
    op_ids: tuple[int, ...] = ()
    #: The same numbers as text.
    table: Markup | None = None


@dataclass(frozen=True)
class Picture:
    """A picture and what it needs."""

    name: str
    title: str
    #: Columns of named views that it reads.
    reads: tuple[str, ...]
    draw: Callable[[Look, Finding], Drawn | None]


@dataclass
class Look:
    """What pictures may look at: a case through its named views, and what several of them share."""

    case: Case
    #: End of the recording, ns since its start.
    end_ns: int
    #: Slow from (ns), per layer and kind; only kinds that have slow operations.
    slow_from_ns: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def layer(self) -> str:
        """The top layer: what the workload asked for."""
        return self.case.layers[0] if self.case.layers else "block"

    @property
    def bin_ns(self) -> int:
        """Width of a moment, ns."""
        return max(1, math.ceil((self.end_ns + 1) / MOMENTS))

    @cached_property
    def moments(self) -> list[Row]:
        """Stage sums of the top layer per moment, and the slowest operation of each."""
        sums = ", ".join(f"sum({stage}_ns) AS {stage}_ns" for stage in STAGES)
        return self.case.rows(
            f"""SELECT CAST(least(greatest(floor(start_ns / {self.bin_ns}), 0), {MOMENTS - 1}) AS INTEGER) AS moment,
  count(*) AS n, sum(latency_ns) AS latency_ns, {packed()} AS packed, {sums}
FROM {self.layer}_ops GROUP BY 1 ORDER BY 1"""
        )

    @cached_property
    def slowest(self) -> list[Row]:
        """The slowest operation of the top layer in every moment."""
        ids = sorted(unpacked(row["packed"])[0] for row in self.moments)
        return operations(self.case, self.layer, ids)

    @cached_property
    def stacked(self) -> set[str]:
        """Devices that are made of others: no peers of these, and their requests are those of the others again."""
        links = self.case.rows("SELECT count(*) AS n FROM links WHERE kind = 'stacked'")[0]["n"]
        part = max(1, int(links or 0) // STACKED_LOOKED_AT)
        rows = self.case.rows(
            f"""SELECT DISTINCT device FROM block_ops WHERE op_id IN (
  SELECT parent_id FROM links WHERE kind = 'stacked' AND hash(parent_id) % {part} = 0)"""
        )
        return {str(row["device"]) for row in rows}


def histograms(data: dict[str, Any], rows: int, row: str, bins_per_octave: int) -> tuple[Floats, Floats]:
    """Middle of each latency bin (ns), and the counts per row and bin: from columns `row`, `bin` (bins per octave) and `n`."""
    bins, place = np.unique(data["bin"].astype(np.int64), return_inverse=True)
    counts = np.zeros((rows, len(bins)))
    np.add.at(counts, (data[row].astype(np.int64), place), data["n"])
    middle: Floats = 2 ** ((bins + 0.5) / bins_per_octave)
    return middle, counts


def packed() -> str:
    """SQL: latency and op_id of the slowest operation of a group in one number."""
    return f"max(CAST(latency_ns AS HUGEINT) * {1 << ID_BITS} + op_id)"


def unpacked(value: Any) -> tuple[int, int]:
    """(op_id, latency_ns) of a `packed` number."""
    latency_ns, op_id = divmod(int(value), 1 << ID_BITS)
    return op_id, latency_ns


def operations(case: Case, layer: str, op_ids: Sequence[int]) -> list[Row]:
    """The operations with these ids, in order of start."""
    if not op_ids:
        return []
    listed = ", ".join(str(op_id) for op_id in op_ids)
    return case.rows(f"SELECT * FROM {layer}_ops WHERE op_id IN ({listed}) ORDER BY start_ns, op_id")


# -- describing a picture -----------------------------------------------------------------------


def figure(traces: Sequence[Trace], axes: dict[str, Any], *, height: int, **layout: Any) -> Figure:
    """A picture as `assets/figure.js` reads it.

    `axes`: Plotly axes by their names; `labels` in an axis are the ticks of a category axis as plain text. `layout`: the
    rest of a Plotly layout, and `grid` (panels side by side, see `panels`), `narrow` (what a phone has otherwise).
    """
    return {"traces": list(traces), "axes": axes, "height": height, **layout}


def panels(number: int, wide: int, narrow: int, panel_px: int) -> dict[str, int]:
    """`number` panels of equal size: `wide` in a row on a wide page, `narrow` on a narrow one, each `panel_px` high."""
    return {"panels": number, "wide": wide, "narrow": narrow, "panel_px": panel_px}


def behind(fields: Sequence[str], **fixed: Any) -> dict[str, Any]:
    """The operations behind a trace's points: columns with one value for all, and those that each point's `customdata` gives.

    A value means equal, a pair [from, to) a range with None for no end, None that it was not observed; `op_id` is a list.
    `n` is how many there are, and `title` what to call them.
    """
    return {"fields": list(fields), "fixed": fixed}


def colour(name: str) -> str:
    """A colour of the style sheet; the theme decides what it is."""
    return f"var(--{name})"


def shade(index: int) -> str:
    """The `index`-th of the colours that all readers can distinguish, also those who see fewer."""
    names = (
        "stage-device",
        "stage-queue",
        "stage-fs",
        "stage-app",
        "stage-interrupt",
        "stage-runqueue",
        "stage-reap",
        "stage-throttle",
    )
    return colour(names[index % len(names)])


def plain(text: Any) -> str:
    """Text as it is: Plotly reads a little HTML inside labels."""
    return html.escape(str(text), quote=False)


def hover(first: str, *lines: str) -> str:
    """Hover text: the first line bold."""
    return "<br>".join([f"<b>{plain(first)}</b>", *(plain(line) for line in lines if line)])


def log_time_axis(low_ns: float, high_ns: float, **more: Any) -> dict[str, Any]:
    """A logarithmic axis of durations, with ticks in human units."""
    low, high = math.log10(max(1.0, low_ns)), math.log10(max(2.0, high_ns))
    if high - low < 0.3:
        low, high = low - 0.15, high + 0.15
    wide = high - low
    steps = (
        (1,) if wide > 3.2 else (1, 3) if wide > 1.6 else (1, 2, 5) if wide > 0.7 else (1, 1.5, 2, 3, 5, 7)
    )
    ticks = [m * 10**k for k in range(math.floor(low), math.ceil(high) + 1) for m in steps]
    shown = [tick for tick in ticks if low - 0.1 <= math.log10(tick) <= high + 0.1]
    return {
        "type": "log",
        "range": [low - 0.06, high + 0.1],
        "tickvals": shown,
        "ticktext": [tick_ns(tick) for tick in shown],
        **more,
    }


def tick_ns(ns: float) -> str:
    """'20 us': a duration that is a round number."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= size:
            return f"{ns / size:g} {unit}"
    return f"{ns:g} ns"


def clock_axis(end_ns: int, start_ns: int = 0, **more: Any) -> dict[str, Any]:
    """Time since the start of the recording, in seconds."""
    return {"range": [start_ns / 1e9, end_ns / 1e9], "ticksuffix": " s", **more}


def heat_scale() -> list[list[Any]]:
    """From little to much."""
    return [[k / 4, colour(f"heat-{k}")] for k in range(5)]


def heat_bar(title: str, **more: Any) -> dict[str, Any]:
    """The legend of a heat map, above it to the right."""
    return {
        "orientation": "h",
        "x": 1,
        "xanchor": "right",
        "y": 1.0,
        "yanchor": "bottom",
        "thickness": 8,
        "lenmode": "pixels",
        "len": 120,
        "outlinewidth": 0,
        "ticks": "",
        "ypad": 0,
        "xpad": 0,
        "tickfont": {"size": 11, "color": colour("muted")},
        "title": {"text": title, "side": "top", "font": {"size": 11, "color": colour("muted")}},
        **more,
    }


def caption(text: str, axis: str, **more: Any) -> dict[str, Any]:
    """A line of text above the panel of an axis pair ('' or its number)."""
    return {
        "text": text,
        "showarrow": False,
        "xref": f"x{axis} domain",
        "yref": f"y{axis} domain",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 3,
        "font": {"size": 12, "color": colour("ink")},
        **more,
    }
