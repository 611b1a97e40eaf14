"""Sealed cases of databases that make their commits durable, on a disk whose cache has to be flushed; and of programs whose files a journal commits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.reading.flush_waits import FLUSH, KERNEL

DISK = "sda"
MS = 1_000_000


@dataclass
class _Rows:
    """Operations of both layers and what ties them, as a recording of one program has them."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    links: list[tuple[int, int, str]] = field(default_factory=list)
    waits: list[dict[str, Any]] = field(default_factory=list)

    def call(
        self,
        tid: int,
        comm: str,
        op: str,
        begin_ns: int,
        latency_ns: int,
        flags: int = 0,
        size_bytes: int = 8192,
        **stages: int,
    ) -> int:
        """A system call; what its stages leave is `fs`. Its id."""
        number = APP_ID_BASE + len(self.calls)
        row: dict[str, Any] = {
            "op_id": number,
            "start_ns": begin_ns,
            "latency_ns": latency_ns,
            "op": op,
            "flags": flags,
            "tid": tid,
            "pid": tid,
            "comm": comm,
            "device": DISK,
            "size_bytes": size_bytes if op in ("read", "write") else 0,
            **dict.fromkeys(("queue_ns", "device_ns", "interrupt_ns", "runqueue_ns"), 0),
        }
        row |= {f"{stage}_ns": ns for stage, ns in stages.items()}
        row["fs_ns"] = latency_ns - sum(stages.values())
        self.calls.append(row)
        return number

    def request(
        self,
        op: str,
        begin_ns: int,
        queue_ns: int,
        device_ns: int,
        flags: int = 0,
        size_bytes: int = 8192,
        who: tuple[int, str] | None = None,
    ) -> int:
        """A request; without `who` it has no program, as flush commands have none. Its id."""
        number = BLOCK_ID_BASE + len(self.requests)
        self.requests.append(
            {
                "op_id": number,
                "start_ns": begin_ns,
                "latency_ns": queue_ns + device_ns,
                "op": op,
                "flags": flags,
                "tid": who[0] if who else None,
                "pid": who[0] if who else None,
                "comm": who[1] if who else None,
                "device": DISK,
                "size_bytes": size_bytes,
                "queue_ns": queue_ns,
                "device_ns": device_ns,
            }
        )
        return number

    def write(self, path: Path, command: str) -> Path:
        """The case, with rows in the order of their begin."""
        calls = sorted(self.calls, key=lambda row: row["start_ns"])
        requests = sorted(self.requests, key=lambda row: row["start_ns"])
        links = {
            "parent_id": [parent for parent, _, _ in self.links],
            "child_id": [child for _, child, _ in self.links],
            "kind": [kind for _, _, kind in self.links],
        }
        end = max(row["start_ns"] + row["latency_ns"] for row in calls + requests)
        return write_case(
            path,
            syscall={name: [row[name] for row in calls] for name in calls[0]},
            block={name: [row[name] for row in requests] for name in requests[0]},
            links=links,
            devices=(DISK,),
            tables={"waits": self.waits},
            meta={"version": 2, "observer": "record", "command": [command], "duration_ns": end + MS},
        )


