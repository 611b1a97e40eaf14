"""`make accuracy ARGS='modelled'`: `slowdisk --model` in real time against the same model in virtual time, percentile by percentile.

The same access specification runs on the device and in the lab; writes docs/reference/accuracy-modelled.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import duckdb

from tests.accuracy.host import WHODISK, slowdisk
from tests.accuracy.referee.machine import words

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "docs/reference/accuracy-modelled.md"
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
SIZE = "1GiB"
#: A file system of the lab keeps some room to itself.
USED = "960MiB"
#: Drive, the lab's keys for it, and the depths at which it is compared. (The lab has no `sata_ssd`.)
DRIVES = (
    ("nearline_7200", 'kind = "hdd"\nname = "sd"', (1, 8)),
    ("nvme", 'kind = "ssd"\nname = "nvme"\nssd_overwritten = 1', (1, 8)),
)
SPEC = """[workload]
targets = ["{target}"]
file_size = "{size}"
block_sizes = "4KiB"
read = "100%"
random = "100%"
queue_depth = {depth}
seed = 5
ramp = "500ms"
duration = "{seconds:g}s"
"""
SCENARIO = """name = "modelled"
about = "The same in virtual time."

{spec}
[host]
cpus = 2

[device]
{device}
size = "{size}"
"""


def main(arguments: list[str]) -> int:
    """Exit codes: 0 done, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="make accuracy ARGS='modelled'", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="measured per cell [20]")
    o = parser.parse_args(arguments)
    lines = [
        "# A modelled drive in real time, against virtual time",
        "",
        "Written by `make accuracy ARGS='modelled'`: random reads of 4 KiB, "
        + f"{o.seconds:g} s each, {words()}.",
        "",
        "| drive, depth | reads | " + " | ".join(f"p{100 * q:g}" for q in QUANTILES) + " |",
        "|---|---|" + "---|" * len(QUANTILES),
    ]
    for model, device, depths in DRIVES:
        for depth in depths:
            lines += _cell(model, device, depth, o.seconds)
            print("\n".join(lines[-3:]), flush=True)
    OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {OUTPUT}")
    return 0


def _cell(model: str, device: str, depth: int, seconds: float) -> list[str]:
    """Three rows: on the device, in the lab, and the ratio of each percentile."""
    with tempfile.TemporaryDirectory(prefix="whodisk-modelled-") as folder:
        work = Path(folder)
        with slowdisk(seed=5, size=SIZE, model=model) as disk:
            spec = work / "spec.toml"
            text = SPEC.format(target=disk, size=USED, depth=depth, seconds=seconds)
            spec.write_text(text.replace("\nread =", "\nallow_overwrite = true\nread ="), encoding="utf-8")
            _done("run", spec, "-o", work / "real.case", "--app-only")
        scenario = work / "scenario.toml"
        plain = SPEC.format(target="data", size=USED, depth=depth, seconds=seconds)
        scenario.write_text(SCENARIO.format(spec=plain, device=device, size=SIZE), encoding="utf-8")
        _done("lab", "run", scenario, "-o", work / "lab.case")
        real, virtual = (_quantiles(work / name) for name in ("real.case", "lab.case"))
    ratios = " | ".join(f"{a / b:.3f}" for a, b in zip(real[1], virtual[1], strict=True))
    return [
        f"| {model}, {depth}: device | {real[0]:,} | {_told(real[1])} |",
        f"| {model}, {depth}: virtual | {virtual[0]:,} | {_told(virtual[1])} |",
        f"| ratio | | {ratios} |",
    ]


def _done(*arguments: str | Path) -> None:
    done = subprocess.run([WHODISK, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"whodisk {arguments[0]}: exit code {done.returncode}: {done.stderr.strip()[-400:]}")


def _quantiles(case: Path) -> tuple[int, list[float]]:
    phases = json.loads((case / "case.json").read_text(encoding="utf-8"))["phases"]
    begin = next(phase["start_ns"] for phase in phases if phase["name"] == "measure")
    listed = ", ".join(map(str, QUANTILES))
    row = duckdb.execute(
        f"""SELECT count(*), quantile_cont(latency_ns, [{listed}])
FROM read_parquet('{case}/ops/layer=app/*.parquet') WHERE start_ns >= {begin} AND NOT open"""
    ).fetchone()
    assert row is not None
    return int(row[0]), [float(value) for value in row[1]]


def _told(values_ns: list[float]) -> str:
    return " | ".join(f"{value / 1e6:.3f} ms" for value in values_ns)
