"""Columns that the files say are the same everywhere are not read, and verdicts do not differ by that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.synth import APP_ID_BASE, Simulation, ops_table, write_case
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import OP_COLUMNS, Case


def written(path: Path, **changes: object) -> Path:
    latency = np.arange(1000, 3000)
    given = {"size_bytes": 4096, "queue_depth": 3, "app_ns": 0, "fs_ns": latency, "tid": 7, "device": "sda"}
    app = {"op_id": APP_ID_BASE | np.arange(2000), "start_ns": np.arange(2000), "latency_ns": latency}
    return write_case(path, app={**app, **given, **changes})


def test_the_same_whole_number_in_every_row(tmp_path: Path) -> None:
    with Case(written(tmp_path / "case", queue_depth=[3] * 1999 + [None], cpu=np.arange(2000))) as case:
        found = case.constant_columns("app")
    assert found["size_bytes"] == 4096 and found["app_ns"] == 0 and found["device_ns"] is None
    # Nor texts and numbers with a fraction: their statistics may be cut, or rounded.
    assert found.keys().isdisjoint({"queue_depth", "cpu", "fs_ns", "op", "device", "weight", "open"})


def test_each_file_may_have_another(tmp_path: Path) -> None:
    path = written(tmp_path / "case")
    more = ops_table({"op_id": [1], "start_ns": [5], "latency_ns": [9], "size_bytes": [8192], "app_ns": [0]})
    pq.write_table(more, path / "ops/layer=app/part-1.parquet")
    with Case(path) as case:
        found = case.constant_columns("app")
    assert "size_bytes" not in found and "queue_depth" not in found and found["app_ns"] == 0


def test_what_is_judged_otherwise_is_not_constant(tmp_path: Path) -> None:
    with Case(written(tmp_path / "case", latency_ns=5000, app_ns=1000)) as case:
        assert case.constant_columns("app")["latency_ns"] == 5000
        case.count_from_submit()
        found = case.constant_columns("app")
    assert found.keys().isdisjoint({"start_ns", "latency_ns", "app_ns"}) and found["size_bytes"] == 4096


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_surveys_and_kept_rows_do_not_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weight: float
) -> None:
    simulation = Simulation(seed=3, depth=4, seconds=1.0, typical_us=300.0).tail("device", 0.01, 20)
    paths = [
        simulation.write(tmp_path / "simulated"),
        written(tmp_path / "plain", weight=[weight] * 1000 + [1.0] * 1000),
    ]
    columns = ", ".join(name for name in OP_COLUMNS if name not in ("host", "cgroup", "pid", "error"))

    def seen(path: Path) -> tuple[list[object], list[object]]:
        with Case(path) as case:
            case.keep("app", 2000)
            kept = case.rows(f"SELECT {columns} FROM kept_app ORDER BY op_id")
            survey = survey_layer(case, "app")
        strata = [{name: np.asarray(of).tolist() for name, of in vars(s).items()} for s in survey.strata]
        return [sorted(survey.stages_observed), *strata], [*kept]

    now = [seen(path) for path in paths]
    monkeypatch.setattr(Case, "constant_columns", lambda *_: {})
    assert now == [seen(path) for path in paths]
    assert all(strata and kept for strata, kept in now)
