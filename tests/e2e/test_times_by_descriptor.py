"""tar, cp -p and rsync set the times of a file by its descriptor (futimens, which is utimensat without a name): where that sleeps, nothing is lost by it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, file_system, slowdisk
from tests.e2e.conftest import Run
from whodisk.reading.views import Case

#: Sets the times of a file for three seconds, once each millisecond.
LOAD = """
import os, sys, time
fd, until = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), time.monotonic() + 3
while time.monotonic() < until:
    os.utime(fd, (1, 1))
    time.sleep(0.001)
"""


def freeze(folder: Path, done: threading.Event) -> None:
    while not done.wait(0.3):
        subprocess.run(["fsfreeze", "--freeze", folder], check=True)
        done.wait(0.1)
        subprocess.run(["fsfreeze", "--unfreeze", folder], check=True)


@pytest.mark.root
def test_times_set_by_a_descriptor_are_of_its_file(whodisk: Run, work: Path) -> None:
    """11,478 calls of one tar were lost, and its case was of no use."""
    path, done = work / "a.case", threading.Event()
    try:
        with slowdisk(seed=3, size="512MiB") as device, file_system(device, work / "mnt", "ext4") as folder:
            freezer = threading.Thread(target=freeze, args=(folder, done))
            freezer.start()
            try:
                whodisk("record", "-o", path, "--", sys.executable, "-c", LOAD, folder / "data")
            finally:
                done.set()
                freezer.join()
            name = str(folder / "data")
    except Unavailable as lack:
        pytest.skip(str(lack))
    with Case(path) as case:
        lost = case.rows("SELECT reason FROM losses WHERE lost > 0 AND probe = 'syscall'")
        slept = case.rows(
            "SELECT file FROM measured WHERE layer = 'syscall' AND op = 'attribute' AND latency_ns > 5e7"
        )
    assert lost == []
    assert len(slept) >= 3 and {str(row["file"]) for row in slept} == {name}
