#!/usr/bin/env python3
"""How wrong is the lab? Beside what others published, and beside this machine.

Published: an ST2000DM006 (4 KiB random reads at depths 1 and 32) and the data sheet of a P4500. Where a constant of the model was
calibrated on a figure, the line says so. This machine: on a file of its disk and on a slowdisk, runs at depths 1, 4 and 16 with
70 % reads are recorded and fitted (`whodisk lab fit`); then runs at other depths and mixes are recorded, replayed on the fit
(`whodisk whatif`), and predicted percentiles are compared with measured ones. A run at a depth and mix that was fitted, with
another seed, tells how much two recordings differ by themselves. Needs root. No bar: it states how wrong the model is.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import BenchError, machine, run_main, run_measured, write_json
from engine import RELEASE, WORK

AGENT = RELEASE / "whodisk-agent"
FITTED_DEPTHS = (1, 4, 16)
#: Depth and percentage of reads of what is predicted; the first was fitted, the last is beyond what was fitted.
PREDICTED = ((4, 70), (8, 70), (8, 100), (16, 40), (32, 70))
PERCENTILES = ("p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns")
SLOWDISK = ("--size", "256MiB", "--latency", "300us", "--fault", "read tail 0.01 3ms", "--seed", "5")

HDD = """[workload]
targets = ["data"]
file_size = "1862GiB"
block_sizes = "4KiB"
queue_depth = {depth}
ramp = "2s"
duration = "5min"
[device]
kind = "hdd"
name = "sd"
hdd_model = "st2000dm006"
size = "1863GiB"
"""
NVME = """[workload]
targets = ["data"]
file_size = "15GiB"
block_sizes = "{size}"
read = "{read}%"
random = "{random}%"
workers = {workers}
queue_depth = {depth}
ramp = "1s"
duration = "4s"
[host]
cpus = 64
[device]
kind = "ssd"
ssd_model = "p4500"
ssd_overwritten = {overwritten}
size = "16GiB"
"""


@dataclass(frozen=True)
class Published:
    """A figure that somebody else published, and the run of the lab that predicts it."""

    what: str
    #: Lowest and highest published value.
    low: float
    high: float
    #: `mean_us`, `ops_per_s` or `gb_per_s`.
    metric: str
    #: Constant of the model that was calibrated on it; empty = a prediction.
    calibrated: str
    scenario: str


def _nvme(size: str, read: int, random: int, depth: tuple[int, int], overwritten: float) -> str:
    workers, each = depth
    return NVME.format(
        size=size, read=read, random=random, workers=workers, depth=each, overwritten=overwritten
    )


PUBLISHED = (
    Published(
        "ST2000DM006, depth 1", 17_200, 17_800, "mean_us", "full_stroke_ns", HDD.format(depth=1)
    ),
    Published("ST2000DM006, depth 32", 94, 94, "ops_per_s", "reorder_window", HDD.format(depth=32)),
    Published(
        "P4500, random 4 KiB reads", 490e3, 490e3, "ops_per_s", "commands_per_s",
        _nvme("4KiB", 100, 100, (32, 8), 0),
    ),
    Published(
        "P4500, random 4 KiB writes", 38e3, 38e3, "ops_per_s", "over_provisioning",
        _nvme("4KiB", 0, 100, (4, 32), 2),
    ),
    Published(
        "P4500, sequential reads", 3.2, 3.2, "gb_per_s", "link_bytes_per_s",
        _nvme("128KiB", 100, 0, (1, 128), 0),
    ),
    Published(
        "P4500, sequential writes", 1.05, 1.05, "gb_per_s", "program",
        _nvme("128KiB", 0, 0, (1, 128), 0),
    ),
    Published(
        "P4500, random read, depth 1", 85, 85, "mean_us", "read_page", _nvme("4KiB", 100, 100, (1, 1), 0)
    ),
    Published("P4500, random write, depth 1", 20, 20, "mean_us", "", _nvme("4KiB", 0, 100, (1, 1), 0)),
)  # fmt: skip


def main() -> int:
    """Exit code 0: done; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each run [5]")
    parser.add_argument("--only", choices=("published", "disk", "slowdisk"), help="one of the three")
    options = parser.parse_args()
    folder = WORK / "lab-validate"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"machine: {machine(folder)}")
    results: dict[str, list[dict[str, Any]]] = {}
    if options.only in (None, "published"):
        published(folder)
    if options.only in (None, "disk"):
        results["disk"] = validate(folder / "disk", str(folder / "file"), options.seconds)
        (folder / "file").unlink(missing_ok=True)
    if options.only in (None, "slowdisk"):
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


def published(folder: Path) -> None:
    """Prints the lab's figures beside published ones."""
    print("\npublished against modelled")
    for row in PUBLISHED:
        scenario = folder / "published.toml"
        scenario.write_text(f'name = "published"\nabout = "{row.what}."\n{row.scenario}', encoding="utf-8")
        outcome = json.loads(_agent("lab", "run", str(scenario), "--json"))["outcome"]
        modelled = {
            "mean_us": outcome["mean_ns"] / 1e3,
            "ops_per_s": outcome["ops_per_s"],
            "gb_per_s": outcome["throughput_bytes_per_s"] / 1e9,
        }[row.metric]
        said = f"{row.low:,.6g}" if row.low == row.high else f"{row.low:,.6g} to {row.high:,.6g}"
        nearest = min(max(modelled, row.low), row.high)
        kind = f"calibrated: {row.calibrated}" if row.calibrated else "prediction"
        error = (modelled / nearest - 1) * 100
        print(f"{row.what:<30} {said:>18} {modelled:>12,.6g} {row.metric:<10}{error:>+7.1f}%  {kind}")


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
    run_main(main)
