"""A device that failed requests is told in the first sentence, whatever these cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground_truth import troubles
from tests.synth import APP_ID_BASE, write_case
from whodisk.verdict.solve import solve


@pytest.mark.parametrize("seed", range(2))
def test_errors_that_cost_nothing_are_not_nothing(seed: int, tmp_path: Path) -> None:
    verdict = solve(troubles.harmless_errors(seed, tmp_path / "case"))
    assert not verdict.findings
    assert verdict.summary[0].startswith("Look at a device: ")
    assert "Nothing is broken" not in " ".join(verdict.summary)
    assert not [item for item in verdict.cleared if item.what.startswith("device:")]


def test_errors_that_are_accused_are_told_once(tmp_path: Path) -> None:
    verdict = solve(troubles.timeouts(1, tmp_path / "case"))
    assert verdict.findings[0].detector == "device_errors"
    assert "Look at a device" not in " ".join(verdict.summary)


def test_errors_beside_another_finding_are_told_too(tmp_path: Path) -> None:
    verdict = solve(troubles.errors_elsewhere(1, tmp_path / "case"))
    assert verdict.findings and verdict.findings[0].detector != "device_errors"
    assert any(sentence.startswith("Look at a device, too: ") for sentence in verdict.summary)


@pytest.mark.parametrize(("errno", "failed"), [(4, False), (5, True)])
def test_a_read_that_a_signal_broke_off_has_not_failed(tmp_path: Path, errno: int, failed: bool) -> None:
    """A command that is told to end leaves its last read with EINTR."""
    count = 2000
    calls = {
        "op_id": APP_ID_BASE + np.arange(count),
        "op": "read",
        "start_ns": np.arange(count) * 1_000_000,
        "latency_ns": 80_000,
        "fs_ns": 10_000,
        "device_ns": 70_000,
        "error": np.where(np.arange(count) == count - 1, errno, 0),
    }
    verdict = solve(write_case(tmp_path / "case", syscall=calls))
    assert any("failed" in sentence for sentence in verdict.summary) == failed, verdict.summary
