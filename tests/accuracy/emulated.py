"""One boot of the emulated machine: is each of its faults named, and nobody in the healthy run beside it?"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.vm.faults import FAULTS, boot
from tests.vm.image import KERNEL, obstacle
from whodisk.verdict.solve import solve

#: Scenario of a boot -> its faults.
ROWS: dict[str, list[str]] = {}
for _name, _fault in FAULTS.items():
    ROWS.setdefault(f"emulated/{_fault.scenario}", []).append(_name)
#: The issue asks for so many.
RUNS = 5


@dataclass(frozen=True)
class Judgement:
    """Whether all verdicts of a boot were right, and in words what they said."""

    right: bool
    named: str


def missing() -> str | None:
    """Why the machine cannot run here; None if it can."""
    return obstacle(KERNEL)


def run_once(row: str, folder: Path) -> Judgement:
    """Boots, records and solves in the directory `folder` (emptied first). Raises BuildError or MachineError."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = ROWS[row]
    first = FAULTS[names[0]]
    run = boot(first.hardware, folder, first.scenario)[first.scenario]
    right, said = True, []
    for name in names:
        fault = FAULTS[name]
        sick, healthy = solve(run.case(fault.case)), solve(run.case(fault.control))
        right &= (
            bool(sick.findings) and fault.is_named(run, sick.findings[0].culprit) and not healthy.findings
        )
        for phase, verdict in ((name, sick), ("without it", healthy)):
            accused = [
                f"{f.culprit.kind} {f.culprit.name} ({f.culprit.because_of or '-'})" for f in verdict.findings
            ]
            said.append(f"{phase}: {'; '.join([verdict.status, *accused])}")
    if right:
        shutil.rmtree(folder, ignore_errors=True)
    return Judgement(right, " / ".join(said))
