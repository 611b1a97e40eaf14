"""What requests that find another program's inside the device cost, and what they do not."""

from __future__ import annotations

from pathlib import Path

from ground_truth.guests import (
    flushed_at_random,
    flushed_for_itself,
    flushed_for_others,
    roomy_syncs,
    slow_while_busy,
    steady_syncs,
)
from whodisk.detectors import met_requests
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import find_slow, none_of
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case


def _candidates(path: Path) -> list[tuple[str, bool, float]]:
    case = Case(path)
    surveys = {layer: survey_layer(case, layer) for layer in case.layers}
    slow = find_slow(case, surveys["app"])
    found = met_requests.run(Context(case, surveys, "app", slow, none_of(slow))).candidates
    return [(c.culprit.name, c.large and c.p_value < 0.01, c.share_of_latency) for c in found]


def test_who_syncs_all_the_time_is_in_the_way(tmp_path: Path) -> None:
    [(name, accused, share)] = _candidates(steady_syncs(1, tmp_path / "case"))
    # A third of the requests wait for what is left of four times 2 ms, and all think for 2 ms each.
    assert (name, accused) == ("mirrord", True)
    assert 0.45 < share < 0.65


def test_a_drive_with_places_for_all_makes_nobody_wait(tmp_path: Path) -> None:
    assert not any(accused for _, accused, _ in _candidates(roomy_syncs(1, tmp_path / "case")))


def test_who_is_there_while_the_drive_is_slow_did_not_make_it_slow(tmp_path: Path) -> None:
    assert not any(accused for _, accused, _ in _candidates(slow_while_busy(1, tmp_path / "case")))


def test_a_flush_that_makes_others_data_durable_is_in_the_way_of_who_waits_for_it(tmp_path: Path) -> None:
    [(name, accused, share)] = _candidates(flushed_for_others(1, tmp_path / "case"))
    # The requests of the other have ended by then, and one flush in about ten takes 28 ms longer than 2 ms.
    assert (name, accused) == ("backup", True)
    assert 0.45 < share < 0.7


def test_flushes_that_take_long_by_chance_or_for_own_data_accuse_nobody(tmp_path: Path) -> None:
    assert not any(accused for _, accused, _ in _candidates(flushed_at_random(1, tmp_path / "chance")))
    assert not any(accused for _, accused, _ in _candidates(flushed_for_itself(1, tmp_path / "own")))
