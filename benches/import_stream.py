#!/usr/bin/env python3
"""A long log through a pipe into a case: what memory `whodisk import -` takes at its peak, and whether it tells how far it is.

The log is fio's latency log of a job with 20,000 operations a second, made up with a fixed seed as it is written: no file holds it. The same is
done with a tenth of it, so that memory that grows with the input shows. Of this a second process, the generator, takes CPU time, too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from common import BenchError, machine, run_main, write_json
from engine import RELEASE, WORK

#: Memory of the whole log over that of a tenth: more would be growth.
GROWTH_MAX = 1.25
OPERATIONS_PER_MS = 20
#: Milliseconds after which the same operations come again: more than a page of a table holds, so that nothing is smaller for it.
CYCLE_MS = 10_000
#: Progress comes every five seconds where nobody looks; a run that takes this long must have told something.
SILENCE_S = 15.0


@dataclass(frozen=True)
class Run:
    """One import."""

    lines: int
    written: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    progress: list[str]
    case_bytes: int


def main() -> int:
    """Exit code 0: memory is bounded and progress was told; 1: not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10.0, help="length of the log [10]")
    # Every benchmark gets the options of `make bench`; there is but one round here.
    parser.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    length = int(options.gigabytes * 1e9)
    tenth, whole = _run(length // 10), _run(length)
    print(f"machine: {machine(WORK)}")
    print("GENERATOR | whodisk import - --as fio-lat -o CASE")
    for name, run in (("a tenth", tenth), ("all", whole)):
        print(
            f"{name}: {run.written / 1e9:.2f} GB, {run.lines:,} operations: {run.wall_s:.1f} s, "
            f"{run.written / 1e6 / run.cpu_s:.0f} MB per CPU second, peak memory {run.peak_bytes / 2**20:.0f} MiB, "
            f"{len(run.progress)} lines of progress, case {run.case_bytes / 1e9:.2f} GB"
        )
    if whole.progress:
        print(f"the last of them: {whole.progress[-1]}")
    growth = whole.peak_bytes / tenth.peak_bytes
    bounded, told = growth <= GROWTH_MAX, bool(whole.progress) or whole.wall_s < SILENCE_S
    print(f"memory, all / a tenth = {growth:.3f}   bar <= {GROWTH_MAX:g}: {'met' if bounded else 'NOT MET'}")
    print(f"progress is printed while it reads   {'met' if told else 'NOT MET'}")
    write_json(
        WORK / "import_stream.json", {name: vars(run) for name, run in (("tenth", tenth), ("all", whole))}
    )
    return 0 if bounded and told else 1


def _run(length: int) -> Run:
    case = WORK / "import-stream.case"
    shutil.rmtree(case, ignore_errors=True)
    agent = os.environ.get("WHODISK_AGENT", str(RELEASE / "whodisk-agent"))
    command = [agent, "import", "-", "--as", "fio-lat", "-o", str(case), "--json"]
    begun_s = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin and process.stdout and process.stderr
    said: list[str] = []
    outputs = [_reader(process.stderr, said.append), _reader(process.stdout, lambda _: None)]
    try:
        lines, written = _write(process.stdin, length)
    except BrokenPipeError:
        lines = written = 0
    for output in outputs:
        output.join()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - begun_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchError(f"whodisk import: exit {process.returncode}\n{''.join(said)}")
    if not any(f"{lines:,} records, {lines:,} rows" in line for line in said):
        raise BenchError(f"expected {lines:,} operations in the case, found {said[-1]}")
    case_bytes = sum(file.stat().st_size for file in case.rglob("*") if file.is_file())
    shutil.rmtree(case)
    progress = [line.strip() for line in said if "bytes done" in line]
    cpu_s, peak_bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    return Run(lines, written, wall_s, cpu_s, peak_bytes, progress, case_bytes)


def _reader(stream: IO[bytes], take: Callable[[str], object]) -> threading.Thread:
    def read() -> None:
        for line in stream:
            take(line.decode())

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def _write(to: IO[bytes], length: int) -> tuple[int, int]:
    """The log, up to this many bytes; how many lines and bytes it was."""
    draw = random.Random(1)

    def operation() -> str:
        latency_ns, place = int(draw.lognormvariate(11.4, 0.5)), draw.randrange(1 << 20) * 4096
        return f"@, {latency_ns}, {draw.randrange(2)}, 4096, {place}, 0x0000\n"

    cycle = ["".join(operation() for _ in range(OPERATIONS_PER_MS)).encode() for _ in range(CYCLE_MS)]
    written = now_ms = 0
    with to:
        while written < length:
            block = b"".join(group.replace(b"@", b"%d" % (now_ms + at)) for at, group in enumerate(cycle))
            to.write(block)
            written += len(block)
            now_ms += CYCLE_MS
    return now_ms * OPERATIONS_PER_MS, written


if __name__ == "__main__":
    run_main(main)
