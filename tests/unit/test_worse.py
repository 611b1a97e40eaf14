"""What a culprit makes worse, and what it leaves as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import Simulation
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
