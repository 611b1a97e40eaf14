#!/usr/bin/env python3
"""`whodisk import series` of a CSV file, beside DuckDB doing the same work and Arrow's reader doing half of it.

The file is a cluster of the fail-slow data set written out as text (`WHODISK_DATA` names its folder), repeated so that a run
takes a while. All count in processor time of one process, threads switched off where there are any, so other load on the
machine matters less. DuckDB reads the text and writes the same rows (one per sample and metric) as Parquet with zstd; Arrow
only reads.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from functools import partial
from pathlib import Path

import duckdb
import pyarrow
from common import (
    ROOT,
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

BAR_MB_PER_S = 300.0
DATA = Path(os.environ.get("WHODISK_DATA", ROOT.parent / "shared/data"))
MAP = "host=host,device=disk_id,t=ts:s,latency=latency:us,throughput=throughput:B/s"
COPIES = 2
DUCKDB = """
import duckdb, sys
duckdb.execute("SET threads = 1")
duckdb.execute(f\"\"\"COPY (
    SELECT ts, host, disk_id, metric, value FROM read_csv('{sys.argv[1]}', header = true),
    LATERAL (VALUES ('latency_ns', latency * 1e3), ('throughput_bytes_per_s', throughput)) AS m(metric, value)
    WHERE value IS NOT NULL
) TO '{sys.argv[2]}' (FORMAT parquet, COMPRESSION zstd)\"\"\")
"""
ARROW = """
import sys
from pyarrow import csv
reader = csv.open_csv(sys.argv[1], csv.ReadOptions(use_threads=False, block_size=1 << 20))
sum(batch.num_rows for batch in reader)
"""


def main() -> int:
    """Exit code 0: the bar is met; 1: not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    options = parser.parse_args()
    table = _text()
    size_mb = table.stat().st_size / 1e6
    peers = {
        "DuckDB": [sys.executable, "-c", DUCKDB, str(table), str(WORK / "import-series.parquet")],
        "Arrow": [sys.executable, "-c", ARROW, str(table)],
    }
    arms = {"whodisk": partial(_ours, table, size_mb)}
    arms |= {name: partial(_peer, command, size_mb) for name, command in peers.items()}
    samples = interleave(arms, rounds=options.rounds)
    print(f"machine: {machine(table)}; DuckDB {duckdb.__version__}, Arrow {pyarrow.__version__}")
    print(f"text: {size_mb:,.0f} MB, begins {_begin(table)}")
    print(f"whodisk: whodisk-agent import series {table} --map {MAP} -o CASE")
    reached = statistics.median(samples["whodisk"])
    met = reached >= BAR_MB_PER_S
    for name, values in samples.items():
        bar = f"   bar >= {BAR_MB_PER_S:g}: {'met' if met else 'NOT MET'}" if name == "whodisk" else ""
        print(f"{summary_line(name, values, 'MB per CPU second')}{bar}")
    met &= print_verdict(ratio(samples, "whodisk", "DuckDB"), "text into Parquet", 1.0)
    print(ratio(samples, "whodisk", "Arrow").text("text into Parquet beside text only read"))
    write_json(WORK / "import_series.json", {"bytes": table.stat().st_size, "mb_per_cpu_s": samples})
    table.unlink()
    return 0 if met else 1


def _text() -> Path:
    """The file to import, made anew."""
    source = DATA / "failslow_cluster_a.parquet"
    if not source.exists():
        raise BenchError(f"{source} is not there: WHODISK_DATA names the folder of the fail-slow data set")
    WORK.mkdir(parents=True, exist_ok=True)
    table = WORK / "import-series.csv"
    one = f"SELECT host, disk_id, ts, latency, throughput FROM '{source}'"
    duckdb.execute("SET preserve_insertion_order = true")
    duckdb.execute(f"COPY ({' UNION ALL '.join([one] * COPIES)}) TO '{table}' (FORMAT csv, HEADER)")
    return table


def _begin(table: Path) -> str:
    with table.open(encoding="utf-8") as lines:
        return f"{next(lines).strip()} / {next(lines).strip()}"


def _ours(table: Path, size_mb: float) -> float:
    case = WORK / "import-series.case"
    shutil.rmtree(case, ignore_errors=True)
    agent = os.environ.get("WHODISK_AGENT", str(RELEASE / "whodisk-agent"))
    done = run_measured([agent, "import", "series", str(table), "--map", MAP, "-o", str(case)])
    shutil.rmtree(case)
    return size_mb / done.cpu_s


def _peer(command: list[str], size_mb: float) -> float:
    done = run_measured(command)
    (WORK / "import-series.parquet").unlink(missing_ok=True)
    return size_mb / done.cpu_s


if __name__ == "__main__":
    run_main(main)
