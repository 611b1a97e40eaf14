"""Who is to blame for operations that only waited for their turn: what held those before them, not the stage in which they waited."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from ground_truth.cases import fixed_rate
from whodisk.detectors import neighbour
from whodisk.detectors.thresholds import NEIGHBOUR_BLOCKS
from whodisk.evidence.slow_operations import SlowSet, blame, empty_slow_set
from whodisk.reading.views import STAGES
from whodisk.statistics.stats import Floats, Ints
from whodisk.verdict.solve import solve

APP, DEVICE = STAGES.index("app"), STAGES.index("device")
USUAL_NS = 200_000


def waited_in_turn(due_ns: Ints, device_ns: Ints, free_ns: int) -> SlowSet:
    """Operations of a thread that has one in flight; it begins with the first of them at `free_ns`."""
    count = len(due_ns)
    end = np.zeros(count, np.int64)
    free = free_ns
    for number in range(count):
        free = max(free, int(due_ns[number])) + int(device_ns[number])
        end[number] = free
    stages = np.zeros((count, len(STAGES)))
    stages[:, DEVICE] = device_ns
    stages[:, APP] = end - due_ns - device_ns
    typical = np.zeros(len(STAGES))
    typical[DEVICE] = USUAL_NS
    ints, names = np.zeros(count, np.int64), np.full(count, "", object)
    return replace(
        empty_slow_set(),
        op_id=np.arange(count),
        start_ns=due_ns,
        latency_ns=end - due_ns,
        open=ints > 0,
        op=np.full(count, "read", object),
        device=names,
        comm=names,
        tid=ints + 7,
        weight=np.ones(count),
        family=ints,
        typical_ns=np.full(count, float(USUAL_NS)),
        stage_ns=stages,
        stage_excess_ns=stages - typical,
        flushed=ints > 0,
    )


def test_a_device_that_takes_longer_for_each_holds_all_that_wait() -> None:
    due = np.arange(1, 200) * 2_000_000
    slow = waited_in_turn(due, np.full(len(due), 6_000_000), 12_000_000)
    assert (np.argmax(slow.stage_excess_ns, axis=1) == APP).mean() > 0.9
    assert (blame(slow) == DEVICE).all()


def test_where_the_slots_stood_empty_the_program_holds_them() -> None:
    due = np.arange(1, 200) * 2_000_000
    slow = waited_in_turn(due, np.full(len(due), USUAL_NS), 400_000_000)
    assert (blame(slow) == APP).all()


def test_what_began_before_the_measured_time_may_hold_what_is_judged(tmp_path: Path) -> None:
    path = fixed_rate(3, tmp_path / "case", per_second=4000, stalls=[0.2], length_ms=150)
    meta = json.loads((path / "case.json").read_text(encoding="utf-8"))
    meta["phases"] = [{"name": "measure", "start_ns": 300_000_000, "end_ns": 2_500_000_000}]
    (path / "case.json").write_text(json.dumps(meta), encoding="utf-8")
    first = solve(path).findings[0]
    assert (first.culprit.kind, first.culprit.name) == ("stage", "device")


def near_guest(latency_ns: Floats, held_ns: Floats, start_ns: Ints) -> neighbour.Near:
    block = np.minimum(NEIGHBOUR_BLOCKS - 1, start_ns * NEIGHBOUR_BLOCKS // (int(start_ns.max()) + 1))
    operations = neighbour.Operations(start_ns, latency_ns, held_ns, np.zeros(len(start_ns), np.int64), block)
    found = neighbour._near(operations, "guest", start_ns[::10] - 50_000, 100_000.0)
    assert found is not None
    return found


def test_a_guest_does_not_hold_what_its_program_leaves() -> None:
    """Operations near the guest take 1.5 times as long; a few of them were left for 5 ms by their program."""
    start = np.arange(20_000) * 1_000_000
    held = np.full(len(start), 100_000.0)
    held[::10] *= 1.5
    taken = np.zeros(len(start))
    taken[::400] = 5_000_000.0
    found = near_guest(held + taken, held, start)
    assert found.share < 0.05 and found.low > 0
    assert found.mean_p < 1e-6
