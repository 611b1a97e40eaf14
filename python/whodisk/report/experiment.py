"""An experiment's result in ten lines of a terminal, and as a page."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from whodisk import __version__, words
from whodisk.experiment import metrics as names
from whodisk.experiment.comparison import Comparison, Side, cautions_of, claim, title
from whodisk.experiment.conduct import Result, machine
from whodisk.experiment.measure import Measured
from whodisk.experiment.outcome import sentences
from whodisk.report.comparison import lines as comparison_lines
from whodisk.report.comparison import ratio_line, shown
from whodisk.report.document import document
from whodisk.report.elements import pairs, section, table
from whodisk.report.markup import Child, Markup, tag
from whodisk.report.pictures.base import figure, hover, log_time_axis, shade
from whodisk.report.verdict import picture
from whodisk.statistics.repeated import Metric, low_edge, value

#: Arms that a terminal lists.
ARMS_SHOWN = 6
#: Metrics that the first screen of the page lists.
CHANGED_SHOWN = 6


def render(result: Result, console: Console | None = None) -> None:
    """Prints the result."""
    out = console or Console(highlight=False)
    for line in lines(result):
        out.print(Text(line), soft_wrap=True)


def lines(result: Result, width: int = 118) -> list[str]:
    """About ten lines: what was found, then the arms."""
    if len(result.comparisons) == 1:
        told = comparison_lines(result.comparisons[0], width)
        rest = sentences(result)[1:]
    else:
        told, rest = [], sentences(result)
        if result.comparisons:
            rest = rest[len(result.comparisons) :]
            told = [arm_line(result.comparisons[0].first, None)]
            told += [arm_line(one.second, one) for one in result.comparisons[: ARMS_SHOWN - 1]]
            hidden = len(result.comparisons) - (ARMS_SHOWN - 1)
            told += [f"   and {hidden} more arms: in the report"] if hidden > 0 else []
            careful = _careful(result)
            told += textwrap.wrap("Note: " + "; ".join(careful) + ".", width) if careful else []
    for text in rest:
        told += textwrap.wrap(text, width)
    return told


def _careful(result: Result) -> list[str]:
    sides = [side for arm in result.plan.arms if (side := result.side(arm.name)).runs]
    return cautions_of(sides, any(one.these_runs_only for one in result.comparisons))


def arm_line(side: Side, comparison: Comparison | None) -> str:
    """One arm of several: what was asked about, its median and p99, and its ratio to the baseline."""
    runs = [run.whole.run for run in side.runs]
    parts = [
        f"{name} {names.said(names.metric(name), value(runs, names.metric(name)))}"
        for name in ("iops", "p50", "p99")
    ]
    text = f"   {side.name:<28} {', '.join(parts)}, {words.significant(side.in_flight)} in flight"
    if comparison is None:
        return text + "  (baseline)"
    ratio = comparison.primary
    star = "*" if comparison.called[0] else " "
    if not ratio.is_known:
        return f"{text}  {title(ratio.metric, comparison)}: {ratio.missing}"
    return (
        f" {star}{text[2:]}  {ratio.metric.name} x{words.significant(ratio.ratio)} "
        f"[{words.significant(ratio.low)}, {words.significant(ratio.high)}]"
    )


# -- the page ---------------------------------------------------------------------------------


def write(result: Result, path: Path) -> None:
    """Writes the page, as private as the experiment's folder is. Raises OSError."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(page(result))


def page(result: Result) -> str:
    """The result as one HTML file."""
    figures: list[dict[str, Any]] = []
    parts: list[Child] = [_found(result)]
    arms = [side for arm in result.plan.arms if (side := result.side(arm.name)).runs]
    if result.comparisons:
        parts += [_ratios(result, figures), _points(result, arms, figures), _distributions(arms, figures)]
    parts += [_arms(result, arms), _order(result), _prepared(result), _recorded(result)]
    header = tag(
        "header",
        tag("span", "whodisk", class_="brand"),
        tag("span", result.plan.name, class_="mono muted"),
        tag("nav", *(tag("a", text, href=f"#{name}") for name, text in SECTIONS)),
        tag("button", "Dark", type="button", id="theme"),
        class_="bar",
    )
    footer = tag("footer", f"whodisk {__version__}. The cases behind every number lie beside this page.")
    body = tag("div", header, tag("main", *parts), footer, class_="page")
    return document(
        f"{result.plan.name}: experiment (whodisk)", body, {"figures": figures} if figures else {}
    )


