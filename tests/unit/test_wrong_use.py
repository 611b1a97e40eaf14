"""Names of folders may be any bytes; where a report may stand; what wrong use says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.synth import Simulation
from whodisk.cli import main
from whodisk.cli.cases import save_verdict, write_report
from whodisk.errors import WhodiskError
from whodisk.verdict.solve import solve


def test_a_name_that_is_no_text_is_solved_and_saved(tmp_path: Path) -> None:
    case = Path(os.fsdecode(os.fsencode(tmp_path) + b"/lat\xff1.case"))
    Simulation(seed=1, depth=2, seconds=0.2, typical_us=300.0).write(tmp_path / "plain").rename(case)
    verdict = solve(case)
    assert verdict.case == "lat\ufffd1.case"
    save_verdict(case, verdict)
    assert (case / "findings.json").is_file()


def test_a_report_needs_the_name_of_a_file(tmp_path: Path) -> None:
    verdict = solve(Simulation(seed=1, depth=2, seconds=0.2, typical_us=300.0).write(tmp_path / "case"))
    with pytest.raises(WhodiskError, match="found a folder"):
        write_report(tmp_path / "case", verdict, tmp_path)
    with pytest.raises(WhodiskError, match="found none at"):
        write_report(tmp_path / "case", verdict, tmp_path / "none" / "report.html")


def test_a_query_that_was_interrupted_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(arguments: list[str]) -> int:
        raise RuntimeError(main.QUERY_INTERRUPTED)

    monkeypatch.setattr("whodisk.cli.app.application", interrupted)
    assert main._run(["solve", "x.case"]) == 130
    assert capsys.readouterr().err == "whodisk: interrupted\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["solve", "true", "--name=x"], "put -- before a command: whodisk solve -- true --name=x"),
        (["solve", "--bogus", "x.case"], "see whodisk solve --help"),
        (["bogus"], "see whodisk --help"),
    ],
)
def test_wrong_use_says_what_to_do(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main._run(arguments) == 2
    assert capsys.readouterr().err.strip().endswith(said)
