"""The units that `whodisk.words` does not have: moments, and values that carry their unit as text."""

from __future__ import annotations

from whodisk import words


def moment(ns: int) -> str:
    """A time since the start of the case, to the millisecond."""
    return f"{ns / 1e9:.3f} s"


def quantity(value: float, unit: str) -> str:
    """A value of a finding in its own unit; nanoseconds, bytes and shares become human."""
    if unit == "ns":
        return words.duration(value)
    if unit in {"bytes", "B"}:
        return words.size(value)
    return f"{words.significant(value)} {unit}".rstrip()
