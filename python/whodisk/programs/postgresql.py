"""PostgreSQL under pgbench (TPC-B like), with a log of every transaction."""

from __future__ import annotations

import functools
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whodisk.programs.base import (
    Load,
    Log,
    Place,
    Program,
    ProgramError,
    emptied,
    find,
    lines_of_logs,
    said,
    wall_minus_monotonic_ns,
)

USER = "postgres"
#: 100,000 accounts each.
SCALE = 3
CLIENTS = 2
START_SECONDS_MAX = 60.0
SETTINGS = {
    "shared_buffers": "32MB",
    "listen_addresses": "",
    # Checkpoints happen within a run of some seconds.
    "checkpoint_timeout": "30s",
    "max_wal_size": "96MB",
    "autovacuum_naptime": "5s",
    # Which process serves which client, and when it made checkpoints.
    "log_connections": "on",
    "log_checkpoints": "on",
    "log_line_prefix": "%p %n ",
}
CHECKPOINT = re.compile(r"^\d+ (\d+\.\d+) .*checkpoint complete:.* total=(\d+\.\d+) s", re.MULTILINE)
CONNECTED = re.compile(r"^(\d+) .*connection authorized: .*application_name=pgbench", re.MULTILINE)


def set_up(place: Place) -> None:
    """A new cluster with pgbench's tables."""
    cluster = place.data / "cluster"
    cluster.mkdir()
    for folder in (cluster, place.scratch):
        shutil.chown(folder, USER, USER)
        if subprocess.run([*_as_user(), "test", "-w", str(folder)], check=False).returncode:
            raise ProgramError(
                f"{folder}: expected a folder that the user {USER} can reach, found one above it that is closed to others; "
                "choose another place with --path"
            )
    said(
        [*_as_user(), _tool("initdb"), "-D", cluster, "--auth=trust", "--no-sync", "--no-instructions"],
        cwd=place.scratch,
    )
    with (cluster / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
        file.write(f"unix_socket_directories = '{place.scratch}'\n")
    with _server(place):
        scale = max(1, round(SCALE * place.scale))
        said([*_pgbench(place), "-i", "-s", str(scale), "--quiet"], cwd=place.scratch)


@contextmanager
def ready(place: Place, seconds: float, script: str) -> Iterator[Load]:
    """The server runs before and after; whole seconds, rounded up."""
    for old in place.scratch.glob("pgbench_log.*"):
        old.unlink()
    with _server(place) as pid:
        command = [
            *_pgbench(place),
            "-b",
            script,
            "-c",
            str(place.clients or CLIENTS),
            "-T",
            str(max(1, -int(-seconds // 1))),
            "-n",
            "-l",
        ]
        command += [f"--log-prefix={place.scratch}/pgbench_log", f"--random-seed={place.seed % 2**31}"]
        command += [] if place.rate is None else ["--rate", f"{place.rate:g}"]
        yield Load(command, pid)


def own_log(place: Place, kind: str) -> Log:
    """Each transaction from its begin (with a rate: from when it was due) to the answer of its commit; resolution 1 us."""
    log, offset_ns, servers = Log(), wall_minus_monotonic_ns(), _servers(place)
    lacking = "pgbench did not get as far as a transaction"
    for line in lines_of_logs(place, "pgbench_log.*", lacking):
        # client, transaction, latency in us, script, end: seconds since the epoch, and microseconds; with a rate also how late it began
        fields = line.split()
        latency_ns = int(fields[2]) * 1000
        end_ns = int(fields[4]) * 10**9 + int(fields[5]) * 1000 - offset_ns
        late_ns = int(fields[6]) * 1000 if len(fields) > 6 else 0
        log.add(kind, end_ns - latency_ns, latency_ns, servers.get(int(fields[0]), 0), late_ns)
    return log


def about(place: Place) -> dict[str, Any]:
    """Its checkpoints."""
    told = (place.scratch / "server.log").read_text(encoding="utf-8", errors="replace")
    return {"activities": checkpoints(told, wall_minus_monotonic_ns())}


def checkpoints(told: str, wall_offset_ns: int) -> list[dict[str, Any]]:
    """Checkpoints out of the server's log: it writes a line at the end of each, with how long it took."""
    found = []
    for end, total in CHECKPOINT.findall(told):
        duration_ns = round(float(total) * 1e9)
        start_ns = round(float(end) * 1e9) - wall_offset_ns - duration_ns
        found.append({"what": "checkpoint", "start_ns": start_ns, "duration_ns": duration_ns})
    return found


def _servers(place: Place) -> dict[int, int]:
    """Client -> the process of the server that works for it. pgbench connects its clients one after the other, in order."""
    told = (place.scratch / "server.log").read_text(encoding="utf-8", errors="replace")
    pids = [int(pid) for pid in CONNECTED.findall(told)]
    # Before them it looks at the tables, by a connection of its own.
    clients = place.clients or CLIENTS
    return dict(enumerate(pids[-clients:])) if len(pids) > clients else {}


@contextmanager
def _server(place: Place) -> Iterator[int]:
    """A server on the cluster; gives its process id. It is our child, so that its CPU time counts as ours."""
    told = place.scratch / "server.log"
    command = [*_as_user(), _tool("postgres"), "-D", str(place.data / "cluster")]
    with (
        told.open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=place.scratch) as server,
    ):
        try:
            latest = time.monotonic() + START_SECONDS_MAX
            asked = [_tool("pg_isready"), "-q", "-h", str(place.scratch)]
            while subprocess.run(asked, check=False).returncode:
                if server.poll() is not None or time.monotonic() > latest:
                    raise ProgramError(
                        f"the PostgreSQL server did not start: {told.read_text(encoding='utf-8')[-400:]}"
                    )
                time.sleep(0.05)
            yield server.pid
        finally:
            # Fast: clients are cut off, a last checkpoint is made.
            server.send_signal(signal.SIGINT)


def _pgbench(place: Place) -> list[str]:
    return [*_as_user(), _tool("pgbench"), "-h", str(place.scratch), "-U", USER, "postgres"]


def _as_user() -> list[str]:
    """The server refuses to be root."""
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def _tool(name: str) -> str:
    # Not the wrappers in /usr/bin, which look for clusters of the distribution's own.
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    path = str(versions[0]) if versions else find(name)
    if path is None:
        raise ProgramError(f"{name} is not installed; `make packages-accuracy` installs it")
    return path


def _program(name: str, words: str, script: str, kind: str) -> Program:
    return Program(
        name=name,
        words=f"PostgreSQL, pgbench {words} with {CLIENTS} clients; its log of transactions",
        needs={"pgbench": "postgresql", "initdb": "postgresql", "setpriv": "util-linux"},
        comms=("postgres", "pgbench"),
        worker="postgres",
        set_up=set_up,
        ready=functools.partial(ready, script=script),
        own_log=functools.partial(own_log, kind=kind),
        tear_down=emptied,
        takes=("clients", "rate", "scale"),
        about=about,
        room_bytes=400 << 20,
    )


PROGRAM = _program("postgresql", "(TPC-B like)", "tpcb-like", "transaction")
PROGRAMS = (_program("postgresql-select", "(select only)", "select-only", "read"),)
