"""Operations that are due at times of their own, played again without what some lost."""

from __future__ import annotations

import heapq
from pathlib import Path

import numpy as np
import pytest

from ground_truth.cases import fixed_rate
from tests.synth import APP_ID_BASE, Simulation, write_case
from tests.unit.test_costs import context_of
from whodisk.detectors.submitter_gap import late_for
from whodisk.evidence.context import Context
from whodisk.evidence.replay import Replay, replayed, replayed_without_stops
from whodisk.evidence.slow_operations import empty_slow_set
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.time_lost import lost_per_episode, p99_ratio
from whodisk.reading.views import Case

#: What requests lost that were at the device during a stall: the stall is all that takes so long.
STALLED_SQL = "SELECT op_id, device_ns AS lost_ns FROM measured WHERE layer = 'block' AND device_ns > 5000000"
NOTHING_SQL = "WITH each AS (SELECT 0 AS op_id, 0 AS lost_ns WHERE false)"


#: What a sync that takes long lost.
SLOW_SYNC_NS = 5_000_000
SYNCS_SQL = f"SELECT op_id, {SLOW_SYNC_NS} AS lost_ns FROM measured WHERE layer = 'app' AND op = 'sync' AND latency_ns > {SLOW_SYNC_NS}"


def syncing(path: Path, *, slow_every: int = 0, per_second: int = 2000, count: int = 6000) -> Path:
    """One worker at a fixed rate with 16 slots of 200 us, that makes a sync of 300 us alone after every fourth write, of which every so many take 5 ms longer."""
    slots, read_ns = 16, 200_000
    busy: list[int] = []
    last_end = synced = 0
    rows: list[tuple[str, int, int, int]] = []
    for number in range(count):
        due = int(number * 1e9 / per_second)
        begin = max(due, synced)
        if len(busy) >= slots:
            begin = max(begin, heapq.heappop(busy))
        heapq.heappush(busy, begin + read_ns)
        last_end = max(last_end, begin + read_ns)
        rows.append(("write", due, begin, begin + read_ns))
        if number % 4 == 3:
            slow = slow_every and number // 4 % slow_every == slow_every - 1
            synced = last_end + 300_000 + (SLOW_SYNC_NS if slow else 0)
            rows.append(("sync", last_end, last_end, synced))
            last_end = synced
            busy.clear()
    op, due_ns, begin_ns, end_ns = zip(*rows, strict=True)
    due_of, begin_of, end_of = (np.array(times) for times in (due_ns, begin_ns, end_ns))
    app = {
        "op_id": APP_ID_BASE | np.arange(len(rows)),
        "op": list(op),
        "start_ns": due_of,
        "latency_ns": end_of - due_of,
        "device": "nvme0n1",
        "size_bytes": np.where(np.array(op) == "sync", 0, 4096),
        "queue_depth": 1,
        "tid": 4300,
        "comm": "worker-0",
        "app_ns": begin_of - due_of,
        "device_ns": end_of - begin_of,
    }
    spec = {"queue_depth": slots, "workers": 1, "rate_per_s": per_second, "sync_every_writes": 4}
    meta = {"duration_ns": int(end_of.max()), "workload": {"spec": spec}}
    return write_case(path, app=app, meta=meta)


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


def test_what_is_due_during_a_sync_waits_for_it(tmp_path: Path) -> None:
    """A worker that has nothing else in flight beside a sync begins nothing before it ends, however many slots it has."""
    slowed = syncing(tmp_path / "slowed", slow_every=20)
    late, usual = latencies(slowed), latencies(syncing(tmp_path / "quiet"))
    with Case(slowed) as case:
        surveys = {"app": survey_layer(case, "app")}
        context = Context(case, surveys, "app", empty_slow_set(), np.zeros(0, np.bool_))
        lost = lost_per_episode(context, SYNCS_SQL)
        worse = p99_ratio(context, SYNCS_SQL)
        [row] = case.rows(f"SELECT sum(lost_ns) AS lost_ns FROM ({SYNCS_SQL})")
    truth = late.sum() - usual.sum()
    assert lost.sum() == pytest.approx(truth, rel=0.01)
    assert float(row["lost_ns"] or 0) < 0.3 * truth
    assert worse == pytest.approx(np.quantile(late, 0.99) / np.quantile(usual, 0.99), rel=0.05)


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


def test_a_backlog_that_lasts_is_many_events_and_not_one() -> None:
    """Thirty operations that overlap each other all the time, behind three events: each lost what it did to the last one before its end."""
    start_ns = np.arange(30) * 1_000
    latency_ns = np.full(30, 5_000)
    replay = Replay(start_ns, latency_ns, np.repeat([100.0, 0.0, 300.0], 10))
    assert len(replay.lost_per_episode_ns) <= 2
    begin_ns = np.array([500, 12_500, 22_500])
    behind = replay.lost_per_event_ns(begin_ns)
    assert behind.sum() == replay.lost_ns.sum()
    assert list(behind) == [800.0, 200.0, 3000.0]


def test_what_was_late_because_of_stops_is_their_consequence() -> None:
    """Half of an operation's time or more, by replay: the stage in which it waited for its turn is not another cause."""
    replay = Replay(np.array([0, 10, 20]), np.array([100, 100, 100]), np.array([80.0, 49.0, 50.0]))
    slow = empty_slow_set()
    slow.start_ns, slow.latency_ns = np.array([0, 10, 20, 30]), np.full(4, 100)
    assert late_for(slow, replay).tolist() == [True, False, True, False]
