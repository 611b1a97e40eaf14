"""`whodisk run PROGRAM`: a real program, recorded, with the latencies that it saw itself. Access specifications go to the binary."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from whodisk.cli import agent
from whodisk.errors import WhodiskError
from whodisk.programs import ALIASES, PROGRAMS
from whodisk.programs.base import Place, Program, ProgramError, told_of

HELP = """Run a real program, record it, and put the latencies that it saw itself into the case.

Examples:

  whodisk run --list

  whodisk run sqlite

  whodisk run ycsb-b --seconds 60 --clients 8 --rate 20000 --path /mnt/nvme -o ycsb.case

  whodisk run spec.toml                             an access specification: whodisk run SPEC --help

The program works in a new folder below --path, which is removed at the end; nothing else is touched. Its own operations
become layer app of the case, tied to the system calls of the same thread. Solve the case with `whodisk solve CASE`.
"""

#: Logs and sockets of a program lie in memory where they can: no disk but the one that is looked at takes part.
MEMORY = Path("/dev/shm")
SECONDS_MAX = 86_400.0


def is_program(arguments: list[str]) -> bool:
    """Whether `run` with these arguments is for a program; else it is for the binary. A file of that name is a specification."""
    known = [word for word in arguments if word in PROGRAMS or word in ALIASES]
    if "--list" in arguments or any(not Path(word).is_file() for word in known):
        return True
    name = arguments[0] if arguments else "-"
    # A word that is no path and no option: a program that there is not.
    return not (name.startswith("-") or "/" in name or "." in name or Path(name).exists())


def run(
    name: Annotated[
        str | None, typer.Argument(metavar="PROGRAM", help="Its name; --list shows them.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="CASE", help="Directory of the case [default: ./whodisk-<UTC time>]"
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, max=SECONDS_MAX, help="How long it runs.")] = 30.0,
    path: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Where its data go, into a new folder [default: here]", show_default=False
        ),
    ] = Path(),
    clients: Annotated[
        int | None, typer.Option(min=1, max=1024, help="How many do it at once.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="Operations per second, over all clients; each then counts from when it was due.",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option(min=0.01, max=10_000, help="Multiply the size of the data by this.")
    ] = 1.0,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**62, help="Draws contents, keys and order.", show_default=False)
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave its data where they are.")] = False,
    drop_raw: Annotated[bool, typer.Option("--drop-raw", help="Keep only the Parquet tables.")] = False,
    mode: Annotated[
        str | None, typer.Option(metavar="MODE", help="Who may read the case, e.g. 0640 [default: 0600]")
    ] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="List the programs, and what each needs.")
    ] = False,
) -> None:
    """Sets up, records, reads the program's log, seals."""
    if list_them:
        _list()
        return
    if name is None:
        raise WhodiskError("expected the name of a program, found none; `whodisk run --list` shows them")
    program = _named(name)
    wanted = {"clients": clients, "rate": rate, "scale": None if scale == 1.0 else scale}
    for option, value in wanted.items():
        if value is not None and option not in program.takes:
            takes = ", ".join(f"--{each}" for each in program.takes) or "none of them"
            raise WhodiskError(f"--{option} says nothing to {program.name}; it takes {takes}")
    if (lacking := program.missing()) is not None:
        raise WhodiskError(lacking)
    case = output or Path(time.strftime("whodisk-%Y%m%dT%H%M%SZ", time.gmtime()))
    if case.exists() and (not case.is_dir() or any(case.iterdir())):
        raise WhodiskError(
            f"{case}: expected the name of a new case, found something that is there; choose another with -o"
        )
    with _place(program, path, scale, keep) as (data, scratch):
        place = Place(data, scratch, random.randrange(2**31) if seed is None else seed, clients, rate, scale)
        _run(program, place, seconds, case, ["--mode", mode] if mode else [], drop_raw)


