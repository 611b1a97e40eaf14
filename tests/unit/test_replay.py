"""Operations that are due at times of their own, played again without what some lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground_truth.cases import fixed_rate
from tests.synth import Simulation
from tests.unit.test_costs import context_of
from whodisk.evidence.replay import replayed, replayed_without_stops
from whodisk.evidence.time_lost import lost_per_episode, p99_ratio
from whodisk.reading.views import Case

#: What requests lost that were at the device during a stall: the stall is all that takes so long.
STALLED_SQL = "SELECT op_id, device_ns AS lost_ns FROM measured WHERE layer = 'block' AND device_ns > 5000000"
NOTHING_SQL = "WITH each AS (SELECT 0 AS op_id, 0 AS lost_ns WHERE false)"


def latencies(path: Path) -> np.ndarray:
    with Case(path) as case:
        return case.arrays("SELECT latency_ns FROM app_ops")["latency_ns"].astype(np.float64)


@pytest.mark.parametrize(
    ("per_second", "length_ms", "stalls"),
    [(12_000, 60, 7), pytest.param(50_000, 25, 5, marks=pytest.mark.slow)],
)
def test_what_waited_behind_was_lost_too(
    per_second: int, length_ms: int, stalls: int, tmp_path: Path
) -> None:
    moments = list(0.2 + 2.6 * (np.arange(stalls) + 0.5) / stalls)
    stalled = fixed_rate(3, tmp_path / "stalled", per_second=per_second, stalls=moments, length_ms=length_ms)
    quiet = fixed_rate(3, tmp_path / "quiet", per_second=per_second)
    late, usual = latencies(stalled), latencies(quiet)
    with Case(stalled) as case:
        context = context_of(case)
        lost = lost_per_episode(context, STALLED_SQL)
        worse = p99_ratio(context, STALLED_SQL)
        themselves = case.arrays(STALLED_SQL)["lost_ns"].astype(np.float64).sum()
    truth = late.sum() - usual.sum() * len(late) / len(usual)
    assert lost.sum() == pytest.approx(truth, rel=0.05)
    assert themselves < 0.7 * truth
    assert worse == pytest.approx(np.quantile(late, 0.99) / np.quantile(usual, 0.99), rel=0.2)


@pytest.mark.parametrize(
    ("per_second", "length_ms", "stops"),
    [(12_000, 60, 7), pytest.param(50_000, 25, 5, marks=pytest.mark.slow)],
)
def test_what_is_due_while_a_thread_is_stopped_waits_for_it(
    per_second: int, length_ms: int, stops: int, tmp_path: Path
) -> None:
    moments = list(0.2 + 2.6 * (np.arange(stops) + 0.5) / stops)
    stopped = fixed_rate(3, tmp_path / "stopped", per_second=per_second, stops=moments, length_ms=length_ms)
    quiet = fixed_rate(3, tmp_path / "quiet", per_second=per_second)
    late, usual = latencies(stopped), latencies(quiet)
    begin_ns = (np.array(moments) * 1e9).astype(np.int64)
    length_ns = np.full(stops, length_ms * 1_000_000)
    with Case(stopped) as case:
        replay = replayed_without_stops(context_of(case), np.full(stops, 4300), begin_ns, length_ns)
        others = replayed_without_stops(context_of(case), np.full(stops, 4301), begin_ns, length_ns)
    assert replay is not None and others is not None
    assert replay.lost_ns.sum() == pytest.approx(late.sum() - usual.sum(), rel=0.05)
    assert replay.p99_ns / replay.p99_without_ns == pytest.approx(
        np.quantile(late, 0.99) / np.quantile(usual, 0.99), rel=0.2
    )
    # Stops of a thread without operations cost nothing.
    assert not others.lost_ns.any()


def test_a_closed_loop_is_not_played_again(tmp_path: Path) -> None:
    """The next operation is submitted when one has ended: nobody is due, and nobody waits."""
    path = Simulation(seed=4, depth=4, seconds=0.5).stall("device", [0.2], 20.0).write(tmp_path / "closed")
    with Case(path) as case:
        assert replayed(context_of(case), NOTHING_SQL) is None


def test_without_a_loss_nothing_changes(tmp_path: Path) -> None:
    path = fixed_rate(3, tmp_path / "stalled", per_second=12_000, stalls=[0.5, 1.5], length_ms=40)
    with Case(path) as case:
        replay = replayed(context_of(case), NOTHING_SQL)
    assert replay is not None and len(replay.lost_ns) and not replay.lost_ns.any()
