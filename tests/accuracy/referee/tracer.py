"""A second tracer: the kernel's own event tracing (tracefs) of block requests, with nothing of whodisk in it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
BUFFER_KIB_PER_CPU = 24 << 10
EVENTS = ("block/block_rq_issue", "block/block_rq_complete")
#: `tar-12  [001] ..... 123.456789: block_rq_issue: 7,0 W 4096 () 2048 + 8 none,0,0 [tar]`
LINE = re.compile(
    r"\s(\d+)\.(\d{6,9}): block_rq_(issue|complete): (\d+),(\d+) (\w+) (?:\d+ )?\(.*?\) (\d+) \+ (\d+)"
)


class TracerError(Exception):
    """The kernel's event tracing cannot be used here; the text says what is missing."""


@dataclass(frozen=True)
class Request:
    """One block request as the second tracer saw it. Times in CLOCK_MONOTONIC, to 1 us."""

    device: str
    start_ns: int
    latency_ns: int
    kind: str


@contextmanager
def traced() -> Iterator[list[Request]]:
    """Traces all block devices; the list is filled at the end. Raises TracerError if it cannot."""
    found: list[Request] = []
    with instance("referee", EVENTS) as folder:
        yield found
        found += requests(written(folder), _devices())


@contextmanager
def instance(name: str, events: Sequence[str], settings: Sequence[tuple[str, str]] = ()) -> Iterator[Path]:
    """The folder of an instance of its own, in which these events are traced. Raises TracerError if it cannot."""
    if not (TRACEFS / "instances").is_dir():
        # As perf does, and the recorder.
        subprocess.run(["mount", "-t", "tracefs", "nodev", str(TRACEFS)], check=False, capture_output=True)
    if not (TRACEFS / "instances").is_dir():
        raise TracerError(f"{TRACEFS}: expected tracefs, found none; mount -t tracefs nodev {TRACEFS}")
    for old in (TRACEFS / "instances").glob(f"{name}-*"):
        # Of a run that was killed.
        if not Path("/proc", old.name.rpartition("-")[2]).exists():
            with suppress(OSError):
                old.rmdir()
    # Tests run side by side.
    folder = TRACEFS / "instances" / f"{name}-{os.getpid()}"
    folder.mkdir()
    try:
        every = (("trace_clock", "mono"), ("buffer_size_kb", str(BUFFER_KIB_PER_CPU)), *settings)
        for file, value in (*every, *((f"events/{event}/enable", "1") for event in events)):
            (folder / file).write_text(value, encoding="ascii")
        yield folder
    finally:
        folder.rmdir()


def written(folder: Path) -> Iterator[str]:
    """The lines of an instance, which traces no more."""
    (folder / "tracing_on").write_text("0", encoding="ascii")
    with (folder / "trace").open(encoding="utf-8", errors="replace") as lines:
        yield from lines


def requests(lines: Iterable[str], devices: dict[tuple[int, int], str]) -> Iterator[Request]:
    """Joins issue and completion of the same device, place and kind; what the buffer lost has no other half and is left out."""
    issued: dict[tuple[str, str, str], int] = {}
    for line in lines:
        if (match := LINE.search(line)) is None:
            continue
        seconds, parts, what, major, minor, kind, sector, _ = match.groups()
        at_ns = int(seconds) * 10**9 + int(parts.ljust(9, "0"))
        device = devices.get((int(major), int(minor)), f"{major}:{minor}")
        place = (device, sector, kind)
        if what == "issue":
            issued[place] = at_ns
        elif (begin := issued.pop(place, None)) is not None:
            yield Request(device, begin, at_ns - begin, kind)


def _devices() -> dict[tuple[int, int], str]:
    """Names of disks by their numbers."""
    found = {}
    for path in Path("/sys/block").iterdir():
        major, minor = (path / "dev").read_text(encoding="ascii").strip().split(":")
        found[int(major), int(minor)] = path.name
    return found
