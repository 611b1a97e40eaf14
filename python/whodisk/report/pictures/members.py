"""Every device beside its peers, on the same axes: the median and the 99th percentile of its latency over time.

From the requests of the block layer where there are any, else from sampled series. The grey line is the median of the
peers. Columns read: `device`, `start_ns`, `latency_ns` (ns) of block requests; or `host`, `subject`, `time_ns`, `value`
(ns) of a series of latencies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whodisk import words
from whodisk.evidence.sampled_series import latency_metrics
from whodisk.findings import Finding
from whodisk.reading.views import quoted
from whodisk.report import units
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
    histograms,
    hover,
    log_time_axis,
    panels,
    plain,
)
from whodisk.statistics.stats import Floats, quantile_from_bins

#: Panels at most: the accused ones and the first of their peers.
PANELS_MAX = 12
#: Time bins of a panel, and latency bins per octave: neighbours differ by 4.4 %.
TIME_BINS = 48
BINS_PER_OCTAVE = 16
#: A bin with fewer operations has no 99th percentile.
TAIL_MIN = 100


@dataclass(frozen=True)
class Member:
    """One device over time; NaN where it did nothing."""

    name: str
    accused: bool
    median_ns: Floats
    #: Empty for sampled series: a sample is a mean already.
    p99_ns: Floats
    n: Floats


def draw(look: Look, finding: Finding) -> Drawn | None:
    """One panel per device, the accused ones first."""
    sampled = "/" in finding.culprit.name or "block" not in look.case.layers
    members = _from_series(look, finding) if sampled else _from_requests(look, finding)
    if len(members) < 2:
        return None
    shown = sorted(members, key=lambda one: (not one.accused, _natural(one.name)))[:PANELS_MAX]
    peers = _peers(members)
    values = np.concatenate([np.concatenate([one.median_ns, one.p99_ns]) for one in shown])
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    latency = log_time_axis(float(values.min()), float(values.max()))
    traces: list[Trace] = []
    axes: dict[str, Any] = {}
    notes = []
    for number, one in enumerate(shown):
        axis = "" if number == 0 else str(number + 1)
        traces += _panel(look, one, peers, axis, sampled)
        axes[f"xaxis{axis}"] = clock_axis(look.end_ns, nticks=4, anchor=f"y{axis}")
        axes[f"yaxis{axis}"] = {**latency, "anchor": f"x{axis}", "nticks": 4}
        ink = colour("mark" if one.accused else "ink")
        notes.append(caption(plain(one.name), axis, font={"size": 12, "color": ink}))
    left = len(members) - len(shown)
    more = f" {words.count(left)} more are not drawn." if left else ""
    lines = (
        "the median of its samples" if sampled else "median, and dotted the 99th percentile, of its requests"
    )
    return Drawn(
        lead=f"Each panel is a device, all on the same axes (latency, time since the start): {lines} per "
        f"{words.duration(look.end_ns / TIME_BINS)}. Grey: the median of the devices that are not accused.{more}",
        figure=figure(
            traces,
            axes,
            height=0,
            margin={"l": 52, "r": 12, "t": 28, "b": 34},
            annotations=notes,
            grid=panels(len(shown), min(4, len(shown)), 2, 132),
        ),
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """sda2 before sda10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _peers(members: Sequence[Member]) -> Floats:
    """Median over the devices that are not accused."""
    rows = np.stack([one.median_ns for one in members if not one.accused] or [members[0].median_ns])
    found = np.full(rows.shape[1], np.nan)
    known = np.isfinite(rows).any(axis=0)
    found[known] = np.nanmedian(rows[:, known], axis=0)
    return found


def _panel(look: Look, one: Member, peers: Floats, axis: str, sampled: bool) -> list[Trace]:
    step = look.end_ns / TIME_BINS
    x = [round((index + 0.5) * step / 1e9, 6) for index in range(TIME_BINS)]
    shade = colour("mark" if one.accused else "stage-device")
    place = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "type": "scatter"}
    fixed: dict[str, Any] = {"layer": "block", "device": one.name, "title": f"requests of {one.name}"}
    spans = [[int(index * step), int((index + 1) * step) + 1] for index in range(TIME_BINS)]
    line = {
        **place,
        "mode": "lines+markers",
        "x": x,
        "y": _values(one.median_ns),
        "line": {"color": shade, "width": 1.8},
        "marker": {"size": 3, "color": shade},
        "hoverinfo": "text",
        "hovertext": [_text(one, index, step, sampled) for index in range(TIME_BINS)],
    }
    if not sampled:
        line["customdata"] = [[span, int(n)] for span, n in zip(spans, one.n, strict=True)]
        line["meta"] = behind(["start_ns", "n"], **fixed)
    traces: list[Trace] = [
        {
            **place,
            "mode": "lines",
            "x": x,
            "y": _values(peers),
            "line": {"color": colour("faint"), "width": 1},
            "hoverinfo": "skip",
        }
    ]
    if len(one.p99_ns):
        traces.append(
            {
                **place,
                "mode": "lines",
                "x": x,
                "y": _values(one.p99_ns),
                "line": {"color": shade, "width": 1, "dash": "dot"},
                "hoverinfo": "skip",
            }
        )
    return [*traces, line]


def _values(values: Floats) -> list[int | None]:
    return [round(float(value)) if np.isfinite(value) else None for value in values]


