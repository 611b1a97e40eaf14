"""A program reads in order through the page cache, from a disk that takes some hundred microseconds per request.

Right: the setting `read_ahead_kb` of that device, if it is small. The look-alike has a large one: nobody may be accused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.accuracy.faults.base import Fault, Load, Setting, of_config
from tests.accuracy.host import program, slowdisk, value

SIZE_BYTES = 192 << 20


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """A window of 8 to 32 KiB, and 200 to 400 us per request."""
    with _reader(setting, setting.chance.choice((8, 16, 32))) as load:
        yield load


@contextmanager
def large(setting: Setting) -> Iterator[Load]:
    """A window of 256 KiB to 1 MiB, for a reader that asks for 32 MiB/s."""
    with _reader(setting, setting.chance.choice((256, 512, 1024)), rate=32 << 20) as load:
        yield load


@contextmanager
def _reader(setting: Setting, window_kb: int, rate: int = 0) -> Iterator[Load]:
    latency_us = setting.chance.randint(200, 400)
    with slowdisk(seed=setting.seed, latency=f"{latency_us}us") as device:
        setting_file = Path("/sys/block") / device.name / "queue" / "read_ahead_kb"
        with value(setting_file, str(window_kb)):
            command = program(
                "reader", path=device, size=SIZE_BYTES, bytes=16 << 10, rate=rate, seconds=setting.seconds
            )
            yield Load(["record", "--", *command], device.name)


FAULTS = (
    Fault(
        name="readahead",
        words="readahead of 8 to 32 KiB for a reader in order; a request takes 200 to 400 us",
        prepare=prepare,
        named=lambda finding, device: of_config(finding, f"read_ahead_kb of {device}"),
        places=("memory",),
    ),
    Fault(
        name="readahead-large",
        words="a reader of 32 MiB/s with readahead of 256 KiB to 1 MiB: nothing is wrong",
        prepare=large,
        places=("memory",),
        short_places=(),
    ),
)
