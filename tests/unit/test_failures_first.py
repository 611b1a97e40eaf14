"""What storage refused to do is the first sentence of a verdict that accuses nobody; what a program asked for in vain is not."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, write_case
from whodisk.findings import Verdict
from whodisk.report import brief
from whodisk.verdict.solve import solve

COUNT = 3000
MOUNTS = {
    "/": ["/dev/sda1", "ext4", "rw"],
    "/srv": ["/dev/sdb", "xfs", "rw"],
    "/srv/mail": ["/dev/sdc", "ext4", "rw"],
}


def judged(
    path: Path, number: int, failed: int, longest_ns: int = 0, file: str | None = "/srv/log"
) -> Verdict:
    """Writes of 300 us, now and then; the last of them fail, and of the others one may take far longer."""
    rng = np.random.default_rng(31)
    latency = (300_000 * np.exp(rng.normal(0, 0.1, COUNT))).astype(np.int64)
    latency[500] += longest_ns
    error = np.zeros(COUNT, np.int64)
    error[COUNT - failed :] = number
    calls = {
        "op_id": APP_ID_BASE | np.arange(COUNT),
        "start_ns": np.cumsum(latency + rng.exponential(900_000, COUNT).astype(np.int64)) - latency,
        "latency_ns": latency,
        "fs_ns": latency,
        "app_ns": 0,
        "op": "write",
        "size_bytes": 512,
        "file": file,
        "tid": 9,
        "pid": 9,
        "comm": "db",
        "error": error,
    }
    return solve(write_case(path, app=calls, system={"mounts": MOUNTS}))


@pytest.mark.parametrize(
    ("number", "said", "todo"),
    [
        (errno.ENOSPC, "ENOSPC: the file system /srv is full.", "Make room on /srv"),
        (errno.EDQUOT, "EDQUOT: a quota on the file system /srv is used up.", "Raise the quota on /srv"),
        (errno.EROFS, "EROFS: the file system /srv is read-only.", "Find out why /srv is read-only"),
        (errno.EIO, "EIO: the storage below the file system /srv could not do it.", "Read the kernel's log"),
    ],
)
def test_what_somebody_has_to_mend_comes_first(tmp_path: Path, number: int, said: str, todo: str) -> None:
    verdict = judged(tmp_path / "case", number, 700)
    assert verdict.status == "healthy"
    assert verdict.summary[0] == f"No operation is slow, but 700 of 3,000 writes failed with {said}"
    assert verdict.next_steps[0].startswith(todo)
    assert verdict.failed == verdict.failed_first == [f"700 writes failed with {errno.errorcode[number]}."]
    # It is said once, and is neither small nor rare.
    assert not set(verdict.failed) & {*verdict.summary, *verdict.minor}
    screen = [line.plain for line in brief.lines(verdict, 100)]
    assert any(line.startswith(f"Next: {todo}") for line in screen)
    assert not any(line.startswith("Failed: ") for line in screen)


def test_it_comes_before_outliers(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "case", errno.ENOSPC, 1, longest_ns=30_000_000)
    assert verdict.status == "outliers"
    first = "1 of 3,000 writes failed with ENOSPC: the file system /srv is full. Apart from that nearly all is well, but "
    assert verdict.summary[0].startswith(first)
    assert verdict.next_steps[0].startswith("Make room on /srv")
    assert any(line.plain.startswith("Next: Make room") for line in brief.lines(verdict, 100))


def test_where_no_file_is_known_none_is_named(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "case", errno.ENOSPC, 700, file=None)
    assert verdict.summary[0].endswith("failed with ENOSPC: the file system is full.")


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EPERM])
def test_what_a_program_asked_for_in_vain_does_not(tmp_path: Path, number: int) -> None:
    verdict = judged(tmp_path / "case", number, 700)
    assert verdict.summary[0] == "Healthy: no operation stands out."
    assert not verdict.failed_first and not verdict.next_steps
    assert verdict.failed[0] in verdict.minor


def test_a_culprit_comes_before_it(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "case", errno.ENOSPC, 700, longest_ns=900_000_000)
    assert verdict.status == "slow" and verdict.summary[0].startswith("Slow: ")
    assert not verdict.failed_first and verdict.failed[0] in verdict.summary
