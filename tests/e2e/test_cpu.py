"""Waiting for a CPU is a stage of the engine's own operations."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.accuracy.faults.base import Running
from tests.accuracy.host import neighbour
from tests.e2e.conftest import WHODISK, Run, meta, started, write_spec

STAGES = ("app", "fs", "throttle", "queue", "device", "interrupt", "reap", "runqueue", "unknown")


@pytest.mark.root
@pytest.mark.alone
@pytest.mark.parametrize("loop", ["closed", pytest.param("rate", marks=pytest.mark.slow)])
def test_a_worker_without_a_cpu(whodisk: Run, work: Path, loop: str) -> None:
    """A real-time program on the workers' CPU: what it costs is `runqueue`, and the program is named."""
    keys: dict[str, str | int] = {"rate": "2000/s"} if loop == "rate" else {}
    spec = write_spec(work / "spec.toml", work / "data.bin", read="100%", workers=1, duration="4s", **keys)
    case, cpu = work / "hog.case", max(os.sched_getaffinity(0))
    with (
        neighbour("hog", cpu=cpu, busy=0.04, idle=0.2, seed=1),
        started(WHODISK, "run", spec, "-o", case) as process,
    ):
        pid = Running(case, process).pid()
        command = ["taskset", "--all-tasks", "--cpu-list", "--pid", str(cpu), str(pid)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        assert process.wait(60) == 0
    assert meta(case)["layers"]["app"]["stages"]["runqueue_ns"] == "runqueue"
    ops = f"'{case}/ops/layer=app/*.parquet'"
    total = " + ".join(f"coalesce({stage}_ns, 0)" for stage in STAGES)
    others = "greatest(app_ns, fs_ns, queue_ns, device_ns, interrupt_ns, reap_ns)"
    wrong, slow, waited = duckdb.execute(
        f"""SELECT count(*) FILTER ({total} <> latency_ns), count(*) FILTER (latency_ns > 20e6),
        count(*) FILTER (latency_ns > 20e6 AND runqueue_ns > {others}) FROM {ops}"""
    ).fetchall()[0]
    assert wrong == 0
    assert slow >= 5
    # A disk of its own may have its moments, too.
    assert waited >= 0.9 * slow
    found = json.loads(whodisk("solve", case, "--json", "--no-report").stdout)["findings"]
    # The host of a virtual disk may throttle it in the middle of a run, which is found, too, and may cost more than the program.
    assert [one["culprit"]["name"] for one in found if one["culprit"]["kind"] != "device"][:1] == ["hog"]
