"""Where little memory is there a recording takes less, and what is killed leaves a case that says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.accuracy.host import group
from tests.e2e.conftest import AGENT, Run, meta, started

MIB = 1 << 20
#: Reads that the recorder must see, besides what others do.
COMMAND: list[str] = ["--", "dd", "if=data.bin", "of=/dev/null", "bs=4k", "iflag=direct"]
READS = 4096

#: Takes the memory of its group until the kernel has killed the process that is given.
HOG = """
import pathlib, sys
state = pathlib.Path("/proc", sys.argv[1], "stat")
taken = []
while len(taken) < 1024 and state.read_text().rpartition(")")[2].split()[0] not in "ZX":
    taken.append(b"x" * (1 << 20))
"""

pytestmark = pytest.mark.root


@pytest.fixture
def data(work: Path) -> Iterator[Path]:
    path = work / "data.bin"
    path.write_bytes(os.urandom(READS * 4096))
    subprocess.run(["sync", path], check=True)
    yield path


def within(limit: Path, *command: str | Path) -> list[str]:
    """A command that runs in a control group from its first instruction on."""
    return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(limit), *map(str, command)]


def test_a_recording_fits_into_little_memory(whodisk: Run, work: Path, data: Path) -> None:
    with group("memory", {"memory.limit_in_bytes": str(160 * MIB)}) as limit:
        record = within(limit, AGENT, "record", "-o", "a.case", *COMMAND)
        done = subprocess.run(record, cwd=work, capture_output=True, text=True, check=False, timeout=120)
        most = int((limit / "memory.max_usage_in_bytes").read_text())
    assert done.returncode == 0, (done, most)
    assert "MiB of memory are available" in done.stderr, done.stderr
    case = work / "a.case"
    assert meta(case)["state"] == "sealed"
    events = duckdb.execute(
        f"SELECT detail FROM '{case}/events/*.parquet' WHERE kind = 'little_memory'"
    ).fetchall()
    assert len(events) == 1 and str(limit) in events[0][0], events
    lost = duckdb.execute(f"SELECT coalesce(sum(lost), 0) FROM '{case}/losses/*.parquet'").fetchall()[0][0]
    calls = duckdb.execute(
        f"SELECT count(*) FROM '{case}/ops/layer=syscall/*.parquet' WHERE op = 'read' AND file LIKE '%/data.bin'"
    ).fetchall()[0][0]
    # The last read finds the end of the file.
    assert calls == READS + 1 and lost == 0, (calls, lost)
    whodisk("verify", case)


def test_a_recorder_that_is_killed_for_want_of_memory_leaves_a_readable_case(
    whodisk: Run, work: Path, data: Path
) -> None:
    with (
        group("memory", {"memory.limit_in_bytes": str(512 * MIB)}) as limit,
        started(*within(limit, AGENT, "record", "-o", "a.case"), cwd=work) as recorder,
    ):
        while not (work / "a.case" / "raw" / "block" / "block.arrows").exists():
            assert recorder.poll() is None
            time.sleep(0.1)
        # The kernel chooses this one.
        Path(f"/proc/{recorder.pid}/oom_score_adj").write_text("1000")
        subprocess.run(COMMAND[1:], cwd=work, check=True, capture_output=True)
        time.sleep(1.5)
        # The kernel may kill this one, too, while the recorder's memory is not free yet.
        subprocess.run(within(limit, sys.executable, "-c", HOG, str(recorder.pid)), check=False, timeout=60)
        assert recorder.wait(timeout=60) == -signal.SIGKILL
    case = work / "a.case"
    assert meta(case)["state"] == "recording"
    verdict = json.loads(whodisk("solve", case, "--json").stdout)
    assert "the recorder was killed" in json.dumps(verdict["cannot_exclude"]), verdict["cannot_exclude"]
    reads = duckdb.execute(
        f"SELECT count(*) FROM '{case}/ops/layer=block/*.parquet' WHERE comm = 'dd'"
    ).fetchall()
    assert reads[0][0] > 0
    whodisk("verify", case)
