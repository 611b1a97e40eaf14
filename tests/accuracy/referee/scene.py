"""Where a fault works, and what it did."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whodisk.programs.base import Program

Window = tuple[int, int]


@dataclass(frozen=True)
class Injection:
    """One thing that was done, in CLOCK_MONOTONIC."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Scene:
    """Where a fault works."""

    program: Program
    #: Its device, and the bytes of it.
    device: Path
    size_bytes: int
    #: Process that serves the program and runs before it; the processes of the program descend from it or from us.
    server: int | None
    #: A folder on its file system that is not the program's.
    beside: Path


def processes(scene: Scene) -> Iterator[tuple[int, str]]:
    """Number and name of every process that descends from the program's server or from us: never those of anybody else.

    The recorder and the slow disk descend from us, too.
    """
    parents: dict[int, tuple[int, str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, after = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")
        except OSError:
            continue  # it has ended
        number, name = before.split(" (", 1)
        parents[int(number)] = (int(after.split()[1]), name)

    def is_ours(pid: int) -> bool:
        while pid in parents:
            if pid in (scene.server, os.getpid()):
                return True
            pid = parents[pid][0]
        return False

    for pid, (_, comm) in parents.items():
        if is_ours(pid):
            yield pid, comm


def workers(scene: Scene) -> list[int]:
    """Processes of the program that bear its worker's name."""
    return [pid for pid, comm in processes(scene) if comm == scene.program.worker]


def open_until(windows: list[Window] | None, now_ns: int) -> int | None:
    """End of the window that is open now (without windows: never); None if none is."""
    if windows is None:
        return sys.maxsize
    return next((end for begin, end in windows if begin <= now_ns < end), None)
