"""When a PCIe link was full."""

from __future__ import annotations

import numpy as np

from whodisk.detectors.narrow_link import full_link
from whodisk.statistics.stats import Ints

#: What a link of one lane carries, bytes per second, and how much of it is data.
CARRIES, DATA = 250e6, 0.85
SIZE = 262_144


def ends(requests: int, per_s: float, begin_ns: float = 0.0) -> Ints:
    """Ends of requests of `SIZE` bytes, one after the other at a rate in bytes per second."""
    return (begin_ns + (1 + np.arange(requests)) * SIZE / per_s * 1e9).astype(np.int64)


def full_part(end_ns: Ints) -> float | None:
    full = full_link(end_ns, np.full(len(end_ns), SIZE, np.int64), CARRIES)
    return None if full is None else float(full.requests.mean())


def test_a_link_that_was_trained_down_meanwhile_is_full_from_then_on() -> None:
    wide = ends(300, 1.6e9)
    narrow = ends(900, DATA * CARRIES, float(wide[-1]))
    part = full_part(narrow)
    assert part is not None and part > 0.99
    part = full_part(np.concatenate((wide, narrow)))
    assert part is not None and 0.7 < part <= 0.78


def test_a_link_that_carries_more_to_the_end_is_not_what_the_facts_say() -> None:
    narrow = ends(900, DATA * CARRIES)
    assert full_part(np.concatenate((narrow, ends(300, 1.6e9, float(narrow[-1]))))) is None
    assert full_part(ends(900, 1.6e9)) is None


def test_of_few_requests_after_it_nothing_is_said() -> None:
    wide = ends(900, 1.6e9)
    assert full_part(np.concatenate((wide, ends(100, DATA * CARRIES, float(wide[-1]))))) is None
