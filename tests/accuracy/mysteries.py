"""One run of a mystery in the lab, as found or as fixed: who is named?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from whodisk.scoring.aliases import named_by
from whodisk.verdict.solve import solve

AGENT = Path(os.environ.get("WHODISK_AGENT", Path(sys.executable).parent / "whodisk-agent"))
#: Mystery 3 at an eighth of file, memory and time: as many overwrites of each block (docs/reference/lab-mysteries.md).
EIGHTH = ("workload.file_size=2GiB", "workload.ramp=75s", "workload.duration=225s", "cache.size=256MiB")


@dataclass(frozen=True)
class Mystery:
    """What a scenario's verdict must say."""

    #: (fault, name of its culprit) that must be named first, or None: nobody may be accused.
    culprit: tuple[str, str] | None = None
    settings: tuple[str, ...] = ()
    #: The scenario that it is compared with (--against), run with the same seed and settings.
    against: str | None = None


ROWS: dict[str, Mystery] = {
    "m1-odx-found": Mystery(("oversized_transaction", "read of 8650752 bytes")),
    "m1-ssd-resident": Mystery(),
    "m1-odx-fixed": Mystery(),
    "m2a-block-layer": Mystery(("queue_stall", "queue")),
    "m2a-fixed": Mystery(),
    "m2b-submitter": Mystery(("submitter_stall", "submitter")),
    "m2b-fixed": Mystery(),
    "m3-a-contiguous": Mystery(settings=EIGHTH),
    "m3-b-fragmented": Mystery(("fragmentation", "fragmentation"), EIGHTH, against="m3-a-contiguous"),
    "m3-c-reallocated": Mystery(None, EIGHTH, against="m3-a-contiguous"),
    "m4-as-found": Mystery(("slow_handler", "60")),
    "m4-affinity-fixed": Mystery(("slow_handler", "60")),
    "m4-handler-gone": Mystery(),
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
    mystery = ROWS[scenario]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case = _made(scenario, seed, mystery.settings, folder)
    against = _made(mystery.against, seed, mystery.settings, folder) if mystery.against else None
    verdict = solve(case, against=against)
    said = [(f.culprit.kind, f.culprit.name, f.culprit.because_of) for f in verdict.findings]
    wanted = mystery.culprit
    right = bool(said) and named_by(wanted[0], wanted[1], *said[0]) if wanted else not said
    if scenario == RESIDENT:
        right &= any("cannot show disk behaviour" in caveat.because for caveat in verdict.cannot_exclude)
    named = "; ".join([verdict.status, *(f"{kind} {name} ({why or '-'})" for kind, name, why in said)])
    shutil.rmtree(folder, ignore_errors=True)
    return Judgement(right, named)


def _made(scenario: str, seed: int, settings: tuple[str, ...], folder: Path) -> Path:
    case = folder / f"{scenario}.case"
    sets = [part for setting in (f"workload.seed={seed}", *settings) for part in ("--set", setting)]
    command = [str(AGENT), "lab", "run", scenario, *sets, "-o", str(case)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return case
