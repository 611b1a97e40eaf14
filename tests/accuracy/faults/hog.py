"""A program of real-time priority shares the submitter's CPU, in bursts.

Right: the process `hog`, whichever detector names it. The workload only reads: ext4 ends direct writes in a worker of the
same CPU, which the hog keeps waiting as well, and the recorder does not follow that worker.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.accuracy.faults.base import Fault, Load, Running, Setting, of_process
from tests.accuracy.faults.places import target
from tests.accuracy.host import neighbour


@contextmanager
def prepare(setting: Setting) -> Iterator[Load]:
    """Bursts of 15 to 60 ms, with 80 to 200 ms between them."""
    with target(setting) as path, _hog(setting) as cpu:

        def pin(running: Running) -> int:
            pid = running.pid()
            if pid is None:
                return 0
            command = ["taskset", "--all-tasks", "--cpu-list", "--pid", str(cpu), str(pid)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            return 1

        yield Load(setting.spec(path, read="100%"), during=pin)


@contextmanager
def _hog(setting: Setting) -> Iterator[int]:
    cpu = max(os.sched_getaffinity(0))
    busy, idle = setting.chance.uniform(0.015, 0.06), setting.chance.uniform(0.08, 0.2)
    with neighbour("hog", cpu=cpu, busy=busy, idle=idle, seed=setting.seed):
        yield cpu


FAULTS = (
    Fault(
        name="hog",
        words="a real-time program on the submitter's CPU, for 15 to 60 ms every 0.1 to 0.3 s",
        prepare=prepare,
        named=lambda finding, _: of_process(finding, "hog"),
        times_min=1,
    ),
)
