"""RocksDB under YCSB, core workloads A to F: YCSB's own client on a binding of ours (java/RocksDb.java) that logs every operation.

Maven brings both by name, once, into the user's cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whodisk.programs import rocksdb
from whodisk.programs.base import Load, Log, Place, Program, ProgramError, emptied, find, said

RECORDS = 100_000
#: Ten fields of 100 bytes each.
RECORD_BYTES = 1000
CLIENTS = 4
#: This share of the data fits into RocksDB's block cache.
CACHED_SHARE = 0.2
#: A memtable of this size is written out within seconds.
BUFFER_BYTES = 4 << 20
#: What each workload does, as shares of operations, and how it chooses records (YCSB's core workloads).
WORKLOADS: dict[str, tuple[str, dict[str, float], str]] = {
    "a": ("half reads, half updates", {"read": 0.5, "update": 0.5}, "zipfian"),
    "b": ("95 % reads, 5 % updates", {"read": 0.95, "update": 0.05}, "zipfian"),
    "c": ("reads only", {"read": 1.0}, "zipfian"),
    "d": ("95 % reads of what is new, 5 % inserts", {"read": 0.95, "insert": 0.05}, "latest"),
    "e": ("95 % scans, 5 % inserts", {"scan": 0.95, "insert": 0.05}, "zipfian"),
    "f": (
        "half reads, half reads that are changed and written",
        {"read": 0.5, "readmodifywrite": 0.5},
        "zipfian",
    ),
}
JAVA = Path(__file__).parent / "java"
#: The JVM's log of them, in the scratch folder.
SAFEPOINTS = "safepoints.log"
#: `[12.345s][info][safepoint] Safepoint "G1CollectForAllocation", ..., Total: 123456 ns` with the decoration `tn`.
SAFEPOINT = re.compile(r'^\[(\d+)ns\].* Safepoint "(\w+)".* Total:\s+(\d+) ns', re.MULTILINE)
#: Pauses below this are not reported.
PAUSE_NS_MIN = 100_000


def set_up(place: Place) -> None:
    """The load phase: all records, inserted."""
    _ycsb(place, "a", ["-load", "-threads", "1"])


@contextmanager
def ready(place: Place, seconds: float, workload: str) -> Iterator[Load]:
    """The transaction phase; nothing runs before."""
    for old in [*place.scratch.glob("*.own"), place.scratch / SAFEPOINTS]:
        old.unlink(missing_ok=True)
    options = [
        "-t",
        "-threads",
        str(place.clients or CLIENTS),
        "-p",
        f"maxexecutiontime={max(1, round(seconds))}",
    ]
    options += [] if place.rate is None else ["-target", str(max(1, round(place.rate)))]
    yield Load(_command(place, workload, options))


def own_log(place: Place) -> Log:
    """Each operation as the binding saw it, in its client's thread."""
    log = Log()
    for file in sorted(place.scratch.glob("*.own")):
        for line in file.read_text(encoding="ascii").splitlines():
            kind, start, latency, tid, late = line.split()
            log.add(kind, int(start), int(latency), int(tid), int(late))
    if not log.start_ns:
        raise ProgramError(
            f"{place.scratch}: expected logs of YCSB's clients, found none; it was ended before its first operation"
        )
    return log


def own_file(place: Place) -> Path:
    """The logs of all clients in one file, as they are."""
    whole = place.scratch / "ycsb.log"
    files = sorted(place.scratch.glob("*.own"))
    if not files:
        raise ProgramError(
            f"{place.scratch}: expected logs of YCSB's clients, found none; it was ended before its first operation"
        )
    with whole.open("wb") as out:
        for file in files:
            with file.open("rb") as lines:
                shutil.copyfileobj(lines, out, 1 << 20)
            # Its place is needed for the whole.
            file.unlink()
    return whole


def about(place: Place) -> dict[str, Any]:
    """Pauses of the JVM, out of its safepoint log; and what RocksDB was doing."""
    told: dict[str, Any] = {"activities": rocksdb.activities(place.data / "db")}
    with contextlib.suppress(FileNotFoundError):
        text = (place.scratch / SAFEPOINTS).read_text(encoding="utf-8", errors="replace")
        told["pauses"] = pauses(text)
    return told


