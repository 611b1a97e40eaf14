"""CSV (RFC 4180): operations, or any other table of the case, as they are."""

from __future__ import annotations

from pathlib import Path

from whodisk.export.base import Format, Tell, Wanted, Written
from whodisk.export.tables import table_sql
from whodisk.reading.views import Case


def _write(case: Case, wanted: Wanted, file: Path, tell: Tell) -> Written:
    return Written(case.copy(table_sql(case, wanted), file, "FORMAT CSV, HEADER true", tell))


FORMAT = Format(
    name="csv",
    suffix=".csv",
    about="a table with a header line; times and lengths in nanoseconds, NULL as nothing between two commas",
    not_carried=(
        ("types and units", "CSV has neither; names of columns end in their unit"),
        ("other tables, case.json and system.json", "a file holds one table (--table chooses)"),
        ("empty text", "it looks like NULL"),
    ),
    write=_write,
    heeds=frozenset({"table"}),
)
