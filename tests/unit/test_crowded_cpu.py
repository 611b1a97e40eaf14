"""A CPU that a program keeps from submitters is slow because of that program."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground_truth import held, limits
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


@pytest.mark.parametrize(("asks", "said"), [(6, True), (1, False), (0, False)])
def test_who_has_the_cpu_and_asks_the_device_is_told_to_do_both(
    tmp_path: Path, asks: int, said: bool
) -> None:
    """ "python3 had the CPU in 6.7 % of the time of their operations ... Move python3 to other CPUs" was told of a program whose fsync loop made half of all requests."""
    with Case(limits.another_crowds(1, tmp_path / "case", asks=asks)) as case:
        surveys = {layer: survey_layer(case, layer) for layer in case.layers}
        [found] = CPU_DELAY.run(_context(case, surveys, "syscall", None, [])).candidates
    assert found.culprit.name == "backup"
    told = "It also makes 600 requests of the same device (30 % of all requests there); what these cost is not counted here."
    assert (told in found.claim) is said, found.claim
    assert found.remedy.startswith("Stop it, or keep it from the CPUs and from the device") is said
