"""A neighbour is one on a device that matters to the judged program: not on the disk that it was once started from."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

from ground_truth import others
from tests.synth import APP_ID_BASE, BLOCK_ID_BASE, write_case
from whodisk.detectors.shared_devices import shared_devices
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case
from whodisk.verdict.solve import _context, solve

MS = 1_000_000


def _elsewhere(case: Path) -> Path:
    """`case`, with the backup on another disk, from which the judged program read five times."""
    file = next((case / "ops" / "layer=block").glob("*.parquet"))
    moved = file.with_suffix(".moved")
    duckdb.sql(
        f"""COPY (SELECT * REPLACE (CASE WHEN comm = 'nightly-backup' OR
  op_id IN (SELECT op_id FROM '{file}' WHERE comm <> 'nightly-backup' ORDER BY start_ns LIMIT 5) THEN 'vda' ELSE device END AS device)
FROM '{file}' ORDER BY op_id) TO '{moved}' (FORMAT parquet)"""
    )
    moved.rename(file)
    return case


@pytest.mark.parametrize("seed", [1, 2])
def test_who_works_on_another_disk_is_no_neighbour(tmp_path: Path, seed: int) -> None:
    beside = solve(others.irregular_backup(seed, tmp_path / "beside"))
    assert "nightly-backup" in [finding.culprit.name for finding in beside.findings], beside.summary
    elsewhere = solve(_elsewhere(others.irregular_backup(seed, tmp_path / "elsewhere")))
    assert "nightly-backup" not in [finding.culprit.name for finding in elsewhere.findings], elsewhere.summary
    assert not [line for line in elsewhere.minor if "nightly-backup" in line], elsewhere.minor


def _devices(path: Path, at: str | None) -> list[str]:
    """Those of a program whose calls tell the device `at`, most of its requests being on `vda`."""
    calls = np.arange(400)
    case = write_case(
        path,
        syscall={
            "op_id": APP_ID_BASE + calls,
            "start_ns": calls * MS,
            "latency_ns": MS // 2,
            "op": "write",
            "tid": 7,
            "pid": 7,
            "comm": "tar",
            "device": at,
        },
        block={
            "op_id": BLOCK_ID_BASE + calls,
            "start_ns": calls * MS,
            "latency_ns": MS // 4,
            "op": "read",
            "tid": 7,
            "pid": 7,
            "comm": "tar",
            "device": np.where(calls % 10 == 0, "sda", "vda"),
        },
        devices=("sda", "vda"),
        meta={"observer": "record", "command": ["tar"]},
    )
    with Case(case) as opened:
        surveys = {layer: survey_layer(opened, layer) for layer in ("syscall", "block")}
        return shared_devices(_context(opened, surveys, "syscall", None, []))


def test_operations_decide_where_they_tell_their_device(tmp_path: Path) -> None:
    assert _devices(tmp_path / "known", "sda") == ["sda"]
    assert _devices(tmp_path / "unknown", None) == ["sda", "vda"]


@pytest.mark.parametrize(("file", "accused"), [("/srv/disk.img", True), ("/mnt/other/disk.img", False)])
def test_who_works_on_the_disk_below_a_loop_device_is_a_neighbour(
    file: str, accused: bool, tmp_path: Path
) -> None:
    case = _elsewhere(others.irregular_backup(1, tmp_path / "case"))
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    [judged] = system["devices"]
    system["devices"][judged].setdefault("facts", {})["loop_backing_file"] = file
    system["devices"] |= {"vda": {}, "vdb": {}}
    system["mounts"] = {"/": ["/dev/vda", "ext4", "rw"], "/mnt/other": ["/dev/vdb", "ext4", "rw"]}
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    verdict = solve(case)
    claims = [finding.claim for finding in verdict.findings if finding.culprit.name == "nightly-backup"]
    assert bool(claims) == accused, verdict.summary
    assert all(f"works on vda, on which the file of {judged} lies" in claim for claim in claims), claims
