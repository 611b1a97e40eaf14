"""What the machine did during a run: the rules by which a run is set aside, and counters sampled for excuses.

Nothing here looks at a case or at a verdict.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 0.05
#: Others are looked at for so long before a run.
CALM_SECONDS = 1.0
#: Process id of the parent of all kernel threads.
KTHREADD = 2
#: A run in which others had so many CPUs on average is made again, whatever its verdict.
DISTURBED_CPUS = 0.3


@dataclass
class Machine:
    """Kernel counters over one run."""

    #: CPUs that programs had which have nothing to do with the run, and that the hypervisor kept away, on average.
    others_cpus: float = 0.0
    stolen_cpus: float = 0.0
    #: When samples were taken (CLOCK_MONOTONIC), and seconds stolen since boot, over all CPUs.
    sampled_ns: list[int] = field(default_factory=list)
    stolen_s: list[float] = field(default_factory=list)

    def aside(self) -> str | None:
        """Why the run is set aside, whatever its verdict may be; None if it is kept."""
        # The accounts differ by some ticks: less than nothing is nothing.
        others = max(0.0, self.others_cpus)
        if others + self.stolen_cpus < DISTURBED_CPUS:
            return None
        return f"others had {others:.2f} CPUs, the hypervisor's other guests {self.stolen_cpus:.2f}; {DISTURBED_CPUS:g} in all is too much"

    def stolen_windows(self) -> list[tuple[int, int, int]]:
        """Begin, end and stolen ns of each sample in which something was stolen."""
        samples = list(zip(self.sampled_ns, self.stolen_s, strict=True))
        return [
            (begin, end, round((after - before) * 1e9))
            for (begin, before), (end, after) in itertools.pairwise(samples)
            if after > before
        ]

    def to_json(self) -> dict[str, Any]:
        """As a plain object."""
        return asdict(self)


@contextmanager
def watched() -> Iterator[Machine]:
    """Watches the machine; what it gives is complete at the end, once all processes of the run were waited for."""
    machine, ended = Machine(), threading.Event()

    def sample() -> None:
        while True:
            machine.sampled_ns.append(time.monotonic_ns())
            machine.stolen_s.append(cpu_stolen())
            if ended.wait(SAMPLE_SECONDS):
                return

    began, others, stolen = time.monotonic(), cpu_of_others(), cpu_stolen()
    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield machine
    finally:
        ended.set()
        thread.join()
        seconds = time.monotonic() - began
        machine.others_cpus = (cpu_of_others() - others) / seconds
        machine.stolen_cpus = (cpu_stolen() - stolen) / seconds


def wait_until_calm(seconds_max: float) -> None:
    """Waits until others leave so much of the machine that a run would be kept, or until the time is over."""
    latest = time.monotonic() + seconds_max
    while time.monotonic() < latest:
        others, stolen = cpu_of_others(), cpu_stolen()
        time.sleep(CALM_SECONDS)
        if cpu_of_others() - others + cpu_stolen() - stolen < DISTURBED_CPUS * CALM_SECONDS:
            return


def words() -> str:
    """The machine, for a table."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        "unknown CPU",
    )
    return f"{os.cpu_count()} CPUs ({model}), Linux {os.uname().release}"


def cpu_of_others() -> float:
    """CPU seconds since the boot of all programs but this one, the children that it waited for, and kernel threads."""
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system = Path("/proc/stat").read_text(encoding="ascii").split()[1:4]
    kernel = 0
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = process.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if KTHREADD in (int(process.parent.name), int(fields[1])):
            kernel += int(fields[11]) + int(fields[12])
    ours = os.times()
    mine = ours.user + ours.system + ours.children_user + ours.children_system
    return (int(user) + int(nice) + int(system) - kernel) / tick - mine


def cpu_stolen() -> float:
    """Seconds since the boot in which a CPU had work and the hypervisor did not run it, over all CPUs."""
    return int(Path("/proc/stat").read_text(encoding="ascii").split()[8]) / os.sysconf("SC_CLK_TCK")
