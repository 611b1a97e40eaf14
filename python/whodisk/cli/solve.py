"""`whodisk solve`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whodisk.cli import agent
from whodisk.cli.output import reader_may_leave
from whodisk.errors import WhodiskError

if TYPE_CHECKING:
    from whodisk.findings import Verdict

HELP = """Say what is slow in a case, and show the evidence.

Examples:

  whodisk solve slow.case

  whodisk solve -- fio --name=db --rw=randread --direct=1 --size=1G --runtime=10 --time_based

  whodisk solve slow.case --expect 'p99<5ms' --against yesterday.case

With a command it is recorded first, into ./whodisk-<UTC time> or the directory after -o. The exit code is 1
if an expectation was not met. The case then also holds findings.json and report.html.
"""


def solve(
    context: typer.Context,
    case: Annotated[
        Path | None, typer.Argument(help="Directory of the case (none with -- CMD).", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="CASE", help="With -- CMD: directory of the new case."),
    ] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="With -- CMD: stop after this long, e.g. 30s.")
    ] = None,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="With -- CMD: replace names in the case by tokens, then solve it."),
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="With -- CMD: who may read the case, e.g. 0640 [default: 0600]"),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="What should hold, e.g. 'p99<5ms'; may be given several times."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="CASE", help="A case to take the baseline from.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Print the evidence, its queries and all that was cleared.")
    ] = False,
) -> None:
    """Records if asked to, seals if necessary, solves, saves and prints."""
    command: list[str] | None = context.obj.command
    case = _case(case, output, command, duration, redact, mode, json)
    from whodisk.cli.cases import ready, save_verdict, write_report

    case = ready(case)
    against = ready(against) if against else None
    verdict = find_verdict(case, expect or [], against)
    report: Path | None = None
    trouble: OSError | None = None
    try:
        save_verdict(case, verdict)
        report = None if no_report else write_report(case, verdict)
    except OSError as error:
        # The verdict is worth more than its copy on disk: print it first.
        trouble = error
    with reader_may_leave():
        _print(verdict, report, json, everything)
    if trouble is not None:
        raise WhodiskError(
            f"{trouble.filename or case}: cannot write: {trouble.strerror}; "
            "the verdict above is complete, but neither it nor the report is saved in the case"
        )
    if verdict.check_failed:
        raise typer.Exit(1)


def find_verdict(case: Path, expect: list[str] | None = None, against: Path | None = None) -> Verdict:
    """Runs the detectors; long work shows its progress on a terminal."""
    from whodisk.verdict.solve import solve as run_detectors

    if not sys.stderr.isatty():
        return run_detectors(case, expect=expect or [], against=against)
    from rich.console import Console

    with Console(stderr=True).status(f"solving {case}"):
        return run_detectors(case, expect=expect or [], against=against)


def _case(
    case: Path | None,
    output: Path | None,
    command: list[str] | None,
    duration: str | None,
    redact: bool,
    mode: str | None,
    as_json: bool,
) -> Path:
    if command is None:
        if case is None:
            raise WhodiskError(
                "expected a case, or a command after --, found neither; see whodisk solve --help"
            )
        if output is not None or duration is not None or redact or mode is not None:
            raise WhodiskError(
                "-o, --duration, --redact and --mode belong to a recording; expected -- CMD after them, found none "
                "(whodisk redact copies a case, whodisk seal --mode shares one)"
            )
        return case
    if case is not None or not command:
        found = f"'{case}' as well" if case is not None else "nothing after --"
        raise WhodiskError(f"expected either a case or a command after --, found {found}")
    recorded = output or Path(time.strftime("whodisk-%Y%m%dT%H%M%SZ", time.gmtime()))
    limit = ["--duration", duration] if duration else []
    names = ["--redact"] if redact else []
    access = ["--mode", mode] if mode else []
    # What the command prints is no part of the verdict.
    agent.call(["record", "-o", str(recorded), *limit, *names, *access, "--", *command], aside=as_json)
    return recorded


def _print(verdict: Verdict, report: Path | None, as_json: bool, everything: bool) -> None:
    if as_json:
        sys.stdout.write(verdict.to_json())
        return
    from whodisk.report import brief, terminal

    if everything:
        terminal.render(verdict)
        typer.echo("")
    else:
        brief.render(verdict)
    page = f"Report: {report}" if report is not None else ""
    more = "" if everything else "evidence and all that was seen: --all"
    said = "; ".join(part for part in (page, more) if part)
    typer.echo(said[:1].upper() + said[1:])
