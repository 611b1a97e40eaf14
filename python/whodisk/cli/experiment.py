"""`whodisk experiment`."""

from __future__ import annotations

import json as json_text
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whodisk.cli.output import reader_may_leave

if TYPE_CHECKING:
    from whodisk.experiment.conduct import Result
    from whodisk.experiment.plan import Plan

HELP = """Run arms by turns and say whether they differ, by how much, and how sure that is.

Examples:

  whodisk experiment examples/readahead.toml

  whodisk experiment compare-schedulers.toml --repetitions 10 -o result

  whodisk experiment --restore

  whodisk experiment --refute slow.case

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
        int | None, typer.Option(metavar="N", help="Run exactly N rounds, whatever the file says.")
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
    refute: Annotated[
        Path | None,
        typer.Option(
            metavar="CASE",
            help="Try to show the case's first finding wrong: its load again, with and without the suspect.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --refute: do not ask before anything is touched.")
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
    if refute is not None:
        folder = output or Path(f"refute-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
        _refute(refute, folder, where, destroy or [], repetitions, yes=yes, json=json)
        return
    if file is None:
        raise WhodiskError(
            "expected an experiment file, --refute CASE or --restore, found none of them; see whodisk experiment --help"
        )
    plan = read(file, full=full, seed=seed, repetitions=repetitions)
    folder = output or Path(f"{file.stem}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    if dry_run:
        _dry_run(plan, destroy or [])
        return
    result = conduct(plan, folder, where, destroy or [], json=json)
    if any(not result.side(arm.name).runs for arm in plan.arms):
        raise typer.Exit(2)


def _dry_run(plan: Plan, allowed: list[str]) -> None:
    from whodisk.cli import agent
    from whodisk.experiment.conduct import Conductor

    Conductor(plan, agent.find(), Path(), Path(), allowed, _say).check()
    typer.echo(
        f"{len(plan.arms)} arms, {plan.rule.least} to {plan.rule.most} rounds; nothing was found that stands against it"
    )
    for arm in plan.arms:
        typer.echo(f"  {arm.name}: {arm.load[0]}")


def conduct(plan: Plan, folder: Path, journal: Path, allowed: list[str], *, json: bool = False) -> Result:
    """Runs a plan and shows its result."""
    from whodisk.cli import agent
    from whodisk.errors import WhodiskError
    from whodisk.experiment.conduct import Conductor
    from whodisk.experiment.outcome import to_json
    from whodisk.report.experiment import render, write

    if folder.exists():
        raise WhodiskError(f"{folder}: expected no such folder yet, found one; choose another with -o")
    conductor = Conductor(plan, agent.find(), folder, journal, allowed, _say)
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
    return result


def _refute(
    case_path: Path,
    folder: Path,
    journal: Path,
    allowed: list[str],
    repetitions: int | None,
    *,
    yes: bool,
    json: bool,
) -> None:
    from whodisk.cli.cases import ready
    from whodisk.cli.solve import find_verdict
    from whodisk.errors import WhodiskError
    from whodisk.experiment.plan import plan_of
    from whodisk.experiment.refute import conclusion, is_same, refutation
    from whodisk.reading.views import Case

    path = ready(case_path)
    with Case(path) as case:
        found = refutation(case, find_verdict(path))
    plan = plan_of(path, found.table(), repetitions=repetitions)
    typer.echo(f"Finding: {found.finding.claim}", err=True)
    typer.echo(
        f"To see whether it is there without the suspect: {'; '.join(found.touches)}; put back afterwards.",
        err=True,
    )
    if not yes:
        if not sys.stdin.isatty():
            raise WhodiskError("expected --yes where nobody can be asked, found none; nothing was touched")
        typer.confirm("Go on?", abort=True)
    result = conduct(plan, folder, journal, allowed, json=json)
    counts = {}
    for arm in plan.arms:
        verdicts = [find_verdict(run.path) for run in result.side(arm.name).runs]
        counts[arm.name] = (
            sum(any(is_same(found.finding, f) for f in v.findings) for v in verdicts),
            len(verdicts),
        )
    text = conclusion(found.finding, counts)
    kept = {"conclusion": text, "runs_with_finding": counts}
    (folder / "refutation.json").write_text(json_text.dumps(kept, indent=1) + "\n", encoding="utf-8")
    typer.echo(text, err=json)


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
