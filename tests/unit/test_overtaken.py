"""Who went past whom in a queue, and what that cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ground_truth.crowds import neighbour_always, prefers_another, prefers_itself
from whodisk.detectors import overtaken
from whodisk.detectors.overtaken import Queued
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import find_slow, none_of
from whodisk.evidence.survey import survey_layer
from whodisk.reading.views import Case


def queued(*rows: tuple[int, int, int]) -> Queued:
    came, issued, end = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Queued(np.arange(len(rows)), came, issued, end)


def test_only_who_came_later_and_was_served_earlier_went_past() -> None:
    mine = queued((100, 500, 600), (1_000, 1_010, 1_100))
    others = queued(
        (50, 100, 200),  # came earlier
        (150, 200, 300),
        (160, 250, 320),  # inside at the same time: 20 more
        (170, 450, 700),  # was inside for 50 until the other was issued
        (180, 500, 800),  # issued no earlier
        (1_020, 1_030, 1_040),  # came when it was issued already
    )
    found = overtaken.overtaken(mine, others)
    assert found.places.tolist() == [0]
    assert found.lost_ns.tolist() == [100 + 20 + 50]
    assert found.others == 3


@pytest.mark.parametrize(
    ("build", "names"), [(prefers_another, ["scan"]), (prefers_itself, []), (neighbour_always, [])]
)
def test_another_program_that_is_preferred_is_named(build: object, names: list[str], tmp_path: Path) -> None:
    assert callable(build)
    case = Case(build(3, tmp_path / "case"))
    surveys = {layer: survey_layer(case, layer) for layer in case.layers}
    slow = find_slow(case, surveys["app"])
    found = overtaken.run(Context(case, surveys, "app", slow, none_of(slow))).candidates
    assert [c.culprit.name for c in found if c.large] == names
    # Thirty of 0.2 ms go past each read: 6 of about 7 ms.
    assert all(0.75 < c.share_of_latency < 0.95 for c in found)
