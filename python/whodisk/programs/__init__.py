"""Real programs that people run on storage: one file each. Needs nothing but Python itself, so that a load starts quickly.

A program is set up on a file system, runs for some seconds, and reports the latencies that it saw itself.
"""

from __future__ import annotations

from whodisk.programs import db_bench, dd, fio, postgresql, sqlite, tar, trees, ycsb
from whodisk.programs.base import Program

PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        fio.PROGRAM,
        postgresql.PROGRAM,
        db_bench.PROGRAM,
        tar.PROGRAM,
        sqlite.PROGRAM,
        *sqlite.PROGRAMS,
        *postgresql.PROGRAMS,
        *fio.PROGRAMS,
        *trees.PROGRAMS,
        dd.PROGRAM,
        *ycsb.PROGRAMS,
    )
}
"""By name: the registry. A program is one file and one word here, at the end: places decide which cells a test set keeps for itself."""

#: Other names that people know them by.
ALIASES = {"pgbench": "postgresql", "pgbench-select": "postgresql-select", "fio-psync": "fio"}
