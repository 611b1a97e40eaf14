"""A turn on a CPU makes all that a software device does late; a tail of flushes or reads only those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, probe, write_case
from whodisk.reading.flush_waits import FLUSH
from whodisk.statistics.stats import Ints
from whodisk.verdict.solve import solve

COMMITS, DISK, MS = 4000, "loop0", 1_000_000
#: The process that serves the disk.
SERVER = 900


def cpu_waits(end_ns: Ints, waited_ns: Ints) -> list[dict[str, Any]]:
    """The one thread's waits at the end of each operation: blocked, then for a CPU, for 20 us at least."""
    return [
        {
            "tid": 4300,
            "pid": 4300,
            "comm": "db",
            "cpu": 0,
            "start_ns": end - ns,
            "duration_ns": ns,
            "state": state,
            "cause": None,
            "cause_pid": None,
        }
        for end, waited in zip(end_ns.tolist(), waited_ns.tolist(), strict=True)
        for state, ns in (("blocked", 100_000), ("runnable", waited or 20_000))
    ]


def commits(path: Path, late_flushes: float, late_writes: float) -> Path:
    """Commits of one thread, a write and a flush command each, 4.5 ms late so often; the thread itself waits 4 ms for a CPU now and then, too."""
    rng = np.random.default_rng(17)
    write_ns = rng.integers(90_000, 110_000, COMMITS) + 4_500_000 * (rng.random(COMMITS) < late_writes)
    flush_ns = rng.integers(180_000, 220_000, COMMITS) + 4_500_000 * (rng.random(COMMITS) < late_flushes)
    waited_ns = 4_000_000 * (rng.random(COMMITS) < 0.03)
    latency = 20_000 + write_ns + flush_ns + waited_ns
    start = np.cumsum(latency + 200_000) - latency
    number = np.arange(COMMITS)
    common = {"device": DISK, "tid": 4300, "pid": 4300, "comm": "db"}
    syscall = common | {
        "op_id": APP_ID_BASE | number,
        "start_ns": start,
        "latency_ns": latency,
        "op": "sync",
        "flags": FLUSH,
        "size_bytes": 0,
        "fs_ns": np.full(COMMITS, 20_000),
        "queue_ns": np.zeros(COMMITS, np.int64),
        "device_ns": write_ns + flush_ns,
        "interrupt_ns": np.zeros(COMMITS, np.int64),
        "runqueue_ns": waited_ns,
    }
    begun = np.column_stack([start + 20_000, start + 20_000 + write_ns]).ravel()
    took = np.column_stack([write_ns, flush_ns]).ravel()
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(2 * COMMITS),
        "start_ns": begun,
        "latency_ns": took,
        "op": ["write", "flush"] * COMMITS,
        "device": DISK,
        "size_bytes": [8192, 0] * COMMITS,
        "queue_ns": np.zeros(2 * COMMITS, np.int64),
        "device_ns": took,
    }
    return write_case(
        path,
        syscall=syscall,
        block=block,
        links={
            "parent_id": np.repeat(APP_ID_BASE | number, 2),
            "child_id": block["op_id"],
            "kind": ["waits_for"] * (2 * COMMITS),
        },
        devices=(DISK,),
        tables={"waits": cpu_waits(start + latency, waited_ns)},
        meta={"version": 2, "observer": "record", "command": ["db"], "duration_ns": int(start[-1] + 20 * MS)},
    )


@pytest.mark.parametrize(
    ("late_flushes", "late_writes", "accused"), [(0.03, 0.001, True), (0.02, 0.02, False)]
)
def test_flush_commands_that_are_late_alone_did_not_wait_for_a_cpu(
    tmp_path: Path, late_flushes: float, late_writes: float, accused: bool
) -> None:
    verdict = solve(commits(tmp_path / "case", late_flushes, late_writes))
    at_device = [finding for finding in verdict.findings if finding.culprit.name == "device"]
    assert bool(at_device) == accused, verdict.summary
    if not accused:
        assert any("device" in told and "another thread's turn on a CPU" in told for told in verdict.minor), (
            verdict.minor
        )


