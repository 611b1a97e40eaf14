"""The Typer application: one file per command, put together here."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import whodisk
from whodisk.cli import (
    agent,
    compare,
    copy,
    demo,
    experiment,
    export,
    gate,
    locate,
    report,
    run,
    score,
    solve,
)
from whodisk.cli.completion import BinaryCommand
from whodisk.copies.specification import COMMAND


@dataclass(frozen=True)
class Invocation:
    """What a command needs to know of the command line beyond its own options."""

    #: Everything after ` -- `; None if there was none.
    command: list[str] | None


app = typer.Typer(
    name="whodisk",
    help="Finds what makes storage slow, and proves it.",
    epilog="Exit codes: 0 done; 1 a requested check failed; 2 wrong use or error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"whodisk {whodisk.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finds what makes storage slow, and proves it."""


app.command("demo", help=demo.HELP)(demo.demo)
app.command("run", help=run.HELP, short_help=agent.COMMANDS["run"], cls=BinaryCommand)(run.run)
# What `run` becomes for the specification of a copy (main.py).
app.command(COMMAND, hidden=True)(copy.run_copy)
app.command("solve", help=solve.HELP)(solve.solve)
app.command(
    "compare", help=compare.HELP, short_help="Say whether two cases differ, by how much, and how sure."
)(compare.compare)
app.command("experiment", help=experiment.HELP, short_help="Run arms by turns and say whether they differ.")(
    experiment.experiment
)
app.command("gate", help=gate.HELP, short_help="Fail if a case is worse than its baseline beyond a limit.")(
    gate.gate
)
app.command(
    "report", help=report.HELP, short_help="Write the report of a case: one HTML file, without network."
)(report.report)
app.command("export", help=export.HELP)(export.export)
app.command("locate", help=locate.HELP)(locate.locate)
app.command(
    "score", help=score.HELP, short_help="Solve cases with a known truth and count the right verdicts."
)(score.score)


def _pass_through(name: str, text: str) -> None:
    def command(context: typer.Context) -> None:
        agent.become([name, *context.args])

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name, help=text, add_help_option=False, context_settings=settings, cls=BinaryCommand)(command)


for _name, _text in agent.COMMANDS.items():
    if _name != "run":
        _pass_through(_name, _text)


def application(arguments: list[str]) -> int:
    """Runs the application and returns its exit code; wrong use is said in one plain line."""
    command = None
    if "--" in arguments:
        split = arguments.index("--")
        arguments, command = arguments[:split], arguments[split + 1 :]
    try:
        result = app(args=arguments, prog_name="whodisk", standalone_mode=False, obj=Invocation(command))
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if not arguments:
            # What the application says is its help.
            typer.echo(message, err=True)
        elif message:
            typer.echo(f"whodisk: {message.rstrip('.')}; {_what_to_do(arguments, command)}", err=True)
        return 2
    except typer.Abort:
        return 2
    return result if isinstance(result, int) else 0


def _what_to_do(arguments: list[str], command: list[str] | None) -> str:
    """The way out of wrong use: a program that was not told from the options, or the page of the command."""
    subject = arguments[0] if arguments and not arguments[0].startswith("-") else ""
    if subject == "solve" and command is None and len(arguments) > 1:
        program = arguments[1]
        if not Path(program).exists() and shutil.which(program) is not None:
            return f"put -- before a command: whodisk solve -- {' '.join(arguments[1:])}"
    known = {one.name or getattr(one.callback, "__name__", "") for one in app.registered_commands}
    return f"see whodisk {subject} --help" if subject in known else "see whodisk --help"
