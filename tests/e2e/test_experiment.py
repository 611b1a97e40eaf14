"""Experiments on real devices: equal arms are equal, a delay and a setting are found, and everything is put back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import WHODISK, Run, started

pytestmark = pytest.mark.root

DELAYS = """
[experiment]
metric = "p50"
repetitions = 4
[slowdisk.disk]
size = "16MiB"
latency = "2ms"
[common]
observe = "app"
[common.workload]
targets = ["{disk}"]
block_sizes = "4KiB"
operations = 150
[arm.plain]
[arm.same]
[arm.slower.slowdisk.disk]
latency = "3ms"
[arm.broken]
command = "exit 3"
"""


@pytest.fixture
def loop(work: Path) -> Iterator[str]:
    """A loop device of 16 MiB of zeros."""
    image = work / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    device = subprocess.run(
        ["losetup", "--show", "-f", image], capture_output=True, text=True, check=True
    ).stdout.strip()
    yield device
    subprocess.run(["losetup", "-d", device], check=True)


def experiment(whodisk: Run, work: Path, text: str, *more: str, code: int = 0) -> dict[str, Any]:
    (work / "e.toml").write_text(text, encoding="utf-8")
    done = whodisk(
        "experiment", "e.toml", "-o", "out", "--json", "--journal", work / "journal", *more, code=code
    )
    assert not (work / "journal").exists()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def primary(found: dict[str, Any], arm: str) -> dict[str, Any]:
    (comparison,) = [c for c in found["comparisons"] if c["second"]["name"] == arm]
    ratio: dict[str, Any] = comparison["metrics"][0]
    return ratio


@pytest.mark.slow
def test_equal_arms_are_equal_a_delay_is_found_and_a_broken_arm_spoils_nothing(
    whodisk: Run, work: Path
) -> None:
    found = experiment(whodisk, work, DELAYS, code=2)
    same, slower = primary(found, "same"), primary(found, "slower")
    # By chance one of twenty equal pairs is called; whatever is called is small.
    assert not same["different"] or 0.9 < same["ratio"] < 1.1
    # Timers are late by the same time in both, so a little less than 3 / 2.
    assert slower["low"] < 1.5 and slower["high"] > 1.3 and slower["ratio"] > 1.15
    failed = [run for run in found["order"] if run["failed"]]
    assert [run["arm"] for run in failed] == ["broken"] * 2 and "found exit 3" in failed[0]["failed"]
    orders = [[run["arm"] for run in found["order"] if run["round"] == number] for number in (1, 2, 3, 4)]
    assert all({"plain", "same", "slower"} <= set(order) for order in orders)
    assert len({tuple(arm for arm in order if arm != "broken") for order in orders}) > 1, (
        "the order is random"
    )
    assert "broken failed in 2 of 2 runs" in " ".join(found["sentences"])
    assert (work / "out" / "report.html").is_file() and (
        work / "out" / "plain" / "01.case" / "case.json"
    ).is_file()


def test_readahead_is_set_found_and_put_back(whodisk: Run, work: Path) -> None:
    text = """
[experiment]
repetitions = 3
[slowdisk.disk]
size = "16MiB"
latency = "1ms"
[common]
observe = "app"
prepare = [{cache = "dropped", path = "{disk}"}]
[common.workload]
targets = ["{disk}"]
io = "buffered"
random = "0%"
operations = 256
[sweep]
"set.{disk:name}.read_ahead_kb" = [0, 128]
"""
    found = experiment(whodisk, work, text)
    ratio = primary(found, "read_ahead_kb=128")
    # 32 pages come for the delay of one.
    assert ratio["different"] and ratio["metric"] == "iops" and ratio["low"] > 4
    prepared = [run["prepared"][0]["found"]["dropped"] for run in found["order"]]
    assert all(device.startswith("/dev/loop") for device in prepared)


def read_ahead(device: str) -> str:
    return Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb").read_text().strip()


SLEEPS = """
[common]
command = "sleep 60"
[arm.a.set."{device}"]
read_ahead_kb = 512
[arm.b.set."{device}"]
read_ahead_kb = 1024
"""


@pytest.mark.beside
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_settings_are_put_back(whodisk: Run, work: Path, loop: str, number: signal.Signals) -> None:
    before = read_ahead(loop)
    (work / "e.toml").write_text(SLEEPS.replace("{device}", loop), encoding="utf-8")
    command = (WHODISK, "experiment", "e.toml", "-o", "out", "--journal", "journal")
    with started(*command, cwd=work, stdout=subprocess.PIPE) as process:
        while read_ahead(loop) == before or not _sleeps(process.pid):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        if number == signal.SIGINT:
            os.killpg(process.pid, signal.SIGINT)
            said, error = process.communicate(timeout=60)
            assert read_ahead(loop) == before and "it was stopped" in said, error
            assert not (work / "journal").exists()
            return
        process.kill()
        process.wait()
    assert read_ahead(loop) in ("512", "1024")
    refused = whodisk("experiment", "e.toml", "-o", "out2", "--journal", "journal", code=2)
    assert "--restore" in refused.stderr
    done = whodisk("experiment", "--restore", "--journal", "journal")
    assert f"read_ahead_kb = {before}" in done.stdout and read_ahead(loop) == before
    assert "nothing to put back" in whodisk("experiment", "--restore", "--journal", "journal").stdout


def _sleeps(pid: int) -> bool:
    """Whether the arm's command runs: a descendant of `whodisk experiment`."""
    listed = subprocess.run(
        ["pgrep", "-s", str(pid), "-x", "sleep"], capture_output=True, text=True, check=False
    )
    return bool(listed.stdout)


@pytest.mark.beside
@pytest.mark.parametrize(
    ("arm", "said"),
    [
        (
            'command = "true"\nset."/sys/block/LOOP/size" = 4',
            "expected a file that may be written|to what it is",
        ),
        ('command = "true"\nset.LOOP.scheduler = "warp"', "expected one of"),
        ('command = "true"\nset.none.read_ahead_kb = 4', "expected a file, found none"),
        ('workload = { targets = ["f"], rndom = "5%" }', "expected a known key, found .rndom."),
        ('command = "dd if=/dev/zero of=/dev/LOOP count=1"', "data on it"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(
    whodisk: Run, work: Path, loop: str, arm: str, said: str
) -> None:
    import re

    with Path(loop).open("r+b") as file:
        file.seek(8192)
        file.write(b"precious")
    text = f'[arm.a]\ncommand = "touch ran"\n[arm.b]\n{arm.replace("LOOP", Path(loop).name)}\n'
    (work / "e.toml").write_text(text, encoding="utf-8")
    done = whodisk("experiment", "e.toml", "-o", "out", "--journal", "journal", code=2)
    assert re.search(said, done.stderr), done.stderr
    assert not (work / "ran").exists() and not (work / "out").exists()
    if "data on it" in said:
        assert "--i-know-this-destroys" in done.stderr
        allowed = ("--i-know-this-destroys", loop, "--dry-run")
        assert "2 arms" in whodisk("experiment", "e.toml", "--journal", "journal", *allowed).stdout
