"""Where a workload works, in the two places of the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.accuracy.faults.base import Setting
from tests.accuracy.host import memory_device, slowdisk


@contextmanager
def target(setting: Setting) -> Iterator[Path]:
    """A device in memory, or a file on the system's disk."""
    if setting.place == "disk":
        yield setting.work / "data.bin"
    else:
        with memory_device() as device:
            yield device


@contextmanager
def faulty(setting: Setting, *faults: str) -> Iterator[Path]:
    """A slow disk that keeps its data in memory, or in a file on the system's disk."""
    backing = setting.work / "backing.img" if setting.place == "disk" else None
    with slowdisk(*faults, seed=setting.seed, backing=backing) as device:
        yield device