SECTIONS = (
    ("found", "Found"),
    ("arms", "Arms"),
    ("order", "Order"),
    ("prepared", "Preparation"),
    ("recorded", "Machine"),
)


def _found(result: Result) -> Markup:
    """The first screen, as a case's report has it: a status, the answer, then each arm's, against what, what else, what to mind."""
    told = result.comparisons
    first = claim(told[0]) if told else sentences(result)[0]
    differ = any(one.called[0] for one in told)
    status = "a difference" if differ else "no difference beyond noise" if told else "no result"
    changed = list(dict.fromkeys(name for one in told for name in _changed(one)))
    points = [
        ("About:", result.plan.about),
        *((f"{one.second.name}:", _how_much(one)) for one in told[:ARMS_SHOWN]),
        ("More arms:", f"{len(told) - ARMS_SHOWN}, in the table below" if len(told) > ARMS_SHOWN else ""),
        ("Against:", _against(result)),
        ("Changed, too:", words.some(changed, CHANGED_SHOWN)),
        ("Mind:", ". ".join(_careful(result))),
        ("Not as planned:", " ".join(sentences(result)[max(1, len(told)) :])),
    ]
    items = [tag("li", tag("strong", name), " ", text) for name, text in points if text]
    body = [tag("div", status, class_="status"), tag("h1", first), tag("ul", *items, class_="more points")]
    looks = "slow" if differ else "healthy" if told else "insufficient"
    return tag("div", *body, class_=f"verdict status-{looks}", id="found")


def _how_much(one: Comparison) -> str:
    """The metric that was asked about, in both arms, with the interval of their ratio."""
    ratio = one.primary
    name = title(ratio.metric, one)
    if not ratio.is_known:
        return f"{name}: {ratio.missing}"
    interval = f"{words.significant(ratio.low)} to {words.significant(ratio.high)}"
    values = f"{names.said(ratio.metric, ratio.first)} -> {names.said(ratio.metric, ratio.second)}"
    noise = "" if one.called[0] else ", no difference beyond noise"
    return f"{name} {values}, x {words.significant(ratio.ratio)} ({interval}, 95 %){noise}"


def _against(result: Result) -> str:
    """The baseline, the runs of each arm, their order."""
    if not result.comparisons:
        return ""
    arms = [side for arm in result.plan.arms if (side := result.side(arm.name)).runs]
    numbers = sorted({len(side.runs) for side in arms})
    runs = words.things(numbers[-1], "run") if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]} runs"
    return f"{result.comparisons[0].first.name}; {runs} of each arm, in random order."


def _changed(one: Comparison) -> list[str]:
    """Metrics beside the one that was asked about that differ beyond noise."""
    known = zip(one.ratios[1:], one.called[1:], strict=True)
    return [
        title(ratio.metric, one)
        for ratio, is_called in known
        if is_called and ratio.metric != one.primary.metric
    ]


