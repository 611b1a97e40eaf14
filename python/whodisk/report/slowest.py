"""The slowest episodes of a verdict, as a row each: for the terminal and for the report."""

from __future__ import annotations

from whodisk import words
from whodisk.findings import NOTHING_OBSERVED, Slowest

HEAD = ("at", "took", "operations", "mostly in", "meanwhile")


def row(item: Slowest) -> tuple[str, str, str, str, str]:
    """When, how long, how many, where, and what was going on there."""
    number = (
        words.things(item.operations, item.op, words.plural_op(item.op)) if item.operations else "silence"
    )
    known = item.certain or item.what == NOTHING_OBSERVED
    return (
        f"{item.start_ns / 1e9:.3f} s",
        words.duration(item.latency_ns),
        number,
        f"{words.stage(item.stage)} {words.duration(item.stage_ns)}" if item.stage_ns > 0 else "no stage",
        item.what if known else f"perhaps: {item.what}",
    )
