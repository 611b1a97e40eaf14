"""A device with a bad spot: what is read there fails after the device has tried for long, and the reader tries again.

Right: the device, because of its errors. The look-alike never reads there: nobody may be accused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.accuracy.faults.base import Fault, Finding, Load, Setting
from tests.accuracy.host import program, slowdisk

SIZE_BYTES = 192 << 20


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """1 of 100 to 300 places is bad; a read there takes 10 to 40 ms."""
    bad = SIZE_BYTES // setting.chance.randint(100, 300) // 4096 * 4096
    begin = setting.chance.randrange((SIZE_BYTES - bad) // 4096) * 4096
    with _reader(setting, begin, begin + bad) as load:
        yield load


@contextmanager
def beyond(setting: Setting) -> Iterator[Load]:
    """The bad spot is not read."""
    with _reader(setting, SIZE_BYTES, SIZE_BYTES + (1 << 20)) as load:
        yield load


@contextmanager
def _reader(setting: Setting, begin: int, end: int) -> Iterator[Load]:
    delay_ms, name = setting.chance.randint(10, 40), setting.chance.choice(("EIO", "ENODATA"))
    where = f"offset {begin}B..{end}B"
    faults = (f"read constant {delay_ms}ms {where}", f"read error 1 {name} {where}")
    with slowdisk(*faults, seed=setting.seed, latency="100us") as device:
        command = program("retries", path=device, size=SIZE_BYTES, seconds=setting.seconds, seed=setting.seed)
        yield Load(["record", "--", *command], device.name)


def _named(finding: Finding, device: str | None) -> bool:
    culprit = finding["culprit"]
    accused = (culprit["kind"], culprit["name"], culprit["because_of"])
    return accused == ("device", device, "errors")


FAULTS = (
    Fault(
        name="errors",
        words="bad places on a device: reads fail after 10 to 40 ms, and are tried again",
        prepare=prepare,
        named=_named,
        places=("memory",),
    ),
    Fault(
        name="errors-unread",
        words="the same bad places, which nobody reads: nothing is wrong",
        prepare=beyond,
        places=("memory",),
        short_places=(),
    ),
)
