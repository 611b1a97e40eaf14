#!/usr/bin/env python3
"""What recording costs calls that end in memory: `stat`, and `open` with `close`.

whodisk keeps such a call only if its thread slept in it, so it pays for each and writes none of these down. Arms, interleaved: untraced;
`whodisk record` with its default probes; its peer, statsnoop and opensnoop of bcc in one bpftrace script, which prints calls that took
over 10 ms: none of these either. One thread calls in a loop, on a file of a tmpfs. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

from common import (
    ROUNDS_MIN,
    BenchError,
    interleave,
    machine,
    ratio,
    run_main,
    run_measured,
    summary_line,
    write_json,
)
from engine import WORK
from record_modes import bpftrace, whodisk
from record_overhead import bpftrace_version

UNTRACED, OURS, SNOOP = "untraced", "whodisk record", "bpftrace, stat and open"
RECORD = ["record", "--no-seal", "-o", "CASE"]
#: Calls in a loop for so many seconds; prints the nanoseconds of one round of it.
LOOP = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count, char **words) {
    if (count != 4) return 2;
    int opens = strcmp(words[1], "open") == 0;
    double begin = now_ns(), end = begin + atof(words[2]) * 1e9, calls = 0;
    while (now_ns() < end) {
        for (int i = 0; i < 256; i++, calls++) {
            struct stat found;
            int file = opens ? open(words[3], O_RDONLY) : -1;
            if (opens ? file < 0 || close(file) : stat(words[3], &found)) return 1;
        }
    }
    printf("%.1f\n", (now_ns() - begin) / calls);
    return 0;
}
"""
SCRIPT = """
tracepoint:syscalls:sys_enter_newfstatat, tracepoint:syscalls:sys_enter_newstat, tracepoint:syscalls:sys_enter_openat,
tracepoint:syscalls:sys_enter_close { @begin[tid] = nsecs; }
tracepoint:syscalls:sys_exit_newfstatat, tracepoint:syscalls:sys_exit_newstat, tracepoint:syscalls:sys_exit_openat,
tracepoint:syscalls:sys_exit_close /@begin[tid]/ {
  if (nsecs - @begin[tid] > 10000000) { printf("%s %d\\n", comm, nsecs - @begin[tid]); }
  delete(@begin[tid]); }
END { clear(@begin); }
"""


def main() -> int:
    """Exit code 0: measured; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise BenchError("recording needs root; run as root")
    WORK.mkdir(parents=True, exist_ok=True)
    print(f"machine: {machine(WORK)}; {bpftrace_version()}")
    print(f"{OURS}: whodisk {shlex.join(RECORD)}")
    every = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file, source, loop = (Path(folder) / name for name in ("file", "loop.c", "loop"))
        file.touch()
        source.write_text(LOOP, encoding="utf-8")
        run_measured(["cc", "-O2", "-o", str(loop), str(source)])
        for calls, told in (("stat", "stat"), ("open", "open and close")):
            command = [str(loop), calls, str(options.seconds), str(file)]
            samples = interleave(_arms(command), options.rounds)
            print(f"\n{told}: loop {calls} {options.seconds} FILE")
            for name, values in samples.items():
                print(summary_line(name, values, "ns a round"))
            for name in (OURS, SNOOP):
                print(ratio(samples, name, UNTRACED).text(f"time of {told}"))
            print(ratio(samples, OURS, SNOOP).text(f"time of {told}"))
            every[calls] = samples
    write_json(WORK / "call_overhead.json", {"ns": every})
    return 0


def _arms(command: list[str]) -> dict[str, Callable[[], float]]:
    def beside(tracer: Callable[[], contextlib.AbstractContextManager[object]]) -> Callable[[], float]:
        def arm() -> float:
            with tracer():
                return _took_ns(command)

        return arm

    return {
        UNTRACED: lambda: _took_ns(command),
        OURS: beside(lambda: whodisk(RECORD)),
        SNOOP: beside(lambda: bpftrace(SCRIPT)),
    }


def _took_ns(command: list[str]) -> float:
    return float(run_measured(command).stdout)


if __name__ == "__main__":
    run_main(main)
