"""What a program is: set-up, run, how its own latencies are read, tear-down."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whodisk.errors import WhodiskError

#: The folder that holds the package.
SOURCES = Path(__file__).resolve().parents[2]


class ProgramError(WhodiskError):
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
    #: How many do it at once; None: as many as the program does by itself.
    clients: int | None = None
    #: Operations per second, over all clients; None: each begins when the one before has ended.
    rate: float | None = None
    #: Multiplies the default size of the data.
    scale: float = 1.0


@dataclass
class Log:
    """The latencies that a program saw itself: columns of equal length, in any order."""

    #: CLOCK_MONOTONIC.
    start_ns: list[int] = field(default_factory=list)
    latency_ns: list[int] = field(default_factory=list)
    #: What it was: `read`, `write`, `sync`, `transaction`, `commit`, `insert`, `update`, `scan`, `modify` or `file` (docs/reference/case-format.md).
    kind: list[str] = field(default_factory=list)
    #: The thread that makes its system calls; 0 = not known.
    tid: list[int] = field(default_factory=list)
    #: How much later than it was due the program began with it; part of the latency.
    late_ns: list[int] = field(default_factory=list)

    def add(self, kind: str, start_ns: int, latency_ns: int, tid: int = 0, late_ns: int = 0) -> None:
        """One operation."""
        self.start_ns.append(start_ns)
        self.latency_ns.append(latency_ns)
        self.kind.append(kind)
        self.tid.append(tid)
        self.late_ns.append(late_ns)

    def write(self, path: Path) -> None:
        """One line per operation: kind, start_ns, latency_ns, tid, late_ns; the file is whole or not there."""
        part = path.with_suffix(".part")
        with part.open("w", encoding="utf-8") as file:
            file.writelines(
                f"{kind} {start} {latency} {tid} {late}\n"
                for kind, start, latency, tid, late in zip(
                    self.kind, self.start_ns, self.latency_ns, self.tid, self.late_ns, strict=True
                )
            )
        part.replace(path)


def read_log(path: Path) -> Log:
    """What `Log.write` wrote. Raises ProgramError if it is not there: the program did not reach its end."""
    if not path.exists():
        raise ProgramError(
            f"{path}: expected the program's own log, found none: it was ended before it wrote it"
        )
    log = Log()
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            kind, start, latency, tid, late = line.split()
            log.add(kind, int(start), int(latency), int(tid), int(late))
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
    #: Debian packages of the programs it needs, by program.
    needs: dict[str, str]
    #: Names of its threads and processes, as the kernel shows them (a prefix is enough).
    comms: tuple[str, ...]
    #: The process that does its work; this one is stopped where a program is to be stopped.
    worker: str
    #: Fills an empty folder.
    set_up: Callable[[Place], None]
    #: Starts what must run before, gives the load for this many seconds, and ends what it started.
    ready: Callable[[Place, float], AbstractContextManager[Load]]
    #: The latencies of the last run; empty where the program reports none.
    own_log: Callable[[Place], Log]
    #: Removes what `set_up` and runs left.
    tear_down: Callable[[Place], None]
    #: Which of `clients`, `rate` and `scale` it obeys.
    takes: tuple[str, ...] = ()
    #: Whether its log becomes layer app of its case.
    log_in_case: bool = True
    #: Room that its data need at scale 1, what a run of a minute adds included.
    room_bytes: int = 256 << 20
    #: File with the lines of `Log.write`, where the program writes them itself; else they come from `own_log`.
    own_file: Callable[[Place], Path] | None = None
    #: What else is known of the last run: pauses of the program, its settings; goes into the case as it is.
    about: Callable[[Place], dict[str, Any]] = lambda _: {}

    def missing(self) -> str | None:
        """Which package is not installed; None if nothing is missing."""
        absent = sorted({package for tool, package in self.needs.items() if find(tool) is None})
        return (
            f"{self.name}: expected the programs of {_packages(absent)}, found none; install with: apt-get install {' '.join(absent)}"
            if absent
            else None
        )


@dataclass(frozen=True)
class Told:
    """What goes into the case of a run beside its recording: files for `whodisk-agent own-log`."""

    #: JSON object with what was run.
    about: Path
    #: Lines of `Log.write`; None where the program's log does not become layer app, or is not there.
    log: Path | None
    #: Why its log is not there.
    trouble: str | None


def told_of(program: Program, place: Place, seconds: float) -> Told:
    """Writes what the last run says of itself into the scratch folder. Its own log may be read before, not after."""
    log: Path | None = None
    trouble = None
    try:
        if program.log_in_case and program.own_file:
            log = program.own_file(place)
        elif program.log_in_case:
            log = place.scratch / "case.log"
            program.own_log(place).write(log)
    except (ProgramError, OSError) as error:
        log, trouble = None, str(error)
    about = place.scratch / "workload.json"
    told = {
        "program": program.name,
        "words": program.words,
        "seconds": seconds,
        "seed": place.seed,
        "scale": place.scale,
        "clients": place.clients,
        "rate_per_s": place.rate,
        "path": str(place.data),
        **program.about(place),
    }
    about.write_text(json.dumps(told), encoding="utf-8")
    return Told(about, log, trouble)


def _packages(names: list[str]) -> str:
    return f"the Debian package{'s' if len(names) > 1 else ''} {', '.join(names)}"


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
    code = f"import sys; sys.path.insert(0, {str(SOURCES)!r}); from {module} import main; main()"
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
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name, encoding="ascii")


def wall_minus_monotonic_ns() -> int:
    """For logs in CLOCK_REALTIME. Good as long as nobody sets the clock between a run and the reading of its log."""
    before = time.monotonic_ns()
    wall = time.time_ns()
    return wall - (before + time.monotonic_ns()) // 2
