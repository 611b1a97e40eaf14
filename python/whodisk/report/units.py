"""The units that `whodisk.words` does not have, or not so: moments of pictures, shares, values with a unit as text."""

from __future__ import annotations

from whodisk import words


def moment(ns: int) -> str:
    """A time since the start of the case, to the millisecond."""
    return words.moment(ns, zero_of_day_ns=None, places=3)


def quantity(value: float, unit: str) -> str:
    """A value of a finding in its own unit; nanoseconds, bytes and shares become human."""
    if unit == "ns":
        return words.duration(value)
    if unit in {"bytes", "B"}:
        return words.size(value)
    if unit == "1":
        return share(value)
    return f"{words.significant(value)} {unit}".rstrip()


def share(part: float) -> str:
    """0.071 -> '7.1 %'; what is there is never printed as zero, nor what is not all as 100 %."""
    if 0 < part < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= part < 1:
        return "> 99.9 %"
    return f"{part * 100:.1f}".removesuffix(".0") + " %"
