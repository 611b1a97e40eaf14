"""Each decision note says its date, its status and what would reopen it, and the index is made from that."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTE = """# 0002: A title

- **Date**: 2026-11-24
- **Status**: {status}
- **Reopen when** a [page](x.md) | says so.

Text.
"""


@pytest.fixture(scope="module")
def decisions() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("decisions_index", str(ROOT / "scripts/decisions-index"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_index_is_that_of_the_notes(decisions: ModuleType) -> None:
    page = (decisions.FOLDER / "README.md").read_text(encoding="utf-8")
    assert page == decisions.index(), "run scripts/decisions-index"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0003-later.md").write_text(NOTE.format(status="withdrawn"), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "status",
    [
        "stands",
        "withdrawn",
        "superseded by [0003](0003-later.md)",
        "stands, in part superseded by [0003](0003-later.md)",
    ],
)
def test_a_note_is_a_row(decisions: ModuleType, folder: Path, status: str) -> None:
    (folder / "0002-note.md").write_text(NOTE.format(status=status), encoding="utf-8")
    row = decisions.index(folder).splitlines()[-2]
    assert row == f"| [0002](0002-note.md) | A title | 2026-11-24 | {status} | a page \\| says so. |"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# 0002: A title\n\nText.\n", "expected a title"),
        (NOTE.format(status="holds"), "expected a title"),
        (NOTE.format(status="stands").replace("11-24", "02-30"), "no date"),
        (NOTE.format(status="stands").replace("- **Reopen when** a [page](x.md) | says so.\n", ""), "Reopen"),
        (NOTE.format(status="superseded by [0003](0003-other.md)"), "not there"),
        (NOTE.format(status="superseded by [0004](0003-later.md)"), "not there"),
        (NOTE.format(status="superseded by [0002](0002-note.md)"), "not a later note"),
    ],
)
def test_a_head_that_is_wrong_is_named(decisions: ModuleType, folder: Path, text: str, said: str) -> None:
    (folder / "0002-note.md").write_text(text, encoding="utf-8")
    with pytest.raises(decisions.HeadError, match=said) as caught:
        decisions.index(folder)
    assert "0002-note.md" in str(caught.value)