def pauses(text: str) -> list[dict[str, Any]]:
    """Pauses in the JVM's log of safepoints: all Java threads stood still. It writes a line at the end of each."""
    found = ((int(end), name, int(total)) for end, name, total in SAFEPOINT.findall(text))
    return [
        {"what": f"JVM safepoint {name}", "start_ns": end - total, "duration_ns": total}
        for end, name, total in found
        if total >= PAUSE_NS_MIN
    ]


def _ycsb(place: Place, workload: str, options: list[str]) -> None:
    said(_command(place, workload, options))
    for file in place.scratch.glob("*.own"):
        file.unlink()


def _command(place: Place, workload: str, options: list[str]) -> list[str]:
    _, shares, chosen = WORKLOADS[workload]
    records = max(1000, round(RECORDS * place.scale))
    names = ("read", "update", "insert", "scan", "readmodifywrite")
    keys = {
        "workload": "site.ycsb.workloads.CoreWorkload",
        "recordcount": records,
        # The time is the limit.
        "operationcount": 2**31 - 1,
        "requestdistribution": chosen,
        **{f"{name}proportion": shares.get(name, 0) for name in names},
        "measurement.interval": "both",
        "rocksdb.dir": place.data / "db",
        "rocksdb.cache": round(CACHED_SHARE * RECORD_BYTES * records),
        "rocksdb.buffer": BUFFER_BYTES,
        "own.log": place.scratch,
    }
    parts = installed()
    java = [
        _tool("java", "default-jre-headless"),
        # tn: the clock that the operations are logged by.
        f"-Xlog:safepoint:file={place.scratch / SAFEPOINTS}:tn:filecount=0",
        "-Xms256m",
        "-Xmx256m",
        # RocksDB's library is unpacked there.
        f"-Djava.io.tmpdir={place.scratch}",
        "-cp",
        f"{parts}/classes:{parts}/lib/*",
        "site.ycsb.Client",
        "-db",
        "RocksDb",
    ]
    return java + options + [word for name, value in keys.items() for word in ("-p", f"{name}={value}")]


def installed() -> Path:
    """Folder with YCSB, RocksDB and the binding; made at first, which takes Maven, a compiler, and some 70 MB from its repository."""
    digest = hashlib.sha256(
        b"".join((JAVA / name).read_bytes() for name in ("pom.xml", "RocksDb.java"))
    ).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whodisk"
    folder = cache / f"ycsb-{digest[:12]}"
    if folder.is_dir():
        return folder
    maven, javac = _tool("mvn", "maven"), _tool("javac", "default-jdk-headless")
    cache.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="ycsb-", dir=cache))
    try:
        said(
            [
                maven,
                "-B",
                "-q",
                "-f",
                JAVA / "pom.xml",
                f"-DoutputDirectory={made}/lib",
                "dependency:copy-dependencies",
            ]
        )
        said([javac, "-cp", f"{made}/lib/*", "-d", made / "classes", JAVA / "RocksDb.java"])
        made.rename(folder)
    except OSError:
        # Another one was first.
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _tool(name: str, package: str) -> str:
    tool = find(name)
    if tool is None:
        raise ProgramError(
            f"{name}: expected a program of the Debian package {package}, found none; install with: apt-get install {package}"
        )
    return tool


def _program(letter: str) -> Program:
    words, *_ = WORKLOADS[letter]
    return Program(
        name=f"ycsb-{letter}",
        words=f"RocksDB under YCSB {letter.upper()} ({words}), {CLIENTS} clients; every operation as the client sees it",
        needs={"java": "default-jre-headless"},
        comms=("ycsb-client", "rocksdb", "java"),
        worker="java",
        set_up=set_up,
        ready=functools.partial(ready, workload=letter),
        own_log=own_log,
        tear_down=emptied,
        takes=("clients", "rate", "scale"),
        own_file=own_file,
        about=about,
        room_bytes=512 << 20,
    )


PROGRAMS = tuple(_program(letter) for letter in WORKLOADS)


if __name__ == "__main__":
    print(installed())
