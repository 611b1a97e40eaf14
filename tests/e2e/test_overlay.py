"""Files of overlayfs, as containers have them: what is read from one is tied to the requests of the disk below."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, file_system, slowdisk
from tests.e2e.conftest import Run
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

FILES = 300
#: Reads all files once, and writes some of them anew: those are copied up to the other folder.
LOAD = f"""
import os, sys
for number in range({FILES}):
    with open(f"{{sys.argv[1]}}/{{number}}", "rb") as file:
        file.read()
for number in range(0, {FILES}, 50):
    with open(f"{{sys.argv[1]}}/{{number}}", "r+b") as file:
        file.write(bytes(4096))
        file.flush()
        os.fsync(file.fileno())
"""


@pytest.mark.root
def test_reads_through_an_overlay_are_its_disks(whodisk: Run, work: Path) -> None:
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="ascii").split():
        pytest.skip("this kernel has no overlayfs")
    path = work / "a.case"
    try:
        with slowdisk("read tail 0.06 25ms", seed=3) as device, file_system(device, work / "mnt") as folder:
            for name in ("lower", "upper", "work", "merged"):
                (folder / name).mkdir()
            for number in range(FILES):
                (folder / "lower" / str(number)).write_bytes(os.urandom(12288))
            subprocess.run(["umount", folder], check=True)
            subprocess.run(["mount", device, folder], check=True)
            parts = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
            subprocess.run(["mount", "-t", "overlay", "overlay", "-o", parts, folder / "merged"], check=True)
            try:
                whodisk("record", "-o", path, "--", sys.executable, "-c", LOAD, folder / "merged")
            finally:
                subprocess.run(["umount", folder / "merged"], check=True)
            below = device.name
    except Unavailable as lack:
        pytest.skip(str(lack))
    with Case(path) as case:
        [reads] = case.rows(
            f"""SELECT count(DISTINCT r.op_id) AS n FROM syscall_ops AS r JOIN links AS l ON l.parent_id = r.op_id JOIN block_ops AS b ON b.op_id = l.child_id
WHERE r.op = 'read' AND r.file LIKE '%/merged/%' AND r.device = '{below}' AND b.device = '{below}'"""
        )
    assert int(reads["n"] or 0) >= 0.9 * FILES, reads
    first = solve(path).findings[0]
    assert (first.culprit.name, first.culprit.because_of) == ("device", f"device:{below}"), first.culprit
