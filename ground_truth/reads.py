"""Sealed cases of reads through a cache: tails that are missed each time, and what only looks like it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, SYSCALL_ID_BASE, write_case

KIB, MIB = 1024, 1 << 20
#: Copies a page of memory, ns.
PAGE_NS = 300


def build(
    path: Path,
    *,
    read_bytes: int,
    pieces: list[list[tuple[int, int, str, int]]],
    seed: int,
    read_ahead_kb: int = 128,
    max_sectors_kb: int = 1280,
    rotational: bool = True,
    block: Mapping[str, Any] | None = None,
    prefetch: Sequence[Mapping[str, Any]] = (),
    max_hw_sectors_kb: int | None = None,
    server: str | None = None,
    client_kib: int | None = None,
    scattered: bool = False,
    hits_have_no_device: bool = False,
    links: Mapping[str, Any] | None = None,
) -> Path:
    """A serial reader that reads on; `pieces` are (offset in the read, bytes, tier, wait ns) of each read.

    `server`: it serves a client, each of whose operations of `client_kib` takes one read. `scattered`: it reads on nowhere. `hits_have_no_device`: as a
    recording of system calls has it.
    """
    rng = np.random.default_rng([seed, 5])
    count = len(pieces)
    copy_ns = read_bytes // 4096 * PAGE_NS
    wait_ns = np.array([sum(wait for *_, wait in read) for read in pieces])
    latency = (wait_ns + copy_ns * rng.uniform(0.95, 1.05, count)).astype(np.int64)
    start = np.concatenate(([0], np.cumsum(latency + 20_000)[:-1])).astype(np.int64)
    places = rng.permutation(count) if scattered else np.arange(count)
    app = {
        "op_id": APP_ID_BASE + np.arange(count),
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": latency,
        "offset_bytes": places.astype(np.int64) * read_bytes,
        "size_bytes": [read_bytes] * count,
        "queue_depth": [1] * count,
        "tid": [101] * count,
        "file": ["/data/a.vhd"] * count,
        "device": [
            None if hits_have_no_device and all(tier == "ram" for _, _, tier, _ in read) else "sda"
            for read in pieces
        ],
        "flags": 0,
    }
    if block is not None and links is not None:
        app |= {"device_ns": wait_ns, "fs_ns": latency - wait_ns, "queue_ns": 0, "runqueue_ns": 0}
    cache: list[dict[str, Any]] = [
        {
            "op_id": APP_ID_BASE + number,
            "tier": tier,
            "file": "/data/a.vhd",
            "offset_bytes": int(places[number]) * read_bytes + at,
            "size_bytes": size,
            "wait_ns": wait,
        }
        for number, read in enumerate(pieces)
        for at, size, tier, wait in read
    ]
    tables = {"cache": cache, "prefetch": prefetch}
    if server is None:
        case = write_case(path, app=app, block=block, links=links, tables=tables, devices=("sda",))
    else:
        assert client_kib is not None
        calls = {**app, "op_id": SYSCALL_ID_BASE + np.arange(count)}
        for row in cache:
            row["op_id"] += SYSCALL_ID_BASE - APP_ID_BASE
        client = {**app, "size_bytes": [client_kib * KIB] * count, "app_ns": 0, "file": None, "op": "copy"}
        links = {"parent_id": client["op_id"], "child_id": calls["op_id"], "bytes": calls["size_bytes"]}
        about = {"program": "copy smb_copychunk", "server": server}
        case = write_case(
            path,
            app=client,
            syscall=calls,
            block=block,
            links=links,
            tables=tables,
            devices=("sda",),
            meta={"workload": about},
        )
    _set_queue(case, read_ahead_kb, max_sectors_kb, rotational, max_hw_sectors_kb)
    return case


def _set_queue(
    case: Path, read_ahead_kb: int, max_sectors_kb: int, rotational: bool, max_hw_sectors_kb: int | None
) -> None:
    path = case / "system.json"
    system = json.loads(path.read_text(encoding="utf-8"))
    queue = {
        "read_ahead_kb": str(read_ahead_kb),
        "max_sectors_kb": str(max_sectors_kb),
        "rotational": str(int(rotational)),
    }
    if max_hw_sectors_kb is not None:
        queue["max_hw_sectors_kb"] = str(max_hw_sectors_kb)
    system["devices"]["sda"]["queue"] = {**system["devices"]["sda"].get("queue", {}), **queue}
    path.write_text(json.dumps(system), encoding="utf-8")


def outrun(
    seed: int,
    path: Path,
    read_ahead_kb: int = 128,
    max_hw_sectors_kb: int | None = None,
    server: str | None = None,
    client_kib: int | None = None,
) -> Path:
    """Reads of 8 MiB + 256 KiB: 8 MiB are there, the tail is not."""
    rng = np.random.default_rng([seed, 6])
    waits = rng.lognormal(np.log(20e6), 0.3, 200).astype(int)
    pieces = [[(0, 8 * MIB, "ram", 0), (8 * MIB, 256 * KIB, "hdd", int(wait))] for wait in waits]
    return build(
        path,
        read_bytes=8 * MIB + 256 * KIB,
        pieces=pieces,
        seed=seed,
        read_ahead_kb=read_ahead_kb,
        max_hw_sectors_kb=max_hw_sectors_kb,
        server=server,
        client_kib=client_kib,
    )


def linux_tail(seed: int, path: Path) -> Path:
    """Random reads of 132 KiB with readahead and requests of 128 KiB: the last page is waited for by itself."""
    rng = np.random.default_rng([seed, 7])
    waits = rng.uniform(12e6, 40e6, (150, 2)).astype(int)
    pieces = [
        [(0, 128 * KIB, "device", int(first)), (128 * KIB, 4 * KIB, "device", int(second))]
        for first, second in waits
    ]
    return build(path, read_bytes=132 * KIB, pieces=pieces, seed=seed, max_sectors_kb=128)


def one_request(seed: int, path: Path) -> Path:
    """The control: max_sectors_kb lets the same read go in one request; slow, but nothing is wrong with its shape."""
    rng = np.random.default_rng([seed, 8])
    pieces = [[(0, 132 * KIB, "device", int(wait))] for wait in rng.uniform(12e6, 40e6, 150)]
    return build(path, read_bytes=132 * KIB, pieces=pieces, seed=seed)


def scattered_misses(seed: int, path: Path) -> Path:
    """Every read misses 256 KiB somewhere: a cache that is too small, not a shape."""
    rng = np.random.default_rng([seed, 9])
    size = 8 * MIB + 256 * KIB
    pieces = []
    for wait in rng.uniform(10e6, 30e6, 200):
        at = int(rng.integers(0, (size - 256 * KIB) // 4096)) * 4096
        pieces.append([(at, 256 * KIB, "hdd", int(wait))])
    return build(path, read_bytes=size, pieces=pieces, seed=seed)


def tails_of_a_slow_disk(seed: int, path: Path) -> Path:
    """The tail is missed each time, and costs little; 70 reads of 1,000 wait for a request that takes the disk 500 times as long as the others."""
    rng = np.random.default_rng([seed, 16])
    count = 1000
    waits = (20e3 * rng.lognormal(0, 0.2, count)).astype(int)
    waits[rng.permutation(count)[:70]] = 10_000_000
    pieces = [[(0, 8 * MIB, "ram", 0), (8 * MIB, 256 * KIB, "device", int(wait))] for wait in waits]
    read_ns = 8 * MIB // 4096 * PAGE_NS + waits
    number = np.arange(count)
    block = {
        "op_id": BLOCK_ID_BASE + number,
        "start_ns": np.cumsum(read_ns + 60_000) - read_ns,
        "latency_ns": waits,
        "device_ns": waits,
        "offset_bytes": number * 256 * KIB,
        "size_bytes": 256 * KIB,
        "queue_depth": 1,
        "device": "sda",
    }
    links = {"parent_id": APP_ID_BASE + number, "child_id": block["op_id"]}
    return build(path, read_bytes=8 * MIB + 256 * KIB, pieces=pieces, seed=seed, block=block, links=links)


def moving_begin(seed: int, path: Path) -> Path:
    """Recorded of a reader of 576 KiB over readahead of 128 KiB: waits begin at 448 KiB or 512 KiB by turns; the last 64 KiB are always in."""
    rng = np.random.default_rng([seed, 14])
    pieces = []
    for number, wait in enumerate(rng.lognormal(np.log(2.6e6), 0.3, 300).astype(int)):
        at = (448 if number % 2 else 512) * KIB
        pieces.append([(0, at, "ram", 0), (at, 576 * KIB - at, "device", int(wait))])
    return build(path, read_bytes=576 * KIB, pieces=pieces, seed=seed, max_sectors_kb=128)


def tail_in_flight(seed: int, path: Path) -> Path:
    """Its look-alike: a disk slower than its reader. The end of each read is still in flight, asked for long before the read."""
    rng = np.random.default_rng([seed, 15])
    waits = rng.lognormal(np.log(11e6), 0.2, 200).astype(int)
    pieces = [[(0, 6 * MIB, "ram", 0), (6 * MIB, 2 * MIB, "readahead", int(wait))] for wait in waits]
    return build(path, read_bytes=8 * MIB, pieces=pieces, seed=seed, read_ahead_kb=8192)


def cheap_tails(seed: int, path: Path) -> Path:
    """The tail is missed each time, but comes from the SSD tier: no visible loss, and a test that hides it."""
    rng = np.random.default_rng([seed, 10])
    pieces = [
        [(0, 8 * MIB, "ram", 0), (8 * MIB, 256 * KIB, "ssd", int(wait))]
        for wait in rng.uniform(8e3, 20e3, 200)
    ]
    return build(path, read_bytes=8 * MIB + 256 * KIB, pieces=pieces, seed=seed)


def _read_on(
    seed: int,
    path: Path,
    *,
    window_kb: int,
    wait_ns: float,
    read_kib: int = 64,
    scattered: bool = False,
    each_waits: int = 1,
) -> Path:
    """Reads in order; readahead of `window_kb` follows them, page by page if it is 0, and every one (or one of so many) waits for the piece in flight; the
    others find theirs in memory."""
    rng = np.random.default_rng([seed, 11])
    count = 600
    waits = rng.lognormal(np.log(wait_ns), 0.2, count).astype(int)
    pieces = [
        [(0, read_kib * KIB, "ram", 0) if at % each_waits else (0, read_kib * KIB, "readahead", int(wait))]
        for at, wait in enumerate(waits)
    ]
    fetched_kib = window_kb or 4
    number = np.arange(count * read_kib // fetched_kib)
    block = {
        "op_id": BLOCK_ID_BASE + number,
        "start_ns": number * 100_000,
        "latency_ns": rng.integers(80_000, 120_000, len(number)),
        "device": "sda",
        "offset_bytes": number * fetched_kib * KIB,
        "size_bytes": fetched_kib * KIB,
        "flags": 4,
    }
    whole = count * read_kib * KIB
    account = {
        "file": "/data/a.vhd",
        "start_ns": 0,
        "duration_ns": 10**9,
        "issued_bytes": whole,
        "used_bytes": whole,
        "wasted_bytes": 0,
        "late_bytes": whole // 2,
        "missed_bytes": whole // 50,
    }
    return build(
        path,
        read_bytes=read_kib * KIB,
        pieces=pieces,
        seed=seed,
        read_ahead_kb=window_kb,
        block=block,
        prefetch=[account],
        scattered=scattered,
        hits_have_no_device=each_waits > 1,
    )


def small_window(seed: int, path: Path) -> Path:
    """Readahead of 16 KiB for somebody who reads on in order."""
    return _read_on(seed, path, window_kb=16, wait_ns=400_000)


def reads_less_than_a_window(seed: int, path: Path) -> Path:
    """It reads 8 KiB at a time and waits in one read of two: the other finds what was fetched with it. Readahead of 16 KiB is too small for it."""
    return _read_on(seed, path, window_kb=16, wait_ns=400_000, read_kib=8, each_waits=2)


def random_reads_with_hits(seed: int, path: Path) -> Path:
    """The same, here and there: one read of two is in memory, and no window would bring the others any sooner."""
    return _read_on(seed, path, window_kb=16, wait_ns=400_000, read_kib=8, each_waits=2, scattered=True)


def no_window(seed: int, path: Path) -> Path:
    """Readahead is switched off: what a read asks for is fetched page by page, even where nobody reads on."""
    return _read_on(seed, path, window_kb=0, wait_ns=400_000, scattered=seed % 2 == 1)


def no_window_for_pages(seed: int, path: Path) -> Path:
    """Readahead is switched off, and nobody misses it: single pages are read, here and there."""
    return _read_on(seed, path, window_kb=0, wait_ns=100_000, read_kib=4, scattered=True)


def default_window(seed: int, path: Path) -> Path:
    """The same waiting behind the default window: the device is no faster."""
    return _read_on(seed, path, window_kb=128, wait_ns=400_000)


def cheap_window(seed: int, path: Path) -> Path:
    """A small window that costs nothing: what is fetched ahead is there in time."""
    return _read_on(seed, path, window_kb=16, wait_ns=300)


def in_memory(seed: int, path: Path) -> Path:
    """Everything is in RAM."""
    rng = np.random.default_rng([seed, 12])
    size = int(rng.choice([64, 128, 256])) * KIB
    return build(path, read_bytes=size, pieces=[[(0, size, "ram", 0)]] * 300, seed=seed)


def _rates(path: Path, rates: list[int], seed: int) -> Path:
    """One operation after the other at a number per second that is given for each second."""
    start = np.concatenate([np.arange(r) * (10**9 // r) + s * 10**9 for s, r in enumerate(rates) if r])
    latency = np.random.default_rng([seed, 13]).integers(80_000, 120_000, len(start))
    app = {
        "op_id": APP_ID_BASE + np.arange(len(start)),
        "start_ns": start,
        "latency_ns": latency,
        "device_ns": latency,
        "device": "nvme0n1",
        "queue_depth": 1,
        "tid": 101,
    }
    return write_case(path, app=app, meta={"duration_ns": len(rates) * 10**9})


def warming_up(seed: int, path: Path) -> Path:
    """Half a minute of warm-up, at twice the rate that remains."""
    return _rates(path, [800] * 15 + [600] * 15 + [400] * 30, seed)


def constant_rate(seed: int, path: Path) -> Path:
    """A rate that varies by a few percent."""
    rng = np.random.default_rng([seed, 14])
    return _rates(path, [int(rate) for rate in rng.uniform(380, 420, 60)], seed)


def _read_ahead(seed: int, path: Path, part: float) -> Path:
    """A program reads a large file from its begin to its end and computes; readahead has the next piece ready, 256 KiB in 260 us, and only where a piece is late
    does a call wait. `part` of the requests take 15 ms longer."""
    rng = np.random.default_rng([seed, 99])
    requests, each = 3_000, 8
    took = (260_000 * np.exp(rng.normal(0, 0.15, requests))).astype(np.int64)
    took += 15_000_000 * (rng.random(requests) < part)
    # A piece is asked for when the one before begins to be read, which takes 1.6 ms.
    computes = 200_000
    late = np.maximum(0, took - computes * each)
    # Now and then the program reads faster than usual, and waits for a piece that took no longer than others.
    early = (rng.random(requests) < 0.008) & (late == 0)
    late[early] = took[early] // 3
    calls = requests * each
    waits = np.zeros(calls, np.int64)
    waits[::each] = late
    latency = (6_000 * np.exp(rng.normal(0, 0.2, calls))).astype(np.int64) + waits
    start = np.cumsum(latency + computes) - latency
    first = np.arange(0, calls, each)
    waited = first[late > 0]
    syscall = {
        "op_id": SYSCALL_ID_BASE | np.arange(calls),
        "start_ns": start,
        "latency_ns": latency,
        "fs_ns": latency - waits,
        "queue_ns": 0,
        "device_ns": waits,
        "op": "read",
        "size_bytes": 32 * KIB,
        "tid": 41,
        "pid": 41,
        "comm": "sha256sum",
        "device": np.where(waits > 0, "nvme0n1", ""),
        "queue_depth": 1,
    }
    block = {
        "op_id": BLOCK_ID_BASE | np.arange(requests),
        # It ends when the call that waits for it goes on.
        "start_ns": np.maximum(0, start[first] + np.where(late > 0, latency[first], 0) - took),
        "latency_ns": took,
        "queue_ns": 2_000,
        "device_ns": took - 4_000,
        "interrupt_ns": 2_000,
        "op": "read",
        "size_bytes": 256 * KIB,
        "tid": 41,
        "pid": 41,
        "comm": "sha256sum",
        "device": "nvme0n1",
        "queue_depth": 1,
    }
    links = {
        "parent_id": SYSCALL_ID_BASE | waited,
        "child_id": BLOCK_ID_BASE | (waited // each),
        "bytes": 256 * KIB,
    }
    meta = {"duration_ns": int(start[-1] + latency[-1]) + 1_000_000}
    return write_case(path, syscall=syscall, block=block, links=links, meta=meta)


def late_read_ahead(seed: int, path: Path) -> Path:
    """One request in 100 takes 15 ms longer: most of the calls that wait at all wait for one of these."""
    return _read_ahead(seed, path, 0.01)


def early_reader(seed: int, path: Path) -> Path:
    """None does: calls that wait came a little too early."""
    return _read_ahead(seed, path, 0.0)
