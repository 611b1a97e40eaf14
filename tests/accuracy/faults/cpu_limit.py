"""The CPU controller stops the workload whenever its quota is used up.

Right: the CPU limit, kind `config`. The look-alike has a quota that it cannot use up: nobody may be accused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.accuracy.faults.base import Fault, Load, Setting, of_config
from tests.accuracy.faults.places import target
from tests.accuracy.host import group

PERIOD_US = 100_000


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """10 to 30 ms of CPU time in 100 ms."""
    with _limited(setting, setting.chance.randint(10_000, 30_000)) as load:
        yield load


@contextmanager
def loose(setting: Setting) -> Iterator[Load]:
    """Two CPUs, for 1,000 operations per second."""
    with _limited(setting, 2 * PERIOD_US, rate="1000/s") as load:
        yield load


@contextmanager
def _limited(setting: Setting, quota_us: int, **keys: str) -> Iterator[Load]:
    limits = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}
    with target(setting) as path, group("cpu", limits) as folder:
        yield Load(setting.spec(path, **keys), during=lambda running: running.join(folder))


FAULTS = (
    Fault(
        name="cpu-limit",
        words="CPU controller: 10 to 30 ms in 100 ms",
        prepare=prepare,
        named=lambda finding, _: of_config(finding, "CPU limit of"),
        times_min=1,
    ),
    Fault(
        name="cpu-limit-loose",
        words="CPU controller with a quota that is not used up: nothing is wrong",
        prepare=loose,
        times_min=1,
        places=("memory",),
        short_places=(),
    ),
)
