"""A program that writes its log, and a neighbour that appends to a file on the same file system and syncs it, in bursts.

A commit of the journal waits for what the neighbour has appended, so the log waits for it.

Right: the process `fsyncs`. The look-alike syncs as much on another file system: nobody may be accused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.accuracy.faults.base import Fault, Load, Setting, of_process
from tests.accuracy.host import file_system, neighbour, program, slowdisk


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """256 KiB to 1 MiB each time; bursts of 0.1 s, some each second."""
    with _disk(setting, "mounted") as (device, folder), _storm(setting, folder):
        yield Load(_log(setting, folder), device.name)


@contextmanager
def elsewhere(setting: Setting) -> Iterator[Load]:
    """The same disk twice; the neighbour has the other one."""
    with (
        _disk(setting, "mounted") as (_, folder),
        _disk(setting, "other") as (_, away),
        _storm(setting, away),
    ):
        yield Load(_log(setting, folder))


@contextmanager
def _disk(setting: Setting, name: str) -> Iterator[tuple[Path, Path]]:
    faults = ("any constant 50us", "flush constant 300us", "write throttle 60MiB/s")
    with (
        slowdisk(*faults, seed=setting.seed) as device,
        file_system(device, setting.work / name) as folder,
    ):
        yield device, folder


def _log(setting: Setting, folder: Path) -> list[str]:
    command = program("log", path=folder / "log.bin", seconds=setting.seconds)
    return ["record", "--", *command]


def _storm(setting: Setting, folder: Path) -> AbstractContextManager[object]:
    busy, idle = setting.chance.uniform(0.08, 0.15), setting.chance.uniform(0.12, 0.25)
    shape = {
        "path": folder / "neighbour.bin",
        "size": 16 << 20,
        "bytes": setting.chance.randint(64, 256) << 12,
    }
    return neighbour("fsyncs", by=(), **shape, busy=busy, idle=idle, seed=setting.seed)


FAULTS = (
    Fault(
        name="fsync-storm",
        words="a neighbour appends 256 KiB to 1 MiB and syncs on the same file system, in bursts",
        prepare=prepare,
        named=lambda finding, _: of_process(finding, "fsyncs"),
        places=("memory",),
        # Fewer bursts may be chance.
        short_seconds=5,
    ),
    Fault(
        name="fsync-elsewhere",
        words="a neighbour syncs on another file system: nothing is wrong",
        prepare=elsewhere,
        places=("memory",),
        short_places=(),
    ),
)
