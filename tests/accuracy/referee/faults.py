"""What is done to programs, how large it is drawn, and whom a right verdict names for it.

Whom: decided from what the injector did, in DESIGN's words (kinds and stages of DESIGN 5 and 7), whatever a solver says.
"""

from __future__ import annotations

import math
import mmap
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.accuracy.host import said
from tests.accuracy.referee import others
from tests.accuracy.referee.scene import Injection, Scene, Window, workers
from whodisk.programs.base import Program

__all__ = ["FAULTS", "SPARE_BYTES", "Fault", "Injection", "Scene", "Window", "acting", "disk_faults"]

Finding = dict[str, Any]
#: The end of the device is nobody's: file systems are made smaller by so much.
SPARE_BYTES = 1 << 20
HOLDER = "queue-settings"
PAGE = 4096
#: A disk fails so long after its start: it is mounted then, and a program is at work.
FAILS_FROM_S = 3.0


@dataclass(frozen=True)
class Names:
    """A culprit as findings may name it: regular expressions over the whole kind, name and reason.

    In them `{device}` is the kernel's name of the faulty device and `{program}` any name of the program's threads.
    """

    kind: str
    name: str
    because_of: str = ".*"

    def name_it(self, finding: Finding, device: str, program: Program) -> bool:
        """Whether the finding names this culprit."""
        comms = "(" + "|".join(re.escape(comm) for comm in program.comms) + ")"
        culprit = finding["culprit"]
        said = (culprit["kind"], culprit["name"], culprit["because_of"] or "")
        wanted = (
            pattern.replace("{device}", re.escape(device)).replace("{program}", comms)
            for pattern in (self.kind, self.name, self.because_of)
        )
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in zip(wanted, said, strict=True))


@dataclass(frozen=True)
class Fault:
    """A row's fault."""

    name: str
    #: For a reader of the table, with the range of its magnitudes.
    words: str
    #: Draws the magnitudes, log-uniform down to where nothing is to be seen; by name with unit.
    draw: Callable[[random.Random], dict[str, float]]
    #: Faults of `whodisk slowdisk`, without their times.
    disk: Callable[[dict[str, float]], list[str]] = lambda _: []
    #: Does it to a running program, in these windows only, until the event is set; adds what it did to the list.
    act: (
        Callable[
            [Scene, dict[str, float], random.Random, list[Window] | None, threading.Event, list[Injection]],
            None,
        ]
        | None
    ) = None
    #: Any of these is right as the first finding.
    culprits: tuple[Names, ...] = ()
    #: Consequences of what was done: true, but not the culprit. They may stand below it.
    consequences: tuple[Names, ...] = ()
    #: The device takes no more than so much, always: `limited` is right, too, if the limit holds one of these words.
    limit_words: tuple[str, ...] = ()
    #: The verdict must tell it by one of these regular expressions, wherever it stands; no status is wrong. A program's own doing, which is nobody's fault.
    told: tuple[str, ...] = ()
    #: Requests fail: the program may end of it, and its log with it. It counts where one did, and pairs are not made.
    fails: bool = False
    #: Programs to which it can be done, by the name of their worker; empty: to any.
    workers: tuple[str, ...] = ()
    #: Drive that the disk is to be (`whodisk slowdisk --model`), with the fault and without it; empty: as fast as it can.
    model: str = ""


def _between(chance: random.Random, low: float, high: float) -> float:
    """Evenly on a log scale; three digits, so that what is printed is what was done."""
    return float(f"{math.exp(chance.uniform(math.log(low), math.log(high))):.3g}")


THE_DEVICE = (
    # Of the only device there is, or of this one; merged with its neighbours where a boundary was not observed.
    Names("stage", r"(.*\+)?device(\+.*)?", r"|device:{device}|.*\b{device}\b.*"),
    Names("device", "{device}"),
    Names("time_pattern", ".*", r"device:{device}|.*\b{device}\b.*"),
    # A limit of the device, told as such.
    Names("saturation", ".*{device}.*"),
)
BEHIND_IT = (
    # The loop driver takes no request before a flush has returned; tags run out behind requests that wait.
    Names("stage", r"(.*\+)?queue(\+.*)?", r"device:{device}"),
)


# -- stops


