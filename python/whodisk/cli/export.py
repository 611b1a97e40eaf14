"""`whodisk export`."""

from __future__ import annotations

import json as json_text
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whodisk.errors import WhodiskError

if TYPE_CHECKING:
    from whodisk.export import Format, Written
    from whodisk.export.base import Tell

_UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}

HELP = """Write a case in a format of other tools.

Examples:

  whodisk export --list

  whodisk export perfetto slow.case --from 1.5s --until 2s     open it in ui.perfetto.dev

  whodisk export fio-iolog slow.case --layer block --device vda -o replay.iolog

  whodisk export csv slow.case --table series -o series.csv

Without -o the file is named after the case and stands in this directory. --list says what a format cannot carry; what was left out
of a case is counted.
"""


def export(
    form: Annotated[
        str | None, typer.Argument(metavar="FORMAT", show_default=False, help="See --list.")
    ] = None,
    case: Annotated[Path | None, typer.Argument(help="Directory of the case.", show_default=False)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where to write it [default: named after the case]"
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that stands there.")] = False,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER", help="Only this layer: app, syscall, block or device; may be repeated."
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only operations of this device; may be repeated."),
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Only reads, say; may be repeated.")
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only what began then or later, e.g. 1.5s.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only what began before.")] = None,
    table: Annotated[
        str, typer.Option(metavar="TABLE", help="csv, arrow: which table of the case, e.g. links.")
    ] = "ops",
    interval: Annotated[str, typer.Option(metavar="TIME", help="hdr: length of an interval.")] = "1s",
    list_formats: Annotated[bool, typer.Option("--list", help="List the formats and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result, or the list, as JSON.")] = False,
) -> None:
    """Seals if necessary, writes the file, prints what is in it and what is not."""
    from whodisk.export import Wanted, format_named
    from whodisk.export import export as write
    from whodisk.reading.views import Case

    if list_formats:
        _list(json)
        return
    if form is None or case is None:
        raise WhodiskError("expected FORMAT and CASE, found too little; see whodisk export --help")
    chosen = format_named(form)
    wanted = Wanted(
        layers=tuple(layer or ()),
        devices=tuple(device or ()),
        ops=tuple(op or ()),
        from_ns=_time(begin, "--from"),
        until_ns=_time(until, "--until"),
        table=table,
        interval_ns=_time(interval, "--interval") or 0,
    )
    from whodisk.cli.cases import ready

    case = ready(case)
    path = output or Path(case.resolve().name.removesuffix(".case") + chosen.suffix)
    with Case(case, memory_limit="1GiB") as opened, _progress(f"writing {path}") as tell:
        written = write(opened, chosen, wanted, path, tell, overwrite=overwrite)
    _print(chosen, path, written, json)


def _time(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ns|us|ms|s|min|h)", text)
    if match is None:
        raise WhodiskError(f"{option}: expected a time such as 500ms or 1.5s, found '{text}'")
    return round(float(match[1]) * _UNITS_NS[match[2]])


@contextmanager
def _progress(title: str) -> Iterator[Tell]:
    """Shows the share that is done on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _share: None
        return
    from rich.console import Console

    with Console(stderr=True).status(title) as status:
        yield lambda share: status.update(f"{title}: {100 * share:.0f} %")


def _print(form: Format, path: Path, written: Written, as_json: bool) -> None:
    if as_json:
        facts = {"format": form.name, "output": str(path), "bytes": path.stat().st_size, "rows": written.rows}
        typer.echo(
            json_text.dumps(facts | {"left_out": written.left_out, "not_carried": _declared(form)}, indent=1)
        )
        return
    from whodisk import words

    typer.echo(f"{path}: {words.things(written.rows, 'row')}, {words.size(path.stat().st_size)}")
    for reason, count in written.left_out.items():
        typer.echo(f"left out: {words.count(count)}, {reason}")
    typer.echo(f"not carried: {'; '.join(what for what, _ in form.not_carried)}")


def _list(as_json: bool) -> None:
    from whodisk.export import FORMATS

    if as_json:
        rows = [{"name": form.name, "about": form.about, "not_carried": _declared(form)} for form in FORMATS]
        typer.echo(json_text.dumps(rows, indent=1))
        return
    for form in FORMATS:
        typer.echo(f"{form.name:<10} {form.about}")
        for what, because in form.not_carried:
            typer.echo(f"{'':<10}   not carried: {what} ({because})")


def _declared(form: Format) -> list[dict[str, str]]:
    return [{"what": what, "because": because} for what, because in form.not_carried]
