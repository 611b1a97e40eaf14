"""A single operation far beyond all others of its kind stands apart behind any tail if something is known to have held it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.synth import Simulation
from whodisk.evidence.slowest import Episode, find_longest
from whodisk.evidence.surroundings import NOTHING, Cause, with_alone
from whodisk.evidence.survey import Survey, survey_layer
from whodisk.reading.views import STAGES, Case

SLEPT = Cause("blocked", "percpu_rwsem_wait", "its thread slept in percpu_rwsem_wait", True)
FS = STAGES.index("fs")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Survey, Episode, Episode]:
    """A survey, and two of its longest operations, of one kind, that do not stand apart."""
    path: Path = tmp_path_factory.mktemp("alone") / "case"
    case = Case(Simulation(seed=5, seconds=0.5).write(path))
    survey = survey_layer(case, "app")
    found = [episode for episode in find_longest(case, survey, []) if not episode.apart]
    first, second = found[:2]
    return survey, first, dataclasses.replace(second, kind=first.kind)


def _of(episode: Episode, latency_ns: float) -> Episode:
    held = tuple(float(latency_ns) if stage == FS else 0.0 for stage in range(len(STAGES)))
    return dataclasses.replace(episode, latency_ns=int(latency_ns), stage_ns=held, excess_ns=held)


@pytest.mark.parametrize(
    ("times", "part", "cause", "apart"),
    [
        (200.0, 0.1, SLEPT, True),
        (50.0, 0.1, SLEPT, False),
        (200.0, 0.01, SLEPT, False),
        (200.0, 0.1, NOTHING, False),
        (200.0, 0.1, dataclasses.replace(SLEPT, certain=False), False),
    ],
)
def test_it_is_far_beyond_costs_much_and_was_held(
    given: tuple[Survey, Episode, Episode], times: float, part: float, cause: Cause, apart: bool
) -> None:
    survey, first, second = given
    longest = _of(first, part * survey.latency_ns)
    next_one = _of(second, longest.latency_ns / times)
    [(found, _), (other, _)] = with_alone(survey, [(longest, cause), (next_one, NOTHING)])
    assert found.apart is apart and not other.apart


def test_of_one_alone_nothing_is_known(given: tuple[Survey, Episode, Episode]) -> None:
    survey, first, _ = given
    [(found, _)] = with_alone(survey, [(_of(first, survey.latency_ns), SLEPT)])
    assert not found.apart
