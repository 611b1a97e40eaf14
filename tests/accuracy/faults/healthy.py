"""Nothing is wrong: as fast as it goes, at a fixed rate far below that, or with a queue depth that simply limits.

Right: nobody is accused, and the depth is told as the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.accuracy.faults.base import Fault, Load, Setting
from tests.accuracy.faults.places import target


@contextmanager
def depth(setting: Setting) -> Iterator[Load]:
    """One worker with 4 operations in flight."""
    with target(setting) as path:
        yield Load(setting.spec(path, workers=1))


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """A closed loop and a fixed rate take turns."""
    rate: dict[str, str | int] = {"rate": "3000/s", "arrival": "poisson"} if setting.seed % 2 else {}
    with target(setting) as path:
        yield Load(setting.spec(path, **rate))


FAULTS = (
    Fault(
        name="depth",
        words="nothing broken, but a queue depth of 4 limits",
        prepare=depth,
        limit="depth",
        short_places=(),
    ),
    Fault(
        name="healthy",
        words="nothing (closed loop and 3,000/s by turns)",
        prepare=prepare,
        short_places=("disk",),
        short_seconds=5,
    ),
)
