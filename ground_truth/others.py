"""Sealed cases of pieces on a disk, of pauses of one drive, of other programs, of caches, of short stops; and look-alikes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, Simulation, write_case

PIECE = 512 * 1024
DRIVES = ("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1", "nvme4n1")


def _disk(
    seed: int, path: Path, disk_offset: Any, file_offset: Any, size: int = PIECE, flat: bool = False
) -> Path:
    """One reader of a rotating disk, one request at a time; a request that jumps takes 4 to 12 ms longer, the further the more. `flat`: the
    disk takes as long wherever a request lies, one slow hour and one fast one."""
    rng = np.random.default_rng([seed, 41])
    count = len(disk_offset)
    distance = np.abs(np.diff(disk_offset, prepend=-size) - size)
    jumps = distance > 0
    far = 6e6 * np.sqrt(distance / max(1, int(distance.max())))
    device = 2.6e6 + jumps * (rng.uniform(4e6, 8e6, count) + far)
    if flat:
        device = 4e6 * np.exp(rng.normal(0, 0.4, count) + 0.5 * np.sin(np.arange(count) / 90))
    device = device.astype(np.int64)
    start = np.concatenate(([0], np.cumsum(device + 30_000)[:-1])).astype(np.int64)
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": device + 20_000,
        "app_ns": np.zeros(count, np.int64),
        "fs_ns": np.full(count, 10_000),
        "device_ns": device,
        "reap_ns": np.full(count, 10_000),
        "offset_bytes": file_offset,
        "size_bytes": [size] * count,
        "queue_depth": [1] * count,
        "tid": [101] * count,
        "file": ["/data/a.vhd"] * count,
        "device": ["sda"] * count,
        "flags": 0,
    }
    block = {
        "op_id": BLOCK_ID_BASE + np.arange(count),
        "start_ns": start + 10_000,
        "latency_ns": device,
        "device_ns": device,
        "offset_bytes": disk_offset,
        "size_bytes": [size] * count,
        "queue_depth": [1] * count,
        "tid": [101] * count,
        "device": ["sda"] * count,
        "flags": 1,
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"], "bytes": app["size_bytes"]}
    case = write_case(path, app=app, block=block, links=links, devices=("sda",))
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    system["devices"]["sda"].setdefault("queue", {})["rotational"] = "1"
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    return case


def pieces(seed: int, path: Path) -> Path:
    """A file read in order; every fourth piece lies somewhere else on the disk."""
    rng = np.random.default_rng([seed, 42])
    order = np.arange(1200, dtype=np.int64)
    where = rng.permutation(300).repeat(4) * 4 + order % 4
    return _disk(seed, path, where * 8 * PIECE // 8, order * PIECE)


def all_apart(seed: int, path: Path) -> Path:
    """A file read in order of which no two pieces lie together: nothing says what a request without a jump takes, but further jumps take longer."""
    rng = np.random.default_rng([seed, 47])
    order = np.arange(1200, dtype=np.int64)
    return _disk(seed, path, rng.permutation(1200) * 2 * PIECE, order * PIECE)


def random_on_pieces(seed: int, path: Path) -> Path:
    """Random reads of 4 KiB over a small file in pieces, on a disk whose service time does not depend on place."""
    rng = np.random.default_rng([seed, 48])
    where = rng.integers(0, 3000, 8000).astype(np.int64)
    extent = rng.permutation(750)
    return _disk(seed, path, (extent[where // 4] * 8 + where % 4) * 4096, where * 4096, 4096, flat=True)


def in_order_on_a_flat_disk(seed: int, path: Path) -> Path:
    """A file in pieces, read in order, on such a disk: its layout costs nothing. Every other time no two pieces lie together."""
    rng = np.random.default_rng([seed, 49])
    order = np.arange(2400, dtype=np.int64)
    together = 1 if seed % 2 else 4
    where = rng.permutation(2400 // together).repeat(together) * 2 * together + order % together
    return _disk(seed, path, where * PIECE, order * PIECE, flat=True)


def jumping_reader(seed: int, path: Path) -> Path:
    """A file that lies in one piece, read here and there: the same jumps, and no fault of the layout."""
    rng = np.random.default_rng([seed, 43])
    where = rng.permutation(300).repeat(4).astype(np.int64) * 4 + np.arange(1200) % 4
    return _disk(seed, path, where * PIECE, where * PIECE)


def _pausing(seed: int, path: Path, drives: tuple[int, ...], probability: float) -> Path:
    simulation = Simulation(
        seed=seed, depth=2, workers=4, seconds=1.5, typical_us=200.0, sigma=0.2, devices=DRIVES
    )
    hit = (simulation.rng.random(simulation.device_index.shape) < probability) & np.isin(
        simulation.device_index, drives
    )
    simulation.stages["device"][hit] += simulation.rng.uniform(300e3, 600e3, int(hit.sum()))
    return simulation.write(path)


def pausing_drive(seed: int, path: Path) -> Path:
    """One of five drives takes 0.3 to 0.6 ms longer in 8 % of its requests: no hump far out, and a typical latency as ever."""
    return _pausing(seed, path, (3,), 0.08)


def slow_now_and_then(seed: int, path: Path) -> Path:
    """One of four drives takes 1.6 times as long in a fifth of the time, ten times: its slow requests overlap in few episodes."""
    devices = tuple(f"nvme{number}n1" for number in range(4))
    simulation = Simulation(seed=seed, depth=16, seconds=0.07, typical_us=160.0, sigma=0.05, devices=devices)
    # All slots take their turns at about the same time.
    turn = np.arange(simulation.count)
    slow = turn * 50 // simulation.count % 5 == 2
    simulation.stages["device"][(simulation.device_index == 2) & slow] *= 1.6
    return simulation.write(path)


def pausing_kind(seed: int, path: Path) -> Path:
    """All five do, a little: that is how they are."""
    return _pausing(seed, path, (0, 1, 2, 3, 4), 0.02)


def _visited(seed: int, path: Path, factor: float) -> Path:
    """Another program writes at irregular moments, for 60 ms each."""
    from ground_truth.bursts import BURST_S, SECONDS, _other, slowed

    rng = np.random.default_rng([seed, 44])
    gaps = rng.uniform(0.1, 0.6, 40)
    moments = np.cumsum(gaps + BURST_S)
    return slowed(seed, path, moments[moments < SECONDS - 0.1], factor, _other("nightly-backup"))


def irregular_backup(seed: int, path: Path) -> Path:
    """Operations take three times as long while it works."""
    return _visited(seed, path, 3.0)


def harmless_backup(seed: int, path: Path) -> Path:
    """They take as long as ever."""
    return _visited(seed, path, 1.0)


def _cached(seed: int, path: Path, room: int, count: int = 6000, warm: bool = True, ramp: int = 0) -> Path:
    """Random reads of 400 pieces through a cache with room for some of them, least recently used first out."""
    rng = np.random.default_rng([seed, 45])
    wanted = rng.integers(0, 400, count)
    if warm:
        wanted = np.concatenate((np.arange(400), wanted))
    kept: dict[int, None] = {}
    missed = np.zeros(len(wanted), np.bool_)
    for number, piece in enumerate(int(p) for p in wanted):
        missed[number] = piece not in kept
        kept.pop(piece, None)
        kept[piece] = None
        if len(kept) > room:
            kept.pop(next(iter(kept)))
    wait = np.where(missed, rng.normal(90_000, 6_000, len(wanted)), 0).astype(np.int64)
    start = np.arange(len(wanted), dtype=np.int64) * 250_000
    app = {
        "op_id": APP_ID_BASE + np.arange(len(wanted)),
        "start_ns": start,
        "latency_ns": wait + 3_000,
        "fs_ns": np.full(len(wanted), 3_000),
        "device_ns": wait,
        "offset_bytes": wanted * 16_384,
        "size_bytes": [16_384] * len(wanted),
        "queue_depth": [1] * len(wanted),
        "tid": [101] * len(wanted),
        "file": ["/data/a.db"] * len(wanted),
        "device": ["nvme0n1"] * len(wanted),
        "flags": 0,
    }
    cache = [
        {
            "op_id": APP_ID_BASE + number,
            "tier": "device" if missed[number] else "ram",
            "file": "/data/a.db",
            "offset_bytes": int(wanted[number]) * 16_384,
            "size_bytes": 16_384,
            "wait_ns": int(wait[number]),
        }
        for number in range(len(wanted))
    ]
    phases = [
        {"name": "ramp", "start_ns": 0, "end_ns": ramp * 250_000},
        {"name": "measured", "start_ns": ramp * 250_000, "end_ns": len(wanted) * 250_000},
    ]
    return write_case(path, app=app, tables={"cache": cache}, meta={"phases": phases if ramp else []})


def _paged(
    path: Path,
    *,
    op: str,
    places: np.ndarray,
    missed: np.ndarray,
    refaulted: float = 0.0,
    evicted: float = 0.0,
    drops: float = 0.0,
    free_bytes: float = 8e9,
    groups: Mapping[str, tuple[float, float]] | None = None,
    asked: tuple[str, int] | None = None,
    in_flight_ns: int | None = None,
) -> Path:
    """Reads of single pages, 3 s of them; what the kernel counts of its page cache meanwhile: `refaulted` and `evicted` are parts of what the disk reads,
    `drops` were made in the second second. `groups`: limits of control groups, and what they use of them; all that is read again is theirs.
    `asked`: who has all pages of the file dropped, and before every how many reads. `in_flight_ns`: who reads finds its page on its way already, since so long."""
    count, page, second = len(places), 4096, 1_000_000_000
    start = np.arange(count, dtype=np.int64) * (3 * second // count)
    wait = np.where(missed, 90_000, 0).astype(np.int64)
    common = {"device": "nvme0n1", "size_bytes": page, "tid": 101, "flags": 0}
    calls: dict[str, Any] = {
        **common,
        "op_id": APP_ID_BASE + np.arange(count),
        "op": op,
        "start_ns": start,
        "latency_ns": wait + 5_000,
        "fs_ns": 5_000,
        "device_ns": wait,
        "offset_bytes": places * page,
        "file": "/data/a.db",
    }
    if asked is not None:
        by, every = asked
        before = np.arange(every, count, every)
        dropped: dict[str, Any] = {
            **calls,
            "op_id": APP_ID_BASE + count + np.arange(len(before)),
            "op": "drop",
            "start_ns": start[before] - 4_000,
            "latency_ns": 3_000,
            "fs_ns": 3_000,
            "device_ns": 0,
            "offset_bytes": 0,
            "size_bytes": 0,
            "comm": by,
            "pid": 100 if by == "reader" else 200,
            "tid": 101 if by == "reader" else 201,
        }
        read: dict[str, Any] = {**calls, "comm": "reader", "pid": 100}
        calls = {
            name: np.concatenate((np.broadcast_to(read[name], count), np.broadcast_to(value, len(before))))
            for name, value in dropped.items()
        }
    at = np.flatnonzero(missed)
    requests = {
        **common,
        "op_id": at,
        "op": "read",
        "start_ns": start[at] + 3_000 - (in_flight_ns or 0),
        "latency_ns": wait[at] + (in_flight_ns or 0),
        "device_ns": wait[at],
        "offset_bytes": places[at] * page,
        "queue_depth": 1,
    }
    cache = [
        {
            "op_id": APP_ID_BASE + number,
            "tier": ("device" if in_flight_ns is None else "readahead") if missed[number] else "ram",
            "file": "/data/a.db",
            "offset_bytes": int(places[number]) * page,
            "size_bytes": page,
            "wait_ns": int(wait[number]),
        }
        for number in range(count)
    ]
    per_s = len(at) * page / 3
    counted = {
        "evicted_file_bytes_per_s": per_s * evicted,
        "refaulted_file_bytes_per_s": per_s * refaulted,
        "page_cache_drops_per_s": drops,
        "free_memory_bytes": free_bytes,
    }
    series = [
        {
            "time_ns": number * second,
            "kind": "host",
            "subject": "host",
            "metric": metric,
            "value": value * (metric != "page_cache_drops_per_s" or number == 2),
        }
        for number in (1, 2, 3)
        for metric, value in counted.items()
    ]
    series += [
        {"time_ns": number * second, "kind": "cgroup", "subject": subject, "metric": metric, "value": value}
        for number in (1, 2, 3)
        for subject, (most, used) in (groups or {}).items()
        for metric, value in {
            "memory_limit_bytes": most,
            "memory_used_bytes": used,
            "refaulted_file_bytes_per_s": per_s * refaulted,
        }.items()
    ]
    links = {"parent_id": APP_ID_BASE + at, "child_id": at, "kind": "serves"}
    return write_case(
        path, syscall=calls, block=requests, links=links, tables={"cache": cache, "series": series}
    )


def _refaulted(
    path: Path, *, part: float, free_bytes: float, groups: Mapping[str, tuple[float, float]] | None = None
) -> Path:
    """6,000 pages of a mapped file, each read once while this is recorded; `part` of them had been in memory before and was evicted."""
    pages = np.arange(6000)
    return _paged(
        path,
        op="fault",
        places=pages,
        missed=np.ones(len(pages), np.bool_),
        refaulted=part,
        evicted=1.0,
        free_bytes=free_bytes,
        groups=groups,
    )


def emptied_cache(seed: int, path: Path) -> Path:
    """1,500 pages, sent four times over by sendfile: after the second time somebody empties the cache."""
    turn = np.arange(6000) // 1500
    return _paged(path, op="copy", places=np.arange(6000) % 1500, missed=turn % 2 == 0, drops=1.0)


def emptied_under_nowait(seed: int, path: Path) -> Path:
    """The same read by a program that tries without waiting (RWF_NOWAIT), which has the page fetched, and lets a worker wait for it."""
    turn = np.arange(6000) // 1500
    places, missed = np.arange(6000) % 1500, turn % 2 == 0
    return _paged(path, op="read", places=places, missed=missed, drops=1.0, in_flight_ns=20_000)


def evicted_under_nowait(seed: int, path: Path) -> Path:
    """The same, but the kernel evicts as much for want of memory: that somebody emptied the cache once was not it."""
    turn = np.arange(6000) // 1500
    places, missed = np.arange(6000) % 1500, turn % 2 == 0
    return _paged(path, op="read", places=places, missed=missed, drops=1.0, evicted=1.0, in_flight_ns=20_000)


def readahead_of_the_same(seed: int, path: Path) -> Path:
    """Two readers of the same pages, one behind the other: both wait for readahead that began before the first was done, while somebody empties the cache."""
    return _paged(
        path,
        op="read",
        places=np.arange(6000) // 2,
        missed=np.ones(6000, np.bool_),
        drops=1.0,
        in_flight_ns=700_000,
    )


def _dropped(path: Path, asked: tuple[str, int] | None) -> Path:
    """1,500 pages, read four times over, and each time fetched again, while the kernel evicts nothing for want of memory."""
    return _paged(path, op="read", places=np.arange(6000) % 1500, missed=np.ones(6000, np.bool_), asked=asked)


def own_drops(seed: int, path: Path) -> Path:
    """The reader has the pages dropped before each time, as fio does whenever it opens a file."""
    return _dropped(path, ("reader", 1500))


def drops_of_another(seed: int, path: Path) -> Path:
    """A tool that backs the file up has them dropped."""
    return _dropped(path, ("backup", 1500))


def drops_unseen(seed: int, path: Path) -> Path:
    """Somebody has them dropped whose calls were not recorded."""
    return _dropped(path, None)


def group_too_small(seed: int, path: Path) -> Path:
    """A control group's limit evicts pages that are read again, while the machine has memory to spare."""
    return _refaulted(path, part=0.9, free_bytes=8e9)


