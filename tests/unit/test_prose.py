"""Pages and printed sentences keep to docs/why/style.md, as far as `scripts/prose` can see; `make lint` runs its proselint, too."""

from __future__ import annotations

import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def loaded(path: Path) -> ModuleType:
    """A script without a suffix as a module."""
    spec = spec_from_loader(path.name, SourceFileLoader(path.name, str(path)))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LINTER = loaded(ROOT / "scripts/prose")
WORDS_MAX = 45


def prose(page: Path) -> str:
    """A page without its code, tables and links' targets."""
    text = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.S)
    lines = [line for line in text.splitlines() if not line.startswith(("    ", "|"))]
    return re.sub(r"\]\([^)]*\)", "]", "\n".join(lines))


def test_no_phrase_that_has_to_be_read_twice() -> None:
    assert len(LINTER.pages()) > 50
    found = LINTER.phrases_in_pages()
    assert not found, "\n".join(found)


def test_no_such_phrase_in_what_is_printed() -> None:
    found = LINTER.phrases_in_sentences()
    assert not found, "\n".join(found)


def test_such_phrases_are_found_with_their_places(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "thresholds.py").write_text(
        '"""Told so far."""\nA = row("SLOW_TOLD", 5, "episodes", CHOSEN, "So many of the slowest are told.")\n'
        'B = row("FAR", 5, "bytes", CHOSEN, "Requests that lie so far apart.")\n'
    )
    (package / "verdict.py").write_text(
        '"""A cause whose effect."""\n\nSAID = f"{1} of them so far"\nMORE = "disks\\nwhose"\n'
    )
    found = [
        line.split(": give")[0].split(": write")[0].split(": name")[0]
        for line in LINTER.phrases_in_sentences(package)
    ]
    assert found == [
        "package/thresholds.py:2: 'So many'",
        "package/thresholds.py:2: 'are told'",
        "package/thresholds.py:2: 'told'",
        "package/thresholds.py:3: 'so far'",
        "package/verdict.py:4: 'whose'",
    ]


def test_no_such_phrase_in_what_the_binary_prints(tmp_path: Path) -> None:
    found = LINTER.phrases_in_binary()
    assert not found, "\n".join(found)
    sources = tmp_path / "crates/agent/src"
    sources.mkdir(parents=True)
    (sources / "args.rs").write_text(
        '// whose\nlet quote = \'"\';\nlet said = "a disk whose";\n/// Counts as so many\nfn whose() {}\n'
    )
    found = [line.partition(": ")[0] for line in LINTER.phrases_in_binary(tmp_path / "crates")]
    assert found == ["crates/agent/src/args.rs:3", "crates/agent/src/args.rs:4"]


@pytest.mark.parametrize("name", LINTER.FIRST)
def test_sentences_are_short(name: str) -> None:
    paragraphs = re.split(r"\n\s*\n|\n- |\n#+ ", prose(ROOT / name))
    sentences = [part for paragraph in paragraphs for part in re.split(r"(?<=[.:;!?])\s", paragraph)]
    long = [sentence for sentence in sentences if len(sentence.split()) > WORDS_MAX]
    assert not long, f"{name}: {long}"
