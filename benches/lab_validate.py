#!/usr/bin/env python3
"""Does a stack that was fitted to half of a workload predict the other half?

On a file of this machine's disk and on a slowdisk: runs at depths 1, 4 and 16 with 70 % reads are recorded and fitted
(`whodisk lab fit`); then a run at another depth and mix is recorded, replayed on the fit (`whodisk whatif`), and predicted
percentiles are compared with those that were measured. Needs root. No bar: it states how wrong the model is.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import BenchError, machine, run_measured, write_json
from engine import RELEASE, WORK

AGENT = RELEASE / "whodisk-agent"
FITTED_DEPTHS = (1, 4, 16)
#: Depth and percentage of reads of what is predicted; the last one is beyond what was fitted.
PREDICTED = ((8, 70), (8, 100), (16, 40), (32, 70))
PERCENTILES = ("p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns")
SLOWDISK = ("--size", "256MiB", "--latency", "300us", "--fault", "read tail 0.01 3ms", "--seed", "5")


def main() -> int:
    """Exit code 0: done; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each run [5]")
    parser.add_argument("--only", choices=("disk", "slowdisk"), help="one of the two")
    options = parser.parse_args()
    folder = WORK / "lab-validate"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"machine: {machine(folder)}")
    results: dict[str, list[dict[str, Any]]] = {}
    if options.only != "slowdisk":
        results["disk"] = validate(folder / "disk", str(folder / "file"), options.seconds)
        (folder / "file").unlink(missing_ok=True)
    if options.only != "disk":
        with slowdisk() as device:
            results["slowdisk"] = validate(folder / "slowdisk", device, options.seconds)
    for name, rows in results.items():
        print(f"\n{name}: predicted against measured; fitted at depths {FITTED_DEPTHS} with 70 % reads")
        print(
            f"{'depth':>5} {'reads':>6} " + "".join(f"{key[:-3]:>9}" for key in PERCENTILES) + f"{'ops/s':>9}"
        )
        for row in rows:
            errors = "".join(f"{row['errors'][key]:>+8.1f}%" for key in (*PERCENTILES, "ops_per_s"))
            print(f"{row['depth']:>5} {row['read']:>5}% {errors}")
    write_json(folder.with_suffix(".json"), results)
    return 0


def validate(folder: Path, target: str, seconds: float) -> list[dict[str, Any]]:
    """Fits and predicts one device."""
    folder.mkdir()
    cases = [_record(folder, target, seconds, depth, 70, depth) for depth in FITTED_DEPTHS]
    stack = folder / "fitted.toml"
    _agent("lab", "fit", *map(str, cases), "-o", str(stack))
    rows = []
    for number, (depth, read) in enumerate(PREDICTED):
        case = _record(folder, target, seconds, depth, read, 100 + number)
        answer = json.loads(_agent("whatif", str(case), "--stack", str(stack), "--json"))
        before, after = answer["before"], answer["after"]
        errors = {key: (after[key] / before[key] - 1) * 100 for key in (*PERCENTILES, "ops_per_s")}
        rows.append({"depth": depth, "read": read, "errors": errors, "measured": before, "predicted": after})
    return rows


def _record(folder: Path, target: str, seconds: float, depth: int, read: int, seed: int) -> Path:
    name = f"depth{depth}-read{read}-seed{seed}"
    spec, case = folder / f"{name}.toml", folder / f"{name}.case"
    spec.write_text(
        f'[workload]\ntargets = ["{target}"]\nfile_size = "256MiB"\nallow_overwrite = true\nblock_sizes = "4KiB"\n'
        f'read = "{read}%"\nqueue_depth = {depth}\nramp = "500ms"\nduration = "{seconds * 1000:.0f}ms"\nseed = {seed}\n',
        encoding="utf-8",
    )
    _agent("run", str(spec), "-o", str(case))
    return case


def _agent(*arguments: str) -> str:
    if not AGENT.exists():
        raise BenchError(f"{AGENT}: no such file; run make build")
    return run_measured([str(AGENT), *arguments]).stdout


@contextmanager
def slowdisk() -> Iterator[str]:
    """A slow block device; its path."""
    process = subprocess.Popen([str(AGENT), "slowdisk", *SLOWDISK], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        device = next((word.strip(".,:") for word in line.split() if word.startswith("/dev/")), "")
        if not device:
            raise BenchError(
                f"slowdisk said {line!r}, not the name of a device; it needs root and ublk or nbd"
            )
        yield device
    finally:
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except BenchError as error:
        print(f"lab_validate: {error}", file=sys.stderr)
        raise SystemExit(2) from error
