#!/usr/bin/env python3
"""`whodisk import` beside the tools that read the same logs: binary traces of blktrace beside blkparse and btt; latency logs of fio beside pandas and
fio-plot; operations as CSV beside pandas and csv.DictReader.

All files are made up with a fixed seed: events of 4 KiB requests (queue, insert, issue, completion), a log as fio writes it with `log_offset`, and the
same operations as CSV with moments and latencies in decimals. blkparse's text is that of the trace, and the kernel's is the same events as its `blk` tracer prints them.
whodisk writes a sealed case with a row per operation; blkparse writes text of every event to nowhere, or the merged binary that btt reads, which writes
its averages; pandas reads the columns into memory. fio-plot runs its own functions: its reader (csv.DictReader, a dictionary of strings per row, and
the mean interval between rows), then its merging of jobs into lists of numbers to draw. Of CSV, csv.DictReader's rows become tuples of numbers.
The shortest readers in Python, csv.reader and tuples, are there as well, without a bar. All count in processor time of one process, so other load on
the machine matters less; of fio-plot only its functions count, without its start, which loads matplotlib.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import struct
import sys
from functools import partial
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
    write_json,
)
from engine import RELEASE, WORK

REQUESTS = 150_000
ROWS = 2_000_000
BAR_MB_PER_S = 300.0
# Times and events of blktrace: magic with the version, and action codes of queue, insert, issue, completion.
RECORD = struct.Struct("<IIQQIIIIIHH")
MAGIC = 0x65617400 | 7
QUEUE, INSERT, ISSUE, COMPLETE = 1, 12, 7, 8
READ, WRITE = 1 << 16, 1 << 17
DEVICE = 8 << 20
PANDAS = """
import sys, pandas
names = ["time_ms", "latency_ns", "ddir", "size", "offset", "prio"]
table = pandas.read_csv(sys.argv[1], names=names, skipinitialspace=True)
assert len(table) > 0
"""

MAP = "start=ts:s,latency=lat:us,op=type,offset=off:B,size=len:B,device=disk"
PANDAS_CSV = """
import sys, pandas
table = pandas.read_csv(sys.argv[1])
assert len(table) > 0
"""
PYTHON_CSV = """
import csv, sys
with open(sys.argv[1], newline="") as log:
    rows = csv.reader(log)
    next(rows)
    table = [(float(row[0]), float(row[1]), row[2], int(row[3]), int(row[4]), row[5]) for row in rows]
assert len(table) > 0
"""

PYTHON_CSV_DICT = """
import csv, sys
with open(sys.argv[1], newline="") as log:
    table = [
        (float(row["ts"]), float(row["lat"]), row["type"], int(row["off"]), int(row["len"]), row["disk"])
        for row in csv.DictReader(log)
    ]
assert len(table) > 0
"""
# What fio-plot does between opening its logs and drawing (fio_plot/fiolib/getdata.py, get_log_data), timed after its reader and at its end.
FIO_PLOT = """
import sys, time
from fio_plot.fiolib import dataimport
from fio_plot.fiolib.defaultsettings import get_default_settings
settings = get_default_settings() | {"rw": "randrw", "iodepth": [1], "numjobs": [1], "type": ["lat"]}
begun = time.process_time()
files = dataimport.filterLogFiles(settings, dataimport.list_fio_log_files(sys.argv[1]))
data = dataimport.readLogDataFromFiles(settings, files)
read = time.process_time()
merged = dataimport.mergeDataSet(settings, data)
done = time.process_time()
lists = merged[0]["data"][0]
assert len(data[0]["data"]) == len(lists["read"]) + len(lists["write"]) > 0
print(read - begun, done - begun)
"""

# The shortest, row by row.
PYTHON = """
import csv, sys
with open(sys.argv[1], newline="") as log:
    table = [(int(row[0]), int(row[1]), int(row[2]), int(row[3])) for row in csv.reader(log)]
