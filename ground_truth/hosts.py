"""Sealed cases in which the machine's facts matter: a narrow link, a misaligned partition, a far NUMA node, a change in the middle of the run; and hosts
with the same facts whom they cost nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case

KIB = 1 << 10
COUNT, SPAN_NS = 8000, 20 * 10**9

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def _write(
    path: Path,
    start: Ints,
    device_ns: Floats,
    devices: tuple[str, ...] = ("nvme0n1",),
    fs_ns: Ints | int = 2_000,
    facts: dict[str, str] | None = None,
    system: dict[str, Any] | None = None,
    size: Ints | int = 4 * KIB,
    meta: dict[str, Any] | None = None,
    events: list[dict[str, Any]] | None = None,
    **columns: Any,
) -> Path:
    """Reads, one request below each; `columns` of both layers, or of the one that has them."""
    count = len(start)
    held = device_ns.astype(np.int64)
    number = np.arange(count)
    latency = held + fs_ns + 3_000
    ended = np.sort(start + latency)
    common = {
        "op": "read",
        "size_bytes": size,
        "device": np.array(devices)[number % len(devices)],
        "pid": 700,
        "tid": 700,
        "comm": "server",
        "queue_depth": number + 1 - np.searchsorted(ended, start, side="right"),
        "offset_bytes": number * 7919 % 100_000 * size,
        **columns,
    }
    stages = {f"{name}_ns": 0 for name in ("app", "queue", "reap", "runqueue")}
    app = {
        **common,
        **stages,
        "op_id": APP_ID_BASE | number,
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": fs_ns,
        "device_ns": held,
        "interrupt_ns": 3_000,
    }
    block = {
        **common,
        "op_id": BLOCK_ID_BASE | number,
        "start_ns": start + fs_ns,
        "latency_ns": held + 1_000,
        "queue_ns": 0,
        "device_ns": held,
        "interrupt_ns": 1_000,
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    end = int(ended[-1]) + 1_000_000
    case = write_case(
        path,
        app=app,
        block=block,
        links=links,
        devices=devices,
        meta={"duration_ns": end} | (meta or {}),
        events=events or [],
    )
    written = json.loads((case / "system.json").read_text(encoding="utf-8")) | (system or {})
    for device in devices:
        written["devices"][device] |= {
            "facts": {"driver": "nvme", "model": "A"} | (facts or {}),
            "queue": {"rotational": "0", "physical_block_size": "4096"},
        }
    (case / "system.json").write_text(json.dumps(written), encoding="utf-8")
    return case


def _rng(seed: int, of: int) -> np.random.Generator:
    return np.random.default_rng([seed, 320, of])


def _served(rng: np.random.Generator, typical_ns: float = 100e3) -> Floats:
    return np.asarray(typical_ns * np.exp(rng.normal(0, 0.2, COUNT)), np.float64)


def _open(rng: np.random.Generator) -> Ints:
    return np.sort(rng.uniform(0, SPAN_NS, COUNT)).astype(np.int64)


NARROW = {"pcie_link": "2.5 GT/s PCIe x1", "pcie_link_max": "8.0 GT/s PCIe x4"}


def narrow_link(seed: int, path: Path) -> Path:
    """Bursts of 32 reads of 128 KiB over a link of one lane: their data come one after the other."""
    rng = _rng(seed, 1)
    burst = np.arange(COUNT) // 32
    start = (burst * 40_000_000 + rng.integers(0, 100_000, COUNT)).astype(np.int64)
    start.sort()
    behind = (np.arange(COUNT) % 32 + 1) * (128 * KIB / 0.212)
    # Between bursts a read comes alone.
    return _write(path, start, behind + _served(rng, 80e3), facts=NARROW, size=128 * KIB)


def narrow_link_since(seed: int, path: Path) -> Path:
    """The same link, which was a wide one when the recording began."""
    case = narrow_link(seed, path)
    written = json.loads((case / "system.json").read_text(encoding="utf-8"))
    narrow = NARROW["pcie_link"]
    written["devices"]["nvme0n1"]["facts"]["pcie_link"] = NARROW["pcie_link_max"]
    written["changes"] = [f"device nvme0n1: pcie_link was '{NARROW['pcie_link_max']}', is '{narrow}'"]
    (case / "system.json").write_text(json.dumps(written), encoding="utf-8")
    return case


def roomy_link(seed: int, path: Path) -> Path:
    """The same link, and small reads now and then: it is never full."""
    rng = _rng(seed, 2)
    return _write(path, _open(rng), _served(rng), facts=NARROW)


MISPLACED = {"partitions": "nvme0n1p1 nvme0n1p2", "partition_starts_512": "2048 1953125007"}


def misaligned(seed: int, path: Path) -> Path:
    """Half of the reads go to a partition that begins within a physical block, and take 1.6 times as long."""
    rng = _rng(seed, 3)
    shifted = rng.random(COUNT) < 0.5
    place = rng.integers(0, 1 << 20, COUNT) * 4096 + np.where(shifted, 3584, 0)
    served = _served(rng) * np.where(shifted, 1.6, 1.0)
    return _write(path, _open(rng), served, facts=MISPLACED, offset_bytes=place)


def misaligned_but_large(seed: int, path: Path) -> Path:
    """The same partition under reads of 1 MiB: one block more of 256."""
    rng = _rng(seed, 4)
    shifted = rng.random(COUNT) < 0.5
    place = rng.integers(0, 1 << 12, COUNT) * (1 << 20) + np.where(shifted, 3584, 0)
    served = _served(rng, 800e3) * np.where(shifted, 257 / 256, 1.0)
    return _write(path, _open(rng), served, facts=MISPLACED, offset_bytes=place, size=1 << 20)


NODES = {"numa_nodes": {"0": "0,2", "1": "1,3"}}


def far_node(seed: int, path: Path) -> Path:
    """Threads that wander over both nodes spend five times as long in the kernel on the one without the drive."""
    rng = _rng(seed, 5)
    cpu = rng.integers(0, 4, COUNT)
    fs = np.where(cpu % 2 == 1, 50_000, 10_000) + rng.integers(0, 2_000, COUNT)
    thread = 700 + rng.integers(0, 3, COUNT)
    return _write(
        path,
        _open(rng),
        _served(rng, 60e3),
        fs_ns=fs,
        facts={"numa_node": "0"},
        system=NODES,
        cpu=cpu,
        tid=thread,
    )


def near_enough(seed: int, path: Path) -> Path:
    """The same, and the far node costs a microsecond."""
    rng = _rng(seed, 6)
    cpu = rng.integers(0, 4, COUNT)
    fs = np.where(cpu % 2 == 1, 11_000, 10_000) + rng.integers(0, 2_000, COUNT)
    return _write(
        path, _open(rng), _served(rng, 60e3), fs_ns=fs, facts={"numa_node": "0"}, system=NODES, cpu=cpu
    )


def slower_since(seed: int, path: Path) -> Path:
    """From 40 % of the run on the drive takes 1.5 times as long, and its firmware is another one at the end."""
    rng = _rng(seed, 7)
    start = _open(rng)
    served = _served(rng) * np.where(start > 0.4 * SPAN_NS, 1.5, 1.0)
    changes = {"changes": ["device nvme0n1: firmware was '1.0.4', is '1.0.5'"]}
    return _write(path, start, served, facts={"firmware": "1.0.4"}, system=changes)


def slower_since_soon(seed: int, path: Path) -> Path:
    """A fast region of a drive is full after a fourth of what one reader asks for, and a sixtieth of the time: then each takes 20 times as long."""
    rng = _rng(seed, 13)
    served = _served(rng) * np.where(np.arange(COUNT) < COUNT // 4, 1.0, 20.0)
    return _write(path, (np.cumsum(served + 20e3) - served).astype(np.int64), served)


def slower_since_all(seed: int, path: Path) -> Path:
    """96 drives get an update at 40 % of the run and take twice as long; each serves too few requests to show it by itself."""
    rng = _rng(seed, 14)
    start = _open(rng)
    served = _served(rng) * np.where(start > 0.4 * SPAN_NS, 2.0, 1.0)
    return _write(path, start, served, tuple(f"nvme{number}n1" for number in range(96)))


def slower_since_one(seed: int, path: Path) -> Path:
    """One drive of four takes eight times as long from 40 % of the run on: on average all got slower, and three of them did not."""
    rng = _rng(seed, 15)
    start = _open(rng)
    late = (start > 0.4 * SPAN_NS) & (np.arange(COUNT) % 4 == 2)
    return _write(
        path, start, _served(rng) * np.where(late, 8.0, 1.0), tuple(f"nvme{number}n1" for number in range(4))
    )


def timeout_once(seed: int, path: Path) -> Path:
    """One drive of four does not answer for 200 ms, once, and the kernel logs each command that it gives again."""
    rng = _rng(seed, 17)
    start = _open(rng)
    until = SPAN_NS // 2
    stuck = (start > until - 200_000_000) & (start < until) & (np.arange(COUNT) % 4 == 1)
    events = [
        {"time_ns": int(moment) + 30_000, "kind": "error", "subject": "nvme1n1", "detail": "given again"}
        for moment in start[stuck]
    ]
    served = _served(rng) + np.where(stuck, until - start, 0)
    return _write(path, start, served, tuple(f"nvme{number}n1" for number in range(4)), events=events)


def other_places_since(seed: int, path: Path) -> Path:
    """From 40 % of the run on reads of 4 KiB take 1.5 times as long, a fifth of the drive's time; larger ones, and the drive, are what they were."""
    rng = _rng(seed, 18)
    start = _open(rng)
    small = np.arange(COUNT) % 2 == 0
    late = small & (start > 0.4 * SPAN_NS)
    served = _served(rng) * np.where(small, 1.0, 4.0) * np.where(late, 1.5, 1.0)
    return _write(path, start, served, size=np.where(small, 4 * KIB, 64 * KIB))


