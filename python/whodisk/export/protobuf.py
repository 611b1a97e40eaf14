"""Protobuf messages of one shape, many at once: a matrix of bytes with messages of equal length as rows.

A varint may be longer than it needs to be (its upper groups are zero), so a column of numbers takes the width of its largest. That
is all of protobuf's wire format that an exporter needs, at the speed of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
#: Part of a message: the same in all rows, or a row for each.
Part = bytes | Bytes

VARINT, FIXED64, LENGTH = 0, 1, 2


def varint(value: int) -> bytes:
    """One number, 0 and up, as short as it can be."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, kind: int) -> bytes:
    """What stands in front of a field's value."""
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """A field with the same number, 0 and up, in all rows."""
    return tag(field, VARINT) + varint(value)


def text(field: int, value: str) -> bytes:
    """A field with the same text in all rows."""
    data = value.encode("utf-8", "replace")
    return tag(field, LENGTH) + varint(len(data)) + data


def numbers(field: int, values: npt.NDArray[np.int64]) -> list[Part]:
    """A field with a number of each row (int64: negative ones take ten bytes)."""
    unsigned = np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)
    width = max(1, -(-int(unsigned.max(initial=0)).bit_length() // 7))
    out = np.empty((len(unsigned), width), dtype=np.uint8)
    for group in range(width):
        more = 0x80 if group + 1 < width else 0
        out[:, group] = (unsigned >> np.uint64(7 * group)) & np.uint64(0x7F) | np.uint64(more)
    return [tag(field, VARINT), out]


def fixed(field: int, values: npt.NDArray[np.uint64]) -> list[Part]:
    """A field of type fixed64 with a number of each row."""
    little = np.ascontiguousarray(values, dtype="<u8")
    return [tag(field, FIXED64), little.view(np.uint8).reshape(len(little), 8)]


def message(field: int, parts: Sequence[Part]) -> list[Part]:
    """A field that holds a message."""
    return [tag(field, LENGTH) + varint(_width(parts)), *parts]


def rows(parts: Sequence[Part], count: int) -> bytes:
    """`count` messages one after the other. Every array among `parts` has as many rows."""
    out = np.empty((count, _width(parts)), dtype=np.uint8)
    at = 0
    for part in parts:
        data = np.frombuffer(part, dtype=np.uint8) if isinstance(part, bytes) else part
        width = data.shape[-1]
        out[:, at : at + width] = data
        at += width
    return out.tobytes()


def one(parts: Sequence[Part]) -> bytes:
    """The only message there is of this shape."""
    return rows(parts, 1)


def _width(parts: Sequence[Part]) -> int:
    return sum(len(part) if isinstance(part, bytes) else int(part.shape[1]) for part in parts)


@dataclass
class Interned:
    """Texts that are written once, by number from 1 up, for as long as a file is written."""

    #: Field of `InternedData`, and field of the text in its entries.
    field: int
    text_field: int = 2

    def __post_init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._new: list[tuple[int, str]] = []

    def number(self, value: str) -> int:
        """The number of a text; a new one is remembered for `entries`."""
        found = self.numbers.get(value)
        if found is None:
            found = self.numbers[value] = len(self.numbers) + 1
            self._new.append((found, value))
        return found

    def entries(self) -> bytes:
        """What came since the last call, as fields of `InternedData`."""
        out = b"".join(
            one(message(self.field, [number(1, iid), text(self.text_field, value)]))
            for iid, value in self._new
        )
        self._new.clear()
        return out