assert len(table) > 0
"""


#: Ours, a peer, what is compared, and the least ratio, where there is a bar.
COMPARED: tuple[tuple[str, str, str, float | None], ...] = (
    ("whodisk, blktrace", "blkparse", "blktrace beside blkparse", 1.0),
    ("whodisk, blktrace", "btt", "blktrace beside btt, which averages what blkparse merged", None),
    ("whodisk, fio", "pandas", "fio's log into a sealed case, beside pandas, which only reads it", None),
    ("whodisk, fio", "fio-plot's reader", "fio's log into a sealed case, beside fio-plot's reader", 10.0),
    (
        "whodisk, fio",
        "fio-plot, up to what it draws",
        "fio's log into a sealed case, beside all that fio-plot does before it draws",
        None,
    ),
    ("whodisk, fio", "Python", "fio's log into a sealed case, beside csv.reader and tuples in Python", None),
    ("whodisk, CSV", "pandas, CSV", "CSV into a sealed case, beside pandas, which only reads it", None),
    ("whodisk, CSV", "csv.DictReader, CSV", "CSV into a sealed case, beside csv.DictReader", 10.0),
    ("whodisk, CSV", "Python, CSV", "CSV into a sealed case, beside csv.reader and tuples in Python", None),
)


def main() -> int:
    """Exit code 0: the bars are met; 1: not; 2: could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    options = parser.parse_args()
    for tool in ("blkparse", "btt"):
        if shutil.which(tool) is None:
            raise BenchError(f"{tool} is not installed; apt-get install blktrace")
    WORK.mkdir(parents=True, exist_ok=True)
    trace, log = WORK / "import.blktrace.0", WORK / "import_lat.1.log"
    table, text = WORK / "import_ops.csv", WORK / "import_blkparse.txt"
    of_kernel = WORK / "import_kernel.txt"
    merged = WORK / "import.merged"
    # fio-plot takes a folder, and names as its own bench-fio gives them.
    of_fio_plot = WORK / "import-fio-plot"
    of_fio_plot.mkdir(exist_ok=True)
    graphs: list[float] = []
    _write_trace(trace)
    _write_log(log)
    link = of_fio_plot / "randrw-iodepth-1-numjobs-1_lat.1.log"
    link.unlink(missing_ok=True)
    link.symlink_to(log)
    _write_table(table)
    parse = ["blkparse", "-q", "-i", str(WORK / "import"), "-o", "/dev/null"]
    run_measured(["blkparse", "-q", "-i", str(WORK / "import"), "-O", "-d", str(merged)])
    run_measured(["sh", "-c", f"exec blkparse -q -i {WORK / 'import'} >{text}"])
    _write_as_kernel(text, of_kernel)
    as_table = ["--as", "ops", "--map", MAP]
    arms = {
        "whodisk, blktrace": partial(_ours, trace, REQUESTS),
        "blkparse": partial(_peer, parse, REQUESTS),
        # It leaves files where it runs.
        "btt": partial(_peer, ["sh", "-c", f"cd {WORK} && exec btt -i {merged} -o import-btt"], REQUESTS),
        "whodisk, fio": partial(_ours, log, ROWS),
        "pandas": partial(_peer, [sys.executable, "-c", PANDAS, str(log)], ROWS),
        "fio-plot's reader": partial(_fio_plot, of_fio_plot, graphs),
        "Python": partial(_peer, [sys.executable, "-c", PYTHON, str(log)], ROWS),
        "whodisk, CSV": partial(_ours, table, ROWS, *as_table),
        "pandas, CSV": partial(_peer, [sys.executable, "-c", PANDAS_CSV, str(table)], ROWS),
        "csv.DictReader, CSV": partial(_peer, [sys.executable, "-c", PYTHON_CSV_DICT, str(table)], ROWS),
        "Python, CSV": partial(_peer, [sys.executable, "-c", PYTHON_CSV, str(table)], ROWS),
        "whodisk, blkparse's text": partial(_ours, text, REQUESTS),
        "whodisk, the kernel's text": partial(_ours, of_kernel, REQUESTS),
    }
    samples = interleave(arms, rounds=options.rounds)
    samples["fio-plot, up to what it draws"] = graphs
    print(f"machine: {machine(trace)}")
    print(
        f"{REQUESTS:,} requests, {_mb(trace):.0f} MB, as text {_mb(text):.0f} MB; {ROWS:,} rows, {_mb(log):.0f} MB as fio's log, {_mb(table):.0f} MB as CSV"
    )
    for name, values in samples.items():
        print(summary_line(name, values, "operations per CPU second"))
    met = True
    for ours, peer, what, bar in COMPARED:
        result = ratio(samples, ours, peer)
        if bar is None:
            print(result.text(what))
        else:
            met &= print_verdict(result, what, bar)
    for name, path, rows in (
        ("whodisk, fio", log, ROWS),
        ("whodisk, CSV", table, ROWS),
        ("whodisk, blkparse's text", text, REQUESTS),
        ("whodisk, the kernel's text", of_kernel, REQUESTS),
    ):
        reached = statistics.median(samples[name]) / rows * _mb(path)
        met &= reached >= BAR_MB_PER_S
        print(
            f"{name}: median {reached:.0f} MB of text per CPU second   bar >= {BAR_MB_PER_S:g}: "
            f"{'met' if reached >= BAR_MB_PER_S else 'NOT MET'}"
        )
    write_json(WORK / "import_logs.json", {"operations_per_cpu_s": samples})
    for path in [*WORK.glob("import[._-]*"), *WORK.glob("*_fp.dat")]:
        if path.suffix != ".json" and path.is_file():
            path.unlink()
    shutil.rmtree(of_fio_plot)
    return 0 if met else 1


