"""What an exporter is, what it is asked for, and how its file comes into being."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from whodisk.errors import WhodiskError
from whodisk.reading.views import Case, quoted

#: Receives the share of the work that is done, 0 to 1.
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Wanted:
    """Which rows of a case are exported. An empty field chooses all."""

    layers: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    #: Operations that began in [from_ns, until_ns), since the start of the case.
    from_ns: int | None = None
    until_ns: int | None = None
    #: Table of the case, for formats that carry tables.
    table: str = "ops"
    #: Length of an interval, for formats that have intervals.
    interval_ns: int = 1_000_000_000

    def condition(self) -> str:
        """SQL: whether a row of `recorded_ops` is wanted."""
        tests = [
            f"{column} IN ({', '.join(quoted(name) for name in names)})"
            for column, names in (("layer", self.layers), ("device", self.devices), ("op", self.ops))
            if names
        ]
        if self.from_ns is not None:
            tests.append(f"start_ns >= {self.from_ns}")
        if self.until_ns is not None:
            tests.append(f"start_ns < {self.until_ns}")
        return " AND ".join(tests) or "TRUE"


@dataclass(frozen=True)
class Written:
    """What came of an export."""

    rows: int
    #: Wanted rows that the format cannot carry, by reason.
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """A format that a case can be written in."""

    #: Name on the command line.
    name: str
    #: How the name of a file in it ends.
    suffix: str
    #: What it is, in a few words.
    about: str
    #: What it can never carry, and why.
    not_carried: tuple[tuple[str, str], ...]
    #: Writes what is wanted into a file that exists and is empty. Raises WhodiskError, OSError.
    write: Callable[[Case, Wanted, Path, Tell], Written]
    #: Whether it has one layer: without a choice, the highest that was observed.
    one_layer: bool = False
    #: Fields of `Wanted` beyond the choice of operations that it heeds: table, interval_ns.
    heeds: frozenset[str] = frozenset()
    #: Only these operations: the format has names for their kinds; others are left out and counted.
    only_ops: tuple[str, ...] = ()


def count_left_out(case: Case, wanted: Wanted, reasons: Mapping[str, str]) -> dict[str, int]:
    """How many wanted operations each reason keeps out; `reasons`: SQL conditions, of which the first that holds counts."""
    whens = " ".join(f"WHEN {condition} THEN {quoted(reason)}" for reason, condition in reasons.items())
    sql = f"SELECT CASE {whens} END AS reason, count(*) AS n FROM recorded_ops WHERE {wanted.condition()} GROUP BY 1"
    counted = {str(row["reason"]): int(row["n"] or 0) for row in case.rows(sql) if row["reason"] is not None}
    return {reason: counted[reason] for reason in reasons if reason in counted}


def carried(wanted: Wanted, reasons: Mapping[str, str]) -> str:
    """SQL: whether a row of `recorded_ops` is wanted, and no reason keeps it out."""
    return " AND ".join([wanted.condition(), *(f"NOT coalesce({test}, FALSE)" for test in reasons.values())])


@contextmanager
def draft(path: Path, case: Path, overwrite: bool) -> Iterator[Path]:
    """A new, empty file that takes the place of `path` at the end if nothing goes wrong inside, and is removed if it does.

    Who may read `case.json` of `case` may read it, nobody else: it reveals the same paths and command lines. What stands
    at `path` is replaced only with `overwrite`, and at once. Raises WhodiskError, OSError.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise WhodiskError(
            f"{path}: expected a file, or none yet, found {_kind(path)}, which stays as it is; name a file with -o"
        )
    if not overwrite and path.exists():
        raise _stands_there(path)
    mode = (case / "case.json").stat().st_mode & 0o666
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(number, mode)
        os.close(number)
        yield beside
        if overwrite:
            beside.replace(path)
        else:
            # Fails where a file has come into being meanwhile, as a rename would not.
            path.hardlink_to(beside)
    except FileExistsError:
        raise _stands_there(path) from None
    except OSError as error:
        # The draft's name is nothing that the reader knows.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            beside.unlink()


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "a symbolic link"
    return "a folder" if path.is_dir() else "a device, a pipe or a socket"


def _stands_there(path: Path) -> WhodiskError:
    return WhodiskError(
        f"{path}: expected no such file, found one; choose another with -o, or replace it with --overwrite"
    )
