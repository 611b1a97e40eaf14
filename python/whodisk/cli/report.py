"""`whodisk report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Write the report of a case: one HTML file that needs no network.

Example:  whodisk report slow.case -o slow.html
"""


def report(
    case: Annotated[Path, typer.Argument(help="Directory of the case.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write it [default: CASE/report.html]"),
    ] = None,
) -> None:
    """Solves the case if that was not done yet, and writes the report."""
    from whodisk.cli.cases import ready, write_report
    from whodisk.cli.solve import find_verdict

    case = ready(case)
    path = write_report(case, find_verdict(case), output)
    typer.echo(f"report: {path}")
