"""The command line: hands over to the binary, or starts the Typer application; prints errors plainly."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from whodisk.cli import agent
from whodisk.cli.output import silence_stdout
from whodisk.errors import WhodiskError

#: 128 + SIGINT, as shells tell of what Ctrl-C ended.
INTERRUPTED = 130
#: What DuckDB says of a query that Ctrl-C ended.
QUERY_INTERRUPTED = "Query interrupted"


def run() -> NoReturn:
    """Entry point of the script `whodisk`. Exit codes: 0 done; 1 a check failed; 2 wrong use or error; 130 interrupted."""
    try:
        sys.exit(_run(sys.argv[1:]))
    except BrokenPipeError:
        silence_stdout()
        sys.exit(0)


def _run(arguments: list[str]) -> int:
    try:
        if arguments[:1] == ["run"]:
            arguments = _run_of(arguments[1:])
        elif arguments and arguments[0] in agent.COMMANDS:
            # Nothing of Python is needed for these; do not even import it.
            agent.become(arguments)
        from whodisk.cli.app import application

        try:
            code = application(arguments)
        except SystemExit:
            # Rich leaves this way when the reader of stdout has gone; nothing else here does.
            raise BrokenPipeError from None
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except agent.AgentError as error:
        return error.exit_code
    except WhodiskError as error:
        return _fail(str(error), error)
    except KeyboardInterrupt:
        return _fail("interrupted", code=INTERRUPTED)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _fail(
            f"{name}{error.strerror or error}; check the path, its permissions and the free space", error
        )
    except Exception as error:
        if str(error) == QUERY_INTERRUPTED:
            return _fail("interrupted", code=INTERRUPTED)
        what = f"internal error: {type(error).__name__}: {error}".splitlines()[0]
        return _fail(
            f"{what}\nwhodisk: this is a bug in whodisk; please report it with the output of the same command "
            "under WHODISK_DEBUG=1",
            error,
        )


def _run_of(arguments: list[str]) -> list[str]:
    """The command line behind `run` with these arguments: of a program by its name, or of a copy. Any other access specification is the
    binary's, which takes over.
    """
    from whodisk.cli.run import is_program
    from whodisk.copies import specification

    if specification.is_among(arguments):
        return [specification.COMMAND, *arguments]
    if not is_program(arguments):
        agent.become(["run", *arguments])
    return ["run", *arguments]


def _fail(message: str, error: BaseException | None = None, code: int = 2) -> int:
    if error is not None and os.environ.get("WHODISK_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    print(f"whodisk: {message}", file=sys.stderr)
    return code
