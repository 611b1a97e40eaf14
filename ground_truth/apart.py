"""Sealed cases in which single operations take far longer than the rest, or only seem to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

TID, COMM = 4300, "fio"


def _reads(seed: int, count: int) -> tuple[np.random.Generator, dict[str, Any]]:
    """One thread that reads one block after the other, 66 us each as a system call; nothing is wrong."""
    rng = np.random.default_rng([seed, 91])
    device = (60_000 * np.exp(rng.normal(0, 0.15, count))).astype(np.int64)
    return rng, {
        "op_id": APP_ID_BASE | np.arange(count),
        "device": "nvme0n1",
        "size_bytes": 4096,
        "queue_depth": 1,
        "tid": TID,
        "comm": COMM,
        "app_ns": np.zeros(count, np.int64),
        "fs_ns": np.full(count, 3_000),
        "queue_ns": np.full(count, 2_000),
        "device_ns": device,
        "interrupt_ns": np.full(count, 1_000),
        "reap_ns": np.zeros(count, np.int64),
    }


def _laid_out(app: dict[str, Any], before_ns: np.ndarray[Any, Any]) -> dict[str, Any]:
    """One after the other, with pauses before each."""
    latency = sum(app[f"{stage}_ns"] for stage in ("app", "fs", "queue", "device", "interrupt", "reap"))
    app["latency_ns"] = latency
    app["start_ns"] = np.cumsum(latency + before_ns + 500) - latency
    return app


def stops_between_reads(seed: int, path: Path) -> Path:
    """The thread is stopped seven times for 70 ms, each time between two reads: no read knows of it."""
    rng, app = _reads(seed, 40_000)
    before = np.zeros(40_000, np.int64)
    where = np.sort(rng.choice(np.arange(2_000, 38_000, 500), 7, replace=False))
    before[where] = rng.integers(68_000_000, 72_000_000, 7)
    app = _laid_out(app, before)
    end = int((app["start_ns"] + app["latency_ns"]).max())
    waits = [
        {
            "tid": TID,
            "pid": TID,
            "comm": COMM,
            "cpu": 0,
            "start_ns": int(app["start_ns"][place] - before[place]),
            "duration_ns": int(before[place]),
            "state": "stopped",
            "cause": "SIGSTOP",
            "cause_pid": None,
        }
        for place in where
    ]
    return write_case(path, app=app, meta={"duration_ns": end}, tables={"waits": waits})


def once_in_the_queue(seed: int, path: Path) -> Path:
    """One or two reads wait 18 to 113 ms in the queue, far from each other; their time in the device is ordinary."""
    rng, app = _reads(seed, 40_000)
    number = int(rng.integers(1, 3))
    app["queue_ns"][rng.choice(40_000, number, replace=False)] += rng.integers(
        18_000_000, 113_000_000, number
    )
    app = _laid_out(app, np.zeros(40_000, np.int64))
    end = int((app["start_ns"] + app["latency_ns"]).max())
    below = ("queue_ns", "device_ns", "interrupt_ns")
    block = {name: app[name] for name in (*below, "device", "size_bytes", "queue_depth", "tid", "comm")}
    block |= {
        "op_id": BLOCK_ID_BASE | np.arange(40_000),
        "start_ns": app["start_ns"] + app["fs_ns"],
        "latency_ns": sum(app[name] for name in below),
    }
    links = {"parent_id": app["op_id"], "child_id": block["op_id"]}
    return write_case(path, app=app, block=block, links=links, meta={"duration_ns": end})


def heavy_tail(seed: int, path: Path) -> Path:
    """The device's own times have a tail as heavy as 1 / x^2: its longest is often twice the next, and belongs to the rest."""
    rng, app = _reads(seed, 40_000)
    app["device_ns"] = (app["device_ns"] * rng.random(40_000) ** -0.5).astype(np.int64)
    app = _laid_out(app, np.zeros(40_000, np.int64))
    return write_case(path, app=app, meta={"duration_ns": int((app["start_ns"] + app["latency_ns"]).max())})


def _fired(app: dict[str, Any], place: int, limit_ms: float) -> dict[str, Any]:
    """What a flight recorder notes of an operation that triggered."""
    return {
        "trigger": f"latency > {limit_ms:g}ms",
        "measure": "latency",
        "limit_ns": int(limit_ms * 1e6),
        "time_ns": int(app["latency_ns"][place]),
        "start_ns": int(app["start_ns"][place]),
        "layer": "syscall",
        "op": "read",
        "device": "nvme0n1",
        "pid": TID,
        "tid": TID,
        "comm": COMM,
    }


