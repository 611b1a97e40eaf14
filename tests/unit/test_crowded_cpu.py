"""A CPU that a program keeps from submitters is slow because of that program."""

from __future__ import annotations

from pathlib import Path

from ground_truth import held
from whodisk.detectors.cpu_delay import DETECTOR as CPU_DELAY
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case
from whodisk.verdict.solve import _context


def test_who_keeps_a_cpu_is_why_that_cpu_is_slow(tmp_path: Path) -> None:
    with Case(held.cpu_hog(1, tmp_path / "case")) as case:
        surveys = {layer: survey_layer(case, layer) for layer in case.layers}
        [found] = CPU_DELAY.run(_context(case, surveys, "app", None, [])).candidates
    # All of its submitters waited on CPU 0.
    assert [cause for cause in found.causes if cause[0] == "config"] == [("config", "submitting cpu 0")]
