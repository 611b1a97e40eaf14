"""The verdict on one screen: 25 lines at 100 columns at most. `terminal.py` prints the whole of it (`--all`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from whodisk import words
from whodisk.findings import Culprit, Finding, Verdict
from whodisk.report import slowest
from whodisk.report.terminal import STYLES, began, heading, wrapped
from whodisk.types import Cell

#: A strip of stages shows what a finding says of a stage if that has this part of what was lost.
SHOWN_PART_MIN = 0.25
#: Beside what makes a run slow, other findings are shown from this part of all latency on.
ALSO_SHARE_MIN = 0.002
#: With the blank lines and the line of the report that `whodisk solve` adds.
LINES_MAX = 25
#: Each section's share of them.
ANSWER_LINES, SLOWEST_ROWS, OTHERS_SHOWN, NEXT_LINES = 4, 3, 2, 2
#: Expectations take the rows of as many slow operations.
EXPECTED_SHOWN = 2
#: Of those that are not met.
EXPECTED_BROKEN_SHOWN = 4
#: Where there is no verdict, what is not excluded is most of what there is to say.
UNSEEN_LINES, UNSEEN_LINES_WITHOUT_VERDICT = 1, 4
BAR_WIDTH, BAR_WIDTH_NARROW = 36, 24
#: A bar is made of letters, so that it is readable without colour; the colours are the report's order of stages.
STAGES = {
    "app": ("a", "white"),
    "fs": ("f", "green"),
    "throttle": ("t", "magenta"),
    "queue": ("q", "yellow"),
    "device": ("d", "red"),
    "interrupt": ("i", "blue"),
    "reap": ("r", "cyan"),
    "runqueue": ("c", "bright_magenta"),
    "unknown": ("?", "bright_black"),
}


def render(verdict: Verdict, console: Console | None = None) -> None:
    """Prints what a person needs first. Everything of the case is printed as plain text, never as markup."""
    out = console or Console(highlight=False)
    for line in lines(verdict, min(out.width, 100)):
        out.print(line, soft_wrap=True)


def lines(verdict: Verdict, width: int) -> list[Text]:
    """The screen, line by line, each `width` characters at most."""
    model = ", from a model" if verdict.simulated else ""
    status = Text(verdict.status.upper(), STYLES[verdict.status])
    head, when = f"  {heading(verdict)}{model}", began(verdict)
    # A moment cut in two says nothing.
    fits = len(status) + len(head) + len(when) + 2 <= width
    beside = f"; {when}" if when and fits else ""
    status.append(_cut(f"{head}{beside}", width - len(status)), "not bold default")
    blocks = [
        [status, *([Text(_cut(when, width))] if when and not fits else [])],
        [*_answer(verdict, width), *_expected(verdict, width)],
        _bars(verdict, width),
        _slowest(verdict, width, SLOWEST_ROWS - len(_expected(verdict, width))),
        [
            *_failed(verdict, width),
            *_others(verdict, width),
            *_next(verdict, width),
            *_cleared(verdict, width),
            *_called(verdict, width),
            *_unseen(verdict, width),
        ],
    ]
    joined: list[Text] = []
    for block in blocks:
        if block:
            joined += [Text(""), *block] if joined else block
    return joined


def _answer(verdict: Verdict, width: int) -> list[Text]:
    return _wrapped(_answer_text(verdict, width), width, ANSWER_LINES + 1)


def _answer_text(verdict: Verdict, width: int) -> str:
    """What is to blame, and by how much: the headline and the claim behind it, without its consequences. Where nothing is broken, what binds
    stands behind the headline; so does what sets the speed of one that is not slow. Sentences that the lines have no room for are left out whole."""
    # What is cleared, and what is not excluded, has a line of its own.
    others = [text for text in verdict.summary[1:2] if not text.startswith(("Cleared: ", "Not excluded: "))]
    speed = [f"What sets its speed: {verdict.limit}."] if verdict.limit else []
    if verdict.status == "limited" and speed:
        rest = speed[0]
    else:
        # Also where slow operations leave it open whether something is broken: what sets the speed may be something else.
        rest = " ".join([*(speed if verdict.status in ("healthy", "insufficient") else []), *others])
    said = [*verdict.summary[:1], *words.sentences(words.without_consequences(rest)[0])]
    if not verdict.findings:
        # It stands under Next.
        said = [sentence for sentence in said if sentence not in verdict.next_steps]
    while len(said) > 2 and len(wrapped(" ".join(said), width)) > ANSWER_LINES:
        said.pop()
    return " ".join(said)


def _expected(verdict: Verdict, width: int) -> list[Text]:
    """What a person expected, a line each: what is not met first. What the answer says is not repeated."""
    answer = _answer_text(verdict, width)
    asked = [item for item in verdict.expectations if item.sentence not in answer]
    asked.sort(key=lambda item: (item.met is True, item.met is None))
    # What is not met is what was asked for.
    broken = min(EXPECTED_BROKEN_SHOWN, sum(item.met is not True for item in asked))
    most = len(asked) if len(asked) <= EXPECTED_SHOWN else max(EXPECTED_SHOWN - 1, broken)
    shown = [Text(_cut(item.sentence, width)) for item in asked[:most]]
    if rest := len(asked) - most:
        shown.append(Text(f"{rest} more expectation{'s' if rest > 1 else ''}, with --all"))
    return shown


# -- the bars ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bar:
    """Time per stage of some operations of one kind."""

    label: str
    latency_ns: float | None
    shares: dict[str, float]


def _bars(verdict: Verdict, width: int) -> list[Text]:
    """Slow beside typical operations where a finding compares them; else where the time of all goes: of the two kinds that took most."""
    bars = _compared(verdict) or [
        _Bar(op, None, shares) for op, shares in [*verdict.where_time_goes.items()][:2]
    ]
    label_width = max((len(bar.label) for bar in bars), default=0)
    shown = []
    for bar in bars:
        took = f"mean {words.duration(bar.latency_ns):>8}  " if bar.latency_ns is not None else ""
        line = Text(f"{bar.label:<{label_width}}  {took}")
        for stage, cells in _cells(bar.shares, BAR_WIDTH if width >= 100 else BAR_WIDTH_NARROW).items():
            letter, colour = STAGES.get(stage.split("+", maxsplit=1)[0], ("?", "bright_black"))
            line.append(letter * cells, f"{colour} reverse")
        most = sorted(bar.shares.items(), key=lambda item: -item[1])[:3]
        told = ", ".join(
            f"{words.stage(stage)} {words.percent(share)}" for stage, share in most if share >= 0.005
        )
        line.append(_cut(f"  {told}", width - len(line)))
        shown.append(line)
    return shown


def _compared(verdict: Verdict) -> list[_Bar]:
    """Of the first finding that compares slow with other operations: the kind with most slow ones; nothing where its stages do not show what the finding says.

    What a thread slept in the file system for a request stands there as the file system's time, and in the finding as the request's.
    """
    for finding in verdict.findings:
        for evidence in finding.evidence:
            rows = [row for row in evidence.rows if isinstance(row.get("slow"), bool)]
            slow = max(
                (row for row in rows if row["slow"]), key=lambda row: _number(row, "operations"), default=None
            )
            if slow is None or not isinstance(slow.get("latency_ns"), (int, float)):
                continue
            typical = [row for row in rows if not row["slow"] and row.get("op") == slow.get("op")]
            if typical and not _shows(finding.culprit, slow, typical[0]):
                return []
            pairs = [("slow", slow), *(("other", row) for row in typical[:1])]
            return [
                _Bar(_label(name, str(row.get("op"))), _number(row, "latency_ns"), _shares(row))
                for name, row in pairs
            ]
    return []


def _shows(culprit: Culprit, slow: dict[str, Cell], other: dict[str, Cell]) -> bool:
    """Whether the accused stage holds a good part of what slow operations lost."""
    accused = f"{culprit.name}_ns"
    if culprit.kind != "stage" or accused not in slow:
        return True
    lost_ns = _number(slow, "latency_ns") - _number(other, "latency_ns")
    return _number(slow, accused) - _number(other, accused) >= SHOWN_PART_MIN * lost_ns


def _label(which: str, op: str) -> str:
    """``slow reads``; of kinds without a name ``slow ones``."""
    return f"{which} ones" if op == "other" else f"{which} {words.plural_op(op)}"


def _number(row: dict[str, Cell], name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _shares(row: dict[str, Cell]) -> dict[str, float]:
    """Each stage's part of the mean latency of a row of evidence."""
    whole = _number(row, "latency_ns")
    stages = {
        name.removesuffix("_ns"): _number(row, name)
        for name in row
        if name.removesuffix("_ns").split("+", maxsplit=1)[0] in STAGES
    }
    return {stage: ns / whole for stage, ns in stages.items() if ns > 0} if whole > 0 else {}


