#!/usr/bin/env python3
"""Writes README's table of speed from docs/reference/benchmarks.md, so that README never says more than the newest run.

A row is a line that a benchmark printed beside its bar: value, bar, whether it is met, when and of which commit. `benches/run.py` calls
this after each benchmark; a test compares the two files.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCUMENT = ROOT / "docs/reference/benchmarks.md"
BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"

#: What README shows: benchmark, part of it (the target that a line stands below; "" = any), how the line begins, and in words.
ROWS: list[tuple[str, str, str, str]] = [
    ("record_overhead", "system disk", "IOPS: whodisk, block / kernel blk tracer", "recording every block request, system disk: IOPS beside the kernel's `blk` tracer"),
    ("record_overhead", "loop over memory", "IOPS: whodisk, default probes / untraced", "all default probes, loop device over memory: IOPS of untraced"),
    ("record_overhead", "", "CPU of whodisk, default probes", "the recorder's CPU time at 20,000 IOPS, all default probes"),
    ("engine_disk", "", "IOPS: whodisk, every op logged / fio =", "the load engine on the system disk, every operation logged: fio's IOPS"),
    ("solve_scale", "", "seconds: ", "solving 100 million operations, seconds"),
]  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A figure with its bar, as it was printed."""

    value: str
    bar: str
    met: bool
    run: str


class NotFoundError(Exception):
    """docs/reference/benchmarks.md has no such line."""


def table(document: str) -> str:
    """README's table out of the text of docs/reference/benchmarks.md. Raises NotFoundError where a row has no line."""
    rows = ["| what | newest run | bar | | run |", "|---|---|---|---|---|"]
    for bench, part, begin, words in ROWS:
        line = _line(document, bench, part, begin)
        rows.append(
            f"| {words} | {line.value} | {line.bar} | {'met' if line.met else '**missed**'} | {line.run} |"
        )
    return "\n".join(rows)


def write(readme: Path = README, document: Path = DOCUMENT) -> None:
    """Puts the table between the two marks of README."""
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise NotFoundError(
            f"{readme}: expected the marks {BEGIN} and {END}; put them where the table is to stand"
        )
    made = table(document.read_text(encoding="utf-8"))
    readme.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


def _line(document: str, bench: str, part: str, begin: str) -> Line:
    _, found, rest = document.partition(f"<!-- {bench} -->")
    text = rest.split("```text\n", 1)[-1].split("\n```", 1)[0] if found else ""
    lines = text.splitlines()
    run = lines[0] if lines else ""
    inside = not part
    for line in lines:
        if part and re.match(r"[a-z].*: fio ", line):
            inside = line.startswith(part)
        if inside and line.startswith(begin) and "   bar" in line:
            shown, _, bar = line.partition("   bar")
            limit, _, said = bar.strip(" :").rpartition(": ")
            if said not in ("met", "NOT MET") and not said.startswith("met"):
                raise NotFoundError(f"{bench}: expected 'met' or 'NOT MET' at the end of '{line}'")
            return Line(_value(shown), limit, said.startswith("met"), run)
    raise NotFoundError(
        f"docs/reference/benchmarks.md: expected a line '{begin}...' with a bar in {bench} {part}; run the benchmark"
    )


def _value(shown: str) -> str:
    """The figures of a line, without the names before them and the remarks behind them."""
    value = shown.rpartition(" = ")[2] if " = " in shown else shown.partition(": ")[2]
    return re.sub(r" \(95 %.*\)| \(lowest.*\)| in the worst.*", "", value).removeprefix("median ").strip()


if __name__ == "__main__":
    write()
    sys.exit(0)
