"""Sealed cases of a thread that writes and syncs: to a device that takes so much and no more, to one with time to spare, and to a software
device that now and then takes longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case

TID, COMM = 700, "server"
MIB = 1 << 20
KIB = 1 << 10

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def _synced(
    path: Path,
    size: Ints,
    served_ns: Floats,
    each: int,
    device: str = "nvme0n1",
    waits: list[dict[str, Any]] | None = None,
    syncs: bool = True,
    durable: bool = True,
    logs_the_rest: bool = False,
    in_turn: bool = False,
    options: str = "",
) -> Path:
    """Writes of these sizes, `each` of them at once; the device serves one after the other. A call waits for them, then its thread computes.

    `in_turn`: the next one is asked for when the one before it ended. `options`: those of the mount that the files are on.
    `logs_the_rest`: what it does between its calls are operations that it logs, and the calls are none of them.
    """
    calls = len(size) // each
    served = served_ns.astype(np.int64).reshape(calls, each)
    took = served.cumsum(axis=1)
    length = took[:, -1] + 15_000
    start = np.cumsum(length + 40_000) - length
    stages = {
        "app_ns": 0,
        "queue_ns": 0,
        "fs_ns": 10_000,
        "device_ns": length - 15_000,
        "interrupt_ns": 5_000,
        "reap_ns": 0,
        "runqueue_ns": 0,
    }
    ids = BLOCK_ID_BASE | np.arange(len(size))
    syscall = {
        "op_id": APP_ID_BASE | np.arange(calls),
        "start_ns": start,
        "latency_ns": length,
        "op": "sync" if syncs else "write",
        "flags": 0 if syncs or not durable else 1,
        "size_bytes": 0 if syncs else size[::each],
        "tid": TID,
        "pid": TID,
        "comm": COMM,
        "device": device,
        "queue_depth": 1,
        **stages,
    }
    # The device works on the first; the others wait in it, unless they come when it is done.
    before = took - served if in_turn else np.zeros_like(took)
    block = {
        "op_id": ids,
        "start_ns": (start[:, None] + 10_000 + before).ravel(),
        "latency_ns": (took - before).ravel(),
        "queue_ns": 0,
        "device_ns": (took - before).ravel() - 2_000,
        "interrupt_ns": 2_000,
        "op": "write",
        "tid": TID,
        "pid": TID,
        "comm": COMM,
        "device": device,
        "size_bytes": size,
        "queue_depth": 1 if in_turn else np.tile(np.arange(1, each + 1), calls),
    }
    links = {"parent_id": np.repeat(syscall["op_id"], each), "child_id": ids}
    end = int(start[-1] + length[-1]) + 1_000_000
    tables = {"waits": waits} if waits is not None else None
    meta: dict[str, Any] = {"duration_ns": end}
    app = None
    if logs_the_rest:
        meta["workload"] = {"program": "tree"}
        took_ns = 30_000 + np.arange(calls) % 7 * 1_000
        app = {
            "op_id": (5 << 56) + np.arange(calls),
            "start_ns": start + length + 1_000,
            "latency_ns": took_ns,
            "app_ns": took_ns,
            "op": "file",
            "comm": COMM,
        }
    system = None
    if options:
        syscall["file"] = "/mnt/mail/inbox"
        system = {
            "mounts": {"/": ["/dev/vda1", "ext4", "rw"], "/mnt/mail": [f"/dev/{device}", "ext4", options]}
        }
    return write_case(
        path, app=app, syscall=syscall, block=block, links=links, meta=meta, tables=tables, system=system
    )


def _sizes(rng: np.random.Generator, count: int) -> Ints:
    return np.asarray(rng.choice([4, 8, 16, 64, 128], count) * KIB, np.int64)


def full_device(seed: int, path: Path) -> Path:
    """The device takes 20 to 80 MiB/s, whatever the requests are."""
    rng = np.random.default_rng([seed, 93])
    size = _sizes(rng, 3000)
    rate = float(rng.uniform(20, 80)) * MIB
    return _synced(path, size, size / rate * 1e9 + rng.uniform(0, 30_000, 3000), 3)


def full_device_between_operations(seed: int, path: Path) -> Path:
    """A program that logs what it does to files, and waits for such a device between: its log alone would not tell."""
    rng = np.random.default_rng([seed, 98])
    size = _sizes(rng, 3000)
    rate = float(rng.uniform(20, 80)) * MIB
    return _synced(path, size, size / rate * 1e9 + rng.uniform(0, 30_000, 3000), 3, logs_the_rest=True)


def full_device_one_by_one(seed: int, path: Path) -> Path:
    """Each write of 4 KiB takes the device 570 us, one after the other: what it counts, nobody can tell."""
    rng = np.random.default_rng([seed, 94])
    size = np.full(2000, 4 * KIB, np.int64)
    return _synced(path, size, 570_000 * np.exp(rng.normal(0, 0.03, 2000)), 1, syncs=False)


def _alike_whatever_their_size(seed: int, path: Path, *, in_turn: bool, options: str) -> Path:
    """Writes of 4 to 128 KiB, three to a call; five of six take the device 1.1 ms, the others up to half as long again."""
    rng = np.random.default_rng([seed, 100])
    served = 1_080_000 * np.exp(np.abs(rng.normal(0, 0.01, 3000)))
    served *= np.where(rng.random(3000) < 1 / 6, rng.uniform(1.15, 1.5, 3000), 1.0)
    return _synced(
        path, _sizes(rng, 3000), served, 3, syncs=False, durable=False, in_turn=in_turn, options=options
    )


def one_at_a_time(seed: int, path: Path) -> Path:
    """A disk in a cloud: a request takes 1.1 ms however large it is, and a mail server on a mount with `sync` asks for one after the other."""
    return _alike_whatever_their_size(seed, path, in_turn=True, options="rw,sync,relatime")


def three_at_a_time(seed: int, path: Path) -> Path:
    """Three are asked for at once, and it takes one after the other all the same: that is its pace."""
    return _alike_whatever_their_size(seed, path, in_turn=False, options="rw,relatime")


def roomy_device(seed: int, path: Path) -> Path:
    """The same requests as in `full_device` to a device with time to spare: what they take scatters, and hardly depends on their size."""
    rng = np.random.default_rng([seed, 95])
    size = _sizes(rng, 3000)
    return _synced(path, size, (80_000 + size / (2048 * MIB) * 1e9) * np.exp(rng.normal(0, 0.25, 3000)), 3)


def few_long_syncs(seed: int, path: Path) -> Path:
    """The same; five of the thousand syncs take most of the time."""
    rng = np.random.default_rng([seed, 99])
    size = _sizes(rng, 3000)
    served = (80_000 + size / (2048 * MIB) * 1e9) * np.exp(rng.normal(0, 0.25, 3000))
    served[rng.choice(1000, 5, replace=False) * 3] += rng.uniform(60e6, 150e6, 5)
    return _synced(path, size, served, 3)


def _turns(rng: np.random.Generator, longest_ns: int) -> list[dict[str, Any]]:
    """Waits of the thread itself: for its requests, and up to so long for a CPU."""
    moments = np.sort(rng.integers(0, 900_000_000, 4000))
    lengths = np.where(
        np.arange(4000) % 400 == 0, rng.integers(longest_ns * 3 // 4, longest_ns, 4000), 10_000
    )
    same = {"tid": TID, "pid": TID, "comm": COMM, "cpu": 0}
    found = []
    for moment, length in zip(moments.tolist(), lengths.tolist(), strict=True):
        found.append(
            {
                **same,
                "start_ns": moment,
                "duration_ns": 20_000,
                "state": "blocked",
                "cause": "io",
                "cause_pid": None,
            }
        )
        found.append(
            {
                **same,
                "start_ns": moment + 20_000,
                "duration_ns": length,
                "state": "runnable",
                "cause": "cc1",
                "cause_pid": 9,
            }
        )
    return sorted(found, key=lambda wait: int(wait["start_ns"]))


def _tail_of_software(seed: int, path: Path, longest_turn_ns: int) -> Path:
    """Of the writes to a loop device 3 % take 6 to 8 ms longer."""
    rng = np.random.default_rng([seed, 96])
    size = np.full(3000, 16 * KIB, np.int64)
    served = 100_000 * np.exp(rng.normal(0, 0.25, 3000))
    served[rng.random(3000) < 0.03] += rng.uniform(6_000_000, 8_000_000)
    return _synced(path, size, served, 1, "loop0", _turns(rng, longest_turn_ns))


def slow_software(seed: int, path: Path) -> Path:
    """Its thread waits for a CPU, too, but never for more than 0.2 ms: no worker of the loop device waited 6 ms for one."""
    return _tail_of_software(seed, path, 200_000)


def crowded_software(seed: int, path: Path) -> Path:
    """Its thread waits as long for a CPU, again and again: so may the workers of the loop device."""
    return _tail_of_software(seed, path, 9_000_000)


def _commits(seed: int, path: Path, one_holds: bool) -> Path:
    """Short writes into the page cache; every 300th sleeps some 20 ms while the file system commits by its worker: 120 short requests in the
    first part of it, or among them one that the device answers after three quarters of that time."""
    rng = np.random.default_rng([seed, 97])
    count, each = 12_000, 120
    slow = np.zeros(count, np.bool_)
    slow[150::300] = True
    length = np.where(slow, rng.uniform(18e6, 25e6, count), 6_000 * np.exp(rng.normal(0, 0.2, count))).astype(
        np.int64
    )
    start = np.cumsum(length + 60_000) - length
    syscall = {
        "op_id": APP_ID_BASE | np.arange(count),
        "start_ns": start,
        "latency_ns": length,
        "op": "write",
        "size_bytes": 4096,
        "tid": TID,
        "pid": TID,
        "comm": COMM,
        "device": np.where(np.arange(count) % 10 == 0, "nvme0n1", ""),
        "queue_depth": 1,
        "app_ns": 0,
        "fs_ns": length,
        "queue_ns": 0,
        "device_ns": 0,
        "interrupt_ns": 0,
        "reap_ns": 0,
        "runqueue_ns": 0,
    }
    begin = (start[slow, None] + length[slow, None] * np.linspace(0.01, 0.6, each)).astype(np.int64).ravel()
    took = (120_000 * np.exp(rng.normal(0, 0.2, len(begin)))).astype(np.int64)
    if one_holds:
        took[::each] = (0.75 * length[slow]).astype(np.int64)
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(len(begin)),
        "start_ns": begin,
        "latency_ns": took,
        "queue_ns": 0,
        "device_ns": took - 2_000,
        "interrupt_ns": 2_000,
        "op": "write",
        "tid": 77,
        "pid": 77,
        "comm": "kworker/u8:1",
        "device": "nvme0n1",
        "size_bytes": 16384,
        "queue_depth": 1,
    }
    end = int(start[-1] + length[-1]) + 1_000_000
    return write_case(path, syscall=syscall, block=block, meta={"duration_ns": end})


def busy_commits(seed: int, path: Path) -> Path:
    """The file system writes all along: that is the program's own work."""
    return _commits(seed, path, one_holds=False)


def held_commits(seed: int, path: Path) -> Path:
    """One request holds each commit: that is no work of the program's."""
    return _commits(seed, path, one_holds=True)
