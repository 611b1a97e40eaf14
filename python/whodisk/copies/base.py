"""What a way of copying is, and the answers of its operations."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from whodisk.errors import WhodiskError


class CopyError(WhodiskError):
    """A copy that cannot be done here; the text says what was expected, what was found, and what to do."""


@dataclass(frozen=True)
class Operation:
    """One request and its answer. Moments are CLOCK_MONOTONIC."""

    #: `read`, `write`, `copy` or `sync`.
    kind: str
    #: What it is for the method: `SRV_COPYCHUNK`, `OFFLOAD_READ`, `pread`, ...
    call: str
    due_ns: int
    submit_ns: int
    end_ns: int
    tid: int
    #: In the file that `kind` names: the source of a read, else the destination.
    offset_bytes: int
    asked_bytes: int
    #: What was really transferred; less than asked is no success by itself.
    transferred_bytes: int
    #: 0 or errno.
    error: int
    #: 0 or the NTSTATUS of the server; None where there is no server.
    status: int | None = None
    #: What the server said, in words.
    words: str = ""
    #: How old the token was when it was used.
    token_age_ns: int | None = None


@dataclass
class Answer:
    """What a call brought."""

    transferred_bytes: int
    error: int = 0
    status: int | None = None
    words: str = ""


class Link(Protocol):
    """One submitter's way to both files. Used by one thread only."""

    def copy(self, offset_bytes: int, size_bytes: int, log: Logger) -> int:
        """Copies a range; gives how many bytes of it are now at the destination, from its beginning."""

    def sync(self, log: Logger) -> bool:
        """Makes the destination durable; whether that worked."""

    def close(self) -> None:
        """Whatever state it is in."""


class Method(Protocol):
    """A way of copying."""

    def prepare(self) -> int:
        """Lays the source out if it is absent and makes the destination; gives the bytes to be copied. Raises CopyError."""

    def link(self) -> Link:
        """A submitter of its own. Raises CopyError."""

    def difference(self, size_bytes: int) -> int | None:
        """Place of the first byte in which the files differ; None if they are alike."""


@dataclass
class Logger:
    """Operations of one thread, in order."""

    tid: int
    due_ns: int = 0
    operations: list[Operation] = field(default_factory=list)

    def call(
        self,
        kind: str,
        call: str,
        offset_bytes: int,
        size_bytes: int,
        do: Callable[[], Answer],
        token_ns: int | None = None,
    ) -> Answer:
        """Does one call and logs it. `token_ns`: when the token that it uses was given."""
        submit_ns = time.monotonic_ns()
        due_ns, self.due_ns = min(self.due_ns or submit_ns, submit_ns), 0
        try:
            answer = do()
        except OSError as error:
            answer = Answer(0, error.errno or errno.EIO, None, str(error.strerror or error))
        end_ns = time.monotonic_ns()
        self.operations.append(
            Operation(
                kind,
                call,
                due_ns,
                submit_ns,
                end_ns,
                self.tid,
                offset_bytes,
                size_bytes,
                answer.transferred_bytes,
                answer.error,
                answer.status,
                answer.words,
                None if token_ns is None else submit_ns - token_ns,
            )
        )
        return answer


def alike_bytes(left: bytes, right: bytes) -> int:
    """How many bytes at their begin are the same."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))
