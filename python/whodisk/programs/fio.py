"""fio: one job reads at random, one writes at random and has each write synced; by each of its engines."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

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

SIZE_BYTES = 128 << 20
KINDS = {"0": "read", "1": "write"}
#: What each engine is asked for; pages of a mapped file are always in the page cache.
ENGINES = {
    "psync": ["--direct=1"],
    "io_uring": ["--direct=1", "--iodepth=4"],
    "libaio": ["--direct=1", "--iodepth=4"],
    "mmap": ["--fsync=16"],
}


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
def ready(place: Place, seconds: float, engine: str) -> Iterator[Load]:
    """Nothing runs before."""
    for old in place.scratch.glob("fio_*.log"):
        old.unlink()
    log = [
        "--time_based",
        f"--runtime={seconds:g}s",
        f"--write_lat_log={place.scratch}/fio",
        "--log_unix_epoch=1",
    ]
    small = ["--bs=4k", f"--ioengine={engine}", f"--randseed={place.seed % 2**31}", *log, *ENGINES[engine]]
    small += [] if place.rate is None else [f"--rate_iops={max(1, round(place.rate / 2))}"]
    yield Load(
        [
            *_fio(place),
            *small,
            "--name=reads",
            "--rw=randread",
            "--name=writes",
            "--rw=randwrite",
            *([] if engine == "mmap" else ["--sync=dsync"]),
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
    return [
        tool,
        "--output=/dev/null",
        f"--directory={place.data}",
        f"--size={round(SIZE_BYTES * place.scale)}",
    ]


def _program(name: str, engine: str, words: str) -> Program:
    return Program(
        name=name,
        words=f"fio, {words}; its log of latencies",
        needs={"fio": "fio"},
        comms=("fio",),
        worker="fio",
        set_up=set_up,
        ready=functools.partial(ready, engine=engine),
        own_log=own_log,
        tear_down=emptied,
        takes=("rate", "scale"),
        # It reports times to 1 ms: no system call can be tied to that. They are what it does, one by one.
        log_in_case=False,
        room_bytes=320 << 20,
    )


PROGRAM = _program("fio", "psync", "psync, direct: random reads, and random writes with O_DSYNC")
PROGRAMS = (
    _program(
        "fio-io_uring",
        "io_uring",
        "io_uring, direct, 4 in flight: random reads, and random writes with O_DSYNC",
    ),
    _program(
        "fio-libaio", "libaio", "libaio, direct, 4 in flight: random reads, and random writes with O_DSYNC"
    ),
    _program("fio-mmap", "mmap", "mmap: random reads, and random writes with a sync after 16"),
)
