"""What programs wait for that no system call of theirs tells: being reaped, workers of the kernel, commits of others, memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.accuracy.host import Unavailable, file_system, group, slowdisk, uncached
from tests.e2e.conftest import Run
from whodisk.reading.views import Case

FIO = ("fio", "--minimal", "--thread", "--norandommap=0")


def number(case: Case, sql: str) -> int:
    (row,) = case.rows(sql)
    return int(row["n"] or 0)


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")


def data(path: Path, mebibytes: int) -> Path:
    """A file of random bytes, on the disk and not in memory."""
    path.write_bytes(os.urandom(1 << 20) * mebibytes)
    uncached(path)
    return path


@pytest.mark.root
def test_buffered_libaio_waits_to_be_reaped(whodisk: Run, work: Path) -> None:
    """While the only thread sits in fsync, the writes that it has submitted are done, and not taken."""
    needs("fio")
    path, writes = work / "a.case", 512
    try:
        with slowdisk("flush constant 20ms", seed=1) as device, file_system(device, work / "mnt") as folder:
            file = data(folder / "data", 16)
            job = (
                f"--name=n --filename={file} --rw=randwrite --bs=4k --size=16m --ioengine=libaio --iodepth=8"
            )
            options = [*job.split(), "--direct=0", "--fsync=32", f"--number_ios={writes}", "--overwrite=1"]
            whodisk("record", "-o", path, "--", *FIO, *options)
    except Unavailable as lack:
        pytest.skip(str(lack))
    whodisk("verify", path)
    with Case(path) as case:
        done = "FROM syscall_ops WHERE op = 'write' AND comm = 'fio' AND file LIKE '%/data'"
        assert number(case, f"SELECT count(*) AS n {done}") == writes
        slow = f"{done} AND latency_ns > 15e6"
        # All in flight but those that were taken before it: up to seven of each 32.
        syncs = number(case, "SELECT count(*) AS n FROM syscall_ops WHERE op = 'sync' AND comm = 'fio'")
        count = number(case, f"SELECT count(*) AS n {slow}")
        assert count >= syncs / 2 >= 5, (count, syncs)
        # On a crowded machine its thread waits for a CPU, too, before it can take them.
        reaped = f"{slow} AND reap_ns + runqueue_ns > 0.9 * latency_ns"
        assert number(case, f"SELECT count(*) AS n {reaped}") >= 0.9 * count, count
        assert number(case, f"SELECT sum(reap_ns) - sum(fs_ns) * 10 AS n {slow}") > 0


@pytest.mark.root
def test_workers_of_io_uring_go_by_their_program(whodisk: Run, work: Path) -> None:
    """What the kernel's workers do for fio is fio's: requests, waits, and operations tied to them."""
    needs("fio")
    path, reads = work / "a.case", 997
    file = data(work / "data", 16)
    job = f"--name=n --filename={file} --rw=randread --bs=4k --size=16m --ioengine=io_uring --iodepth=4 --force_async=1"
    whodisk("record", "-o", path, "--", *FIO, *job.split(), "--direct=0", f"--number_ios={reads}")
    with Case(path) as case:
        for table in ("block_ops", "syscall_ops", "waits"):
            assert number(case, f"SELECT count(*) AS n FROM {table} WHERE comm LIKE 'iou-%'") == 0, table
        assert number(case, "SELECT count(*) AS n FROM waits WHERE cause LIKE 'iou-%'") == 0
        ops = "FROM syscall_ops WHERE op = 'read' AND comm = 'fio' AND file LIKE '%/data'"
        assert number(case, f"SELECT count(*) AS n {ops}") == reads
        # By other threads of its process than the one that submitted.
        theirs = "FROM block_ops WHERE op = 'read' AND comm = 'fio'"
        assert number(case, f"SELECT count(DISTINCT tid) AS n {theirs}") >= 1
        assert number(case, f"SELECT count(*) AS n {theirs} AND tid IN (SELECT tid {ops})") < 0.5 * reads


#: Reads a file that is larger than the memory that it may have.
READER = """
import os, sys
folder = sys.argv[1]
open(folder + "/cgroup.procs", "w").write(str(os.getpid()))
kept = bytearray(16 << 20)
fd = os.open(sys.argv[2], os.O_RDONLY)
while os.read(fd, 1 << 16):
    pass
