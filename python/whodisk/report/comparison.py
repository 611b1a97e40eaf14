"""Comparisons and gates on a terminal: the answer first, then ten lines of numbers."""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.text import Text

from whodisk import words
from whodisk.experiment import metrics as names
from whodisk.experiment.comparison import Comparison, Side, cautions, sentence, title
from whodisk.experiment.gate import FAIL, INCONCLUSIVE, PASS, Gate
from whodisk.statistics.repeated import Ratio

STYLES = {PASS: "bold green", FAIL: "bold red", INCONCLUSIVE: "bold yellow"}
#: Metrics that a terminal shows.
SHOWN_MAX = 7
#: What a program waits for beside its reads and writes, whose metrics do not speak of it.
BESIDE = ("sync p50", "flush p50")


def render(comparison: Comparison, console: Console | None = None) -> None:
    """Prints one comparison."""
    out = console or Console(highlight=False)
    for line in lines(comparison):
        out.print(Text(line), soft_wrap=True)


def lines(comparison: Comparison, width: int = 118) -> list[str]:
    """The sentence, both sides, the metrics that tell most, and what to be careful with."""
    told = textwrap.wrap(sentence(comparison), width)
    told += [side_line(letter, side) for letter, side in (("A", comparison.first), ("B", comparison.second))]
    chosen = shown(comparison)
    told += [ratio_line(ratio, comparison, is_called) for ratio, is_called in chosen]
    careful = cautions(comparison)
    if careful:
        told += textwrap.wrap("Note: " + "; ".join(careful) + ".", width)
    return told


def side_line(letter: str, side: Side) -> str:
    """``A  base: 5 runs of 10.0 s, 301,332 operations of layer app, 63.9 in flight``."""
    runs = side.runs
    seconds = sum(run.seconds for run in runs) / len(runs)
    about = runs[0].about
    kernel = f", Linux {about['kernel']}" if about.get("kernel") and not runs[0].simulated else ""
    return (
        f"{letter}  {side.name}: {words.things(len(runs), 'run')} of {words.significant(seconds)} s, "
        f"{words.things(side.operations, 'operation')} of layer {runs[0].layer}, {words.significant(side.in_flight)} in flight{kernel}"
    )


def shown(comparison: Comparison) -> list[tuple[Ratio, bool]]:
    """The metric asked for, throughput, median, p99, the highest quantile that is known, syncs, and the stage that changed most."""
    pairs = list(zip(comparison.ratios, comparison.called, strict=True))
    by_name = {ratio.metric.name: (ratio, is_called) for ratio, is_called in pairs}
    known = [name for name in names.QUANTILES if name in by_name and by_name[name][0].is_known]
    stages = [pair for pair in pairs if pair[0].is_known and pair[0].metric.per == "operations"]
    stages = [pair for pair in stages if pair[0].metric.name != "mean"]
    # What changed most is the stage with the largest change of time per operation, not of the ratio.
    moved = sorted(stages, key=lambda pair: -abs(pair[0].second - pair[0].first))[:1]
    chosen = [pairs[0]]
    beside = [name for name in BESIDE if name in by_name and by_name[name][0].is_known]
    for pair in [*(by_name[n] for n in ("iops", "p50", "p99", *known[-1:], *beside) if n in by_name), *moved]:
        if pair not in chosen:
            chosen.append(pair)
    return chosen[:SHOWN_MAX]


def ratio_line(ratio: Ratio, comparison: Comparison, is_called: bool) -> str:
    """``p99  159 us -> 172 us  x1.08 [1.02, 1.15] *``."""
    name = title(ratio.metric, comparison)
    if not ratio.is_known:
        return f"   {name:<22} {ratio.missing}"
    values = f"{names.said(ratio.metric, ratio.first)} -> {names.said(ratio.metric, ratio.second)}"
    interval = (
        f"x{words.significant(ratio.ratio)} [{words.significant(ratio.low)}, {words.significant(ratio.high)}]"
    )
    seen = f"could have seen {words.percent(ratio.smallest_effect)}"
    return f" {'*' if is_called else ' '} {name:<22} {values:<28} {interval:<28} {seen}"


def render_gate(gate: Gate, console: Console | None = None) -> None:
    """Prints the outcome, and one line per requirement."""
    out = console or Console(highlight=False)
    out.print(Text(gate.outcome.upper(), STYLES[gate.outcome]), end="")
    out.print(Text(f"  allowed: {words.percent(gate.limit)} worse"))
    for check in gate.checks:
        out.print(Text(f"  {check.outcome:<13} {check.sentence}"), soft_wrap=True)
