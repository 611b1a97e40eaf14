"""Numbers as people read them. Only for sentences; data keep their units in nanoseconds and bytes."""

from __future__ import annotations

import math
import re


def duration(ns: float) -> str:
    """``30.1 ms`` out of nanoseconds; three significant digits."""
    value = abs(ns)
    for limit, divisor, unit in ((999.5, 1, "ns"), (999.5e3, 1e3, "us"), (999.5e6, 1e6, "ms")):
        if value < limit:
            return f"{significant(ns / divisor)} {unit}"
    return f"{significant(ns / 1e9)} s"


def significant(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits, without exponent, thousands separated."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)) + 1e-12))
    text = f"{round(value, places):,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(number: float) -> str:
    """``1,204,331``."""
    return f"{round(number):,}"


def things(number: float, singular: str, plural: str | None = None) -> str:
    """``1 read``, ``412 reads``."""
    return f"{count(number)} {singular if round(number) == 1 else plural or singular + 's'}"


def percent(share: float) -> str:
    """``7.1 %``; as many digits near 100 % as it takes to show the difference."""
    value = 100 * share
    if 99.0 < value < 100.0:
        digits = min(7, max(1, math.ceil(-math.log10(100.0 - value)) + 1))
        floored = math.floor(value * 10**digits) / 10**digits
        return f"{floored:.{digits}f}".rstrip("0").rstrip(".") + " %"
    return f"{significant(value, 2 if value < 10 else 3)} %"


def rate(per_second: float) -> str:
    """``18,700`` operations per second, three significant digits."""
    return significant(per_second)


def size(size_bytes: float) -> str:
    """``128 KiB``."""
    for power, unit in enumerate(("B", "KiB", "MiB", "GiB")):
        if size_bytes < 1024 ** (power + 1):
            return f"{significant(size_bytes / 1024**power)} {unit}"
    return f"{significant(size_bytes / 1024**4)} TiB"


#: What a culprit is called, by its kind.
_ACCUSED = {
    "stage": "the stage {}",
    "device": "the device {}",
    "vector": "interrupt vector {}",
    "host": "host {}",
    "request_shape": "the shape of the requests ({})",
    "cache_tier": "the cache tier {}",
    "layout": "the layout ({})",
    "time_pattern": "a pattern in time ({})",
    "process": "the program {}",
    "config": "the setting {}",
    "saturation": "{}",
}


def accused(kind: str, name: str, because_of: str | None) -> str:
    """``the stage device of nvme3``: a culprit as the subject of a sentence."""
    because = because_of or ""
    # Numbers of bytes are for programs.
    name = re.sub(r"\b([0-9]+) bytes\b", lambda found: size(int(found[1])), name)
    said = _ACCUSED.get(kind, f"{kind} {{}}").format(name)
    if kind == "stage" and name == "unknown":
        said = "time that was not recorded"
    if kind == "process" and because.startswith("silence of the submitter"):
        said = f"the submitter, {name},"
    if kind == "vector" and not name.isdigit():
        said = f"the interrupts of {name}"
    return said + (f" of {because.removeprefix('device:')}" if because.startswith("device:") else "")


def listed(names: list[str]) -> str:
    """``a, b and c``."""
    if len(names) <= 1:
        return names[0] if names else ""
    return ", ".join(names[:-1]) + " and " + names[-1]


def some(names: list[str], most: int) -> str:
    """The first `most` names, and how many more there are."""
    hidden = len(names) - most
    return ", ".join(names[:most]) + (f" and {hidden} more" if hidden > 0 else "")


def threads(pairs: set[tuple[int, str]]) -> str:
    """Threads, given as (tid, name): ``fio (thread 41) and fio (thread 42)``, ``4 submitting threads of fio``."""
    if len(pairs) <= 3:
        return listed([f"{comm or 'thread'} (thread {tid})" for tid, comm in sorted(pairs)])
    names = sorted({comm for _, comm in pairs})
    whose = f" of {names[0]}" if len(names) == 1 and names[0] else f" ({names[0]} to {names[-1]})"
    return f"{len(pairs)} submitting threads{whose}"


#: Where an s is not enough.
PLURALS = {
    "flush": "flushes",
    "other": "other operations",
    "copy": "copies",
    "truncate": "truncations",
    "allocate": "allocations",
}


def plural_op(op: str) -> str:
    """``reads``, ``flushes``: the plural of an operation kind."""
    return PLURALS.get(op, op + "s")