def _cells(shares: dict[str, float], bar_width: int) -> dict[str, int]:
    """Characters of each stage; together as many as the bar is wide, where the shares sum to one."""
    cells, before = {}, 0.0
    for stage, share in shares.items():
        begin, before = before, min(1.0, before + share)
        cells[stage] = round(before * bar_width) - round(begin * bar_width)
    return cells


# -- the lines ---------------------------------------------------------------------------------


def _slowest(verdict: Verdict, width: int, most: int) -> list[Text]:
    if not verdict.slowest:
        return []
    # Episodes that read alike (of two drives of a mirror, say) take one row.
    rows = list(dict.fromkeys(slowest.rows(verdict)))
    table = [slowest.HEAD, *rows[:most]]
    widths = [max(len(line[column]) for line in table) for column in range(4)]
    shown = []
    for number, line in enumerate(table):
        cells = [
            cell.rjust(wide) if at < 2 else cell.ljust(wide)
            for at, (cell, wide) in enumerate(zip(line, widths, strict=False))
        ]
        shown.append(Text(_cut("  ".join([*cells, line[4]]), width), "dim" if number == 0 else ""))
    return shown


def _others(verdict: Verdict, width: int) -> list[Text]:
    """What sets the speed of a program that storage holds up for little of its time, whoever is to blame for that. Findings after the first, a line each; how many more
    there are. Where there is room, what the first one led to."""
    others = verdict.findings[1:]
    if verdict.status == "slow":
        # One read of 10 ms, beside what makes all of them slow, is nothing to begin with.
        others = [finding for finding in others if finding.share_of_latency >= ALSO_SHARE_MIN]
    shown = [Text(_cut(f"Also: {_named(finding, width)}", width)) for finding in others[:OTHERS_SHOWN]]
    if not others and verdict.findings:
        led_to = words.without_consequences(verdict.findings[0].claim)[1:]
        shown = [Text(_cut(f"Consequence: {claim}", width)) for claim in led_to[:1]]
    if len(others) > OTHERS_SHOWN:
        shown[-1] = Text(f"Also: {len(others) - OTHERS_SHOWN + 1} more findings, with --all")
    if verdict.status != "slow":
        return shown
    speed = [
        text for text in verdict.summary if verdict.limit and text == f"What sets its speed: {verdict.limit}."
    ]
    return [*(Text(_cut(text, width)) for text in speed), *shown]