def _text(one: Member, index: int, step: float, sampled: bool) -> str:
    if not np.isfinite(one.median_ns[index]):
        return ""
    number = f"{words.count(float(one.n[index]))} {'samples' if sampled else 'requests'}"
    tail = ""
    if len(one.p99_ns) and np.isfinite(one.p99_ns[index]):
        tail = f"99 % within {words.duration(float(one.p99_ns[index]))}"
    return hover(
        f"{one.name}: median {words.duration(float(one.median_ns[index]))}",
        tail,
        f"{number} from {units.moment(int(index * step))}",
    )


# -- block requests -----------------------------------------------------------------------------


def _from_requests(look: Look, finding: Finding) -> list[Member]:
    """The devices that do the same kinds of things: those with as many requests that the accused one's are no exception."""
    step = (look.end_ns + 1) / TIME_BINS
    data = look.case.arrays(
        f"""SELECT device, CAST(least(greatest(floor(start_ns / {step!r}), 0), {TIME_BINS - 1}) AS INTEGER) AS moment,
  CAST(floor(log2(greatest(latency_ns, 1)) * {BINS_PER_OCTAVE}) AS INTEGER) AS bin, count(*) AS n
FROM measured WHERE layer = 'block' AND device IN ({_chosen(look, finding)}) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
    )
    members = []
    accused = _accused(look, finding)
    devices = data["device"].astype(str)
    for name in np.unique(devices):
        mine = {key: values[devices == name] for key, values in data.items()}
        middle, counts = histograms(mine, TIME_BINS, "moment", BINS_PER_OCTAVE)
        members.append(
            Member(
                str(name),
                str(name) in accused,
                _quantiles(middle, counts, 0.5, 1),
                _quantiles(middle, counts, 0.99, TAIL_MIN),
                counts.sum(axis=1),
            )
        )
    return members


def _accused(look: Look, finding: Finding) -> set[str]:
    """Names of devices that a finding speaks of as culprits, or as those that suffer from a vector."""
    names = {finding.culprit.name}
    if finding.culprit.kind == "vector" and finding.culprit.name.isdigit():
        rows = look.case.rows(
            f"SELECT DISTINCT device FROM measured WHERE layer = 'block' AND vector = {finding.culprit.name}"
        )
        return {str(row["device"]) for row in rows} - look.stacked
    kind, colon, name = (finding.culprit.because_of or "").partition(":")
    return names | {name} if colon and kind == "device" else names


def _chosen(look: Look, finding: Finding) -> str:
    """SQL names: the accused device and those with requests that it could be compared with, the busiest ones."""
    rows = look.case.rows(
        """SELECT device, sum(n) AS n, sum(latency_ns) AS latency_ns FROM stage_totals
WHERE layer = 'block' AND device IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"""
    )
    accused = _accused(look, finding)
    rows = [row for row in rows if row["device"] in accused or row["device"] not in look.stacked]
    least = max((whole(row["n"]) for row in rows if row["device"] in accused), default=0) / 50
    names = [str(row["device"]) for row in rows if row["device"] in accused]
    names += [str(row["device"]) for row in rows if row["device"] not in accused and whole(row["n"]) >= least]
    return ", ".join(quoted(name) for name in names[: 4 * PANELS_MAX]) or "''"


def _quantiles(middle: Floats, counts: Floats, quantile: float, least: int) -> Floats:
    """A quantile per row of counts; NaN where a row has fewer than `least`."""
    found = [
        quantile_from_bins(middle, row.astype(np.int64), quantile) if row.sum() >= least else np.nan
        for row in counts
    ]
    return np.array(found, dtype=np.float64)


# -- sampled series -----------------------------------------------------------------------------


def _from_series(look: Look, finding: Finding) -> list[Member]:
    """The devices of the accused one's host; for a host, all hosts."""
    metrics = latency_metrics(look.case)
    if not metrics:
        return []
    step = (look.end_ns + 1) / TIME_BINS
    host, slash, device = finding.culprit.name.rpartition("/")
    hosts = finding.culprit.kind == "host"
    name = "coalesce(host, '')" if hosts else "subject"
    only = f"AND coalesce(host, '') = {quoted(host)}" if slash and not hosts else ""
    data = look.case.arrays(
        f"""SELECT {name} AS name, CAST(least(greatest(floor(time_ns / {step!r}), 0), {TIME_BINS - 1}) AS INTEGER) AS moment,
  median(value) AS median_ns, count(*) AS n
FROM series WHERE metric = {quoted(metrics[0])} AND kind = 'device' {only} GROUP BY 1, 2 ORDER BY 1, 2"""
    )
    members = []
    names = data["name"].astype(str)
    accused = finding.culprit.name if hosts else device
    for one in np.unique(names):
        mine = names == one
        median, n = np.full(TIME_BINS, np.nan), np.zeros(TIME_BINS)
        median[data["moment"][mine].astype(np.int64)] = data["median_ns"][mine]
        n[data["moment"][mine].astype(np.int64)] = data["n"][mine]
        members.append(Member(str(one), str(one) == accused, median, np.array([]), n))
    return members


PICTURE = Picture(
    name="members",
    title="Device by device",
    reads=("ops.device", "ops.start_ns", "ops.latency_ns", "series.subject", "series.value"),
    draw=draw,
)