def _write_as_kernel(blkparse: Path, path: Path) -> None:
    """Lines of blkparse as ftrace prints them (kernel/trace/trace_output.c, blktrace.c): task, CPU, flags, seconds with six decimals."""
    with blkparse.open(encoding="utf-8") as lines, path.open("w", encoding="utf-8") as out:
        for line in lines:
            words = line.split(maxsplit=5)
            if len(words) < 6 or "," not in words[0]:
                continue
            device, cpu, _, moment, pid, request = words
            seconds, nanoseconds = moment.split(".")
            out.write(
                f"{'fio':>16}-{pid:<7} [{int(cpu):03}] ..... {int(seconds):5}.{nanoseconds[:6]}: {device:>7}  {request.strip()}\n"
            )


def _write_trace(path: Path) -> None:
    """Requests one after the other, up to eight in flight, as one CPU would trace them."""
    draw = random.Random(1)
    events = []
    now_ns = 0
    for _ in range(REQUESTS):
        now_ns += draw.randrange(5_000, 40_000)
        sector, kind = draw.randrange(1 << 24) * 8, READ if draw.random() < 0.6 else WRITE
        latency_ns = int(draw.lognormvariate(11.4, 0.5))
        moments = (now_ns, now_ns + 900, now_ns + 2_100, now_ns + 2_100 + latency_ns)
        for moment, action in zip(moments, (QUEUE, INSERT, ISSUE, COMPLETE), strict=True):
            events.append((moment, sector, kind | action))
    events.sort()
    with path.open("wb") as out:
        for sequence, (moment, sector, action) in enumerate(events, 1):
            out.write(RECORD.pack(MAGIC, sequence, moment, sector, 4096, action, 4711, DEVICE, 0, 0, 0))


def _write_log(path: Path) -> None:
    """One job, 4 KiB, half reads."""
    draw = random.Random(1)
    with path.open("w", encoding="ascii") as out:
        for row in range(ROWS):
            latency_ns, place = int(draw.lognormvariate(11.4, 0.5)), draw.randrange(1 << 20) * 4096
            out.write(f"{row // 20}, {latency_ns}, {draw.randrange(2)}, 4096, {place}, 0x0000\n")


def _write_table(path: Path) -> None:
    """The same from one host with two disks."""
    draw = random.Random(1)
    with path.open("w", encoding="ascii") as out:
        out.write("ts,lat,type,off,len,disk\n")
        for row in range(ROWS):
            moment = f"{1_700_000_000 + row // 20_000}.{row % 20_000 * 50:06d}"
            latency_us, place = draw.lognormvariate(4.5, 0.5), draw.randrange(1 << 20) * 4096
            out.write(
                f"{moment},{latency_us:.3f},{'RW'[draw.randrange(2)]},{place},4096,sd{'ab'[draw.randrange(2)]}\n"
            )


def _mb(path: Path) -> float:
    return path.stat().st_size / 1e6


def _ours(log: Path, operations: int, *options: str) -> float:
    case = WORK / "import-logs.case"
    shutil.rmtree(case, ignore_errors=True)
    agent = os.environ.get("WHODISK_AGENT", str(RELEASE / "whodisk-agent"))
    done = run_measured([agent, "import", str(log), *options, "-o", str(case)])
    shutil.rmtree(case)
    return operations / done.cpu_s


def _fio_plot(folder: Path, graphs: list[float]) -> float:
    """Its reader's rate; that up to what it draws is appended."""
    done = run_measured([sys.executable, "-c", FIO_PLOT, str(folder)])
    reader_s, whole_s = map(float, done.stdout.split())
    graphs.append(ROWS / whole_s)
    return ROWS / reader_s


def _peer(command: list[str], operations: int) -> float:
    return operations / run_measured(command).cpu_s


if __name__ == "__main__":
    run_main(main)
