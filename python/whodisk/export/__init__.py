"""Cases for tools that somebody else likes: one file per format, and a line in `FORMATS`.

An exporter streams: its memory does not grow with the case. What its format cannot carry it declares, and it counts what it leaves
out. A sampled case's rows are exported once each, as they were recorded.
"""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import Path

from whodisk.errors import WhodiskError
from whodisk.export import arrow_file, csv_table, fio_iolog, fio_log, hdr_log, perfetto
from whodisk.export.base import Format, Tell, Wanted, Written, draft
from whodisk.reading.views import TABLES, Case

#: Every format.
FORMATS: tuple[Format, ...] = (
    perfetto.FORMAT,
    fio_log.FORMAT,
    fio_iolog.FORMAT,
    hdr_log.FORMAT,
    csv_table.FORMAT,
    arrow_file.FORMAT,
)

__all__ = ["FORMATS", "Format", "Wanted", "Written", "export", "format_named"]


def format_named(name: str) -> Format:
    """The format of this name. Raises WhodiskError, which lists those there are."""
    by_name = {known.name: known for known in FORMATS}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise WhodiskError(
        f"format: expected one of {', '.join(by_name)}, found '{name}'; {meant}see whodisk export --list"
    )


def export(case: Case, form: Format, wanted: Wanted, output: Path, tell: Tell, *, overwrite: bool) -> Written:
    """Writes `output` whole or not at all. Raises WhodiskError where nothing is wanted that the format has, and OSError."""
    wanted = _checked(case, form, wanted)
    with draft(output, case.path, overwrite) as file:
        written = form.write(case, wanted, file, tell)
        if written.rows == 0:
            why = "; ".join(f"{count} left out: {reason}" for reason, count in written.left_out.items())
            raise WhodiskError(
                f"{case.path}: expected rows for {form.name}, found none of the {wanted.table} that were chosen"
                f"{f' ({why})' if why else ''}; choose others, or another format"
            )
    return written


def _checked(case: Case, form: Format, wanted: Wanted) -> Wanted:
    plain = Wanted()
    for name in ("table", "interval_ns"):
        if name not in form.heeds and getattr(wanted, name) != getattr(plain, name):
            option = "--" + name.removesuffix("_ns")
            raise WhodiskError(
                f"{option}: expected only with a format that has it, found it with {form.name}"
            )
    if wanted.table != "ops":
        if wanted.table not in TABLES:
            known = ", ".join(["ops", *TABLES])
            raise WhodiskError(f"--table: expected one of {known}, found '{wanted.table}'")
        if dataclasses.replace(wanted, table="ops", interval_ns=plain.interval_ns) != plain:
            raise WhodiskError(
                f"--table {wanted.table}: expected the whole table, found a choice of operations; leave that out"
            )
        return wanted
    for layer in wanted.layers:
        if layer not in case.layers:
            found = ", ".join(case.layers) or "none"
            raise WhodiskError(
                f"{case.path}: layer {layer}: expected one of those observed, which are: {found}"
            )
    if form.one_layer and len(wanted.layers) != 1:
        if wanted.layers or not case.layers:
            raise WhodiskError(
                f"{case.path}: {form.name} has one layer, found {len(wanted.layers or case.layers)} to write; "
                "choose one with --layer"
            )
        return dataclasses.replace(wanted, layers=case.layers[:1])
    return wanted