def _ratios(result: Result, figures: list[dict[str, Any]]) -> Markup:
    """Each arm's ratios with their intervals."""
    rows: list[Sequence[Child]] = []
    seen: set[tuple[str, str]] = set()
    for one in result.comparisons:
        for ratio, is_called in shown(one) + [
            (r, c) for r, c in zip(one.ratios, one.called, strict=True) if c
        ]:
            text = ratio_line(ratio, one, is_called)
            if (one.second.name, text) not in seen:
                seen.add((one.second.name, text))
                rows.append(_ratio_row(ratio, one, is_called))
    primary = [one for one in result.comparisons if one.primary.is_known]
    head = ["arm", "against", "metric", "values", "ratio (interval)", "could have seen"]
    body = table(head, rows)
    if not primary:
        return section("ratios", "Ratios", None, body)
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [one.primary.ratio for one in primary],
        "y": list(range(len(primary))),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [one.primary.high - one.primary.ratio for one in primary],
            "arrayminus": [one.primary.ratio - one.primary.low for one in primary],
        },
        "marker": {"color": shade(0), "size": 9},
        "hovertext": [
            hover(
                f"{one.second.name} against {one.first.name}",
                f"x{words.significant(one.primary.ratio)}",
                f"{words.significant(one.primary.low)} to {words.significant(one.primary.high)}",
            )
            for one in primary
        ],
        "hoverinfo": "text",
        "showlegend": False,
    }
    axes = {
        "xaxis": {"title": f"{primary[0].primary.metric.name}, times {primary[0].first.name}"},
        "yaxis": {
            "tickvals": list(range(len(primary))),
            "labels": [one.second.name for one in primary],
            "range": [-0.6, len(primary) - 0.4],
        },
    }
    line = {
        "type": "line",
        "x0": 1,
        "x1": 1,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": "var(--muted)", "width": 1},
    }
    figures.append(
        figure(
            [trace],
            axes,
            height=120 + 34 * len(primary),
            # A phone is 390 pixels wide: no more than the names need.
            margin={
                "l": min(190, 24 + 7 * max(len(one.second.name) for one in primary)),
                "r": 20,
                "t": 20,
                "b": 50,
            },
            shapes=[line],
        )
    )
    return section(
        "ratios",
        "Ratios",
        "How many times the baseline, with 95 % intervals. A star: beyond noise.",
        picture(
            len(figures) - 1,
            "The metric that was asked about.",
            "An interval that does not touch 1 is a difference.",
            None,
        ),
        body,
    )


def _ratio_row(ratio: Any, one: Comparison, is_called: bool) -> list[Child]:
    name = title(ratio.metric, one) + (" *" if is_called else "")
    if not ratio.is_known:
        return [one.second.name, one.first.name, name, "", ratio.missing, ""]
    values = f"{names.said(ratio.metric, ratio.first)} -> {names.said(ratio.metric, ratio.second)}"
    interval = f"{words.significant(ratio.ratio)} ({words.significant(ratio.low)} to {words.significant(ratio.high)})"
    smallest = words.percent(ratio.smallest_effect)
    return [one.second.name, one.first.name, name, values, interval, smallest]


def _points(result: Result, arms: list[Side], figures: list[dict[str, Any]]) -> Markup:
    """A point per repetition, in the order in which they ran."""
    metric = result.comparisons[0].primary.metric
    is_time = metric.quantile is not None or metric.per == "operations"
    unit, unit_name = (1e6, ", ms") if is_time else (1.0, "")
    places = {id(a.measured): i + 1 for i, a in enumerate(result.attempts)}
    traces = []
    for index, side in enumerate(arms):
        values = [_one(run, metric) for run in side.runs]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": side.name,
                "x": [places[id(run)] for run in side.runs],
                "y": [v / unit if np.isfinite(v) else None for v in values],
                "marker": {"color": shade(index), "size": 9},
                "hovertext": [
                    hover(side.name, f"{names.said(metric, v)}", run.path.name)
                    for v, run in zip(values, side.runs, strict=True)
                ],
                "hoverinfo": "text",
            }
        )
    axes = {
        "xaxis": {"title": "run, in the order in which they ran"},
        "yaxis": {"title": metric.name + unit_name, "rangemode": "tozero"},
    }
    figures.append(
        figure(traces, axes, height=320, margin={"l": 80, "r": 20, "t": 30, "b": 50}, showlegend=True)
    )
    lead = "Arms take turns in random order: a machine that drifts moves all of them alike."
    return section(
        "points", "Every repetition", lead, picture(len(figures) - 1, "A point per run.", metric.name, None)
    )


