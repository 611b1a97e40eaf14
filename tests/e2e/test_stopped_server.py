"""The process that serves a device is stopped now and then: its stops are in the record, though nothing else of it is but waits for a CPU, and the verdict names them."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, slowdisk
from tests.e2e.conftest import Run
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

STOPS = 5
#: Reads of 4 KiB past the page cache for five seconds, one each millisecond.
LOAD = """
import mmap, os, sys, time
fd, until = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), time.monotonic() + 5
memory, number = mmap.mmap(-1, 4096), 0
while time.monotonic() < until:
    os.preadv(fd, [memory], 4096 * (number * 7919 % 10_000))
    number += 1
    time.sleep(0.001)
"""


def server_of(device: Path) -> int:
    backing = Path(f"/sys/block/{device.name}/loop/backing_file").read_text(encoding="utf-8")
    found = re.search(r"whodisk-slowdisk-(\d+)-", backing)
    assert found is not None, backing
    return int(found.group(1))


def stop(pid: int, done: threading.Event) -> None:
    """Five times for 0.3 s."""
    for _ in range(STOPS):
        if done.wait(0.6):
            return
        os.kill(pid, signal.SIGSTOP)
        done.wait(0.3)
        os.kill(pid, signal.SIGCONT)


@pytest.mark.root
def test_a_server_that_is_stopped_is_named(whodisk: Run, work: Path) -> None:
    path, done = work / "a.case", threading.Event()
    try:
        with slowdisk(seed=3, size="64MiB") as device:
            pid = server_of(Path(device))
            stopper = threading.Thread(target=stop, args=(pid, done))
            stopper.start()
            try:
                whodisk("record", "-o", path, "--", sys.executable, "-c", LOAD, device)
            finally:
                done.set()
                stopper.join()
    except Unavailable as lack:
        pytest.skip(str(lack))
    with Case(path) as case:
        stops = case.rows(
            f"SELECT duration_ns FROM waits WHERE state = 'stopped' AND pid = {pid} AND duration_ns BETWEEN 2e8 AND 5e8"
        )
    assert len(stops) >= STOPS
    verdict = solve(path)
    assert any(f.culprit.because_of == "was stopped" for f in verdict.findings), [
        f.claim for f in verdict.findings
    ]
