"""Errors a person can act on."""

from __future__ import annotations

from pathlib import Path


class WhodiskError(Exception):
    """Wrong use or bad input; its text is one or two plain sentences, never a traceback.

    The command line prints it as ``whodisk: <text>`` and exits with status 2.
    """


class CaseError(WhodiskError):
    """A case (or one of its files) is not what the format says.

    ``path`` names the file, ``at`` the place in it ("key version", "column op_id"); ``hint``
    says what the reader can do.
    """

    def __init__(self, path: Path | str, at: str, expected: str, found: str, hint: str) -> None:
        self.path = str(path)
        self.at = at
        self.expected = expected
        self.found = found
        self.hint = hint
        place = f"{self.path}: {at}: " if at else f"{self.path}: "
        super().__init__(f"{place}expected {expected}, found {found}; {hint}")


class NotSealedError(CaseError):
    """The case holds raw events only; it has to be sealed before it can be read."""


class ExpectationError(WhodiskError):
    """An expectation (``--expect``) could not be understood."""
