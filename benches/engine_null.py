#!/usr/bin/env python3
"""What the engine itself costs: null target, 4 KiB, 60/40, 55 % random, depth 64, one thread.

Ours logs every operation; fio's null engine runs once without and once with its own log of every operation.
"""

from __future__ import annotations

import argparse
import shlex

from common import (
    ROUNDS_MIN,
    interleave,
    machine,
    print_verdict,
    ratio,
    run_main,
    summary_line,
    tool_version,
    write_json,
)
from engine import WORK, Arms, fio_command, one_line, ours_command, write_spec

BAR = 1.5


def main() -> int:
    """Exit code 0: the bar is met; 1: it is not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    spec = write_spec(
        "engine-null.toml",
        'targets = ["null"]\nblock_sizes = "4KiB"\nread = "60%"\nrandom = "55%"\nqueue_depth = 64\n'
        f'duration = "{options.seconds}s"',
    )
    fio = fio_command(options.seconds, "--ioengine=null", "--percentage_random=55", "--size=1g")
    fio_log = [*fio, "--write_lat_log=LOGS"]
    arms = Arms()
    samples = interleave(
        {
            "whodisk, every op logged": lambda: arms.ours("whodisk, every op logged", spec),
            "fio": lambda: arms.fio("fio", fio),
            "fio, every op logged": lambda: arms.fio("fio, every op logged", fio_log),
        },
        options.rounds,
    )
    print(f"machine: {machine(WORK)}; {tool_version(['fio', '--version'])}")
    print(f"whodisk: {shlex.join(ours_command(spec, WORK / 'raw'))}   # {one_line(spec)}")
    print(f"fio:     {shlex.join(fio)}   # and --write_lat_log=...")
    for name, values in samples.items():
        print(summary_line(name, values, "IOPS"))
        print(summary_line(name, arms.cpu_us_per_op[name], "CPU-us per operation"))
    print(arms.notes[-1])
    met = print_verdict(ratio(samples, "whodisk, every op logged", "fio"), "IOPS", BAR)
    print(ratio(samples, "whodisk, every op logged", "fio, every op logged").text("IOPS"))
    write_json(WORK / "engine_null.json", {"iops": samples, "cpu_us_per_op": arms.cpu_us_per_op})
    return 0 if met else 1


if __name__ == "__main__":
    run_main(main)
