"""tar unpacks many small files again and again, and syncs the file system after each round."""

from __future__ import annotations

import io
import json
import random
import shutil
import sys
import tarfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from whodisk.programs.base import Load, Log, Place, Program, call_me, emptied, logging_itself, read_log
from whodisk.programs.trees import follow, sync

FILES = 600
#: Sizes are log-normal around 8 KiB.
SIZE_BYTES, SIGMA = 8192, 1.2
SIZE_BYTES_MAX = 512 << 10
LOG = "tar.log"


def set_up(place: Place) -> None:
    """An archive, in memory: only what is written to the file system is looked at."""
    chance = random.Random(place.seed)
    with tarfile.open(place.scratch / "tree.tar", "w") as archive:
        for number in range(max(1, round(FILES * place.scale))):
            data = chance.randbytes(min(SIZE_BYTES_MAX, int(SIZE_BYTES * chance.lognormvariate(0, SIGMA))))
            entry = tarfile.TarInfo(f"folder{number // 50}/file{number}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def ready(place: Place, seconds: float) -> AbstractContextManager[Load]:
    """Nothing runs before."""
    return logging_itself(
        "whodisk.programs.tar", place, seconds, LOG, data=place.data, archive=place.scratch / "tree.tar"
    )


def own_log(place: Place) -> Log:
    """Each file, from the line that tar prints when it begins it to the next line; and each sync."""
    return read_log(place.scratch / LOG)


def main() -> None:
    """Unpacks until the time is over; the tree of the round before last is removed."""
    call_me("tar-log")
    o = json.loads(sys.argv[1])
    log, data = Log(), Path(o["data"])
    try:
        _load(o, data, log)
    finally:
        log.write(Path(o["log"]))


def _load(o: dict[str, Any], data: Path, log: Log) -> None:
    end, number = time.monotonic() + o["seconds"], 0
    while time.monotonic() < end:
        folder = data / f"tree{number}"
        folder.mkdir()
        follow(["tar", "-xvf", o["archive"], "-C", str(folder)], log)
        sync(folder, log)
        if number:
            shutil.rmtree(data / f"tree{number - 1}")
        number += 1
    shutil.rmtree(data / f"tree{number - 1}")


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
    takes=("scale",),
    room_bytes=64 << 20,
)