def fired_on_one_of_many(seed: int, path: Path) -> Path:
    """A flight recorder wrote the case when a read took 2 ms: the tail is heavy, and there are longer ones, which nobody asked for."""
    rng, app = _reads(seed, 40_000)
    app["device_ns"] = (app["device_ns"] * rng.random(40_000) ** -0.5).astype(np.int64)
    place = 30_000
    app["device_ns"][place] = 70_000
    app["queue_ns"][place] = 2_100_000
    app = _laid_out(app, np.zeros(40_000, np.int64))
    end = int((app["start_ns"] + app["latency_ns"]).max())
    return write_case(path, syscall=app, meta={"duration_ns": end, "fired": [_fired(app, place, 2.0)]})


def fired_on_what_nobody_waited_for(seed: int, path: Path) -> Path:
    """What triggered is a write of the page cache to the disk, which no call waited for: it is told by the layer of requests."""
    rng, app = _reads(seed, 20_000)
    app = _laid_out(app, np.zeros(20_000, np.int64))
    end = int((app["start_ns"] + app["latency_ns"]).max())
    start = np.sort(rng.integers(0, end - 100_000_000, 2_000))
    device = (80_000 * np.exp(rng.normal(0, 0.15, 2_000))).astype(np.int64)
    device[1_500] = 61_000_000
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(2_000),
        "start_ns": start,
        "latency_ns": device + 2_000,
        "queue_ns": np.full(2_000, 2_000),
        "device_ns": device,
        "op": "write",
        "comm": "kworker/u8:1",
        "tid": 77,
        "device": "nvme0n1",
        "size_bytes": 4096,
    }
    fired = _fired(block, 1_500, 50.0) | {
        "layer": "block",
        "op": "write",
        "pid": 77,
        "tid": 77,
        "comm": "kworker/u8:1",
    }
    return write_case(path, syscall=app, block=block, meta={"duration_ns": end, "fired": [fired]})


def fired_among_few(seed: int, path: Path) -> Path:
    """A flight recorder wrote a case of 60 reads, one of which waited 60 ms in the queue: too few for anything but to tell this one."""
    _, app = _reads(seed, 60)
    app["queue_ns"][40] += 60_000_000
    app = _laid_out(app, np.full(60, 50_000_000))
    end = int((app["start_ns"] + app["latency_ns"]).max())
    return write_case(path, syscall=app, meta={"duration_ns": end, "fired": [_fired(app, 40, 50.0)]})


def stopped_server(seed: int, path: Path) -> Path:
    """Four threads of a server wait for work, read 100 us, and wait again. All of them are stopped nine times for 90 ms: who is in a read then ends it
    that much later, and who waits for work begins the next one so."""
    rng = np.random.default_rng([seed, 92])
    stops = np.sort(rng.choice(np.arange(500, 9_500, 200), 9, replace=False)) * 1_000_000
    calls: list[dict[str, Any]] = []
    waits: list[dict[str, Any]] = []
    for number in range(4):
        tid, now, left = TID + number, 1_000_000 + 50_000 * number, [int(at) for at in stops]
        while now < 10_000_000_000:
            length, idle = int(rng.integers(90_000, 110_000)), int(rng.exponential(700_000)) + 50_000
            held = 0
            if left and left[0] < now + length + idle:
                at = left.pop(0)
                held = 90_000_000 if at < now + length else 0
                lasts = at + 90_000_000
                common = {"tid": tid, "pid": TID, "comm": "server", "cpu": number % 2, "start_ns": at}
                waits.append({**common, "duration_ns": 90_000_000, "state": "stopped", "cause": "SIGSTOP"})
                idle = idle if held else max(idle, lasts - now - length)
            calls.append(
                {"start_ns": now, "latency_ns": length + held, "fs_ns": 5_000, "tid": tid, "reap_ns": held}
            )
            now += length + held + idle
    calls.sort(key=lambda call: call["start_ns"])
    columns: dict[str, Any] = {name: np.array([call[name] for call in calls]) for name in calls[0]}
    columns["device_ns"] = columns["latency_ns"] - columns["fs_ns"] - columns["reap_ns"]
    columns |= {
        "op_id": APP_ID_BASE + np.arange(len(calls)),
        "comm": "server",
        "pid": TID,
        "device": "nvme0n1",
        "size_bytes": 8192,
        "queue_depth": 1,
    }
    return write_case(path, syscall=columns, tables={"waits": waits}, meta={"duration_ns": 10_100_000_000})


