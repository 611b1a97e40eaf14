"""What stops of a submitter cost: the time that operations, done below, waited to be taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import APP_ID_BASE, write_case
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import empty_slow_set
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.thread_stops import find_stops
from whodisk.reading.views import Case

US, MS = 1_000, 1_000_000
TID = 4300
#: A program that comes and goes makes requests slow for as long at the begin of each period, and the thread is stopped when it begins.
PERIOD_NS, SLOW_NS, STOP_NS = 10 * MS, 4 * MS, 2 * MS


def together(path: Path, reap: bool) -> Path:
    """A thread with four operations in flight is stopped each time when another program begins to make its requests five times as long."""
    rng = np.random.default_rng(5)
    stops = np.arange(1, 101) * PERIOD_NS
    begins, done, taken = [], [], []
    for slot in range(4):
        now = slot * 20 * US
        while now < 101 * PERIOD_NS:
            slow = now >= PERIOD_NS and now % PERIOD_NS < SLOW_NS
            complete = now + int((500 if slow else 100) * US * rng.uniform(0.9, 1.1))
            stop = int(complete // PERIOD_NS) * PERIOD_NS
            end = stop + STOP_NS if stop >= PERIOD_NS and complete < stop + STOP_NS else complete
            begins.append(now)
            done.append(complete)
            taken.append(end)
            now = end
    begin, complete_at, end_at = (np.array(times) for times in (begins, done, taken))
    app = {
        "op_id": APP_ID_BASE | np.arange(len(begin)),
        "start_ns": begin,
        "latency_ns": end_at - begin,
        "device": "nvme0n1",
        "size_bytes": 4096,
        "queue_depth": 4,
        "tid": TID,
        "pid": TID,
        "comm": "worker-0",
        "app_ns": 0,
        "device_ns": (complete_at if reap else end_at) - begin,
    }
    if reap:
        app["reap_ns"] = end_at - complete_at
    stopped = {"tid": TID, "pid": TID, "comm": "worker-0", "cpu": 0, "cause": "do_signal_stop"}
    waits = [{**stopped, "start_ns": int(at), "duration_ns": STOP_NS, "state": "stopped"} for at in stops]
    meta = {"duration_ns": 101 * PERIOD_NS, "workload": {"spec": {"queue_depth": 4, "workers": 1}}}
    return write_case(path, app=app, tables={"waits": waits}, meta=meta)


def p99_without(path: Path) -> tuple[float, float]:
    with Case(path) as case:
        surveys = {"app": survey_layer(case, "app")}
        stops = find_stops(Context(case, surveys, "app", empty_slow_set(), np.zeros(0, np.bool_)))
    assert stops is not None
    return stops.p99_ns, stops.p99_without_ns


def test_a_stop_costs_what_was_not_taken_meanwhile(tmp_path: Path) -> None:
    """Operations that no stop touched are those between which the other program rests: they do not show what would be without stops."""
    whole, without = p99_without(together(tmp_path / "case", reap=True))
    assert whole == pytest.approx(STOP_NS, rel=0.1)
    # What the other program makes of them, with or without stops.
    assert without == pytest.approx(540 * US, rel=0.05)


def test_where_that_is_not_known_the_others_are_compared(tmp_path: Path) -> None:
    whole, without = p99_without(together(tmp_path / "case", reap=False))
    assert whole == pytest.approx(STOP_NS, rel=0.1)
    assert without < 0.5 * 540 * US