@dataclass(frozen=True)
class _Database:
    """Clients that each read, write a record to a log, and wait until it is durable. One flush is at the device at a time and serves all whose data were there
    when it began; who comes later waits for the next one."""

    comm: str
    clients: int
    rounds: int
    #: Between two commits of a client: reads that the page cache answers, and what the program does besides.
    between_us: float
    #: What slow flushes take longer, and which part of them is slow.
    slower_ms: float = 0.0
    part: float = 0.0
    #: Whether slow flushes are those of the kernel's own commits, which no client asked for; in so many of a hundred rounds one is under way.
    of_kernel: bool = False
    #: Every so often, s, the device takes no write for so long, ms.
    pause_every_s: float = 0.0
    pause_ms: float = 0.0

    def write(self, seed: int, path: Path) -> Path:
        """The case of a run with this seed."""
        rng = np.random.default_rng([seed, 121])
        rows = _Rows()
        ready = {500 + client: int(rng.integers(MS, 3 * MS)) for client in range(self.clients)}
        free_ns, before = 0, None
        for _ in range(self.rounds * self.clients):
            if self.of_kernel and rng.random() < self.part:
                # Begun before the next client syncs: whoever does so now waits until it is done.
                alone = max(free_ns, min(ready.values()) - 50_000)
                length = int(self.slower_ms * MS * np.exp(rng.normal(0, 0.1)))
                before = rows.request("flush", alone, 2_000, length, FLUSH, 0)
                free_ns = alone + 2_000 + length
            begin = max(free_ns, min(ready.values()))
            served = [tid for tid, at in ready.items() if at <= begin]
            length = self._flush_ns(rng, begin)
            flush = rows.request("flush", begin, 2_000, length, FLUSH, 0)
            end = begin + 2_000 + length
            for tid in served:
                self._commit(rows, tid, ready[tid], flush, before, end)
                ready[tid] = self._goes_on(rng, rows, tid, end + 40_000)
            free_ns, before = end, flush
        return rows.write(path, self.comm)

    def _flush_ns(self, rng: np.random.Generator, begin_ns: int) -> int:
        length = 900_000 * np.exp(rng.normal(0, 0.2))
        if not self.of_kernel and rng.random() < self.part:
            length += self.slower_ms * MS
        if self.pause_every_s:
            every, pause = self.pause_every_s * 1e9, self.pause_ms * MS
            # A flush that meets a pause ends after it.
            since = begin_ns % every
            length += pause - since if since < pause else pause if since + length > every else 0.0
        return int(length)

    def _commit(
        self, rows: _Rows, tid: int, begin_ns: int, flush: int, before: int | None, end_ns: int
    ) -> None:
        """The sync of a client: its carrier waits for the flush that serves it, and behind the one that was at the device."""
        served = rows.requests[flush - BLOCK_ID_BASE]
        waited = served["start_ns"] - begin_ns - 20_000
        queued = max(0, waited)
        length = end_ns + 40_000 - begin_ns
        device = min(served["device_ns"], length - queued)
        sync = rows.call(tid, self.comm, "sync", begin_ns, length, FLUSH, queue=queued, device=device)
        carrier = rows.request(
            "write", begin_ns + 20_000, queued, device, 1 | FLUSH | KERNEL, who=(77, f"jbd2/{DISK}-8")
        )
        rows.links += [(sync, carrier, "waits_for"), (carrier, flush, "waits_for")]
        if queued and before is not None:
            rows.links.append((carrier, before, "queued_behind"))

    def _goes_on(self, rng: np.random.Generator, rows: _Rows, tid: int, at_ns: int) -> int:
        """What a client does until its next sync; when that begins."""
        for _ in range(2):
            rows.call(tid, self.comm, "read", at_ns, int(rng.integers(4_000, 9_000)))
            at_ns += int(rng.exponential(self.between_us * 500)) + 10_000
        rows.call(tid, self.comm, "write", at_ns, int(rng.integers(8_000, 14_000)))
        return at_ns + 20_000


def slow_commits(seed: int, path: Path) -> Path:
    """A database server with four clients: 2 % of the flushes take 25 ms longer."""
    return _Database("postgres", 4, 700, 700, slower_ms=25, part=0.02).write(seed, path)


def pausing_writes(seed: int, path: Path) -> Path:
    """The same server on a disk that takes no write for 40 ms every 1.7 s. Commits are what makes flushes: there is nobody beside them."""
    return _Database("postgres", 4, 1_200, 700, pause_every_s=0.6, pause_ms=40).write(seed, path)


def commits_behind_flushes(seed: int, path: Path) -> Path:
    """An embedded database, and now and then a commit of the kernel's own, whose flush takes 30 ms: who syncs meanwhile waits in the queue until
    the device is done with it."""
    return many_commits_behind_flushes(2_000, seed, path)


def many_commits_behind_flushes(commits: int, seed: int, path: Path) -> Path:
    """The same, with so many commits of the database."""
    return _Database("sqlite3", 1, commits, 700, slower_ms=30, part=0.02, of_kernel=True).write(seed, path)


def even_commits(seed: int, path: Path) -> Path:
    """The same server, and flushes that take as long as ever."""
    return _Database("postgres", 4, 700, 700).write(seed, path)


