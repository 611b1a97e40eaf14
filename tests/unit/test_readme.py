"""README says no more than what was measured last."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.accuracy import readme as accuracy

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 120


@pytest.fixture(scope="module")
def readme() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benches_readme", ROOT / "benches/readme.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["benches_readme"] = module
    spec.loader.exec_module(module)
    return module


def test_speed_in_readme_is_that_of_the_newest_runs(readme: ModuleType) -> None:
    text = readme.README.read_text(encoding="utf-8")
    shown = text.partition(readme.BEGIN)[2].partition(readme.END)[0].strip()
    assert shown == readme.table(readme.DOCUMENT.read_text(encoding="utf-8")), "run benches/readme.py"


def test_accuracy_in_readme_is_that_of_the_pages() -> None:
    text = accuracy.README.read_text(encoding="utf-8")
    shown = text.partition(accuracy.BEGIN)[2].partition(accuracy.END)[0].strip()
    assert shown == accuracy.table(), "run python -m tests.accuracy.readme"


def test_a_page_without_its_figure_is_refused(tmp_path: Path) -> None:
    for page in (ROOT / "docs/reference").glob("accuracy*.md"):
        (tmp_path / page.name).write_text("# Accuracy\n", encoding="utf-8")
    with pytest.raises(accuracy.NotFoundError, match=r"accuracy\.md.*run the table"):
        accuracy.table(tmp_path)


def test_readme_is_read_in_three_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= LINES_MAX


def headings(page: Path) -> set[str]:
    """What a link behind # may name."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    names = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in names}


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]), ids=lambda page: page.stem
)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    local = [target for target in targets if "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (page.parent / target).exists()] == []
    places = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text)
    wrong = [
        f"{target}#{place}"
        for target, place in places
        if "://" not in target and place not in headings(page.parent / target if target else page)
    ]
    assert wrong == []


def test_files_that_a_recipe_names_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([\w./-]+)`", text) if "/" in name}
    # What a recipe makes lies in a folder that is there.
    made = {str(Path(name[: name.index("NAME")]).parent / "x") for name in named if "NAME" in name}
    paths = {name for name in named if "NAME" not in name} | {str(Path(name).parent) for name in made}
    assert len(paths) > 30
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


@pytest.mark.parametrize(
    ("recipe", "name", "word", "folders"),
    [
        ("A detector", "far_node", "far_node", ("python", "ground_truth", "tests/accuracy")),
        ("A probe", "nvme", "NvmeRow", ("crates",)),
        ("A foreign format", "rocksdb_log", "rocksdb_log", ("crates",)),
        ("A component of the lab", "throttle", "components::throttle", ("crates/lab/src/stack",)),
        ("A column of the case", "", "foreign_handler_ns", ("crates/*/src", "python/whodisk/reading")),
    ],
)
def test_a_recipe_names_every_file_that_one_of_its_kind_touches(
    recipe: str, name: str, word: str, folders: tuple[str, ...]
) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition(f"## {recipe}\n")[2].partition("\n## ")[0]
    listed = {path.replace("NAME", name) for path in re.findall(r"`([\w./-]+/[\w./-]+)`", section)}
    found = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in ROOT.glob(f"{folder}/**/*")
        if path.suffix in {".rs", ".py"} and word in path.read_text(encoding="utf-8")
    }
    own = f"crates/record/src/{name}/"
    assert found and {path for path in found - listed if not path.startswith(own)} == set()


def test_docs_has_four_parts() -> None:
    found = {path.name for path in (ROOT / "docs").iterdir()}
    assert found == {"README.md", "images", "start", "how-to", "reference", "why"}, (
        "docs/README.md says what goes where; decisions go to docs/why/decisions"
    )


DOCUMENT = """<!-- record_overhead -->
```text
2026-01-02, commit 1234567

disk: fio --name=load
IOPS: a / b = 0.9 [0.8, 1.0] (95 %, 10 interleaved rounds)   bar >= 0.98: NOT MET

loop: fio --name=load
IOPS: a / b = 1.234 [1.100, 1.400] (95 %, 10 interleaved rounds)   bar >= 1.1: met
```
"""


def test_a_line_is_taken_from_its_part_with_its_run(
    readme: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        readme, "ROWS", [("record_overhead", part, "IOPS: a / b", part) for part in ("disk", "loop")]
    )
    rows = readme.table(DOCUMENT).splitlines()[2:]
    assert rows == [
        "| disk | 0.9 [0.8, 1.0] | >= 0.98 | **missed** | 2026-01-02, commit 1234567 |",
        "| loop | 1.234 [1.100, 1.400] | >= 1.1 | met | 2026-01-02, commit 1234567 |",
    ]


def test_a_figure_that_nobody_measured_is_refused(
    readme: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readme, "ROWS", [("record_overhead", "", "IOPS: c / d", "c")])
    with pytest.raises(readme.NotFoundError, match="run the benchmark"):
        readme.table(DOCUMENT)
