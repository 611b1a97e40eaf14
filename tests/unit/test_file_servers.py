"""Who serves the file system of slow operations is named, where that is a process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.verdict.solve import solve

SERVER = 77


def _case(path: Path, folder: str, op: str = "read") -> Path:
    """Reads of files in a folder, 1 in 50 of which take 30 ms longer there; the server of /mnt/data makes requests of its own meanwhile."""
    rng = np.random.default_rng(5)
    count = 4000
    latency = rng.integers(8_000, 12_000, count) + 30_000_000 * (rng.random(count) < 0.02)
    start = np.cumsum(latency + 20_000) - latency
    number = np.arange(count)
    none = np.zeros(count, np.int64)
    return write_case(
        path,
        syscall={
            "op_id": APP_ID_BASE | number,
            "start_ns": start,
            "latency_ns": latency,
            "op": op,
            "size_bytes": 4096,
            "file": f"{folder}/table",
            "tid": 900,
            "pid": 900,
            "comm": "db",
            "fs_ns": latency,
            "queue_ns": none,
            "device_ns": none,
            "interrupt_ns": none,
            "runqueue_ns": none,
        },
        block={
            "op_id": BLOCK_ID_BASE | number,
            "start_ns": start + 1_000,
            "latency_ns": np.full(count, 5_000),
            "queue_ns": none,
            "device_ns": np.full(count, 5_000),
            "op": "read",
            "size_bytes": 4096,
            "device": "sda",
            "tid": SERVER,
            "pid": SERVER,
            "comm": "bindfs",
        },
        meta={"observer": "record", "command": ["db"], "duration_ns": int(start[-1] + 1_000_000)},
        system={"servers": {str(SERVER): ["/mnt/data"]}},
    )


@pytest.mark.parametrize(
    ("folder", "because"), [("/mnt/data/db", "process:bindfs"), ("/mnt/database", None), ("/var/db", None)]
)
def test_the_server_of_a_file_system_is_named(tmp_path: Path, folder: str, because: str | None) -> None:
    verdict = solve(_case(tmp_path / "case", folder))
    first = verdict.findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("stage", "fs")
    assert first.culprit.because_of == because
    assert ("bindfs (process 77) serves (FUSE)" in first.claim) == (because is not None)
    assert ("--pid 77" in first.remedy) == (because is not None)


MOUNTS = {
    "/": ["/dev/vda1", "ext4", "rw"],
    "/nas": ["nas7:/export", "nfs4", "rw"],
    "/nas/scratch": ["/dev/vdb", "xfs", "rw"],
}


@pytest.mark.parametrize(
    ("folder", "because"),
    [("/nas/db", "file system:/nas"), ("/nas/scratch/db", None), ("/nasty/db", None), ("/var/db", None)],
)
def test_a_network_file_system_is_named(tmp_path: Path, folder: str, because: str | None) -> None:
    path = _case(tmp_path / "case", folder)
    system = json.loads((path / "system.json").read_text(encoding="utf-8"))
    (path / "system.json").write_text(json.dumps(system | {"mounts": MOUNTS}), encoding="utf-8")
    first = solve(path).findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("stage", "fs")
    assert first.culprit.because_of == because
    assert ("of nas7:/export (nfs4)" in first.claim) == (because is not None)
    assert ("nfsiostat" in first.remedy) == (because is not None)


@pytest.mark.parametrize(
    ("op", "options", "accused"),
    [("write", "rw,sync,noatime", True), ("write", "rw,noatime", False), ("read", "rw,sync", False)],
)
def test_a_file_system_that_is_mounted_with_sync_is_named(
    op: str, options: str, accused: bool, tmp_path: Path
) -> None:
    """A shell that wrote small files to one was accused: the only thread of its program."""
    case = _case(tmp_path / "case", "/mnt/data/db", op)
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    mounts = {"/": ["/dev/vda1", "ext4", "rw"], "/mnt/data": ["/dev/loop0", "ext4", options]}
    (case / "system.json").write_text(
        json.dumps({**system, "servers": {}, "mounts": mounts}), encoding="utf-8"
    )
    first = solve(case).findings[0]
    named = ("config", "mount option sync", "file system:/mnt/data")
    assert ((first.culprit.kind, first.culprit.name, first.culprit.because_of) == named) is accused, (
        first.claim
    )
    assert ("mount -o remount,async /mnt/data" in first.remedy) is accused


@pytest.mark.parametrize(
    ("folder", "served"), [("/mnt/data", True), ("/mnt/database", False), ("/var/db", False)]
)
def test_calls_that_a_server_answers_are_not_answered_by_the_kernel(
    folder: str, served: bool, tmp_path: Path
) -> None:
    """cp into encfs: "the kernel answers them from memory", while a process encrypted."""
    rng = np.random.default_rng(5)
    count = 4000
    number = np.arange(count)
    latency = rng.integers(900_000, 1_000_000, count)
    start = np.cumsum(latency + 20_000) - latency
    none = np.zeros(count, np.int64)
    case = write_case(
        tmp_path / "case",
        syscall={
            "op_id": SYSCALL_ID_BASE | number,
            "start_ns": start,
            "latency_ns": latency,
            "op": "write",
            "size_bytes": 131072,
            "file": f"{folder}/copy",
            "tid": 900,
            "pid": 900,
            "comm": "cp",
            "fs_ns": latency,
            "queue_ns": none,
            "device_ns": none,
            "interrupt_ns": none,
            "runqueue_ns": none,
        },
        block={
            "op_id": BLOCK_ID_BASE | number[:40],
            "start_ns": start[:40] + 1_000,
            "latency_ns": np.full(40, 5_000),
            "op": "write",
            "size_bytes": 4096,
            "device": "sda",
            "tid": SERVER,
            "pid": SERVER,
            "comm": "encfs",
        },
        meta={"observer": "record", "command": ["cp"], "duration_ns": int(start[-1] + 1_000_000)},
        system={"servers": {str(SERVER): ["/mnt/data"]}},
    )
    limit = solve(case).limit or ""
    assert limit.startswith("encfs (process 77), which serves /mnt/data (FUSE): cp waits") is served, limit
    assert ("the kernel answers them from memory" in limit) is not served
