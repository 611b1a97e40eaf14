"""Every command that README and docs print runs here as it is printed, or is named with the reason why it does not.

What a page leaves to its reader (a case, a log, a device, a command of theirs) has a small stand-in. Commands that take long are made
short by a stand-in for the number that makes them long, or by words at their end; nothing else of a line is changed.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.conftest import BIN, ROOT, WHODISK, started, write_spec
from tests.printed import Printed, everywhere, without_brackets
from tests.unit import test_tutorial

#: By the beginning of a line: why it is not run here.
LEFT_OUT = {
    "make ": "sets the machine up: CI runs `make test` on a fresh one, people run `make demo`",
    "git clone": "needs the address of a repository",
    "whodisk run ycsb-b": "needs Maven and a minute: tests/accuracy/programs.py runs it",
    "whodisk experiment examples/copies.toml": "takes minutes on two servers: tests/e2e/test_copies.py and test_odx.py copy on both",
    "KIND=xfs whodisk experiment examples/copies-tail.toml": "takes minutes: tests/e2e/test_odx.py finds such a tail",
    "whodisk experiment --refute": "runs a load again for half a minute: tests/unit/test_refute.py plans and judges one",
    "PYTHONPATH=examples/odx python -m odx_conformance": "needs a server beside it: tests/e2e/test_odx.py runs all of its cases",
}
#: Pages with commands that tests/unit/test_tutorial.py runs, in order and with the output that they show.
TUTORIALS = {f"docs/start/{page.values[0]}.md" for page in test_tutorial.PAGES}
FIRST_READ = re.compile(r"README\.md|docs/start/|docs/how-to/record\.md")
OPERATIONS = "dd if=/dev/zero of=out.dat bs=64k count=16 oflag=dsync status=none"
#: What stands for what a page leaves to its reader, or for a number that makes a command long.
STAND_INS = {
    "--size=1G": "--size=8M",
    "--runtime=10": "--runtime=1 --rate_iops=300",
    "--runtime=8": "--runtime=1 --rate_iops=300",
    "count=500": "count=8",
    "1min": "1s",
    "/dev/loop0": "{slow}",
    "CMD": f"sh -c '{OPERATIONS}'",
    "CASE": "slow.case",
    "FOLDER": "folder",
    " N": " 2",
    "/srv": "srv",
    "/mnt/test": "srv",
    "/tmp/": "state/",
    "250000": "16",
    "--count 1000": "--count 2",
    "sda": "{disk}",
    "sda.blktrace": "sda.blktrace",  # a file, no disk
    "/dev/nvme0n1": "/dev/{disk}",
    "/sys/fs/cgroup/system.slice/db.service": "{group}",
    "watch --device nvme0n1 --interval 5s": "watch --device {disk} --interval 200ms",
    "--device vda": "--device nvme5n1",
    "--prometheus 9911": "--prometheus 0",
    "--listen 4460": "--listen 0",
    "--from 1.5s --until 2s": "--from 5ms --until 10ms",
    "--table series": "--table links",  # the short case has no samples
    "examples/": "{root}/examples/",
    "examples/iometer-vm-server.toml": "vm-server.toml",
}
#: What makes a command short, by its beginning: words at its end.
SHORT = {
    "whodisk lab run slow-member": "--set workload.duration=8ms --set workload.ramp=5ms",
    "whodisk run sqlite": "--seconds 1",
    "python examples/copy_server/samba.py": "--port {port}",
    "PYTHONPATH=examples/odx python -m odx_server": "--port {port}",
}
#: Commands that go on until Ctrl-C, with what they print when they are ready for it.
ENDLESS: dict[str, str | None] = {
    "whodisk slowdisk": "/dev/loop",
    "whodisk watch --once": None,
    "whodisk watch": "Ctrl-C ends it",
    "whodisk record --cgroup": "Ctrl-C ends it",
    "whodisk record --ring": "Ctrl-C ends it",
    "python examples/copy_server": "server = ",
    "PYTHONPATH=examples/odx python -m odx_server": "server = ",
}
#: These answer a question by their exit code.
ANSWERS = ("whodisk gate", "whodisk layout measure", "whodisk doctor", "whodisk solve today.case --expect")
ROOT_ONLY = re.compile(
    r"whodisk (?:record|run (?!--list)|solve (?:--redact |-o \S+ )*-- |slowdisk|watch|experiment|layout (?!status|timer))"
)
#: How long one may take on a machine that others use, too.
SECONDS_MAX = 240
LOGS = ROOT / "crates/import/tests/fixtures"
#: Files that a page leaves to its reader, by their names there.
FILES = {
    "run_lat.1.log": LOGS / "fio-lat/off_lat.1.log",
    "run_clat.1.log": LOGS / "fio-lat/off_lat.1.log",
    "sda.blktrace.0": LOGS / "blktrace/loop0.blktrace.0",
    "before.bin": LOGS / "amazon-d0/d0_1.bin",
    "after.bin": LOGS / "amazon-d0/d0_2.bin",
    "log.csv": LOGS / "ops/ops.csv",
    "capture.csv": LOGS / "bus/bus.csv",
    "blkparse.txt": LOGS / "blkparse/blkparse.txt",
    "trace.txt": LOGS / "trace-events/perf_script.txt",
    "nvme.txt": LOGS / "trace-events/ftrace_nvme.txt",
    "biosnoop.txt": LOGS / "biosnoop/bcc.txt",
    "strace.txt": LOGS / "strace/strace_ttt.txt",
    "ext4slower.txt": LOGS / "fsslower/ext4slower.txt",
    "pgbench_log.4711": LOGS / "pgbench/pgbench_log.4711",
    "ycsb_raw.txt": LOGS / "ycsb-raw/ycsb.txt",
    "iostat.txt": LOGS / "iostat/iostat.txt",
    "sadf.json": LOGS / "sysstat-json/sadf.json",
    "diskstats.0": LOGS / "diskstats/diskstats0",
    "diskstats.1": LOGS / "diskstats/diskstats1",
    "interrupts.0": LOGS / "interrupts/interrupts0",
    "interrupts.1": LOGS / "interrupts/interrupts1",
    "biolatency.txt": LOGS / "biolatency/biolatency.txt",
    "hardirqs.txt": LOGS / "hardirqs/hardirqs.txt",
    "run.json": LOGS / "fio-json/fio.json",
    "run_clat_hist.1.log": LOGS / "fio-hist/hist_clat_hist.1.log",
    "run_bw.1.log": LOGS / "fio-rate/plain_bw.1.log",
    "diskspd.xml": LOGS / "diskspd/diskspd.xml",
    "results.csv": LOGS / "iometer/results.csv",
    "ycsb.txt": LOGS / "ycsb/ycsb.txt",
    "READ.hdr": LOGS / "hdr-log/READ.hdr",
    "db_bench.txt": LOGS / "db-bench/db_bench.txt",
    "LOG": LOGS / "rocksdb-log/LOG",
    "queries.txt": LOGS / "rocksdb-queries/trace.txt",
    "block_cache.csv": LOGS / "rocksdb-block-cache/trace.csv",
    "sysstat_a.txt": LOGS / "netapp-sysstat/a.txt",
    "sysstat_b.txt": LOGS / "netapp-sysstat/b.txt",
    "reallocate.txt": LOGS / "netapp-reallocate/reallocate.txt",
    "d0_0.bin": LOGS / "amazon-d0/d0_1.bin",
    "d0_1.bin": LOGS / "amazon-d0/d0_2.bin",
    "c3_0.bin": LOGS / "ocp-c3/a_before.bin",
    "c3_1.json": LOGS / "ocp-c3/c_after.json",
    "smart.json": LOGS / "smart-json/smart.json",
}


def row_of(table: Mapping[str, str | None], line: str) -> str | None:
    """The row of the first key that a line begins with."""
    return next((value for key, value in table.items() if line.startswith(key)), None)


def parameters() -> list[object]:
    """One for each command; what is left out is a skipped test with its reason. Lines that differ in the names of cases are the same command."""
    rows: dict[str, object] = {}
    for printed in everywhere():
        if printed.page in TUTORIALS:
            continue
        reason = row_of(LEFT_OUT, printed.line)
        marks = [pytest.mark.root] if ROOT_ONLY.match(printed.line) and reason is None else []
        # Each test has a program of this name: those of others would be found, too.
        if marks and "pgrep" not in printed.line:
            marks.append(pytest.mark.beside)
        # What a newcomer types runs each time; pages that go deeper with the long tests.
        if not FIRST_READ.match(printed.page):
            marks.append(pytest.mark.slow)
        name = f"{Path(printed.page).stem}: {printed.line}"
        rows.setdefault(
            re.sub(r"\b[a-z]+\.case\b|\bCASE\b", "CASE", printed.line),
            pytest.param(printed, reason, id=name, marks=marks),
        )
    return list(rows.values())


def with_stand_ins(line: str, known: Mapping[str, str]) -> str:
    """A line with its stand-ins; `known`: what is different on each machine."""
    keys = sorted(STAND_INS, key=len, reverse=True)
    pattern = "|".join(re.escape(key) + (r"(?!\w)" if key[-1].isalnum() else "") for key in keys)
    line = re.sub(pattern, lambda match: STAND_INS[match[0]], without_brackets(line))
    line += f" {more}" if (more := row_of(SHORT, line)) else ""
    for name, value in known.items():
        line = line.replace(f"{{{name}}}", value)
    return line


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A volume with a slow drive, and the same without: some thousand operations each."""
    folder = tmp_path_factory.mktemp("cases")
    short = ["--set", "workload.duration=8ms", "--set", "workload.ramp=5ms"]
    more: list[str]
    for name, more in (("slow", []), ("quick", ["--set", "fault.slow.factor=1"])):
        command: list[str | Path] = [
            WHODISK,
            "lab",
            "run",
            "slow-member",
            *short,
            *more,
            "-o",
            folder / f"{name}.case",
        ]
        subprocess.run(command, check=True, capture_output=True)
    return {name: folder / f"{name}.case" for name in ("slow", "quick")}


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def provide(work: Path, word: str, cases: Mapping[str, Path]) -> None:
    """What a page leaves to its reader, under the name that it has there."""
    path = work / word
    if path.exists() or Path(word).is_absolute():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    quick = path.stem in {"after", "new", "tuesday", "modelled", "yesterday"}
    case = cases["quick" if quick else "slow"]
    if path.suffix == ".case":
        shutil.copytree(case, path)
    elif word.endswith("/") or word.startswith("readahead/"):
        shutil.copytree(case, path / "01.case")
    elif path.name.startswith("sda.blktrace"):
        shutil.copy(FILES["sda.blktrace.0"], work / "sda.blktrace.0")
    elif word in FILES:
        shutil.copy(FILES[word], path)
    elif word == "trace.txt.gz":
        path.write_bytes(gzip.compress((LOGS / "blkparse/blkparse.txt").read_bytes()))
    elif word in {"srv/db", "copies=srv"}:
        (work / "srv/db").mkdir(parents=True)
        (work / "srv/db/table").write_bytes(os.urandom(1 << 20))
    elif word in {"./nightly-report", "./busy-hour.sh"}:
        write_program(path, OPERATIONS)
    elif word == "vm-server.toml":
        text = (ROOT / "examples/iometer-vm-server.toml").read_text(encoding="utf-8")
        for long, short in (("4GiB", "16MiB"), ('"2s"', '"100ms"'), ('"20s"', '"500ms"')):
            assert long in text
            text = text.replace(long, short)
        path.write_text(text, encoding="utf-8")
    elif word == "copy.toml":
        keys = 'method = "read_write"\nsource = "a.bin"\ndestination = "b.bin"\nfile_size = "4MiB"\n'
        path.write_text(f"[workload]\n{keys}", encoding="utf-8")
    elif word == "file.toml":
        text = (
            write_spec(path, "file.dat")
            .read_text(encoding="utf-8")
            .replace("[workload]", "[common.workload]")
        )
        path.write_text(
            f"{text}\n[arm.a]\n[arm.b.set]\n'/proc/sys/vm/swappiness' = 60\n[full.experiment]\nrepetitions = 3\n",
            encoding="utf-8",
        )
    elif word == "drives.csv":
        rows = [f"h,d{disk},{at},{100 + disk},1000" for at in range(100) for disk in range(8)]
        path.write_text("host,disk_id,ts,latency,throughput\n" + "\n".join(rows) + "\n", encoding="utf-8")
    elif word == "now.toml":
        provide(work, "slow.case", cases)
        subprocess.run(
            [WHODISK, "lab", "fit", "slow.case", "-o", word], cwd=work, check=True, capture_output=True
        )


