"""What a threshold is, the table of all of them, and those that decide how a case is read.

`whodisk.evidence.thresholds` goes on with those of what happened and of what the host is, `whodisk.detectors.thresholds` with those of detectors and of the
verdict. A threshold's name occurs once in all of whodisk. Whoever uses one imports it by that name, and reads it when it is used: `scaled` changes it
everywhere for as long as it is asked to.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

Value = float | tuple[float, ...]
_Value = TypeVar("_Value", int, float, tuple[float, ...], tuple[int, ...])

#: Somebody chose it: there is no better reason.
CHOSEN = "chosen"
#: The design fixes it, in this section.
DESIGN_5 = "DESIGN 5"
DESIGN_8 = "DESIGN 8"
DESIGN_9 = "DESIGN 9"


@dataclass(frozen=True)
class Threshold:
    """A row of the table."""

    name: str
    value: Value
    unit: str
    #: The design's section, a paper or a data sheet, how it was measured with which command, or `CHOSEN`.
    source: str
    #: What it does, in words.
    what: str


#: All rows by name, in the order in which they are written down.
TABLE: dict[str, Threshold] = {}


def row(name: str, value: _Value, unit: str, source: str, what: str) -> _Value:
    """Writes a row down and returns its value. Raises ValueError if the name is taken: `scaled` would change both."""
    if name in TABLE:
        raise ValueError(f"threshold {name} is there twice: a name stands for one")
    TABLE[name] = Threshold(name, value, unit, source, what)
    return value


@contextmanager
def scaled(name: str, factor: float) -> Iterator[Value]:
    """One threshold times `factor` wherever it is read, as long as this lasts: what would half or twice the value do?

    Whole numbers stay whole, and at least 1. Raises KeyError if there is no such threshold. For one thread: modules are changed.
    """
    value = TABLE[name].value
    changed = (
        tuple(_times(one, factor) for one in value) if isinstance(value, tuple) else _times(value, factor)
    )
    readers = [module for module in _modules() if name in vars(module)]
    for module in readers:
        setattr(module, name, changed)
    try:
        yield changed
    finally:
        for module in readers:
            setattr(module, name, value)


def _times(value: float, factor: float) -> float:
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def _modules() -> list[ModuleType]:
    return [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "whodisk"]


# flush_waits
BEHIND_PART_MIN = row(
    "BEHIND_PART_MIN",
    0.5,
    "share",
    DESIGN_5,
    "Part of the time in the queue that flush commands ahead must cover for the device to have it.",
)

# losses
MISSING_SHARE_MAX = row(
    "MISSING_SHARE_MAX",
    0.01,
    "share of the operations",
    CHOSEN,
    "Where more of a layer is missing, the case is not sound and the verdict says so first (decision 0135) ...",
)
UNJUDGED_SHARE_MAX = row(
    "UNJUDGED_SHARE_MAX",
    0.05,
    "share of the operations",
    DESIGN_8,
    "... and from this share on nothing is concluded from the layer: below it, what is missing is less than the smallest effect that accuses (decision 0345).",
)
