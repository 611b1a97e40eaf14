"""`whodisk gate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from whodisk.cli.output import reader_may_leave

HELP = """Fail if a case is worse than its baseline by more than allowed: for CI.

Examples:

  whodisk gate base.case new.case --max-regression 5%

  whodisk gate base/ new/ --max-regression 10% --metric p99 --metric iops --strict

  whodisk gate base.case new.case --metric 'prefetch coverage' --metric 'no uncached_tail'

It fails (exit code 1) if the whole 95 % interval is beyond the limit, passes if the whole interval is within, and else says "inconclusive":
exit code 0, or 1 with --strict. The last argument is judged, those before it are the baseline; each is a case or a directory of cases.
With fewer than three runs on a side it speaks of these runs only.

Metrics: iops, bandwidth, mean, p50 to p99.999, a stage, each perhaps of one kind ('read p99'); 'prefetch accuracy', 'prefetch coverage',
'tail misses', 'tier NAME' (its share of the bytes); 'no DETECTOR' (that finding must not be there).
"""


def gate(
    cases: Annotated[
        list[Path],
        typer.Argument(
            metavar="BASELINE... CASE", help="Cases, or directories of cases.", show_default=False
        ),
    ],
    max_regression: Annotated[
        str, typer.Option(metavar="PERCENT", help="How much worse it may be, e.g. 5%.")
    ] = "5%",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What must not get worse; may be repeated [default: iops; p99 at a fixed rate]",
        ),
    ] = None,
    layer: Annotated[
        str | None, typer.Option(metavar="LAYER", help="Layer [default: the topmost that all have]")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if it is inconclusive, too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Reads, judges, prints; the exit code is the answer."""
    from whodisk.cli.cases import ready
    from whodisk.cli.solve import find_verdict
    from whodisk.errors import WhodiskError
    from whodisk.experiment import gate as rules
    from whodisk.experiment.comparison import Side, read_sides, sides_of
    from whodisk.report.comparison import render_gate

    if len(cases) < 2:
        raise WhodiskError(
            f"expected a baseline and a case, found {len(cases)} path; see whodisk gate --help"
        )
    limit = rules.limit_of(max_regression)
    numbers, absent = rules.split_metrics(metric or [])
    found = sides_of(cases, ready)
    checks: list[rules.Check] = []
    if numbers or not absent:
        measured = read_sides(found, layer)
        base = Side("baseline", [run for side in measured[:-1] for run in side.runs])
        checks, _ = rules.check_metrics(base, measured[-1], numbers, limit)
    checks += rules.check_absent(absent, found[-1][1], find_verdict)
    result = rules.Gate(limit, checks)
    with reader_may_leave():
        if json:
            sys.stdout.write(rules.to_json(result))
        else:
            render_gate(result)
    if result.outcome == rules.FAIL or (strict and result.outcome == rules.INCONCLUSIVE):
        raise typer.Exit(1)
