"""What whodisk did not make it neither replaces nor removes, whatever its name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import AGENT, Run, write_spec

PRECIOUS = "precious"


@pytest.fixture
def precious(work: Path) -> Path:
    """A file that nobody may touch."""
    file = work / "precious"
    file.write_text(PRECIOUS, encoding="utf-8")
    return file


def test_doctor_removes_only_its_own_file(work: Path) -> None:
    command = f'echo {PRECIOUS} >.whodisk-doctor-$$; exec "{AGENT}" doctor'
    subprocess.run(["sh", "-c", command], cwd=work, capture_output=True, check=False)
    assert [path.read_text(encoding="utf-8") for path in work.iterdir()] == [f"{PRECIOUS}\n"]


def test_redacting_leaves_what_stands_beside_the_case(whodisk: Run, work: Path) -> None:
    mine = work / "a.case.redacting"
    mine.mkdir()
    (mine / "thesis").write_text(PRECIOUS, encoding="utf-8")
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="100ms")
    whodisk("run", spec, "-o", "a.case", "--app-only", "--redact")
    assert (mine / "thesis").read_text(encoding="utf-8") == PRECIOUS
    assert sorted(path.name for path in work.iterdir() if path.is_dir()) == ["a.case", mine.name]


def test_a_report_is_not_written_through_a_link_beside_it(whodisk: Run, work: Path, precious: Path) -> None:
    whodisk("lab", "run", "healthy-nvme", "--set", "workload.operations=1000", "-o", "a.case")
    (work / "a.html.part").symlink_to(precious)
    (work / "a.case" / "findings.json.partial").symlink_to(precious)
    whodisk("solve", "a.case", "--no-report")
    whodisk("report", "a.case", "-o", "a.html")
    assert precious.read_text(encoding="utf-8") == PRECIOUS
    assert (work / "a.html").stat().st_size > 1000 and not (work / "a.html").is_symlink()


def test_a_stack_is_not_written_through_a_link(whodisk: Run, work: Path) -> None:
    whodisk("lab", "run", "healthy-nvme", "--set", "workload.operations=1000", "-o", "a.case")
    (work / "now.toml").symlink_to(work / "elsewhere")
    said = whodisk("lab", "fit", "a.case", "-o", "now.toml", code=2).stderr
    assert "expected a new file" in said
    assert not (work / "elsewhere").exists()


def test_generating_cases_keeps_a_scenario_of_somebody(whodisk: Run, work: Path) -> None:
    mine = work / "cases" / "case-000000.toml"
    mine.parent.mkdir()
    mine.write_text(PRECIOUS, encoding="utf-8")
    said = whodisk("lab", "generate", "--count", "1", "--seed", "7", "-o", "cases", code=2).stderr
    assert "expected the scenario that this seed draws" in said
    assert mine.read_text(encoding="utf-8") == PRECIOUS
