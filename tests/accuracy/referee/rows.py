"""Rows of the table: program x file system x fault; and which runs a set has."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.accuracy.referee.faults import FAULTS, Fault
from tests.accuracy.referee.seeds import DEVELOPMENT, TEST, digest, held_out, seed
from whodisk.programs import PROGRAMS
from whodisk.programs.base import Program

FILE_SYSTEMS = {
    "ext4": "mkfs.ext4",
    "xfs": "mkfs.xfs",
    "btrfs": "mkfs.btrfs",
}
NONE = "none"
#: Of so many runs of a set one is without a fault (DESIGN 10: 150 beside 400).
HEALTHY_EVERY = 4


@dataclass(frozen=True)
class Row:
    """One row."""

    program: Program
    file_system: str
    #: None: nothing is done to it.
    fault: Fault | None

    @property
    def name(self) -> str:
        """`sqlite/xfs/flush-tail`."""
        return f"{self.program.name}/{self.file_system}/{self.fault.name if self.fault else NONE}"

    @property
    def cell(self) -> str:
        """Program and fault: what fails together."""
        return f"{self.program.name}/{self.fault.name if self.fault else NONE}"

    @property
    def held_out(self) -> bool:
        """Whether it occurs in the test set only."""
        if self.fault is None:
            return False
        return held_out(list(PROGRAMS).index(self.program.name), FAULTS.index(self.fault))


ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        Row(program, file_system, fault)
        for program in PROGRAMS.values()
        for file_system in FILE_SYSTEMS
        for fault in (None, *FAULTS)
        if fault is None or not fault.workers or program.worker in fault.workers
    )
}


@dataclass(frozen=True)
class Run:
    """One run of a set of a freeze."""

    of_set: str
    row: Row
    number: int
    seed: int

    def magnitudes(self) -> dict[str, float]:
        """What is done, by name with unit; nothing without a fault."""
        return self.row.fault.draw(random.Random(f"magnitudes {self.seed}")) if self.row.fault else {}


def runs(
    commit: str, of_set: str, count: int, used: dict[str, int] | None = None, rows: list[str] | None = None
) -> Iterator[Run]:
    """The runs of a set, in an order that the freeze draws: wherever it is stopped, faults and healthy runs are mixed.

    `used`: for each row the highest number that another judge saw of this commit; numbers go on from there. `rows`: only
    these (development, which takes rows in turn). Held-out cells come in the test set only.
    """
    allowed = [
        row
        for row in ROWS.values()
        if (of_set == TEST or not row.held_out) and (rows is None or row.name in rows)
    ]
    faulty = [row for row in allowed if row.fault]
    healthy = [row for row in allowed if not row.fault]
    numbers = dict(used or {})
    rounds = {True: _rounds(commit, of_set, faulty), False: _rounds(commit, of_set, healthy)}
    in_turn = itertools.cycle(allowed)
    for place in range(count):
        wants_fault = place % HEALTHY_EVERY != HEALTHY_EVERY - 1
        row = next(in_turn) if of_set == DEVELOPMENT else next(rounds[wants_fault])
        numbers[row.name] = numbers.get(row.name, 0) + 1
        yield Run(of_set, row, numbers[row.name], seed(commit, of_set, row.name, numbers[row.name]))


def _rounds(commit: str, of_set: str, rows: list[Row]) -> Iterator[Row]:
    """All rows in an order drawn by the freeze, then all in another one."""
    for number in itertools.count():
        yield from sorted(rows, key=lambda row: digest("order", commit, of_set, number, row.name))


def refused(names: list[str], of_set: str) -> str | None:
    """Why these rows cannot be run in a set; None if they can."""
    if of_set != DEVELOPMENT:
        return f"the {of_set} set is drawn, nobody chooses its rows; leave --rows out, or use --set {DEVELOPMENT}"
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        return (
            f"{unknown[0]}: expected PROGRAM/FILE_SYSTEM/FAULT, such as {next(iter(ROWS))}; --list shows all"
        )
    held = [name for name in names if ROWS[name].held_out]
    return f"{held[0]} is held out: it occurs in the test set only" if held else None
