#!/usr/bin/env python3
"""The lab's replacement policies beside libCacheSim: equal misses on the same traces, and how fast.

Needs libCacheSim's Python package, which nothing else here does: `.venv/bin/pip install libcachesim`. Both
count in processor time of one thread, so other load on the machine matters less.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    ROUNDS_MIN,
    BenchError,
    interleave,
    machine,
    print_verdict,
    ratio,
    run_main,
    run_measured,
    summary_line,
    write_json,
)
from engine import RELEASE, WORK

BAR_MILLION_PER_S = 20.0
TIMED_TRACE, TIMED_CAPACITY = "zipf-1.0", "10000"
POLICIES = {"lru": "LRU", "arc": "ARC", "s3fifo": "S3FIFO"}
EXAMPLE = RELEASE / "examples" / "lab_caches"


def main() -> int:
    """Exit code 0: all misses equal and the bar met; 1: not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    options = parser.parse_args()
    peer = _peer()
    traces = WORK / "lab-cache"
    traces.mkdir(parents=True, exist_ok=True)
    rows = _ours("all", traces)
    print(f"machine: {machine()}; load {os.getloadavg()[0]:.1f} when begun; libCacheSim {_version(peer)}")
    print(f"whodisk: examples/lab_caches {TIMED_TRACE}   # {TIMED_CAPACITY} keys, of a million, Zipf 1.0")
    print(
        "libCacheSim: libcachesim.POLICY(cache_size).process_trace(TraceReader)   # the same trace from a file"
    )
    equal = sum(_peer_run(peer, traces, row)[0] == int(row["misses"]) for row in rows)
    print(
        f"misses on {len({row['trace'] for row in rows})} traces, 3 policies, 3 capacities: "
        f"{equal} of {len(rows)} equal to libCacheSim's   bar: all: {'met' if equal == len(rows) else 'NOT MET'}"
    )
    met = equal == len(rows)
    samples: dict[str, dict[str, list[float]]] = {}
    for policy in POLICIES:
        arms = {
            "whodisk": partial(_our_speed, policy),
            "libCacheSim": partial(_peer_speed, peer, traces, policy),
        }
        samples[policy] = interleave(arms, rounds=options.rounds)
        speeds = samples[policy]["whodisk"]
        reached = sorted(speeds)[len(speeds) // 2]
        fast = reached >= BAR_MILLION_PER_S
        bar = f"bar >= {BAR_MILLION_PER_S:g}: {'met' if fast else 'NOT MET'}"
        print(f"{summary_line(policy, speeds, 'million accesses per CPU second')}   {bar}")
        met &= fast & print_verdict(ratio(samples[policy], "whodisk", "libCacheSim"), f"{policy} speed", 1.0)
    write_json(WORK / "lab_cache.json", {"misses": rows, "speed": samples})
    return 0 if met else 1


def _peer() -> Any:
    try:
        return importlib.import_module("libcachesim")
    except ImportError as error:
        raise BenchError(f"{error}; install it with: {sys.executable} -m pip install libcachesim") from error


def _version(peer: Any) -> str:
    return getattr(peer, "__version__", "of unknown version")


def _ours(trace: str, directory: Path | None = None) -> list[dict[str, str]]:
    if not EXAMPLE.exists():
        raise BenchError(f"{EXAMPLE} is not built: run `make build-all`")
    command = [str(EXAMPLE), trace, *([str(directory)] if directory else [])]
    return list(csv.DictReader(run_measured(command).stdout.splitlines(), delimiter="\t"))


def _our_speed(policy: str) -> float:
    wanted = (policy, TIMED_CAPACITY)
    return next(
        float(row["million_per_s"])
        for row in _ours(TIMED_TRACE)
        if (row["policy"], row["capacity"]) == wanted
    )


def _peer_speed(peer: Any, traces: Path, policy: str) -> float:
    row = {"trace": TIMED_TRACE, "policy": policy, "capacity": TIMED_CAPACITY}
    return _peer_run(peer, traces, row)[1]


def _peer_run(peer: Any, traces: Path, row: dict[str, str]) -> tuple[int, float]:
    """Misses and million accesses per CPU second of libCacheSim."""
    path = traces / f"{row['trace']}.bin"
    keys = np.fromfile(traces / f"{row['trace']}.keys", dtype="<u8")
    if not path.exists() or path.stat().st_mtime < (traces / f"{row['trace']}.keys").stat().st_mtime:
        _write_peer_trace(path, keys)
    cache = getattr(peer, POLICIES[row["policy"]])(cache_size=int(row["capacity"]))
    reader = peer.TraceReader(str(path), trace_type=peer.TraceType.ORACLE_GENERAL_TRACE)
    began_s = time.process_time()
    miss_ratio, _ = cache.process_trace(reader)
    return round(miss_ratio * len(keys)), len(keys) / (time.process_time() - began_s) / 1e6


def _write_peer_trace(path: Path, keys: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
    """The packed 24-byte records libCacheSim reads: time, key, size, next access."""
    fields = [("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next", "<i8")]
    records = np.zeros(len(keys), dtype=fields)
    records["time"] = np.arange(len(keys))
    records["key"] = keys
    records["size"] = 1
    records["next"] = -1
    records.tofile(path)


if __name__ == "__main__":
    run_main(main)
