#!/usr/bin/env python3
"""Bytes that one operation takes at rest, recorded for real: 4 KiB, 60 % reads, random, depth 64, system disk.

Beside us stand what people keep today of the same operations: the text of fio's latency log (one line per
completion), of biosnoop (one line per request), blktrace's binary events (48 bytes, four per request: queue,
get request, issue, complete) and the same tables written by Parquet's defaults. Sizes do not drift with the
machine, so three recordings suffice and the largest counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

import duckdb
from common import machine, run_main, run_measured, write_json
from engine import RELEASE, WORK, one_line, write_spec

BARS = {"app": 19.0, "block": 15.0}
BLKTRACE_BYTES = 48 * 4
#: What the peers print per operation; widths are those of their format strings.
PEER_LINES = {
    "app": ("fio latency log", "printf('%d, %d, %d, 4096, %d, 0', start_ns // 1000000, latency_ns, 0, offset_bytes)"),
    "block": (
        "biosnoop text",
        "printf('%-11.6f %-14s %-7d %-7s %-4s %-10d %-7d %7.3f', start_ns / 1e9, comm, pid, device,"
        " upper(left(op, 1)), offset_bytes // 512, size_bytes, latency_ns / 1e6)",
    ),
}  # fmt: skip


def main() -> int:
    """Exit code 0: the bars are met; 1: they are not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=6)
    options = parser.parse_args()
    target = WORK / "bytes-at-rest.dat"
    spec = write_spec(
        "bytes-at-rest.toml",
        f'targets = ["{target}"]\nfile_size = "4GiB"\nblock_sizes = "4KiB"\nread = "60%"\nrandom = "100%"\n'
        f'workers = 4\nqueue_depth = 16\nduration = "{options.seconds}s"',
    )
    rounds = [_round(spec) for _ in range(options.rounds)]
    print(f"machine: {machine(target)}")
    print(f"whodisk run SPEC   # {one_line(spec)}")
    met = True
    for layer, bar in BARS.items():
        met &= _print_layer(layer, bar, [found[layer] for found in rounds if layer in found])
    write_json(WORK / "bytes_at_rest.json", rounds)
    return 0 if met else 1


def _round(spec: Path) -> dict[str, dict[str, float]]:
    """Records once; per layer: rows and bytes per row of us and of the peers."""
    case = WORK / "bytes-at-rest.case"
    shutil.rmtree(case, ignore_errors=True)
    agent = os.environ.get("WHODISK_AGENT", str(RELEASE / "whodisk-agent"))
    run_measured([agent, "run", str(spec), "-o", str(case)])
    tables = json.loads((case / "case.json").read_text(encoding="utf-8"))["tables"]
    found = {}
    for layer in BARS:
        path = f"ops/layer={layer}/part-0.parquet"
        if path in tables:
            rows, size = tables[path]["rows"], tables[path]["bytes"]
            found[layer] = {"rows": rows, "whodisk": size / rows, **_peers(case, layer, rows)}
    shutil.rmtree(case)
    return found


def _peers(case: Path, layer: str, rows: int) -> dict[str, float]:
    name, line = PEER_LINES[layer]
    source = f"'{case}/ops/layer={layer}/*.parquet'"
    text = duckdb.execute(f"SELECT avg(length({line}) + 1) FROM {source}").fetchone()
    plain = case / "default.parquet"
    duckdb.execute(f"COPY (SELECT * FROM {source}) TO '{plain}' (FORMAT parquet)")
    peers = {name: float(text[0]) if text else 0.0, "Parquet by default": plain.stat().st_size / rows}
    return peers | ({"blktrace events": float(BLKTRACE_BYTES)} if layer == "block" else {})


def _print_layer(layer: str, bar: float, rounds: list[dict[str, float]]) -> bool:
    if not rounds:
        print(f"{layer}: not recorded here (root and BPF are needed for the block layer)   NOT MET")
        return False
    ours = max(found["whodisk"] for found in rounds)
    met = ours <= bar
    total = sum(int(found["rows"]) for found in rounds)
    print(
        f"{layer}: {ours:.2f} bytes per row in the worst of {len(rounds)} recordings ({total:,} rows)   "
        f"bar <= {bar:g}: {'met' if met else 'NOT MET'}"
    )
    for peer in (name for name in rounds[0] if name not in ("rows", "whodisk")):
        theirs = min(found[peer] for found in rounds)
        print(f"  {peer}: {theirs:.1f} bytes; whodisk / it = {ours / theirs:.2f}")
    return met


if __name__ == "__main__":
    run_main(main)
