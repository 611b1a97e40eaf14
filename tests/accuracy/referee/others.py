"""What others do to a program: limits of its control group, neighbours, who takes its CPU, a setting that is too small.

Each does it to a running program, in the windows only, until the event is set, and adds what it did to the list.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.accuracy.host import group, neighbour, said, value
from tests.accuracy.referee.scene import Injection, Scene, Window, open_until, workers

MIB = 1 << 20
PERIOD_US = 100_000
POLL_SECONDS = 0.05
#: A neighbour sleeps for so long after it has started, and is stopped meanwhile.
REST_SECONDS = 0.2
#: Nothing goes on for longer than this without a look at the program's processes: they come and go.
STRETCH_NS = 300_000_000

Act = Callable[
    [Scene, dict[str, float], random.Random, list[Window] | None, threading.Event, list[Injection]], None
]


#: What goes on while something is on; it is called again and again, and says whom it touched.
Stretch = AbstractContextManager[Callable[[], int]]


def while_it_lasts(
    does: Callable[[Scene, dict[str, float]], AbstractContextManager[Callable[[], Stretch]]],
) -> Act:
    """An act out of something that is on or off: on for a stretch, off for as long on average, drawn.

    What `does` prepares is there for the whole run and gives the stretches; one that touched nobody did nothing.
    """

    def act(
        scene: Scene,
        magnitudes: dict[str, float],
        chance: random.Random,
        windows: list[Window] | None,
        ended: threading.Event,
        done: list[Injection],
    ) -> None:
        length_ns = round(magnitudes.get("length_ms", STRETCH_NS / 1e6) * 1e6)
        pause_s = magnitudes.get("every_s", length_ns / 1e9)
        with does(scene, magnitudes) as stretches:
            # Windows see as much of it as a run without windows: pauses and lengths are the same, and what falls outside is not done.
            while not ended.wait(chance.uniform(0.5, 1.5) * pause_s):
                lasting_ns = round(length_ns * chance.uniform(0.5, 1.0))
                latest = open_until(windows, time.monotonic_ns())
                if latest is None:
                    ended.wait(lasting_ns / 1e9)
                    continue
                touched = 0
                with stretches() as again:
                    begin = time.monotonic_ns()
                    # What it takes to begin is not part of it.
                    until = min(latest, begin + lasting_ns)
                    while (left := until - time.monotonic_ns()) > 0 and not ended.is_set():
                        touched += again()
                        time.sleep(min(POLL_SECONDS, left / 1e9))
                    end = time.monotonic_ns()
                if touched:
                    done.append(Injection(begin, end))

    return act


@contextmanager
def _at_rest(name: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A neighbour that has started and does nothing yet: to start takes longer than some stretches, and a CPU."""
    with neighbour(name, **options, busy=3600, idle=REST_SECONDS) as process:
        while Path(f"/proc/{process.pid}/comm").read_text(encoding="ascii").strip() != name:
            if process.poll() is not None:
                raise RuntimeError(f"the neighbour {name} ended with exit code {process.returncode}")
            time.sleep(POLL_SECONDS / 4)
        process.send_signal(signal.SIGSTOP)
        yield process


@contextmanager
def _at_work(process: subprocess.Popen[bytes]) -> Iterator[Callable[[], int]]:
    process.send_signal(signal.SIGCONT)
    try:
        yield lambda: process.poll() is None
    finally:
        process.send_signal(signal.SIGSTOP)


