#!/usr/bin/env python3
"""What whodisk costs where it is left on: the flight recorder, a recording of something else's scope, and `watch`.

Target: a loop device over memory, which is bound by the CPU and so shows every nanosecond; fio as in `record_overhead`.
Arms, interleaved: untraced; `whodisk record` with its default probes, for comparison; the same limited to a process that does
nothing; the same as a flight recorder whose trigger never fires; `whodisk watch`; and its peer, a histogram of latencies per
device by bpftrace (biolatency of bcc, on tracepoints). Then CPU time of each of ours while fio reads from the system's disk at
20,000 IOPS, and memory of the flight recorder. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from common import (
    ROUNDS_MIN,
    BenchError,
    interleave,
    machine,
    ratio,
    run_main,
    summary_line,
    tool_version,
    write_json,
)
from engine import RELEASE, WORK
from record_overhead import (
    RATED_IOPS,
    background,
    bpftrace_version,
    fio_command,
    fio_iops,
    loop_device,
    process_cpu_s,
    system_disk_file,
    wait_for,
)

UNTRACED = "untraced"
WATCH = "whodisk watch"
FLIGHT = "whodisk record, flight recorder"
HISTOGRAM = "bpftrace histogram"
#: What each of our arms runs; CASE and PID are replaced.
MODES: dict[str, list[str]] = {
    "whodisk record": ["record", "--no-seal", "-o", "CASE"],
    "whodisk record, another process": ["record", "--no-seal", "-o", "CASE", "--pid", "PID"],
    FLIGHT: ["record", "-o", "CASE", "--ring", "30s", "--trigger", "latency > 10min"],
    WATCH: ["watch", "--json"],
}
#: What biolatency prints at its end: a histogram of latencies per device.
HISTOGRAM_SCRIPT = """
tracepoint:block:block_io_start { @start[args->sector, args->dev] = nsecs; }
tracepoint:block:block_io_done /@start[args->sector, args->dev]/ {
  @us[args->dev] = hist((nsecs - @start[args->sector, args->dev]) / 1000);
  delete(@start[args->sector, args->dev]); }
END { clear(@start); }
"""
#: Attaching is not what is measured.
SETTLE_S = 1.0


def main() -> int:
    """Exit code 0: measured; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument("--seconds", type=int, default=4)
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise BenchError("recording needs root; run as root")
    WORK.mkdir(parents=True, exist_ok=True)
    with system_disk_file() as file, loop_device() as loop:
        print(f"machine: {machine(file)}; {tool_version(['fio', '--version'])}, {bpftrace_version()}")
        command = fio_command(loop, options.seconds)
        arms: dict[str, Callable[[], float]] = {UNTRACED: lambda: fio_iops(command)}
        for name, arguments in MODES.items():
            print(f"{name}: whodisk {shlex.join(arguments)}")
            arms[name] = _traced(arguments, command)
        arms[HISTOGRAM] = lambda: _beside_histogram(command)
        samples = interleave(arms, options.rounds)
        print(f"\nloop over memory: {shlex.join(command)}")
        for name, values in samples.items():
            print(summary_line(name, values, "IOPS"))
        for name in [*MODES, HISTOGRAM]:
            print(ratio(samples, name, UNTRACED).text("IOPS"))
        print(ratio(samples, WATCH, HISTOGRAM).text("IOPS"))
        print()
        shares = {}
        for name, arguments in MODES.items():
            shares[name], memory_mib = _cost(arguments, file, options.seconds * 2)
            print(
                f"{name} at {RATED_IOPS:,} IOPS: {shares[name]:.2%} of one core, {memory_mib:.0f} MiB of memory"
            )
    write_json(WORK / "record_modes.json", {"iops": samples, "cpu_share": shares})
    return 0


def _traced(arguments: list[str], command: list[str]) -> Callable[[], float]:
    def arm() -> float:
        with whodisk(arguments):
            return fio_iops(command)

    return arm


@contextlib.contextmanager
def whodisk(arguments: list[str]) -> Iterator[int]:
    """Our command in this mode, ready; yields its pid."""
    folder = Path(tempfile.mkdtemp(dir=WORK))
    said = folder / "said"
    try:
        with said.open("wb") as log, background(["sleep", "infinity"]) as idle:
            places = {"CASE": str(folder / "case"), "PID": str(idle.pid)}
            command = [str(RELEASE / "whodisk-agent"), *(places.get(a, a) for a in arguments)]
            with background(command, stdout=log, stderr=log) as process:
                wait_for(lambda: said.stat().st_size > 0, f"{shlex.join(command)} to begin")
                time.sleep(SETTLE_S)
                yield process.pid
                process.send_signal(signal.SIGINT)
                process.wait(timeout=60)
    finally:
        shutil.rmtree(folder)


def _beside_histogram(command: list[str]) -> float:
    with bpftrace(HISTOGRAM_SCRIPT):
        return fio_iops(command)


@contextlib.contextmanager
def bpftrace(script: str) -> Iterator[None]:
    """This script of bpftrace, attached."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        out = Path(folder) / "out"
        with background(["bpftrace", "-B", "full", "-o", str(out), "-e", script]) as process:
            wait_for(lambda: out.exists() and "Attaching" in out.read_text(), "bpftrace to attach")
            time.sleep(SETTLE_S)
            yield
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def _cost(arguments: list[str], file: Path, seconds: int) -> tuple[float, float]:
    """CPU seconds per second while fio reads at a fixed rate, and resident memory at the end, MiB."""
    command = fio_command(file, seconds, f"--rate_iops={RATED_IOPS // 2}")
    with whodisk(arguments) as pid:
        before_s, started_s = process_cpu_s(pid), time.monotonic()
        fio_iops(command)
        used_s, wall_s = process_cpu_s(pid) - before_s, time.monotonic() - started_s
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return used_s / wall_s, resident / 2**20


if __name__ == "__main__":
    run_main(main)
