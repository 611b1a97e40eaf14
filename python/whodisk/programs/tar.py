"""tar unpacks many small files again and again, and syncs the file system after each round."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time
from contextlib import AbstractContextManager
from pathlib import Path

from programs.base import Load, Log, Place, Program, call_me, emptied, logging_itself, read_log

FILES = 600
#: Sizes are log-normal around 8 KiB.
SIZE_BYTES, SIGMA = 8192, 1.2
SIZE_BYTES_MAX = 512 << 10
LOG = "tar.log"


def set_up(place: Place) -> None:
    """An archive, in memory: only what is written to the file system is looked at."""
    chance = random.Random(place.seed)
    with tarfile.open(place.scratch / "tree.tar", "w") as archive:
        for number in range(FILES):
            data = chance.randbytes(min(SIZE_BYTES_MAX, int(SIZE_BYTES * chance.lognormvariate(0, SIGMA))))
            entry = tarfile.TarInfo(f"folder{number // 50}/file{number}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def ready(place: Place, seconds: float) -> AbstractContextManager[Load]:
    """Nothing runs before."""
    return logging_itself(
        "programs.tar", place, seconds, LOG, data=place.data, archive=place.scratch / "tree.tar"
    )


def own_log(place: Place) -> Log:
    """Each file, from the line that tar prints when it begins it to the next line; and each sync."""
    return read_log(place.scratch / LOG)


def main() -> None:
    """Unpacks until the time is over; the tree of the round before last is removed."""
    call_me("tar-log")
    o = json.loads(sys.argv[1])
    log, data, end, number = Log(), Path(o["data"]), time.monotonic() + o["seconds"], 0
    while time.monotonic() < end:
        folder = data / f"tree{number}"
        folder.mkdir()
        _unpack(["tar", "-xvf", o["archive"], "-C", str(folder)], log)
        begin_ns = time.monotonic_ns()
        subprocess.run(["sync", "-f", str(folder)], check=True)
        log.add("sync", begin_ns, time.monotonic_ns() - begin_ns)
        if number:
            shutil.rmtree(data / f"tree{number - 1}")
        number += 1
    shutil.rmtree(data / f"tree{number - 1}")
    log.write(Path(o["log"]))


def _unpack(command: list[str], log: Log) -> None:
    """tar prints the name of a file when it begins with it, and does not hold its lines back."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        file, before_ns = process.stdout.fileno(), None
        while chunk := os.read(file, 1 << 16):
            now_ns = time.monotonic_ns()
            # Several lines at once: this program was late, and what each of them took is not known.
            if before_ns is not None and chunk.count(b"\n") == 1:
                log.add("file", before_ns, now_ns - before_ns)
            before_ns = now_ns
    if process.returncode:
        sys.exit(f"tar: exit code {process.returncode}")


PROGRAM = Program(
    name="tar",
    words=f"tar unpacks {FILES} small files, sync, again and again; times between the lines it prints",
    needs={"tar": "tar"},
    comms=("tar", "sync"),
    worker="tar",
    set_up=set_up,
    ready=ready,
    own_log=own_log,
    tear_down=emptied,
)
