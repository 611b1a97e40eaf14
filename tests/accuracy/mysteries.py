"""The mysteries in the lab, as found and as fixed: who is named in each, over several seeds.

    python -m tests.accuracy.mysteries --seeds 20

Results are kept in build/mysteries.jsonl: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from whodisk.aliases import named_by
from whodisk.solve import solve

ROOT = Path(__file__).resolve().parents[2]
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


def run_once(scenario: str, seed: int, folder: Path) -> dict[str, object]:
    """One row: what was said about a scenario with this seed."""
    agent = os.environ.get("WHODISK_AGENT") or str(Path(sys.executable).parent / "whodisk")
    case = folder / f"{scenario}-{seed}.case"
    command = [agent, "lab", "run", scenario, "--set", f"workload.seed={seed}", "-o", str(case)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    verdict = solve(case)
    shutil.rmtree(case, ignore_errors=True)
    said = [(f.culprit.kind, f.culprit.name, f.culprit.because_of) for f in verdict.findings]
    wanted = ROWS[scenario]
    right = bool(said) and named_by(wanted[0], wanted[1], *said[0]) if wanted else not said
    masked = any("cannot show disk behaviour" in caveat.because for caveat in verdict.cannot_exclude)
    if scenario == "m1-ssd-resident":
        right = right and masked
    return {"scenario": scenario, "seed": seed, "right": right, "said": said[:3], "masked": masked}


def main() -> int:
    """Command line; exit code 1 if any verdict was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, help="runs per scenario [20]")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "mysteries.jsonl")
    options = parser.parse_args()
    options.state.parent.mkdir(parents=True, exist_ok=True)
    lines = options.state.read_text(encoding="utf-8").splitlines() if options.state.is_file() else []
    results = [json.loads(line) for line in lines]
    done = {(r["scenario"], r["seed"]) for r in results}
    with tempfile.TemporaryDirectory() as folder, options.state.open("a", encoding="utf-8") as state:
        for scenario in options.rows:
            for seed in range(1, options.seeds + 1):
                if (scenario, seed) not in done:
                    results.append(run_once(scenario, seed, Path(folder)))
                    print(json.dumps(results[-1]), file=state, flush=True)
    print("| scenario | right | runs |\n|---|---|---|")
    for scenario in options.rows:
        mine = [r for r in results if r["scenario"] == scenario]
        print(f"| {scenario} | {sum(bool(r['right']) for r in mine)} | {len(mine)} |")
    return 1 if any(not r["right"] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
