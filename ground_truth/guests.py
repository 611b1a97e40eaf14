"""Sealed cases in which another program's requests delay the judged ones a little, all the time or seldom; and look-alikes."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case

Numbers = Any
JUDGED = "reader"
JUDGED_PID, OTHER_PID = 101, 102


def _requests(
    comm: Numbers,
    start: Numbers,
    latency: Numbers,
    device: str,
    place: Numbers,
    size: Numbers,
    other_pid: int,
) -> dict[str, Numbers]:
    """Requests of the judged program and the other one, which pass all of their time inside the device."""
    mine = comm == JUDGED
    return {
        "op_id": BLOCK_ID_BASE + np.arange(len(start)),
        "start_ns": start,
        "latency_ns": latency,
        "device_ns": latency,
        "comm": comm,
        "offset_bytes": place,
        "size_bytes": size,
        "device": [device] * len(start),
        "pid": np.where(mine, JUDGED_PID, other_pid),
        "tid": np.where(mine, 101, 102),
    }


def _write(
    path: Path,
    comm: Numbers,
    start: Numbers,
    latency: Numbers,
    depth: Numbers,
    device: str,
    place: Numbers,
    size: Numbers,
    other_pid: int = OTHER_PID,
) -> Path:
    """Every request of the judged program is one operation; requests may come in any order."""
    mine = comm == JUDGED
    block = _requests(comm, start, latency, device, place, size, other_pid)
    app = {
        "op_id": APP_ID_BASE + np.arange(len(start))[mine],
        "start_ns": start[mine] - 1_000,
        "latency_ns": latency[mine] + 2_000,
        "fs_ns": np.full(mine.sum(), 1_000),
        "device_ns": latency[mine],
        "reap_ns": np.full(mine.sum(), 1_000),
        "comm": comm[mine],
        "size_bytes": size[mine],
        "queue_depth": depth[mine],
        "device": [device] * int(mine.sum()),
        "pid": [JUDGED_PID] * int(mine.sum()),
        "tid": [101] * int(mine.sum()),
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"][mine]}
    return write_case(path, app=app, block=block, links=links, devices=(device,))


# -- a device that does several things at once ------------------------------------------------------


def _inside(arrival: Numbers, service: Numbers, slots: int) -> Numbers:
    """Latency of each request, in order of arrival, in a device that works on so many at once and queues the others inside."""
    free = [0] * slots
    latency = np.zeros(len(arrival), np.int64)
    for number, (at, takes) in enumerate(zip(arrival.tolist(), service.tolist(), strict=True)):
        ended = max(at, heapq.heappop(free)) + takes
        heapq.heappush(free, ended)
        latency[number] = ended - at
    return latency


def _own_depth(arrival: Numbers, latency: Numbers, mine: Numbers) -> Numbers:
    """Judged requests in flight when each arrives, it included."""
    ends = np.sort((arrival + latency)[mine])
    begun = np.cumsum(mine)
    return np.maximum(1, begun - np.searchsorted(ends, arrival, side="right"))


def _beside(
    path: Path,
    arrivals: dict[str, Numbers],
    service_us: dict[str, float],
    slots: int,
    rng: Any,
    other_pid: int = OTHER_PID,
) -> Path:
    comm = np.concatenate([np.full(len(times), name) for name, times in arrivals.items()])
    arrival = np.concatenate(list(arrivals.values())).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    comm, arrival = comm[order], arrival[order]
    each = np.array([service_us[name] for name in comm.tolist()])
    service = (each * 1e3 * rng.uniform(0.9, 1.1, len(each))).astype(np.int64)
    latency = _inside(arrival, service, slots)
    depth = _own_depth(arrival, latency, comm == JUDGED)
    count = len(arrival)
    place = rng.integers(0, 1 << 24, count) * 4096
    return _write(path, comm, arrival, latency, depth, "nvme0n1", place, np.full(count, 4096), other_pid)


def steady_neighbour(seed: int, path: Path, other_pid: int = OTHER_PID) -> Path:
    """Another program never stops; each of its requests holds one of eight places inside the drive for half a millisecond."""
    rng = np.random.default_rng([seed, 61])
    arrivals = {
        JUDGED: np.sort(rng.uniform(0, 0.5e9, 22_000)),
        "reporter": np.sort(rng.uniform(0, 0.5e9, 2_200)),
    }
    return _beside(path, arrivals, {JUDGED: 100.0, "reporter": 500.0}, 8, rng, other_pid)


def same_timer(seed: int, path: Path) -> Path:
    """The judged program works in bursts, and waits for itself in the large ones; with nearly each of these another program wakes up,
    whose one request costs nothing: the drive has a place for it."""
    rng = np.random.default_rng([seed, 62])
    begin = np.arange(700) * 2_000_000 + rng.integers(0, 500_000, 700)
    size = rng.integers(1, 65, 700)
    own = np.concatenate(
        [at + np.arange(length) * 500 for at, length in zip(begin.tolist(), size.tolist(), strict=True)]
    )
    woken = begin[(size > 32) & (rng.random(700) < 0.9)]
    return _beside(path, {JUDGED: own, "helper": woken}, {JUDGED: 100.0, "helper": 5.0}, 8, rng)


def steady_syncs(seed: int, path: Path) -> Path:
    """Another program syncs all the time: four requests of 2 ms each, over and over, a few milliseconds apart. The judged one makes eight of 0.2 ms an operation, one after the
    other; the drive serves one at a time. So all operations begin soon after the other's requests, and none is without."""
    return _syncs(seed, path, 1)