def machine_too_small(seed: int, path: Path) -> Path:
    """The same on a machine without free memory: larger data than memory, as planned or not."""
    return _refaulted(path, part=0.9, free_bytes=1e6)


def limited_group(seed: int, path: Path) -> Path:
    """A machine without free memory, and a group of 16 MiB within one of 1 GiB that has room."""
    groups = {"/kube": (2.0**30, 2.0**28), "/kube/db": (2.0**24, 0.99 * 2**24)}
    return _refaulted(path, part=0.9, free_bytes=1e6, groups=groups)


def group_with_room(seed: int, path: Path) -> Path:
    """The same, but the group is not at its limit: the machine's memory is what is short."""
    return _refaulted(path, part=0.9, free_bytes=1e6, groups={"/kube/db": (2.0**30, 2.0**28)})


def read_for_the_first_time(seed: int, path: Path) -> Path:
    """As much is evicted, but next to nothing of what is read had been there: a stream through a small group."""
    return _refaulted(path, part=0.1, free_bytes=8e9)


def cache_too_small(seed: int, path: Path) -> Path:
    """Room for 320 of 400 pieces: a fifth of what was read before has to be fetched again."""
    return _cached(seed, path, 320)


def warming_cache(seed: int, path: Path) -> Path:
    """Room for all of them, and none is there at first."""
    return _cached(seed, path, 500, warm=False)


