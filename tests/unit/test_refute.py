"""Refutations: which setting takes a suspect away, and what the runs then say."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.synth import Simulation
from whodisk.errors import WhodiskError
from whodisk.experiment import refute
from whodisk.experiment.plan import plan_of
from whodisk.findings import Culprit, Effect, Finding, Verdict
from whodisk.reading.views import Case

SPEC = {
    "targets": {"paths": ["/dev/loop7"]},
    "blocks": [{"size_bytes": 4096, "share_ppm": 800_000}, {"size_bytes": 65536, "share_ppm": 200_000}],
    "read_ppm": 605_000,
    "random_ppm": 1_000_000,
    "direct": True,
    "align_bytes": 4096,
    "allow_overwrite": True,
    "queue_depth": 4,
    "workers": 2,
    "seed": 9,
    "sequential_run_ops": 0,
    "sync_every_writes": 0,
    "sync_kind": "fsync",
    "file_size_bytes": None,
    "ramp_ns": 0,
    "duration_ns": 2_000_000_000,
    "operations": None,
    "rate_per_s": 250.0,
    "arrival": "poisson",
}


def finding(kind: str, name: str, because_of: str | None = None) -> Finding:
    culprit = Culprit(kind, name, because_of)
    return Finding(
        "d", culprit, "It is slow.", "b", Effect("m", 1.0, "1"), 1.0, 0.0, 9, [], "Swap the drive.", "r"
    )


def refuted(folder: Path, found: Finding, **meta: Any) -> refute.Refutation:
    workload = {
        "spec": SPEC,
        "targets": [{"name": "/dev/loop7", "size_bytes": 16 << 20, "laid_out_bytes": 0}],
    }
    case = Simulation(seed=1, seconds=0.2).write(folder / "c.case", **{"workload": workload, **meta})
    verdict = Verdict(case="c", status="slow", summary=[], where_time_goes={}, operations=1, findings=[found])
    with Case(case) as opened:
        return refute.refutation(opened, verdict)


def test_the_load_of_a_case_is_the_one_that_ran() -> None:
    table = refute.workload_of(SPEC)
    assert table["block_sizes"] == {"4096B": "80%", "65536B": "20%"} and table["read"] == "60.5%"
    assert (table["rate"], table["arrival"], table["duration"]) == ("250/s", "poisson", "2000000000ns")
    assert "sync_kind" not in table and "operations" not in table


def test_small_readahead_is_refuted_by_a_large_one(tmp_path: Path) -> None:
    found = refuted(tmp_path, finding("config", "read_ahead_kb of sdb"))
    assert found.changed == {"set": {"sdb": {"read_ahead_kb": 1024}}}
    plan = plan_of(tmp_path / "c", found.table())
    assert [arm.name for arm in plan.arms] == [refute.AS_FOUND, "read_ahead_kb 1024"]
    assert (
        plan.arms[0].table["workload"] == plan.arms[1].table["workload"] and "set" not in plan.arms[0].table
    )


def test_a_device_is_refuted_by_another_one(tmp_path: Path) -> None:
    found = refuted(tmp_path, finding("stage", "device", "device:loop7"))
    assert (
        found.changed["workload"]["targets"] == ["{elsewhere}"]
        and found.slowdisks["elsewhere"]["size"] == "16777216B"
    )
    plan = plan_of(tmp_path / "c", found.table())
    assert plan.arms[1].table["workload"]["queue_depth"] == 4 and plan.slowdisks


def test_a_neighbour_is_stopped_and_continued(tmp_path: Path) -> None:
    # A name of its own, so that nobody else's process is meant.
    name = "wd-neighbour"
    (tmp_path / name).symlink_to("/bin/sleep")
    with subprocess.Popen([tmp_path / name, "60"]) as process:
        try:
            found = refuted(tmp_path, finding("process", name, "stage:queue"))
            assert found.changed == {
                "setup": f"kill -STOP {process.pid}",
                "teardown": f"kill -CONT {process.pid}",
            }
            assert f"process {process.pid}" in found.touches[0]
        finally:
            process.kill()
    with pytest.raises(WhodiskError, match=r"found no such process; by hand: Swap the drive\."):
        refuted(tmp_path / "later", finding("process", name, "stage:queue"))


def test_limits_of_both_versions_of_control_groups_are_lifted(tmp_path: Path) -> None:
    v2, v1 = tmp_path / "a.slice", tmp_path / "blkio" / "a.slice"
    for folder in (v2, v1):
        folder.mkdir(parents=True)
    (v2 / "io.max").write_text("7:0 rbps=max wbps=max riops=500 wiops=max\n")
    (v2 / "cpu.max").write_text("20000 100000\n")
    (v1 / "blkio.throttle.read_iops_device").write_text("7:0 500\n7:1 600\n")
    (v1 / "blkio.throttle.write_iops_device").write_text("")
    assert refute.lifted_limits("/a.slice", cpu=False, root=tmp_path) == {
        str(v2 / "io.max"): "7:0 rbps=max wbps=max riops=max wiops=max",
        str(v1 / "blkio.throttle.read_iops_device"): "7:0 0\n7:1 0",
    }
    assert refute.lifted_limits("a.slice", cpu=True, root=tmp_path) == {str(v2 / "cpu.max"): "max 100000"}
    assert refute.lifted_limits("/", cpu=True, root=tmp_path) == {}


def test_what_is_no_setting_is_left_to_people(tmp_path: Path) -> None:
    with pytest.raises(WhodiskError, match=r"by hand: Swap the drive\."):
        refuted(tmp_path / "a", finding("vector", "41", "handler:switchtec"))
    with pytest.raises(WhodiskError, match="see whodisk whatif"):
        refuted(tmp_path / "b", finding("stage", "device"), observer="lab")


@pytest.mark.parametrize(
    ("there", "left", "said"),
    [
        ((3, 3), (0, 3), "The diagnosis stands"),
        ((3, 3), (3, 3), "The diagnosis moved"),
        ((1, 3), (0, 3), "Not reproduced"),
        ((3, 3), (0, 0), "Nothing can be said"),
    ],
)
def test_the_conclusion_follows_the_runs(there: tuple[int, int], left: tuple[int, int], said: str) -> None:
    text = refute.conclusion(finding("stage", "device"), {refute.AS_FOUND: there, "elsewhere": left})
    assert text.startswith(said) and f"{there[0]} of" in text


def test_the_same_culprit_on_another_device_is_the_same() -> None:
    same = refute.is_same
    assert same(finding("config", "read_ahead_kb of loop1"), finding("config", "read_ahead_kb of loop12"))
    assert not same(finding("stage", "device"), finding("stage", "queue"))
