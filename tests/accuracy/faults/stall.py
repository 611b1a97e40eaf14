"""A slow disk: all requests are held for a while, again and again.

Right: the stage `device` of that disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.accuracy.faults.base import Fault, Load, Setting, of_device
from tests.accuracy.faults.places import faulty


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """Every 700 ms all requests are held for 60 ms."""
    with faulty(setting, "any stall 700ms 60ms") as device:
        yield Load(setting.spec(device), device.name)


FAULTS = (
    Fault(
        name="stall",
        words="slow disk: every 700 ms all requests are held for 60 ms",
        prepare=prepare,
        named=of_device,
        short_seconds=5,
    ),
)