def nearly_warm(seed: int, path: Path) -> Path:
    """The ramp left a few pieces out: their misses are outliers among hits, and as long as misses are."""
    return _cached(seed, path, 500, warm=False, ramp=2000)


def _stopped(seed: int, path: Path, length_us: float, every_ms: float) -> Path:
    """One worker that a signal stops: shorter than a silence that the table `gaps` keeps."""
    simulation = Simulation(seed=seed, depth=4, seconds=0.6, typical_us=120.0, sigma=0.15)
    rng = np.random.default_rng([seed, 46])
    moments = np.arange(0.02, 0.58, every_ms / 1e3) + rng.uniform(0, every_ms / 2e3)
    simulation.stop(0, moments.tolist(), length_us / 1e3)
    simulation.gaps.clear()
    app, block, links = simulation.lay_out()
    waits = [
        {
            "tid": 4300,
            "pid": 4200,
            "comm": "worker-0",
            "cpu": 0,
            "start_ns": int(moment * 1e9),
            "duration_ns": int(length_us * 1e3),
            "state": "stopped",
            "cause": "SIGSTOP",
            "cause_pid": None,
        }
        for moment in moments
    ]
    meta = {"duration_ns": int(simulation.seconds * 1e9), "workload": simulation.workload()}
    return write_case(path, app=app, block=block, links=links, tables={"waits": waits}, meta=meta)


def short_stops(seed: int, path: Path) -> Path:
    """Stops of 700 us every 10 ms: the 99th percentile is theirs."""
    return _stopped(seed, path, 700.0, 10.0)


def tiny_stops(seed: int, path: Path) -> Path:
    """Stops of 20 us: nobody feels them."""
    return _stopped(seed, path, 20.0, 10.0)
