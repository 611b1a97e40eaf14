"""Time and peak memory of `solve` over growing cases, for the bar of 100 M operations.

    python benches/solve_scale.py [--rows 1e6 1e7 1e8] [--keep DIR]

Writes cases with a slow tail in the device and a submitter that is stopped now and then (app layer,
every stage), solves each in a process of its own, and prints one JSON line per size: seconds, peak
resident memory, and nanoseconds per operation, which stays the same if the solver is linear.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "python")]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from tests.synth import APP_ID_BASE, OPS_SCHEMA, ops_table, write_case  # noqa: E402

CHUNK_ROWS = 1_000_000
DEPTH = 64
SPLIT = [f"{stage}_ns" for stage in ("latency", "app", "fs", "queue", "device", "interrupt", "reap")]

SOLVE = """
import json, resource, sys, time
from pathlib import Path
from whodisk.solve import solve
begin = time.monotonic()
verdict = solve(Path(sys.argv[1]))
seconds = time.monotonic() - begin
peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes, "status": verdict.status,
                  "culprits": [f.culprit.name for f in verdict.findings]}))
"""


def chunk(first: int, rows: int) -> pa.Table:
    """Rows `first` to `first + rows` of an endless workload of 200,000 operations per second."""
    rng = np.random.default_rng([first, 5])
    number = np.arange(first, first + rows, dtype=np.int64)
    read = rng.random(rows) < 0.6
    stages = {
        "app": np.zeros(rows),
        "fs": 1500 * np.exp(rng.normal(0, 0.3, rows)),
        "queue": 2500 * np.exp(rng.normal(0, 0.3, rows)),
        "device": np.where(read, 280_000, 310_000) * np.exp(rng.normal(0, 0.3, rows)),
        "interrupt": 3000 * np.exp(rng.normal(0, 0.3, rows)),
        "reap": 4000 * np.exp(rng.normal(0, 0.3, rows)),
    }
    stages["device"][read & (rng.random(rows) < 0.001)] += 30e6
    stopped = (number // 100) % 2000 == 0
    stages["reap"][stopped] += 100e6
    whole = {f"{name}_ns": np.floor(values).astype(np.int64) for name, values in stages.items()}
    worker = number % 4
    return ops_table(
        {
            "op_id": APP_ID_BASE | (worker << 40) | number,
            "start_ns": number * 5000,
            "latency_ns": sum(whole.values()),
            "op": np.where(read, "read", "write"),
            "device": "nvme0n1",
            "file": "/data/file",
            "comm": np.char.add("worker-", worker.astype(str)),
            "offset_bytes": rng.integers(0, 1 << 26, rows) * 4096,
            "size_bytes": np.full(rows, 4096),
            "queue_depth": rng.integers(1, DEPTH // 4 + 1, rows),
            "pid": 1,
            "tid": 10 + worker,
            **whole,
        }
    )


def write(path: Path, rows: int) -> None:
    """A sealed case of `rows` operations."""
    meta = {
        "duration_ns": rows * 5000 + 1_000_000_000,
        "workload": {"spec": {"queue_depth": DEPTH // 4, "workers": 4, "rate_per_s": None}},
    }
    gaps = [
        {
            "layer": "app",
            "tid": 10 + worker,
            "comm": f"worker-{worker}",
            "start_ns": first * 5000 + 2_000_000,
            "duration_ns": 98_000_000,
            "state": "unobserved",
            "meant_busy": True,
        }
        for first in range(0, rows, 200_000)
        for worker in range(4)
    ]
    write_case(path, app={}, gaps=gaps, meta=meta)
    file = path / "ops/layer=app/part-0.parquet"
    dictionary = [
        name for name in OPS_SCHEMA.names if name not in (*SPLIT, "op_id", "start_ns", "offset_bytes")
    ]
    encoding = dict.fromkeys((*SPLIT, "offset_bytes"), "BYTE_STREAM_SPLIT")
    encoding |= {"op_id": "DELTA_BINARY_PACKED", "start_ns": "DELTA_BINARY_PACKED"}
    with pq.ParquetWriter(
        file,
        OPS_SCHEMA,
        compression="zstd",
        compression_level=1,
        use_dictionary=dictionary,
        column_encoding=encoding,
    ) as writer:
        for first in range(0, rows, CHUNK_ROWS):
            writer.write_table(chunk(first, min(CHUNK_ROWS, rows - first)))


def measure(path: Path) -> dict[str, object]:
    """Solves a case in a process of its own."""
    python = Path(__file__).resolve().parents[1] / "python"
    done = subprocess.run(
        [sys.executable, "-c", SOLVE, str(path)],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(python), "PATH": "/usr/bin:/bin"},
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--keep", type=Path, help="write the cases here and leave them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.keep) as scratch:
        folder = options.keep or Path(scratch)
        for rows in (int(number) for number in options.rows):
            path = folder / f"rows-{rows}"
            if not (path / "case.json").exists():
                write(path, rows)
            result = measure(path)
            seconds = float(str(result["seconds"]))
            line = {"rows": rows, **result, "ns_per_operation": seconds / rows * 1e9}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
