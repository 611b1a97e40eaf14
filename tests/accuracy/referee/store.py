"""Results, kept once: a file of JSON lines to which lines are only ever added.

Kinds of lines, by `kind`: `freeze` (what was frozen), `machine` (what the machine did during a run, and whether the run is
set aside: written before it is solved), `result` (the first solve), `again` (a later solve; for a table of its own),
`revealed` (from here on the verdicts of a test set are shown one by one: it is development data).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]
#: What names a run.
KEY = ("freeze", "set", "row", "number")


class StoreError(Exception):
    """The file breaks a rule of the store, or somebody asked to break one."""


def key(line: Line) -> tuple[Any, ...]:
    """What names the run of a line."""
    return tuple(line[name] for name in KEY)


class Store:
    """The lines of a file, in order. Reading checks every rule that adding does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Line] = []
        if path.exists():
            for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    line = json.loads(text)
                except ValueError:
                    raise StoreError(
                        f"{path}, line {number}: expected JSON, found {text[:60]!r}; restore the file from git"
                    ) from None
                self._check(line, f"{path}, line {number}")
                self.lines.append(line)

    def add(self, line: Line) -> None:
        """Adds a line, and has it on the disk when it returns. Raises StoreError where a rule is broken."""
        self._check(line, str(self.path))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, (json.dumps(line, sort_keys=True) + "\n").encode())
            os.fsync(file)
        finally:
            os.close(file)
        self.lines.append(line)

    def of(self, kind: str, **wanted: object) -> Iterator[Line]:
        """Lines of a kind with these values."""
        for line in self.lines:
            if line["kind"] == kind and all(line.get(name) == value for name, value in wanted.items()):
                yield line

    def _check(self, line: Line, where: str) -> None:
        kind = line.get("kind")
        if kind == "freeze":
            if any(True for _ in self.of("freeze", freeze=line["freeze"])):
                raise StoreError(f"{where}: the freeze {line['freeze']} stands there already")
            return
        if kind not in ("machine", "result", "again", "revealed"):
            raise StoreError(
                f"{where}: expected freeze, machine, result, again or revealed as kind, found {kind!r}"
            )
        if not any(True for _ in self.of("freeze", freeze=line["freeze"])):
            raise StoreError(f"{where}: the freeze {line['freeze']} of this {kind} does not stand there")
        if kind == "revealed":
            return
        run = dict(zip(KEY, key(line), strict=True))
        solved = any(True for _ in self.of("result", **run))
        attempts = list(self.of("machine", **run))
        if kind == "machine":
            if solved:
                raise StoreError(f"{where}: {run} was solved before: a run is solved once")
            if attempts and not attempts[-1]["aside"]:
                raise StoreError(f"{where}: {run} was recorded, and not set aside: it is solved as it is")
        elif kind == "result":
            if solved:
                raise StoreError(f"{where}: {run} was solved before: a run is solved once")
            if not attempts or attempts[-1]["aside"]:
                raise StoreError(
                    f"{where}: {run}: what the machine did must stand there, and not set the run aside, before it is solved"
                )
        elif not solved:
            raise StoreError(f"{where}: {run} was never solved, so it cannot be solved again")
