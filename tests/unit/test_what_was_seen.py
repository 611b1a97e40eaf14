"""Verdicts that were once wrong on programs that nobody here wrote: what docs/why/decisions/0147 lists, and those of its tests that have no other place."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from ground_truth import flushes, members
from ground_truth.cases import TRUTHS
from tests.accuracy.nulls import TESTS
from whodisk.detectors import shared_vector
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

ROOT = Path(__file__).resolve().parents[2]
NOTE = ROOT / "docs/why/decisions/0147-every-wrong-verdict-is-a-test.md"


def test_every_row_has_a_test_that_is_there() -> None:
    rows = [line for line in NOTE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 21
    for row in rows:
        named = re.findall(r"`(case|null|test):([\w./]+?)(?:::(\w+))?`", row)
        assert named, row
        for kind, name, test in named:
            if kind == "test":
                assert f"def {test}(" in (ROOT / name).read_text(encoding="utf-8"), f"{name}::{test}"
            else:
                assert name in (TRUTHS if kind == "case" else TESTS), name


def test_operations_beyond_an_expectation_are_explained(tmp_path: Path) -> None:
    verdict = solve(TRUTHS["once_in_the_queue"].build(5, tmp_path / "case"), expect=["max<5ms"])
    assert verdict.status == "slow"
    (finding,) = verdict.findings
    assert (finding.culprit.kind, finding.culprit.name, finding.answers) == ("stage", "queue", "expectation")
    assert "device:nvme0n1" in [item.what for item in verdict.cleared]
    # A device is cleared by its own time, which was ordinary.
    (device,) = (item for item in verdict.cleared if item.what == "device:nvme0n1")
    assert re.search(r"none of [\d,]+ requests spent over \d+ us in it", device.bound), device.bound


def test_who_waits_behind_a_flush_is_not_held_by_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = flushes.commits_behind_flushes(4, tmp_path / "case")
    assert solve(case).findings[0].culprit.name == "device"
    there = Case._carriers
    monkeypatch.setattr(Case, "_carriers", lambda opened: (there(opened)[0], False))
    # What the mend is for: not followed, the same wait is the queue's.
    assert solve(case).findings[0].culprit.name == "queue"


def test_what_files_wait_for_is_told(tmp_path: Path) -> None:
    verdict = solve(flushes.files_behind_a_commit(4, tmp_path / "case"))
    claim = verdict.findings[0].claim
    assert "slept in wait_current_trans" in claim and "sda had 7." in claim


def test_requests_without_a_program_compete_with_nobody(tmp_path: Path) -> None:
    verdict = solve(flushes.pausing_writes(4, tmp_path / "case"))
    assert {finding.culprit.kind for finding in verdict.findings} == {"stage"}


# -- what stood in the code ----------------------------------------------------------------------


def test_no_decision_reads_a_sentence() -> None:
    for stratum in ("evidence", "machine", "detectors", "verdict"):
        for path in (ROOT / "python/whodisk" / stratum).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
                    looked_for = node.left
                    words = isinstance(looked_for, ast.Constant) and " " in str(looked_for.value)
                    assert not words, f"{path.name}, line {node.lineno}"


def test_what_part_a_culprit_has_is_measured() -> None:
    for path in (ROOT / "python/whodisk/detectors").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg in ("share_of_excess", "share_of_latency"):
                assert not isinstance(node.value, ast.Constant), f"{path.name}, line {node.value.lineno}"


def test_a_handler_has_its_part_of_what_waits_for_handlers() -> None:
    def load(device: str, cpu: int, foreign_ns: float) -> shared_vector.Load:
        return shared_vector.Load(device, 40, cpu, 0, 1000, 2 * foreign_ns, foreign_ns)

    loads = [load("nvme0n1", 0, 6e6), load("nvme1n1", 1, 2e6)]
    cost = shared_vector.Cost(4e6, 1.0, {}, frozenset({0}), 0.0, 1)
    assert shared_vector._of_all_waits(cost, loads) == 0.5


def test_two_slow_hosts_share_what_slow_hosts_lost(tmp_path: Path) -> None:
    fleet = members.Fleet(3, hosts=14)
    half = fleet.latency.shape[0] // 2
    fleet.latency[half:, 4] += np.log(1.8)
    fleet.latency[half:, 9] += np.log(1.4)
    found = {f.culprit.name: f.share_of_excess for f in solve(fleet.write(tmp_path / "case")).findings}
    assert sum(found.values()) == pytest.approx(1.0)
    assert 0.6 < found["host4"] < 0.8
