"""What waiting behind slow operations costs, beside the same run without them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ground_truth.cases import fixed_rate
from tests.synth import Simulation
from whodisk.evidence.backlog import waits_behind
from whodisk.evidence.slow_operations import find_slow
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve


def total_latency_ns(path: Path) -> float:
    with Case(path) as case:
        return survey_layer(case, "app").latency_ns


@pytest.mark.parametrize(
    ("per_second", "length_ms", "stalls"),
    [(4000, 150, 2), (12_000, 60, 7), pytest.param(50_000, 25, 5, marks=pytest.mark.slow)],
)
def test_the_effect_is_what_the_same_run_without_the_stalls_saves(
    per_second: int, length_ms: int, stalls: int, tmp_path: Path
) -> None:
    """From a third of the rate that the slots allow to nearly all of it: the closer, the longer the backlog."""
    moments = 0.2 + 2.6 * (np.arange(stalls) + 0.5) / stalls
    stalled = fixed_rate(
        3, tmp_path / "stalled", per_second=per_second, stalls=list(moments), length_ms=length_ms
    )
    quiet = fixed_rate(3, tmp_path / "quiet", per_second=per_second)
    truth = 1 - total_latency_ns(quiet) / total_latency_ns(stalled)
    finding = solve(stalled).findings[0]
    effect = finding.effect
    assert finding.culprit.name == "device" and effect.metric == "part of all latency"
    assert effect.low is not None and effect.high is not None
    assert effect.low <= truth <= effect.high
    assert effect.value == pytest.approx(truth, abs=0.02)


def test_where_nothing_is_due_nobody_waits_behind(tmp_path: Path) -> None:
    """A closed loop: the next operation is submitted when one has ended."""
    path = (
        Simulation(seed=4, depth=4, seconds=1.0)
        .stall("device", [0.2, 0.4, 0.7], 20.0)
        .write(tmp_path / "closed")
    )
    with Case(path) as case:
        survey = survey_layer(case, "app")
        slow = find_slow(case, survey)
        found = waits_behind(case, survey, slow)
    assert len(slow) and not found.excess_ns.any()
    assert (found.until_ns == slow.end_ns).all()


def test_where_nothing_stands_out_of_the_waits_of_all_they_are_left_out(tmp_path: Path) -> None:
    """The rate is kept, but nearly all operations wait for their turn, for longer than the slow ones take."""
    verdict = solve(
        fixed_rate(3, tmp_path / "late", per_second=12_400, depth=4, seconds=2.0, slow_part=1 / 80)
    )
    assert any("gets all that it asks for, but late" in line for line in verdict.minor)
    assert (verdict.status, verdict.findings[0].culprit.name) == ("slow", "device")
    # Without slow ones hardly anybody waits.
    quiet = solve(fixed_rate(3, tmp_path / "quiet", per_second=12_400, depth=4, seconds=2.0))
    assert (quiet.findings, any("but late" in line for line in quiet.minor)) == ([], False)
    # Where they do, and nothing is slow, it is a limit, and nobody's fault.
    limit = solve(fixed_rate(3, tmp_path / "limit", per_second=15_400, depth=4, seconds=2.0))
    assert (limit.findings, limit.status) == ([], "limited")


def test_who_waited_for_its_turn_is_not_told_as_the_programs_own_time(tmp_path: Path) -> None:
    """The only slot is taken for 30 ms before anything is judged: what waited for it lost its time where that one was held."""
    held = fixed_rate(
        5, tmp_path / "held", per_second=3_000, depth=1, seconds=1.0, stalls=[0.2995], length_ms=30
    )
    path = held / "case.json"
    meta = json.loads(path.read_text())
    meta["phases"] = [
        {"name": "ramp", "start_ns": 0, "end_ns": 300_000_000},
        {"name": "measure", "start_ns": 300_000_000, "end_ns": 1_000_000_000},
    ]
    path.write_text(json.dumps(meta))
    found = [finding.culprit.name for finding in solve(held).findings]
    assert found
    assert "app" not in found
    assert "device" in found[0]


def test_of_two_causes_the_one_without_which_the_backlog_goes_comes_first(tmp_path: Path) -> None:
    """Slow ones are a fifth of all latency, a little more than stops; but what is due is late by a stop's length, not by slow ones."""
    stops = [0.3 + 0.9 * n for n in range(5)]
    case = fixed_rate(
        3,
        tmp_path / "two",
        per_second=11_700,
        depth=4,
        seconds=5.0,
        stops=stops,
        length_ms=180.0,
        slow_part=1 / 70,
    )
    culprits = [finding.culprit.kind for finding in solve(case).findings]
    assert culprits[:2] == ["process", "stage"]
