"""Who had the CPU that those needed who serve a device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from whodisk.evidence.late_servers import LateServers
from whodisk.evidence.surroundings import _held_by_late, _Waits
from whodisk.evidence.survey import Survey
from whodisk.statistics.stats import Ints

MS = 1_000_000
#: Every 40 ms servers wait for 4 ms while the program computes: windows of 3 ms lie in it now and then.
BEGIN = np.arange(0, 4000, 40) * MS


def causes(episodes_ns: Ints, length_ms: int = 3) -> list[str | None]:
    survey = cast(Survey, SimpleNamespace(begin_ns=0, end_ns=4000 * MS))
    every = BEGIN, BEGIN + 7 * MS
    waits = _Waits([LateServers("db", True, *every)], every)
    found: list[Any] = [
        SimpleNamespace(
            start_ns=int(at),
            end_ns=int(at) + length_ms * MS,
            latency_ns=length_ms * MS,
            stage_excess_ns=length_ms * MS,
        )
        for at in episodes_ns
    ]
    return [
        None if cause is None else cause.who for cause in _held_by_late(survey, found, waits, "serves loop0")
    ]


def test_where_cpus_are_crowded_the_number_decides() -> None:
    """One in ten windows is covered by chance: eight of eight are not."""
    inside = BEGIN[5:13] + MS
    assert causes(inside) == ["db"] * 8
    assert causes(inside[:1]) == [None]


def test_a_few_of_many_are_chance() -> None:
    outside = BEGIN[20:40] + 20 * MS
    assert causes(np.concatenate((BEGIN[5:7] + MS, outside))) == [None] * 22
