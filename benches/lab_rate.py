#!/usr/bin/env python3
"""Requests a second that the lab simulates on one core: its caches alone, and a full stack; and mystery 3 at full size.

The full stack is clients, a file server with a RAM cache of a million pages, a drive with interrupts, and every assertion;
4 KiB random reads of twice the cache. Mystery 3 is 30 minutes of each of its phases, after what has aged the array. All in
processor time of one thread, without writing a case: other load on the machine matters less, but it does.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shlex
import statistics

from common import BenchError, machine, run_main, run_measured, summary_line
from engine import RELEASE

CACHE_BAR, FULL_BAR, MYSTERY_BAR_S = 20.0, 2.0, 10.0
PHASES = ("m3-a-contiguous", "m3-b-fragmented", "m3-c-reallocated")
TRACE, CAPACITY = "zipf-1.0", "10000"
ROUNDS = 3


def main() -> int:
    """Exit code 0: both bars met; 1: not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    print(f"machine: {machine()}; load {os.getloadavg()[0]:.1f} when begun")
    print(f"cache only: examples/lab_caches {TRACE}   # {CAPACITY} keys")
    print("stack: examples/lab_rate")
    print(f"mystery 3: {shlex.join(_mystery('PHASE'))}")
    caches: dict[str, list[float]] = {}
    stacks: dict[str, list[float]] = {}
    phases: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for samples, values in [(caches, _caches()), (stacks, _stacks()), (phases, _phases())]:
            for name, value in values.items():
                samples.setdefault(name, []).append(value)
    for name, values in caches.items():
        print(summary_line(f"cache only, {name}", values, "M requests/s"))
    for name, values in stacks.items():
        print(summary_line(name, values, "M requests/s"))
    for name, values in phases.items():
        print(summary_line(name, values, "s"))
    slowest_cache = min(statistics.median(values) for values in caches.values())
    full = statistics.median(next(iter(stacks.values())))
    slowest_phase = max(statistics.median(values) for values in phases.values())
    met = [
        _verdict("cache only, slowest policy: M requests/s per core", slowest_cache, ">=", CACHE_BAR),
        _verdict("full stack: M requests/s per core", full, ">=", FULL_BAR),
        _verdict("30 minutes of mystery 3, slowest phase: s", slowest_phase, "<=", MYSTERY_BAR_S),
    ]
    return 0 if all(met) else 1


def _verdict(what: str, value: float, sign: str, bar: float) -> bool:
    met = value >= bar if sign == ">=" else value <= bar
    print(f"{what} = {value:.2f}   bar {sign} {bar:g}: {'met' if met else 'NOT MET'}")
    return met


def _mystery(phase: str) -> list[str]:
    edits = ["workload.ramp=0s"]
    if phase == "m3-b-fragmented":
        # Its ageing is a fault: with it the command would simulate the 30 minutes a second time without it, for the truth.
        edits += ["fault.ageing.enabled=false", "array.overwritten=1.2"]
    return [
        str(RELEASE / "whodisk-agent"),
        "lab",
        "run",
        phase,
        *(word for edit in edits for word in ("--set", edit)),
    ]


def _phases() -> dict[str, float]:
    """Processor seconds of each phase."""
    return {phase: run_measured(_mystery(phase)).cpu_s for phase in PHASES}


def _example(name: str, *arguments: str) -> str:
    path = RELEASE / "examples" / name
    if not path.exists():
        raise BenchError(f"{path}: no such file; build it with make build-all")
    return run_measured([str(path), *arguments]).stdout


def _caches() -> dict[str, float]:
    rows = csv.DictReader(_example("lab_caches", TRACE).splitlines(), delimiter="\t")
    return {row["policy"]: float(row["million_per_s"]) for row in rows if row["capacity"] == CAPACITY}


def _stacks() -> dict[str, float]:
    found = re.findall(r"^(.+): ([\d.]+) M requests/s", _example("lab_rate"), re.MULTILINE)
    return {f"stack: {name}": float(value) for name, value in found}


if __name__ == "__main__":
    run_main(main)
