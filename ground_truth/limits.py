"""Sealed cases of programs with which nothing is wrong: each is held by a limit of its own, and what it has in flight may not be it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case

COMM, TID = "server", 501
#: Process -> another one of the same program.
_OTHER = {TID: TID + 10, TID + 10: TID, TID + 20: TID, TID + 30: TID}
#: Flag of a write that returns only when its data are durable.
DURABLE = 1


class _Thread:
    """One thread's calls, operations and waits, laid out one after the other."""

    def __init__(
        self, tid: int = TID, begin_ns: int = 1_000_000, comm: str = COMM, pid: int | None = None
    ) -> None:
        self.tid, self.now, self.comm, self.pid = tid, begin_ns, comm, tid if pid is None else pid
        self.rows: list[dict[str, Any]] = []
        self.waits: list[dict[str, Any]] = []

    def operation(
        self,
        op: str,
        begin_ns: int,
        end_ns: int,
        flags: int = 0,
        on: str | None = "nvme0n1",
        size_bytes: int = 4096,
        **stages: int,
    ) -> None:
        """An operation with these stages, ns; the rest is `fs`."""
        latency = end_ns - begin_ns
        spent = {
            f"{stage}_ns": 0
            for stage in ("app", "throttle", "queue", "device", "interrupt", "reap", "runqueue")
        }
        spent.update({f"{stage}_ns": ns for stage, ns in stages.items()})
        self.rows.append(
            {
                "start_ns": begin_ns,
                "latency_ns": latency,
                "op": op,
                "flags": flags,
                "tid": self.tid,
                "pid": self.pid,
                "comm": self.comm,
                "device": on,
                "size_bytes": size_bytes,
                "fs_ns": latency - sum(spent.values()),
                **spent,
            }
        )

    def call(self, op: str, length_ns: int, flags: int = 0, **about: Any) -> None:
        """A call that holds the thread."""
        self.operation(op, self.now, self.now + length_ns, flags, **about)
        self.now += length_ns

    def wait(
        self,
        state: str,
        begin_ns: int,
        end_ns: int,
        cause: str | None = None,
        waker: _Thread | None = None,
    ) -> None:
        woke = {"waker": waker.comm, "waker_pid": waker.pid, "waker_tid": waker.tid} if waker else {}
        self.waits.append(
            woke
            | {
                "tid": self.tid,
                "pid": self.pid,
                "comm": self.comm,
                "cpu": self.tid % 2,
                "start_ns": begin_ns,
                "duration_ns": end_ns - begin_ns,
                "state": state,
                "cause": cause,
                "cause_pid": (_OTHER[self.tid] if cause == COMM else 9) if state == "runnable" else None,
            }
        )

    def goes_on(self, length_ns: int, state: str | None = None, cause: str | None = None) -> None:
        """Time between calls, in which it runs or waits."""
        if state is not None:
            self.wait(state, self.now, self.now + length_ns, cause)
        self.now += length_ns


