"""RocksDB's db_bench: random writes, each synced; it says how long every operation took."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from whodisk.programs import rocksdb
from whodisk.programs.base import (
    Load,
    Log,
    Place,
    Program,
    ProgramError,
    call_me,
    emptied,
    find,
    logging_itself,
    read_log,
    said,
)

KEYS = 50_000
VALUE_BYTES = 400
#: Small, so that memtables are written out and compacted within seconds.
WRITE_BUFFER_BYTES = 2 << 20
LONG = re.compile(rb"long op: (\d+) micros")
LOG = "db_bench.log"


def set_up(place: Place) -> None:
    """A database with some keys."""
    said(
        [*_db_bench(place.data / "db", place.seed, _keys(place)), "--benchmarks=fillrandom,flush", "--sync=0"]
    )


def ready(place: Place, seconds: float) -> AbstractContextManager[Load]:
    """Nothing runs before."""
    return logging_itself(
        "whodisk.programs.db_bench", place, seconds, LOG, data=place.data / "db", keys=_keys(place)
    )


def own_log(place: Place) -> Log:
    """Each write from the end of the one before; resolution 1 us."""
    return read_log(place.scratch / LOG)


def about(place: Place) -> dict[str, Any]:
    """What RocksDB was doing."""
    return {"activities": rocksdb.activities(place.data / "db")}


def main() -> None:
    """Runs db_bench, and turns what it says of each operation into a log."""
    call_me("db_bench-log")
    o = json.loads(sys.argv[1])
    command = [
        *_db_bench(Path(o["data"]), o["seed"], o["keys"]),
        "--benchmarks=overwrite",
        "--use_existing_db=1",
        "--sync=1",
    ]
    # Operations of `slow_usecs` or more are told, where there is a histogram.
    command += [f"--duration={max(1, round(o['seconds']))}", "--histogram=1", "--slow_usecs=0"]
    latencies_us: list[int] = []
    tid = 0
    begin_ns: int | None = None
    rest = b""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stderr is not None
        total_us = 0
        while chunk := process.stderr.read(1 << 16):
            now_ns = time.monotonic_ns()
            tid = tid or _worker(process.pid)
            *texts, rest = (rest + chunk).split(b"\r")
            for text in texts:
                found = LONG.search(text)
                if found:
                    latencies_us.append(int(found[1]))
                    total_us += latencies_us[-1]
            # One operation follows the other without a gap. Of all moments at which the begin can be told, the earliest is
            # the one at which this program was not late.
            told_ns = now_ns - total_us * 1000
            begin_ns = told_ns if begin_ns is None else min(begin_ns, told_ns)
    if process.returncode or begin_ns is None:
        sys.exit(f"db_bench: exit code {process.returncode}: {rest[-400:].decode(errors='replace')}")
    log, at_ns = Log(), begin_ns
    for number, latency_us in enumerate(latencies_us):
        # The first one holds the opening of the database.
        if number:
            log.add("write", at_ns, latency_us * 1000, tid)
        at_ns += latency_us * 1000
    log.write(Path(o["log"]))


def _keys(place: Place) -> int:
    return max(1000, round(KEYS * place.scale))


def _worker(pid: int) -> int:
    """The thread that does the operations; 0 while it is not known."""
    tids = [task for task in Path(f"/proc/{pid}/task").glob("*") if task.name != str(pid)]
    try:
        # Those of RocksDB itself have names of their own.
        workers = [int(task.name) for task in tids if (task / "comm").read_text() == "db_bench\n"]
    except OSError:
        return 0  # one has ended
    return workers[0] if len(workers) == 1 else 0


def _db_bench(data: Path, seed: int, keys: int) -> list[str]:
    tool = find("db_bench")
    if tool is None:
        raise ProgramError("db_bench is not installed; `make packages-accuracy` installs rocksdb-tools")
    sizes = [f"--num={keys}", f"--value_size={VALUE_BYTES}", f"--write_buffer_size={WRITE_BUFFER_BYTES}"]
    return [
        tool,
        f"--db={data}",
        *sizes,
        "--threads=1",
        f"--seed={1 + seed % 2**31}",
        "--compression_type=none",
    ]


PROGRAM = Program(
    name="db_bench",
    words="RocksDB's db_bench, random writes, each synced; what it says of each",
    needs={"db_bench": "rocksdb-tools"},
    comms=("db_bench", "rocksdb"),
    worker="db_bench",
    set_up=set_up,
    ready=ready,
    own_log=own_log,
    tear_down=emptied,
    takes=("scale",),
    about=about,
    room_bytes=128 << 20,
)