def _run(
    program: Program, place: Place, seconds: float, case: Path, sharing: list[str], drop_raw: bool
) -> None:
    _say(f"{program.name}: setting up in {place.data}")
    with _room(place.data):
        program.set_up(place)
    # What set-up left in memory would be written while the program runs.
    os.sync()
    ended = None
    try:
        with program.ready(place, seconds) as load:
            server = [] if load.server is None else ["--pid", str(load.server)]
            agent.call(
                [
                    "record",
                    "--of-program",
                    "--no-seal",
                    "-o",
                    str(case),
                    *sharing,
                    *server,
                    "--",
                    *load.command,
                ]
            )
    except ProgramError as error:
        # A server that ended badly: what was recorded until then is a case.
        ended = str(error)
    if not (case / "case.json").is_file():
        raise WhodiskError(ended or f"{case}: expected a case, found none")
    status = json.loads((case / "case.json").read_text(encoding="utf-8")).get("command_status")
    trouble = _with_own_log(program, place, case, seconds)
    agent.call(["seal", str(case), *(["--drop-raw"] if drop_raw else [])])
    if ended is None and status not in (None, "exit 0"):
        ended = f"{program.name} ended in the middle, with {status}; what it said stands above"
    if ended is None:
        ended = trouble
    if ended is not None:
        raise WhodiskError(f"{ended}\nwhodisk: {case} holds what was recorded until then, and can be solved")
    _say(f"next: whodisk solve {case}")


def _with_own_log(program: Program, place: Place, case: Path, seconds: float) -> str | None:
    """Puts the program's log, and what was run, into the case; gives what is wrong with it."""
    told = told_of(program, place, seconds)
    agent.call(
        ["own-log", str(case), "--about", str(told.about), *(["--log", str(told.log)] if told.log else [])]
    )
    return told.trouble


def _named(name: str) -> Program:
    program = PROGRAMS.get(ALIASES.get(name, name))
    if program is None:
        raise WhodiskError(
            f"'{name}': expected a program ({', '.join(PROGRAMS)}) or the path of an access specification; "
            "`whodisk run --list` says what each is"
        )
    return program


def _list() -> None:
    wide = max(map(len, PROGRAMS))
    for program in PROGRAMS.values():
        takes = " ".join(f"--{option}" for option in program.takes)
        lacking = " [not installed]" if program.missing() else ""
        typer.echo(f"{program.name:{wide}}  {program.words}{lacking}")
        if takes:
            typer.echo(f"{'':{wide}}  takes {takes}")


@contextmanager
def _place(program: Program, path: Path, scale: float, keep: bool) -> Iterator[tuple[Path, Path]]:
    """Two new folders, for data and for logs; removed at the end, unless the data are to be kept."""
    if not path.is_dir():
        raise WhodiskError(
            f"{path}: expected a directory for the program's data, found none; make it, or choose another with --path"
        )
    needed, free = round(program.room_bytes * max(1.0, scale)), shutil.disk_usage(path).free
    if free < needed:
        raise WhodiskError(
            f"{path}: expected {needed >> 20} MiB of room for {program.name}, found {free >> 20}; choose another place with --path"
            + (", or a smaller --scale" if "scale" in program.takes else "")
        )
    scratch = Path(
        tempfile.mkdtemp(prefix="whodisk-run-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    )
    data = None
    try:
        data = Path(tempfile.mkdtemp(prefix=f"whodisk-{program.name}-", dir=path.resolve()))
        # Servers that are not root look into them.
        for folder in (data, scratch):
            folder.chmod(0o755)
        yield data, scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if data is not None and not keep:
            shutil.rmtree(data, ignore_errors=True)
        elif data is not None:
            _say(f"the data are in {data}")


@contextmanager
def _room(data: Path) -> Iterator[None]:
    """A set-up that fails says so in a sentence."""
    try:
        yield
    except OSError as error:
        raise WhodiskError(
            f"{error.filename or data}: cannot set the program up: {error.strerror or error}"
        ) from None


def _say(text: str) -> None:
    print(f"whodisk: {text}", file=sys.stderr, flush=True)
