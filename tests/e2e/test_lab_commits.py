"""Commits of a journal in the lab: recorded as a recorder does, and named where operations waited for them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest

from tests.e2e.conftest import Run

SCENARIO = """
[workload]
targets = ["data"]
file_size = "64GiB"
block_sizes = "4KiB"
read = "50%"
queue_depth = 4
sync_every_writes = 4
rate = "8000/s"
arrival = "poisson"
operations = 6000
ramp = "30ms"

[host]
cpus = 8

[interrupts]

[device]
name = "nvme"
simple_read = "90us"
simple_write = "30us"
simple_parallel = 16

[fault.busy]
kind = "journal_contention"
every = "20ms"
commit = "{commit}"
"""


@pytest.mark.parametrize("commit_us", [2_000, 15])
def test_commits_are_recorded_and_named_where_they_cost_something(
    whodisk: Run, work: Path, commit_us: int
) -> None:
    (work / "s.toml").write_text(SCENARIO.replace("{commit}", f"{commit_us}us"), encoding="utf-8")
    whodisk("lab", "run", "s.toml", "-o", "s.case")
    rows = (
        duckdb.connect()
        .execute(
            f"SELECT time_ns, subject, detail FROM '{work}/s.case/events/*.parquet' WHERE kind = 'journal_commit' ORDER BY 1"
        )
        .fetchall()
    )
    begins = [time_ns for time_ns, _, _ in rows]
    assert begins == [number * 20_000_000 for number in range(len(begins))]
    assert len(begins) >= 30
    assert {subject for _, subject, _ in rows} == {"nvme0n1"}
    assert {re.sub(r" transaction \d+", "", detail) for _, _, detail in rows} == {
        f"duration_ns {commit_us}000 by jbd2/nvme0n1-8 (pid 301)"
    }
    verdict = json.loads(whodisk("solve", "s.case", "--json").stdout)
    found = [(finding["culprit"]["kind"], finding["culprit"]["name"]) for finding in verdict["findings"]]
    assert found == ([("stage", "fs")] if commit_us > 1_000 else [])
