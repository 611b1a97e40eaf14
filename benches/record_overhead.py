#!/usr/bin/env python3
"""What recording every block request costs a workload, and what it loses, beside the other tracers.

Two targets: a file on the system disk, and a loop device over memory, which is bound by the CPU and so shows
every nanosecond. fio reads 4 KiB at random, direct, two jobs at depth 32. Arms, interleaved: untraced; whodisk with
its block probe (rows of all requests, on the system disk); whodisk with its default probes; the kernel's `blk` tracer through binary pipes; bpftrace printing
one line per request like biosnoop. Then: CPU time of whodisk while fio reads at 20,000 IOPS. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from common import (
    ROUNDS_MIN,
    BenchError,
    interleave,
    machine,
    print_verdict,
    ratio,
    run_main,
    run_measured,
    summary_line,
    tool_version,
    write_json,
)
from engine import RELEASE, WORK

UNTRACED = "untraced"
OURS = "whodisk, block"
DEFAULT = "whodisk, default probes"
KERNEL = "kernel blk tracer"
BIOSNOOP = "bpftrace biosnoop"
#: Where tracers differ. The disk has its own limit, and hardly shows which of them runs.
BOUND_BY_CPU = "loop over memory"
#: Least ratios of IOPS (DESIGN 10): ours over another arm. On the disk all default probes meet theirs if the interval reaches it.
BARS: dict[str, list[tuple[str, str, float]]] = {
    "system disk": [(OURS, KERNEL, 0.98), (DEFAULT, UNTRACED, 0.95)],
    BOUND_BY_CPU: [(OURS, KERNEL, 1.10), (OURS, BIOSNOOP, 2.5), (DEFAULT, UNTRACED, 0.75)],
}
#: What each of our arms adds to the command.
PROBES: dict[str, list[str]] = {OURS: ["--probe", "block"], DEFAULT: []}
CPU_BAR = 0.02
RATED_IOPS = 20_000

TRACEFS = Path("/sys/kernel/tracing")
#: One line per request as biosnoop prints it; the script that bpftrace ships needs kprobes, these are tracepoints.
BIOSNOOP_SCRIPT = """
tracepoint:block:block_io_start { @start[args->sector, args->dev] = nsecs; @comm[args->sector, args->dev] = comm;
  @pid[args->sector, args->dev] = pid; }
tracepoint:block:block_io_done /@start[args->sector, args->dev]/ {
  printf("%-12u %-16s %-7d %-8d %-4s %-12d %-7d\\n", elapsed / 1000, @comm[args->sector, args->dev],
    @pid[args->sector, args->dev], args->dev, args->rwbs, args->sector,
    (nsecs - @start[args->sector, args->dev]) / 1000);
  delete(@start[args->sector, args->dev]); delete(@comm[args->sector, args->dev]);
  delete(@pid[args->sector, args->dev]); }
END { clear(@start); clear(@comm); clear(@pid); }
"""
#: Moves pages of one CPU's trace buffer into a file without copying them.
PIPE_READER = """
import os, sys
source, target = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
read, write = os.pipe()
while (moved := os.splice(source, write, 65536)) >= 0:
    while moved > 0:
        moved -= os.splice(read, target, moved)
