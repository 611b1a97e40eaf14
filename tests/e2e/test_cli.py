"""The command line itself."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import AGENT, ROOT, WHODISK, Run, write_spec

COMMANDS = ["demo", "solve", "report", "record", "run", "slowdisk", "seal", "verify", "doctor"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(whodisk: Run, command: str) -> None:
    text = whodisk(command, "--help").stdout
    assert "Usage: whodisk " in text
    if command not in ("demo", "doctor"):
        assert f"whodisk {command} " in text.split("Example", 1)[1], text


def test_help_lists_all_commands(whodisk: Run) -> None:
    text = whodisk("--help", env={**os.environ, "COLUMNS": "80"}).stdout
    assert all(command in text for command in COMMANDS)
    cut = [line for line in text.splitlines() if line.endswith("...") and "Usage:" not in line]
    assert not cut, "give the command a shorter line (short_help)"


def test_versions_agree(whodisk: Run) -> None:
    python = whodisk("--version").stdout.split()
    agent = subprocess.run([AGENT, "--version"], capture_output=True, text=True, check=True).stdout.split()
    assert python[1] == agent[1]


def test_cases_are_scored_side_by_side(whodisk: Run, work: Path) -> None:
    """The processes that solve them import the command's own file."""
    whodisk("lab", "generate", "--count", "3", "--seed", "5", "-o", str(work / "cases"))
    told = json.loads(whodisk("score", str(work / "cases"), "--jobs", "2", "--json").stdout)
    assert told["simulated"]["errors"] == 0, told
    assert told["simulated"]["cases"] == 3, told


@pytest.mark.slow
def test_a_check_fails_whoever_reads(whodisk: Run, work: Path) -> None:
    """`whodisk solve CASE --expect CHECK | head -1`: the reader leaves, the exit code stays."""
    whodisk("lab", "run", "healthy-nvme", "--set", "workload.duration=20ms", "-o", "a.case")
    good, bad = ["solve", "a.case", "--expect", "p50<10s"], ["solve", "a.case", "--expect", "p50<1ns"]
    for command, code in ((good, 0), (bad, 1), ([*bad, "--json"], 1), (["verify", "a.case"], 0)):
        assert _code_without_reader(work, command) == code, command
    next((work / "a.case").glob("ops/layer=block/*.parquet")).write_bytes(b"")
    assert _code_without_reader(work, ["verify", "a.case"]) == 1
    assert _code_without_reader(work, ["verify", "a.case", "--json"]) == 1


def _code_without_reader(work: Path, command: list[str]) -> int:
    """Exit code where nobody reads stdout from the begin."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([WHODISK, *command], cwd=work, **pipes) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert "Traceback" not in said and "Broken" not in said, said
    return process.returncode


def test_names_that_are_almost_right_are_told(whodisk: Run, work: Path) -> None:
    for command, meant in (
        (["lab", "run", "slow-membr"], "slow-member"),
        (["lab", "show", "slow_member"], "slow-member"),
        (["lab", "run", "slow-member", "--set", "fault.slwo.factor=2"], "fault.slow"),
        (["import", "--as", "serise", "a.csv"], "series"),
    ):
        assert f"did you mean {meant}?" in whodisk(*command, code=2).stderr


@pytest.mark.slow
def test_the_man_page_has_every_command() -> None:
    done = subprocess.run([ROOT / "scripts/man-page", WHODISK], capture_output=True, text=True, check=True)
    assert all(f".SH {command.upper()}\n" in done.stdout for command in COMMANDS)
    assert "\\-\\-expect" in done.stdout


def test_starts_quickly() -> None:
    """Help comes without the libraries that solving takes."""
    fastest = min(_seconds([str(WHODISK), "--help"]) for _ in range(5))
    assert fastest < 1.0


def _seconds(command: list[str]) -> float:
    begin = time.monotonic()
    subprocess.run(command, capture_output=True, check=True)
    return time.monotonic() - begin


def test_doctor_json(whodisk: Run) -> None:
    checks = json.loads(whodisk("doctor", "--json").stdout)["checks"]
    assert all({"name", "ok", "found", "needed_for", "to_do"} <= set(check) for check in checks)
    assert all(check["to_do"] for check in checks if not check["ok"]), "what is missing needs a next step"


def test_doctor_fits_ten_lines(whodisk: Run) -> None:
    lines = whodisk("doctor").stdout.splitlines()
    assert len(lines) <= 10
    assert len([line for line in lines if line[:2] in ("ok", "--")]) == 4, "one line for each purpose"
    assert len(whodisk("doctor", "--all").stdout.splitlines()) > 30


def test_completion(whodisk: Run) -> None:
    # Which shell called is found by the processes above, and in a test there may be none.
    named = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    for shell in ("bash", "zsh", "fish"):
        assert "whodisk" in whodisk("--show-completion", shell, env=named).stdout
    script = subprocess.run([AGENT, "completion", "bash"], capture_output=True, text=True, check=True)
    assert "--trigger" in script.stdout


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("whodisk rec", {"record"}),
        ("whodisk solve --ex", {"--expect"}),
        # Commands of the binary: what its own help says.
        ("whodisk record --r", {"--redact", "--redact-key", "--ring", "--ring-memory", "--refractory"}),
        ("whodisk lab r", {"run"}),
        ("whodisk lab run --sw", {"--sweep"}),
        ("whodisk run --app", {"--app-only"}),
        ("whodisk run --cl", {"--clients"}),
        ("whodisk import a", set()),
    ],
)
def test_words_are_completed(whodisk: Run, line: str, offered: set[str]) -> None:
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_WHODISK_COMPLETE": "complete_bash"}
    assert set(whodisk(env={**os.environ, **asked}).stdout.split()) == offered


def test_a_closed_pipe_is_success(whodisk: Run, work: Path) -> None:
    spec = write_spec(work / "spec.toml", "null", duration="200ms", rate="1000/s")
    whodisk("run", spec, "-o", work / "a.case", "--app-only")
    for command in (f"{WHODISK} solve --no-report a.case", f"{WHODISK} verify a.case", f"{WHODISK} doctor"):
        line = f"set -o pipefail; {command} | true"
        done = subprocess.run(["bash", "-c", line], cwd=work, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.returncode} {done.stderr}"
        assert "Broken pipe" not in done.stderr


def test_errors_of_python_show_a_trace_only_on_request(whodisk: Run, work: Path) -> None:
    done = subprocess.run(
        [WHODISK, "solve", "none"],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
        env={"WHODISK_DEBUG": "1", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "Traceback" not in whodisk("solve", "none", code=2).stderr


def test_a_missing_binary_is_named(whodisk: Run, work: Path) -> None:
    env = {"WHODISK_AGENT": str(work / "nothing"), "PATH": "/usr/bin:/bin"}
    done = whodisk("doctor", code=2, env=env)
    assert "whodisk-agent" in done.stderr
    assert "WHODISK_AGENT" in done.stderr
