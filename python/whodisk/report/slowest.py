"""The slowest episodes of a verdict, as a row each: for the terminal and for the report."""

from __future__ import annotations

from whodisk import words
from whodisk.findings import NOTHING_OBSERVED, Slowest, Verdict

HEAD = ("at", "took", "operations", "mostly in", "meanwhile")


def rows(verdict: Verdict) -> list[tuple[str, str, str, str, str]]:
    """A row for each of the slowest episodes of a verdict."""
    return [_row(item, when(verdict, item)) for item in verdict.slowest]


def when(verdict: Verdict, item: Slowest) -> str:
    """When an episode began, to the millisecond."""
    return words.moment(item.start_ns, zero_of_day_ns=verdict.zero_of_day_ns, places=3)


def _row(item: Slowest, at: str) -> tuple[str, str, str, str, str]:
    """When, how long, how many, where, and what was going on there."""
    number = (
        words.things(item.operations, item.op, words.plural_op(item.op)) if item.operations else "silence"
    )
    known = item.certain or item.what == NOTHING_OBSERVED
    return (
        at,
        words.duration(item.latency_ns),
        number,
        f"{words.stage(item.stage)} {words.duration(item.stage_ns)}" if item.stage_ns > 0 else "no stage",
        item.what if known else f"perhaps: {item.what}",
    )
