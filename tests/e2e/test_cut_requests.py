"""A queue setting that cuts requests: named where operations wait for the pieces, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, slowdisk
from tests.e2e.conftest import Run
from whodisk.findings import Verdict
from whodisk.verdict.solve import solve


def judged(whodisk: Run, work: Path, size: str, count: int) -> tuple[Verdict, str]:
    """The verdict on reads past the page cache of a disk that takes 0.1 ms per request, none of which may be larger than 8 KiB; and its name."""
    try:
        with slowdisk(seed=3, latency="100us") as device:
            (Path("/sys/block") / device.name / "queue/max_sectors_kb").write_text("8", encoding="ascii")
            load = ("dd", f"if={device}", "of=/dev/null", f"bs={size}", "iflag=direct", f"count={count}")
            whodisk("record", "-o", work / "a.case", "--", *load)
            return solve(work / "a.case"), device.name
    except Unavailable as lack:
        pytest.skip(str(lack))


@pytest.mark.root
def test_reads_that_are_cut_into_small_requests_accuse_the_setting(whodisk: Run, work: Path) -> None:
    verdict, device = judged(whodisk, work, "256k", 400)
    first = verdict.findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("config", f"max_sectors_kb of {device}"), (
        verdict.findings
    )
    assert "typically 32 of them" in first.claim
    assert first.remedy == f"echo 1280 > /sys/block/{device}/queue/max_sectors_kb"


@pytest.mark.root
def test_reads_as_small_as_the_limit_are_not_cut(whodisk: Run, work: Path) -> None:
    verdict, _ = judged(whodisk, work, "8k", 4000)
    assert not [f for f in verdict.findings if "max_sectors_kb" in f.culprit.name], verdict.findings
