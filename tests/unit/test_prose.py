"""Pages keep to docs/why/style.md, as far as a program can see. `scripts/prose` (in `make lint`) looks for what is wrong in any prose."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Pages that a newcomer reads first.
FIRST = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/README.md",
    "docs/start/start.md",
]
#: The tables' tools write these; their sentences are those of the tools.
WRITTEN = {"benchmarks.md", "fail-slow.md", "lab-mysteries.md"}
#: All others but docs/why: decisions stay as they were written, and the style page quotes what it forbids.
PAGES = FIRST + sorted(
    str(page.relative_to(ROOT))
    for part in ("start", "how-to", "reference")
    for page in (ROOT / "docs" / part).rglob("*.md")
    if page.name not in WRITTEN and not page.name.startswith("accuracy") and page.name != "start.md"
)
#: What to look for, and what to do instead.
PHRASES = {
    r"\bso many\b": "give the number, or say what it counts (rule 1)",
    r"\bwhose\b": "write 'with' or 'that' (rule 6)",
    r"\b(?:is|are|was|were) told\b": "name who says it (rule 5)",
    r"\bwhat is \w+ is \w+\b": "use the word of the field (rule 4)",
}
WORDS_MAX = 45


def prose(page: Path) -> str:
    """A page without its code, tables and links' targets."""
    text = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.S)
    lines = [line for line in text.splitlines() if not line.startswith(("    ", "|"))]
    return re.sub(r"\]\([^)]*\)", "]", "\n".join(lines))


def test_no_phrase_that_has_to_be_read_twice() -> None:
    found = [
        f"{name}: '{match[0]}': {todo}"
        for name in PAGES
        for phrase, todo in PHRASES.items()
        for match in re.finditer(phrase, prose(ROOT / name))
    ]
    assert not found, "\n".join(found)


def strings(path: Path) -> list[tuple[int, str]]:
    """The strings of a module with their lines, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def test_no_such_phrase_in_what_a_verdict_says() -> None:
    # Rows of the threshold tables say what a number counts; a person reads them beside the number.
    modules = [
        path
        for folder in ("detectors", "verdict", "report", "experiment")
        for path in (ROOT / "python/whodisk" / folder).rglob("*.py")
        if path.name != "thresholds.py"
    ]
    assert len(modules) > 60
    found = [
        f"{path.relative_to(ROOT)}:{line}: '{match[0]}': {todo}"
        for path in modules
        for line, text in strings(path)
        for phrase, todo in PHRASES.items()
        for match in re.finditer(phrase, text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", FIRST)
def test_sentences_are_short(name: str) -> None:
    paragraphs = re.split(r"\n\s*\n|\n- |\n#+ ", prose(ROOT / name))
    sentences = [part for paragraph in paragraphs for part in re.split(r"(?<=[.:;!?])\s", paragraph)]
    long = [sentence for sentence in sentences if len(sentence.split()) > WORDS_MAX]
    assert not long, f"{name}: {long}"
