"""A queue that may hold four requests: who waits for a place says so, and the setting is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, slowdisk
from tests.e2e.conftest import Run
from whodisk.verdict.solve import solve

#: Sixteen threads, each of which reads 4 KiB after another past the page cache.
LOAD = """
import mmap, os, random, sys, threading, time
until = time.monotonic() + 3
def read(number):
    draw, page = random.Random(number), mmap.mmap(-1, 4096)
    fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
    while time.monotonic() < until:
        os.preadv(fd, [page], draw.randrange(4096) * 4096)
threads = [threading.Thread(target=read, args=(number,)) for number in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize(("places", "named"), [(4, True), (256, False)])
def test_a_queue_with_few_places_is_named(whodisk: Run, work: Path, places: int, named: bool) -> None:
    try:
        with slowdisk(seed=3, latency="2ms") as device:
            queue = Path("/sys/block") / device.name / "queue"
            if "mq-deadline" not in (queue / "scheduler").read_text(encoding="ascii"):
                pytest.skip("this kernel has no mq-deadline")
            (queue / "scheduler").write_text("mq-deadline", encoding="ascii")
            (queue / "nr_requests").write_text(str(places), encoding="ascii")
            whodisk("record", "-o", work / "a.case", "--", sys.executable, "-c", LOAD, device)
            culprit = f"nr_requests of {device.name}"
    except Unavailable as lack:
        pytest.skip(str(lack))
    accused = [f for f in solve(work / "a.case").findings if f.culprit.name == culprit]
    assert bool(accused) == named, accused
    if named:
        assert "which may hold 4 requests only" in accused[0].claim
