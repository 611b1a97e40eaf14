"""Sealed cases of a mirror of two disks, which both get every write, and of two disks that are no mirror."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

DISKS, VOLUME = ("sda", "sdb"), "md0"
US = 1_000
_WRITES = 1500


def _two(seed: int, path: Path, times: float, *, mirrored: bool = True, reads: bool = False) -> Path:
    """One writer; each write takes sda 90 us, and sdb so many times as long. Without a mirror each disk has a writer of its own.

    `reads`: as many reads beside them, all of which sdb serves, each 70 us.
    """
    rng = np.random.default_rng([seed, 161])
    device_ns = rng.lognormal(np.log(90 * US), 0.2, (2, _WRITES)).astype(np.int64)
    device_ns[1] = (device_ns[1] * times).astype(np.int64)
    latency = device_ns.max(axis=0) + 12 * US
    think = rng.integers(10 * US, 60 * US, _WRITES)
    start = np.cumsum(think) + np.concatenate(([0], np.cumsum(latency)[:-1]))
    about: dict[str, Any] = {"pid": 4600, "tid": 4600, "comm": "writer", "size_bytes": 4096}
    zeros = np.zeros(_WRITES, np.int64)
    ids = np.arange(_WRITES)
    tops, tops_of = SYSCALL_ID_BASE | ids, VOLUME if mirrored else DISKS[1]
    syscall = {
        **about,
        "op": "write",
        "op_id": tops,
        "start_ns": start,
        "latency_ns": latency,
        "device": tops_of,
        "fs_ns": latency - (device_ns.max(axis=0) if mirrored else device_ns[1]),
        "device_ns": device_ns.max(axis=0) if mirrored else device_ns[1],
        **{f"{stage}_ns": zeros for stage in ("queue", "interrupt", "reap", "runqueue")},
    }
    volume = BLOCK_ID_BASE | ids
    below = [BLOCK_ID_BASE | (ids + (number + 1) * _WRITES) for number in range(2)]
    rows: list[tuple[Any, ...]] = [
        ("write", below[n], start + 8 * US, device_ns[n], DISKS[n]) for n in range(2)
    ]
    if reads:
        # Another program's; nobody above is known to wait for them.
        rows.append(
            (
                "read",
                BLOCK_ID_BASE | (ids + 3 * _WRITES),
                start + 20 * US,
                rng.integers(60 * US, 80 * US, _WRITES),
                DISKS[1],
            )
        )
    columns = [np.concatenate([np.asarray(row[c]) for row in rows]) for c in range(1, 4)]
    kinds, names = ([row[c] for row in rows for _ in range(_WRITES)] for c in (0, 4))
    links: dict[str, Any] = {"parent_id": tops, "child_id": below[1], "kind": ["waits_for"] * _WRITES}
    fs_ns = np.zeros(len(columns[0]), np.int64)
    if mirrored:
        columns = [
            np.concatenate((own, members))
            for own, members in zip((volume, start + 5 * US, latency - 7 * US), columns, strict=True)
        ]
        kinds, names = ["write"] * _WRITES + kinds, [VOLUME] * _WRITES + names
        fs_ns = np.concatenate((latency - 7 * US - device_ns.max(axis=0), fs_ns))
        links = {
            "parent_id": np.concatenate((tops, volume, volume)),
            "child_id": np.concatenate((volume, below[0], below[1])),
            "kind": ["waits_for"] * _WRITES + ["stacked"] * (2 * _WRITES),
        }
    order = np.argsort(columns[1], kind="stable")
    op_id, begin, took = (column[order] for column in columns)
    block = {
        **about,
        "op": [kinds[n] for n in order],
        "op_id": op_id,
        "start_ns": begin,
        "latency_ns": took,
        "device": [names[n] for n in order],
        "device_ns": took - fs_ns[order],
        "fs_ns": fs_ns[order],
        **{f"{stage}_ns": np.zeros(len(order), np.int64) for stage in ("queue", "interrupt")},
    }
    meta = {"observer": "record", "command": ["writer"], "duration_ns": int(start[-1] + latency[-1])}
    devices = (*DISKS, VOLUME) if mirrored else DISKS
    case = write_case(path, syscall=syscall, block=block, links=links, devices=devices, meta=meta)
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    for disk in DISKS:
        system["devices"][disk] |= {"size_bytes": 1 << 40, "facts": {"driver": "sd", "model": "MZ7L31T9"}}
        system["devices"][disk]["queue"] = {"rotational": "0"}
    if mirrored:
        system["devices"][VOLUME]["facts"] = {"driver": "md", "members": " ".join(DISKS)}
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def slow_half(seed: int, path: Path) -> Path:
    """One half of the mirror takes four times as long: every write waits for it."""
    return _two(seed, path, 4.0)


def busy_half(seed: int, path: Path) -> Path:
    """The same with all reads on that half: what is read from one half only does not hide it."""
    return _two(seed, path, 4.0, reads=True)


def read_half(seed: int, path: Path) -> Path:
    """One half serves reads, too, as a mirror does it, and nothing is wrong with the writes of either."""
    return _two(seed, path, 1.0, reads=True)


def nearly_alike(seed: int, path: Path) -> Path:
    """One half takes a quarter longer, as two drives may."""
    return _two(seed, path, 1.25)


def no_mirror(seed: int, path: Path) -> Path:
    """Two disks in no volume: what else the other one serves nobody knows."""
    return _two(seed, path, 4.0, mirrored=False)
