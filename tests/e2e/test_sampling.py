"""A CPU budget: slow operations are all there, the others are estimated, and the verdict is the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.conftest import AGENT, Run, meta, started

#: Every so many reads of the disk take this much longer.
SLOW_PART, SLOW_NS = 0.001, 30_000_000
#: A budget that any recording exceeds: the least that can be asked for.
TINY = "0.1%"


@pytest.fixture
def slow_disk(work: Path) -> Iterator[tuple[str, Path]]:
    """A block device in which 1 of 1,000 reads takes 30 ms, and the log of its faults."""
    log = work / "faults.jsonl"
    fault = f"read tail {SLOW_PART} {SLOW_NS // 1_000_000}ms"
    options = ("--size", "64MiB", "--fault", fault, "--log", log)
    with started(AGENT, "slowdisk", *options, stdout=subprocess.PIPE) as disk:
        assert disk.stdout is not None
        device = disk.stdout.readline().strip()
        assert device.startswith("/dev/"), disk.communicate()
        yield device, log
        disk.terminate()
        disk.wait(30)


def fio(device: str, output: Path, seconds: int) -> list[str]:
    """Random direct reads of 4 KiB, depth 4; how many they were is in `output`."""
    options = "--name=db --rw=randread --bs=4k --direct=1 --ioengine=io_uring --iodepth=4 --time_based"
    where = [f"--filename={device}", f"--runtime={seconds}", "--output-format=json", f"--output={output}"]
    return ["fio", *options.split(), *where]


def total_of(output: Path) -> tuple[int, int]:
    """Reads that fio did, and their bytes."""
    read = json.loads(output.read_text(encoding="utf-8"))["jobs"][0]["read"]
    return int(read["total_ios"]), int(read["io_bytes"])


def one(case: Path, sql: str) -> dict[str, Any]:
    """The row of a query over the requests of a case."""
    source = f"read_parquet('{case}/ops/layer=block/*.parquet')"
    cursor = duckdb.connect().execute(sql.format(requests=source))
    row = cursor.fetchone()
    assert row is not None and cursor.description is not None
    return dict(zip([column[0] for column in cursor.description], row, strict=True))


@pytest.mark.root
@pytest.mark.slow
def test_slow_operations_are_all_there_and_the_rest_is_estimated(
    whodisk: Run, work: Path, slow_disk: tuple[str, Path]
) -> None:
    device, log = slow_disk
    case, name = work / "sampled.case", device.removeprefix("/dev/")
    whodisk("record", "--cpu-budget", TINY, "-o", case, "--", *fio(device, work / "fio.json", 7), timeout=180)
    whodisk("verify", case)
    reads, read_bytes = total_of(work / "fio.json")
    about = meta(case)
    sampling = about["sampling"]
    left_out = sampling["left_out"][name]
    assert sampling["levels"] and max(level["one_in"] for level in sampling["levels"]) > 1
    assert about["probes"]["block"]["lost"] == 0

    sums = one(
        case,
        f"""SELECT count(*) AS rows, sum(weight) AS requests, sum(weight * size_bytes) AS bytes, max(weight) AS most,
  count(*) FILTER (WHERE latency_ns >= {SLOW_NS}) AS slow, max(weight) FILTER (WHERE latency_ns >= {SLOW_NS}) AS slow_weight,
  sum(weight - 1) AS others, sum(weight * (weight - 1)) AS variance
FROM {{requests}} WHERE device = '{name}' AND op = 'read' AND size_bytes = 4096""",
    )
    # What was left out is counted; so with the rows there are as many as fio did, and the few that udev and mounting read.
    assert 0 <= sums["rows"] + left_out["requests"] - reads < 500
    assert left_out["requests"] > reads / 4, "the sample is no sample"
    # One or two requests share a draw; four, where they take a third of the time that a draw lasts.
    error = 4 * (4 * sums["variance"]) ** 0.5
    assert abs(sums["requests"] - reads) < error + 500, (sums, reads, error)
    assert abs(sums["bytes"] - read_bytes) < 4096 * (error + 500)
    assert error < 0.3 * reads, "nothing was shown"

    begin_ns = about["clock"]["start_ns"]
    faults = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    hit = [f for f in faults if begin_ns < f["time_ns"] < begin_ns + about["duration_ns"] - 1_000_000_000]
    assert len(hit) > 10
    assert sums["slow"] >= len(hit)
    assert sums["slow_weight"] == 1

    verdict = json.loads(whodisk("solve", case, "--json", "--no-report", timeout=300).stdout)
    assert verdict["status"] == "slow"
    culprits = [finding["culprit"] for finding in verdict["findings"]]
    named = [c for c in culprits if c["kind"] == "stage" and c["because_of"] == f"device:{name}"]
    assert named and named[0]["name"].split("+")[0] == "device", culprits
    assert any("sample of typical operations" in caveat["because"] for caveat in verdict["cannot_exclude"])


@pytest.mark.root
def test_without_a_budget_every_operation_is_a_row_of_weight_1(
    whodisk: Run, work: Path, slow_disk: tuple[str, Path]
) -> None:
    device, _ = slow_disk
    case, name = work / "whole.case", device.removeprefix("/dev/")
    whodisk("record", "-o", case, "--", *fio(device, work / "fio.json", 3), timeout=120)
    reads, _ = total_of(work / "fio.json")
    row = one(
        case,
        f"""SELECT count(*) AS rows, min(weight) AS least, max(weight) AS most FROM {{requests}}
WHERE device = '{name}' AND op = 'read' AND size_bytes = 4096 AND comm = 'fio'""",
    )
    assert (row["least"], row["most"]) == (1, 1)
    assert 0 <= row["rows"] - reads < 50
    assert "sampling" not in meta(case)


def test_a_budget_is_a_share_and_stands_alone(whodisk: Run) -> None:
    assert "0.1% to 100%" in whodisk("record", "--cpu-budget", "3", "--", "true", code=2).stderr
    both = whodisk("record", "--cpu-budget", "3%", "--device", "/dev/loop0", "--", "true", code=2)
    assert "cannot be used with" in both.stderr
