"""Time and peak memory of `solve` over growing cases, beside pandas doing some of the same group-bys.

Cases have a slow tail in the device and a submitter that is stopped now and then (app layer, every stage). Each is solved in a process
of its own. pandas reads the same Parquet and does three of the group-bys that a verdict needs: quantiles of latency and sums of
stages by device and kind, the slow operations' stages, a count by six keys; it finds nothing, shows nothing and
clears nothing. Nothing else here needs it: `.venv/bin/pip install pandas`. Beyond `PANDAS_ROWS_MAX` its tables do not fit into memory.
"""

from __future__ import annotations

import argparse
import importlib.util
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
from common import BenchError, machine, run_main  # noqa: E402
from engine import WORK  # noqa: E402

from tests.synth import APP_ID_BASE, OPS_SCHEMA, ops_table, write_case  # noqa: E402

BAR_ROWS, BAR_SECONDS, BAR_BYTES = 100_000_000, 30.0, 1 << 30
SMALL_ROWS, SMALL_SECONDS = 1_000_000, 1.5
#: Linear: an operation of the largest case costs at most so many times what one of a tenth of it does.
LINEAR_MAX = 1.5
PANDAS_ROWS_MAX = 30_000_000
CHUNK_ROWS = 1_000_000
DEPTH = 64
SPLIT = [f"{stage}_ns" for stage in ("latency", "app", "fs", "queue", "device", "interrupt", "reap")]

#: Begins both programs. Not ru_maxrss: a child begins with its parent's.
PEAK = """
import json, sys, time
from pathlib import Path
def peak_bytes():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
"""

SOLVE = """
from whodisk.verdict.solve import solve
begin = time.monotonic()
verdict = solve(Path(sys.argv[1]))
seconds = time.monotonic() - begin
print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes(), "status": verdict.status,
                  "culprits": [f.culprit.name for f in verdict.findings]}))
"""

PANDAS = """
import pandas
begin = time.monotonic()
stages = ["app_ns", "fs_ns", "queue_ns", "device_ns", "interrupt_ns", "reap_ns"]
keys = ["device", "op", "tid", "size_bytes", "queue_depth", "file"]
ops = pandas.read_parquet(sys.argv[1], columns=["latency_ns", *stages, *keys])
groups = ops.groupby(["device", "op"], observed=True)
groups["latency_ns"].quantile([0.5, 0.9, 0.99, 0.999])
groups[stages].sum()
limit = ops["op"].map(groups["latency_ns"].median().droplevel(0)).astype(float) * 10
ops[ops["latency_ns"] > limit].groupby(["device", "op"], observed=True)[stages].sum()
ops.groupby(keys, observed=True).size()
seconds = time.monotonic() - begin
print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes()}))
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


def measured(program: str, path: Path) -> dict[str, float]:
    """What a program in a process of its own says of itself."""
    python = Path(__file__).resolve().parents[1] / "python"
    done = subprocess.run(
        [sys.executable, "-c", PEAK + program, str(path)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(python), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    if done.returncode:
        raise BenchError(f"{path}: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> int:
    """Exit code 0: the bars are met, or the largest case is smaller than theirs; 1: not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--keep", type=Path, help="write the cases here and leave them")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    print(f"machine: {machine(WORK)}")
    has_pandas = importlib.util.find_spec("pandas") is not None
    per_row: dict[int, float] = {}
    met = True
    with tempfile.TemporaryDirectory(dir=options.keep or WORK) as scratch:
        folder = options.keep or Path(scratch)
        for rows in sorted(int(number) for number in options.rows):
            path = folder / f"rows-{rows}"
            if not (path / "case.json").exists():
                write(path, rows)
            ours = measured(SOLVE, path)
            per_row[rows] = ours["seconds"] / rows * 1e9
            print(
                f"whodisk solve, {rows:,} operations: {ours['seconds']:.1f} s, {ours['peak_bytes'] / 2**30:.2f} GiB, "
                f"{per_row[rows]:.0f} ns per operation; named {', '.join(map(str, ours['culprits']))}"
            )
            if rows <= PANDAS_ROWS_MAX and has_pandas:
                peer = measured(PANDAS, path / "ops/layer=app/part-0.parquet")
                print(
                    f"  pandas, group-bys alone: {peer['seconds']:.1f} s, {peer['peak_bytes'] / 2**30:.2f} GiB; "
                    f"whodisk / it = {ours['seconds'] / peer['seconds']:.2f} of the time, "
                    f"{ours['peak_bytes'] / peer['peak_bytes']:.2f} of the memory"
                )
            if rows == SMALL_ROWS:
                met &= _told("seconds for a million", ours["seconds"], SMALL_SECONDS)
            if rows == BAR_ROWS:
                met &= _told("seconds", ours["seconds"], BAR_SECONDS)
                met &= _told("GiB", ours["peak_bytes"] / 2**30, BAR_BYTES / 2**30)
    if not has_pandas:
        print(f"pandas was not run: {sys.executable} -m pip install pandas")
    largest = max(per_row)
    if largest // 10 in per_row:
        met &= _told(
            "time per operation, beside a tenth of them",
            per_row[largest] / per_row[largest // 10],
            LINEAR_MAX,
        )
    return 0 if met else 1


def _told(what: str, value: float, bar: float) -> bool:
    print(f"{what}: {value:.2f}   bar <= {bar:g}: {'met' if value <= bar else 'NOT MET'}")
    return value <= bar


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run_main(main)