def files_behind_a_commit(seed: int, path: Path) -> Path:
    """tar makes many small files on a disk that takes 30 MiB/s. 1 in 75 calls that make or name a file waits 51 ms for the commit of the file system,
    which waits for the disk: eight writes of 512 KiB of the kernel's are in flight there all the time."""
    rng = np.random.default_rng([seed, 122])
    rows, tid, now = _Rows(), 600, MS
    for number in range(6_000):
        if number % 3:
            rows.call(tid, "tar", "write", now, length := int(rng.integers(9_000, 14_000)))
        else:
            length = int(45_000 * np.exp(rng.normal(0, 0.3)))
            if rng.random() < 1 / 75:
                slept = int(51 * MS * np.exp(rng.normal(0, 0.1)))
                rows.waits.append(
                    {
                        "tid": tid,
                        "pid": tid,
                        "comm": "tar",
                        "cpu": 0,
                        "start_ns": now + length // 2,
                        "duration_ns": slept,
                        "state": "blocked",
                        "cause": "wait_current_trans",
                    }
                )
                length += slept
            rows.call(tid, "tar", "other", now, length)
        now += length + int(rng.integers(5_000, 30_000))
    each, step = 8 * 16_600_000, 16_600_000
    for begin in range(0, now - each, step):
        took = int(each * np.exp(rng.normal(0, 0.05)))
        rows.request("write", begin, 5_000, took, KERNEL, 512 << 10, (88, "btrfs-endio-wri"))
    return rows.write(path, "tar")


#: Flag of a command that empties a device's cache (crates/case/src/schema.rs, flags).
_PREFLUSH = 1 << 7


def _reads_and_flushes(seed: int, path: Path, *, wait_for_flushes: bool) -> Path:
    """A program keeps four reads in flight, and four writes that each have to be durable; the device works on their flushes most of the time."""
    rng = np.random.default_rng([seed, 123])
    rows, tid, comm = _Rows(), 500, "fio"
    begin, reads = MS, [MS + 10_000 * n for n in range(4)]
    for _ in range(1_500):
        length = int(850_000 * np.exp(rng.normal(0, 0.05)))
        flush = rows.request("flush", begin, 0, length, _PREFLUSH, 0)
        end = begin + length
        for n in range(4):
            write = rows.call(tid, comm, "write", begin, length + 20_000 + 5_000 * n, 1, device=length)
            rows.links.append((write, flush, "waits_for"))
        for n in range(4):
            while (asked := reads[n]) < end:
                done = (
                    end + 30_000 + 5_000 * n
                    if wait_for_flushes
                    else asked + int(rng.integers(150_000, 250_000))
                )
                request = rows.request(
                    "read", asked + 2_000, 0, done - asked - 4_000, 1, 4096, who=(tid, comm)
                )
                read = rows.call(tid, comm, "read", asked, done - asked, device=done - asked - 4_000)
                rows.links.append((read, request, "waits_for"))
                reads[n] = done + 4_000
        begin = end + 100_000
    return rows.write(path, comm)


def reads_behind_flushes(seed: int, path: Path) -> Path:
    """The device serves nothing else while it flushes: what binds is the flushes, whatever is in flight."""
    return _reads_and_flushes(seed, path, wait_for_flushes=True)


def reads_beside_flushes(seed: int, path: Path) -> Path:
    """The device goes on serving reads while it flushes: these do not wait for it."""
    return _reads_and_flushes(seed, path, wait_for_flushes=False)


def _journaled_commits(
    seed: int,
    path: Path,
    *,
    slow_part: float,
    slower_us: float,
    sigma: float,
    much: bool = False,
    count: int = 2_500,
    beside: int = 0,
) -> Path:
    """An embedded database with a rollback journal: each commit writes five times and flushes four times, one after the other.

    `beside`: so many writes into memory after each of the `count` commits.
    """
    rng = np.random.default_rng([seed, 124])
    commits: list[dict[str, Any]] = []
    requests: list[dict[str, Any]] = []
    parents: list[int] = []
    now = MS
    for number in range(count):
        begin, held = now, 0
        for step in range(9):
            now += int(rng.integers(25_000, 45_000))
            is_flush = step % 2 == 1
            took = 45_000 * np.exp(rng.normal(0, sigma)) if is_flush else rng.integers(12_000, 18_000)
            slow = is_flush and rng.random() < slow_part
            if slow:
                took += slower_us * 1_000
            if slow and much:
                # A checkpoint: the write before it had much to write.
                requests[-1]["size_bytes"] = 4 << 20
            requests.append(
                {
                    "op_id": BLOCK_ID_BASE + len(requests),
                    "start_ns": now,
                    "latency_ns": int(took),
                    "op": "flush" if is_flush else "write",
                    "flags": _PREFLUSH if is_flush else 0,
                    "device": DISK,
                    "size_bytes": 0 if is_flush else 4096,
                    "queue_ns": 0,
                    "device_ns": int(took),
                }
            )
            parents.append(APP_ID_BASE + number)
            now += int(took)
            held += int(took)
        now += int(rng.integers(30_000, 60_000))
        commits.append(
            {
                "op_id": APP_ID_BASE + number,
                "start_ns": begin,
                "latency_ns": now - begin,
                "op": "sync",
                "tid": 501,
                "pid": 501,
                "comm": "sqlite",
                "device_ns": held,
                "fs_ns": now - begin - held,
            }
        )
        now += int(rng.integers(40_000, 80_000))
        for place in range(beside):
            took = int(rng.integers(2_500, 4_500))
            commits.append(
                {
                    **commits[-1],
                    "op_id": APP_ID_BASE + count + number * beside + place,
                    "start_ns": now,
                    "latency_ns": took,
                    "op": "write",
                    "device_ns": 0,
                    "fs_ns": took,
                }
            )
            now += took + int(rng.integers(20_000, 40_000))
    return write_case(
        path,
        app={name: [row[name] for row in commits] for name in commits[0]},
        block={name: [row[name] for row in requests] for name in requests[0]},
        links={
            "parent_id": parents,
            "child_id": [row["op_id"] for row in requests],
            "kind": ["waits_for"] * len(parents),
        },
        devices=(DISK,),
        meta={"duration_ns": now + MS},
    )