def _written(
    path: Path,
    threads: list[_Thread],
    links: dict[str, Any] | None = None,
    flushes: list[tuple[int, int]] | None = None,
    requests: list[dict[str, Any]] | None = None,
    losses: list[dict[str, Any]] | None = None,
) -> Path:
    """The case of these threads. `links` need requests; `flushes` are begin and end of the device's flushes beside them; `requests` are all there are."""
    rows = sorted((row for thread in threads for row in thread.rows), key=lambda row: row["start_ns"])
    columns: dict[str, Any] = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    columns |= {
        "op_id": APP_ID_BASE + np.arange(len(rows)),
        "queue_depth": 1,
    }
    waits = sorted((w for thread in threads for w in thread.waits), key=lambda w: w["start_ns"])
    end = max(thread.now for thread in threads)
    block = None
    if links is not None:
        # Requests of the writes that they are linked to: their times do not matter here.
        number = len(links["child_id"])
        start_ns = np.linspace(1_000_000, end - 1_000_000, number).astype(np.int64)
        flushed = np.array(flushes or [], np.int64).reshape(-1, 2)
        took_ns = np.concatenate((np.full(number, 50_000), flushed[:, 1] - flushed[:, 0]))
        block = {
            "op_id": np.concatenate(
                (links["child_id"], links["child_id"].max() + 1 + np.arange(len(flushed)))
            ),
            "start_ns": np.concatenate((start_ns, flushed[:, 0])),
            "latency_ns": took_ns,
            "device_ns": took_ns,
            "op": ["write"] * number + ["flush"] * len(flushed),
            "comm": COMM,
            "device": "nvme0n1",
            "size_bytes": np.repeat([4096, 0], [number, len(flushed)]),
        }
    if requests is not None:
        block = {
            "op_id": BLOCK_ID_BASE + np.arange(len(requests)),
            "op": "read",
            "comm": COMM,
            "pid": TID,
            "device": "nvme0n1",
            **{name: [row[name] for row in requests] for name in requests[0]},
        }
    return write_case(
        path,
        syscall=columns,
        block=block,
        links=links,
        tables={"waits": waits} | ({"losses": losses} if losses else {}),
        meta={"duration_ns": end + 1_000_000},
    )


