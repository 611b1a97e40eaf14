"""A disk that sleeps when it has nothing to do: who works in bursts waits for it to wake, and the verdict says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, slowdisk
from tests.e2e.conftest import Run
from whodisk.verdict.solve import solve

BURSTS = 24
#: Reads of 4 KiB past the page cache, 60 at a time, and a rest of 0.2 to 0.3 s before each burst.
LOAD = f"""
import mmap, os, random, sys, time
draw, page = random.Random(1), mmap.mmap(-1, 4096)
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
for _ in range({BURSTS}):
    time.sleep(draw.uniform(0.2, 0.3))
    for _ in range(60):
        os.preadv(fd, [page], draw.randrange(4096) * 4096)
"""


def recorded(whodisk: Run, work: Path, fault: str) -> Path:
    try:
        with slowdisk(fault, seed=3) as device:
            whodisk("record", "-o", work / "a.case", "--", sys.executable, "-c", LOAD, device)
    except Unavailable as lack:
        pytest.skip(str(lack))
    return work / "a.case"


@pytest.mark.slow
@pytest.mark.root
def test_who_finds_the_disk_asleep_waits_for_it_to_wake(whodisk: Run, work: Path) -> None:
    verdict = solve(recorded(whodisk, work, "any sleep 100ms 25ms"))
    first = verdict.findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("stage", "device"), verdict.findings
    assert first.culprit.because_of is not None and first.culprit.because_of.startswith("device:loop")
    assert f"of requests after such a silence {BURSTS} of {BURSTS} were slow" in first.claim
    assert "power saving" in first.remedy


@pytest.mark.root
@pytest.mark.slow
def test_a_disk_that_is_late_at_any_time_did_not_sleep(whodisk: Run, work: Path) -> None:
    verdict = solve(recorded(whodisk, work, "read tail 0.02 25ms"))
    first = verdict.findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("stage", "device"), verdict.findings
    assert "silence" not in first.claim and "power saving" not in first.remedy
