"""Each real fault once; `make accuracy` runs them many times, with their look-alikes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable
from tests.accuracy.judge import judge
from tests.accuracy.scenarios import ROWS, Row, record, solve
from tests.e2e.conftest import Run

ATTEMPTS = 3


SHORT = [row for row in ROWS if row.place in row.fault.short_places]
#: One of the two controllers. The slow disk, the stopped submitter and a
#: healthy disk are in the demo, the CPU hog in `test_cpu.py`; the rest comes with `make test-long`.
EACH_TIME = {"cpu-limit/memory"}


@pytest.mark.root
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name, marks=() if row.name in EACH_TIME else pytest.mark.slow)
        for row in SHORT
    ],
)
def test_a_fault_is_named_and_health_is_not_accused(row: Row, work: Path) -> None:
    for attempt in range(ATTEMPTS):
        try:
            record(row, seed=1 + attempt, seconds=row.fault.short_seconds, work=work / "run")
        except Unavailable as lack:
            pytest.skip(str(lack))
        run = solve(work / "run")
        verdict = judge(row, run)
        if verdict.first_right or not run.about.is_disturbed:
            break
        print(f"again: {row.name}: {verdict.named}")
    else:
        pytest.skip(f"{ATTEMPTS} times others had the CPUs: {verdict.named}")
    assert verdict.first_right, f"{row.name}: {verdict.named}; stalls seen by the query: {verdict.stalls}"
    assert run.about.times >= row.fault.times_min


@pytest.mark.alone
def test_demo(whodisk: Run, work: Path) -> None:
    """The whole walk, where only the home is on a disk; it leaves alone what is there. Without root it leaves the slow disk
    out and says so."""
    home = work / "home"
    home.mkdir()
    (home / "data.bin").write_text("precious", encoding="utf-8")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / "data.bin").symlink_to(home / "data.bin")
        options = {"cwd": folder, "env": {**os.environ, "HOME": str(home)}}
        done = whodisk("demo", "--seconds", "2", timeout=180, **options)
        assert "$ whodisk run" in done.stdout
        assert f"on your own disk ({home}/" in done.stdout
        assert "What was injected" in done.stdout
        if os.geteuid() != 0:
            assert "left out" in done.stdout
        assert (home / "data.bin").read_text(encoding="utf-8") == "precious"
        assert [path.name for path in home.iterdir()] == ["data.bin"]
        said = whodisk("demo", "-o", "whodisk-demo", code=2, **options).stderr
        assert "expected the name of a new directory" in said
        assert (Path(folder) / "whodisk-demo" / "1-own-disk.case" / "case.json").is_file()


@pytest.mark.alone
def test_nothing_is_left_mounted() -> None:
    mounts = subprocess.run(["findmnt", "-t", "fuse"], capture_output=True, text=True, check=False).stdout
    assert "whodisk" not in mounts
