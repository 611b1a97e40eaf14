"""The arrows of the design never reverse: manifests and imports are checked, not trusted."""

from __future__ import annotations

import ast
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
    "import": {"case"},
    "lab": {"case", "workload"},
    "agent": {"case", "record", "workload", "join", "slowdisk", "lab", "import"},
}

# package below whodisk -> packages below whodisk it must not import
FORBIDDEN_IMPORTS: dict[str, set[str]] = {
    "detectors": {"cli", "report", "solve"},
    "report": {"cli", "detectors"},
    "views": {"cli", "report", "detectors", "solve", "findings"},
    "findings": {"cli", "report", "detectors", "solve", "views"},
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


def test_python_imports_do_not_reverse() -> None:
    checked = 0
    for package, forbidden in FORBIDDEN_IMPORTS.items():
        base = ROOT / "python" / "whodisk" / package
        for path in sorted(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]:
            bad = imported_modules(path) & forbidden
            assert not bad, f"{path.relative_to(ROOT)} imports whodisk.{sorted(bad)}"
            checked += 1
    assert checked >= len(FORBIDDEN_IMPORTS)


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