def roomy_syncs(seed: int, path: Path) -> Path:
    """The same, on a drive that serves eight at a time."""
    return _syncs(seed, path, 8)


def _syncs(seed: int, path: Path, slots: int) -> Path:
    rng = np.random.default_rng([seed, 64])
    other = np.cumsum(rng.uniform(11e6, 15e6, 500)).astype(np.int64)
    arrivals = np.repeat(other, 4) + np.tile(np.arange(4) * 20_000, len(other))
    rows: list[tuple[str, int, int]] = []
    free, at, number = [0] * slots, 0, 0
    while number < len(arrivals):
        asked = min(at, int(arrivals[number]))
        comm, takes = (JUDGED, 200e3) if asked == at else ("mirrord", 2e6)
        ended = max(heapq.heappop(free), asked) + int(takes * rng.uniform(0.9, 1.1))
        heapq.heappush(free, ended)
        rows.append((comm, asked, ended - asked))
        if comm == JUDGED:
            at = ended + int(rng.uniform(1e6, 3e6))
        else:
            number += 1
    return _one_size(path, rows, rng, 8)


def flushed_for_others(seed: int, path: Path) -> Path:
    """Another program writes 8 MiB every 60 ms, which the drive takes at once; the next flush is the judged program's, and takes 30 ms instead of 2 ms for these data."""
    return _flushed(seed, path, lambda number, own, its, rng: 2e6 + 28e6 * (its > 0))


def flushed_at_random(seed: int, path: Path) -> Path:
    """The same, but one flush in eight takes 30 ms, whoever wrote what before it."""
    return _flushed(seed, path, lambda number, own, its, rng: 2e6 + 28e6 * (rng.random() < 0.125))


def flushed_for_itself(seed: int, path: Path) -> Path:
    """The same, but every fifth operation of the judged program writes 1 MiB, and its flush takes 30 ms; the other one's data, which end before all flushes that take long and
    no others, cost nothing."""
    return _flushed(seed, path, lambda number, own, its, rng: 2e6 + 28e6 * (own > 4096), bulk=5)


def _flushed(
    seed: int,
    path: Path,
    takes: Callable[[int, int, int, Any], float],
    bulk: int = 0,
) -> Path:
    """A program writes 4 KiB (`bulk`: one in so many times 1 MiB) and syncs, over and over; another one writes 8 MiB now and then, before a bulky write if there are such."""
    rng = np.random.default_rng([seed, 66])
    rows: list[tuple[str, str | None, int, int, int]] = []
    operations: list[tuple[int, int, int, list[int]]] = []
    at, due = 1_000_000, 5_000_000.0
    for number in range(900):
        own, its = (1 << 20 if bulk and number % bulk == 0 else 4096), 0
        if own > 4096 if bulk else at >= due:
            its, due = 8 << 20, at + 60e6 * rng.uniform(0.9, 1.1)
            for place in range(8):
                rows.append(("write", "backup", 1 << 20, at - 800_000 + place * 10_000, 500_000))
        begin = at
        rows.append(("write", JUDGED, own, at, int(100e3 * rng.uniform(0.9, 1.1))))
        at += rows[-1][4] + 20_000
        rows.append(("flush", None, 0, at, int(takes(number, own, its, rng) * rng.uniform(0.9, 1.1))))
        at += rows[-1][4] + 20_000
        operations.append((begin - 5_000, at - begin + 5_000, own, [len(rows) - 2, len(rows) - 1]))
        at += int(1.5e6 * rng.uniform(0.9, 1.1))
    op, comm, size, start, latency = (np.array(column) for column in zip(*rows, strict=True))
    block = {
        **_requests(
            comm, start, latency, "nvme0n1", rng.integers(0, 1 << 24, len(rows)) * 4096, size, OTHER_PID
        ),
        "op": op,
        "comm": [row[1] for row in rows],
        "queue_ns": np.zeros(len(rows), np.int64),
    }
    started, took, asked = (np.array([each[column] for each in operations]) for column in (0, 1, 2))
    inside = np.array([latency[each[3]].sum() for each in operations])
    count = len(operations)
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": started,
        "latency_ns": took,
        "fs_ns": took - inside,
        "device_ns": inside,
        "op": ["sync"] * count,
        "comm": [JUDGED] * count,
        "size_bytes": asked,
        "queue_depth": np.ones(count, np.int64),
        "device": ["nvme0n1"] * count,
        "pid": [JUDGED_PID] * count,
        "tid": [101] * count,
    }
    parts = [
        (app["op_id"][place], block["op_id"][child])
        for place, each in enumerate(operations)
        for child in each[3]
    ]
    links = {
        "parent_id": np.array([part[0] for part in parts]),
        "child_id": np.array([part[1] for part in parts]),
    }
    return write_case(path, app=app, block=block, links=links, devices=("nvme0n1",))