def slower_by_and_by(seed: int, path: Path) -> Path:
    """It drifts to 1.5 times as long from the begin to the end: nothing happened at any moment."""
    rng = _rng(seed, 8)
    start = _open(rng)
    return _write(path, start, _served(rng) * 1.5 ** (start / SPAN_NS))


#: Begin and end of windows without a period, as parts of the run.
_WINDOWS = (
    (0.03, 0.08),
    (0.16, 0.19),
    (0.26, 0.33),
    (0.37, 0.42),
    (0.55, 0.58),
    (0.61, 0.66),
    (0.8, 0.86),
    (0.9, 0.94),
)


def _again(start: Ints) -> npt.NDArray[np.bool_]:
    """Whether each read begins in one of the windows."""
    inside = np.zeros(len(start), np.bool_)
    for since, until in _WINDOWS:
        inside |= (start >= since * SPAN_NS) & (start < until * SPAN_NS)
    return inside


def slower_at_times(seed: int, path: Path) -> Path:
    """Eight times the drive is too warm for a while, at no period, and takes 1.8 times as long."""
    rng = _rng(seed, 9)
    start = _open(rng)
    return _write(path, start, _served(rng) * np.where(_again(start), 1.8, 1.0), offset_bytes=_anywhere(rng))


def even_at_times(seed: int, path: Path) -> Path:
    """Reads come by twos, and the drive takes one after the other, each for next to the same time: a pace of its own. Four times for a while it takes 2.3
    times as long for each, and does not keep it."""
    rng = _rng(seed, 23)
    start = np.repeat(np.arange(COUNT // 2) * (2 * SPAN_NS // COUNT), 2) + np.tile([0, 1000], COUNT // 2)
    late = _again(start) & (start < SPAN_NS // 2)
    each = rng.normal(1.0e6, 0.01e6, COUNT) * np.where(late, 2.3, 1.0)
    served = np.where(np.arange(COUNT) % 2 == 0, each, each + np.roll(each, 1))
    return _write(path, start, served, offset_bytes=_anywhere(rng))


def _piled_up(seed: int, path: Path, meta: dict[str, Any]) -> Path:
    """Reads that come every 2.5 ms and take 4.4 ms, four times for a while 3.5 times as long: three times as many are in flight then, and so many never else."""
    rng = _rng(seed, 16)
    start = np.arange(COUNT, dtype=np.int64) * (SPAN_NS // COUNT)
    served = _served(rng, 4.4e6) * np.where(_again(start) & (start < SPAN_NS // 2), 3.5, 1.0)
    return _write(path, start, served, offset_bytes=_anywhere(rng), meta=meta)


def piled_up_at_times(seed: int, path: Path) -> Path:
    """They are due at times of their own: no more of them came, and more are in flight because each takes longer."""
    return _piled_up(seed, path, {"workload": {"spec": {"rate_per_s": COUNT / SPAN_NS * 1e9}}})


def deeper_at_times(seed: int, path: Path) -> Path:
    """Of these nothing is known: a program that has more in flight at times gets the same picture of a drive at its limit."""
    return _piled_up(seed, path, {})


def _in_order(
    seed: int, of: int, path: Path, passes: int, slow: npt.NDArray[np.bool_] | None = None, **how: Any
) -> Path:
    """A program that reads 64 KiB after 64 KiB, from one end to the other, one or more times; `slow` reads take eight times as long, else those of a third of the places."""
    rng = _rng(seed, of)
    place = np.arange(COUNT) % (COUNT // passes)
    if slow is None:
        slow = (place >= 0.3 * COUNT // passes) & (place < 0.65 * COUNT // passes)
    served = 100e3 * np.exp(rng.normal(0, 0.5, COUNT)) * np.where(slow, 8.0, 1.0)
    start = (np.cumsum(served + 20e3) - served).astype(np.int64)
    size = 64 * KIB
    return _write(path, start, served, size=size, offset_bytes=place * size, **how)


def slow_part(seed: int, path: Path) -> Path:
    """A third of what is read, twice from one end to the other, takes eight times as long each time."""
    return _in_order(seed, 24, path, 2)


def slow_part_once(seed: int, path: Path) -> Path:
    """The same, read once: the drive was slow there, or then."""
    return _in_order(seed, 25, path, 1)


def slow_then(seed: int, path: Path) -> Path:
    """Who reads twice in order meets a slow phase in the first round, and another one in the second, somewhere else: that is no part of the drive."""
    turn = np.arange(COUNT) * 2 / COUNT
    slow = ((turn >= 0.1) & (turn < 0.4)) | ((turn >= 1.6) & (turn < 1.95))
    return _in_order(seed, 26, path, 2, np.asarray(slow, np.bool_))


def empty_elsewhere(seed: int, path: Path) -> Path:
    """A drive that was read without a file system: a third of it holds data, and what was never written is answered at once."""
    return _in_order(seed, 27, path, 2, file="/dev/nvme0n1")


def elsewhere_at_times(seed: int, path: Path) -> Path:
    """Eight times the reads go to another part of the drive for a while, which takes 1.8 times as long whenever it is read."""
    rng = _rng(seed, 10)
    start = _open(rng)
    far = _again(start)
    place = np.where(far, _anywhere(rng) + (400 << 30), _anywhere(rng))
    return _write(path, start, _served(rng) * np.where(far, 1.8, 1.0), offset_bytes=place)


def in_order_at_times(seed: int, path: Path) -> Path:
    """A program that reads a file from one end to the other, and eight times for a while here and there, which takes the drive 1.8 times as long."""
    rng = _rng(seed, 11)
    start = _open(rng)
    random = _again(start)
    place = np.where(random, rng.integers(0, COUNT, COUNT), np.cumsum(~random)) * 4 * KIB
    return _write(path, start, _served(rng) * np.where(random, 1.8, 1.0), offset_bytes=place)


def busier_at_times(seed: int, path: Path) -> Path:
    """Eight times half as many reads again come for a while, and each takes 1.8 times as long."""
    rng = _rng(seed, 12)
    more = rng.uniform(0, SPAN_NS, 4 * COUNT)
    start = np.sort(more[_again(more.astype(np.int64)) | (rng.random(4 * COUNT) < 0.6)][:COUNT]).astype(
        np.int64
    )
    return _write(path, start, _served(rng) * np.where(_again(start), 1.8, 1.0), offset_bytes=_anywhere(rng))


def _anywhere(rng: np.random.Generator) -> Ints:
    return np.asarray(rng.integers(0, 100 << 20, COUNT) * 4 * KIB, np.int64)
