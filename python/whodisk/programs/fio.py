"""fio: one job reads at random, one writes at random and has each write synced; both past the page cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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

SIZE = "128m"
KINDS = {"0": "read", "1": "write"}


def set_up(place: Place) -> None:
    """The files, written once, so that no read meets a hole."""
    said(
        [
            *_fio(place),
            "--name=reads",
            "--rw=write",
            "--bs=1m",
            "--end_fsync=1",
            "--name=writes",
            "--rw=write",
            "--bs=1m",
            "--end_fsync=1",
        ]
    )


@contextmanager
def ready(place: Place, seconds: float) -> Iterator[Load]:
    """Nothing runs before."""
    for old in place.scratch.glob("fio_*.log"):
        old.unlink()
    log = [
        "--time_based",
        f"--runtime={seconds:g}s",
        f"--write_lat_log={place.scratch}/fio",
        "--log_unix_epoch=1",
    ]
    small = ["--bs=4k", "--direct=1", "--ioengine=psync", f"--randseed={place.seed % 2**31}", *log]
    yield Load(
        [
            *_fio(place),
            *small,
            "--name=reads",
            "--rw=randread",
            "--name=writes",
            "--rw=randwrite",
            "--sync=dsync",
        ]
    )


def own_log(place: Place) -> Log:
    """Each read and write, its sync included; times to 1 ms, latencies to 1 ns."""
    log, offset_ns = Log(), wall_minus_monotonic_ns()
    lacking = "fio was ended before it wrote its logs"
    for line in lines_of_logs(place, "fio_lat.*.log", lacking):
        # end in ms, latency in ns, direction, size, ...
        end_ms, latency_ns, direction, *_ = (field.strip() for field in line.split(","))
        log.add(KINDS[direction], int(end_ms) * 10**6 - int(latency_ns) - offset_ns, int(latency_ns))
    return log


def _fio(place: Place) -> list[str]:
    tool = find("fio")
    if tool is None:
        raise ProgramError("fio is not installed; `make packages-accuracy` installs it")
    # What stands before the first --name holds for all jobs.
    return [tool, "--output=/dev/null", f"--directory={place.data}", f"--size={SIZE}"]


PROGRAM = Program(
    name="fio",
    words="fio, psync, direct: random reads, and random writes with O_DSYNC; its log of latencies",
    needs={"fio": "fio"},
    comms=("fio",),
    worker="fio",
    set_up=set_up,
    ready=ready,
    own_log=own_log,
    tear_down=emptied,
)
