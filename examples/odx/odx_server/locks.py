"""Byte-range locks of SMB: LOCK, and what they keep others from (MS-SMB2 3.3.5.14, MS-FSA 2.1.4.10)."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from dataclasses import dataclass

SHARED, EXCLUSIVE, UNLOCK = 1, 2, 4

#: An open file: its session, and its name within it.
Owner = tuple[str, bytes]


@dataclass(frozen=True)
class Lock:
    """One range."""

    owner: Owner
    start: int
    end: int
    exclusive: bool


class Locks:
    """All locks of a server. Safe for threads. Nobody waits for one: what conflicts is refused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By device and inode.
        self._held: defaultdict[tuple[int, int], list[Lock]] = defaultdict(list)

    def lock(self, owner: Owner, descriptor: int, ranges: list[tuple[int, int, bool]]) -> bool:
        """Takes all of them (offset, size, exclusive), or none and gives False."""
        with self._lock:
            held = self._held[_file(descriptor)]
            wanted = [Lock(owner, start, start + size, exclusive) for start, size, exclusive in ranges]
            if any(_overlap(one, new) and (one.exclusive or new.exclusive) for new in wanted for one in held):
                return False
            held.extend(wanted)
            return True

    def unlock(self, owner: Owner, descriptor: int, ranges: list[tuple[int, int]]) -> bool:
        """Gives back ranges exactly as they were taken; False at the first that was not."""
        with self._lock:
            held = self._held[_file(descriptor)]
            for start, size in ranges:
                own = [one for one in held if (one.owner, one.start, one.end) == (owner, start, start + size)]
                if not own:
                    return False
                held.remove(own[0])
            return True

    def conflict(self, owner: Owner, descriptor: int, start: int, size: int, *, write: bool) -> bool:
        """Whether a lock keeps this open file from reading or writing a range. A shared lock keeps its owner from writing, too."""
        wanted = Lock(owner, start, start + size, write)
        with self._lock:
            return any(
                _overlap(one, wanted) and (one.owner != owner if one.exclusive else write)
                for one in self._held.get(_file(descriptor), [])
            )

    def release(self, session: str, file: bytes | None = None) -> None:
        """An open file was closed, or (None) a session has ended."""
        with self._lock:
            for key, held in list(self._held.items()):
                held[:] = [one for one in held if one.owner[0] != session or file not in (None, one.owner[1])]
                if not held:
                    del self._held[key]


def _file(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _overlap(one: Lock, other: Lock) -> bool:
    return one.start < other.end and other.start < one.end
