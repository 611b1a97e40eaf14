"""Arrow IPC file ("Feather 2"), LZ4: what pandas, Polars, DuckDB and R read without parsing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError
from whodisk.export.base import Format, Tell, Wanted, Written
from whodisk.export.tables import table_sql
from whodisk.reading.views import Case


def pyarrow() -> Any:
    """PyArrow, which whodisk does not bring. Raises WhodiskError if it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise WhodiskError(
            "Arrow: expected the Python package pyarrow, found none; pip install 'whodisk[arrow]' brings it"
        ) from None
    return pyarrow


def _write(case: Case, wanted: Wanted, file: Path, tell: Tell) -> Written:
    arrow = pyarrow()
    sql = table_sql(case, wanted)
    total = int(case.rows(f"SELECT count(*) AS n FROM ({sql})")[0]["n"] or 0)
    rows = 0
    reader = case.arrow(sql)
    options = arrow.ipc.IpcWriteOptions(compression="lz4")
    with file.open("wb") as sink, arrow.ipc.new_file(sink, reader.schema, options=options) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
            tell(rows / total if total else 1)
    return Written(rows)


FORMAT = Format(
    name="arrow",
    suffix=".arrow",
    about="an Arrow IPC file of a table; needs the package pyarrow (pip install 'whodisk[arrow]')",
    not_carried=(("other tables, case.json and system.json", "a file holds one table (--table chooses)"),),
    write=_write,
    heeds=frozenset({"table"}),
)
