"""Sealed cases of databases that make their commits durable, on a disk whose cache has to be flushed; and of programs whose files a journal commits."""

from __future__ import annotations

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
        self, tid: int, comm: str, op: str, begin_ns: int, latency_ns: int, flags: int = 0, **stages: int
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
            "size_bytes": 8192 if op in ("read", "write") else 0,
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
    return _Database("sqlite3", 1, 2_000, 700, slower_ms=30, part=0.02, of_kernel=True).write(seed, path)


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
