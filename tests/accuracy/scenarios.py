"""One run: inject a fault (or none), record, solve. By public commands only."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WHODISK = Path(sys.executable).parent / "whodisk"
#: Where the data lie: a block device in memory, or a file on the system's disk.
PLACES = ("memory", "disk")
#: What is injected; `depth` is a workload that a queue depth of 4 simply limits, `healthy` is nothing.
FAULTS = ("tail", "stall", "stopped", "depth", "healthy")

SLOWDISK_FAULT = {"tail": "read tail 0.001 30ms", "stall": "any stall 700ms 60ms"}
STOP_SECONDS = 0.1
#: Process id of the parent of all kernel threads.
KTHREADD = 2
SIZE = "256MiB"


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    fault: str
    place: str

    @property
    def name(self) -> str:
        """`tail/memory`."""
        return f"{self.fault}/{self.place}"


ROWS = [Row(fault, place) for fault in FAULTS for place in PLACES]


@dataclass(frozen=True)
class Recorded:
    """A solved run."""

    case: Path
    verdict: dict[str, Any]
    #: Kernel name of the device that carried a fault; None if none did.
    device: str | None
    #: Times that the submitter was stopped.
    stops: int
    #: CPUs that programs which have nothing to do with the run kept busy, by the kernel's own account.
    others_cpus: float


def run_once(row: Row, seed: int, seconds: float, work: Path) -> Recorded:
    """Runs `row` once in the directory `work` (emptied first) and solves it.

    Raises subprocess.CalledProcessError if a command fails.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    case = work / "run.case"
    began, others = time.monotonic(), _cpu_of_others()
    with ExitStack() as stack:
        target, device = _target(row, seed, work, stack)
        spec = work / "spec.toml"
        spec.write_text(_spec(row, seed, seconds, target), encoding="utf-8")
        stops = _record(spec, case, seed if row.fault == "stopped" else None)
    command = [str(WHODISK), "solve", str(case), "--json", "--no-report"]
    solved = subprocess.run(command, check=True, capture_output=True, text=True)
    others_cpus = (_cpu_of_others() - others) / (time.monotonic() - began)
    return Recorded(case, json.loads(solved.stdout), device, stops, others_cpus)


def _target(row: Row, seed: int, work: Path, stack: ExitStack) -> tuple[Path, str | None]:
    """The path to work on, and the device that is at fault."""
    if row.fault in SLOWDISK_FAULT:
        backing = work / "backing.img" if row.place == "disk" else None
        device = stack.enter_context(slowdisk(SLOWDISK_FAULT[row.fault], seed, backing))
        return device, device.name
    if row.place == "memory":
        return stack.enter_context(memory_device()), None
    return work / "data.bin", None


def _spec(row: Row, seed: int, seconds: float, target: Path) -> str:
    # Healthy runs take turns: as fast as it goes, and a fixed rate far below that.
    rate = 'rate = "3000/s"\narrival = "poisson"\n' if row.fault == "healthy" and seed % 2 else ""
    workers, depth = (1, 4) if row.fault == "depth" else (2, 4)
    return f"""[workload]
targets = ["{target}"]
file_size = "{SIZE}"
allow_overwrite = true
block_sizes = "4KiB"
read = "60%"
random = "55%"
workers = {workers}
queue_depth = {depth}
ramp = "500ms"
duration = "{seconds}s"
seed = {seed}
{rate}"""


def _record(spec: Path, case: Path, stop_seed: int | None) -> int:
    command = [str(WHODISK), "run", str(spec), "-o", str(case), "--drop-raw"]
    stops = 0
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        # Its stderr is read meanwhile, so that a full pipe cannot hold it up.
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.extend(process.stderr or []))
        reader.start()
        if stop_seed is not None:
            stops = _stop_now_and_then(case, stop_seed, process)
        code = process.wait()
        reader.join()
    if code != 0:
        raise subprocess.CalledProcessError(code, command, stderr="".join(said))
    return stops


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


def _stop_now_and_then(case: Path, seed: int, process: subprocess.Popen[str]) -> int:
    """Stops the workload for 100 ms every half a second or so; returns how often."""
    chance = random.Random(seed)
    streams = case / "raw" / "app"
    while process.poll() is None and not any(p.stat().st_size for p in streams.glob("worker-*.arrows")):
        time.sleep(0.02)
    if process.poll() is not None:
        return 0
    pid = json.loads((case / "case.json").read_text(encoding="utf-8"))["command_pid"]
    stops = 0
    time.sleep(0.8)
    while _running(pid):
        subprocess.run(["kill", "-STOP", str(pid)], check=False, stderr=subprocess.DEVNULL)
        time.sleep(STOP_SECONDS)
        subprocess.run(["kill", "-CONT", str(pid)], check=False, stderr=subprocess.DEVNULL)
        stops += 1
        time.sleep(chance.uniform(0.3, 0.9))
    return stops


def _running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False


@contextmanager
def slowdisk(fault: str, seed: int, backing: Path | None = None) -> Iterator[Path]:
    """A `whodisk slowdisk` with one fault; gives the path of its device."""
    command = [str(WHODISK), "slowdisk", "--size", SIZE, "--fault", fault, "--seed", str(seed)]
    if backing is not None:
        command += ["--backing", str(backing)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            _, said = process.communicate()
            raise subprocess.CalledProcessError(process.returncode, command, stderr=said)
        try:
            yield Path(line.strip())
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


@contextmanager
def memory_device() -> Iterator[Path]:
    """A loop device over a file in a tmpfs; gives its path."""
    image = Path("/dev/shm/whodisk-accuracy.img")
    with image.open("wb") as file:
        file.truncate(256 << 20)
    found = subprocess.run(
        ["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True
    )
    device = found.stdout.strip()
    try:
        yield Path(device)
    finally:
        subprocess.run(["losetup", "--detach", device], check=False)
        image.unlink(missing_ok=True)
