"""One workload, recorded at once by fio's log, by the kernel's `blk` tracer, by bpftrace's biosnoop and by whodisk: the counts are equal."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.conftest import AGENT
from whodisk.reading.views import Case

TRACEFS = Path("/sys/kernel/tracing")
OPERATIONS = 300

#: What biosnoop.bt prints where it uses tracepoints; older ones attach to functions that newer kernels do not let them trace.
SNOOP = r"""
BEGIN {
  printf("%-12s %-14s %-16s %-6s %7s\n", "TIME(ms)", "DISK ID", "COMM", "PID", "LAT(ms)");
  printf("             MAJOR MINOR\n");
}
tracepoint:block:block_io_start {
  @begun[args->dev, args->sector] = nsecs;
  @comm[args->dev, args->sector] = comm;
  @pid[args->dev, args->sector] = pid;
}
tracepoint:block:block_io_done /@begun[args->dev, args->sector]/ {
  $ms = (nsecs - @begun[args->dev, args->sector]) / 1000000;
  printf("%-12u %-5d %-8d %-16s %-6d %7d\n", elapsed / 1000000, args->dev >> 20, args->dev & 0xfffff,
    @comm[args->dev, args->sector], @pid[args->dev, args->sector], $ms);
  delete(@begun[args->dev, args->sector]);
  delete(@comm[args->dev, args->sector]);
  delete(@pid[args->dev, args->sector]);
}
END { clear(@begun); clear(@comm); clear(@pid); }
"""


@contextmanager
def loop_device(image: Path) -> Iterator[str]:
    """A block device that nobody else uses."""
    with image.open("wb") as file:
        file.truncate(16 << 20)
    try:
        done = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loop device can be set up here: {error}")
    device = done.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], check=False)


@contextmanager
def kernel_tracer(device: str) -> Iterator[None]:
    """The kernel's `blk` tracer is on for this device."""
    switch, tracer = Path("/sys/block", Path(device).name, "trace/enable"), TRACEFS / "current_tracer"
    if not switch.exists() or "blk" not in (TRACEFS / "available_tracers").read_text().split():
        pytest.skip("this kernel has no blk tracer")
    if tracer.read_text().strip() != "nop":
        pytest.skip("somebody else uses the kernel's tracer")
    try:
        tracer.write_text("blk")
        (TRACEFS / "trace").write_text("")
        switch.write_text("1")
        yield
    finally:
        switch.write_text("0")
        tracer.write_text("nop")


@contextmanager
def biosnoop(log: Path) -> Iterator[bool]:
    """biosnoop of bpftrace writes to this file; False: there is no bpftrace."""
    if shutil.which("bpftrace") is None:
        yield False
        return
    with log.open("w") as file:
        command = ["bpftrace", "-B", "line", "-e", SNOOP]
        snoop = subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 30
        while "MAJOR" not in log.read_text():
            assert snoop.poll() is None, snoop.communicate()[1]
            assert time.monotonic() < until, "bpftrace did not begin"
            time.sleep(0.05)
        yield True
    finally:
        snoop.send_signal(signal.SIGINT)
        snoop.communicate(timeout=30)


@pytest.mark.root
def test_four_recorders_count_the_same(work: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    with loop_device(work / "disk.img") as device:
        command = (
            f"fio --name=j --filename={device} --rw=randrw --bs=4k --direct=1 --ioengine=psync --size=16M "
            f"--number_ios={OPERATIONS} --randseed=7 --write_lat_log=j --log_offset=1 --output=fio.txt"
        )
        with kernel_tracer(device), biosnoop(work / "snoop.txt") as snooped:
            record: list[str | Path] = [
                AGENT,
                "record",
                "--probe",
                "block",
                "-o",
                "live.case",
                "--",
                *command.split(),
            ]
            subprocess.run(record, cwd=work, check=True, capture_output=True, timeout=60)
            trace = (TRACEFS / "trace").read_text()
        (work / "blk.txt").write_text(trace)
        logs = [work / "blk.txt", work / "j_lat.1.log", *([work / "snoop.txt"] if snooped else [])]
        subprocess.run([AGENT, "import", *logs, "-o", work / "both.case"], check=True, capture_output=True)
    name = Path(device).name
    # Whoever looks for a partition table reads the device before and after the workload.
    of_fio = f"layer = 'block' AND device = '{name}' AND comm LIKE 'fio%' AND op IN ('read', 'write')"
    asked = operations(work / "both.case", "layer = 'app'")
    traced, live = operations(work / "both.case", of_fio), operations(work / "live.case", of_fio)
    # No place is asked for twice: what all three say of a place is of one operation.
    assert len(asked) == OPERATIONS
    assert set(asked) == set(traced) == set(live)
    apart_ns = sorted(abs(traced[key] - live[key]) for key in asked)
    assert apart_ns[OPERATIONS // 2] < 20_000, apart_ns[-5:]
    # fio sees what the device takes and what the system call costs.
    assert sum(asked[key] >= traced[key] for key in asked) >= 0.98 * OPERATIONS
    with Case(work / "both.case") as both:
        tied = both.rows("SELECT count(*) AS tied FROM links WHERE kind = 'waits_for'")
        # Whole milliseconds, no kinds and no places: only the order of the latencies can be compared.
        told = both.rows(f"""SELECT latency_ns FROM ops WHERE layer = 'block' AND device = '{name}' AND comm LIKE 'fio%'
  AND size_bytes IS NULL ORDER BY 1""")
    assert tied[0]["tied"] == OPERATIONS
    if not snooped:
        pytest.skip("bpftrace is not installed: biosnoop was not among the recorders")
    assert len(told) == OPERATIONS
    assert any("snoop.txt hold the same operations" in item["what"] for item in both.meta["not_observed"])
    cut_ns = [ns - int(row["latency_ns"] or 0) for row, ns in zip(told, sorted(traced.values()), strict=True)]
    assert sum(-50_000 < ns < 1_050_000 for ns in cut_ns) >= 0.98 * OPERATIONS, cut_ns


def operations(case: Path, where: str) -> dict[tuple[str, int, int], int]:
    """Latency of each operation by its kind, place and size."""
    with Case(case) as opened:
        rows = opened.rows(f"SELECT op, offset_bytes, size_bytes, latency_ns FROM ops WHERE {where}")
    found = {
        (str(row["op"]), int(row["offset_bytes"] or 0), int(row["size_bytes"] or 0)): int(
            row["latency_ns"] or 0
        )
        for row in rows
    }
    assert len(found) == len(rows)
    return found
