"""The verdict on a terminal: plain sentences first, then the evidence."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from rich.console import Console
from rich.text import Text

from whodisk import words
from whodisk.findings import BY_ITS_LOG, Caveat, Evidence, Finding, Verdict
from whodisk.report import slowest
from whodisk.types import Cell

#: Columns of evidence that hold moments, not durations.
MOMENTS = ("start_ns", "begin_ns", "end_ns", "time_ns")
#: How the sentence of the summary begins that says how much the first finding holds.
WEIGHT = "That is "
STYLES = {
    "healthy": "bold green",
    "slow": "bold red",
    "outliers": "bold yellow",
    "limited": "bold yellow",
    "insufficient": "bold magenta",
}


def render(verdict: Verdict, console: Console | None = None) -> None:
    """Prints a verdict. Everything of the case is printed as plain text, never as markup."""
    out = console or Console(highlight=False)
    out.print(Text(verdict.status.upper(), STYLES[verdict.status]), end="")
    _say(out, "; ".join(filter(None, (heading(verdict), began(verdict)))), 2)
    if verdict.simulated:
        out.print(Text("This case comes from a model, not from a machine.", "italic"))
    out.print()
    # What stands in a section of its own below is not said here.
    below = [*(finding.claim for finding in verdict.findings), *verdict.too_small, *verdict.next_steps]
    for sentence in verdict.summary:
        if sentence not in below and not sentence.startswith(("Cleared: ", "Not excluded: ", WEIGHT)):
            _say(out, sentence)
    _time(verdict, out)
    weight = next((sentence for sentence in verdict.summary if sentence.startswith(WEIGHT)), "")
    for number, finding in enumerate(verdict.findings, 1):
        _finding(number, finding, weight if number == 1 else "", verdict.zero_of_day_ns, out)
    _slowest(verdict, out)
    _lines("Too small to be the cause", verdict.too_small, out)
    _lines("Too small or too rare to accuse", verdict.minor, out)
    cleared = [
        f"{words.cleared([c.what])}: {c.bound}. That holds for {words.quantile(c.quantile)} of {c.unit}, at "
        f"{words.percent(c.confidence)} confidence (clock step {c.resolution})."
        for c in verdict.cleared
    ]
    _lines("Cleared", cleared, out)
    _lines("Names", [f"{words.called(verdict.called)}."] if verdict.called else [], out)
    _lines("Cannot be excluded", _caveats(verdict.cannot_exclude), out)
    refuted = {finding.refute for finding in verdict.findings}
    _lines("Next", [step for step in dict.fromkeys(verdict.next_steps) if step not in refuted], out)


def heading(verdict: Verdict) -> str:
    """What was judged."""
    return f"{verdict.case}, {words.things(verdict.operations, 'operation')} judged"


def began(verdict: Verdict) -> str:
    """What the calendar said at 0 s: whoever reads on looks moments up in other logs. Empty where no clock says, and where all moments are times of day."""
    if verdict.zero_of_day_ns is not None:
        return ""
    return f"0 s is {verdict.began.removesuffix(BY_ITS_LOG)}" if verdict.began else ""


def _caveats(caveats: list[Caveat]) -> list[str]:
    """One line each; what shares its reason shares a line (the report and the JSON spell everything out)."""
    by_reason: dict[str, list[Caveat]] = {}
    for caveat in caveats:
        by_reason.setdefault(caveat.because.split(";")[0], []).append(caveat)
    lines = []
    for reason, group in by_reason.items():
        if len(group) == 1:
            lines.append(f"{group[0].what}: {group[0].because}")
        else:
            lines.append(f"{'; '.join(c.what for c in group)}: {reason}")
    return lines


def _time(verdict: Verdict, out: Console) -> None:
    if not verdict.where_time_goes:
        return
    out.print()
    out.print(Text("Where the time goes", "bold"))
    for op, shares in verdict.where_time_goes.items():
        parts = sorted(shares.items(), key=lambda item: -item[1])
        text = ", ".join(
            f"{words.stage(stage)} {words.percent(share)}" for stage, share in parts if share >= 0.0005
        )
        _say(out, f"{op}: {text}", 2)
    if verdict.findings and verdict.speed:
        # Without findings it stands on top.
        _say(out, verdict.speed[0], 2)


def _finding(number: int, finding: Finding, weight: str, zero_of_day_ns: int | None, out: Console) -> None:
    out.print()
    because = f", because of {finding.culprit.because_of}" if finding.culprit.because_of else ""
    out.print(Text(f"Finding {number}: {finding.culprit.kind} {finding.culprit.name}{because}", "bold"))
    _say(out, f"{finding.claim} {weight}".rstrip(), 2)
    _say(out, f"Against: {finding.baseline}.", 2)
    strength = "measured" if finding.q_value is None else f"{finding.basis}, q = {finding.q_value:.1e}"
    _say(out, f"Effect: {_effect(finding)}; {strength}; by {finding.detector}.", 2)
    worse = [
        f"{name} {_metric(name, pair['with'])} with it, {_metric(name, pair['without'])} without"
        for name, pair in finding.worse.items()
        if pair["with"] != pair["without"]
    ]
    if worse:
        _say(out, f"Worse by it: {'; '.join(worse)}.", 2)
    for evidence in finding.evidence:
        _evidence(evidence, zero_of_day_ns, out)
    _say(out, f"What would refute it: {finding.refute}", 2)
    _say(out, f"What to do: {finding.remedy}", 2)


def _metric(name: str, value: float) -> str:
    return f"{words.rate(value)}/s" if name == "throughput" else words.duration(value)


def _slowest(verdict: Verdict, out: Console) -> None:
    """The slowest episodes as a table."""
    if not verdict.slowest:
        return
    out.print()
    out.print(Text("The slowest", "bold"))
    lines = [slowest.HEAD, *slowest.rows(verdict)]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for row, line in enumerate(lines):
        cells = [
            cell.rjust(width) if at < 2 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=False))
        ]
        out.print(Text("  " + "  ".join([*cells, line[4]]), "dim" if row == 0 else ""), soft_wrap=True)


def _effect(finding: Finding) -> str:
    effect = finding.effect
    if effect.unit == "1":
        value, low, high = (_percent(v) for v in (effect.value, effect.low, effect.high))
    else:
        value, low, high = (_number(v, effect.unit) for v in (effect.value, effect.low, effect.high))
    interval = f" (95 %: {low} to {high})" if low and high else ""
    return f"{effect.metric} {value}{interval}"


def _percent(value: float | None) -> str:
    return "" if value is None else words.percent(value)


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{words.significant(value)} {unit}"


def _evidence(evidence: Evidence, zero_of_day_ns: int | None, out: Console) -> None:
    _say(out, f"Evidence: {evidence.what}", 2)
    if not evidence.rows:
        return
    # Identifiers are for the JSON and the report; here they would only cost width.
    names = [name for name in evidence.rows[0] if not name.endswith("_id")]
    lines = [[name.removesuffix("_ns") for name in names]]
    lines += [[_cell(name, row.get(name), zero_of_day_ns) for name in names] for row in evidence.rows[:5]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    texts = [isinstance(evidence.rows[0].get(name), str) for name in names]
    for number, line in enumerate(lines):
        pairs = zip(line, widths, texts, strict=True)
        text = "  ".join(
            cell.ljust(width) if is_text else cell.rjust(width) for cell, width, is_text in pairs
        )
        out.print(Text(f"    {text}", "dim" if number == 0 else ""), soft_wrap=True)


def _cell(name: str, value: Cell, zero_of_day_ns: int | None) -> str:
    if value is None:
        return "-"
    if zero_of_day_ns is not None and name in MOMENTS and isinstance(value, (int, float)):
        return words.moment(value, zero_of_day_ns=zero_of_day_ns, places=3)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and name.endswith("_ns"):
        return words.duration(float(value))
    if isinstance(value, int) and not name.endswith("id"):
        return words.count(value)
    return str(value)


def _say(out: Console, text: str, indent: int = 0, style: str = "") -> None:
    """Prints a paragraph."""
    space = " " * indent
    for line in wrapped(text, out.width, initial_indent=space, subsequent_indent=space):
        out.print(Text(line, style), soft_wrap=True)


def wrapped(text: str, width: int, **options: Any) -> list[str]:
    """The lines of a paragraph, wrapped at spaces but never between a number and its unit."""
    glued = re.sub(r"(?<=\d) (?=(?:ns|us|ms|s|%|KiB|MiB|GiB|B)\b|%)", "\u00a0", text)
    return [line.replace("\u00a0", " ") for line in textwrap.wrap(glued, max(20, width), **options)]


def _lines(title: str, lines: list[str], out: Console) -> None:
    if not lines:
        return
    out.print()
    out.print(Text(title, "bold"))
    for line in lines:
        _say(out, line, 2)