def _joined(folder: Path, scene: Scene) -> int:
    """Moves the program's processes into a group; gives how many are in it."""
    for pid in workers(scene):
        with contextlib.suppress(ProcessLookupError):
            (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
    return len((folder / "cgroup.procs").read_text(encoding="ascii").split())


@contextmanager
def _within(controller: str, limits: dict[str, str], scene: Scene) -> Iterator[Callable[[], int]]:
    with group(controller, limits) as folder:
        try:
            yield lambda: _joined(folder, scene)
        finally:
            for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split():
                with contextlib.suppress(ProcessLookupError):
                    (folder.parent / "cgroup.procs").write_text(pid, encoding="ascii")


def _limited(
    controller: str, limits: dict[str, str], scene: Scene
) -> AbstractContextManager[Callable[[], Stretch]]:
    return contextlib.nullcontext(functools.partial(_within, controller, limits, scene))


def cpu_limit(scene: Scene, magnitudes: dict[str, float]) -> AbstractContextManager[Callable[[], Stretch]]:
    """The CPU controller gives the program so much of a CPU."""
    quota = max(1000, round(PERIOD_US * magnitudes["cpus"]))
    return _limited("cpu", {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}, scene)


def io_limit(scene: Scene, magnitudes: dict[str, float]) -> AbstractContextManager[Callable[[], Stretch]]:
    """The I/O controller lets so many reads and writes per second through. (Version 1: of writeback it knows nothing.)"""
    number = said("lsblk", "--nodeps", "--noheadings", "--output", "MAJ:MIN", scene.device).strip()
    limit = f"{number} {max(1, round(magnitudes['per_s']))}"
    return _limited(
        "blkio", {f"blkio.throttle.{kind}_iops_device": limit for kind in ("read", "write")}, scene
    )


@contextmanager
def cpu_hog(scene: Scene, _: dict[str, float]) -> Iterator[Callable[[], Stretch]]:
    """A real-time program has the CPU on which the program must run."""
    cpus = os.sched_getaffinity(0)
    cpu = max(cpus)

    @contextmanager
    def stretch(process: subprocess.Popen[bytes]) -> Iterator[Callable[[], int]]:
        try:
            _pin(scene, {cpu})
            with _at_work(process):
                yield lambda: _pin(scene, {cpu})
        finally:
            _pin(scene, cpus)

    with _at_rest("hog", cpu=cpu) as process:
        yield functools.partial(stretch, process)


def _pin(scene: Scene, cpus: set[int]) -> int:
    """Lets the program's threads run on these CPUs only; gives how many processes it has."""
    pids = workers(scene)
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cpus)
    return len(pids)


@contextmanager
def syncs(scene: Scene, magnitudes: dict[str, float]) -> Iterator[Callable[[], Stretch]]:
    """A neighbour appends to a file of the same file system and syncs it, as fast as it goes."""
    shape: dict[str, Any] = {"bytes": round(magnitudes["kib"]) << 10, "size": 32 * MIB}
    with _at_rest("fsyncs", path=scene.beside / "neighbour.bin", **shape) as process:
        yield functools.partial(_at_work, process)


@contextmanager
def reads_in_order(scene: Scene, magnitudes: dict[str, float]) -> Iterator[Callable[[], Stretch]]:
    """A neighbour reads the device in order, past the page cache: an arm that it has is not elsewhere."""
    shape: dict[str, Any] = {
        "bytes": 256 << 10,
        "size": scene.size_bytes // 2,
        "threads": round(magnitudes["streams"]),
    }
    with _at_rest("rival", path=scene.device, **shape) as process:
        yield functools.partial(_at_work, process)


def little_readahead(
    scene: Scene, magnitudes: dict[str, float]
) -> AbstractContextManager[Callable[[], Stretch]]:
    """Readahead of the device is so small."""
    setting = Path("/sys/block") / scene.device.name / "queue" / "read_ahead_kb"

    @contextmanager
    def stretch() -> Iterator[Callable[[], int]]:
        with value(setting, str(round(magnitudes["kib"]) // 4 * 4)):
            yield lambda: 1

    return contextlib.nullcontext(stretch)


def cache_lost(scene: Scene, _: dict[str, float]) -> AbstractContextManager[Callable[[], Stretch]]:
    """What the page cache holds of the files that the program has open goes, again and again (but what it has mapped, or not written out)."""

    @contextmanager
    def stretch() -> Iterator[Callable[[], int]]:
        yield lambda: _dropped(scene)

    return contextlib.nullcontext(stretch)


def _dropped(scene: Scene) -> int:
    """Takes the open files of the program's file system from the cache; gives how many."""
    of_it, files = scene.beside.stat().st_dev, set()
    for pid in workers(scene):
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                told = link.stat()
                if told.st_dev == of_it and stat.S_ISREG(told.st_mode):
                    files.add(link.readlink())
    for path in files:
        with contextlib.suppress(OSError), path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return len(files)
