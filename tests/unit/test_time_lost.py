"""What is read off the record needs no test, and one window of it is one event."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ground_truth import held
from whodisk.evidence.time_lost import weigh
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