def ended_by_ctrl_c(process: subprocess.Popen[str], said: Path, ready: str) -> None:
    """Waits until a program says that it is ready, presses Ctrl-C, and waits for its end."""
    deadline = time.monotonic() + SECONDS_MAX
    while ready not in said.read_text(encoding="utf-8") and process.poll() is None:
        assert time.monotonic() < deadline, f"not ready after {SECONDS_MAX} s: {said.read_text()}"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    process.wait(SECONDS_MAX)


@contextmanager
def slow_disk(wanted: bool) -> Iterator[str]:
    """The device of a `whodisk slowdisk`, where a line has the stand-in for one."""
    if not wanted:
        yield ""
        return
    command: list[str | Path] = [WHODISK, "slowdisk", "--size", "64MiB", "--fault", "read tail 0.01 5ms"]
    with started(*command, stdout=subprocess.PIPE) as disk:
        assert disk.stdout is not None
        yield disk.stdout.readline().strip()
        os.killpg(disk.pid, signal.SIGINT)
        disk.wait(SECONDS_MAX)


@pytest.fixture
def known(work: Path) -> Iterator[dict[str, str]]:
    """What stand-ins are on this machine: the disk of `work`, a control group, a port that is free."""
    found = subprocess.run(
        ["findmnt", "-no", "SOURCE", "-T", work], capture_output=True, text=True, check=False
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    groups = Path("/sys/fs/cgroup/cpu")
    group = (groups if groups.is_dir() else groups.parent) / f"whodisk-{work.name}"
    yield {
        "root": str(ROOT),
        "disk": Path(found.stdout.strip()).name,
        "port": str(port),
        "group": str(group),
    }
    if group.is_dir():
        group.rmdir()


@pytest.mark.parametrize(("printed", "left_out"), parameters())
def test_a_printed_command_runs(
    printed: Printed, left_out: str | None, work: Path, known: Mapping[str, str], cases: Mapping[str, Path]
) -> None:
    if left_out is not None:
        pytest.skip(left_out)
    with slow_disk("{slow}" in with_stand_ins(printed.line, {})) as device:
        run_as_printed(printed, {**known, "slow": device}, work, cases)


def run_as_printed(printed: Printed, known: Mapping[str, str], work: Path, cases: Mapping[str, Path]) -> None:
    """Runs a line with its stand-ins, and checks how it ends."""
    line = with_stand_ins(printed.line, known)
    words = shlex.split(line)
    made = {words[at + 1] for at, word in enumerate(words[:-1]) if word == "-o" and "--dry-run" not in words}
    for word in words:
        if word not in made:
            provide(work, word, cases)
    (work / "state").mkdir(exist_ok=True)
    shutil.copy("/bin/sleep", work / "postgres")
    if known["group"] in words:
        Path(known["group"]).mkdir()
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "COLUMNS": "100",
        "PYTHONUNBUFFERED": "1",
    }
    said = work / "said"
    ready = row_of(ENDLESS, printed.line)
    with (
        said.open("w", encoding="utf-8") as output,
        started(work / "postgres", "600"),
        started("bash", "-c", line, cwd=work, env=environment, stdout=output, stderr=output) as process,
    ):
        if ready is None:
            process.wait(SECONDS_MAX)
        else:
            ended_by_ctrl_c(process, said, ready)
    text = said.read_text(encoding="utf-8", errors="replace")
    allowed = {0, 1} if printed.line.startswith(ANSWERS) else {0}
    assert process.returncode in allowed, f"{line}: exit {process.returncode}: {text}"
    for word in ("Traceback", "panicked", "internal error"):
        assert word not in text, text
    for target in made:
        assert (work / target).exists(), f"{line}: no {target}: {text}"


def test_the_reasons_are_of_commands_that_are_printed() -> None:
    lines = [printed.line for printed in everywhere()]
    for table in (LEFT_OUT, SHORT, ENDLESS):
        assert [key for key in table if not any(line.startswith(key) for line in lines)] == []
    for key in STAND_INS:
        assert any(key in without_brackets(line) for line in lines), f"no page prints {key}"
    assert {printed.page for printed in everywhere()} >= TUTORIALS
