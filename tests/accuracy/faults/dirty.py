"""A program writes through the page cache, faster than its device takes it and with little room for dirty pages.

Right: the limit of dirty pages, kind `config`. The look-alike writes slower than the device: nobody may be accused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.accuracy.faults.base import Fault, Load, Setting, of_config
from tests.accuracy.host import file_system, program, said, slowdisk, value

MIB = 1 << 20


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """A device that takes 20 to 60 MiB/s."""
    with _writer(setting, setting.chance.randint(20, 60), rate=0) as load:
        yield load


@contextmanager
def slow(setting: Setting) -> Iterator[Load]:
    """2 MiB/s for a device that takes 100."""
    with _writer(setting, 100, rate=2 * MIB) as load:
        yield load


@contextmanager
def _writer(setting: Setting, device_mib: int, rate: int) -> Iterator[Load]:
    with ExitStack() as stack:
        device = stack.enter_context(
            slowdisk(f"write throttle {device_mib}MiB/s", seed=setting.seed, size="512MiB")
        )
        # The limits of this device alone: those of the machine are everybody's.
        number = said("lsblk", "--nodeps", "--noheadings", "--output", "MAJ:MIN", device).strip()
        bdi = Path("/sys/class/bdi") / number
        stack.enter_context(value(bdi / "strict_limit", "1"))
        # The kernel keeps this limit as a ratio, so that is what comes back.
        stack.enter_context(value(bdi / "max_ratio_fine", "1000000"))
        (bdi / "max_bytes").write_text(str(8 * MIB), encoding="ascii")
        folder = stack.enter_context(file_system(device, setting.work / "mounted"))
        command = program(
            "writer",
            path=folder / "data.bin",
            size=128 * MIB,
            bytes=64 << 10,
            rate=rate,
            seconds=setting.seconds,
        )
        yield Load(["record", "--", *command], device.name)


FAULTS = (
    Fault(
        name="dirty",
        words="buffered writer on a device that takes 20 to 60 MiB/s, room for 8 MiB of dirty pages",
        prepare=prepare,
        named=lambda finding, _: of_config(finding, "limit of dirty pages"),
        places=("memory",),
    ),
    Fault(
        name="dirty-slow",
        words="buffered writer slower than its device: nothing is wrong",
        prepare=slow,
        places=("memory",),
        short_places=(),
    ),
)
