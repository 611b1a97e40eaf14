"""`whodisk experiment`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from whodisk.cli.output import reader_may_leave

HELP = """Run arms by turns and say whether they differ, by how much, and how sure that is.

Examples:

  whodisk experiment examples/readahead.toml

  whodisk experiment compare-schedulers.toml --repetitions 10 -o result

  whodisk experiment --restore

An arm is anything that can be set: workload, settings of the kernel, mount options, a command. Everything that is changed is written down
before and put back afterwards, also after Ctrl-C; after a crash `--restore` does it. Writes FOLDER/experiment.json, report.html and every case.
The exit code is 2 if an arm has no result.
"""


def experiment(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The experiment (TOML).", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="Where results go [default: ./NAME-<UTC time>]"
        ),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(metavar="N", help="Exactly so many rounds, whatever the file says.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Another order of runs.")] = None,
    full: Annotated[bool, typer.Option("--full", help="With what the file's table [full] changes.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything that can be checked, say what would run, and end."),
    ] = False,
    destroy: Annotated[
        list[str] | None,
        typer.Option(
            "--i-know-this-destroys",
            metavar="DEVICE",
            help="A device in use, or with data, that may be written to.",
        ),
    ] = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Put back what an experiment that was killed had changed.")
    ] = False,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where changes are written down [default: /var/lib/whodisk]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Reads, checks, runs, prints."""
    from whodisk.errors import WhodiskError
    from whodisk.experiment.journal import default_path
    from whodisk.experiment.plan import read

    where = journal or default_path()
    if restore:
        _restore(where)
        return
    if file is None:
        raise WhodiskError(
            "expected an experiment file, or --restore, found neither; see whodisk experiment --help"
        )
    plan = read(file, full=full, seed=seed, repetitions=repetitions)
    folder = output or Path(f"{plan.name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    conduct(plan, folder, where, destroy or [], dry_run=dry_run, json=json)


def conduct(
    plan: object,
    folder: Path,
    journal: Path,
    allowed: list[str],
    *,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Runs a plan and shows its result."""
    from whodisk.cli import agent
    from whodisk.errors import WhodiskError
    from whodisk.experiment.conduct import Conductor
    from whodisk.experiment.outcome import to_json
    from whodisk.experiment.plan import Plan
    from whodisk.report.experiment import render, write

    assert isinstance(plan, Plan)
    if folder.exists():
        raise WhodiskError(f"{folder}: expected no such folder yet, found one; choose another with -o")
    conductor = Conductor(plan, agent.find(), folder, journal, allowed, _say)
    if dry_run:
        conductor.check()
        typer.echo(
            f"{len(plan.arms)} arms, {plan.rule.least} to {plan.rule.most} rounds; nothing was found that stands against it"
        )
        for arm in plan.arms:
            typer.echo(f"  {arm.name}: {arm.load[0]}")
        return
    result = conductor.run()
    text = to_json(result)
    (folder / "experiment.json").write_text(text, encoding="utf-8")
    write(result, folder / "report.html")
    with reader_may_leave():
        if json:
            sys.stdout.write(text)
        else:
            render(result)
            typer.echo(f"report: {folder / 'report.html'}")
    if any(not result.side(arm.name).runs for arm in plan.arms):
        raise typer.Exit(2)


def _restore(journal: Path) -> None:
    from whodisk.errors import WhodiskError
    from whodisk.experiment.settings import restore

    done, failed = restore(journal)
    for text in done:
        typer.echo(text)
    if failed:
        raise WhodiskError("; ".join(failed) + f"; what could not be put back stays in {journal}")
    if not done:
        typer.echo(f"nothing to put back ({journal})")


def _say(text: str) -> None:
    print(f"whodisk: {text}", file=sys.stderr, flush=True)