def _named(finding: Finding, width: int) -> str:
    """A claim with who is accused in front of it, where the line would end before it says so."""
    culprit = finding.culprit
    if culprit.name in finding.claim[: width // 2]:
        return finding.claim
    return f"{words.accused(culprit.kind, culprit.name, culprit.because_of)}: {finding.claim}"


def _next(verdict: Verdict, width: int) -> list[Text]:
    """What to do about it; without a finding, what to do to learn more."""
    remedies = [finding.remedy for finding in verdict.findings[:1]]
    todo = verdict.next_steps[:1] if verdict.failed_first or not remedies else remedies
    return _wrapped(f"Next: {todo[0]}", width, NEXT_LINES) if todo else []


def _cleared(verdict: Verdict, width: int) -> list[Text]:
    names = words.cleared([item.what for item in verdict.cleared])
    return [Text(_cut(f"Cleared: {names}", width))] if names else []


def _failed(verdict: Verdict, width: int) -> list[Text]:
    """What failed, where the answer does not say so, and how the command ended: a line."""
    answer = _answer_text(verdict, width)
    untold = [said for said in verdict.failed if said not in verdict.failed_first and said not in answer]
    ended = verdict.ended if verdict.ended not in answer else ""
    if not untold:
        return [Text(_cut(ended, width))] if ended else []
    # How it ended is never what is cut.
    failed = _cut(f"Failed: {' '.join(untold)}", width - len(ended) - 1 if ended else width)
    return [Text(f"{failed} {ended}".rstrip())]


def _called(verdict: Verdict, width: int) -> list[Text]:
    return [Text(_cut(f"Names: {words.called(verdict.called)}", width))] if verdict.called else []


def _unseen(verdict: Verdict, width: int) -> list[Text]:
    # Of a path its last part.
    names = [re.sub(r"(?<!\S)/\S*/", "", caveat.what) for caveat in verdict.cannot_exclude]
    said = f"Not excluded: {'; '.join(dict.fromkeys(names))}"
    lines_max = UNSEEN_LINES_WITHOUT_VERDICT if verdict.status == "insufficient" else UNSEEN_LINES
    if not names:
        return []
    return [Text(_cut(said, width))] if lines_max == 1 else _wrapped(said, width, lines_max)


def _cut(text: str, width: int) -> str:
    """The text, cut behind a word to at most `width` characters where it is longer; a cut shows."""
    if len(text) <= width:
        return text
    kept = text[: max(0, width - 4)]
    whole = kept if text[len(kept) : len(kept) + 1] == " " else kept.rpartition(" ")[0] or kept
    return whole.rstrip(" ,;") + " ..."


def _wrapped(text: str, width: int, lines_max: int) -> list[Text]:
    """A paragraph of `lines_max` lines at most; a cut shows."""
    return [Text(line) for line in wrapped(text, width, max_lines=lines_max, placeholder=" ...")]
