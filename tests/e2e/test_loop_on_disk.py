"""A loop device with its file on a slow disk: the verdict says which disk was at work below it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, file_system, slowdisk, uncached
from tests.e2e.conftest import Run
from whodisk.verdict.solve import solve

#: Reads of 4 KiB past the page cache at random places.
LOAD = """
import mmap, os, random, sys
draw, page = random.Random(1), mmap.mmap(-1, 4096)
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
for _ in range(1500):
    os.preadv(fd, [page], draw.randrange(8192) * 4096)
"""


@pytest.mark.root
def test_the_disk_under_a_loop_device_is_named(whodisk: Run, work: Path) -> None:
    try:
        with slowdisk("read tail 0.05 25ms", seed=3) as device, file_system(device, work / "mnt") as folder:
            image = folder / "image"
            image.write_bytes(os.urandom(1 << 20) * 32)
            uncached(image)
            attach = ("losetup", "--find", "--show", "--direct-io=on", str(image))
            loop = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
            try:
                whodisk("record", "-o", work / "a.case", "--", sys.executable, "-c", LOAD, loop)
            finally:
                subprocess.run(["losetup", "--detach", loop], check=True)
            below = device.name
    except Unavailable as lack:
        pytest.skip(str(lack))
    first = solve(work / "a.case").findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("stage", "device"), first.culprit
    assert f"lies on {below}, which was at work for" in first.claim, first.claim