def slow_flushes_in_commits(seed: int, path: Path) -> Path:
    """1 in 80 flushes takes 1.2 ms longer: a commit that meets one takes some three times as long, which is nothing apart at its own layer."""
    return _journaled_commits(seed, path, slow_part=1 / 80, slower_us=1_200, sigma=0.25)


def flushes_of_much_in_commits(seed: int, path: Path) -> Path:
    """1 in 80 flushes takes 1.2 ms longer, and each of these makes a thousand times as much durable as others."""
    return _journaled_commits(seed, path, slow_part=1 / 80, slower_us=1_200, sigma=0.25, much=True)


def few_slow_flushes(seed: int, path: Path) -> Path:
    """A log that is made durable now and then: of some seventy flushes one in eight takes 30 ms longer. Beside them thousands of writes into memory."""
    return _journaled_commits(seed, path, slow_part=1 / 8, slower_us=30_000, sigma=0.25, count=18, beside=300)


def few_varied_flushes(seed: int, path: Path) -> Path:
    """The same log on a drive of which no flush takes longer than its kind does, which is often twice as long."""
    return _journaled_commits(seed, path, slow_part=0, slower_us=0, sigma=1.0, count=18, beside=300)


def varied_flushes_in_commits(seed: int, path: Path) -> Path:
    """Flushes vary as much as drives' flushes do, without two groups."""
    return _journaled_commits(seed, path, slow_part=0, slower_us=0, sigma=0.7)


def late_flushes_under_overload(seed: int, path: Path) -> Path:
    """A log is written and synced, write by write, and more is due than this gives; 1 in 25 flushes takes 12 ms longer."""
    return _overloaded_log(seed, path, 0.04)


def overloaded_log(seed: int, path: Path) -> Path:
    """The same, and no flush takes longer than others."""
    return _overloaded_log(seed, path, 0.0)


def _overloaded_log(seed: int, path: Path, late: float) -> Path:
    """One thread that may keep 8 in flight: after each write it syncs, and submits nothing until that is done. Writes are due every 200 us."""
    rng = np.random.default_rng([seed, 123])
    rounds, due_every = 4_000, 200_000
    written = (60e3 * np.exp(rng.normal(0, 0.2, rounds))).astype(np.int64)
    flushed = 300e3 * np.exp(rng.normal(0, 0.2, rounds)) + np.where(rng.random(rounds) < late, 12.0 * MS, 0.0)
    flushed = flushed.astype(np.int64)
    fs = 4_000
    took = written + flushed + 2 * fs
    begin = np.concatenate(([0], np.cumsum(took)[:-1])) + MS
    due = np.minimum(begin, np.arange(rounds) * due_every + MS)
    write = np.arange(2 * rounds) % 2 == 0
    submitted = np.where(write, np.repeat(begin, 2), np.repeat(begin + written + fs, 2))
    start = np.where(write, np.repeat(due, 2), submitted)
    device = np.where(write, np.repeat(written, 2), np.repeat(flushed, 2))
    number = np.arange(2 * rounds)
    common = {
        "device": DISK,
        "pid": 700,
        "tid": 700,
        "comm": "logger",
        "size_bytes": np.where(write, 4096, 0),
        "offset_bytes": number // 2 * 4096,
        "queue_ns": 0,
        "device_ns": device,
        "interrupt_ns": 0,
    }
    app = {
        **common,
        "op_id": APP_ID_BASE | number,
        "op": np.where(write, "write", "sync"),
        "start_ns": start,
        "latency_ns": submitted - start + fs + device,
        "app_ns": submitted - start,
        "fs_ns": fs,
        "reap_ns": 0,
        "runqueue_ns": 0,
        # A slot is free again when an operation is done, so one is taken at a time; before the sync it was more.
        "queue_depth": np.where(write, 8, 1),
    }
    block = {
        **common,
        "op_id": BLOCK_ID_BASE | number,
        "op": np.where(write, "write", "flush"),
        "start_ns": submitted + fs,
        "latency_ns": device,
        "queue_depth": 1,
        "flags": np.where(write, 0, FLUSH),
    }
    spec = {
        "queue_depth": 8,
        "workers": 1,
        "rate_per_s": 1e9 / due_every,
        "direct": True,
        "sync_every_writes": 1,
    }
    return write_case(
        path,
        app=app,
        block=block,
        links={"parent_id": app["op_id"], "child_id": block["op_id"]},
        devices=(DISK,),
        meta={"observer": "run", "duration_ns": int(begin[-1] + took[-1]) + MS, "workload": {"spec": spec}},
    )


