"""`whodisk slowdisk --model`: a real block device with the times of a modelled drive."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.accuracy.host import slowdisk
from tests.e2e.conftest import WHODISK


@pytest.mark.root
@pytest.mark.parametrize(("model", "spins"), [("nearline_7200", "1"), ("sata_ssd", "0"), ("nvme", "0")])
def test_data_come_back_and_the_kernel_knows_an_arm(model: str, spins: str) -> None:
    with slowdisk(seed=3, size="512MiB", model=model) as device:
        assert (Path("/sys/block") / device.name / "queue/rotational").read_text().strip() == spins
        data = os.urandom(1 << 20)
        file = os.open(device, os.O_RDWR)
        try:
            for place in (0, 300 << 20):
                os.pwrite(file, data, place)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            assert [os.pread(file, len(data), place) == data for place in (300 << 20, 0)] == [True, True]
        finally:
            os.close(file)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "floppy"], "nearline_7200"),
        (["--model", "nvme", "--latency", "1ms"], "cannot be used with"),
        (["--model", "nvme", "--size", "32MiB"], "--model nvme: size_bytes: expected 64 MiB to 4 TiB, found"),
    ],
)
def test_what_is_no_drive_is_said(words: list[str], said: str) -> None:
    done = subprocess.run([WHODISK, "slowdisk", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
