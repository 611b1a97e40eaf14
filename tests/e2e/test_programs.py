"""`whodisk run PROGRAM`: a real program, recorded, with its own operations on top; and what goes wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest

from tests.e2e.conftest import WHODISK, started

pytestmark = pytest.mark.root


def whodisk(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([WHODISK, *words], capture_output=True, text=True, check=False)


def test_a_programs_operations_are_tied_to_its_calls(tmp_path: Path) -> None:
    case = tmp_path / "sqlite.case"
    done = whodisk("run", "sqlite", "--seconds", "1", "--scale", "0.1", "--path", tmp_path, "-o", case)
    assert done.returncode == 0, done.stderr
    meta = json.loads((case / "case.json").read_text())
    assert (meta["observer"], meta["workload"]["program"], meta["state"]) == ("run", "sqlite", "sealed")
    # Nothing is left of it.
    assert [path.name for path in tmp_path.iterdir()] == ["sqlite.case"]
    ops = f"read_parquet('{case}/ops/*/*.parquet', hive_partitioning = true)"
    rows = duckdb.execute(
        f"""SELECT op, count(*), sum(latency_ns), sum(coalesce(unknown_ns, 0)), count(DISTINCT tid), min(comm)
FROM {ops} WHERE layer = 'app' GROUP BY 1 ORDER BY 1"""
    ).fetchall()
    assert [(row[0], row[3:]) for row in rows] == [("commit", (0, 1, "sqlite")), ("read", (0, 1, "sqlite"))]
    assert rows[0][1] == rows[1][1] > 10
    # Every sync of the log belongs to the commit that waited for it (checkpoints of the log sync, too).
    unlinked = duckdb.execute(
        f"""SELECT count(*) FROM {ops} AS call WHERE layer = 'syscall' AND op = 'sync' AND comm = 'sqlite' AND NOT EXISTS (
  SELECT 1 FROM read_parquet('{case}/links/*.parquet') AS link JOIN {ops} AS commit ON commit.op_id = link.parent_id
  WHERE link.child_id = call.op_id AND commit.op = 'commit' AND commit.start_ns <= call.start_ns
    AND commit.start_ns + commit.latency_ns >= call.start_ns + call.latency_ns)"""
    ).fetchall()
    # Closing the database syncs once or twice, after the last commit.
    assert unlinked[0][0] <= 3
    assert whodisk("verify", case).returncode == 0
    verdict = json.loads(whodisk("solve", case, "--json", "--no-report").stdout)
    assert set(verdict["where_time_goes"]) == {"commit", "read"}


@pytest.mark.beside
def test_a_program_that_dies_in_the_middle_leaves_a_case(tmp_path: Path) -> None:
    case = tmp_path / "killed.case"
    command: list[str | Path] = [
        "run",
        "sqlite",
        "--seconds",
        "30",
        "--scale",
        "0.1",
        "--path",
        tmp_path,
        "-o",
        case,
    ]
    with started(WHODISK, *command) as process:
        latest = time.monotonic() + 60
        pid = None
        while pid is None and time.monotonic() < latest:
            streams = list(case.glob("raw/syscall/*.arrows"))
            if any(stream.stat().st_size > 4096 for stream in streams):
                pid = json.loads((case / "case.json").read_text())["command_pid"]
            time.sleep(0.05)
        assert pid is not None
        subprocess.run(["kill", f"-{signal.SIGKILL}", str(pid)], check=True)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "sqlite ended in the middle, with signal 9" in said
    assert "can be solved" in said
    meta = json.loads((case / "case.json").read_text())
    assert meta["state"] == "sealed"
    assert "app" not in meta["layers"]
    assert any("layer app" in unseen["what"] for unseen in meta["not_observed"])


@pytest.mark.beside
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], "'nonsense': expected a program (fio, postgresql"),
        (["sqlite", "--path", "absent"], "absent: expected a directory"),
        (["sqlite", "--clients", "3"], "--clients says nothing to sqlite; it takes --scale"),
        (["sqlite", "--scale", "9999"], "MiB of room for sqlite, found"),
        (["sqlite", "-o", "."], ".: expected the name of a new case"),
    ],
)
def test_wrong_use_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    done = whodisk("run", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
