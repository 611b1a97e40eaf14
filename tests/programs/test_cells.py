"""Real programs on three file systems over a disk with a fault, as `whodisk run` starts them: six cells of the large tables."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.accuracy.host import said, slowdisk
from tests.accuracy.referee.runs import MKFS
from tests.e2e.conftest import WHODISK
from whodisk.programs import PROGRAMS
from whodisk.programs.base import find

pytestmark = pytest.mark.root

SIZE = "512MiB"
FLUSHES = "flush tail 0.1 40ms"
#: Program, file system, fault of the disk (none: the disk may not be accused), and its own words.
CELLS: tuple[tuple[str, str, str, set[str]], ...] = (
    ("sqlite", "ext4", FLUSHES, {"commit", "read"}),
    ("postgresql", "xfs", FLUSHES, {"transaction"}),
    ("db_bench", "btrfs", FLUSHES, {"write"}),
    ("tar", "ext4", "", {"file", "sync"}),
    ("fio", "xfs", "read tail 0.02 30ms", set()),
    ("dd", "btrfs", "", {"file"}),
)

#: A file system each, with and without a fault; the others come with `make test-long`.
EACH_TIME = {"sqlite", "postgresql", "dd"}


@contextmanager
def mounted(device: Path, kind: str, folder: Path) -> Iterator[Path]:
    tool = find(f"mkfs.{kind}")
    if tool is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    said(tool, *MKFS[kind], device)
    folder.mkdir()
    said("mount", "-t", kind, device, folder)
    try:
        yield folder
    finally:
        said("umount", folder)


def accuses(finding: dict[str, Any], device: str) -> bool:
    culprit = finding["culprit"]
    named = device in (culprit["name"], (culprit["because_of"] or "").removeprefix("device:"))
    return named or (culprit["kind"] == "stage" and "device" in culprit["name"].split("+"))


@pytest.mark.parametrize(
    ("program", "kind", "fault", "own"),
    [
        pytest.param(*cell, id="-".join(cell[:2]), marks=() if cell[0] in EACH_TIME else pytest.mark.slow)
        for cell in CELLS
    ],
)
def test_cell(tmp_path: Path, program: str, kind: str, fault: str, own: set[str]) -> None:
    if (lacking := PROGRAMS[program].missing()) is not None:
        pytest.skip(lacking)
    tmp_path.chmod(0o755)
    # Others than root must get through, as PostgreSQL has a user of its own.
    for folder in tmp_path.parents:
        if folder.owner() == tmp_path.owner() and folder.stat().st_mode & 0o7 == 0:
            folder.chmod(folder.stat().st_mode | 0o1)
    case = tmp_path / "run.case"
    with slowdisk(*([fault] if fault else []), seed=7, size=SIZE) as device:
        name = device.name
        with mounted(device, kind, tmp_path / "mount") as folder:
            words = [
                "run",
                program,
                "--seconds",
                "3",
                "--scale",
                "0.3",
                "--path",
                str(folder),
                "-o",
                str(case),
            ]
            done = subprocess.run([WHODISK, *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            # Only what the file system itself made is left.
            assert [path.name for path in folder.iterdir() if path.name != "lost+found"] == []
    meta = json.loads((case / "case.json").read_text())
    assert meta["workload"]["program"] == program
    if own:
        rows = duckdb.execute(
            f"""SELECT op, count(*), sum(coalesce(unknown_ns, 0)) / sum(latency_ns)
FROM read_parquet('{case}/ops/layer=app/*.parquet') GROUP BY 1"""
        ).fetchall()
        assert {row[0] for row in rows} == own
        # A thread that was not found in time is not known; nearly all are.
        assert max(row[2] for row in rows) < 0.5
    if program == "postgresql":
        # One client syncs the log for others, which sleep until it has.
        handed_on = duckdb.execute(
            f"""SELECT count(*) FROM read_parquet('{case}/links/*.parquet') AS l
JOIN read_parquet('{case}/ops/layer=app/*.parquet') AS a ON a.op_id = l.parent_id
JOIN read_parquet('{case}/ops/layer=syscall/*.parquet') AS c ON c.op_id = l.child_id
WHERE c.op = 'sync' AND c.tid <> a.tid AND a.device_ns > 0"""
        ).fetchall()
        assert handed_on[0][0] > 0
    solved = subprocess.run(
        [WHODISK, "solve", case, "--json", "--no-report"], capture_output=True, text=True, check=False
    )
    verdict = json.loads(solved.stdout)
    accused = [finding for finding in verdict["findings"] if accuses(finding, name)]
    crowded = [
        f for f in verdict["findings"] if f["culprit"]["because_of"] in ("stage:runqueue", "standstill")
    ]
    if fault and not accused and crowded:
        pytest.skip(f"the machine was too busy to show the fault: {crowded[0]['claim']}")
    assert bool(accused) is bool(fault), (verdict["status"], [f["claim"] for f in verdict["findings"]])
