"""One run: inject a fault (or none), record, solve. By public commands only."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.accuracy.faults import FAULTS
from tests.accuracy.faults.base import Fault, Load, Running, Setting
from tests.accuracy.host import WHODISK

#: Process id of the parent of all kernel threads.
KTHREADD = 2
#: A run in which others had so many CPUs on average is made again, whatever its verdict.
DISTURBED_CPUS = 0.3


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    fault: Fault
    place: str

    @property
    def name(self) -> str:
        """`tail/memory`."""
        return f"{self.fault.name}/{self.place}"


ROWS = [Row(fault, place) for fault in FAULTS for place in fault.places]


@dataclass(frozen=True)
class Recorded:
    """A solved run."""

    case: Path
    verdict: dict[str, Any]
    load: Load
    #: How often something was done to the workload while it ran.
    times: int
    #: CPUs that programs which have nothing to do with the run kept busy, by the kernel's own account.
    others_cpus: float
    #: CPUs that the hypervisor gave to others during the recording although this machine had work for them, by its own account.
    stolen_cpus: float

    @property
    def is_disturbed(self) -> bool:
        """Whether it says more about what else the machine did than about whodisk."""
        return self.others_cpus + self.stolen_cpus >= DISTURBED_CPUS


def run_once(row: Row, seed: int, seconds: float, work: Path) -> Recorded:
    """Runs `row` once in the directory `work` (emptied first) and solves it.

    Raises subprocess.CalledProcessError if a command fails.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    case = work / "run.case"
    began, others = time.monotonic(), _cpu_of_others()
    setting = Setting(row.place, seed, seconds, work, random.Random(f"{row.name} {seed}"))
    with row.fault.prepare(setting) as load:
        before, stolen = time.monotonic(), _cpu_stolen()
        times = _record(load, case)
        stolen_cpus = (_cpu_stolen() - stolen) / (time.monotonic() - before)
    command = [str(WHODISK), "solve", str(case), "--json", "--no-report"]
    solved = subprocess.run(command, check=True, capture_output=True, text=True)
    took = time.monotonic() - began
    return Recorded(
        case,
        json.loads(solved.stdout),
        load,
        times,
        others_cpus=(_cpu_of_others() - others) / took,
        stolen_cpus=stolen_cpus,
    )


def _record(load: Load, case: Path) -> int:
    verb, *rest = load.command
    command = [str(WHODISK), verb, "-o", str(case), "--drop-raw", *rest]
    times = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        # Its stderr is read meanwhile, so that a full pipe cannot hold it up.
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.extend(process.stderr or []))
        reader.start()
        if load.during is not None:
            times = load.during(Running(case, process))
        code = process.wait()
        reader.join()
    if code != 0:
        raise subprocess.CalledProcessError(code, command, stderr="".join(said))
    return times


def _cpu_of_others() -> float:
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


def _cpu_stolen() -> float:
    """Seconds since the boot in which a CPU had work and the hypervisor did not run it, over all CPUs."""
    return int(Path("/proc/stat").read_text(encoding="ascii").split()[8]) / os.sysconf("SC_CLK_TCK")
