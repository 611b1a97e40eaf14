"""Kill -9 at any moment leaves a case that is readable up to the last batch."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import AGENT, Run, meta, started, write_spec

SEED = 20261121


@pytest.mark.parametrize("number", range(3))
def test_killed_while_recording(whodisk: Run, work: Path, number: int) -> None:
    """The agent is killed at a seeded moment between its first instruction and two seconds later."""
    moment = random.Random(SEED + number).uniform(0.05, 2.0)
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="30s", file_size="4MiB")
    with started(AGENT, "run", spec, "-o", "a.case", cwd=work) as process:
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
    case = work / "a.case"
    place = f"killed after {moment:.3f} s (seed {SEED + number})"
    if not (case / "case.json").exists():
        assert moment < 1, place
        return
    pid = meta(case)["command_pid"]
    assert pid is None or _ends(pid), f"{place}: the engine outlived the agent"
    if not any((case / "raw").rglob("*.arrows")):
        # Nothing was recorded yet; that is said, not hidden.
        assert "nothing" in whodisk("seal", case, code=2).stderr, place
        return
    whodisk("seal", case)
    text = whodisk("verify", case).stdout
    assert "problem" not in text, f"{place}: {text}"
    rows = meta(case)["layers"].get("app", {}).get("rows", 0)
    streams = [path for path in (case / "raw" / "app").glob("*.arrows") if path.stat().st_size > 4096]
    if moment > 1.8 and streams:
        assert rows > 0, place
    whodisk("solve", case, "--no-report")


def _ends(pid: int) -> bool:
    """Whether the process is gone, or a zombie, within a second."""
    for _ in range(100):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return True
        if ") Z " in stat:
            return True
        time.sleep(0.01)
    return False


def test_truncated_stream(whodisk: Run, work: Path) -> None:
    """A stream that ends in the middle of a batch keeps its good part, and the loss is declared."""
    spec = write_spec(work / "spec.toml", work / "data.bin", duration="1s")
    whodisk("run", spec, "-o", "a.case", "--no-seal", "--app-only")
    stream = work / "a.case" / "raw" / "app" / "worker-000.arrows"
    with stream.open("r+b") as file:
        file.truncate(stream.stat().st_size * 2 // 3)
    text = whodisk("verify", "a.case").stdout
    assert "worker-000.arrows" in text, text
    assert "cut" in whodisk("seal", "a.case").stderr
    text = whodisk("verify", "a.case").stdout
    assert "not whole" in text, text
    assert "truncated" in whodisk("solve", "a.case", "--json", "--no-report").stdout


@pytest.mark.root
def test_a_live_case_cannot_be_sealed(whodisk: Run, work: Path) -> None:
    with started(AGENT, "record", "-o", "a.case", cwd=work) as process:
        while not (work / "a.case" / "raw" / "block").exists():
            time.sleep(0.05)
        assert "still being written" in whodisk("seal", "a.case", code=2).stderr
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    whodisk("seal", "a.case")
