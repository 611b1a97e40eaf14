"""cp, rsync and rm of a tree of small files, again and again, and a sync of the file system after each round."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from whodisk.programs.base import Load, Log, Place, Program, call_me, emptied, logging_itself, read_log

FILES = 400
#: Sizes are log-normal around 8 KiB.
SIZE_BYTES, SIGMA = 8192, 1.2
SIZE_BYTES_MAX = 512 << 10
LOG = "tree.log"
#: Each prints a line per file, and holds none back.
COMMANDS = {
    "cp": ["stdbuf", "-oL", "cp", "-rv", "{source}", "{copy}"],
    "rsync": ["rsync", "-r", "--outbuf=L", "--out-format=%n", "{source}/", "{copy}"],
    "rm": ["stdbuf", "-oL", "rm", "-rfv", "{copy}"],
}


def set_up(place: Place) -> None:
    """The tree."""
    chance = random.Random(place.seed)
    for number in range(max(1, round(FILES * place.scale))):
        path = place.data / "source" / f"folder{number // 50}" / f"file{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            chance.randbytes(min(SIZE_BYTES_MAX, int(SIZE_BYTES * chance.lognormvariate(0, SIGMA))))
        )


def ready(place: Place, seconds: float, tool: str) -> AbstractContextManager[Load]:
    """Nothing runs before."""
    return logging_itself("whodisk.programs.trees", place, seconds, LOG, data=place.data, tool=tool)


def own_log(place: Place) -> Log:
    """Each file, from one line that the tool prints to the next; and each sync."""
    return read_log(place.scratch / LOG)


def main() -> None:
    """Round after round until the time is over."""
    o = json.loads(sys.argv[1])
    call_me(f"{o['tool']}-log")
    log = Log()
    try:
        _load(o, log)
    finally:
        log.write(Path(o["log"]))


def _load(o: dict[str, Any], log: Log) -> None:
    data, end, number = Path(o["data"]), time.monotonic() + o["seconds"], 0
    while time.monotonic() < end:
        copy = data / f"copy{number}"
        if o["tool"] == "rm":
            shutil.copytree(data / "source", copy)
            os.sync()
        words = [word.format(source=data / "source", copy=copy) for word in COMMANDS[o["tool"]]]
        follow(words, log)
        sync(data, log)
        shutil.rmtree(copy, ignore_errors=True)
        number += 1


def follow(command: list[str], log: Log) -> None:
    """Runs a tool that prints a line per file; what it did between two lines is one operation."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        file, before_ns, worker = process.stdout.fileno(), None, 0
        while chunk := os.read(file, 1 << 16):
            now_ns = time.monotonic_ns()
            # Several lines at once: this program was late, and what each of them took is not known.
            if before_ns is not None and chunk.count(b"\n") == 1:
                worker = worker or _worker(process.pid)
                log.add("file", before_ns, now_ns - before_ns, worker)
            before_ns = now_ns
    if process.returncode:
        sys.exit(f"{command[0]}: exit code {process.returncode}")


def _worker(pid: int) -> int:
    """The process that writes: the last in the line of children. (rsync's first one reads, and waits for the third, which writes.)"""
    try:
        while children := Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            pid = int(children[0])
    except OSError:
        pass  # it has ended
    return pid


def sync(folder: Path, log: Log) -> None:
    """Syncs the file system of a folder."""
    begin_ns = time.monotonic_ns()
    with subprocess.Popen(["sync", "-f", str(folder)]) as process:
        process.wait()
        log.add("sync", begin_ns, time.monotonic_ns() - begin_ns, process.pid)
    if process.returncode:
        sys.exit(f"sync: exit code {process.returncode}")


def _program(tool: str, verb: str) -> Program:
    return Program(
        name=tool,
        words=f"{tool} {verb} {FILES} small files, sync, again and again; times between the lines it prints",
        needs={tool: "rsync" if tool == "rsync" else "coreutils"},
        comms=(tool, "sync"),
        worker=tool,
        set_up=set_up,
        ready=functools.partial(ready, tool=tool),
        own_log=own_log,
        tear_down=emptied,
        takes=("scale",),
        room_bytes=64 << 20,
    )


PROGRAMS = (_program("cp", "copies"), _program("rsync", "copies"), _program("rm", "removes"))
