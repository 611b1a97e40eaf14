#!/usr/bin/env python3
"""Requests a second that the lab simulates on one core: its caches alone, and a full stack.

The full stack is clients, a file server with a RAM cache of a million pages, a drive with interrupts, and every assertion;
4 KiB random reads of twice the cache. All in processor time of one thread, without writing a case.
"""

from __future__ import annotations

import argparse
import csv
import re
import statistics

from common import BenchError, machine, run_measured, summary_line
from engine import RELEASE

CACHE_BAR, FULL_BAR = 20.0, 2.0
TRACE, CAPACITY = "zipf-1.0", "10000"
ROUNDS = 3


def main() -> int:
    """Exit code 0: both bars met; 1: not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    print(f"machine: {machine()}")
    caches: dict[str, list[float]] = {}
    stacks: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for name, value in _caches().items():
            caches.setdefault(name, []).append(value)
        for name, value in _stacks().items():
            stacks.setdefault(name, []).append(value)
    met = True
    for name, values in caches.items():
        print(summary_line(f"cache only, {name}", values, "M requests/s"))
    for name, values in stacks.items():
        print(summary_line(name, values, "M requests/s"))
    best_cache = max(statistics.median(values) for values in caches.values())
    full = statistics.median(next(iter(stacks.values())))
    for what, value, bar in [("cache only", best_cache, CACHE_BAR), ("full stack", full, FULL_BAR)]:
        met &= value >= bar
        print(
            f"{what}: {value:.2f} M requests/s per core   bar >= {bar:g}: {'met' if value >= bar else 'NOT MET'}"
        )
    return 0 if met else 1


def _example(name: str, *arguments: str) -> str:
    path = RELEASE / "examples" / name
    if not path.exists():
        raise BenchError(f"{path}: no such file; build it with cargo build --release --workspace --examples")
    return run_measured([str(path), *arguments]).stdout


def _caches() -> dict[str, float]:
    rows = csv.DictReader(_example("lab_caches", TRACE).splitlines(), delimiter="\t")
    return {row["policy"]: float(row["million_per_s"]) for row in rows if row["capacity"] == CAPACITY}


def _stacks() -> dict[str, float]:
    found = re.findall(r"^(.+): ([\d.]+) M requests/s", _example("lab_rate"), re.MULTILINE)
    return {f"stack: {name}": float(value) for name, value in found}


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except BenchError as error:
        print(f"lab_rate: {error}")
        raise SystemExit(2) from error
