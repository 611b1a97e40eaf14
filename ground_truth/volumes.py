"""Sealed cases of a reader on a volume over one drive: time in the volume itself, in its drive, and requests that a driver gives back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, Ints, write_case

DRIVE, VOLUME = "nvme0n1", "dm-0"
US, MS = 1_000, 1_000_000
_READS = 3000
_STAGES = ("queue", "device", "interrupt", "reap", "runqueue")


def _reader(
    seed: int,
    path: Path,
    *,
    own_ns: Ints,
    queue_ns: Ints,
    device_ns: Ints,
    above_ns: Ints | None = None,
    given_back: bool = False,
) -> Path:
    """Reads of 16 KiB, one at a time; of each the time in the volume itself, and in the queue and the device of its drive.

    `above_ns`: time of each in the file system, before its request. `given_back`: the driver gave back those that waited for more than a millisecond in the queue, four times each.
    """
    rng = np.random.default_rng([seed, 171])
    zeros, ids = np.zeros(_READS, np.int64), np.arange(_READS)
    below = queue_ns + device_ns
    whole = own_ns + below
    above = zeros if above_ns is None else above_ns
    latency = above + whole + 12 * US
    start = np.cumsum(rng.integers(10 * US, 40 * US, _READS)) + np.concatenate(([0], np.cumsum(latency)[:-1]))
    places = rng.permutation(_READS) * 16384
    both: dict[str, Any] = {"op": "read", "size_bytes": 16384, "pid": 4700, "tid": 4700, "comm": "reader"}
    syscall = {
        **both,
        "op_id": SYSCALL_ID_BASE | ids,
        "start_ns": start,
        "latency_ns": latency,
        "device": VOLUME,
        "offset_bytes": places,
        **dict.fromkeys((f"{stage}_ns" for stage in _STAGES), zeros),
        "fs_ns": above + own_ns + 12 * US,
        "queue_ns": queue_ns,
        "device_ns": device_ns,
    }
    begin = start + above + 6 * US
    columns = {
        "op_id": (BLOCK_ID_BASE | (2 * ids), BLOCK_ID_BASE | (2 * ids + 1)),
        "start_ns": (begin, begin + own_ns // 2),
        "latency_ns": (whole, below),
        "offset_bytes": (places, places + 16 * MS),
        "fs_ns": (own_ns, zeros),
        "queue_ns": (queue_ns, queue_ns),
        "device_ns": (device_ns, device_ns),
        "interrupt_ns": (zeros, zeros),
    }
    block = {
        **both,
        **{name: np.column_stack(pair).ravel() for name, pair in columns.items()},
        "device": [VOLUME, DRIVE] * _READS,
    }
    links = {
        "parent_id": np.concatenate((syscall["op_id"], columns["op_id"][0])),
        "child_id": np.concatenate(columns["op_id"]),
        "kind": ["waits_for"] * _READS + ["stacked"] * _READS,
    }
    late: list[int] = np.flatnonzero(queue_ns > MS).tolist() if given_back else []
    events = [
        {
            "time_ns": int(begin[n] + own_ns[n] // 2 + queue_ns[n]),
            "kind": "requeue",
            "subject": DRIVE,
            "detail": f"read of 16384 bytes at sector {(places[n] + 16 * MS) // 512}: 4 times",
        }
        for n in late
    ]
    meta = {"observer": "record", "command": ["reader"], "duration_ns": int(start[-1] + 100 * MS)}
    return write_case(
        path,
        syscall=syscall,
        block=block,
        links=links,
        tables={"events": events},
        devices=(DRIVE, VOLUME),
        meta=meta,
    )


def _times(seed: int, typical_ns: float) -> Ints:
    return np.random.default_rng([seed, 172]).lognormal(np.log(typical_ns), 0.15, _READS).astype(np.int64)


def _late(seed: int) -> Ints:
    """17 to 23 ms for one read in fifty."""
    rng = np.random.default_rng([seed, 173])
    return np.where(rng.random(_READS) < 0.02, rng.integers(17 * MS, 23 * MS, _READS), 0).astype(np.int64)


def encrypted(seed: int, path: Path) -> Path:
    """The volume takes 2 ms for each read by itself, its drive 60 us: nothing is wrong, and memory answers nobody."""
    return _reader(
        seed,
        path,
        own_ns=_times(seed, 2 * MS),
        queue_ns=np.zeros(_READS, np.int64),
        device_ns=_times(seed, 60 * US),
    )


def late_volume(seed: int, path: Path) -> Path:
    """One read in fifty is held for 20 ms in the volume itself."""
    own_ns = _times(seed, 8 * US) + _late(seed)
    return _reader(
        seed, path, own_ns=own_ns, queue_ns=np.zeros(_READS, np.int64), device_ns=_times(seed, 60 * US)
    )


def late_drive(seed: int, path: Path) -> Path:
    """The same 20 ms are in the drive below."""
    device_ns = _times(seed, 60 * US) + _late(seed)
    return _reader(
        seed, path, own_ns=_times(seed, 8 * US), queue_ns=np.zeros(_READS, np.int64), device_ns=device_ns
    )


def given_back(seed: int, path: Path) -> Path:
    """One read in fifty waits 20 ms in the queue, because the driver gave it back four times."""
    queue_ns = _times(seed, 3 * US) + _late(seed)
    return _reader(
        seed,
        path,
        own_ns=_times(seed, 8 * US),
        queue_ns=queue_ns,
        device_ns=_times(seed, 60 * US),
        given_back=True,
    )


def late_queue(seed: int, path: Path) -> Path:
    """They wait as long, and the driver gave none back."""
    queue_ns = _times(seed, 3 * US) + _late(seed)
    return _reader(
        seed, path, own_ns=_times(seed, 8 * US), queue_ns=queue_ns, device_ns=_times(seed, 60 * US)
    )


def _one(seed: int) -> Ints:
    """600 ms for one read."""
    found = np.zeros(_READS, np.int64)
    found[np.random.default_rng([seed, 174]).integers(200, _READS)] = 600 * MS
    return found


def suspended(seed: int, path: Path) -> Path:
    """The volume is suspended for 600 ms: it holds what comes then, and hands it on afterwards."""
    own_ns = _times(seed, 8 * US) + _one(seed)
    return _reader(
        seed, path, own_ns=own_ns, queue_ns=np.zeros(_READS, np.int64), device_ns=_times(seed, 60 * US)
    )


def held_above(seed: int, path: Path) -> Path:
    """One read waits as long in the file system, before it makes a request."""
    return _reader(
        seed,
        path,
        own_ns=_times(seed, 8 * US),
        queue_ns=np.zeros(_READS, np.int64),
        device_ns=_times(seed, 60 * US),
        above_ns=_one(seed),
    )


def origin(seed: int, path: Path, *, waits: bool) -> Path:
    """Writes to the origin of a snapshot, one at a time. `waits`: each is held for as long as the kernel copies the block below it to the snapshot's device, 12 ms; otherwise the
    volume takes as long by itself, and the kernel writes as much to that device in its own time."""
    rng = np.random.default_rng([seed, 175])
    count, zeros = 300, np.zeros(300, np.int64)
    copy_ns = rng.lognormal(np.log(12 * MS), 0.1, count).astype(np.int64)
    read_ns, write_ns = (rng.lognormal(np.log(90 * US), 0.1, count).astype(np.int64) for _ in range(2))
    own_ns = read_ns + copy_ns + 40 * US
    whole = own_ns + write_ns
    latency = whole + 30 * US
    start = np.cumsum(rng.integers(10 * US, 400 * US, count)) + np.concatenate(([0], np.cumsum(latency)[:-1]))
    begin = start + 10 * US
    copied = begin + read_ns + 20 * US
    if not waits:
        copied = np.sort(rng.integers(0, int(start[-1]), count))
    both: dict[str, Any] = {"op": "write", "size_bytes": 8192, "pid": 4700, "tid": 4700, "comm": "writer"}
    syscall = {
        **both,
        "op_id": SYSCALL_ID_BASE | np.arange(count),
        "start_ns": start,
        "latency_ns": latency,
        "device": "dm-1",
        "offset_bytes": rng.permutation(count) * 8192,
        **dict.fromkeys((f"{stage}_ns" for stage in _STAGES), zeros),
        "fs_ns": own_ns + 30 * US,
        "device_ns": write_ns,
    }
    # Of each: the volume's request, the read and the write of its device below, and the copy.
    columns = {
        "op_id": [BLOCK_ID_BASE | (4 * np.arange(count) + number) for number in range(4)],
        "start_ns": (begin, begin + 5 * US, begin + own_ns, copied),
        "latency_ns": (whole, read_ns, write_ns, copy_ns),
        "fs_ns": (own_ns, zeros, zeros, zeros),
        "device_ns": (write_ns, read_ns, write_ns, copy_ns),
    }
    block = {
        **both,
        **{name: np.column_stack(each).ravel() for name, each in columns.items()},
        **dict.fromkeys(("queue_ns", "interrupt_ns"), np.zeros(4 * count, np.int64)),
        "op": ["write", "read", "write", "write"] * count,
        "device": ["dm-1", DRIVE, DRIVE, "nvme1n1"] * count,
        "comm": ["writer", "kworker/0:2", "kworker/0:2", "kworker/0:2"] * count,
        "pid": [4700, 17, 17, 17] * count,
        "tid": [4700, 17, 17, 17] * count,
    }
    volume, below = columns["op_id"][0], columns["op_id"][2]
    links = {
        "parent_id": np.concatenate((syscall["op_id"], volume)),
        "child_id": np.concatenate((volume, below)),
        "kind": ["waits_for"] * count + ["stacked"] * count,
    }
    described = {"dm-1": DRIVE, "dm-2": f"{DRIVE} nvme1n1", DRIVE: "", "nvme1n1": ""}
    devices = {
        name: {"name": name, "size_bytes": 1 << 30, "facts": {"members": members} if members else {}}
        for name, members in described.items()
    }
    meta = {"observer": "record", "command": ["writer"], "duration_ns": int(start[-1] + 100 * MS)}
    return write_case(path, syscall=syscall, block=block, links=links, meta=meta, system={"devices": devices})


def parity(seed: int, path: Path, *, slow: str) -> Path:
    """Writes to an array of three disks, one at a time; each becomes a write to all of them by the array's thread, which no link ties to it but for the first ten. One write in 25 of
    `slow` takes 40 ms more; of "all" one in 75 of each disk does."""
    rng = np.random.default_rng([seed, 177])
    count, disks = 600, ("sda", "sdb", "sdc")
    each_ns = rng.lognormal(np.log(800 * US), 0.3, (count, 3)).astype(np.int64)
    hit = rng.random((count, 3)) < (
        1 / 75 if slow == "all" else np.array([name == slow for name in disks]) / 25
    )
    each_ns += np.where(hit, 40 * MS, 0)
    whole = each_ns.max(axis=1) + 30 * US
    latency = whole + 20 * US
    start = np.cumsum(rng.integers(10 * US, 40 * US, count)) + np.concatenate(([0], np.cumsum(latency)[:-1]))
    begin, zeros = start + 10 * US, np.zeros(count, np.int64)
    tied = np.arange(count) < 10
    own_ns = np.where(tied, 30 * US, whole)
    both: dict[str, Any] = {"op": "write", "size_bytes": 4096, "pid": 4700, "tid": 4700, "comm": "writer"}
    syscall = {
        **both,
        "op_id": SYSCALL_ID_BASE | np.arange(count),
        "start_ns": start,
        "latency_ns": latency,
        "device": "md0",
        "offset_bytes": rng.permutation(count) * 4096,
        **dict.fromkeys((f"{stage}_ns" for stage in _STAGES), zeros),
        "fs_ns": own_ns + 20 * US,
        "device_ns": whole - own_ns,
    }
    ids = BLOCK_ID_BASE | (4 * np.arange(count)[:, None] + np.arange(4))
    block = {
        **both,
        "op_id": ids.ravel(),
        "start_ns": np.column_stack((begin, *[begin + 15 * US] * 3)).ravel(),
        "latency_ns": np.column_stack((whole, each_ns)).ravel(),
        "fs_ns": np.column_stack((own_ns, zeros, zeros, zeros)).ravel(),
        "device_ns": np.column_stack((whole - own_ns, each_ns)).ravel(),
        **dict.fromkeys(("queue_ns", "interrupt_ns"), np.zeros(4 * count, np.int64)),
        "device": ["md0", *disks] * count,
        "comm": ["writer", "md0_raid5", "md0_raid5", "md0_raid5"] * count,
        "tid": [4700, 17, 17, 17] * count,
    }
    links = {
        "parent_id": np.concatenate((syscall["op_id"], np.repeat(ids[tied, 0], 3))),
        "child_id": np.concatenate((ids[:, 0], ids[tied, 1:].ravel())),
        "kind": ["waits_for"] * count + ["stacked"] * 30,
    }
    meta = {"observer": "record", "command": ["writer"], "duration_ns": int(start[-1] + 100 * MS)}
    return write_case(path, syscall=syscall, block=block, links=links, meta=meta, devices=("md0", *disks))
