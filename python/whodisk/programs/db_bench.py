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
#: The thread that wrote so often is the one that does the operations.
WORKER_WRITES_MIN = 20


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
    """Each write from the end of the one before; resolution 1 us, moments as good as this program hears of them."""
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
    # db_bench reports operations of `slow_usecs` or more, where there is a histogram.
    command += [f"--duration={max(1, round(o['seconds']))}", "--histogram=1", "--slow_usecs=0"]
    told: list[tuple[int, int]] = []
    tid = 0
    rest = b""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stderr is not None
        while chunk := process.stderr.read(1 << 16):
            now_ns = time.monotonic_ns()
            tid = tid or _worker(process.pid)
            *texts, rest = (rest + chunk).split(b"\r")
            for text in texts:
                found = LONG.search(text)
                if found:
                    told.append((now_ns, int(found[1]) * 1000))
    if process.returncode or not told:
        sys.exit(f"db_bench: exit code {process.returncode}: {rest[-400:].decode(errors='replace')}")
    log = Log()
    # The first one holds the opening of the database.
    for end_ns, latency_ns in ends(told)[1:]:
        log.add("write", end_ns - latency_ns, latency_ns, tid)
    log.write(Path(o["log"]))


def ends(told: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """End and latency of operations, out of the moments at which db_bench reported them and their latencies, both in their order.

    One follows the other without a gap, so each had ended when the next began; and this program was at times late to hear of it. The latest moments
    that fit: laid end to end from the first one, latencies of whole microseconds would drift by a millisecond in 2,000 operations.
    """
    found: list[tuple[int, int]] = []
    until_ns: int | None = None
    for heard_ns, latency_ns in reversed(told):
        end_ns = heard_ns if until_ns is None else min(heard_ns, until_ns)
        found.append((end_ns, latency_ns))
        until_ns = end_ns - latency_ns
    return found[::-1]


def _keys(place: Place) -> int:
    return max(1000, round(KEYS * place.scale))


def _worker(pid: int) -> int:
    """The thread that does the operations; 0 while it is not known."""
    wrote = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            # Those of RocksDB itself have names of their own; others of db_bench's only wait.
            if task.name != str(pid) and (task / "comm").read_text() == "db_bench\n":
                lines = (task / "io").read_text().splitlines()
                calls = dict(line.split(": ") for line in lines)["syscw"]
                wrote.append((int(calls), int(task.name)))
        except OSError:
            continue  # it has ended
    return max(wrote)[1] if wrote and max(wrote)[0] >= WORKER_WRITES_MIN else 0


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