def _one(run: Measured, metric: Metric) -> float:
    kind = metric.name.split(" ")[0]
    part = run.kinds.get(kind if kind in names.KINDS else "", run.whole)
    return value([part.run], metric)


def _distributions(arms: list[Side], figures: list[dict[str, Any]]) -> Markup:
    """How many operations took longer than a latency, all arms overlaid."""
    traces: list[dict[str, Any]] = []
    low, high = np.inf, 1.0
    for index, side in enumerate(arms):
        bins = np.concatenate([run.whole.run.bin for run in side.runs])
        number = np.concatenate([run.whole.run.number for run in side.runs])
        places, at = np.unique(bins // 8, return_inverse=True)
        counts = np.bincount(at, number)
        edges = low_edge((places + 1) * 8)
        beyond = (counts.sum() - np.cumsum(counts)) / counts.sum()
        keep = beyond > 0
        low, high = min(low, float(edges[0])), max(high, float(edges[-1]))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": side.name,
                "x": [float(f"{x:.5g}") for x in edges[keep]],
                "y": [float(f"{y:.5g}") for y in beyond[keep]],
                "line": {"color": shade(index), "width": 2, "shape": "hv"},
                "hoverinfo": "name+x+y",
            }
        )
    nines = {
        "type": "log",
        "title": "part of operations that took longer",
        "tickvals": [1, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6],
    }
    nines["ticktext"] = ["all", "10 %", "1 %", "0.1 %", "0.01 %", "0.001 %", "0.0001 %"]
    axes = {"xaxis": log_time_axis(low, high, title="latency"), "yaxis": nines}
    figures.append(
        figure(traces, axes, height=380, margin={"l": 80, "r": 20, "t": 30, "b": 50}, showlegend=True)
    )
    return section(
        "distributions",
        "Distributions",
        "All repetitions of an arm together.",
        picture(
            len(figures) - 1, "How many operations took longer.", "Each step down is one more nine.", None
        ),
    )


def _arms(result: Result, arms: list[Side]) -> Markup:
    looked = ("iops", "bandwidth", "p50", "p99", "p99.9")
    rows: list[Sequence[Child]] = []
    for side in arms:
        runs = [run.whole.run for run in side.runs]
        numbers = [names.said(names.metric(name), value(runs, names.metric(name))) for name in looked]
        steady = sum(run.steady is False for run in side.runs)
        rows.append(
            [
                side.name,
                str(len(side.runs)),
                *numbers,
                words.significant(side.in_flight),
                str(steady) if steady else "",
            ]
        )
    return section(
        "arms",
        "Arms",
        None,
        table(["arm", "runs", *looked, "in flight", "not steady"], rows, numbers=range(1, 9)),
    )


def _order(result: Result) -> Markup:
    rows = [
        [str(i + 1), str(a.round), a.arm, a.started_utc, f"{a.seconds:.1f} s", a.case or a.failed]
        for i, a in enumerate(result.attempts)
    ]
    lead = f"Random order within each round, seed {result.plan.seed}."
    return section("order", "Order", lead, table(["run", "round", "arm", "began", "took", "case"], rows))


#: Rows of preparation that the page shows; `experiment.json` has all.
PREPARED_MAX = 1000


def _prepared(result: Result) -> Markup:
    rows = [["all", _plain(entry["step"]), _plain(entry["found"])] for entry in result.prepared]
    for attempt in result.attempts:
        rows += [
            [f"{attempt.arm}, round {attempt.round}", _plain(e["step"]), _plain(e["found"])]
            for e in attempt.prepared
        ]
    shown_rows: list[Sequence[Child]] = list(rows[:PREPARED_MAX])
    body = (
        table(["for", "step", "found"], shown_rows)
        if rows
        else tag("p", "Nothing was prepared.", class_="none")
    )
    return section("prepared", "Preparation", None, body)


def _plain(data: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {item}" for key, item in data.items())


def _recorded(result: Result) -> Markup:
    about = [(key, str(item)) for key, item in machine().items()]
    text = tag("pre", result.plan.text)
    return section("recorded", "Machine and file", None, pairs(about), text)