def requests(
    path: Path,
    late_reads: float,
    late_writes: float,
    stuck_ns: int = 0,
    turns: int = 0,
    served: str = "not recorded",
) -> Path:
    """Random reads and writes of one thread, half and half, 4.5 ms late so often; the thread itself waits 4 ms for a CPU now and then, too.

    `served`: what is known of the process that serves the device: nothing; that it had no CPU during those 4.5 ms; or that it had none at other times.
    """
    rng = np.random.default_rng(18)
    op = np.where(rng.random(COMMITS) < 0.5, "read", "write")
    late = np.where(op == "read", late_reads, late_writes)
    device_ns = rng.integers(90_000, 110_000, COMMITS) + 4_500_000 * (rng.random(COMMITS) < late)
    waited_ns = 4_000_000 * (rng.random(COMMITS) < 0.03)
    if stuck_ns:
        # Far from each other, and from the turns on a CPU that somebody else took.
        device_ns[[COMMITS // 3, COMMITS // 2]] += stuck_ns
        waited_ns[:] = 0
        waited_ns[np.linspace(50, COMMITS - 50, turns).astype(int)] = stuck_ns
    latency = 10_000 + device_ns + waited_ns
    start = np.cumsum(latency + 50_000) - latency
    number = np.arange(COMMITS)
    common = {"op": op, "device": DISK, "size_bytes": 4096, "tid": 4300, "pid": 4300, "comm": "db"}
    stages = {"queue_ns": np.zeros(COMMITS, np.int64), "device_ns": device_ns}
    syscall = common | {
        "op_id": APP_ID_BASE | number,
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": np.full(COMMITS, 10_000),
        "interrupt_ns": np.zeros(COMMITS, np.int64),
        "runqueue_ns": waited_ns,
    }
    block = common | {"op_id": BLOCK_ID_BASE | number, "start_ns": start + 10_000, "latency_ns": device_ns}
    waits = cpu_waits(start + latency, waited_ns)
    known = served != "not recorded"
    if known:
        late_at = np.flatnonzero(device_ns > 4 * MS)
        served_late = late_at + (0 if served == "no CPU then" else 1)
        waits += [
            {**wait, "tid": SERVER, "pid": SERVER, "comm": "served", "cause": "hog", "cause_pid": 99}
            for wait in cpu_waits(
                start[served_late] + device_ns[late_at] - 200_000, device_ns[late_at] - 300_000
            )
            if wait["state"] == "runnable"
        ]
    return write_case(
        path,
        syscall=syscall | stages,
        block=block | stages,
        links={
            "parent_id": APP_ID_BASE | number,
            "child_id": block["op_id"],
            "kind": ["split"] * COMMITS,
        },
        devices=(DISK,),
        tables={"waits": waits},
        meta={
            "version": 2,
            "observer": "record",
            "command": ["db"],
            "duration_ns": int(start[-1] + 20 * MS),
            "probes": {"sched": probe(servers=int(known))},
        },
        system={"servers": {str(SERVER): [DISK]}},
    )


@pytest.mark.parametrize(
    ("late_reads", "late_writes", "accused"), [(0.03, 0.001, True), (0.02, 0.02, False), (0.001, 0.03, False)]
)
def test_reads_that_are_late_alone_did_not_wait_for_a_cpu(
    tmp_path: Path, late_reads: float, late_writes: float, accused: bool
) -> None:
    verdict = solve(requests(tmp_path / "case", late_reads, late_writes))
    at_device = [finding for finding in verdict.findings if finding.culprit.name == "device"]
    assert bool(at_device) == accused, verdict.summary


@pytest.mark.parametrize(
    ("served", "accused"), [("not recorded", False), ("no CPU then", False), ("no CPU at other times", True)]
)
def test_what_serves_a_device_is_known_to_have_had_a_cpu(tmp_path: Path, served: str, accused: bool) -> None:
    """Reads and writes are late alike, which a want of CPUs would explain; but the record of those who serve them may say that they had one."""
    verdict = solve(requests(tmp_path / "case", 0.02, 0.02, served=served))
    at_device = [finding for finding in verdict.findings if finding.culprit.name == "device"]
    assert bool(at_device) == accused, verdict.summary


def test_who_takes_the_cpu_from_those_who_serve_a_device_is_to_blame(tmp_path: Path) -> None:
    """Two requests stand apart by 50 ms, in which the device's server had no CPU: it is not the device."""
    verdict = solve(requests(tmp_path / "case", 0.0, 0.0, stuck_ns=50 * MS, served="no CPU then"))
    assert [finding.culprit.name for finding in verdict.findings] == ["hog"], verdict.summary
    assert all("served" not in item.what and "hog had the CPU" in item.what for item in verdict.slowest[:2])


@pytest.mark.parametrize(("turns", "accused"), [(8, False), (0, True)])
def test_a_device_of_threads_waits_for_a_cpu_as_long_as_its_users_do(
    tmp_path: Path, turns: int, accused: bool
) -> None:
    """Two requests stand apart by 50 ms, as long as somebody kept the CPU from the thread itself, eight times or never."""
    case = requests(tmp_path / "case", 0.0, 0.0, stuck_ns=50 * MS, turns=turns)
    verdict = solve(case)
    at_device = [finding for finding in verdict.findings if finding.culprit.name == "device"]
    assert bool(at_device) == accused, verdict.summary
    assert any("need the same CPUs" in told for told in verdict.minor) != accused
