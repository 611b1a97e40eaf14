"""Numbers as people read them: three significant digits, always with a unit."""

from __future__ import annotations

import math

_TIME = ((1e3, 1.0, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms"), (120e9, 1e9, "s"), (math.inf, 60e9, "min"))
_SIZE = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def significant(value: float) -> str:
    """Three significant digits, no trailing zeros: 12.3, 1.2, 310."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(ns: float) -> str:
    """12300 -> '12.3 µs'."""
    if ns < 0:
        return "−" + duration(-ns)
    for limit, unit, name in _TIME:
        if ns < limit * 0.9995:
            return f"{significant(ns / unit)} {name}"
    raise AssertionError("the last limit is infinite")


def moment(ns: int) -> str:
    """A time since the start of the case, to the millisecond."""
    return f"{ns / 1e9:.3f} s"


def count(number: float) -> str:
    """1204331 -> '1,204,331'."""
    return f"{round(number):,}"


def plural(number: float, word: str) -> str:
    """'1 operation', '2 operations'."""
    return f"{count(number)} {word}{'' if number == 1 else 's'}"


def size(number_bytes: float) -> str:
    """4096 -> '4 KiB'."""
    value = float(number_bytes)
    for name in _SIZE[:-1]:
        if value < 1024:
            return f"{significant(value)} {name}"
        value /= 1024
    return f"{significant(value)} {_SIZE[-1]}"


def share(part: float) -> str:
    """0.071 -> '7.1 %'; what is not zero is never printed as zero, nor what is not all as 100."""
    if 0 < part < 0.0005:
        return "< 0.1 %"
    if 0.9995 < part < 1:
        return "> 99.9 %"
    return f"{significant(part * 100) if part < 0.1 else f'{part * 100:.1f}'.removesuffix('.0')} %"


def quantity(value: float, unit: str) -> str:
    """A value of a finding in its own unit; nanoseconds and bytes become human."""
    if unit == "ns":
        return duration(value)
    if unit in {"bytes", "B"}:
        return size(value)
    if unit == "%":
        return f"{significant(value)} %"
    number = count(value) if abs(value) >= 1000 else significant(value)
    return f"{number} {unit}".rstrip()
