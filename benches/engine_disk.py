#!/usr/bin/env python3
"""The engine on the system disk: direct random 4 KiB, 60/40, depth 64, one thread, every op logged.

fio runs its io_uring engine on the same file with registered buffers and files, without a log: once as it
comes (it submits one operation per call) and once with batches like ours.
"""

from __future__ import annotations

import argparse
import shlex

from common import (
    ROUNDS_MIN,
    interleave,
    machine,
    print_parity,
    print_verdict,
    ratio,
    run_main,
    summary_line,
    tool_version,
    write_json,
)
from engine import WORK, Arms, fio_command, one_line, ours_command, write_spec

OURS = "whodisk, every op logged"
FIO = "fio"
FIO_BATCHED = "fio in batches"


def main() -> int:
    """Exit code 0: the bars are met; 1: they are not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    target = WORK / "engine-disk.dat"
    body = (
        f'targets = ["{target}"]\nfile_size = "1GiB"\nblock_sizes = "4KiB"\nread = "60%"\nrandom = "100%"\n'
        "queue_depth = 64\n"
    )
    spec = write_spec("engine-disk.toml", body + f'duration = "{options.seconds}s"')
    # Lays the file out, so that no measured run has to.
    Arms().ours("layout", write_spec("engine-disk-layout.toml", body + "operations = 64"))
    fio = fio_command(
        options.seconds,
        "--ioengine=io_uring",
        "--direct=1",
        "--registerfiles",
        "--fixedbufs",
        f"--filename={target}",
        "--size=1g",
    )
    batches = "--iodepth_batch_submit=64 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=64"
    fio_batched = [*fio, *batches.split()]
    arms = Arms()
    samples = interleave(
        {
            OURS: lambda: arms.ours(OURS, spec),
            FIO: lambda: arms.fio(FIO, fio),
            FIO_BATCHED: lambda: arms.fio(FIO_BATCHED, fio_batched),
        },
        options.rounds,
    )
    print(f"machine: {machine(target)}; {tool_version(['fio', '--version'])}")
    print(f"whodisk: {shlex.join(ours_command(spec, WORK / 'raw'))}   # {one_line(spec)}")
    print(f"fio:     {shlex.join(fio)}   # and {batches}")
    for name, values in samples.items():
        print(summary_line(name, values, "IOPS"))
        print(summary_line(name, arms.cpu_us_per_op[name], "CPU-us per operation"))
    print(arms.notes[-1])
    met = print_parity(ratio(samples, OURS, FIO), "IOPS")
    met &= print_verdict(ratio(arms.cpu_us_per_op, OURS, FIO), "CPU-us per operation", 1.0, at_least=False)
    # In batches fio needs less CPU time and does fewer operations: to be seen beside the bar, which is fio as people run it.
    print(ratio(samples, OURS, FIO_BATCHED).text("IOPS"))
    print(ratio(arms.cpu_us_per_op, OURS, FIO_BATCHED).text("CPU-us per operation"))
    write_json(WORK / "engine_disk.json", {"iops": samples, "cpu_us_per_op": arms.cpu_us_per_op})
    return 0 if met else 1


if __name__ == "__main__":
    run_main(main)
