"""What is read off the record needs no test, and one window of it is one event."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np

from ground_truth import held
from tests.synth import APP_ID_BASE, SYSCALL_ID_BASE, write_case
from whodisk.evidence.context import Context
from whodisk.evidence.time_lost import kept_ns, weigh
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve


def test_one_window_is_one_event_however_it_is_cut(tmp_path: Path) -> None:
    """Before: 15 episodes, q = 3e-5."""
    verdict = solve(held.one_window(1, tmp_path / "case"))
    [finding] = [f for f in verdict.findings if f.detector == "throttle"]
    assert finding.basis == "measured" and finding.q_value is None
    assert finding.episodes == 1
    assert "one event, within this run" in finding.claim


def test_windows_are_counted_not_blocks() -> None:
    whole, each = np.full(200, 10.0), np.full(200, np.nan)
    lost = np.zeros(200)
    lost[20:35] = 9.0
    one = weigh(lost, whole, 15, each, 200_000)
    assert one is not None and one.windows == 1 and one.windows_ns == 15_000
    assert one.said.endswith("one event, within this run.")
    lost[[60, 90, 91, 150]] = 9.0
    more = weigh(lost, whole, 19, each, 200_000)
    assert more is not None and more.windows == 4 and not more.said
    assert more.low < more.share < more.high
    always = weigh(whole / 2, whole, 200, each, 200_000)
    assert always is not None and always.share == 0.5 and not always.said
    assert weigh(np.zeros(200), whole, 0, each, 200_000) is None


def test_a_neighbour_that_is_stopped_holds_nobody_up(tmp_path: Path) -> None:
    """Of a recorded command only its own processes count: they made calls."""
    ops = {
        "start_ns": [0, 1_000_000],
        "latency_ns": [100_000, 100_000],
        "tid": [11, 11],
        "pid": [10, 10],
        "comm": ["mine", "mine"],
    }
    stop = {"start_ns": 0, "duration_ns": 2_000_000, "state": "stopped"}
    for pid, kept in ((10, 100_000.0), (20, 0.0)):
        path = write_case(
            tmp_path / str(pid),
            app={**ops, "op_id": APP_ID_BASE | np.arange(2)},
            syscall={**ops, "op_id": SYSCALL_ID_BASE | np.arange(2)},
            tables={"waits": [{**stop, "pid": pid, "tid": pid}]},
            meta={"command": ["mine"]},
        )
        with Case(path) as case:
            slow = SimpleNamespace(start_ns=np.array([0, 1_000_000]), end_ns=np.array([100_000, 1_100_000]))
            context = cast(Context, SimpleNamespace(case=case, slow=slow))
            assert kept_ns(context, "stopped").tolist() == [kept, kept]
