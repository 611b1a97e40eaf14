"""Counting how often the solver is right."""

from __future__ import annotations

import json
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from ground_truth.cases import TRUTHS
from whodisk.cli.app import application
from whodisk.errors import WhodiskError
from whodisk.scoring import score as scoring
from whodisk.scoring.aliases import ALIASES, named_by
from whodisk.scoring.score import Named, Outcome, same, score_all, to_dict, total
from whodisk.scoring.table import markdown

DEVICE = {"kind": "stage", "name": "device", "because_of": "device:nvme0n1"}


def case(folder: Path, build: str, truth: dict[str, Any]) -> Path:
    path = TRUTHS[build].build(1, folder)
    (path / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    return path


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    fault = {
        "kind": "stall",
        "target": "nvme0n1",
        "magnitude": 100,
        "culprit": DEVICE,
        "effect": {"p99_ratio": 3.0},
    }
    case(
        tmp_path / "a",
        "device_stall",
        {"scenario": "stall", "culprit": DEVICE, "faults": [fault], "healthy": False},
    )
    case(
        tmp_path / "b", "depth_limited", {"scenario": "none", "culprit": None, "faults": [], "healthy": True}
    )
    return tmp_path


def test_a_directory_is_scored_and_remembered(
    cases: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = score_all(cases, 1, lambda _done, _all: None)
    counted = to_dict(total(outcomes))
    assert (counted["top1"], counted["faulty"], counted["healthy"], counted["false_alarms"]) == (1, 1, 1, 0)
    assert counted["detection"] == [{"fault": "stall", "effect_from": 2.0, "found_first": 1, "cases": 1}]
    assert counted["false_alarm_bound_95"] == pytest.approx(0.95)
    text = markdown(outcomes)
    assert "## Simulated cases" in text
    assert "## Real cases" not in text
    assert "| stall | 2 to 5 | 1 | 1 |" in text

    def never(_case: Path) -> Outcome:
        raise AssertionError("a case was solved again")

    monkeypatch.setattr(scoring, "score_case", never)
    assert len(score_all(cases, 1, lambda _done, _all: None)) == 2
    assert application(["score", str(cases), "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["simulated"]["top1"] == 1
    assert application(["score", str(cases), "--jobs", "1", "--allow-false-alarms", "0.01"]) == 1


def test_what_cannot_be_solved_is_counted(cases: Path) -> None:
    (cases / "b/truth.json").write_text("{", encoding="utf-8")
    (cases / "a/ops/layer=app/part-0.parquet").write_bytes(b"nothing")
    counted = total(score_all(cases, 1, lambda _done, _all: None))
    assert (counted.cases, counted.errors) == (2, 2)


def test_a_directory_without_truth_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(WhodiskError, match="found none"):
            score_all(folder, 1, lambda _done, _all: None)


@pytest.mark.parametrize(
    ("true", "said", "equal"),
    [
        (Named("device", "nvme3n1"), Named("device", "nvme3n1"), True),
        (Named("device", "nvme3n1"), Named("stage", "device", "device:nvme3n1"), True),
        (Named("device", "nvme3n1"), Named("stage", "device", "device:nvme1n1"), False),
        (Named("stage", "device"), Named("stage", "device+interrupt"), True),
        (Named("stage", "device", "device:a"), Named("stage", "device", "device:b"), False),
        (Named("vector", "41"), Named("device", "nvme3n1", "vector:41"), True),
        (Named("process", "x"), Named("device", "x"), False),
    ],
)
def test_who_is_meant(true: Named, said: Named, equal: bool) -> None:
    assert same(true, said) is equal


def test_other_names_are_documented() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/reference/findings.md").read_text(encoding="utf-8")
    listed = [line.split("|")[1].strip(" `") for line in page.splitlines() if line.startswith("| `")]
    assert set(ALIASES) <= set(listed)


@pytest.mark.parametrize(
    ("fault", "true_name", "said", "equal"),
    [
        (
            "submitter_stall",
            "submitter",
            ("process", "fio (thread 9)", "silence of the submitter, state stopped"),
            True,
        ),
        ("submitter_stall", "submitter", ("process", "fio", "stage:runqueue"), False),
        ("garbage_collection", "nvme1", ("stage", "device", "device:nvme1"), True),
        ("garbage_collection", "nvme1", ("stage", "device", None), False),
        ("garbage_collection", "nvme1", ("device", "nvme11", None), False),
        ("network_loss", "network", ("stage", "fs", None), True),
        ("network_loss", "network", ("stage", "device", None), False),
        ("slow_handler", "41", ("device", "nvme3", None), False),
        (
            "prefetch_misfit",
            "prefetch",
            ("request_shape", "read of 8650752 bytes", "prefetch of 1 MiB per request"),
            True,
        ),
        ("nobody knows", "x", ("device", "x", None), False),
    ],
)
def test_other_names(fault: str, true_name: str, said: tuple[str, str, str | None], equal: bool) -> None:
    assert named_by(fault, true_name, *said) is equal


def test_a_small_fault_is_no_false_alarm(tmp_path: Path) -> None:
    fault = {"kind": "stall", "culprit": DEVICE, "effect": {"p99_ratio": 1.02}, "counts": False}
    path = case(tmp_path / "a", "device_stall", {"culprit": None, "faults": [fault], "healthy": True})
    outcome = scoring.score_case(path)
    assert outcome.small
    counted = total([outcome])
    assert (counted.healthy, counted.false_alarms, counted.small) == (1, 0, 1)
    (path / "truth.json").write_text(
        json.dumps({"culprit": None, "faults": [], "healthy": True}), encoding="utf-8"
    )
    assert total([scoring.score_case(path)]).false_alarms == 1


@pytest.mark.slow
def test_what_all_drives_do_makes_none_a_culprit(tmp_path: Path) -> None:
    faults: list[dict[str, Any]] = [
        {
            "kind": "firmware_hiccups",
            "magnitude": {"drive": str(number), "pause": "3ms"},
            "culprit": {"kind": "device", "name": f"nvme{number}n1"},
            "effect": {"p99_ratio": 2.0},
            "counts": True,
        }
        for number in range(4)
    ]
    truth = {"scenario": "even", "faults": faults, "culprit": faults[2]["culprit"], "healthy": False}
    calm = scoring.score_case(case(tmp_path / "a", "pausing_kind", truth))
    assert (calm.healthy, calm.found, calm.missed) == (True, [], 0)
    accused = total([scoring.score_case(case(tmp_path / "b", "pausing_drive", truth))])
    assert (accused.healthy, accused.false_alarms, accused.small) == (1, 1, 0)
    stage = total([scoring.score_case(case(tmp_path / "d", "stuck_disk", truth))])
    assert (stage.healthy, stage.false_alarms) == (1, 1)
    faults[3]["magnitude"]["pause"] = "9ms"
    truth["culprit"] = faults[3]["culprit"]
    assert scoring.score_case(case(tmp_path / "c", "pausing_drive", truth)).rank == 1


@pytest.mark.parametrize(("other", "rank"), [(3.01, 1), (2.98, 1), (2.5, None)])
def test_of_equal_faults_either_is_right(tmp_path: Path, other: float, rank: int | None) -> None:
    named = {"kind": "process", "name": "submitter"}
    faults = [
        {"kind": "submitter_stall", "culprit": named, "effect": {"p99_ratio": 3.0}, "counts": True},
        {"kind": "stall", "culprit": DEVICE, "effect": {"p99_ratio": other}, "counts": True},
    ]
    truth = {"faults": faults, "culprit": named, "healthy": False}
    assert scoring.score_case(case(tmp_path / "a", "device_stall", truth)).rank == rank


def test_a_process_that_dies_takes_only_its_case(cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dead:
        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> Dead:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, *_: object) -> Future[Outcome]:
            future: Future[Outcome] = Future()
            future.set_exception(BrokenProcessPool("died"))
            return future

    monkeypatch.setattr(scoring, "ProcessPoolExecutor", Dead)
    counted = total(score_all(cases, 2, lambda _done, _all: None))
    assert (counted.cases, counted.errors) == (2, 2)


def test_counts_of_many_culprits() -> None:
    outcome = Outcome(
        "c", False, "", False, [Named("device", "a")], [], 1, right=18, wrong=0, missed=2, left_alone=380
    )
    counted = total([outcome])
    assert (counted.precision, counted.recall) == (1.0, 0.9)
    assert counted.mcc == pytest.approx(0.946, abs=1e-3)
