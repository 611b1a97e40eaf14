"""A program that needs more memory than its group has, with real swap space on a disk of our own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, group, slowdisk
from tests.e2e.conftest import Run
from whodisk.verdict.solve import solve

#: Touches random places of 160 MiB, which fit into memory twice over, or not at all, and writes a line now and then.
LOAD = """
import os, random, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
memory, draw, until = bytearray(160 << 20), random.Random(1), time.monotonic() + 3
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
while time.monotonic() < until:
    for _ in range(20):
        memory[draw.randrange(len(memory))] = 1
    os.pwrite(log, bytes(512), 0)
"""


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize(("limit_mib", "is_short"), [(90, True), (400, False)])
def test_memory_is_short_where_it_is(whodisk: Run, work: Path, limit_mib: int, is_short: bool) -> None:
    try:
        with (
            slowdisk(seed=3, size="320MiB", latency="50us") as disk,
            group("memory", {"memory.limit_in_bytes": str(limit_mib << 20)}) as limit,
        ):
            subprocess.run(["mkswap", disk], check=True, capture_output=True)
            subprocess.run(["swapon", disk], check=True)
            try:
                into = (limit / "cgroup.procs", work / "log")
                whodisk("record", "-o", work / "a.case", "--", sys.executable, "-c", LOAD, *into)
            finally:
                subprocess.run(["swapoff", disk], check=True)
    except Unavailable as lack:
        pytest.skip(str(lack))
    accused = [f for f in solve(work / "a.case").findings if f.culprit.name.startswith("memory of")]
    assert bool(accused) == is_short, accused
    if is_short:
        assert "pages that had been swapped out" in accused[0].claim