#: Of the time of a log that is synced record by record, in rounds: from a moment on, and again and again.
_ROUNDS = 2_000
_SINCE = 0.6
_WINDOWS = ((0.05, 0.1), (0.2, 0.24), (0.35, 0.41), (0.55, 0.6), (0.7, 0.74), (0.85, 0.9))


def synced_log(
    seed: int,
    path: Path,
    part: Callable[[float], bool],
    *,
    slower: float = 1.0,
    larger: float = 1.0,
    more: int = 1,
    reads: int = 0,
    writes_slower: float = 1.0,
) -> Path:
    """A journal: a record is written and made durable, then the next. In that part of the rounds a flush takes `slower` times as long, and writes
    `writes_slower` times; a record is `larger` times as large and of `more` writes, and so many reads of the same program lie beside each flush."""
    rng = np.random.default_rng([seed, 124])
    rows, tid, comm, now = _Rows(), 500, "java", MS
    for number in range(_ROUNDS):
        late = part(number / _ROUNDS)
        size, writes = (int(8192 * larger), more) if late else (8192, 1)
        rows.call(tid, comm, "write", now, int(rng.integers(3_000, 6_000)), size_bytes=size)
        now += int(rng.integers(40_000, 60_000))
        begin, served = now, []
        now += 10_000
        for _ in range(writes):
            took = int(90_000 * np.exp(rng.normal(0, 0.1)) * (writes_slower if late else 1.0))
            served.append(rows.request("write", now, 1_000, took, 1, size // writes, (tid, comm)))
            now += took + 1_000
        took = int(100_000 * np.exp(rng.normal(0, 0.2)) * (slower if late else 1.0))
        served.append(rows.request("flush", now, 1_000, took, _PREFLUSH, 0))
        for place in range(reads if late else 0):
            rows.request("read", now + place * 1_000, 1_000, 80_000, 0, 4096, (tid, comm))
        now += took + 11_000
        held = sum(rows.requests[one - BLOCK_ID_BASE]["device_ns"] for one in served)
        sync = rows.call(tid, comm, "sync", begin, now - begin, device=held)
        rows.links += [(sync, one, "waits_for") for one in served]
        now += int(rng.integers(20_000, 40_000))
    return rows.write(path, comm)


def _since(part: float) -> bool:
    return part >= _SINCE


def _again(part: float) -> bool:
    return any(begin <= part < end for begin, end in _WINDOWS)


def flushes_slower_since(seed: int, path: Path) -> Path:
    """From 60 % of a journal's records on each flush of the disk takes three times as long: no tail of the others."""
    return synced_log(seed, path, _since, slower=3)


def larger_records_since(seed: int, path: Path) -> Path:
    """From then on the journal's records are 16 times as large, and each flush takes 40 times as long: there is more to make durable."""
    return synced_log(seed, path, _since, slower=40, larger=16)


def more_writes_since(seed: int, path: Path) -> Path:
    """From then on each record is written in eight pieces, here and there, and each flush takes 40 times as long."""
    return synced_log(seed, path, _since, slower=40, more=8)


def flushes_slower_at_times(seed: int, path: Path) -> Path:
    """Six times for a while flushes take six times as long."""
    return synced_log(seed, path, _again, slower=6)


def larger_records_at_times(seed: int, path: Path) -> Path:
    """Six times for a while records are 16 times as large, and flushes take 40 times as long."""
    return synced_log(seed, path, _again, slower=40, larger=16)
