"""The scheduler bfq, and a competitor of real-time I/O class that reads the same device in order, in bursts.

Right: the process `rival`, or the stage `queue` of the device. The look-alike has bfq without a competitor: nobody may be
accused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.accuracy.faults.base import Fault, Finding, Load, Setting, of_device, of_process
from tests.accuracy.host import neighbour, slowdisk, value

SHAPE = {"bytes": 64 << 10, "size": 128 << 20, "threads": 4}


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """Bursts of 0.1 to 0.2 s, two or three each second."""
    busy, idle = setting.chance.uniform(0.1, 0.2), setting.chance.uniform(0.15, 0.3)
    with (
        _device(setting) as device,
        neighbour(
            "rival", by=("ionice", "-c1"), path=device, **SHAPE, busy=busy, idle=idle, seed=setting.seed
        ),
    ):
        yield Load(setting.spec(device, read="100%", workers=1), device.name)


@contextmanager
def alone(setting: Setting) -> Iterator[Load]:
    """No competitor."""
    with _device(setting) as device:
        yield Load(setting.spec(device, read="100%", workers=1), device.name)


@contextmanager
def _device(setting: Setting) -> Iterator[Path]:
    rate = f"any throttle {setting.chance.randint(3000, 6000)}/s"
    with slowdisk(rate, seed=setting.seed) as device:
        queue = Path("/sys/block") / device.name / "queue"
        # bfq waits for more of a reader in order only where seeks cost.
        with value(queue / "rotational", "1"), value(queue / "scheduler", "bfq"):
            yield device


def _named(finding: Finding, device: str | None) -> bool:
    return of_process(finding, "rival") or of_device(finding, device, "queue")


FAULTS = (
    Fault(
        name="bfq",
        words="bfq, and a competitor of real-time I/O class that reads in order, in bursts",
        prepare=prepare,
        named=_named,
        places=("memory",),
        # Fewer bursts may be chance.
        short_seconds=5,
    ),
    Fault(
        name="bfq-alone",
        words="bfq without a competitor: nothing is wrong",
        prepare=alone,
        places=("memory",),
        short_places=(),
    ),
)
