"""Every detector on cases with a known cause, on look-alikes, and against the rules of the registry."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest

from ground_truth.cases import TRUTHS, Truth
from tests.contradictions import contradictions
from tests.synth import write_case
from whodisk.detectors import DETECTORS
from whodisk.detectors.base import Detector
from whodisk.findings import Verdict
from whodisk.verdict.solve import solve

ROOT = Path(__file__).resolve().parents[2]
#: Of each detector's positives, and of its look-alikes, `make test` has this number; `make test-long` has all of them.
EACH_TIME = 1


def truths(positive: bool) -> list[Any]:
    """Names of ground truths; of each detector the last in the registry each time."""
    of_detector: dict[str, list[str]] = {}
    for name, truth in reversed(TRUTHS.items()):
        if truth.positive is positive:
            of_detector.setdefault(truth.detector, []).append(name)
    return [
        pytest.param(name, marks=pytest.mark.slow if at >= EACH_TIME else ())
        for names in of_detector.values()
        for at, name in enumerate(names)
    ]


SEEDS = 1
#: Of each look-alike; `make test-long` tries more.
FALSE_ALARM_SEEDS = int(os.environ.get("WHODISK_SEEDS", "1"))


def complaints(truth: Truth, verdict: Verdict) -> list[str]:
    """Everything in which a verdict differs from the truth."""
    # What slow episodes share is said beside the stage that held them.
    beside = truth.detector == "over_represented" and truth.positive
    findings = [f for f in verdict.findings if not beside or f.detector == truth.detector]
    first = findings[0] if findings else None
    wrong = []
    measured = [f for f in findings if f.basis == "measured"]
    if not truth.positive and truth.measured is not None:
        wrong += [
            f"reads off {f.culprit.name!r}, expected {truth.measured!r}"
            for f in measured
            if f.culprit.name != truth.measured
        ]
        if not measured:
            wrong.append("does not tell the operations that stand apart")
        findings = [f for f in findings if f not in measured]
        first = findings[0] if findings else None
    if truth.status is None and findings:
        wrong.append(f"accuses: {first.claim if first else ''}")
    if truth.status is not None and verdict.status != truth.status:
        wrong.append(f"status {verdict.status}, expected {truth.status}; observed {verdict.minor}")
    for field in ("kind", "name", "because_of"):
        expected = getattr(truth, field)
        found = getattr(first.culprit, field) if first else None
        if expected is not None and found != expected:
            wrong.append(f"culprit {field} {found!r}, expected {expected!r}")
    if truth.nobody and first is not None and first.culprit.because_of is not None:
        wrong.append(f"names {first.culprit.because_of}")
    if len(findings) > 1:
        wrong.append(f"{len(findings)} causes: {[f.claim for f in findings]}")
    if truth.cleared is not None and truth.cleared not in [item.what for item in verdict.cleared]:
        wrong.append(f"{truth.cleared} not among the cleared: {[item.what for item in verdict.cleared]}")
    wrong += contradictions(verdict)
    if truth.limit is not None and truth.limit not in (verdict.limit or ""):
        wrong.append(f"limit {verdict.limit!r} does not mention {truth.limit!r}")
    said = "\n".join(verdict.minor + [f"{c.what}: {c.because}" for c in verdict.cannot_exclude])
    claims = "\n".join(finding.claim for finding in findings)
    if truth.says is not None and truth.says not in said + claims:
        wrong.append(f"does not say {truth.says!r}: {said}")
    if truth.says_not is not None and truth.says_not in said:
        wrong.append(f"says {truth.says_not!r}: {said}")
    return wrong


@pytest.mark.parametrize("name", truths(positive=True))
def test_positives_are_named(name: str, tmp_path: Path) -> None:
    truth = TRUTHS[name]
    for seed in range(SEEDS):
        verdict = solve(truth.build(seed, tmp_path / f"seed-{seed}"))
        assert not complaints(truth, verdict), f"{name}, seed {seed}"
        named = [finding for finding in verdict.findings if finding.detector == truth.detector]
        if verdict.findings:
            assert truth.detector in (verdict.findings[0].detector, "over_represented")
            q_value = named[0].q_value
            assert named[0].basis == "measured" if q_value is None else q_value < 0.01


@pytest.mark.parametrize("name", truths(positive=False))
def test_look_alikes_accuse_nobody(name: str, tmp_path: Path) -> None:
    truth = TRUTHS[name]
    alarms = []
    for seed in range(100, 100 + FALSE_ALARM_SEEDS):
        verdict = solve(truth.build(seed, tmp_path / f"seed-{seed}"))
        alarms += [f"seed {seed}: {text}" for text in complaints(truth, verdict)]
    assert not alarms, f"{name}: {alarms}"


# -- conformance ---------------------------------------------------------------------------------


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name)
def test_detectors_keep_their_promises(detector: Detector) -> None:
    assert detector.needs
    assert detector.null_model
    assert detector.smallest_effect
    page = ROOT / "docs/reference/detectors" / f"{detector.name}.md"
    assert page.is_file(), f"{page} is missing"
    text = page.read_text(encoding="utf-8")
    for heading in ("## What it sees", "## How it can be wrong", "## Check by hand"):
        assert heading in text, f"{page.name} has no section {heading!r}"
    assert "```sql" in text
    truths = [truth for truth in TRUTHS.values() if truth.detector == detector.name]
    assert any(truth.positive for truth in truths)
    assert any(not truth.positive for truth in truths)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name)
def test_detectors_decline_by_name(detector: Detector, tmp_path: Path) -> None:
    from types import SimpleNamespace

    context = SimpleNamespace(
        layer="app", case=SimpleNamespace(columns={}), survey=SimpleNamespace(stages_observed=frozenset())
    )
    declined = detector.declines(context)  # type: ignore[arg-type]
    assert declined is not None
    assert declined.columns == detector.needs
    assert declined.sentence.startswith(f"{detector.name} declined")
    for need in detector.needs:
        assert need in declined.sentence


def test_every_detector_file_is_registered() -> None:
    shared = {
        "__init__",
        "against_peers",
        "base",
        "behind_own",
        "blamed_device",
        "candidates",
        "flush_levels",
        "flush_limit",
        "cpu_holders",
        "late_journals",
        "late_workers",
        "newcomers",
        "reference",
        "served_others",
        "shared_devices",
        "slow_groups",
        "taking_turns",
        "thread_limit",
        "thresholds",
        "written_before",
    }
    files = {path.stem for path in (ROOT / "python/whodisk/detectors").glob("*.py")} - shared
    assert files == {detector.name for detector in DETECTORS}


def test_pages_are_of_detectors() -> None:
    pages = {path.stem for path in (ROOT / "docs/reference/detectors").glob("*.md")} - {"README"}
    assert pages == {detector.name for detector in DETECTORS}


def test_detectors_import_no_other_detector() -> None:
    names = {detector.name for detector in DETECTORS}
    for path in (ROOT / "python/whodisk/detectors").glob("*.py"):
        if path.stem == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "whodisk.detectors":
                assert not names & {alias.name for alias in node.names}, path


def test_missing_tables_are_declined_in_the_verdict(tmp_path: Path) -> None:
    case = TRUTHS["depth_limited"].build(1, tmp_path / "case")
    (case / "gaps/part-0.parquet").unlink()
    verdict = solve(case)
    assert any(line.startswith("submitter_gap declined") and "gaps.tid" in line for line in verdict.minor)


def test_empty_case_is_no_false_alarm(tmp_path: Path) -> None:
    assert solve(write_case(tmp_path / "case", app={}, block={})).status == "insufficient"
