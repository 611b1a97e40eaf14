"""A loop device is a file on a disk, and a worker of the kernel serves it: who has that disk, or that worker's CPU, is told before the device is blamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.findings import Verdict
from whodisk.verdict.solve import solve

READS, SLOW_EVERY, US, MS = 6_000, 300, 1_000, 1_000_000
PID, WORKER, HOG = 900, 33, 77


def solved(path: Path, worker_waits: bool = False, rival: bool = False) -> Verdict:
    """One thread reads from loop2, 0.3 ms each; one read of 300 takes 40 ms there. Meanwhile the worker of the kernel waits again and again for 4 ms
    behind a hog (`worker_waits`). `rival`: all the time another program writes to the disk that the file of loop2 lies on."""
    rng = np.random.default_rng(57)
    slow = np.arange(READS) % SLOW_EVERY == SLOW_EVERY // 2
    device_ns = (300 * US * np.exp(rng.normal(0, 0.1, READS))).astype(np.int64)
    device_ns[slow] = (40 * MS * rng.uniform(0.8, 1.2, int(slow.sum()))).astype(np.int64)
    latency = device_ns + 20 * US
    begin = np.cumsum(latency + 50 * US) - latency
    end = int((begin + latency).max())
    calls: dict[str, Any] = {
        "op_id": SYSCALL_ID_BASE | np.arange(READS),
        "start_ns": begin,
        "latency_ns": latency,
        "op": "read",
        "size_bytes": 4096,
        "device": "loop2",
        "tid": PID,
        "pid": PID,
        "comm": "rclone",
        "app_ns": 0,
        "fs_ns": 20 * US,
        "queue_ns": 0,
        "device_ns": device_ns,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "runqueue_ns": 0,
    }
    rows = [
        (begin + 20 * US, device_ns, "loop2", PID, "rclone"),
        (begin + 30 * US, device_ns // 2, "vda", WORKER, "kworker/u8:7"),
    ]
    if rival:
        rows.append(
            (np.arange(0, end, 2 * MS), np.full(len(range(0, end, 2 * MS)), 3 * MS), "vda", HOG, "dd")
        )
    block: dict[str, Any] = {
        "start_ns": np.concatenate([row[0] for row in rows]),
        "latency_ns": np.concatenate([row[1] for row in rows]),
        "device": [row[2] for row in rows for _ in row[0]],
        "tid": [row[3] for row in rows for _ in row[0]],
        "pid": [row[3] for row in rows for _ in row[0]],
        "comm": [row[4] for row in rows for _ in row[0]],
    }
    order = np.argsort(block["start_ns"], kind="stable")
    block = {name: [values[at] for at in order] for name, values in block.items()}
    block |= {
        "op_id": BLOCK_ID_BASE | np.arange(len(order)),
        "op": "read",
        "size_bytes": 4096,
        "queue_ns": 0,
        "device_ns": block["latency_ns"],
    }
    waits = [
        {
            "tid": WORKER,
            "pid": WORKER,
            "comm": "kworker/u8:7",
            "cpu": 0,
            "start_ns": int(begin[at]) + MS + turn * 5 * MS,
            "duration_ns": 4 * MS,
            "state": "runnable",
            "cause": "stress-ng",
            "cause_pid": HOG,
        }
        for at in np.flatnonzero(slow)
        for turn in range(6)
    ]
    path = write_case(
        path,
        syscall=calls,
        block=block,
        links={
            "parent_id": SYSCALL_ID_BASE | np.arange(READS),
            "child_id": block["op_id"][np.array(block["device"]) == "loop2"],
        },
        tables={"waits": waits if worker_waits else []},
        devices=("loop2", "vda"),
        meta={"observer": "record", "command": ["rclone"], "duration_ns": end + MS},
    )
    system = json.loads((path / "system.json").read_text(encoding="utf-8"))
    system["devices"] = {
        "loop2": {"facts": {"driver": "loop", "loop_backing_file": "/srv/disk.img"}},
        "vda": {},
    }
    system["mounts"] = {"/": ["/dev/vda", "ext4", "rw"]}
    (path / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return solve(path)


@pytest.mark.parametrize("worker_waits", [False, True])
def test_no_device_is_slow_while_its_worker_has_no_cpu(tmp_path: Path, worker_waits: bool) -> None:
    verdict = solved(tmp_path / "case", worker_waits)
    blamed = [finding for finding in verdict.findings if finding.culprit.because_of == "device:loop2"]
    assert bool(blamed) != worker_waits, verdict.summary
    assert {f.culprit.name for f in verdict.findings} <= {"stress-ng" if worker_waits else "device"}
    told = [line for line in verdict.minor if "the kernel's worker that serves it was ready" in line]
    assert bool(told) == worker_waits and all("mostly stress-ng had it" in line for line in told), (
        verdict.minor
    )


def test_who_always_works_on_the_disk_below_is_told(tmp_path: Path) -> None:
    """What is always there accuses nobody, but firmware is not the first to look at."""
    [found] = solved(tmp_path / "case", rival=True).findings
    assert found.culprit.because_of == "device:loop2"
    assert "that had requests of dd in flight" in found.claim, found.claim
    assert found.remedy.startswith("Stop dd for a while"), found.remedy
