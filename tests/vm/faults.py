"""The faults that are recorded in the machine, each with a healthy run of the same boot beside it.

`record_fault(name, work)` gives sealed cases; tests, and whoever scores verdicts, reuse it.

    python -m tests.vm.faults NAME FOLDER       records one and says where its cases are
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.vm.image import KERNEL, BuildError, build, obstacle
from tests.vm.machine import Hardware, Machine, MachineError, agent_path
from whodisk.findings import Culprit


@dataclass(frozen=True)
class Fault:
    """A fault with a known culprit."""

    scenario: str
    hardware: Hardware
    #: Case with the fault, and the same without it.
    case: str
    control: str
    #: `culprit.kind` that a verdict must name, and what its name or reason contains; or the drive, by serial number.
    kind: str
    culprit: str | None = None
    serial: str | None = None

    def is_named(self, run: Run, said: Culprit) -> bool:
        """Whether a verdict's culprit is this fault's."""
        wanted = self.culprit or run.device(str(self.serial))
        return said.kind == self.kind and any(wanted in text for text in (said.name, said.because_of or ""))


IRQ = Hardware(shared_line=True)
RAID = Hardware(stored_drives=True)
PLAIN = Hardware()
BAD = Hardware(stored_drives=True, bad_drive=True)
FAULTS: dict[str, Fault] = {
    "slow_handler": Fault("irq", IRQ, "sick", "healthy", "vector", "slowisr"),
    "throttled_raid0": Fault("raid", RAID, "raid0-sick", "raid0-healthy", "device", None, "nvme2"),
    "throttled_raid5": Fault("raid", RAID, "raid5-sick", "raid5-healthy", "device", None, "nvme2"),
    "short_readahead": Fault(
        "readahead",
        Hardware(hdd=True),
        "max-sectors-128",
        "max-sectors-1280",
        "request_shape",
        "readahead",
    ),
    "cpu_limit": Fault("cpu", PLAIN, "sick", "healthy", "config", "CPU limit"),
}


@dataclass(frozen=True)
class Run:
    """What a boot left: one folder for each scenario."""

    folder: Path
    scenario: str

    def case(self, name: str) -> Path:
        """The sealed case of a phase."""
        return self.folder / self.scenario / f"{name}.case"

    def load(self, name: str) -> list[dict[str, Any]]:
        """What the load generator counted in a phase: `path`, `reads`, `size_bytes`, `p50_ns`, `max_ns` per reader."""
        text = (self.folder / self.scenario / f"{name}.json").read_text(encoding="utf-8")
        readers: list[dict[str, Any]] = json.loads(text)["readers"]
        return readers

    def device(self, serial: str) -> str:
        """Kernel name of a drive in this boot."""
        for line in (self.folder / "disks.jsonl").read_text(encoding="utf-8").splitlines():
            disk = json.loads(line)
            if disk["serial"] == serial:
                return str(disk["device"])
        raise KeyError(serial)


def boot(hardware: Hardware, work: Path, *scenarios: str) -> dict[str, Run]:
    """Runs scenarios in one boot, in the folder `work`; raises BuildError or MachineError."""
    agent = agent_path()
    if agent is None:
        raise BuildError("no static whodisk-agent: run make agent, or set WHODISK_AGENT")
    folder = Machine(hardware, build(hardware.kernel), agent, work).run(*scenarios)
    return {scenario: Run(folder, scenario) for scenario in scenarios}


def record_fault(name: str, work: Path) -> tuple[Path, Path, Run]:
    """Records the fault `name` of FAULTS: its case, its control, and all that the boot left."""
    fault = FAULTS[name]
    run = boot(fault.hardware, work, fault.scenario)[fault.scenario]
    return run.case(fault.case), run.case(fault.control), run


def main() -> int:
    """The command line."""
    if len(sys.argv) != 3 or sys.argv[1] not in FAULTS:
        print(f"usage: python -m tests.vm.faults {{{','.join(FAULTS)}}} FOLDER", file=sys.stderr)
        return 2
    because = obstacle(KERNEL)
    try:
        if because is not None:
            raise BuildError(because)
        case, control, _ = record_fault(sys.argv[1], Path(sys.argv[2]).resolve())
    except (BuildError, MachineError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{case}\n{control}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
