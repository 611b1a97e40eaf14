"""A case as Arrow tables, and its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whodisk.export.arrow_file import pyarrow
from whodisk.reading.views import Case, quoted

if TYPE_CHECKING:
    from whodisk.findings import Verdict


class OpenCase:
    """A sealed case, open for reading. Tables are `pyarrow.Table`: `.to_pandas()`, `polars.from_arrow()` and DuckDB take them.

    Operations of a sampled case are there once each; those of `sql` are, as in every verdict, as often as their weight says
    (`recorded_ops` has them once). Needs the package pyarrow, but for `verdict`.
    """

    def __init__(self, path: Path | str) -> None:
        """Raises CaseError if `path` is no case, NotSealedError if `whodisk seal` has not made tables of it yet."""
        self.path = Path(path)
        self._case = Case(self.path)

    def __enter__(self) -> OpenCase:
        return self

    def __exit__(self, *_unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"whodisk.open({str(self.path)!r})  # layers: {', '.join(self.layers) or 'none'}"

    def close(self) -> None:
        """Ends reading; tables that were read stay."""
        self._case.close()

    @property
    def layers(self) -> tuple[str, ...]:
        """Layers that were observed, top of the stack first."""
        return self._case.layers

    @property
    def meta(self) -> dict[str, Any]:
        """`case.json`."""
        return self._case.meta

    @property
    def system(self) -> dict[str, Any]:
        """`system.json`: facts of the host."""
        return self._case.system

    def ops(self, layer: str | None = None, *, where: str = "TRUE", columns: str = "*") -> Any:
        """Operations of a layer (default: of all), sorted by start. `where` and `columns` are SQL over docs/reference/case-format.md's columns."""
        chosen = f"layer = {quoted(layer)}" if layer is not None else "TRUE"
        return self.sql(
            f"SELECT {columns} FROM (SELECT * FROM recorded_ops WHERE {chosen}) WHERE {where} ORDER BY start_ns, op_id"
        )

    def sql(self, query: str) -> Any:
        """What `query` finds. Its tables: `ops`, `app_ops` ... `device_ops`, `links`, `series`, and the others of the case."""
        return self.batches(query).read_all()

    def batches(self, query: str) -> Any:
        """What `query` finds as a `pyarrow.RecordBatchReader`, for what does not fit into memory; the next query ends it."""
        pyarrow()
        return self._case.arrow(query)

    def views(self) -> tuple[str, ...]:
        """Names that `sql` knows."""
        return tuple(self._case.views)

    def verdict(self, *, expect: list[str] | None = None, against: Path | str | None = None) -> Verdict:
        """Runs the detectors, as `whodisk solve` does; saves nothing. `to_json()` of it is what `--json` prints."""
        from whodisk.verdict.solve import solve

        return solve(self.path, expect=expect or [], against=Path(against) if against else None)
