"""The arrows of the design never reverse: manifests and imports are checked, not trusted."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# crate -> the crates of ours it may depend on. Observers know the case; nobody knows the agent.
ALLOWED_CRATES: dict[str, set[str]] = {
    "case": set(),
    "record": {"case"},
    "workload": {"case"},
    "join": {"case"},
    "slowdisk": set(),
    "layout": set(),
    "testing": set(),
    "import": {"case"},
    "lab": {"case", "workload"},
    "agent": {"case", "record", "workload", "join", "slowdisk", "lab", "layout", "import"},
}

# The strata of the Python package, the lowest first: a folder imports only from itself and from those before it.
STRATA = (
    "reading",
    "statistics",
    "evidence",
    "machine",
    "detectors",
    "verdict",
    "export",
    "copies",
    "programs",
    "experiment",
    "scoring",
    "report",
    "api",
    "cli",
)

# What everybody may import, and what imports nothing of ours but each other: errors, sentences, and what a verdict is made of.
VOCABULARY = ("errors", "findings", "types", "words")

# Further arrows that must not be: the report shows what is in a verdict and in the case, and judges nothing.
# An exporter writes down what was recorded, and knows of nothing that explains it.
FORBIDDEN_IMPORTS: dict[str, set[str]] = {
    "report": {"machine", "detectors", "verdict", "scoring"},
    "export": set(STRATA) - {"reading", "export"},
}


def crate_dependencies(manifest: Path) -> set[str]:
    table = tomllib.loads(manifest.read_text())
    return set(table.get("dependencies", {})) & set(ALLOWED_CRATES)


def imported_modules(path: Path) -> set[str]:
    """Names below `whodisk` that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("whodisk.")}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "whodisk":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found


def test_every_crate_is_listed() -> None:
    crates = {path.parent.name for path in ROOT.glob("crates/*/Cargo.toml")}
    assert crates == set(ALLOWED_CRATES), "a new crate needs a row in ALLOWED_CRATES: say what it may know"


def test_crates_depend_downwards_only() -> None:
    for crate, allowed in ALLOWED_CRATES.items():
        actual = crate_dependencies(ROOT / "crates" / crate / "Cargo.toml")
        assert actual <= allowed, f"crates/{crate} depends on {sorted(actual - allowed)}"


def wrong_arrows(path: Path, folder: str) -> set[str]:
    """What a file of a folder of `STRATA` imports that it must not know."""
    known = {*STRATA[: STRATA.index(folder) + 1], *VOCABULARY, "__version__"} - FORBIDDEN_IMPORTS.get(
        folder, set()
    )
    return imported_modules(path) - known


def test_every_python_file_lies_in_a_stratum() -> None:
    base = ROOT / "python" / "whodisk"
    folders = {path.parent.name for path in base.glob("*/__init__.py")}
    assert folders == set(STRATA), "a new folder needs a place in STRATA: say what it may know"
    assert {path.stem for path in base.glob("*.py")} == {"__init__", *VOCABULARY}, "move it into a folder"


def test_strata_import_only_from_those_below() -> None:
    for folder in STRATA:
        for path in sorted((ROOT / "python" / "whodisk" / folder).rglob("*.py")):
            bad = wrong_arrows(path, folder)
            assert not bad, f"{path.relative_to(ROOT)} imports whodisk.{sorted(bad)}"


def test_the_vocabulary_knows_nothing_else() -> None:
    for name in VOCABULARY:
        path = ROOT / "python" / "whodisk" / f"{name}.py"
        bad = imported_modules(path) - set(VOCABULARY)
        assert not bad, f"{path.relative_to(ROOT)} imports whodisk.{sorted(bad)}"


def test_a_wrong_arrow_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "steal.py"
    file.write_text(
        "from whodisk import words\nfrom whodisk.reading.views import Case\n\n\n"
        "def late() -> None:\n    from whodisk.detectors import base\n    import whodisk.machine.peers\n"
    )
    assert wrong_arrows(file, "evidence") == {"detectors", "machine"}
    assert wrong_arrows(file, "detectors") == set()
    assert wrong_arrows(file, "report") == {"detectors", "machine"}


def test_python_reads_only_the_case() -> None:
    """The boundary is the case directory: no bindings, no raw streams in Python."""
    for path in sorted((ROOT / "python" / "whodisk").rglob("*.py")):
        text = path.read_text()
        assert ".arrows" not in text, f"{path.relative_to(ROOT)} touches raw streams"
        assert "ctypes" not in text and "cffi" not in text, f"{path.relative_to(ROOT)} binds native code"


def test_what_is_slow_to_import_is_imported_where_it_is_used() -> None:
    """scipy.stats and Plotly take longer to import than a small case takes to solve."""
    for path in sorted((ROOT / "python" / "whodisk").rglob("*.py")):
        for node in ast.parse(path.read_text(), filename=str(path)).body:
            names = [alias.name for alias in getattr(node, "names", [])]
            module = getattr(node, "module", None)
            imported = [f"{module}.{name}" for name in names] if module else names
            slow = [name for name in imported if name.startswith(("scipy.stats", "plotly"))]
            assert not slow, f"{path.relative_to(ROOT)} imports {slow} at its top"


def test_no_test_prints_that_it_was_skipped_and_passes() -> None:
    """Rust's harness has no skip at run time; `testing::skip` has, and is counted."""
    for path in sorted(ROOT.glob("crates/**/*.rs")):
        said = re.search(r"print(ln)?!\(\s*\"SKIP", path.read_text())
        assert not said, f"{path.relative_to(ROOT)}: end the test with testing::skip(reason)"


def test_every_test_that_may_be_skipped_has_the_harness_that_counts_it() -> None:
    """Without `harness = false` a skip would be a failure, and without `testing::main` nothing would run at all."""
    with_harness = 0
    for manifest in sorted(ROOT.glob("crates/*/Cargo.toml")):
        targets = tomllib.loads(manifest.read_text()).get("test", [])
        own = {target["name"] for target in targets if target.get("harness") is False}
        for path in sorted({*manifest.parent.glob("tests/*.rs"), *manifest.parent.glob("tests/*/main.rs")}):
            runs = re.search(r"testing::(main!|run)\(", path.read_text()) is not None
            name = path.parent.name if path.name == "main.rs" else path.stem
            assert runs == (name in own), (
                f"{path.relative_to(ROOT)} and {manifest.relative_to(ROOT)} disagree"
            )
            with_harness += runs
    assert with_harness >= 5


def test_the_end_of_make_test_counts_what_was_skipped(tmp_path: Path) -> None:
    skips, retries = tmp_path / "skips.tsv", tmp_path / "retries.tsv"
    script = [ROOT / "scripts" / "skipped.sh", skips, retries]
    assert (
        subprocess.run(script, capture_output=True, text=True, check=True).stdout == "no test was skipped\n"
    )
    skips.write_text("a::one\tneeds root\ntests/x.py::two\tno disk\na::three\tneeds root\n")
    said = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "tests that were skipped: 3",
        "      2 skipped: needs root",
        "      1 skipped: no disk",
    ]
    retries.write_text("c::four\tfailed at first, passed when run again\n")
    said = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[3:] == [
        "tests that failed at first and passed when run again: 1",
        "    c::four",
    ]
