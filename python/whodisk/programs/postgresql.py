"""PostgreSQL under pgbench (TPC-B like), with a log of every transaction."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from programs.base import (
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
}


def set_up(place: Place) -> None:
    """A new cluster with pgbench's tables."""
    cluster = place.data / "cluster"
    cluster.mkdir()
    for folder in (cluster, place.scratch):
        shutil.chown(folder, USER, USER)
    said(
        [*_as_user(), _tool("initdb"), "-D", cluster, "--auth=trust", "--no-sync", "--no-instructions"],
        cwd=place.scratch,
    )
    with (cluster / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
        file.write(f"unix_socket_directories = '{place.scratch}'\n")
    with _server(place):
        said([*_pgbench(place), "-i", "-s", str(SCALE), "--quiet"], cwd=place.scratch)


@contextmanager
def ready(place: Place, seconds: float) -> Iterator[Load]:
    """The server runs before and after; whole seconds, rounded up."""
    for old in place.scratch.glob("pgbench_log.*"):
        old.unlink()
    with _server(place) as pid:
        command = [*_pgbench(place), "-c", str(CLIENTS), "-T", str(max(1, -int(-seconds // 1))), "-n", "-l"]
        command += [f"--log-prefix={place.scratch}/pgbench_log", f"--random-seed={place.seed % 2**31}"]
        yield Load(command, pid)


def own_log(place: Place) -> Log:
    """Each transaction from its begin to the answer of its commit; resolution 1 us."""
    log, offset_ns = Log(), wall_minus_monotonic_ns()
    lacking = "pgbench did not get as far as a transaction"
    for line in lines_of_logs(place, "pgbench_log.*", lacking):
        # client, transaction, latency in us, script, end: seconds since the epoch, and microseconds
        fields = line.split()
        latency_ns = int(fields[2]) * 1000
        end_ns = int(fields[4]) * 10**9 + int(fields[5]) * 1000 - offset_ns
        log.add("transaction", end_ns - latency_ns, latency_ns)
    return log


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


PROGRAM = Program(
    name="postgresql",
    words=f"PostgreSQL, pgbench with {CLIENTS} clients; its log of transactions",
    needs={"pgbench": "postgresql", "initdb": "postgresql"},
    comms=("postgres", "pgbench"),
    worker="postgres",
    set_up=set_up,
    ready=ready,
    own_log=own_log,
    tear_down=emptied,
)
