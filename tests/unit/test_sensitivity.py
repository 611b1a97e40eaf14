"""The sensitivity table tries what a solver can have read, keeps what it has, and counts what changed."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ground_truth.cases import TRUTHS
from tests.accuracy import sensitivity
from whodisk.detectors import base, thresholds

CASE = "one_slow_drive"


def fake_solve(_path: Path) -> SimpleNamespace:
    """Reads one threshold, by way of a function that mentions it."""
    slow = base.large_by_loss(0.04, None)
    truth = TRUTHS[CASE]
    culprit = SimpleNamespace(kind=truth.kind, name=truth.name, because_of=truth.because_of)
    return SimpleNamespace(
        status=truth.status if not slow else "healthy",
        findings=[] if slow else [SimpleNamespace(culprit=culprit)],
    )


def test_what_can_have_been_read_is_tried_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[float] = []

    def counted(path: Path) -> SimpleNamespace:
        solved.append(thresholds.SHARE_OF_LATENCY_MIN)
        return fake_solve(path)

    monkeypatch.setattr(sensitivity, "solve", counted)
    kept = sensitivity.Kept(tmp_path / "kept.jsonl")
    names = ["SHARE_OF_LATENCY_MIN", "Q_VALUE_MAX"]
    sensitivity.as_it_is(CASE, tmp_path, kept)
    assert sensitivity.chosen(names, kept, 0) == {CASE: ["SHARE_OF_LATENCY_MIN"]}
    sensitivity.try_case(CASE, tmp_path, names[:1], kept, time.monotonic() + 60)
    assert "SHARE_OF_LATENCY_MIN" in kept.read[CASE] and "Q_VALUE_MAX" not in kept.read[CASE]
    assert solved == [0.05, 0.025, 0.1]
    again = sensitivity.Kept(tmp_path / "kept.jsonl")
    sensitivity.try_case(CASE, tmp_path, names[:1], again, time.monotonic() + 60)
    assert len(solved) == 3 and again.verdicts == kept.verdicts
    (row,) = [line for line in sensitivity.document(again).splitlines() if line.startswith("| `")]
    # At half of it 4 % are enough: another verdict, and a wrong one.
    assert row.split("|")[5:9] == [" 1 of 1 ", " 1 ", " 0 of 1 ", " 0 "]
    assert CASE in row


def test_nothing_more_is_tried_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitivity, "solve", fake_solve)
    kept = sensitivity.Kept(tmp_path / "kept.jsonl")
    sensitivity.as_it_is(CASE, tmp_path, kept)
    sensitivity.try_case(CASE, tmp_path, ["SHARE_OF_LATENCY_MIN"], kept, 0.0)
    assert list(kept.verdicts) == [(CASE, "", 1.0)]


def test_of_many_cases_some_are_drawn_for_each_threshold(tmp_path: Path) -> None:
    kept = sensitivity.Kept(tmp_path / "kept.jsonl")
    cases = [f"case {number}" for number in range(10)]
    for case in cases:
        kept.put(case, "", 1.0, ["healthy"], read=["A", "B"] if case != "case 3" else ["B"])
    tried = sensitivity.chosen(["A", "B"], kept, 4)
    by_threshold = {name: {case for case, names in tried.items() if name in names} for name in "AB"}
    assert [len(by_threshold[name]) for name in "AB"] == [4, 4]
    assert "case 3" not in by_threshold["A"] and by_threshold["A"] != by_threshold["B"]
    assert sensitivity.chosen(["A", "B"], kept, 4) == tried
