"""Output that whoever reads it may stop reading: `whodisk solve CASE | head -1`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """What is printed inside may stay unread; the command then goes on, and its exit code is its own."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    except SystemExit:
        # Rich leaves this way when the reader of stdout has gone; nothing that prints does so for another reason.
        silence_stdout()


def silence_stdout() -> None:
    """Whoever read stdout had enough; the interpreter must not complain about it while it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
