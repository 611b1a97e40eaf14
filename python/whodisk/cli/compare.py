"""`whodisk compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from whodisk.cli.output import reader_may_leave

HELP = """Say whether two cases differ, by how much, and how sure that is.

Examples:

  whodisk compare before.case after.case

  whodisk compare runs-of-monday/ runs-of-tuesday/ --metric p99.9

  whodisk compare recorded.case modelled.case --json

Cases of any observer. A directory of cases is one side with several runs: from three runs a side on the interval says what another run would
show, with fewer it speaks of these runs only. The first side is the baseline of all others. A star marks a difference beyond noise.
"""


def compare(
    sides: Annotated[
        list[Path],
        typer.Argument(metavar="A B...", help="Cases, or directories of cases.", show_default=False),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What to look at first: iops, bandwidth, mean, p99.9, a stage, 'read p99' [default: iops; p99 at a fixed rate]",
        ),
    ] = None,
    layer: Annotated[
        str | None, typer.Option(metavar="LAYER", help="Layer [default: the topmost that all have]")
    ] = None,
    settle: Annotated[
        bool,
        typer.Option(
            "--settle", help="Leave out what comes before the rate is steady (SNIA), half of a run at most."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Reads, compares, prints."""
    from whodisk.cli.cases import ready
    from whodisk.errors import WhodiskError
    from whodisk.experiment.comparison import compared, read_sides, sides_of, to_json
    from whodisk.report.comparison import render

    if len(sides) < 2:
        raise WhodiskError(f"expected two cases or more to compare, found {len(sides)}")
    measured = read_sides(sides_of(sides, ready), layer, settle=settle)
    comparisons = [compared(measured[0], side, metric or []) for side in measured[1:]]
    with reader_may_leave():
        if json:
            sys.stdout.write(to_json(comparisons))
            return
        for number, comparison in enumerate(comparisons):
            if number:
                typer.echo()
            render(comparison)