def _stops(
    scene: Scene,
    magnitudes: dict[str, float],
    chance: random.Random,
    windows: list[Window] | None,
    ended: threading.Event,
    done: list[Injection],
) -> None:
    """SIGSTOP and SIGCONT to all processes of the program that bear its worker's name."""
    for _ in _moments(magnitudes["every_s"], chance, windows, ended):
        pids = workers(scene)
        begin = time.monotonic_ns()
        try:
            send(pids, signal.SIGSTOP)
            time.sleep(magnitudes["length_ms"] / 1e3)
        finally:
            send(pids, signal.SIGCONT)
        if pids:
            done.append(Injection(begin, time.monotonic_ns()))


def send(pids: list[int], number: signal.Signals) -> None:
    """Sends a signal to those of these processes that are there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue  # it has ended


# -- checkpoints


def _checkpoints(
    scene: Scene,
    magnitudes: dict[str, float],
    chance: random.Random,
    windows: list[Window] | None,
    ended: threading.Event,
    done: list[Injection],
) -> None:
    """PostgreSQL writes out all that it changed: its own doing, at moments that are known."""
    socket = str(scene.beside.parent / "scratch")
    ask = ["psql", "-h", socket, "-U", "postgres", "-qc", "CHECKPOINT", "postgres"]
    for _ in _moments(magnitudes["every_s"], chance, windows, ended):
        begin = time.monotonic_ns()
        said(*ask)
        done.append(Injection(begin, time.monotonic_ns()))


# -- queue holds


def _holds(
    scene: Scene,
    magnitudes: dict[str, float],
    chance: random.Random,
    windows: list[Window] | None,
    ended: threading.Event,
    done: list[Injection],
) -> None:
    """Somebody writes a setting of the queue: the kernel freezes it until all that is in flight has ended.

    A read at the device's spare end, which nobody else uses and the disk answers late, sets how long that takes.
    """
    setting = Path("/sys/block") / scene.device.name / "queue" / "max_sectors_kb"
    value = setting.read_text(encoding="ascii")
    file = os.open(scene.device, os.O_RDONLY | os.O_DIRECT)
    try:
        buffer = mmap.mmap(-1, PAGE)
        for _ in _moments(magnitudes["every_s"], chance, windows, ended):
            reading = threading.Thread(target=os.preadv, args=(file, [buffer], scene.size_bytes - PAGE))
            reading.start()
            # The read must be in flight before the queue is frozen.
            time.sleep(0.002)
            begin = time.monotonic_ns()
            setting.write_text(value, encoding="ascii")
            done.append(Injection(begin, time.monotonic_ns()))
            reading.join()
    finally:
        os.close(file)


def _moments(
    every_s: float, chance: random.Random, windows: list[Window] | None, ended: threading.Event
) -> Iterator[None]:
    """Moments, by chance `every_s` apart on average, that lie in one of the windows (None: all of the time)."""
    while not ended.wait(min(chance.expovariate(1 / every_s), 3 * every_s)):
        now = time.monotonic_ns()
        if windows is None or any(begin <= now < end for begin, end in windows):
            yield


# -- device errors


def _bad_place(magnitudes: dict[str, float]) -> list[str]:
    """A drive tries for a while before it gives up. Not from the start: what a file system needs to be mounted was read before."""
    begin_kib, length_kib = (round(magnitudes[name] * 1024) for name in ("begin_mib", "length_mib"))
    where = f"offset {begin_kib}KiB..{begin_kib + length_kib}KiB from {FAILS_FROM_S:g}s"
    return [f"read constant {magnitudes['delay_ms']:g}ms {where}", f"read error 1 EIO {where}"]


# -- the registry: it grows at the end only (`seeds.held_out`)

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="stops",
        words="the program is stopped (SIGSTOP) for 2 to 150 ms, every 0.3 to 3 s",
        draw=lambda chance: {"length_ms": _between(chance, 2, 150), "every_s": _between(chance, 0.3, 3)},
        act=_stops,
        culprits=(
            Names("process", ".*{program}.*", "silence of the submitter.*|.*stop.*|stage:app"),
            Names("stage", r"(.*\+)?app(\+.*)?"),
        ),
    ),
    Fault(
        name="queue-hold",
        words="the device's queue is frozen for 4 to 150 ms, every 0.3 to 3 s",
        draw=lambda chance: {"length_ms": _between(chance, 4, 150), "every_s": _between(chance, 0.3, 3)},
        disk=lambda m: [f"read constant {m['length_ms']:g}ms offset {{spare}}"],
        act=_holds,
        culprits=(
            Names("stage", r"(.*\+)?queue(\+.*)?", "|device:{device}|process:.*|.*froze.*"),
            Names("process", f"{HOLDER}.*"),
            Names("config", ".*queue.*"),
        ),
    ),
    Fault(
        name="flush-tail",
        words="0.5 to 10 % of flushes take 2 to 40 ms longer",
        draw=lambda chance: {"part": _between(chance, 0.005, 0.1), "delay_ms": _between(chance, 2, 40)},
        disk=lambda m: [f"flush tail {m['part']:g} {m['delay_ms']:g}ms"],
        culprits=THE_DEVICE,
        consequences=BEHIND_IT,
    ),
    Fault(
        name="write-pause",
        words="writes pause for 3 to 80 ms, every 0.5 to 2 s",
        draw=lambda chance: {"every_s": _between(chance, 0.5, 2), "length_ms": _between(chance, 3, 80)},
        disk=lambda m: [f"write stall {m['every_s']:g}s {m['length_ms']:g}ms"],
        culprits=THE_DEVICE,
        consequences=BEHIND_IT,
    ),
    Fault(
        name="write-rate",
        words="the device takes 4 to 200 MiB/s of writes",
        draw=lambda chance: {"mib_per_s": _between(chance, 4, 200)},
        disk=lambda m: [f"write throttle {round(m['mib_per_s'] * (1 << 20))}B/s"],
        culprits=THE_DEVICE,
        consequences=BEHIND_IT,
        limit_words=("MiB/s", "MB/s", "GiB/s", "KiB/s", "bandwidth"),
    ),
    Fault(
        name="read-tail",
        words="0.1 to 5 % of reads take 2 to 40 ms longer",
        draw=lambda chance: {"part": _between(chance, 0.001, 0.05), "delay_ms": _between(chance, 2, 40)},
        disk=lambda m: [f"read tail {m['part']:g} {m['delay_ms']:g}ms"],
        culprits=THE_DEVICE,
        consequences=BEHIND_IT,
    ),
    Fault(
        name="flush-constant",
        words="every flush takes 0.3 to 20 ms longer",
        draw=lambda chance: {"delay_ms": _between(chance, 0.3, 20)},
        disk=lambda m: [f"flush constant {m['delay_ms']:g}ms"],
        culprits=THE_DEVICE,
        consequences=BEHIND_IT,
        # What waits for each flush in turn is limited by them.
        limit_words=("sync", "flush", "commit"),
    ),
    Fault(
        name="cpu-hog",
        words="a real-time program has the program's only CPU for 5 to 100 ms, every 0.3 to 2 s",
        draw=lambda chance: {"length_ms": _between(chance, 5, 100), "every_s": _between(chance, 0.3, 2)},
        act=others.while_it_lasts(others.cpu_hog),
        culprits=(Names("process", "hog"), Names("stage", r"(.*\+)?runqueue(\+.*)?", "|process:hog|.*hog.*")),
        # Programs that end direct writes in a worker of that CPU wait for it there.
        consequences=(Names("stage", r"(.*\+)?(fs|interrupt|reap)(\+.*)?"),),
    ),
    Fault(
        name="cpu-limit",
        words="CPU controller: 0.02 to 0.5 CPUs for 0.3 s, half of the time",
        draw=lambda chance: {"cpus": _between(chance, 0.02, 0.5)},
        act=others.while_it_lasts(others.cpu_limit),
        culprits=(Names("config", "CPU limit of .*"),),
    ),
    Fault(
        name="io-limit",
        words="I/O controller: 20 to 2,000 reads and writes per second for 0.3 s, half of the time",
        draw=lambda chance: {"per_s": _between(chance, 20, 2000)},
        act=others.while_it_lasts(others.io_limit),
        culprits=(Names("config", "I/O limit of .*"), Names("stage", r"(.*\+)?throttle(\+.*)?")),
    ),
    Fault(
        name="sync-neighbour",
        words="a neighbour appends 64 KiB to 1 MiB and syncs on the same file system for 30 to 300 ms, every 0.3 to 2 s",
        draw=lambda chance: {
            "kib": _between(chance, 64, 1024),
            "length_ms": _between(chance, 30, 300),
            "every_s": _between(chance, 0.3, 2),
        },
        act=others.while_it_lasts(others.syncs),
        culprits=(Names("process", "fsyncs"),),
        consequences=(*BEHIND_IT, Names("stage", r"(.*\+)?fs(\+.*)?")),
    ),
    Fault(
        name="order-neighbour",
        words="a disk with an arm; a neighbour reads it in order by 1 to 4 streams for 0.1 to 1 s, every 0.5 to 2 s",
        draw=lambda chance: {
            "streams": _between(chance, 1, 4),
            "length_ms": _between(chance, 100, 1000),
            "every_s": _between(chance, 0.5, 2),
        },
        act=others.while_it_lasts(others.reads_in_order),
        culprits=(Names("process", "rival"),),
        consequences=(*BEHIND_IT, *THE_DEVICE),
        model="nearline_7200",
    ),
    Fault(
        name="readahead",
        words="readahead of 4 to 100 KiB, half of the time",
        draw=lambda chance: {"kib": _between(chance, 4, 100)},
        act=others.while_it_lasts(others.little_readahead),
        culprits=(Names("config", "read_ahead_kb of {device}.*"),),
    ),
    Fault(
        name="cache-lost",
        words="what the page cache holds of the program's open files is taken away every 50 ms, half of the time",
        draw=lambda chance: {"length_ms": _between(chance, 50, 1000)},
        act=others.while_it_lasts(others.cache_lost),
        culprits=(Names("cache_tier", ".*"),),
    ),
    Fault(
        name="checkpoint",
        words="its own doing: PostgreSQL makes a checkpoint every 0.2 to 6 s",
        draw=lambda chance: {"every_s": _between(chance, 0.2, 6)},
        act=_checkpoints,
        culprits=(Names("saturation", ".*{program}.*"), Names("process", ".*{program}.*")),
        told=("checkpoint",),
        workers=("postgres",),
    ),
    Fault(
        name="device-errors",
        words="8 to 300 MiB of the device are bad from 3 s on: a read there takes 1 to 100 ms longer and fails",
        draw=lambda chance: {
            "begin_mib": _between(chance, 8, 400),
            "length_mib": _between(chance, 8, 300),
            "delay_ms": _between(chance, 1, 100),
        },
        disk=_bad_place,
        culprits=(Names("device", "{device}", "errors"),),
        consequences=(*THE_DEVICE, *BEHIND_IT, Names("stage", r"(.*\+)?fs(\+.*)?")),
        told=(r"\b{device} had [0-9,]+ (errors?|timeouts?|failed commands?)\b",),
        fails=True,
    ),
)


def disk_faults(
    fault: Fault, magnitudes: dict[str, float], size_bytes: int, windows_s: list[tuple[float, float]] | None
) -> list[str]:
    """Faults for `whodisk slowdisk`; with windows, in seconds since its start, each fault once for each window."""
    spare = f"{(size_bytes - SPARE_BYTES) >> 10}KiB..{size_bytes >> 10}KiB"
    plain = [text.format(spare=spare) for text in fault.disk(magnitudes)]
    if windows_s is None or fault.act is not None:
        # What acts keeps to the windows itself.
        return plain
    return [f"{text} from {begin:g}s until {end:g}s" for begin, end in windows_s for text in plain]


@contextmanager
def acting(
    fault: Fault | None,
    scene: Scene,
    magnitudes: dict[str, float],
    seed: int,
    windows: list[Window] | None = None,
) -> Iterator[list[Injection]]:
    """Does to a running program what the fault does beside its disk; gives the list of what was done so far.

    Raises what went wrong in it, at the end.
    """
    done: list[Injection] = []
    if fault is None or fault.act is None:
        yield done
        return
    act, ended, failed = fault.act, threading.Event(), []

    def run() -> None:
        # A thread of this process has a name of its own in a recording.
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(HOLDER, encoding="ascii")
        try:
            act(scene, magnitudes, random.Random(f"act {seed}"), windows, ended, done)
        except Exception as error:  # told below: a fault that was not injected must not pass for one that was
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join()
    if failed:
        raise failed[0]