def slow_while_busy(seed: int, path: Path) -> Path:
    """The drive takes 5 ms a request for 0.15 s of each second, and 0.1 ms else, however many it has; a small request of another program is in flight for most of the slow times
    and seldom else."""
    rng = np.random.default_rng([seed, 65])
    slow = np.arange(0, 12) * 1_000_000_000 + rng.integers(0, 800_000_000, 12)
    rows: list[tuple[str, int, int]] = []
    for comm, pause_ns in ((JUDGED, 0.4e6), ("logger", 3e6)):
        at = 0
        while at < 12_000_000_000:
            held = bool(((slow <= at) & (at < slow + 150_000_000)).any())
            takes = int((5e6 if held else 0.1e6) * rng.uniform(0.8, 1.2))
            rows.append((comm, at, takes))
            at += takes + int(rng.exponential(pause_ns))
    rows.sort(key=lambda row: row[1])
    return _one_size(path, rows, rng, 1)


def _one_size(path: Path, rows: list[tuple[str, int, int]], rng: Any, each: int) -> Path:
    """Writes of 4 KiB: program, begin and latency, ns; `each` of the judged one, which come one at a time, make one of its operations."""
    comm, start, latency = (np.array(column) for column in zip(*rows, strict=True))
    mine = np.flatnonzero(comm == JUDGED)
    mine = mine[: len(mine) // each * each]
    operation = np.arange(len(mine)) // each
    begin = start[mine[::each]] - 1_000
    took = start[mine[each - 1 :: each]] + latency[mine[each - 1 :: each]] + 1_000 - begin
    inside = np.bincount(operation, latency[mine]).astype(np.int64)
    place = rng.integers(0, 1 << 24, len(rows)) * 4096
    block = _requests(comm, start, latency, "nvme0n1", place, np.full(len(rows), 4096), OTHER_PID)
    operations = len(begin)
    app = {
        "op_id": APP_ID_BASE + np.arange(operations),
        "start_ns": begin,
        "latency_ns": took,
        "fs_ns": took - inside,
        "device_ns": inside,
        "comm": [JUDGED] * operations,
        "size_bytes": np.full(operations, 4096 * each),
        "queue_depth": np.ones(operations, np.int64),
        "device": ["nvme0n1"] * operations,
        "pid": [JUDGED_PID] * operations,
        "tid": [101] * operations,
    }
    links = {"parent_id": app["op_id"][operation], "child_id": block["op_id"][mine]}
    return write_case(path, app=app, block=block, links=links, devices=("nvme0n1",))


# -- a disk with one arm ----------------------------------------------------------------------------


def _visited(seed: int, path: Path, visit_ms: float, back_ms: float) -> Path:
    """A reader in order with two requests in flight, 5 ms each; another program asks for 16 KiB every 0.3 s or so, somewhere."""
    rng = np.random.default_rng([seed, 63])
    visits = np.cumsum(rng.exponential(0.3e9, 60)).astype(np.int64)
    rows: list[tuple[str, int, int, int, int]] = []
    ready, head, position, visited, away = [0, 0], 0, 0, 0, False
    for _ in range(2_400):
        at = heapq.heappop(ready)
        if visited < len(visits) and visits[visited] <= max(head, at):
            asked = int(visits[visited])
            head = max(head, asked) + int(visit_ms * 1e6 * rng.uniform(0.6, 1.4))
            rows.append(("cron", asked, head - asked, int(rng.integers(1 << 20, 1 << 26)) * 4096, 16 << 10))
            visited, away = visited + 1, True
        takes = int(rng.uniform(4.8e6, 5.2e6)) + (int(back_ms * 1e6 * rng.uniform(0.6, 1.4)) if away else 0)
        head, away = max(head, at) + takes, False
        rows.append((JUDGED, at, head - at, position, 1 << 20))
        position += 1 << 20
        heapq.heappush(ready, head + 20_000)
    comm, start, latency, place, size = (np.array(column) for column in zip(*rows, strict=True))
    case = _write(path, comm, start, latency, np.full(len(rows), 2), "sda", place, size)
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["devices"]["sda"]["queue"]["rotational"] = "1"
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def seldom_guest(seed: int, path: Path) -> Path:
    """Each visit costs the disk two jumps of 10 ms."""
    return _visited(seed, path, visit_ms=10.0, back_ms=9.0)


def guest_in_the_cache(seed: int, path: Path) -> Path:
    """The disk answers from its own memory, and its arm stays where it is."""
    return _visited(seed, path, visit_ms=0.06, back_ms=0.0)
