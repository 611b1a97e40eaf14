"""What others do to a program: limits of its control group, neighbours, who takes its CPU, a setting that is too small.

Each does it to a running program, in the windows only, until the event is set, and adds what it did to the list.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.accuracy.host import group, neighbour, said, value
from tests.accuracy.referee.scene import Injection, Scene, Window, open_in, workers

MIB = 1 << 20
PERIOD_US = 100_000
POLL_SECONDS = 0.02
#: Nothing goes on for longer than this without a look at the program's processes: they come and go.
STRETCH_NS = 300_000_000

Act = Callable[
    [Scene, dict[str, float], random.Random, list[Window] | None, threading.Event, list[Injection]], None
]


def while_it_lasts(
    does: Callable[[Scene, dict[str, float]], AbstractContextManager[Callable[[], int]]],
) -> Act:
    """An act out of something that is on or off: on for a stretch, off for as long on average, drawn.

    What `does` gives is called again and again while it is on, and says whom it touched; a stretch that touched nobody did nothing.
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
        while not ended.wait(POLL_SECONDS if windows else chance.uniform(0.5, 1.5) * pause_s):
            stretch = open_in(windows, time.monotonic_ns(), chance, length_ns)
            if stretch is None:
                continue
            touched = 0
            with does(scene, magnitudes) as again:
                begin = time.monotonic_ns()
                while time.monotonic_ns() < stretch[1] and not ended.is_set():
                    touched += again()
                    time.sleep(POLL_SECONDS)
                end = time.monotonic_ns()
            if touched:
                done.append(Injection(begin, end))

    return act


def _joined(folder: Path, scene: Scene) -> int:
    """Moves the program's processes into a group; gives how many are in it."""
    for pid in workers(scene):
        with contextlib.suppress(ProcessLookupError):
            (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
    return len((folder / "cgroup.procs").read_text(encoding="ascii").split())


@contextmanager
def _limited(controller: str, limits: dict[str, str], scene: Scene) -> Iterator[Callable[[], int]]:
    with group(controller, limits) as folder:
        try:
            yield lambda: _joined(folder, scene)
        finally:
            for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split():
                with contextlib.suppress(ProcessLookupError):
                    (folder.parent / "cgroup.procs").write_text(pid, encoding="ascii")


def cpu_limit(scene: Scene, magnitudes: dict[str, float]) -> AbstractContextManager[Callable[[], int]]:
    """The CPU controller gives the program so much of a CPU."""
    quota = max(1000, round(PERIOD_US * magnitudes["cpus"]))
    return _limited("cpu", {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}, scene)


def io_limit(scene: Scene, magnitudes: dict[str, float]) -> AbstractContextManager[Callable[[], int]]:
    """The I/O controller lets so many reads and writes per second through. (Version 1: of writeback it knows nothing.)"""
    number = said("lsblk", "--nodeps", "--noheadings", "--output", "MAJ:MIN", scene.device).strip()
    limit = f"{number} {max(1, round(magnitudes['per_s']))}"
    return _limited(
        "blkio", {f"blkio.throttle.{kind}_iops_device": limit for kind in ("read", "write")}, scene
    )


@contextmanager
def cpu_hog(scene: Scene, _: dict[str, float]) -> Iterator[Callable[[], int]]:
    """A real-time program has the CPU on which the program must run."""
    cpu = max(os.sched_getaffinity(0))
    everywhere = ",".join(map(str, sorted(os.sched_getaffinity(0))))

    def pin(cpus: str) -> int:
        pids = workers(scene)
        for pid in pids:
            words = ["taskset", "--all-tasks", "--cpu-list", "--pid", cpus, str(pid)]
            subprocess.run(words, check=False, capture_output=True)
        return len(pids)

    with neighbour("hog", cpu=cpu, busy=3600, idle=0.001):
        try:
            yield lambda: pin(str(cpu))
        finally:
            pin(everywhere)


@contextmanager
def syncs(scene: Scene, magnitudes: dict[str, float]) -> Iterator[Callable[[], int]]:
    """A neighbour appends to a file of the same file system and syncs it, as fast as it goes."""
    shape: dict[str, Any] = {"bytes": round(magnitudes["kib"]) << 10, "size": 32 * MIB}
    path = scene.beside / "neighbour.bin"
    with neighbour("fsyncs", path=path, **shape, busy=3600, idle=0.001) as process:
        yield lambda: process.poll() is None


@contextmanager
def reads_in_order(scene: Scene, magnitudes: dict[str, float]) -> Iterator[Callable[[], int]]:
    """A neighbour reads the device in order, past the page cache: an arm that it has is not elsewhere."""
    shape: dict[str, Any] = {
        "bytes": 256 << 10,
        "size": scene.size_bytes // 2,
        "threads": round(magnitudes["streams"]),
    }
    with neighbour("rival", path=scene.device, **shape, busy=3600, idle=0.001) as process:
        yield lambda: process.poll() is None


@contextmanager
def little_readahead(scene: Scene, magnitudes: dict[str, float]) -> Iterator[Callable[[], int]]:
    """Readahead of the device is so small."""
    setting = Path("/sys/block") / scene.device.name / "queue" / "read_ahead_kb"
    with value(setting, str(round(magnitudes["kib"]) // 4 * 4)):
        yield lambda: 1
