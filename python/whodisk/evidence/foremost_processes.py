"""Which of several processes had most of a time: who had the rest stands beside it, and need not be named."""

from __future__ import annotations

from collections.abc import Mapping

from whodisk.evidence.thresholds import BESIDE_FOREMOST_MIN, FOREMOST_PROCESSES_MIN


def foremost_processes(had_ns: Mapping[int, float]) -> tuple[int, ...]:
    """The fewest processes that had most of the time together, and those that had it for nearly as long as the first, the longest first."""
    ordered = sorted(had_ns, key=lambda pid: (-had_ns[pid], pid))
    enough, together = FOREMOST_PROCESSES_MIN * sum(had_ns.values()), 0.0
    for place, pid in enumerate(ordered, 1):
        together += had_ns[pid]
        rest = ordered[place:]
        if together >= enough and (not rest or had_ns[rest[0]] < BESIDE_FOREMOST_MIN * had_ns[ordered[0]]):
            return tuple(ordered[:place])
    return tuple(ordered)
