"""A program reads pages of a file at random, in a control group whose memory shrinks below that file.

Right: the cache tier `ram`. The look-alike keeps enough memory: nobody may be accused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.accuracy.faults.base import Fault, Load, Running, Setting
from tests.accuracy.host import file_system, group, program, slowdisk, uncached

MIB = 1 << 20
FILE_BYTES = 24 * MIB
LIMIT = "memory.limit_in_bytes"


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """24 MiB are read in a group of 12 to 18 MiB, from a third of the run on."""
    with _reader(setting, setting.chance.randint(12, 18)) as load:
        yield load


@contextmanager
def enough(setting: Setting) -> Iterator[Load]:
    """48 to 96 MiB."""
    with _reader(setting, setting.chance.randint(48, 96)) as load:
        yield load


@contextmanager
def _reader(setting: Setting, limit_mib: int) -> Iterator[Load]:
    with (
        slowdisk(seed=setting.seed, latency="100us") as device,
        file_system(device, setting.work / "mounted") as folder,
        group("memory", {LIMIT: str(128 * MIB)}) as limited,
    ):
        path = folder / "data.bin"
        path.write_bytes(setting.chance.randbytes(FILE_BYTES))
        uncached(path)
        command = program(
            "reader",
            path=path,
            size=FILE_BYTES,
            random=1,
            group=limited,
            seconds=setting.seconds,
            seed=setting.seed,
        )

        def shrink(running: Running) -> int:
            if running.pid() is None:
                return 0
            threading.Event().wait(setting.seconds / 3)
            (limited / LIMIT).write_text(str(limit_mib * MIB), encoding="ascii")
            return 1

        yield Load(["record", "--", *command], device.name, during=shrink)


FAULTS = (
    Fault(
        name="eviction",
        words="memory of the reader's group shrinks below what it reads again and again",
        prepare=prepare,
        named=lambda finding, _: bool(finding["culprit"]["kind"] == "cache_tier"),
        places=("memory",),
        times_min=1,
    ),
    Fault(
        name="eviction-none",
        words="memory of the reader's group shrinks, but not below what it reads: nothing is wrong",
        prepare=enough,
        places=("memory",),
        short_places=(),
        times_min=1,
    ),
)
