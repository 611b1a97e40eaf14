"""Sealed cases of a device that several programs fill, of a disk that chooses its order, of fetches that begin too late; and look-alikes."""

from __future__ import annotations

import heapq
import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case

Numbers = Any
JUDGED = "reader"


def _slots(arrival: Numbers, service: Numbers, slots: int) -> Numbers:
    """When each request gets a slot of the device: first come, first served."""
    free = [0] * slots
    issued = np.zeros(len(arrival), np.int64)
    for number, (at, takes) in enumerate(zip(arrival.tolist(), service.tolist(), strict=True)):
        begin = max(at, heapq.heappop(free))
        heapq.heappush(free, begin + takes)
        issued[number] = begin
    return issued


def _shared(
    seed: int, path: Path, per_s: dict[str, float], service_us: dict[str, float], slots: int = 4
) -> Path:
    """Programs that never stop, on one device with few slots."""
    rng = np.random.default_rng([seed, 51])
    seconds, parts = 0.5, []
    for program, rate in per_s.items():
        arrival = np.sort(rng.uniform(0, seconds * 1e9, int(rate * seconds))).astype(np.int64)
        service = (service_us[program] * 1e3 * rng.uniform(0.8, 1.2, len(arrival))).astype(np.int64)
        parts.append((arrival, service, np.full(len(arrival), program)))
    arrival, service, comm = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(arrival, kind="stable")
    arrival, service, comm = arrival[order], service[order], comm[order]
    queue = _slots(arrival, service, slots) - arrival
    count, mine = len(arrival), comm == JUDGED
    block = {
        "op_id": BLOCK_ID_BASE + np.arange(count),
        "start_ns": arrival,
        "latency_ns": queue + service,
        "queue_ns": queue,
        "device_ns": service,
        "comm": comm,
        "size_bytes": [4096] * count,
        "device": ["nvme0n1"] * count,
        "tid": np.where(mine, 101, 102),
    }
    app = {
        "op_id": APP_ID_BASE + np.arange(count)[mine],
        "start_ns": arrival[mine] - 1_000,
        "latency_ns": (queue + service)[mine] + 2_000,
        "fs_ns": np.full(mine.sum(), 1_000),
        "queue_ns": queue[mine],
        "device_ns": service[mine],
        "reap_ns": np.full(mine.sum(), 1_000),
        "comm": comm[mine],
        "size_bytes": [4096] * int(mine.sum()),
        "device": ["nvme0n1"] * int(mine.sum()),
        "tid": [101] * int(mine.sum()),
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"][mine]}
    return write_case(path, app=app, block=block, links=links)


def neighbour_always(seed: int, path: Path) -> Path:
    """A backup that never stops holds most of the slots, and the reader waits for them in the queue."""
    return _shared(seed, path, {JUDGED: 6_000, "backup": 14_000}, {JUDGED: 100, "backup": 210})


def own_queue(seed: int, path: Path) -> Path:
    """The reader fills the device by itself; a backup is there all the time, and has a hundredth of it."""
    return _shared(seed, path, {JUDGED: 14_000, "backup": 400}, {JUDGED: 260, "backup": 100})


def roomy_neighbour(seed: int, path: Path) -> Path:
    """A backup with far more requests than the reader; but there are slots for all."""
    return _shared(seed, path, {JUDGED: 3_000, "backup": 14_000}, {JUDGED: 100, "backup": 210}, slots=32)


def _preferred(seed: int, path: Path, other: str, passes: int) -> Path:
    """A device that serves one at a time. A reader has one request there; `other` always has four in flight, of which `passes` go past each of the reader's."""
    rng = np.random.default_rng([seed, 56])
    rows: list[tuple[str, int, int, int]] = []
    waiting = [0] * 4
    free, due, passed, reads = 0, 50_000, 0, 0
    while reads < 400:
        # Of the other's four the one that came first; of both whoever came first, unless the other is to be preferred still.
        came = min(waiting)
        mine = due <= max(free, came) and (passed >= passes or came > max(free, due))
        at = due if mine else came
        begin = max(free, at)
        free = begin + int((100e3 if mine else 200e3) * rng.uniform(0.9, 1.1))
        rows.append((JUDGED if mine else other, at, begin, free))
        if mine:
            due, passed, reads = free + int(rng.uniform(2e6, 4e6)), 0, reads + 1
        else:
            passed += at > due
            waiting.remove(came)
            waiting.append(free + 1_000)
    comm, start, issued, end = (np.array(column) for column in zip(*rows, strict=True))
    count, tid = len(comm), np.where(comm == JUDGED, 101, 102)
    tid[(comm == JUDGED) & (other == JUDGED) & (end - issued > 150_000)] = 102
    block = {
        "op_id": BLOCK_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": end - start,
        "queue_ns": issued - start,
        "device_ns": end - issued,
        "comm": comm,
        "size_bytes": [4096] * count,
        "device": ["nvme0n1"] * count,
        "tid": tid,
    }
    mine = comm == JUDGED
    app = {
        **{name: np.asarray(values)[mine] for name, values in block.items()},
        "op_id": APP_ID_BASE + np.arange(count)[mine],
        "start_ns": start[mine] - 1_000,
        "latency_ns": (end - start)[mine] + 2_000,
        "fs_ns": np.full(mine.sum(), 1_000),
        "reap_ns": np.full(mine.sum(), 1_000),
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"][mine]}
    return write_case(path, app=app, block=block, links=links)


def prefers_another(seed: int, path: Path) -> Path:
    """The scheduler serves thirty of a scan's requests that came later before each of the reader's: 7 ms instead of 1."""
    return _preferred(seed, path, "scan", 30)


def prefers_itself(seed: int, path: Path) -> Path:
    """The same, where both are threads of the judged program."""
    return _preferred(seed, path, JUDGED, 30)


# -- a rotating disk ------------------------------------------------------------------------------


def _disk(seed: int, path: Path, stuck: bool) -> Path:
    """Four requests in flight, 10 ms each. Now and then one takes 200 ms: the disk serves others meanwhile, or nobody."""
    rng = np.random.default_rng([seed, 52])
    count, slots = 1200, 4
    late = set((np.arange(60, count, 100) + rng.integers(0, 30, len(range(60, count, 100)))).tolist())
    ready = [(0, slot) for slot in range(slots)]
    head, start, latency = 0, np.zeros(count, np.int64), np.zeros(count, np.int64)
    for number in range(count):
        at, slot = heapq.heappop(ready)
        service = int(rng.uniform(2.2e6, 2.8e6))
        if number in late and stuck:
            head = max(head, at) + 200_000_000
        head = max(head, at) + service
        ended = head + (200_000_000 if number in late and not stuck else 0)
        start[number], latency[number] = at, ended - at
        heapq.heappush(ready, (ended + 20_000, slot))
    columns = {
        "start_ns": start,
        "latency_ns": latency,
        "device_ns": latency,
        "size_bytes": [1 << 20] * count,
        "device": ["sda"] * count,
        "tid": [101] * count,
        "queue_depth": [slots] * count,
    }
    app = {**columns, "op_id": APP_ID_BASE + np.arange(count), "device_ns": latency - 2_000}
    app.update(fs_ns=np.full(count, 1_000), reap_ns=np.full(count, 1_000))
    block = {**columns, "op_id": BLOCK_ID_BASE + np.arange(count)}
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    case = write_case(path, app=app, block=block, links=links, devices=("sda",))
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["devices"]["sda"]["queue"]["rotational"] = "1"
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def stuck_disk(seed: int, path: Path) -> Path:
    """Nobody is served for 200 ms, a dozen times."""
    return _disk(seed, path, stuck=True)


def passed_over(seed: int, path: Path) -> Path:
    """One of four requests waits 200 ms, a dozen times, while the disk serves the others as fast as ever."""
    return _disk(seed, path, stuck=False)


# -- prefetching ----------------------------------------------------------------------------------


def _prefetched(
    seed: int,
    path: Path,
    pause_us: float,
    by_another: bool = False,
    read_ahead_kb: int | None = None,
    copied_us: int = 40,
) -> Path:
    """A reader of 256 KiB; the fetch of each piece (1 ms) begins when the piece before it is asked for.

    `by_another`: a second reader of the same file, one piece ahead, waits for each fetch from its begin: it is its read that fetches.
    `read_ahead_kb`: it is Linux that fetches ahead, with this window.
    """
    rng = np.random.default_rng([seed, 53])
    count, size = 1500, 256 << 10
    fetch = rng.normal(1e6, 5e4, count).astype(np.int64)
    pause = rng.uniform(0.05, 1.95, count) * pause_us * 1e3
    start, wait = np.zeros(count, np.int64), np.zeros(count, np.int64)
    now, ready = 0, 0
    begun = np.zeros(count, np.int64)
    for number in range(count):
        start[number] = now
        begun[number] = start[number - 1] if number else 0
        ready = begun[number] + int(fetch[number])
        wait[number] = max(0, ready - now)
        now += int(wait[number]) + copied_us * 1000 + int(pause[number])
    offset = np.arange(count, dtype=np.int64) * size
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": wait + copied_us * 1000,
        "fs_ns": np.full(count, copied_us * 1000),
        "device_ns": wait,
        "offset_bytes": offset,
        "size_bytes": [size] * count,
        "tid": [101] * count,
        "file": ["/data/a.db"] * count,
        "device": ["nvme0n1"] * count,
        "flags": 0,
    }
    block = {
        "op_id": BLOCK_ID_BASE + np.arange(count),
        "start_ns": begun,
        "latency_ns": fetch,
        "device_ns": fetch,
        "size_bytes": [size] * count,
        "device": ["nvme0n1"] * count,
        "flags": 4,
    }
    cache = [
        {
            "op_id": APP_ID_BASE + number,
            "tier": "readahead" if wait[number] else "ram",
            "file": "/data/a.db",
            "offset_bytes": int(offset[number]),
            "size_bytes": size,
            "wait_ns": int(wait[number]),
        }
        for number in range(count)
    ]
    account = {
        "file": "/data/a.db",
        "start_ns": 0,
        "duration_ns": now,
        "issued_bytes": count * size,
        "used_bytes": count * size,
        "wasted_bytes": 0,
        "late_bytes": int((wait > 0).sum()) * size,
        "missed_bytes": 0,
    }
    tables = {"cache": cache, "prefetch": [account]}
    if not by_another:
        queue = {"read_ahead_kb": str(read_ahead_kb)} if read_ahead_kb is not None else {}
        devices = {"nvme0n1": {"queue": queue}}
        return write_case(
            path, app=app, block=block, tables=tables, system={"devices": devices} if queue else None
        )
    other_id = APP_ID_BASE + count + np.arange(count)
    other = {
        **app,
        "op_id": other_id,
        "start_ns": begun,
        "latency_ns": fetch + copied_us * 1000,
        "device_ns": fetch,
    }
    other["tid"] = [202] * count
    both = {
        name: np.concatenate([column, other[name]]) if name != "flags" else 0 for name, column in app.items()
    }
    block["tid"] = [202] * count
    tables["cache"] = cache + [
        {**row, "op_id": int(op_id), "tier": "device", "wait_ns": int(took)}
        for row, op_id, took in zip(cache, other_id, fetch, strict=True)
    ]
    links = {
        "parent_id": np.concatenate([other_id, np.asarray(app["op_id"])[wait > 0]]),
        "child_id": np.concatenate([block["op_id"], np.asarray(block["op_id"])[wait > 0]]),
        "kind": ["waits_for"] * (count + int((wait > 0).sum())),
    }
    return write_case(path, app=both, block=block, links=links, tables=tables)


def late_prefetch(seed: int, path: Path) -> Path:
    """The reader comes back after 0.1 to 4.3 ms: often too early for a fetch that the idle device could have begun before."""
    return _prefetched(seed, path, 2_200.0)


def late_by_default(seed: int, path: Path) -> Path:
    """Linux' own readahead with its usual window, and some of a reader's pieces come late: 6 to 10 % of its time. Nobody made a mistake."""
    return _prefetched(seed, path, 2_100.0, read_ahead_kb=128, copied_us=400)


def late_with_a_small_window(seed: int, path: Path) -> Path:
    """The same with a window of 16 KiB: somebody set that."""
    return _prefetched(seed, path, 2_100.0, read_ahead_kb=16, copied_us=400)


def as_fast_as_it_goes(seed: int, path: Path) -> Path:
    """The reader comes back at once: it waits for each fetch, and no prefetcher could help."""
    return _prefetched(seed, path, 2.0)


def read_by_two(seed: int, path: Path) -> Path:
    """Two threads read the same file; one waits for what the other's reads are fetching: no prefetcher is late."""
    return _prefetched(seed, path, 2_200.0, by_another=True)


# -- peers that hardly compare --------------------------------------------------------------------


def scanned_drive(seed: int, path: Path) -> Path:
    """One of six drives has a scan beside the reader, deep enough that its peers hardly ever see such depths."""
    rng = np.random.default_rng([seed, 54])
    parts = []
    for drive in range(6):
        count = 6_000 if drive == 1 else 500
        depth = rng.integers(4, 9, count) if drive == 1 else np.where(np.arange(count) < 2, 4, 1)
        parts.append((np.full(count, f"nvme{drive}n1"), depth, rng.uniform(0, 0.5e9, count)))
    device, depth, start = (np.concatenate(column) for column in zip(*parts, strict=True))
    service = (160e3 * np.exp(rng.normal(0, 0.4, len(device)))).astype(np.int64)
    # By chance the few deep requests of the peers were quick ones.
    service[(depth >= 4) & (device != "nvme1n1")] = 110_000
    order = np.argsort(start, kind="stable")
    block = {
        "op_id": BLOCK_ID_BASE + np.arange(len(device)),
        "start_ns": start[order].astype(np.int64),
        "latency_ns": service[order],
        "device_ns": service[order],
        "queue_depth": depth[order],
        "size_bytes": [4096] * len(device),
        "device": device[order],
    }
    return write_case(path, block=block, devices=tuple(sorted(set(device.tolist()))))


# -- a volume -------------------------------------------------------------------------------------


def stuck_member(seed: int, path: Path) -> Path:
    """A volume of twelve drives; one is stuck for 3 ms four times: too seldom for a comparison with its peers, but every episode is its."""
    rng = np.random.default_rng([seed, 55])
    count = 4_000
    start = np.sort(rng.uniform(0, 0.4e9, count)).astype(np.int64)
    drive = rng.integers(0, 12, count)
    service = rng.normal(100e3, 5e3, count).astype(np.int64)
    for moment in (0.05e9, 0.13e9, 0.22e9, 0.34e9):
        stuck = (drive == 2) & (start >= moment) & (start < moment + 3e6)
        service[stuck] += (moment + 3e6 - start[stuck]).astype(np.int64)
    name = np.array([f"nvme{number}n1" for number in drive])
    ids = np.arange(count)
    request = {"start_ns": start, "latency_ns": service, "device_ns": service, "size_bytes": [4096] * count}
    app = {**request, "op_id": APP_ID_BASE + ids, "latency_ns": service + 2_000, "tid": 101 + ids % 4}
    app.update(fs_ns=np.full(count, 1_000), reap_ns=np.full(count, 1_000))
    block = {
        "op_id": np.concatenate((BLOCK_ID_BASE + ids, BLOCK_ID_BASE + count + ids)),
        "device": np.concatenate((np.full(count, "md0"), name)),
        **{key: np.tile(np.asarray(values), 2) for key, values in request.items()},
    }
    links = {
        "parent_id": np.concatenate((APP_ID_BASE + ids, BLOCK_ID_BASE + ids)),
        "child_id": np.concatenate((BLOCK_ID_BASE + ids, BLOCK_ID_BASE + count + ids)),
        "kind": ["waits_for"] * count + ["stacked"] * count,
    }
    devices = ("md0", *(f"nvme{number}n1" for number in range(12)))
    return write_case(path, app=app, block=block, links=links, devices=devices)
