"""README's figures of accuracy: a line for each table of truth, taken from the pages that the tables are written to.

A figure comes with its interval, its runs, their date and commits, as the page has them. `make accuracy` calls `write` after each table; a test
compares README with the pages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.accuracy.referee.intervals import Proportion, wilson

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs/reference"
BEGIN, END = "<!-- accuracy: begin -->", "<!-- accuracy: end -->"


class NotFoundError(Exception):
    """A page lacks what README is to say of it."""


def table(docs: Path = DOCS) -> str:
    """README's table. Raises NotFoundError where a page has no such figure."""
    rows = [_faults, _programs, _mystery_2, _simulated, _mysteries, _nulls]
    return "\n".join(
        ["| truth | right (95 %) | bar | | when |", "|---|---|---|---|---|", *(row(docs) for row in rows)]
    )


def write(readme: Path = README, docs: Path = DOCS) -> None:
    """Puts the table between the two marks of README."""
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise NotFoundError(f"{readme}: expected the marks {BEGIN} and {END}, found none; put them back")
    readme.write_text(f"{before}{BEGIN}\n{table(docs)}\n{END}{after}", encoding="utf-8")


def _faults(docs: Path) -> str:
    name = "accuracy.md"
    first = _page(docs, name).partition("\n## ")[0]
    right, runs = _sums(re.findall(r"^\|[^|]*\|[^|]*\| (\d+) \| (\d+) \|", first, re.M), name)
    when = _found(r"^- (.*)\.$", first, name)[1]
    found = wilson(right, runs)
    return _row("faults of our own on a real kernel", name, found, ">= 99 %", right >= 0.99 * runs, when)


def _programs(docs: Path) -> str:
    name = "accuracy-programs.md"
    text = _page(docs, name)
    line = _found(
        r"^\*\*(\w+) set of the latest freeze, (\S+): the culprit is first in (\d+) of (\d+)", text, name
    )
    found = wilson(int(line[3]), int(line[4]))
    met = found.low >= 0.92 and found.successes >= 0.95 * found.trials
    # Its row in the table of freezes: commit, date, ... solver, set, ... machine.
    commit, _, solver = line[2].partition("/")
    row = _found(rf"^\| {commit} \| ([\d-]+) \|.*\| {solver} \| ([^|]+) \|.*\| ([^|]+) \|$", text, name)
    since = " (looked into since: development data)" if "looked into" in row[2] else ""
    when = f"{row[3]}: {line[1].lower()} set{since} of {row[1]}, commit {commit}"
    return _row("real programs, a frozen solver", name, found, ">= 95 %, at least 92 %", met, when)


def _mystery_2(docs: Path) -> str:
    name = "accuracy-mystery-2.md"
    line = _found(
        r"^\*\*(\d+) of (\d+) short runs are right\*\*, (.*), commit (.*); ", _page(docs, name), name
    )
    right, runs = int(line[1]), int(line[2])
    title = "a spike in one layer after another, under RocksDB"
    return _row(title, name, wilson(right, runs), "all", right == runs, f"{line[3]}: commit {line[4]}")


def _simulated(docs: Path) -> str:
    name = "accuracy-simulated.md"
    text = _page(docs, name)
    line = _found(r"(\d+) of (\d+) right where the effect is 1\.5 times", text, name)
    found = wilson(int(line[1]), int(line[2]))
    drawn = _found(r"(\d+ cases of seed \d+), solved once by the solver of commit (\w+)", text, name)
    when = f"{drawn[1]}, commit {drawn[2]}"
    title = "the lab's cases, 1.5 times worse and more"
    return _row(title, name, found, "at least 98.5 %", found.low >= 0.985, when)


def _mysteries(docs: Path) -> str:
    name = "accuracy.md"
    section = _page(docs, name).partition("\n## The mysteries in the lab\n")[2].partition("\n## ")[0]
    right, runs = _sums(re.findall(r"^\|[^|]*\|[^|]*\| (\d+) \| (\d+) \|", section, re.M), name)
    when = _found(r"Runs: (.*)\.\n", section, name)[1]
    title = "four published investigations, in the lab"
    return _row(title, "lab-mysteries.md", wilson(right, runs), "all", right == runs, when)


def _nulls(docs: Path) -> str:
    name = "accuracy-nulls.md"
    rows = re.findall(r"^\|[^|]*\|[^|]*\|[^|]*\| \d+ \| (\d+) \| [^|]* \| (.+) \|$", _page(docs, name), re.M)
    whole = [said for worlds, said in rows if int(worlds) >= 1000]
    if not whole:
        raise NotFoundError(
            f"docs/reference/{name}: expected rows of 1,000 worlds, found none; run the table"
        )
    passed = sum("pass" in said for said in whole)
    title = "tests, each in 1,000 worlds with nothing to find"
    return _row(
        title, name, wilson(passed, len(whole)), "all", passed == len(whole), "rows that are finished"
    )


def _row(title: str, page: str, found: Proportion, bar: str, met: bool, when: str) -> str:
    share = f"{found.successes} of {found.trials} ({100 * found.low:.1f} to {100 * found.high:.1f} %)"
    return (
        f"| [{title}](docs/reference/{page}) | {share} | {bar} | {'met' if met else '**missed**'} | {when} |"
    )


def _sums(rows: list[tuple[str, str]], name: str) -> tuple[int, int]:
    """Right ones and runs of all rows of a table."""
    if not rows:
        raise NotFoundError(
            f"docs/reference/{name}: expected rows with right ones and runs, found none; run the table"
        )
    return sum(int(right) for right, _ in rows), sum(int(runs) for _, runs in rows)


def _page(docs: Path, name: str) -> str:
    return (docs / name).read_text(encoding="utf-8")


def _found(pattern: str, text: str, name: str) -> re.Match[str]:
    found = re.search(pattern, text, re.M)
    if found is None:
        raise NotFoundError(
            f"docs/reference/{name}: expected a line that matches '{pattern}', found none; run the table"
        )
    return found


if __name__ == "__main__":
    write()
    sys.exit(0)
