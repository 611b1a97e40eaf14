"""The commands that README and docs print, as they are printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Not the pages that hold outputs of tools.
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if "decisions" not in page.parts
    and not page.name.startswith(("accuracy", "benchmarks", "fail-slow", "lab-mysteries"))
)
#: Blocks in other languages are no commands.
LANGUAGES = {"toml", "python", "sql", "json"}
COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:sudo )?(?:zcat \S+ \| )?(?:\.venv/bin/)?(?:whodisk|make|git|cd|python|pip|pytest) "
)
#: What stands behind several spaces, or behind a #, is a remark; an option that is aligned is none.
REMARK = re.compile(r"(?<=\S)(?: {3,}(?!-)| +# ).*")


#: A command within a sentence or a table.
INLINE = re.compile(r"`((?:whodisk|make) (?!-)[^`\n]+)`")


@dataclass(frozen=True)
class Printed:
    """A command: the page (from the root of the repository) and the line, without prompt, remark and line breaks."""

    page: str
    line: str


def blocks(text: str) -> list[list[str]]:
    """The blocks of a page that may hold commands, fenced or indented, each without its indent."""
    found: list[list[str]] = []
    fence: str | None = None
    previous = ""
    for line in text.splitlines():
        if line.startswith("```"):
            fence = None if fence is not None else line.removeprefix("```").strip()
            if fence is not None:
                found.append([])
        elif fence is not None and fence not in LANGUAGES:
            found[-1].append(line)
        elif fence is None and line.startswith("    "):
            if not previous.startswith("    "):
                found.append([])
            found[-1].append(line[4:])
        previous = line
    return found


def commands(page: Path) -> list[Printed]:
    """The commands of a page. In a block with a prompt, lines without one are output."""
    found = []
    for block in blocks(page.read_text(encoding="utf-8")):
        lines = re.sub(r"\\\n\s*", "", "\n".join(block)).splitlines()
        prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        for line in prompted or [line for line in lines if COMMAND.match(line)]:
            found.append(Printed(str(page.relative_to(ROOT)), REMARK.sub("", line).strip()))
    return found


def everywhere() -> list[Printed]:
    """Every command of every page, once for each page that prints it."""
    return list(dict.fromkeys(printed for page in PAGES for printed in commands(page)))


def within_sentences() -> list[Printed]:
    """Every command of whodisk or make that a sentence or a table of a page names; the change log tells what was once."""
    found = []
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for line in INLINE.findall(text):
            found.append(Printed(str(page.relative_to(ROOT)), line.replace("\\|", "|").strip()))
    return list(dict.fromkeys(found))


def without_brackets(line: str) -> str:
    """A line with what may be left out, `[-o FOLDER]`, as if it were asked for."""
    return re.sub(r"\[(-[^\]]*)\]", r"\1", line)