"""


def main() -> int:
    """Exit code 0: the bars are met; 1: they are not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--target", choices=list(BARS), nargs="+", default=list(BARS))
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise BenchError("recording needs root; run as root")
    WORK.mkdir(parents=True, exist_ok=True)
    mount_tracefs()
    met = True
    kept: dict[str, object] = {}
    with system_disk_file() as file, loop_device() as loop:
        print(f"machine: {machine(file)}; {tool_version(['fio', '--version'])}, {bpftrace_version()}")
        for name in PROBES:
            print(f"{name}: {shlex.join(ours_command(name, Path('CASE')))}")
        for target, path, device in (
            ("system disk", file, block_device_of(file)),
            (BOUND_BY_CPU, loop, loop.name),
        ):
            if target not in options.target:
                continue
            losses: dict[str, list[int]] = {OURS: [], DEFAULT: [], KERNEL: [], BIOSNOOP: []}
            command = fio_command(path, options.seconds)
            samples = interleave(arms(command, device, losses), options.rounds)
            print(f"\n{target}: {shlex.join(command)}")
            for name, values in samples.items():
                lost = f"; lost {sum(losses[name]):,} in {options.rounds} rounds" if name in losses else ""
                print(summary_line(name, values, "IOPS") + lost)
            for name, other, bar in BARS[target]:
                reaches = (name, target) == (DEFAULT, "system disk")
                met &= print_verdict(ratio(samples, name, other), "IOPS", bar, reaches=reaches)
            for name in (OURS, KERNEL, BIOSNOOP):
                print(ratio(samples, name, UNTRACED).text("IOPS"))
            nothing_lost = not any(losses[OURS] + losses[DEFAULT])
            met &= nothing_lost
            lost = sum(losses[OURS]) + sum(losses[DEFAULT])
            print(f"events that whodisk lost: {lost:,}   bar <= 0: {'met' if nothing_lost else 'NOT MET'}")
            kept[target] = {"iops": samples, "lost": losses}
        print()
        for name in PROBES:
            share = cpu_share(name, file, options.seconds * 2)
            kept[f"cpu_share of {name}"] = share
            verdict = "met" if share <= CPU_BAR else "NOT MET"
            print(
                f"CPU of {name} at {RATED_IOPS:,} IOPS: {share:.2%} of one core   bar <= {CPU_BAR:.0%}: {verdict}"
            )
            met &= share <= CPU_BAR
    write_json(WORK / "record_overhead.json", kept)
    return 0 if met else 1


def arms(command: list[str], device: str, losses: dict[str, list[int]]) -> dict[str, Callable[[], float]]:
    """fio without and with each tracer; what a run lost is appended to `losses`."""
    return {
        UNTRACED: lambda: fio_iops(command),
        OURS: lambda: traced(ours(OURS, losses[OURS]), command),
        DEFAULT: lambda: traced(ours(DEFAULT, losses[DEFAULT]), command),
        KERNEL: lambda: traced(kernel_tracer(device, losses[KERNEL]), command),
        BIOSNOOP: lambda: traced(biosnoop(losses[BIOSNOOP]), command),
    }


def fio_command(path: Path, seconds: int, *more: str) -> list[str]:
    """fio as every arm runs it."""
    return [
        *("fio", "--name=load", f"--filename={path}", "--direct=1", "--ioengine=io_uring", "--rw=randread"),
        *("--bs=4k", "--iodepth=32", "--numjobs=2", "--size=1g", "--norandommap", "--randrepeat=0"),
        *("--time_based", f"--runtime={seconds}", "--group_reporting", "--output-format=json", *more),
    ]


def fio_iops(command: list[str]) -> float:
    """Reads per second of one run."""
    text = run_measured(command).stdout
    return float(json.loads(text[text.index("{") :])["jobs"][0]["read"]["iops"])


def traced(tracer: contextlib.AbstractContextManager[object], command: list[str]) -> float:
    """Reads per second while `tracer` is at work."""
    with tracer:
        return fio_iops(command)


def ours_command(name: str, case: Path) -> list[str]:
    """Record everything until interrupted; sealing comes later and is not part of recording."""
    return [str(RELEASE / "whodisk-agent"), "record", "--no-seal", *PROBES[name], "-o", str(case)]


@contextlib.contextmanager
def ours(name: str, lost: list[int]) -> Iterator[int]:
    """Our recorder, on the system disk; yields its pid and appends what it lost."""
    folder = Path(tempfile.mkdtemp(dir=WORK))
    case = folder / "case"
    try:
        with background(ours_command(name, case)) as process:
            wait_for((case / "raw/block/block.arrows").exists, "whodisk to record")
            yield process.pid
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        probes = json.loads((case / "case.json").read_text(encoding="utf-8"))["probes"]
        lost.append(sum(probe["lost"] for probe in probes.values()))
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def kernel_tracer(device: str, lost: list[int]) -> Iterator[None]:
    """The kernel's `blk` tracer: the events of blktrace, read as binary pages of 64 MiB buffers per CPU."""
    enable = Path(f"/sys/block/{device}/trace/enable")
    folder = Path(tempfile.mkdtemp(dir=WORK))
    cpus = sorted((TRACEFS / "per_cpu").glob("cpu*"))
    try:
        (TRACEFS / "buffer_size_kb").write_text("65536")
        (TRACEFS / "current_tracer").write_text("blk")
        (TRACEFS / "trace").write_text("")
        (TRACEFS / "tracing_on").write_text("1")
        with contextlib.ExitStack() as readers:
            for cpu in cpus:
                reader = [sys.executable, "-c", PIPE_READER]
                readers.enter_context(
                    background([*reader, str(cpu / "trace_pipe_raw"), str(folder / cpu.name)])
                )
            enable.write_text("1")
            yield
            enable.write_text("0")
            lost.append(sum(overruns(cpu) for cpu in cpus))
    finally:
        enable.write_text("0")
        (TRACEFS / "current_tracer").write_text("nop")
        (TRACEFS / "buffer_size_kb").write_text("1408")
        shutil.rmtree(folder)


