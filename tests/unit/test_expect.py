"""Expectations: what is understood, what is refused, and with which words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.synth import Simulation
from whodisk.errors import ExpectationError
from whodisk.evidence.expectations import parse
from whodisk.verdict.solve import solve


@pytest.mark.parametrize(
    ("text", "op", "metric", "sign", "bound"),
    [
        ("p99<5ms", None, "p99", "<", 5e6),
        ("read p99.9 < 2 ms", "read", "p99.9", "<", 2e6),
        ("max <= 20ms", None, "max", "<=", 2e7),
        ("iops>10000", None, "iops", ">", 1e4),
        ("bandwidth>=500MiB/s", None, "bandwidth", ">=", 500 * 2**20),
        ("write mean<150us", "write", "mean", "<", 150e3),
    ],
)
def test_understood(text: str, op: str | None, metric: str, sign: str, bound: float) -> None:
    limit = parse(text)
    assert (limit.op, limit.metric, limit.sign, limit.bound) == (op, metric, sign, bound)


@pytest.mark.parametrize(
    "text", ["", "p99", "p99<5", "p101<5ms", "erase p99<5ms", "iops>5ms", "bandwidth>5ms", "p0<1s"]
)
def test_refused_in_words(text: str) -> None:
    with pytest.raises(ExpectationError, match="expected"):
        parse(text)


@given(st.text(max_size=30))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        parse(text)
    except ExpectationError as error:
        assert "expected" in str(error)


def test_verdict_says_met_or_not(tmp_path: Path) -> None:
    case = Simulation(seconds=1.0, depth=4, typical_us=300).write(tmp_path / "case")
    verdict = solve(case, expect=["p50<1ms", "p99<100us", "iops>1", "bandwidth>1KiB/s", "max<1s"])
    assert [e.met for e in verdict.expectations] == [True, False, True, True, True]
    assert verdict.check_failed
    assert verdict.status == "slow"
    assert verdict.findings[0].culprit.name == "device"
    assert "'p99<100us'" in verdict.findings[0].baseline
    assert not solve(case, expect=["p50<1ms"]).check_failed


def test_too_few_operations_for_a_percentile_are_refused(tmp_path: Path) -> None:
    case = Simulation(seconds=1.0, depth=4, typical_us=300).write(tmp_path / "case")
    verdict = solve(case, expect=["p99.999<1s", "write p50<1s"])
    assert [e.met for e in verdict.expectations] == [None, None]
    assert "needs 300,000 operations" in verdict.expectations[0].sentence
    assert "no writes" in verdict.expectations[1].sentence
    assert verdict.check_failed
    assert verdict.status != "slow"
