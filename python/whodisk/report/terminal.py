"""The verdict on a terminal: plain sentences first, then the evidence."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from whodisk import words
from whodisk.findings import Cell, Evidence, Finding, Verdict

STYLES = {
    "healthy": "bold green",
    "slow": "bold red",
    "limited": "bold yellow",
    "insufficient": "bold magenta",
}


def render(verdict: Verdict, console: Console | None = None) -> None:
    """Prints a verdict. Everything of the case is printed as plain text, never as markup."""
    out = console or Console(highlight=False)
    out.print(Text(verdict.status.upper(), STYLES[verdict.status]), end="")
    out.print(_item(f"{verdict.case}, {words.things(verdict.operations, 'operation')} judged"))
    if verdict.simulated:
        out.print(Text("This case comes from a model, not from a machine.", "italic"))
    out.print()
    for sentence in verdict.summary:
        out.print(Text(sentence))
    _time(verdict, out)
    for number, finding in enumerate(verdict.findings, 1):
        _finding(number, finding, out)
    _lines("Observed, too small or too rare to accuse", verdict.observed, out)
    cleared = [
        f"{c.what}: {c.bound}; so {words.percent(c.quantile)} stay within, at {words.percent(c.confidence)} confidence "
        f"(clock step {c.resolution})"
        for c in verdict.cleared
    ]
    _lines("Cleared", cleared, out)
    _lines("Cannot be excluded", [f"{c.what}: {c.because}" for c in verdict.cannot_exclude], out)
    _lines("Next", verdict.next_steps, out)


def _time(verdict: Verdict, out: Console) -> None:
    if not verdict.where_time_goes:
        return
    out.print()
    out.print(Text("Where the time goes", "bold"))
    for op, shares in verdict.where_time_goes.items():
        parts = sorted(shares.items(), key=lambda item: -item[1])
        text = ", ".join(f"{stage} {words.percent(share)}" for stage, share in parts if share >= 0.0005)
        out.print(_item(f"{op}: {text}"))


def _finding(number: int, finding: Finding, out: Console) -> None:
    out.print()
    because = f", because of {finding.culprit.because_of}" if finding.culprit.because_of else ""
    out.print(Text(f"Finding {number}: {finding.culprit.kind} {finding.culprit.name}{because}", "bold"))
    out.print(_item(f"{finding.claim}"))
    out.print(_item(f"Against: {finding.baseline}."))
    out.print(_item(f"Effect: {_effect(finding)}; q = {finding.q_value:.1e}; by {finding.detector}."))
    for evidence in finding.evidence:
        _evidence(evidence, out)
    out.print(_item(f"What would refute it: {finding.refute}"))
    out.print(_item(f"What to do: {finding.remedy}"))


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


def _evidence(evidence: Evidence, out: Console) -> None:
    out.print(_item(f"Evidence: {evidence.what}"))
    if not evidence.rows:
        return
    # Identifiers are for the JSON and the report; here they would only cost width.
    names = [name for name in evidence.rows[0] if not name.endswith("_id")]
    lines = [[name.removesuffix("_ns") for name in names]]
    lines += [[_cell(name, row.get(name)) for name in names] for row in evidence.rows[:5]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    for number, line in enumerate(lines):
        text = "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        out.print(Text(f"    {text}", "dim" if number == 0 else ""), soft_wrap=True)


def _cell(name: str, value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and name.endswith("_ns"):
        return words.duration(float(value))
    if isinstance(value, int) and not name.endswith("id"):
        return words.count(value)
    return str(value)


def _item(text: str) -> Padding:
    """A paragraph indented by two columns, also where it wraps."""
    return Padding(Text(text), (0, 0, 0, 2))


def _lines(title: str, lines: list[str], out: Console) -> None:
    if not lines:
        return
    out.print()
    out.print(Text(title, "bold"))
    for line in lines:
        out.print(_item(line))
