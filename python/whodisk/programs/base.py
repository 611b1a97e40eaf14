"""What a program is: set-up, run, how its own latencies are read, tear-down."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PR_SET_NAME = 15


class ProgramError(Exception):
    """A program cannot be run here, or ended badly; the text says which command, what it said, and what to do."""


@dataclass(frozen=True)
class Place:
    """Where a program works."""

    #: A folder on the file system that is looked at; the data stay there from run to run.
    data: Path
    #: A folder elsewhere (in memory), for logs and sockets.
    scratch: Path
    #: Draws contents, keys and the order of operations.
    seed: int


@dataclass
class Log:
    """The latencies that a program saw itself: three columns of equal length, in any order."""

    #: CLOCK_MONOTONIC.
    start_ns: list[int] = field(default_factory=list)
    latency_ns: list[int] = field(default_factory=list)
    #: What it was, in the program's words: `commit`, `read`.
    kind: list[str] = field(default_factory=list)

    def add(self, kind: str, start_ns: int, latency_ns: int) -> None:
        """One operation."""
        self.start_ns.append(start_ns)
        self.latency_ns.append(latency_ns)
        self.kind.append(kind)

    def write(self, path: Path) -> None:
        """One line per operation: kind, start_ns, latency_ns."""
        rows = zip(self.kind, self.start_ns, self.latency_ns, strict=True)
        path.write_text(
            "".join(f"{kind} {start} {latency}\n" for kind, start, latency in rows), encoding="utf-8"
        )


def read_log(path: Path) -> Log:
    """What `Log.write` wrote. Raises ProgramError if it is not there: the program did not reach its end."""
    if not path.exists():
        raise ProgramError(
            f"{path}: expected the program's own log, found none: it was ended before it wrote it"
        )
    log = Log()
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, start, latency = line.split()
        log.add(kind, int(start), int(latency))
    return log


@dataclass(frozen=True)
class Load:
    """A program that is ready to run."""

    #: Runs it for the time asked for, and ends.
    command: list[str]
    #: Process that serves it and runs already, if one does.
    server: int | None = None


@dataclass(frozen=True)
class Program:
    """One program."""

    name: str
    #: In one line, for a reader of a table.
    words: str
    #: Debian packages whose programs it needs, by program.
    needs: dict[str, str]
    #: Names of its threads and processes, as the kernel shows them (a prefix is enough).
    comms: tuple[str, ...]
    #: The process that does its work; this one is stopped where a program is to be stopped.
    worker: str
    #: Fills an empty folder.
    set_up: Callable[[Place], None]
    #: Starts what must run before, gives the load of so many seconds, and ends what it started.
    ready: Callable[[Place, float], AbstractContextManager[Load]]
    #: The latencies of the last run.
    own_log: Callable[[Place], Log]
    #: Removes what `set_up` and runs left.
    tear_down: Callable[[Place], None]

    def missing(self) -> str | None:
        """Which package is not installed; None if nothing is missing."""
        absent = [package for tool, package in self.needs.items() if find(tool) is None]
        return (
            f"{self.name} needs the Debian packages {', '.join(absent)}; `make packages-accuracy` installs them"
            if absent
            else None
        )


def find(tool: str) -> str | None:
    """Where a tool is; folders of the administrator and of PostgreSQL, too."""
    places = [
        "/usr/sbin",
        "/sbin",
        *sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True),
    ]
    return shutil.which(tool) or shutil.which(tool, path=":".join(places))


def said(command: Iterable[str | Path], *, cwd: Path | None = None) -> str:
    """What a command prints; raises ProgramError with its words if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        text = (done.stderr or done.stdout).strip()[-400:]
        raise ProgramError(f"{' '.join(words)}: exit code {done.returncode}: {text}")
    return done.stdout


def emptied(place: Place) -> None:
    """Removes all that is in the folders of a place."""
    for folder in (place.data, place.scratch):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def self_command(module: str, **options: object) -> list[str]:
    """Command line that runs the `main` of one of these files."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {module} import main; main()"
    # Options as one word of JSON: nothing is parsed twice.
    return [sys.executable, "-S", "-E", "-c", code, json.dumps(options, default=str)]


@contextmanager
def logging_itself(module: str, place: Place, seconds: float, log: str, **options: object) -> Iterator[Load]:
    """The load that the `main` of one of these files is, which leaves `log` in the place's scratch folder; nothing runs before."""
    path = place.scratch / log
    path.unlink(missing_ok=True)
    yield Load(self_command(module, log=path, seconds=seconds, seed=place.seed, **options))


def lines_of_logs(place: Place, pattern: str, lacking: str) -> list[str]:
    """All lines of the logs in the scratch folder, file by file. Raises ProgramError with `lacking` if there is none."""
    files = sorted(place.scratch.glob(pattern))
    if not files:
        raise ProgramError(f"{place.scratch}: expected {pattern}, found none; {lacking}")
    return [line for file in files for line in file.read_text(encoding="ascii").splitlines()]


def call_me(name: str) -> None:
    """The name by which the kernel shows this thread."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def wall_minus_monotonic_ns() -> int:
    """For logs in CLOCK_REALTIME. Good as long as nobody sets the clock between a run and the reading of its log."""
    before = time.monotonic_ns()
    wall = time.time_ns()
    return wall - (before + time.monotonic_ns()) // 2
