"""A query that several detectors ask runs once, and each has an answer of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synth import Simulation
from whodisk.reading import views
from whodisk.reading.views import Case

COUNTED = "SELECT layer, count(*) AS n FROM judged GROUP BY 1 ORDER BY 1"
TAKEN = "SELECT op_id, latency_ns FROM app_ops ORDER BY 1"
SLOWEST = "SELECT max(latency_ns) AS ns FROM judged WHERE layer = 'app'"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every query that reached DuckDB."""
    texts: list[str] = []
    run = Case._run

    def noted(case: Case, sql: str) -> object:
        texts.append(sql)
        return run(case, sql)

    monkeypatch.setattr(Case, "_run", noted)
    return texts


def written(path: Path, operations: int = 200) -> Path:
    return Simulation(seed=1, depth=2, seconds=operations / 20_000).write(path)


def test_the_same_rows_are_read_once_and_may_be_changed(tmp_path: Path, ran: list[str]) -> None:
    with Case(written(tmp_path / "case")) as case:
        ran.clear()
        first = case.rows(COUNTED)
        whole = [dict(row) for row in first]
        first[0]["n"] = -1
        first.pop()
        assert case.rows(COUNTED) == whole and case.known(case.expand(COUNTED)) == whole
        assert len(ran) == 1


def test_the_same_columns_are_read_once_and_may_be_changed(tmp_path: Path, ran: list[str]) -> None:
    with Case(written(tmp_path / "case")) as case:
        ran.clear()
        first = case.arrays(TAKEN)
        whole = {name: values.copy() for name, values in first.items()}
        first["latency_ns"] *= 0
        again = case.arrays(TAKEN)
        assert len(ran) == 1 and again.keys() == whole.keys()
        for name, values in again.items():
            assert values.dtype == whole[name].dtype and np.array_equal(values, whole[name])


def test_long_answers_are_not_kept(tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "KEPT_VALUES_MAX", 10)
    with Case(written(tmp_path / "case")) as case:
        ran.clear()
        assert case.arrays(TAKEN)["op_id"].size > 10
        case.arrays(TAKEN)
        case.rows(TAKEN)
        case.rows(TAKEN)
        assert len(ran) == 4


def test_what_is_judged_otherwise_is_asked_anew(tmp_path: Path) -> None:
    case_dir = Simulation(seed=1, depth=2, seconds=0.05).stall("app", [0.01], 5.0).write(tmp_path / "case")
    with Case(case_dir) as case:
        due = case.rows(SLOWEST), case.arrays(SLOWEST)["ns"]
        case.count_from_submit()
        submitted = case.rows(SLOWEST), case.arrays(SLOWEST)["ns"]
    assert submitted[0] != due[0] and submitted[1] != due[1]


def test_a_table_that_is_made_anew_is_read_anew(tmp_path: Path) -> None:
    with Case(written(tmp_path / "case")) as case:
        for number in (1, 2):
            case.make_table("chosen", f"SELECT {number} AS n")
            assert case.rows("SELECT n FROM chosen") == [{"n": number}]
            assert case.arrays("SELECT n FROM chosen")["n"].tolist() == [number]
