"""What a fault is: a set-up that restores everything, and what a right verdict names."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Where the data lie: a block device in memory, or a file on the system's disk.
PLACES = ("memory", "disk")
#: Size of the data that a workload works on.
SIZE = "256MiB"
#: A busy host may need so long until the first operation is recorded.
ATTACH_SECONDS_MAX = 60.0

Finding = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One run of a fault."""

    place: str
    seed: int
    #: Measured seconds.
    seconds: float
    #: An empty directory on the system's disk.
    work: Path
    #: Draws the magnitudes of the fault.
    chance: random.Random

    def spec(self, target: Path, **keys: str | int) -> list[str]:
        """Arguments of `whodisk` that run 4 KiB reads and writes on `target`; `keys` replace the defaults."""
        settings: dict[str, str | int] = {
            "file_size": SIZE,
            "block_sizes": "4KiB",
            "read": "60%",
            "random": "55%",
            "workers": 2,
            "queue_depth": 4,
            "ramp": "500ms",
            "duration": f"{self.seconds}s",
            "seed": self.seed,
            **keys,
        }
        values = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        path = self.work / "spec.toml"
        text = f'[workload]\ntargets = ["{target}"]\nallow_overwrite = true\n{values}'
        path.write_text(text, encoding="utf-8")
        return ["run", str(path)]


@dataclass(frozen=True)
class Running:
    """A recording that goes on."""

    case: Path
    process: subprocess.Popen[str]

    def pid(self) -> int | None:
        """Process of the workload, as soon as an operation of it was recorded; None if it ended before."""
        latest = time.monotonic() + ATTACH_SECONDS_MAX
        while time.monotonic() < latest and self.process.poll() is None:
            streams = [*self.case.glob("raw/app/worker-*.arrows"), *self.case.glob("raw/syscall/*.arrows")]
            if any(stream.stat().st_size for stream in streams):
                pid = json.loads((self.case / "case.json").read_text(encoding="utf-8"))["command_pid"]
                if pid is not None:
                    return int(pid)
            time.sleep(0.02)
        return None

    def join(self, group: Path) -> int:
        """Moves the workload into a control group; gives how many processes that were."""
        pid = self.pid()
        if pid is None:
            return 0
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
        return 1


@dataclass(frozen=True)
class Load:
    """What is recorded, and what is done meanwhile."""

    #: Arguments of `whodisk`, to which `-o CASE` is added.
    command: list[str]
    #: Kernel name of the device that carries the fault, if one does.
    device: str | None = None
    #: Called while the workload runs; returns how often it did something.
    during: Callable[[Running], int] | None = None


@dataclass(frozen=True)
class Fault:
    """A fault, or the absence of one, as a row of the table."""

    name: str
    #: What is injected, for a reader of the table.
    words: str
    #: Sets it up, and takes everything back at the end.
    prepare: Callable[[Setting], AbstractContextManager[Load]]
    #: Whether a finding names what was injected, given the device that carries it; None if nobody may be accused.
    named: Callable[[Finding, str | None], bool] | None = None
    places: tuple[str, ...] = PLACES
    #: A word that the stated limit must contain.
    limit: str | None = None
    #: Where it is run once in `make test`, and its measured seconds there.
    short_places: tuple[str, ...] = ("memory",)
    short_seconds: float = 3
    #: How often `during` must have done something, at least.
    times_min: int = 0


def of_device(finding: Finding, device: str | None, stage: str = "device") -> bool:
    """Whether a finding accuses a stage of this device, or of the only one there is."""
    culprit = finding["culprit"]
    in_stage = culprit["kind"] == "stage" and stage in culprit["name"].split("+")
    return in_stage and culprit["because_of"] in (None, f"device:{device}")


def of_process(finding: Finding, name: str) -> bool:
    """Whether a finding accuses this program."""
    return bool(finding["culprit"]["kind"] == "process" and finding["culprit"]["name"] == name)


def of_config(finding: Finding, words: str) -> bool:
    """Whether a finding accuses a setting whose name holds these words."""
    return bool(finding["culprit"]["kind"] == "config" and words in finding["culprit"]["name"])