"""


@pytest.mark.root
def test_a_thread_that_frees_memory_itself_is_told(whodisk: Run, work: Path) -> None:
    path = work / "a.case"
    file = data(work / "data", 96)
    try:
        with group("memory", {"memory.limit_in_bytes": str(48 << 20)}) as folder:
            whodisk("record", "-o", path, "--", sys.executable, "-S", "-E", "-c", READER, folder, file)
    except Unavailable as lack:
        pytest.skip(str(lack))
    with Case(path) as case:
        told = "FROM waits WHERE cause = 'direct reclaim' AND comm LIKE 'python%'"
        assert number(case, f"SELECT count(*) AS n {told}") > 10
        assert number(case, f"SELECT sum(duration_ns) AS n {told}") > 0


#: Makes, renames and removes directories: by a name from the root, from where it is, from a folder that it has open; and in memory.
NAMES = """
import os, sys
root = sys.argv[1]
memory = sys.argv[2]
folder = os.open(root, os.O_RDONLY)
os.chdir(root)
for n in range(17):
    os.mkdir(f"{root}/a{n}")
    os.mkdir(f"b{n}", dir_fd=folder)
    os.mkdir(f"./c{n}")
    os.mkdir(f"{memory}/d{n}")
    os.rmdir(f"{memory}/d{n}")
for n in range(13):
    os.rename(f"a{n}", f"{root}/e{n}", src_dir_fd=folder)
    os.fsync(folder)
for n in range(11):
    os.rmdir(f"{root}/e{n}")
for n in range(7):
    os.symlink("to", f"f{n}", dir_fd=folder)
    os.truncate(f"{root}/file", n)
file = os.open("file", os.O_RDONLY, dir_fd=folder)
for n in range(5):
    os.posix_fadvise(file, n << 12, 4096, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_SEQUENTIAL)
try:
    os.unlink(f"{root}/none")
except FileNotFoundError:
    pass
"""


@pytest.mark.root
def test_calls_on_names_are_told_by_kind_and_name(whodisk: Run, work: Path) -> None:
    path, root = work / "a.case", work / "names"
    root.mkdir()
    (root / "file").write_bytes(b"")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        whodisk("record", "-o", path, "--", sys.executable, "-S", "-E", "-c", NAMES, root, memory)
    whodisk("verify", path)
    with Case(path) as case:
        told = f"FROM syscall_ops WHERE comm LIKE 'python%' AND replace(file, '/./', '/') LIKE '{root}/%'"
        rows = case.rows(
            f"SELECT op, count(*) AS n {told} AND op NOT IN ('open', 'read') GROUP BY 1 ORDER BY 1"
        )
        expected = [("drop", 5), ("link", 7), ("mkdir", 51), ("rename", 13), ("truncate", 7), ("unlink", 12)]
        assert [(row["op"], row["n"]) for row in rows] == expected
        assert number(case, f"SELECT count(DISTINCT file) AS n {told} AND op = 'mkdir'") == 51
        assert number(case, f"SELECT count(*) AS n {told} AND op <> 'open' AND error = 2") == 1
        assert (
            number(case, f"SELECT count(*) AS n FROM syscall_ops WHERE op = 'sync' AND file = '{root}'") == 13
        )
        assert number(case, f"SELECT count(*) AS n FROM syscall_ops WHERE file LIKE '{memory}%'") == 0


#: Threads that append to files of their own and make that durable, so often each.
APPEND = """
import os, sys, threading
folder, threads, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def work(number):
    fd = os.open(f"{folder}/{number}", os.O_RDWR | os.O_CREAT)
    for place in range(rounds):
        os.pwrite(fd, b"x" * 4096, place * 4096)
        os.fsync(fd)
workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
"""


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize(
    ("kind", "fault"), [("xfs", "flush constant 20ms"), ("btrfs", "write constant 10ms")]
)
def test_syncs_that_join_a_commit_wait_for_the_disk(whodisk: Run, work: Path, kind: str, fault: str) -> None:
    """Whoever writes the log: what all who wait for it lost is told as the disk's."""
    path, threads, rounds = work / "a.case", 4, 7
    try:
        with (
            slowdisk(fault, seed=1, size="512MiB") as device,
            file_system(device, work / "mnt", kind) as folder,
        ):
            load = (sys.executable, "-S", "-E", "-c", APPEND, folder, str(threads), str(rounds))
            subprocess.run(["sync", "-f", folder], check=True)
            whodisk("record", "-o", path, "--", *load)
            name = device.name
    except Unavailable as lack:
        pytest.skip(str(lack))
    whodisk("verify", path)
    with Case(path) as case:
        syncs = "FROM syscall_ops WHERE op = 'sync' AND comm LIKE 'python%' AND latency_ns > 8e6"
        count = number(case, f"SELECT count(*) AS n {syncs}")
        assert count >= threads * rounds * 0.8
        lost = number(case, f"SELECT sum(latency_ns - runqueue_ns) AS n {syncs}")
        below = number(case, "SELECT sum(device_ns + coalesce(interrupt_ns, 0) + queue_ns) AS n " + syncs)
        assert below > 0.9 * lost, (below / lost, count)
        assert number(case, f"SELECT count(*) AS n {syncs} AND device = '{name}'") == count


MAPPED = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
memory = mmap.mmap(file, 0, prot=mmap.PROT_READ)
memory.madvise(mmap.MADV_RANDOM)
for page in range(0, len(memory) // mmap.PAGESIZE, 16):
    assert len(memory[page * mmap.PAGESIZE : page * mmap.PAGESIZE + 1]) == 1
"""


@pytest.mark.root
def test_page_faults_that_read_are_operations(whodisk: Run, work: Path) -> None:
    """A program that maps its file calls nobody: each page that it waits for is an operation, down to its request."""
    path, pages = work / "a.case", 16 * 256
    try:
        with slowdisk("read constant 2ms", seed=1) as device, file_system(device, work / "mnt") as folder:
            file = data(folder / "data", 16)
            whodisk("record", "-o", path, "--", sys.executable, "-c", MAPPED, file)
    except Unavailable as lack:
        pytest.skip(str(lack))
    whodisk("verify", path)
    with Case(path) as case:
        faults = "FROM syscall_ops WHERE op = 'fault' AND file LIKE '%/data'"
        # A thread that had no CPU while its page was read does not wait for it.
        waited = number(case, f"SELECT count(*) AS n {faults}")
        assert 0.95 * (pages // 16) <= waited <= pages // 16
        assert (
            number(case, f"SELECT count(DISTINCT offset_bytes) AS n {faults} AND offset_bytes % 65536 = 0")
            == waited
        )
        assert number(case, f"SELECT sum(size_bytes) AS n {faults}") == waited * 4096
        # Each waited for one request, which took 2 ms.
        linked = f"FROM links JOIN syscall_ops AS s ON s.op_id = parent_id JOIN block_ops AS b ON b.op_id = child_id WHERE s.op = 'fault' AND b.comm = s.comm AND s.op_id IN (SELECT op_id {faults})"
        assert number(case, f"SELECT count(DISTINCT parent_id) AS n {linked}") == waited
        assert number(case, f"SELECT median(device_ns) / 1e6 AS n {faults}") >= 2
        assert number(case, f"SELECT count(DISTINCT comm) AS n {faults} AND comm IS NOT NULL") == 1


WRITTEN = """
import mmap, os, sys, threading, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 1 << 20)
memory = mmap.mmap(file, 1 << 20)
memory[0] = 1
for number in range(3):
    time.sleep(0.5)
    memory[1] = number
    sync = threading.Thread(target=os.fsync, args=(file,))
    sync.start()
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        memory[2] = number
        time.sleep(0.001)
    sync.join()
"""


@pytest.mark.root
def test_writes_to_mapped_pages_that_wait_are_no_fault_that_is_over(whodisk: Run, work: Path) -> None:
    """A write to a page that is being written out sleeps in the file system, long after the last fault looked into a file."""
    path = work / "a.case"
    try:
        with (
            slowdisk("write constant 60ms", seed=1) as device,
            file_system(device, work / "mnt", "btrfs") as folder,
        ):
            whodisk("record", "-o", path, "--", sys.executable, "-c", WRITTEN, folder / "data")
    except Unavailable as lack:
        pytest.skip(str(lack))
    whodisk("verify", path)
    with Case(path) as case:
        waits = "FROM waits WHERE cause = 'page under writeback' AND duration_ns > 50e6"
        assert number(case, f"SELECT count(*) AS n {waits}") > 0
        # The last fault that looked into a file was before the sleep of 500 ms.
        faults = "FROM syscall_ops WHERE op = 'fault' AND latency_ns > 400e6"
        assert number(case, f"SELECT count(*) AS n {faults}") == 0
