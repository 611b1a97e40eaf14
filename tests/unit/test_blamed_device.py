"""Which device slow episodes are of."""

from __future__ import annotations

import numpy as np
import pytest

from whodisk.detectors.blamed_device import _owner

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
