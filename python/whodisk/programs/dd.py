"""dd writes a file through the page cache and waits until it is on the disk, again and again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from whodisk.programs.base import Load, Log, Place, Program, call_me, emptied, logging_itself, read_log

FILE_BYTES = 8 << 20
BLOCK_BYTES = 64 << 10
LOG = "dd.log"


def set_up(place: Place) -> None:
    """Nothing: dd makes its file."""


def ready(place: Place, seconds: float) -> AbstractContextManager[Load]:
    """Nothing runs before."""
    blocks = max(1, round(FILE_BYTES * place.scale / BLOCK_BYTES))
    return logging_itself(
        "whodisk.programs.dd", place, seconds, LOG, file=place.data / "dd.bin", blocks=blocks
    )


def own_log(place: Place) -> Log:
    """Each file, from the start of dd to its end."""
    return read_log(place.scratch / LOG)


def main() -> None:
    """The same file again and again."""
    call_me("dd-log")
    o = json.loads(sys.argv[1])
    command = ["dd", "if=/dev/zero", f"of={o['file']}", f"bs={BLOCK_BYTES}", f"count={o['blocks']}"]
    log, end = Log(), time.monotonic() + o["seconds"]
    try:
        while time.monotonic() < end:
            begin_ns = time.monotonic_ns()
            with subprocess.Popen([*command, "conv=fdatasync", "status=none"]) as process:
                process.wait()
            log.add("file", begin_ns, time.monotonic_ns() - begin_ns, process.pid)
            if process.returncode:
                sys.exit(f"dd: exit code {process.returncode}")
    finally:
        log.write(Path(o["log"]))


PROGRAM = Program(
    name="dd",
    words=f"dd writes {FILE_BYTES >> 20} MiB in blocks of {BLOCK_BYTES >> 10} KiB and a sync, again and again; the time of each",
    needs={"dd": "coreutils"},
    comms=("dd",),
    worker="dd",
    set_up=set_up,
    ready=ready,
    own_log=own_log,
    tear_down=emptied,
    takes=("scale",),
    room_bytes=32 << 20,
)
