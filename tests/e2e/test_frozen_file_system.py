"""A file system that is frozen now and then, as for a snapshot: writers wait for it, and the verdict says what that looks like."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, file_system, slowdisk
from tests.e2e.conftest import Run
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

FREEZES = 6
#: Writes of 4 KiB into the page cache for four seconds, one each millisecond.
LOAD = """
import os, sys, time
fd, until = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), time.monotonic() + 4
number = 0
while time.monotonic() < until:
    os.pwrite(fd, bytes(4096), number % 1000 * 4096)
    number += 1
    time.sleep(0.001)
"""


def freeze(folder: Path, done: threading.Event) -> None:
    """Six times for 0.12 s."""
    for _ in range(FREEZES):
        if done.wait(0.5):
            return
        subprocess.run(["fsfreeze", "--freeze", folder], check=True)
        done.wait(0.12)
        subprocess.run(["fsfreeze", "--unfreeze", folder], check=True)


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_writers_wait_while_their_file_system_is_frozen(whodisk: Run, work: Path, kind: str) -> None:
    path, done = work / "a.case", threading.Event()
    try:
        with slowdisk(seed=3, size="512MiB") as device, file_system(device, work / "mnt", kind) as folder:
            freezer = threading.Thread(target=freeze, args=(folder, done))
            freezer.start()
            try:
                whodisk("record", "-o", path, "--", sys.executable, "-c", LOAD, folder / "data")
            finally:
                done.set()
                freezer.join()
    except Unavailable as lack:
        pytest.skip(str(lack))
    with Case(path) as case:
        causes = {
            str(row["cause"])
            for row in case.rows(
                "SELECT cause FROM waits WHERE state = 'blocked' AND duration_ns BETWEEN 1e8 AND 4e8"
            )
        }
    assert causes & {"per-CPU read lock", "percpu_rwsem_wait"}, causes
    first = solve(path).findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("stage", "fs"), first.culprit
    assert first.culprit.because_of == "process:fsfreeze", first.claim
    assert "while their file system is frozen" in first.claim
    assert "by fsfreeze (" in first.claim
    assert "snapshot" in first.remedy
