"""What a culprit makes worse, and what it leaves as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import BLOCK_ID_BASE, Simulation, write_case
from whodisk.evidence.survey import survey_layer
from whodisk.evidence.worse import worse
from whodisk.reading.views import Case


@pytest.mark.parametrize("seed", range(4))
def test_without_what_held_some_the_largest_is_no_larger(tmp_path: Path, seed: int) -> None:
    path = Simulation(seed=seed, depth=4, seconds=0.4, typical_us=300.0).write(tmp_path / "case")
    with Case(path) as case:
        survey = survey_layer(case, "app")
        latency = np.sort(
            case.arrays("SELECT latency_ns FROM app_ops ORDER BY 1")["latency_ns"].astype(np.float64)
        )
        held = latency[-20:-1]
        found = worse(survey, ["read", "write"], held, np.full(len(held), 3e5), 1.0, keeps_rate=False)
        # The longest of all was not held.
        assert found["max"]["without"] == pytest.approx(found["max"]["with"], rel=0.1)
        assert all(pair["without"] <= pair["with"] for name, pair in found.items() if name != "throughput")
        whole = worse(survey, ["read", "write"], latency[-20:], np.full(20, 3e5), 1.0, keeps_rate=False)
        assert whole["max"]["without"] < whole["max"]["with"]


def test_a_thread_that_was_mostly_idle_wins_no_more_than_the_time_that_was_lost(tmp_path: Path) -> None:
    """100 reads of 1 ms, one each 10 ms, a tenth of which took 6 ms: without them 50 ms of a second are saved, not a third of it."""
    reads, ms = 100, 1_000_000
    latency = np.where(np.arange(reads) % 10 == 5, 6 * ms, ms)
    columns = {
        "op_id": BLOCK_ID_BASE | np.arange(reads),
        "start_ns": np.arange(reads) * 10 * ms,
        "latency_ns": latency,
        "op": "read",
        "device": "sda",
        "size_bytes": 4096,
        "device_ns": latency,
    }
    path = write_case(
        tmp_path / "case", block=columns, devices=("sda",), meta={"duration_ns": reads * 10 * ms}
    )
    with Case(path) as case:
        survey = survey_layer(case, "block")
        held = latency[latency > ms].astype(np.float64)
        found = worse(survey, ["read"], held, np.full(len(held), float(ms)), 1.0, keeps_rate=False)
        rates = found["throughput"]
        assert rates["without"] == pytest.approx(rates["with"] / 0.95, rel=0.01)
