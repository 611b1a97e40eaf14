"""One run: inject a fault (or none), record, solve. By public commands only."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import threading
import time
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from tests.accuracy.faults import FAULTS
from tests.accuracy.faults.base import Fault, Load, Running, Setting
from tests.accuracy.host import WHODISK
from tests.accuracy.referee.machine import DISTURBED_CPUS, watched
from tests.accuracy.referee.tracer import traced

ROOT = Path(__file__).resolve().parents[2]
#: The case of a run, and what the case does not hold, in the directory of the run.
CASE, ABOUT = "run.case", "run.json"
#: What independent records say of it.
RECORDS = "records.json"


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
class About:
    """What is known of a run beside its case."""

    #: Kernel name of the device that carries the fault, if one does.
    device: str | None
    #: How often something was done to the workload while it ran.
    times: int
    #: CPUs that programs which have nothing to do with the run kept busy, by the kernel's own account.
    others_cpus: float
    #: CPUs that the hypervisor gave to others although this machine had work for them, by its own account.
    stolen_cpus: float
    #: What recorded it, and when it ended.
    commit: str
    utc: str

    @property
    def is_disturbed(self) -> bool:
        """Whether the run says more about what else the machine did than about whodisk."""
        # The accounts differ by some ticks: less than nothing is nothing.
        return max(0.0, self.others_cpus) + self.stolen_cpus >= DISTURBED_CPUS


@dataclass(frozen=True)
class Solved:
    """A run with its verdict."""

    case: Path
    about: About
    verdict: dict[str, Any]


def record(row: Row, seed: int, seconds: float, work: Path) -> About:
    """Runs `row` once in the directory `work`, emptied first, and leaves its case there.

    Raises subprocess.CalledProcessError if a command fails.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    setting = Setting(row.place, seed, seconds, work, random.Random(f"{row.name} {seed}"))
    with watched() as machine, row.fault.prepare(setting) as load, traced() as requests:
        times = _record(load, work / CASE)
    # Programs of the fault itself have ended before the machine was no longer watched: they count as ours.
    about = About(load.device, times, machine.others_cpus, machine.stolen_cpus, commit(), utc())
    kept = {"machine": machine.to_json(), "requests": [astuple(request) for request in requests]}
    (work / RECORDS).write_text(json.dumps(kept), encoding="utf-8")
    (work / ABOUT).write_text(json.dumps(asdict(about)), encoding="utf-8")
    return about


def about_of(work: Path) -> About | None:
    """What `record` left in `work` beside the case; None if it left nothing."""
    path = work / ABOUT
    return About(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def solve(work: Path) -> Solved:
    """The verdict on the run that `record` left in `work`.

    Raises subprocess.CalledProcessError if the command fails.
    """
    case = work / CASE
    command = [str(WHODISK), "solve", str(case), "--json", "--no-report"]
    solved = subprocess.run(command, check=True, capture_output=True, text=True)
    about = about_of(work)
    assert about is not None, f"{work} holds no {ABOUT}: it was not recorded"
    return Solved(case, about, json.loads(solved.stdout))


def commit() -> str:
    """The commit of this tree; with `-dirty` if it was changed since."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def utc() -> str:
    """Now."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


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
