"""A case that a flight recorder wrote explains first the operation that fired."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ground_truth.cases import TRUTHS
from whodisk.findings import Verdict
from whodisk.verdict.solve import solve


def solved(name: str, path: Path) -> Verdict:
    return solve(TRUTHS[name].build(3, path))


@pytest.mark.parametrize(
    "name", ["fired_on_one_of_many", "fired_among_few", "fired_on_what_nobody_waited_for"]
)
def test_what_fired_is_told_first(name: str, tmp_path: Path) -> None:
    verdict = solved(name, tmp_path / "case")
    assert (verdict.status, verdict.findings[0].answers) == ("outliers", "trigger")
    assert verdict.findings[0].basis == "measured"
    assert "the trigger was 'latency > " in verdict.findings[0].claim
    assert len(verdict.fired) == 1 and "nothing recorded explains it" in verdict.fired[0]
    assert "Nothing is broken" not in " ".join(verdict.summary)


def test_longer_operations_that_nobody_asked_for_come_after_it(tmp_path: Path) -> None:
    verdict = solved("fired_on_one_of_many", tmp_path / "case")
    first = verdict.findings[0]
    assert max(item.latency_ns for item in verdict.slowest) > 4_000_000
    assert first.culprit.name == "queue" and "2.17 ms" in first.claim


def test_what_fired_and_is_not_recorded_is_told_so(tmp_path: Path) -> None:
    case = TRUTHS["fired_on_one_of_many"].build(3, tmp_path / "case")
    meta = json.loads((case / "case.json").read_text(encoding="utf-8"))
    meta["fired"][0]["start_ns"] += 1_000_000
    (case / "case.json").write_text(json.dumps(meta), encoding="utf-8")
    verdict = solve(case)
    assert "It is not among the recorded operations" in verdict.fired[0]
    assert verdict.fired[0] in verdict.summary
