"""A device that is slower from the moment on at which another program came to it, or to the disk below."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from ground_truth import hosts
from whodisk.findings import Finding
from whodisk.verdict.solve import solve


def found(path: Path, begins: float) -> Finding:
    """A device whose file lies on `vda`, 20 times as slow since a moment; `dd` reads from `vda` from `begins` of the run on, one request after the other."""
    case = hosts.slower_since_soon(3, path)
    file = next((case / "ops" / "layer=block").glob("*.parquet"))
    added = file.with_suffix(".added")
    rows = f"SELECT * FROM '{file}'"
    with duckdb.connect() as connection:
        spans = connection.execute(
            f"SELECT min(start_ns), max(start_ns), max(op_id) FROM '{file}'"
        ).fetchall()
    begin, end, last = spans[0]
    at = begin + int(begins * (end - begin))
    duckdb.sql(
        f"""COPY ({rows} UNION ALL SELECT * REPLACE ('vda' AS device, 'dd' AS comm, 999 AS pid, 999 AS tid, {last} + row_number() OVER () AS op_id,
  {at} + CAST((row_number() OVER () - 1) * {(end - at) / 400!r} AS BIGINT) AS start_ns, {int((end - at) / 400)} AS latency_ns, {int((end - at) / 400)} AS device_ns,
  0 AS queue_ns, 0 AS interrupt_ns) FROM (SELECT * FROM '{file}' LIMIT 400) ORDER BY start_ns) TO '{added}' (FORMAT parquet)"""
    )
    added.rename(file)
    system = json.loads((case / "system.json").read_text(encoding="utf-8"))
    [judged] = system["devices"]
    system["devices"][judged].setdefault("facts", {})["loop_backing_file"] = "/srv/disk.img"
    system["devices"]["vda"] = {}
    system["mounts"] = {"/": ["/dev/vda", "ext4", "rw"]}
    (case / "system.json").write_text(json.dumps(system), encoding="utf-8")
    verdict = solve(case)
    assert verdict.status == "slow", verdict.summary
    return verdict.findings[0]


@pytest.mark.parametrize(("begins", "accused"), [(1 / 60, True), (0.5, False), (0.0, False)])
def test_who_came_when_it_became_slow_is_named(begins: float, accused: bool, tmp_path: Path) -> None:
    first = found(tmp_path / "case", begins)
    assert ((first.culprit.kind, first.culprit.name) == ("process", "dd")) is accused, first.claim
    assert (
        "At that moment dd began to use vda, on which the file of nvme0n1 lies: 400 requests" in first.claim
    ) is accused
