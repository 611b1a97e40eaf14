"""A slow disk: few reads take much longer.

Right: the stage `device` of that disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.accuracy.faults.base import Fault, Load, Setting, of_device
from tests.accuracy.faults.places import faulty


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """1 of 1,000 reads takes 30 ms longer."""
    with faulty(setting, "read tail 0.001 30ms") as device:
        yield Load(setting.spec(device), device.name)


FAULTS = (
    Fault(
        name="tail",
        words="slow disk: 1 of 1,000 reads takes 30 ms longer",
        prepare=prepare,
        named=of_device,
        short_places=("disk",),
        short_seconds=5,
    ),
)
