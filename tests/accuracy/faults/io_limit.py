"""The I/O controller holds the workload back on its device.

Right: the I/O limit, kind `config`. The look-alike has a limit far above what it asks for: nobody may be accused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.accuracy.faults.base import Fault, Load, Setting, of_config
from tests.accuracy.faults.places import target
from tests.accuracy.host import group, said


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """Reads and writes are limited to 300 to 1,500 per second each."""
    with _limited(setting, setting.chance.randint(300, 1500)) as load:
        yield load


@contextmanager
def loose(setting: Setting) -> Iterator[Load]:
    """1,000 operations per second where 20,000 to 50,000 are allowed."""
    with _limited(setting, setting.chance.randint(20_000, 50_000), rate="1000/s") as load:
        yield load


@contextmanager
def _limited(setting: Setting, per_second: int, **keys: str) -> Iterator[Load]:
    with target(setting) as path:
        limit = f"{_number(path)} {per_second}"
        kinds = ("read", "write")
        with group("blkio", {f"blkio.throttle.{kind}_iops_device": limit for kind in kinds}) as folder:
            yield Load(setting.spec(path, **keys), during=lambda running: running.join(folder))


def _number(path: Path) -> str:
    """Major and minor number of a device, or of the disk that holds a file."""
    if path.is_block_device():
        return said("lsblk", "--nodeps", "--noheadings", "--output", "MAJ:MIN", path).strip()
    return said("findmnt", "--noheadings", "--output", "MAJ:MIN", "--target", path.parent)


FAULTS = (
    Fault(
        name="io-limit",
        words="I/O controller: 300 to 1,500 reads and writes per second",
        prepare=prepare,
        named=lambda finding, _: of_config(finding, "I/O limit of"),
        times_min=1,
    ),
    Fault(
        name="io-limit-loose",
        words="I/O controller with a limit far above the load: nothing is wrong",
        prepare=loose,
        times_min=1,
        places=("memory",),
        short_places=(),
    ),
)
