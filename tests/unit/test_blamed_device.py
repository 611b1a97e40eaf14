"""Which device slow episodes are of."""

from __future__ import annotations

import numpy as np
import pytest

from whodisk.detectors.blamed_device import _owner, events, owner_of_events

NAMES = ["nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1"]
EVENLY = dict.fromkeys(NAMES, 1000)


@pytest.mark.parametrize(
    ("held", "owner"),
    [
        # Read off the record: all of it was there.
        ([[0, 0, 0, 9.0], [0, 0, 0.5, 8.0]], "nvme3n1"),
        # One episode has to be somewhere.
        ([[0, 0, 0, 9.0]], None),
        ([[0, 0, 0, 9.0], [9.0, 0, 0, 0]], None),
        # A pause of all: the one that lost most did not lose nearly all.
        ([[3.0, 3.0, 3.0, 4.0], [3.0, 3.0, 3.0, 4.0]], None),
    ],
)
def test_a_device_that_held_nearly_all_of_every_episode_is_named(
    held: list[list[float]], owner: str | None
) -> None:
    sizes = np.full(len(held), 5)
    assert _owner(np.array(held), sizes, NAMES, EVENLY, {}) == owner


def test_long_waits_that_overlap_are_events_of_their_own() -> None:
    start = np.array([0, 3, 7, 12], np.int64) * 1_000_000
    assert events(start, start + 21_000_000).tolist() == [0, 1, 2, 3]
    # All ended together: they waited for one thing.
    assert events(start, np.full(4, 40_000_000)).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("held", "owner"),
    [
        ([[0, 0, 0, 9.0]] * 8, "nvme3n1"),
        # Three may be chance: of four devices, each holds all three of one in sixteen times.
        ([[0, 0, 0, 9.0]] * 3, None),
        ([[0, 0, 0, 9.0]] * 6 + [[9.0, 0, 0, 0]] * 2, None),
        # Of a pause of all, each holds a part.
        ([[3.0, 3.0, 3.0, 4.0]] * 8, None),
    ],
)
def test_the_device_of_nearly_all_events_is_named_beyond_chance(
    held: list[list[float]], owner: str | None
) -> None:
    assert owner_of_events(np.array(held), np.ones(len(held), np.int64), NAMES, EVENLY) == owner
