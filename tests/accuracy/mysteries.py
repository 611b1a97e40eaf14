"""One run of a mystery in the lab, as found or as fixed: who is named?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from whodisk.aliases import named_by
from whodisk.solve import solve

AGENT = Path(os.environ.get("WHODISK_AGENT", Path(sys.executable).parent / "whodisk-agent"))
#: Scenario -> (fault, name of its culprit) that must be named first, or None: nobody may be accused.
ROWS: dict[str, tuple[str, str] | None] = {
    "m1-odx-found": ("oversized_transaction", "read of 8650752 bytes"),
    "m1-ssd-resident": None,
    "m1-odx-fixed": None,
    "m2a-block-layer": ("queue_stall", "queue"),
    "m2a-fixed": None,
    "m2b-submitter": ("submitter_stall", "submitter"),
    "m2b-fixed": None,
    "m3-a-contiguous": None,
    "m3-b-fragmented": ("fragmentation", "fragmentation"),
    "m4-as-found": ("slow_handler", "60"),
    "m4-affinity-fixed": ("slow_handler", "60"),
    "m4-handler-gone": None,
}
#: It fits into a cache: the verdict has to say that it shows no disk.
RESIDENT = "m1-ssd-resident"


@dataclass(frozen=True)
class Judgement:
    """Whether a verdict was right, and in words what it said."""

    right: bool
    named: str


def run_once(scenario: str, seed: int, folder: Path) -> Judgement:
    """Runs a scenario with this seed in the directory `folder` (emptied first) and solves it.

    Raises subprocess.CalledProcessError if the lab fails.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case = folder / "run.case"
    command = [str(AGENT), "lab", "run", scenario, "--set", f"workload.seed={seed}", "-o", str(case)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    verdict = solve(case)
    said = [(f.culprit.kind, f.culprit.name, f.culprit.because_of) for f in verdict.findings]
    wanted = ROWS[scenario]
    right = bool(said) and named_by(wanted[0], wanted[1], *said[0]) if wanted else not said
    if scenario == RESIDENT:
        right &= any("cannot show disk behaviour" in caveat.because for caveat in verdict.cannot_exclude)
    named = "; ".join([verdict.status, *(f"{kind} {name} ({why or '-'})" for kind, name, why in said)])
    shutil.rmtree(folder, ignore_errors=True)
    return Judgement(right, named)
