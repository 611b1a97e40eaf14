"""Flushes on a disk whose flushes take long: where the time of a sync went, who waited behind whom, and what the verdict says.

The same with programs that people run (PostgreSQL, SQLite) is in the tables of tests/accuracy.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, file_system, slowdisk
from tests.e2e.conftest import Run
from whodisk.reading.flush_waits import FLUSH
from whodisk.reading.views import Case

#: Threads that write a block of a file of their own and make it durable, so often each, or for so many seconds.
LOAD = """
import itertools, os, sys, threading, time
folder, threads, rounds, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
def work(number):
    fd = os.open(f"{folder}/{number}", os.O_RDWR)
    end = time.monotonic() + seconds
    for place in itertools.count() if seconds else range(rounds):
        if seconds and time.monotonic() > end:
            break
        os.pwrite(fd, b"x" * 4096, place % 64 * 4096)
        os.fdatasync(fd)
workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
"""


@contextmanager
def recorded(
    whodisk: Run, work: Path, fault: str, threads: int, rounds: int = 0, seconds: float = 0
) -> Iterator[tuple[Case, int, str]]:
    """A recording of `LOAD` on a disk with this fault; how many flush commands the kernel counted there, and the disk's name."""
    path = work / "a.case"
    try:
        with slowdisk(fault, seed=1) as device, file_system(device, work / "mnt") as folder:
            for number in range(threads):
                (folder / str(number)).write_bytes(bytes(64 * 4096))
            stat = Path(f"/sys/block/{device.name}/stat")
            before = _settled(stat, folder)
            load = (sys.executable, "-c", LOAD, folder, str(threads), str(rounds), str(seconds))
            whodisk("record", "-o", path, "--", *load)
            counted = int(stat.read_text(encoding="ascii").split()[15]) - before
            name = device.name
    except Unavailable as lack:
        pytest.skip(str(lack))
    whodisk("verify", path)
    with Case(path) as case:
        yield case, counted, name


def _settled(stat: Path, folder: Path) -> int:
    """Field 16 once all that was written is durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    os.sync()
    return int(stat.read_text(encoding="ascii").split()[15])


def number(case: Case, sql: str) -> int:
    (row,) = case.rows(sql)
    return int(row["n"] or 0)


@pytest.mark.root
def test_a_flush_is_time_at_the_device_of_who_waits_for_it(whodisk: Run, work: Path) -> None:
    rounds = 23
    with recorded(whodisk, work, "flush constant 25ms", 1, rounds) as (case, counted, device):
        flushes = f"block_ops WHERE op = 'flush' AND device = '{device}'"
        assert number(case, f"SELECT count(*) AS n FROM {flushes}") == counted >= rounds
        assert number(case, f"SELECT count(comm) + count(pid) + count(tid) AS n FROM {flushes}") == 0
        assert number(case, f"SELECT min(device_ns) AS n FROM {flushes}") >= 25e6
        syncs = f"syscall_ops WHERE op = 'sync' AND flags & {FLUSH} > 0"
        assert number(case, f"SELECT count(*) AS n FROM {syncs}") == rounds
        assert number(case, f"SELECT count(*) AS n FROM {syncs} AND device_ns >= 25e6") == rounds
        # Each waits for a carrier, and that for a flush command.
        chain = f"""SELECT count(DISTINCT s.op_id) AS n FROM (SELECT * FROM {syncs}) AS s
JOIN links AS a ON a.parent_id = s.op_id JOIN links AS b ON b.parent_id = a.child_id AND b.kind = 'waits_for'
JOIN block_ops AS f ON f.op_id = b.child_id AND f.op = 'flush'"""
        assert number(case, chain) == rounds
        # What a device did is told by what it was issued.
        assert number(case, f"SELECT count(*) AS n FROM block_ops WHERE flags & {FLUSH} > 0") >= rounds
        assert (
            number(case, f"SELECT count(*) AS n FROM judged WHERE layer = 'block' AND flags & {FLUSH} > 0")
            == 0
        )


@pytest.mark.root
def test_who_waits_behind_a_flush_of_others_waits_for_the_device(whodisk: Run, work: Path) -> None:
    with recorded(whodisk, work, "flush constant 25ms", 3, 11) as (case, _, _):
        behind = number(case, "SELECT count(*) AS n FROM links WHERE kind = 'queued_behind'")
        assert behind > 0
        # The flush command that it waited behind is none that served it.
        both = """SELECT count(*) AS n FROM links AS a JOIN links AS b USING (parent_id, child_id)
WHERE a.kind = 'queued_behind' AND b.kind = 'waits_for'"""
        assert number(case, both) == 0
        carriers = f"""SELECT count(*) AS n FROM links AS l JOIN block_ops AS c ON c.op_id = l.parent_id
WHERE l.kind = 'queued_behind' AND c.flags & {FLUSH} > 0 AND c.queue_ns > 0"""
        assert number(case, carriers) == behind
        waited = "FROM syscall_ops WHERE op_id IN (SELECT op_id FROM behind_flushes)"
        assert number(case, f"SELECT count(*) AS n {waited}") > 0
        assert number(case, f"SELECT min(queue_ns) AS n {waited}") > 0
        judged = "FROM judged WHERE op_id IN (SELECT op_id FROM behind_flushes)"
        assert number(case, f"SELECT max(queue_ns) AS n {judged}") == 0
        stages = " + ".join(
            f"coalesce({name}_ns, 0)"
            for name in [
                "app",
                "fs",
                "throttle",
                "queue",
                "device",
                "interrupt",
                "reap",
                "runqueue",
                "unknown",
            ]
        )
        assert number(case, f"SELECT count(*) AS n FROM judged WHERE {stages} <> latency_ns") == 0


@pytest.mark.root
@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("flush tail 0.03 25ms", True),
        pytest.param("write stall 200ms 40ms", False, marks=pytest.mark.slow),
    ],
)
def test_the_verdict_names_the_device_and_its_flushes(
    whodisk: Run, work: Path, fault: str, named: bool
) -> None:
    with recorded(whodisk, work, fault, 1, seconds=3) as (case, _, device):
        path = case.path
    verdict = json.loads(whodisk("solve", path, "--json", "--no-report").stdout)
    assert verdict["status"] in ("slow", "outliers"), verdict["status"]
    # A crowded machine is a true finding of its own.
    first = next(f for f in verdict["findings"] if f["culprit"]["because_of"] != "stage:runqueue")
    culprit = first["culprit"]
    assert (culprit["kind"], culprit["name"]) == ("stage", "device")
    assert culprit["because_of"] == f"device:{device}"
    assert ("flush commands" in first["claim"]) == named, first["claim"]
    # Requests without a program compete with nobody.
    assert all(finding["culprit"]["name"] != "other" for finding in verdict["findings"])
    if named:
        assert any(slow["what"] == "the device flushed its cache" for slow in verdict["slowest"])
