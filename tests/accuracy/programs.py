"""Small programs that do I/O or disturb it. Run as a file; needs nothing but Python itself.

Each takes the name that it is called by, so that a recording shows it.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import mmap
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

PAGE = 4096
PR_SET_NAME = 15


def hog(o: argparse.Namespace) -> None:
    """Keeps one CPU busy at real-time priority, again and again."""
    os.sched_setaffinity(0, {o.cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    for until in _turns(o):
        while time.monotonic() < until:
            pass


def fsyncs(o: argparse.Namespace) -> None:
    """Appends to a file and syncs it, as fast as it goes, again and again; a file that has `size` begins anew."""
    file = os.open(o.path, os.O_RDWR | os.O_CREAT, 0o600)
    data, place = os.urandom(o.bytes), 0
    for until in _turns(o):
        while time.monotonic() < until:
            if place >= o.size:
                os.ftruncate(file, 0)
                place = 0
            place += os.pwrite(file, data, place)
            os.fsync(file)


def log(o: argparse.Namespace) -> None:
    """Writes a page and syncs the file, all the time: what a database does for its log."""
    file, end = os.open(o.path, os.O_RDWR | os.O_CREAT, 0o600), time.monotonic() + o.seconds
    data, place = os.urandom(PAGE), 0
    while time.monotonic() < end:
        os.pwrite(file, data, place * PAGE)
        os.fsync(file)
        place = (place + 1) % 1024


def rival(o: argparse.Namespace) -> None:
    """Reads a device in order and past the page cache, in `threads` parts of it, again and again."""
    part = o.size // o.threads
    for until in _turns(o):
        _together([partial(_stream, o, n * part, part, until) for n in range(o.threads)])


def _together(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _stream(o: argparse.Namespace, begin: int, length: int, until: float) -> None:
    file = os.open(o.path, os.O_RDONLY | os.O_DIRECT)
    buffer, place = mmap.mmap(-1, o.bytes), 0
    while time.monotonic() < until:
        os.preadv(file, [buffer], begin + place)
        place = (place + o.bytes) % length
    os.close(file)


def reader(o: argparse.Namespace) -> None:
    """Reads a file (of a device: the first `size` bytes) through the page cache: in order, or pages of it at random."""
    _join(o.group)
    file = os.open(o.path, os.O_RDONLY)
    if o.random:
        # All of it is read once, so that afterwards only what was evicted is missed.
        for first in range(0, o.size, 1 << 20):
            os.pread(file, 1 << 20, first)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    chance, place, begin, read = random.Random(o.seed), 0, time.monotonic(), 0
    while time.monotonic() < begin + o.seconds:
        if o.random:
            place = chance.randrange(o.size // o.bytes) * o.bytes
        got = os.pread(file, o.bytes, place)
        place, read = place + len(got), read + len(got)
        _keep_pace(o, begin, read)
        if place >= o.size or not got:
            place = 0
            if not o.random:
                # What was read goes, so that every round comes from the device.
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def writer(o: argparse.Namespace) -> None:
    """Writes a file through the page cache, round and round: as fast as it goes, or `rate` bytes per second."""
    _join(o.group)
    file = os.open(o.path, os.O_RDWR | os.O_CREAT, 0o600)
    data, place, begin, written = os.urandom(o.bytes), 0, time.monotonic(), 0
    while time.monotonic() < begin + o.seconds:
        written += os.pwrite(file, data, place)
        place = (place + o.bytes) % o.size
        _keep_pace(o, begin, written)


def retries(o: argparse.Namespace) -> None:
    """Reads pages at random past the page cache; what fails is read again up to three times."""
    file = os.open(o.path, os.O_RDONLY | os.O_DIRECT)
    chance, buffer, end = random.Random(o.seed), mmap.mmap(-1, PAGE), time.monotonic() + o.seconds
    while time.monotonic() < end:
        place = chance.randrange(o.size // PAGE) * PAGE
        for _ in range(1 + 3):
            try:
                os.preadv(file, [buffer], place)
                break
            except OSError as error:
                if error.errno not in (errno.EIO, errno.ENODATA, errno.ETIMEDOUT):
                    raise


PROGRAMS: dict[str, Callable[[argparse.Namespace], None]] = {
    p.__name__: p for p in (hog, fsyncs, log, rival, reader, writer, retries)
}


def _turns(o: argparse.Namespace) -> Iterator[float]:
    """The end of each time of work; between them it sleeps. Lengths vary by a third."""
    chance = random.Random(o.seed)
    while True:
        time.sleep(o.idle * chance.uniform(0.67, 1.33))
        yield time.monotonic() + o.busy * chance.uniform(0.67, 1.33)


def _keep_pace(o: argparse.Namespace, begin: float, moved: int) -> None:
    if o.rate:
        time.sleep(max(0.0, begin + moved / o.rate - time.monotonic()))


def _join(group: str) -> None:
    if group:
        (Path(group) / "cgroup.procs").write_text("0", encoding="ascii")


def main() -> None:
    """Command line: a name and its options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(PROGRAMS))
    parser.add_argument("--path", help="file or device")
    parser.add_argument("--size", type=int, help="bytes of it that are used")
    parser.add_argument("--bytes", type=int, default=PAGE, help="size of each operation")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--busy", type=float, default=0.0, help="seconds of work in a row")
    parser.add_argument("--idle", type=float, default=0.0, help="seconds of sleep between them")
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.0, help="bytes per second; 0 is as fast as it goes")
    parser.add_argument("--random", type=int, default=0, help="1: at random places")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--group", default="", help="folder of the control group to run in")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_NAME, options.name.encode(), 0, 0, 0)
    PROGRAMS[options.name](options)


if __name__ == "__main__":
    main()