def two_reads_missed_the_cache(seed: int, path: Path) -> Path:
    """Buffered reads of 8 us from the page cache, nearly alike; two of them were not there, and took what a read of this device takes."""
    rng, app = _reads(seed, 12_000)
    app["fs_ns"] = rng.integers(7_000, 7_600, 12_000)
    missed = rng.choice(12_000, 2, replace=False)
    for stage in ("queue_ns", "device_ns", "interrupt_ns"):
        spent = np.zeros(12_000, np.int64)
        spent[missed] = np.broadcast_to(app[stage], 12_000)[missed]
        app[stage] = spent
    app = _laid_out(app, rng.exponential(100_000, 12_000).astype(np.int64))
    end = int((app["start_ns"] + app["latency_ns"]).max())
    return write_case(path, app=app, meta={"duration_ns": end})


def _read_ahead(seed: int, path: Path, stalls: int) -> Path:
    """A file read in order through the page cache, ahead of the program: 16 requests of 512 KiB at a time, which the disk serves one after the other, 2 ms each.

    Every 256th read waits for some 10 ms until what it needs is there. In some of these waits the disk stalls for 600 ms.
    """
    count, batch, each_ns = 10_240, 256, 2_000_000
    rng = np.random.default_rng([seed, 95])
    waits = np.arange(batch // 2, count, batch)
    device = np.zeros(count, np.int64)
    device[waits] = rng.integers(8_000_000, 20_000_000, len(waits))
    stalled = np.sort(rng.choice(len(waits), stalls, replace=False))
    device[waits[stalled]] += 600_000_000
    fs = rng.integers(3_500, 4_500, count)
    start = np.cumsum(device + fs + 100_000) - (device + fs)
    op_id = SYSCALL_ID_BASE | np.arange(count)
    calls = {
        "op_id": op_id,
        "start_ns": start,
        "latency_ns": device + fs,
        "fs_ns": fs,
        "queue_ns": 0,
        "device_ns": device,
        "device": "sda",
        "size_bytes": 32_768,
        "queue_depth": 1,
        "file": "/data/film",
        "offset_bytes": np.arange(count) * 32_768,
        "tid": TID,
        "pid": TID,
        "comm": COMM,
    }
    # The requests of a batch end one after the other, the first of them with the read that waits for it.
    turn = np.tile(np.arange(1, 17), len(waits))
    first = np.repeat(device[waits], 16)
    begun = np.repeat(start[waits], 16)
    latency = first + (turn - 1) * each_ns
    block: dict[str, Any] = {
        "op_id": BLOCK_ID_BASE | np.arange(len(begun)),
        "start_ns": begun,
        "latency_ns": latency,
        "queue_ns": 0,
        "device_ns": latency,
        "device": "sda",
        "size_bytes": 512 << 10,
        "offset_bytes": np.arange(len(begun)) * (512 << 10),
        "queue_depth": turn,
        "tid": TID,
        "pid": TID,
        "comm": COMM,
    }
    links = {"parent_id": op_id[waits], "child_id": block["op_id"][::16], "bytes": 32_768}
    tiers = [
        {
            "op_id": int(one),
            "tier": "readahead" if held else "ram",
            "file": "/data/film",
            "offset_bytes": number * 32_768,
            "size_bytes": 32_768,
            "wait_ns": int(held),
        }
        for number, (one, held) in enumerate(zip(op_id, device, strict=True))
    ]
    end = int((begun + latency).max())
    return write_case(
        path,
        syscall=calls,
        block=block,
        links=links,
        tables={"cache": tiers},
        devices=("sda",),
        meta={"duration_ns": end},
    )


def waits_for_read_ahead(seed: int, path: Path) -> Path:
    """Nothing is wrong: beside reads from memory each that has to wait for the disk is long."""
    return _read_ahead(seed, path, 0)


def stall_in_read_ahead(seed: int, path: Path) -> Path:
    """The same; once the disk did nothing for 600 ms, many times as long as its requests take."""
    return _read_ahead(seed, path, 1)
