#!/usr/bin/env python3
"""Runs the benchmarks (`make bench`), one after the other, and keeps what they print in docs/reference/benchmarks.md.

Each benchmark is a script beside this one that prints its machine, its commands, its figures and, per bar,
whether it is met. Exit code 1: at least one bar was missed. Pass names to run only some of them; the others
keep their last output. What follows `--` goes to each benchmark (`-- --rounds 10 --seconds 2`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import readme

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs/reference/benchmarks.md"

#: A benchmark is one script and one line here: file stem, what it measures.
BENCHES: dict[str, str] = {
    "record_overhead": "recording every block request, beside the kernel's own tracer and bpftrace's biosnoop",
    "record_modes": "the flight recorder, a limited scope and `watch`, beside a histogram by bpftrace",
    "call_overhead": "recording `stat`, `open` and `close` that end in memory, beside a bpftrace script",
    "engine_null": "the workload engine alone, beside fio's null engine",
    "engine_disk": "the workload engine on the system disk, beside fio",
    "bytes_at_rest": "bytes a sealed operation takes",
    "solve_scale": "solving 1, 10 and 100 million operations",
    "import_series": "importing sampled counters from CSV, beside DuckDB's and Arrow's readers",
    "import_logs": "importing blktrace's binary beside blkparse and btt, fio's logs beside pandas",
    "import_stream": "importing a log of 10 GB through a pipe: memory and progress",
    "lab_rate": "requests a second that the lab simulates, per core",
    "lab_validate": "the lab's prediction of a real disk and of a slowdisk at another depth and mix",
    "lab_cache": "the lab's replacement policies, beside libCacheSim",
}
MARK = "<!-- {name} -->"


def main() -> int:
    """Exit code 0: every bar of the chosen benchmarks is met; 1: not; 2: wrong use, or one could not be run."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ({', '.join(BENCHES)}) [all]")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    names, options = parser.parse_args(sys.argv[1:cut]).names or list(BENCHES), sys.argv[cut + 1 :]
    unknown = sorted(set(names) - set(BENCHES))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    outputs = _kept()
    missed, failed = [], []
    for name in names:
        print(f"== {name}: {BENCHES[name]}", flush=True)
        code, text = _run([str(HERE / f"{name}.py"), *options])
        print(text, flush=True)
        if code not in (0, 1):
            failed.append(name)
            continue
        outputs[name] = f"{time.strftime('%Y-%m-%d', time.gmtime())}, commit {_commit()}\n\n{text}"
        missed += [name] if code else []
        DOCUMENT.write_text(_document(outputs), encoding="utf-8")
        # A document that lacks a line still says which benchmark to run.
        try:
            readme.write()
        except readme.NotFoundError as error:
            print(f"README keeps its table: {error}", file=sys.stderr)
    print(f"written: {DOCUMENT}" + (f"; bars missed in: {', '.join(missed)}" if missed else ""))
    if failed:
        print(f"could not be run, their last output is kept: {', '.join(failed)}", file=sys.stderr)
        return 2
    return 1 if missed else 0


def _run(command: list[str]) -> tuple[int, str]:
    """Exit code and standard output; progress goes to our standard error as it comes."""
    done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, check=False)
    # Paths of this checkout say nothing to others.
    return done.returncode, done.stdout.strip().replace(f"{HERE.parent}/", "")


def _commit() -> str:
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=8"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _kept() -> dict[str, str]:
    """What the document holds of earlier runs, by benchmark."""
    if not DOCUMENT.exists():
        return {}
    text = DOCUMENT.read_text(encoding="utf-8")
    kept = {}
    for name in BENCHES:
        _, found, rest = text.partition(MARK.format(name=name))
        if found:
            kept[name] = rest.split("```text\n", 1)[1].split("\n```", 1)[0]
    return kept


def _document(outputs: dict[str, str]) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`, as the benchmarks printed it. Peers run beside us in the same run, interleaved;",
        "ratios are per round, so that a machine that drifts does not decide.",
    ]
    for name, what in BENCHES.items():
        if name in outputs:
            lines += ["", f"## {name}: {what}", "", MARK.format(name=name), "```text", outputs[name], "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