def overruns(cpu: Path) -> int:
    """Events that this CPU's buffer had no room for."""
    stats = dict(line.split(":", 1) for line in (cpu / "stats").read_text().splitlines() if ":" in line)
    return int(stats["overrun"]) + int(stats["dropped events"])


@contextlib.contextmanager
def biosnoop(lost: list[int]) -> Iterator[None]:
    """bpftrace with one line per request, into memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        out, errors = Path(folder) / "out", Path(folder) / "errors"
        command = ["bpftrace", "-B", "full", "-o", str(out), "-e", BIOSNOOP_SCRIPT]
        with errors.open("w") as log, background(command, stderr=log) as process:
            wait_for(lambda: out.exists() and "Attaching" in out.read_text(), "bpftrace to attach")
            time.sleep(1)
            yield
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        words = (errors.read_text() + out.read_text(errors="replace")[-100_000:]).split()
        pairs = itertools.pairwise(words)
        counts = [int(count) for word, count in pairs if word == "Lost" and count.isdigit()]
        lost.append(sum(counts))


def cpu_share(name: str, file: Path, seconds: int) -> float:
    """CPU seconds per second of our recorder while fio reads at a fixed rate; starting up is not in it."""
    command = fio_command(file, seconds, f"--rate_iops={RATED_IOPS // 2}")
    with ours(name, []) as pid:
        time.sleep(1)
        before_s, started_s = process_cpu_s(pid), time.monotonic()
        iops = fio_iops(command)
        used_s, wall_s = process_cpu_s(pid) - before_s, time.monotonic() - started_s
    if iops < 0.95 * RATED_IOPS:
        raise BenchError(f"fio was to read at {RATED_IOPS} IOPS, it reached {iops:.0f}; quieten the machine")
    return used_s / wall_s


def process_cpu_s(pid: int) -> float:
    """User and system time of all threads so far, to the nanosecond."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


@contextlib.contextmanager
def background(command: list[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended with the block."""
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    process = subprocess.Popen(command, **streams)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_for(ready: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    """Poll until `ready`; raises BenchError after the time."""
    deadline_s = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > deadline_s:
            raise BenchError(f"waited {timeout_s} s for {what}")
        time.sleep(0.02)


@contextlib.contextmanager
def system_disk_file() -> Iterator[Path]:
    """A file of 1 GiB on the disk of this checkout."""
    path = WORK / "record-overhead.dat"
    try:
        if not path.exists():
            run_measured(["dd", "if=/dev/urandom", f"of={path}", "bs=1M", "count=1024", "conv=fsync"])
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def loop_device() -> Iterator[Path]:
    """A loop device over 1 GiB of memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        image = Path(folder) / "image"
        run_measured(["dd", "if=/dev/zero", f"of={image}", "bs=1M", "count=1024"])
        device = run_measured(["losetup", "--find", "--show", str(image)]).stdout.strip()
        try:
            yield Path(device)
        finally:
            run_measured(["losetup", "--detach", device])


def block_device_of(path: Path) -> str:
    """Name below /sys/block of the disk that holds `path`."""
    number = path.stat().st_dev
    entry = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    return entry.parent.name if (entry / "partition").exists() else entry.name


def mount_tracefs() -> None:
    """The kernel's tracer and bpftrace need it."""
    if not (TRACEFS / "current_tracer").exists():
        run_measured(["mount", "-t", "tracefs", "nodev", str(TRACEFS)])


def bpftrace_version() -> str:
    """Version line of bpftrace."""
    return tool_version(["bpftrace", "--version"])


if __name__ == "__main__":
    run_main(main)
