"""`whodisk score`."""

from __future__ import annotations

import json as json_text
import sys
from pathlib import Path
from typing import Annotated

import typer

from whodisk.cli.output import reader_may_leave

HELP = """Solve cases with a known truth and count how often the verdict is right.

Examples:

  whodisk score lab-cases/

  whodisk score lab-cases/ --json --require-top1 0.99 --allow-false-alarms 0.01

A case counts if truth.json lies beside its case.json. Results are kept in DIR/score.jsonl: a run that was stopped goes on where it was.
The exit code is 1 if a requirement is not met.
"""


def score(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory with cases.", show_default=False)
    ],
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Solve everything again.")] = False,
    require_top1: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Part of faulty cases that must be right at once.")
    ] = None,
    allow_false_alarms: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Largest part (upper 95 % bound) of healthy cases with an accusation."
        ),
    ] = None,
) -> None:
    """Solves, counts, prints."""
    from whodisk.scoring.score import RESULTS, score_all, to_dict, total
    from whodisk.scoring.table import markdown

    if fresh:
        (directory / RESULTS).unlink(missing_ok=True)
    outcomes = score_all(directory, jobs, _progress)
    whole = total(outcomes)
    with reader_may_leave():
        if json:
            parts = {
                "real": to_dict(total(o for o in outcomes if not o.simulated)),
                "simulated": to_dict(total(o for o in outcomes if o.simulated)),
                "all": to_dict(whole),
            }
            typer.echo(json_text.dumps(parts, indent=1))
        else:
            typer.echo(markdown(outcomes), nl=False)
    failed = []
    if require_top1 is not None and whole.faulty and whole.top1 < require_top1 * whole.faulty:
        failed.append(f"{whole.top1} of {whole.faulty} right at once, {require_top1:.1%} required")
    bound = whole.false_alarm_bound
    if allow_false_alarms is not None and bound is not None and bound > allow_false_alarms:
        failed.append(f"false alarms may be {bound:.1%}, {allow_false_alarms:.1%} allowed")
    for text in failed:
        typer.echo(f"whodisk: {text}", err=True)
    if failed:
        raise typer.Exit(1)


def _progress(done: int, number: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == number else ""
        print(f"\r\x1b[Kwhodisk: {done} of {number} cases", end=end, file=sys.stderr, flush=True)
