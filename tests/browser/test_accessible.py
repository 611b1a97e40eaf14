"""axe-core finds no serious fault in any kind of page: of a recording, a model, an import, an experiment; with everything opened."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_report import hostile, verdict
from tests.e2e.conftest import block_obstacle
from whodisk.report import html

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

ROOT = Path(__file__).resolve().parents[2]
WHODISK = Path(sys.executable).parent / "whodisk"
#: What axe-core calls a fault that keeps people from what a page says.
SERIOUS = {"serious", "critical"}
#: Theme and width: a desk, a phone at night.
SCREENS = (("light", 1200), ("dark", 390))
EXPERIMENT = """[experiment]
metric = "p99"
repetitions = 3
[common]
scenario = "slow-member"
arguments = ["workload.duration=8ms", "workload.ramp=5ms"]
[arm.slow]
[arm.replaced]
arguments = ["workload.duration=8ms", "workload.ramp=5ms", "fault.slow.factor=1"]
"""


def whodisk(work: Path, *arguments: str | Path) -> None:
    done = subprocess.run([WHODISK, *arguments], cwd=work, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def model(work: Path) -> Path:
    short = ["--set", "workload.duration=8ms", "--set", "workload.ramp=5ms"]
    whodisk(work, "lab", "run", "slow-member", *short, "-o", "a.case")
    whodisk(work, "solve", "a.case")
    return work / "a.case/report.html"


def imported(work: Path) -> Path:
    """A log of fio's: no block layer, no stages."""
    logs = sorted((ROOT / "crates/import/tests/fixtures/fio-lat").glob("*_lat.1.log"))
    whodisk(work, "import", logs[0], "-o", "a.case")
    whodisk(work, "solve", "a.case")
    return work / "a.case/report.html"


def experiment(work: Path) -> Path:
    (work / "a.toml").write_text(EXPERIMENT, encoding="utf-8")
    whodisk(work, "experiment", "a.toml", "-o", "out", "--journal", "journal")
    return work / "out/report.html"


def faults(page: Any) -> list[str]:
    """Rule, number of places, the first of them, and what is wrong there."""
    page.run((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    found = page.browser.execute_async_script(
        """const done = arguments[arguments.length - 1];
        // Of rules that a page keeps, axe-core else describes every element: thousands of points.
        axe.run({ resultTypes: ["violations"] }).then(({ violations, passes }) => done([passes.length, violations.map((one) => [one.impact,
          `${one.id}, ${one.nodes.length} times: ${one.nodes[0].html.slice(0, 200)}: ${one.nodes[0].failureSummary}`])]));"""
    )
    assert found[0] > 10, "axe-core looked at next to nothing"
    return [said for impact, said in found[1] if impact in SERIOUS]


@pytest.fixture(scope="module")
def of_import(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with the least on it, which two tests look at."""
    return imported(tmp_path_factory.mktemp("imported"))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("model", marks=pytest.mark.slow),
        "imported",
        pytest.param("experiment", marks=pytest.mark.slow),
    ],
)
def test_no_serious_fault(kind: str, of_import: Path, tmp_path: Path, open_page: Callable[..., Any]) -> None:
    path = {"model": model, "imported": lambda _: of_import, "experiment": experiment}[kind](tmp_path)
    for theme, width in SCREENS:
        assert faults(open_page(path, theme=theme, width=width)) == [], f"{theme}, {width} pixels"


def test_no_serious_fault_with_a_finding_and_odd_names(
    synth: Any, tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    hostile(synth, tmp_path / "case")
    html.write(tmp_path / "case", verdict("case"), tmp_path / "report.html")
    assert faults(open_page(tmp_path / "report.html")) == []


@pytest.mark.root
@pytest.mark.slow
def test_no_serious_fault_in_a_recording(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if (obstacle := block_obstacle()) is not None:
        pytest.skip(f"block requests cannot be recorded here: {obstacle}")
    load = ["dd", "if=/dev/zero", "of=out.dat", "bs=16k", "count=100", "oflag=dsync", "status=none"]
    whodisk(tmp_path, "solve", "-o", "a.case", "--", *load)
    for theme, width in SCREENS:
        page = open_page(tmp_path / "a.case/report.html", theme=theme, width=width)
        assert faults(page) == [], f"{theme}, {width} pixels"


def test_a_serious_fault_is_seen(of_import: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(of_import)
    page.run("document.querySelector('h1').style.color = '#ddd'")
    assert any(said.startswith("color-contrast") for said in faults(page))
