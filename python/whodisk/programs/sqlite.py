"""SQLite in WAL mode: transactions of three writes, each committed with a sync, and reads between them."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from programs.base import Load, Log, Place, Program, call_me, emptied, logging_itself, read_log

ROWS = 20_000
VALUE_BYTES = 200
WRITES = 3
LOG = "sqlite.log"


def set_up(place: Place) -> None:
    """A database with some rows."""
    chance = random.Random(place.seed)
    connection = sqlite3.connect(place.data / "load.db")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, value BLOB)")
    connection.executemany(
        "INSERT INTO items VALUES (?, ?)", ((n, chance.randbytes(VALUE_BYTES)) for n in range(ROWS))
    )
    connection.commit()
    connection.close()


def ready(place: Place, seconds: float) -> AbstractContextManager[Load]:
    """Nothing runs before."""
    return logging_itself("programs.sqlite", place, seconds, LOG, data=place.data / "load.db")


def own_log(place: Place) -> Log:
    """Each commit and each read, as the program that called SQLite saw them."""
    return read_log(place.scratch / LOG)


def main() -> None:
    """The load itself."""
    call_me("sqlite")
    o = json.loads(sys.argv[1])
    chance, log = random.Random(o["seed"]), Log()
    connection = sqlite3.connect(o["data"], isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    end = time.monotonic() + o["seconds"]
    while time.monotonic() < end:
        begin_ns = time.monotonic_ns()
        connection.execute("BEGIN")
        for _ in range(WRITES):
            connection.execute(
                "UPDATE items SET value = ? WHERE id = ?",
                (chance.randbytes(VALUE_BYTES), chance.randrange(ROWS)),
            )
        connection.execute("COMMIT")
        log.add("commit", begin_ns, time.monotonic_ns() - begin_ns)
        begin_ns = time.monotonic_ns()
        connection.execute("SELECT value FROM items WHERE id = ?", (chance.randrange(ROWS),)).fetchone()
        log.add("read", begin_ns, time.monotonic_ns() - begin_ns)
    connection.close()
    log.write(Path(o["log"]))


PROGRAM = Program(
    name="sqlite",
    words="SQLite, WAL, synchronous=FULL; its caller's log of commits and reads",
    needs={},
    comms=("sqlite",),
    worker="sqlite",
    set_up=set_up,
    ready=ready,
    own_log=own_log,
    tear_down=emptied,
)