def syncs_before_depth(seed: int, path: Path) -> Path:
    """Eight writes in flight, as a library for asynchronous I/O keeps them, and a sync after every 32: their thread sits in syncs three
    quarters of its time, and the writes, ended long ago, wait there to be taken."""
    rng = np.random.default_rng([seed, 17])
    thread = _Thread()
    begun: list[int] = []
    for _ in range(150):
        for _ in range(32):
            begun.append(thread.now)
            thread.goes_on(int(rng.integers(8_000, 10_000)))
            if len(begun) == 8:
                thread.operation("write", begun.pop(0), thread.now)
        length = int(rng.integers(800_000, 900_000))
        thread.wait("blocked", thread.now + 20_000, thread.now + length, "page under writeback")
        thread.call("sync", length, device=length // 2)
    for begin in begun:
        thread.operation("write", begin, thread.now)
    return _written(path, [thread])


def depth_of_reads(seed: int, path: Path) -> Path:
    """Eight reads in flight, whose thread sleeps until the next one ends: the depth binds."""
    rng = np.random.default_rng([seed, 18])
    thread = _Thread()
    begun: list[int] = []
    for _ in range(6_000):
        begun.append(thread.now)
        thread.goes_on(2_000)
        if len(begun) == 8:
            thread.goes_on(int(rng.integers(20_000, 30_000)), "blocked", "read_events")
            begin = begun.pop(0)
            thread.operation("read", begin, thread.now, device=thread.now - begin - 3_000)
    return _written(path, [thread])


def reads_of_a_pool(seed: int, path: Path, *, unnamed: bool = False) -> Path:
    """Four threads with names of their own, as a pool of threads gives them; the process' first thread sleeps until they are done."""
    rng = np.random.default_rng([seed, 26])
    threads = [_Thread(TID)]
    for number in range(4):
        thread = _Thread(TID + 1 + number, 2_000_000 + 10_000 * number, f"pool-1-thread-{number + 1}", TID)
        for _ in range(1_500):
            length = int(rng.integers(90_000, 110_000))
            thread.wait("blocked", thread.now + 5_000, thread.now + length, "io")
            thread.call("read", length, device=length - 10_000)
            thread.goes_on(int(rng.integers(8_000, 12_000)))
        threads.append(thread)
    if not unnamed:
        threads[0].goes_on(max(thread.now for thread in threads), "blocked", "futex_do_wait")
    return _written(path, threads)


def writes_by_turns(seed: int, path: Path) -> Path:
    """Four threads extend one file: each writes with its lock in hand, and the other three wait for that. The device has one request at a time."""
    rng = np.random.default_rng([seed, 61])
    threads = [_Thread(TID)] + [
        _Thread(TID + number, comm=f"writer-{number}", pid=TID) for number in (1, 2, 3)
    ]
    requests, free_ns = [], 1_000_000
    for number in range(8_000):
        thread = threads[number % 4]
        held_ns = max(free_ns, thread.now + 2_000)
        if held_ns > thread.now + 2_000:
            thread.wait("blocked", thread.now + 2_000, held_ns, "write lock")
        length = int(rng.normal(25_000, 4_000))
        free_ns = held_ns + length + 1_000
        thread.wait("blocked", held_ns, held_ns + length, "io")
        requests.append(
            {
                "start_ns": held_ns,
                "latency_ns": length,
                "device_ns": length,
                "op": "write",
                "size_bytes": 4096,
            }
        )
        thread.call("write", free_ns - thread.now, device=length)
        thread.goes_on(3_000)
    return _written(path, threads, requests=requests)


def a_process_for_each(seed: int, path: Path) -> Path:
    """A shell begins one process after the other: each makes a few calls and syncs once, 10 ms, every fourth time 40 ms."""
    rng = np.random.default_rng([seed, 63])
    threads, now = [], 1_000_000
    for number in range(260):
        thread = _Thread(TID + number, now)
        for _ in range(20):
            thread.call("open", int(rng.integers(4_000, 6_000)), on=None)
            thread.goes_on(10_000)
        length = int(rng.normal(40e6 if number % 4 == 0 else 10e6, 200e3))
        thread.wait("blocked", thread.now + 10_000, thread.now + length - 10_000, "io")
        thread.call("sync", length, device=length - 50_000)
        threads.append(thread)
        now = thread.now + 500_000
    return _written(path, threads)


def files_behind_a_mutex(seed: int, path: Path, in_calls: bool = True) -> Path:
    """Three threads make files by turns, with a mutex in hand: the two others sleep until the one is done. `in_calls`: else it computes for as long, and its calls take a tenth."""
    rng = np.random.default_rng([seed, 62])
    threads = [_Thread(TID)] + [_Thread(TID + number, pid=TID) for number in (1, 2)]
    free_ns, holder = 1_000_000, threads[0]
    for number in range(3_000):
        thread = threads[number % 3]
        if free_ns > thread.now:
            thread.wait("blocked", thread.now, free_ns, "futex_do_wait", holder)
            thread.now = free_ns
        for op in ("open", "write", "rename"):
            length = int(rng.normal(600_000, 60_000))
            asleep = length if in_calls else length // 10
            thread.wait("blocked", thread.now + 3_000, thread.now + asleep - 3_000, "io")
            thread.call(op, asleep, device=asleep - 20_000)
            thread.goes_on(length - asleep + 5_000)
        free_ns, holder = thread.now, thread
    return _written(path, threads)


def thinks(seed: int, path: Path, cause: str = "hrtimer_nanosleep") -> Path:
    """Four threads read four blocks each, and think for 2 ms then: most of the time some call is under way, and two at least can hardly ever be waited for."""
    rng = np.random.default_rng([seed, 67])
    threads = [_Thread(TID + number, pid=TID) for number in range(4)]
    for thread in threads:
        thread.goes_on(int(rng.integers(0, 2_000_000)))
        for _ in range(400):
            for _ in range(4):
                length = int(rng.normal(250_000, 25_000))
                thread.wait("blocked", thread.now + 5_000, thread.now + length - 5_000, "io")
                thread.call("read", length, device=length - 20_000)
                thread.goes_on(5_000)
            pause = int(rng.normal(2_000_000, 100_000))
            thread.wait("blocked", thread.now, thread.now + pause, cause)
            thread.now += pause
    return _written(path, threads)


def plays(seed: int, path: Path, pause_ns: int = 25_000_000) -> Path:
    """Three players read a block of 0.25 ms each 25 ms; one read in twenty takes the device 10 ms. Most of the time no call is under way."""
    rng = np.random.default_rng([seed, 68])
    threads = [_Thread(TID + number, pid=TID) for number in range(3)]
    for thread in threads:
        thread.goes_on(int(rng.integers(0, pause_ns)))
        for _ in range(700):
            length = int(rng.normal(250_000, 15_000)) + (10_000_000 if rng.random() < 0.05 else 0)
            thread.wait("blocked", thread.now + 5_000, thread.now + length - 5_000, "io")
            thread.call("read", length, device=length - 20_000)
            pause = int(rng.normal(pause_ns, 0.05 * pause_ns))
            thread.wait("blocked", thread.now, thread.now + pause, "hrtimer_nanosleep")
            thread.now += pause
    return _written(path, threads)


def reads_a_stream(seed: int, path: Path, *, then_computes: bool = False) -> Path:
    """It reads one file to its end, 128 KiB a call. The kernel reads ahead: the device always has eight requests, and four calls of five find their
    data there; the fifth waits. It may then wait for its other thread, which computes with what lies in memory for nine times as long."""
    rng = np.random.default_rng([seed, 27])
    thread = _Thread()
    for _ in range(600):
        for _ in range(4):
            thread.call("read", int(rng.integers(15_000, 20_000)), on=None, size_bytes=131_072)
        length = int(rng.integers(4_300_000, 4_500_000))
        thread.wait("blocked", thread.now + 5_000, thread.now + length, "folio_wait_bit_common")
        thread.call("read", length, size_bytes=131_072, device=length - 10_000)
    # As many bytes as it reads, eight requests at a time, of no pace: a drive that turns.
    starts = np.sort(rng.integers(0, thread.now, 1_500))
    took_ns = 8 * thread.now / 1_500
    requests = [
        {
            "start_ns": int(start),
            "latency_ns": int(took),
            "device_ns": int(took),
            "size_bytes": 262_144,
        }
        for start, took in zip(starts, rng.uniform(0.3, 1.7, 1_500) * took_ns, strict=True)
    ]
    if not then_computes:
        return _written(path, [thread], requests=requests)
    worker = _Thread(TID + 1, thread.now, pid=TID)
    thread.goes_on(9 * thread.now, "blocked", "futex_do_wait")
    while worker.now < thread.now:
        worker.call("read", int(rng.integers(15_000, 20_000)), on=None, size_bytes=131_072)
        worker.goes_on(int(rng.integers(1_900_000, 2_100_000)))
    thread.call("read", 20_000, on=None)
    return _written(path, [thread, worker], requests=requests)


def asks_for_more(seed: int, path: Path) -> Path:
    """It reads one small file after the other, and asks for 1 MiB each time: no file has more than 16 KiB."""
    rng = np.random.default_rng([seed, 28])
    thread = _Thread()
    requests = []
    for _ in range(2_000):
        length = int(rng.integers(400_000, 3_200_000))
        about = {"start_ns": thread.now + 5_000, "latency_ns": length - 10_000, "device_ns": length - 10_000}
        requests.append(about | {"size_bytes": 16_384})
        thread.wait("blocked", thread.now + 5_000, thread.now + length, "folio_wait_bit_common")
        thread.call("read", length, size_bytes=1 << 20, device=length - 10_000)
        thread.call("read", 1_000, on=None, size_bytes=1 << 20)
        thread.goes_on(int(rng.integers(90_000, 110_000)))
    return _written(path, [thread], requests=requests)


def page_faults(seed: int, path: Path) -> Path:
    """A program that reads a file which it has mapped, one page after the other, and syncs it now and then: pages that have to be read are reads."""
    rng = np.random.default_rng([seed, 21])
    thread = _Thread()
    for number in range(4000):
        length = int(rng.integers(90_000, 110_000))
        thread.call("fault", length, device=length - 5_000)
        thread.goes_on(int(rng.integers(10_000, 20_000)))
        if number % 400 == 399:
            thread.call("sync", 300_000, device=290_000)
    return _written(path, [thread])


def durable_writes(
    seed: int, path: Path, sleep_ns: int = 0, flush: tuple[float, float] = (0.5, 0.8), device: float = 0.5
) -> Path:
    """Each write returns when its data are durable, five requests later; nearly half of that it waits for its page under writeback, and for
    three tenths (a part of it from `flush[0]` to `flush[1]`) the device flushes; it is with the device for the part `device`. Then it may sleep for something else."""
    rng = np.random.default_rng([seed, 19])
    thread = _Thread()
    flushes = []
    for _ in range(1_000):
        length = int(rng.integers(800_000, 900_000))
        flushes.append((thread.now + int(flush[0] * length), thread.now + int(flush[1] * length)))
        thread.wait(
            "blocked", thread.now + 10_000, thread.now + 10_000 + int(0.45 * length), "page under writeback"
        )
        thread.call("write", length, DURABLE, device=int(device * length))
        thread.goes_on(3_000)
        if sleep_ns:
            thread.goes_on(sleep_ns, "blocked", "futex_do_wait")
    children = BLOCK_ID_BASE + np.arange(5_000)
    links = {
        "parent_id": np.repeat(APP_ID_BASE + np.arange(1_000), 5),
        "child_id": children,
        "bytes": np.full(5_000, 4096),
        "kind": np.full(5_000, "waits_for"),
    }
    return _written(path, [thread], links, flushes)


def answered_from_memory(seed: int, path: Path) -> Path:
    """One read after the other, 20 us each, and hardly one of a thousand needs the device."""
    rng = np.random.default_rng([seed, 25])
    thread = _Thread()
    for number in range(4_000):
        thread.call("read", int(rng.integers(18_000, 22_000)), device=9_000 if number % 1_000 == 500 else 0)
        thread.goes_on(int(rng.integers(4_000, 6_000)))
    links = {
        "parent_id": APP_ID_BASE + np.arange(500, 4_000, 1_000),
        "child_id": BLOCK_ID_BASE + np.arange(4),
        "bytes": np.full(4, 4096),
        "kind": np.full(4, "waits_for"),
    }
    return _written(path, [thread], links)


def computes(seed: int, path: Path, *, was_a_shell: bool = False) -> Path:
    """Between two reads of 100 us it computes for 300 us."""
    rng = np.random.default_rng([seed, 20])
    thread = _Thread(begin_ns=3_000_000_000 if was_a_shell else 1_000_000)
    for _ in range(3_000):
        length = int(rng.integers(90_000, 110_000))
        thread.wait("blocked", thread.now + 5_000, thread.now + length, "io")
        thread.call("read", length, device=length - 10_000)
        thread.goes_on(int(rng.integers(290_000, 310_000)))
    shell = _Thread(comm="bash")
    shell.call("read", 20_000)
    shell.goes_on(2_900_000_000, "blocked", "do_wait")
    return _written(path, [shell, thread] if was_a_shell else [thread])


def idles(seed: int, path: Path) -> Path:
    """Between two reads of 100 us it sleeps for 300 us: there is nothing to do."""
    rng = np.random.default_rng([seed, 21])
    thread = _Thread()
    for _ in range(3_000):
        length = int(rng.integers(90_000, 110_000))
        thread.wait("blocked", thread.now + 5_000, thread.now + length, "io")
        thread.call("read", length, device=length - 10_000)
        thread.goes_on(int(rng.integers(290_000, 310_000)), "blocked", "do_epoll_wait")
    return _written(path, [thread])


def _locked(
    seed: int, path: Path, apart_ns: int, *, computes: bool = False, loop: bool = False, lost: bool = False
) -> Path:
    """Four threads that read under one lock, one after the other; who has it holds it so long before the next may have it: it sleeps, or it computes.

    `loop`: another thread waits for clients, and sleeps all along. `lost`: of the computing, what is in the record may also be sleeps that were lost.
    """
    rng = np.random.default_rng([seed, 29])
    threads = [_Thread(TID + number, 1_000_000, f"worker-{number}", TID) for number in range(4)]
    now = 2_000_000
    for turn in range(4_000):
        thread = threads[turn % 4]
        if turn >= 4:
            thread.goes_on(now - thread.now, "blocked", "futex_do_wait")
        thread.now = now
        length = int(rng.integers(80_000, 140_000))
        thread.wait("blocked", now + 5_000, now + length, "io")
        thread.call("read", length, device=length - 10_000)
        if computes:
            thread.goes_on(apart_ns)
            now = thread.now
        else:
            now = thread.now + apart_ns
    if loop:
        events = _Thread(TID + 4, 1_000_000, "poller", TID)
        while events.now < now - 10_000_000:
            events.goes_on(9_990_000, "blocked", "do_epoll_wait")
            events.goes_on(10_000)
        threads.append(events)
    lost_rows = [{"probe": "sched", "start_ns": 0, "end_ns": now, "lost": 4_000, "reason": "end_unseen"}]
    return _written(path, threads, losses=lost_rows if lost else None)


def pauses_under_a_lock(seed: int, path: Path) -> Path:
    """Who has the lock reads for 100 us and pauses for a millisecond, and all others sleep for it: storage is not what they wait for."""
    return _locked(seed, path, 1_000_000)


def reads_under_a_lock(seed: int, path: Path) -> Path:
    """Who has the lock only reads: the others sleep for it most of their time, and storage sets their speed all the same."""
    return _locked(seed, path, 3_000)


def computes_behind_a_loop(seed: int, path: Path, *, lost: bool = False) -> Path:
    """Who has the lock reads for 100 us and computes for a millisecond; another thread sleeps in epoll all along, and the program is never idle."""
    return _locked(seed, path, 1_000_000, computes=True, loop=True, lost=lost)


def idles_behind_a_loop(seed: int, path: Path) -> Path:
    """The same threads sleep for that millisecond: then nobody has anything to do."""
    return _locked(seed, path, 1_000_000, loop=True)


def _crowd(seed: int, path: Path, who: str, asks: int = 0) -> Path:
    """Four processes on two CPUs: each computes, and stands in line for a CPU, also within its reads."""
    rng = np.random.default_rng([seed, 22])
    threads = []
    for number in range(4):
        thread = _Thread(TID + 10 * number, 1_000_000 + 100_000 * number)
        for turn in range(1_500):
            length = int(rng.integers(90_000, 110_000))
            queued = int(rng.integers(3_000_000, 4_000_000)) if turn % 5 == 0 else 0
            begin = thread.now + length - 5_000
            if queued:
                thread.wait("runnable", begin, begin + queued, who)
            thread.call("read", length + queued, device=length - 20_000, runqueue=queued)
            thread.goes_on(int(rng.integers(290_000, 310_000)))
            if turn % 5 == 2:
                thread.goes_on(int(rng.integers(3_000_000, 4_000_000)), "runnable", who)
        threads.append(thread)
    if not asks:
        return _written(path, threads)
    begins = np.linspace(2_000_000, threads[0].now - 1_000_000, 2_000).astype(np.int64).tolist()
    requests = [
        {"start_ns": begin, "latency_ns": 80_000, "device_ns": 80_000, "size_bytes": 4096}
        | ({"comm": who, "pid": 9} if number % 20 < asks else {"comm": COMM, "pid": TID})
        for number, begin in enumerate(begins)
    ]
    return _written(path, threads, requests=requests)


def own_threads_crowd(seed: int, path: Path) -> Path:
    """Who has the CPU meanwhile is another process of the same program: it wants more CPUs than there are, and nobody is to blame."""
    return _crowd(seed, path, COMM)


def another_crowds(seed: int, path: Path, *, asks: int = 0) -> Path:
    """Who has the CPU meanwhile is another program. Of each twenty requests to the device so many may be its."""
    return _crowd(seed, path, "backup", asks)
