"""SQLite: transactions of three writes, each committed, and reads between them; with either journal and either sync."""

from __future__ import annotations

import functools
import json
import random
import sqlite3
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

from whodisk.programs.base import (
    Load,
    Log,
    Place,
    Program,
    ProgramError,
    call_me,
    emptied,
    logging_itself,
    read_log,
)

ROWS = 20_000
VALUE_BYTES = 200
WRITES = 3
LOG = "sqlite.log"


def set_up(place: Place, journal: str) -> None:
    """A database with some rows."""
    chance = random.Random(place.seed)
    try:
        connection = sqlite3.connect(place.data / "load.db")
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, value BLOB)")
        connection.executemany(
            "INSERT INTO items VALUES (?, ?)",
            ((n, chance.randbytes(VALUE_BYTES)) for n in range(_rows(place.scale))),
        )
        connection.commit()
        connection.close()
    except sqlite3.Error as error:
        raise ProgramError(
            f"SQLite cannot make its database in {place.data}: {error}; choose another place"
        ) from None


def ready(place: Place, seconds: float, synchronous: str) -> AbstractContextManager[Load]:
    """Nothing runs before."""
    return logging_itself(
        "whodisk.programs.sqlite",
        place,
        seconds,
        LOG,
        data=place.data / "load.db",
        synchronous=synchronous,
        rows=_rows(place.scale),
    )


def own_log(place: Place) -> Log:
    """Each commit and each read, as the program that called SQLite saw them."""
    return read_log(place.scratch / LOG)


def main() -> None:
    """The load itself. What it saw until it failed is in its log, too."""
    call_me("sqlite")
    o = json.loads(sys.argv[1])
    log = Log()
    try:
        _load(o, log)
    except sqlite3.Error as error:
        sys.exit(f"SQLite: {o['data']}: {error}")
    finally:
        log.write(Path(o["log"]))


def _load(o: dict[str, object], log: Log) -> None:
    chance, rows, tid = random.Random(int(str(o["seed"]))), int(str(o["rows"])), threading.get_native_id()
    connection = sqlite3.connect(str(o["data"]), isolation_level=None)
    connection.execute(f"PRAGMA synchronous = {o['synchronous']}")
    end = time.monotonic() + float(str(o["seconds"]))
    while time.monotonic() < end:
        begin_ns = time.monotonic_ns()
        connection.execute("BEGIN")
        for _ in range(WRITES):
            connection.execute(
                "UPDATE items SET value = ? WHERE id = ?",
                (chance.randbytes(VALUE_BYTES), chance.randrange(rows)),
            )
        connection.execute("COMMIT")
        log.add("commit", begin_ns, time.monotonic_ns() - begin_ns, tid)
        begin_ns = time.monotonic_ns()
        connection.execute("SELECT value FROM items WHERE id = ?", (chance.randrange(rows),)).fetchone()
        log.add("read", begin_ns, time.monotonic_ns() - begin_ns, tid)
    connection.close()


def _rows(scale: float) -> int:
    return max(WRITES, round(ROWS * scale))


def _program(name: str, journal: str, synchronous: str) -> Program:
    journal_words = "write-ahead log" if journal == "WAL" else "rollback journal"
    return Program(
        name=name,
        words=f"SQLite, {journal_words}, synchronous={synchronous}; its caller's log of commits and reads",
        needs={},
        comms=("sqlite",),
        worker="sqlite",
        set_up=functools.partial(set_up, journal=journal),
        ready=functools.partial(ready, synchronous=synchronous),
        own_log=own_log,
        tear_down=emptied,
        takes=("scale",),
        room_bytes=48 << 20,
    )


PROGRAM = _program("sqlite", "WAL", "FULL")
PROGRAMS = (
    _program("sqlite-normal", "WAL", "NORMAL"),
    _program("sqlite-rollback", "DELETE", "FULL"),
    _program("sqlite-rollback-normal", "DELETE", "NORMAL"),
)
