"""`make accuracy ARGS='mystery-2'`: mystery 2 for real. RocksDB under YCSB B, a spike in one layer after another, and who is named for it.

Short runs have one spike each, on a `whodisk slowdisk` whose data lie on the machine's disk; with `--long`, one run on the machine's disk itself has
a spike in every layer that can have one there, far apart, among as many reads as the time allows. Writes docs/reference/accuracy-mystery-2.md
from docs/reference/accuracy/mystery-2.jsonl, to which lines are only ever added.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from tests.accuracy import readme
from tests.accuracy.host import WHODISK, said, slowdisk
from tests.accuracy.referee import others, runs
from tests.accuracy.referee.excuses import Records, excuse
from tests.accuracy.referee.faults import (
    BEHIND_IT,
    FAULTS,
    HOLDER,
    PAGE,
    SPARE_BYTES,
    THE_DEVICE,
    Names,
    send,
)
from tests.accuracy.referee.judge import words as in_short
from tests.accuracy.referee.machine import Machine, watched, words
from tests.accuracy.referee.scene import Injection, Scene, workers
from tests.accuracy.referee.truth import HIT_SHARE, SLOW, Own, covered_ns
from tests.accuracy.scenarios import ROOT, commit, utc
from whodisk.programs import PROGRAMS
from whodisk.programs.base import Place, ProgramError

STORE = ROOT / "docs/reference/accuracy/mystery-2.jsonl"
OUTPUT = ROOT / "docs/reference/accuracy-mystery-2.md"
PROGRAM = PROGRAMS["ycsb-b"]
MEMORY = Path("/dev/shm")
SECONDS = 30.0
#: As long as the spike of the investigation; and what was expected, as it did: earlier runs were faster.
SPIKE_S = 0.113
EXPECTED = "max<50ms"
DISK_BYTES = 1 << 30
#: The program is set up within so long after the start of its disk.
SET_UP_SECONDS = 20.0
#: The data are so many times as large in the long run: most reads go to the device.
LONG_SCALE = 10.0
#: ioctls of Linux (fs.h).
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
#: The device holds reads that arrive within so long.
HIT_S = 0.02
LONG = "in turn"
INJECTOR = Names("process", HOLDER)
INTRODUCTION = f"""# Mystery 2, for real

Written by `make accuracy ARGS='mystery-2'` (and `--long`) from `docs/reference/accuracy/mystery-2.jsonl`, to which lines are only ever added.

RocksDB under YCSB B (95 % reads), recorded as `whodisk run ycsb-b` does. In the middle of a run one layer holds what is in it for {SPIKE_S * 1e3:.0f} ms, once; the solver
is not told. Short runs are on a `whodisk slowdisk` whose data lie in a file on the machine's disk: a file system can be frozen there, and a
device made late. The long run is on the machine's disk itself, which others need, so only what harms nobody is done to it.

The case is solved with `--expect '{EXPECTED}'`: one operation in half a million is what somebody asks about who knows how long they used to take. *Right*: that is not met, a finding names the spike, the
slowest operation that it hit is told with its stage, nobody else is accused, and a device that did nothing is cleared with a bound below half of
the spike. A late interrupt needs a drive that interrupts: it is a row of the [emulated machine](accuracy.md).

These runs are no test set. Runs before them (one of each row, and one of 40 s on the machine's disk) showed what was wrong with the solver, and with two rules of this table, and were not kept: the
file system lock was taken for the program itself, reads behind a compaction for a slow disk; the injector's own thread counted as accused, and
the device as not cleared where the read that holds the queue is on it. The runs in the table were made after that, and each solved once; the long run was right when it was solved first, and was solved again when that took a third
of the time.
"""

#: Does it once, and returns when it is over.
Once = Callable[[], None]


@dataclass(frozen=True)
class Spike:
    """What is done in one layer, once."""

    name: str
    words: str
    #: Printed name of the stage in which operations that it hit spend their time.
    stage: str
    culprits: tuple[Names, ...]
    consequences: tuple[Names, ...] = ()
    #: Prepares it for a run; None: the disk does it.
    act: Callable[[Scene], AbstractContextManager[Once]] | None = None
    #: Whether it can be done to a disk that others need.
    anywhere: bool = True
    #: Faults of the slow disk that it needs.
    disk: tuple[str, ...] = ()


@contextmanager
def _stop(scene: Scene) -> Iterator[Once]:
    def once() -> None:
        pids = workers(scene)
        try:
            send(pids, signal.SIGSTOP)
            time.sleep(SPIKE_S)
        finally:
            send(pids, signal.SIGCONT)

    yield once


@contextmanager
def _freeze(scene: Scene) -> Iterator[Once]:
    """Whoever changes the file system waits until it is thawed; never to be done to one that the system needs."""
    place = os.open(scene.beside, os.O_RDONLY)

    def once() -> None:
        fcntl.ioctl(place, FIFREEZE, 0)
        try:
            time.sleep(SPIKE_S)
        finally:
            fcntl.ioctl(place, FITHAW, 0)

    try:
        yield once
    finally:
        os.close(place)


@contextmanager
def _hold(scene: Scene) -> Iterator[Once]:
    """The kernel freezes the queue for a new setting until all that is in flight has ended: a read that the disk answers late."""
    setting = Path("/sys/block") / scene.device.name / "queue" / "max_sectors_kb"
    value = setting.read_text(encoding="ascii")
    file = os.open(scene.device, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, PAGE)

    def once() -> None:
        reading = threading.Thread(target=os.preadv, args=(file, [buffer], scene.size_bytes - PAGE))
        reading.start()
        time.sleep(0.002)
        setting.write_text(value, encoding="ascii")
        reading.join()

    try:
        yield once
    finally:
        os.close(file)


def _for_a_while(
    does: Callable[[Scene, dict[str, float]], AbstractContextManager[Callable[[], others.Stretch]]],
    **magnitudes: float,
) -> Callable[[Scene], AbstractContextManager[Once]]:
    @contextmanager
    def act(scene: Scene) -> Iterator[Once]:
        with does(scene, magnitudes) as stretches:

            def once() -> None:
                with stretches() as again:
                    again()
                    time.sleep(SPIKE_S)

            yield once

    return act


def _of(name: str) -> tuple[tuple[Names, ...], tuple[Names, ...]]:
    """Whom the referee of real programs takes for this fault's culprits and consequences."""
    fault = next(fault for fault in FAULTS if fault.name == name)
    return fault.culprits, fault.consequences


SPIKES: tuple[Spike, ...] = (
    Spike("application stop", "the program is stopped by a signal", "app", *_of("stops"), act=_stop),
    Spike(
        "file system lock",
        "the file system is frozen: whoever changes it waits",
        "fs",
        (Names("stage", r"(.*\+)?fs(\+.*)?"), Names("process", HOLDER)),
        act=_freeze,
        anywhere=False,
    ),
    Spike(
        "controller",
        "the I/O controller lets a request pass each 113 ms",
        "throttle",
        *_of("io-limit"),
        act=_for_a_while(others.io_limit, per_s=1 / SPIKE_S),
    ),
    Spike(
        "queue",
        "the device's queue is frozen while a setting is written",
        "queue",
        *_of("queue-hold"),
        act=_hold,
        anywhere=False,
        disk=(f"read constant {SPIKE_S * 1e3:g}ms offset {{spare}}",),
    ),
    Spike(
        "device",
        f"the device takes as long for reads that arrive within {HIT_S * 1e3:g} ms",
        "device",
        THE_DEVICE,
        BEHIND_IT,
        anywhere=False,
        disk=(f"read constant {SPIKE_S * 1e3:g}ms from {{at}} until {{end}}",),
    ),
    Spike(
        "busy CPU",
        "a real-time program has the program's only CPU",
        "runqueue",
        *_of("cpu-hog"),
        act=_for_a_while(others.cpu_hog),
    ),
)


@dataclass
class Hit:
    """A spike of a run."""

    spike: str
    start_ns: int
    end_ns: int
    #: Operations of the program's log that it hit: how many, and how long the slowest took.
    operations: int = 0
    slowest_ns: int = 0
    #: What the verdict says of it: the stage of the slowest that it hit, what went on then, whether a finding names it.
    stage: str = ""
    what: str = ""
    named: bool = False

    @property
    def right(self) -> bool:
        """Named, and in its stage."""
        return self.named and _spike(self.spike).stage in self.stage.split("+")


@dataclass
class Result:
    """One run."""

    row: str
    disk: str
    device: str
    utc: str
    #: What recorded it, and what solved it.
    commit: str
    solved: str
    machine: str
    seconds: float
    reads: int = 0
    #: Requests for reads that the device took.
    requests: int = 0
    hits: list[Hit] = field(default_factory=list)
    status: str = ""
    wrong: list[str] = field(default_factory=list)
    excuses: list[str] = field(default_factory=list)
    #: What is said of percentiles, and of the device if it is cleared.
    quality: str = ""
    cleared: str = ""
    case_bytes: int = 0
    seal_seconds: float = 0.0
    solve_seconds: float = 0.0
    solve_bytes: int = 0
    aside: str | None = None

    @property
    def right(self) -> bool:
        """Status, every spike, nobody else; and a device that did nothing is cleared."""
        of_device = any(_spike(hit.spike).disk for hit in self.hits)
        return (
            self.status == SLOW
            and all(hit.right for hit in self.hits)
            and not self.wrong
            and (of_device or bool(self.cleared))
        )


def _spike(name: str) -> Spike:
    return next(spike for spike in SPIKES if spike.name == name)


def main(arguments: list[str]) -> int:
    """Exit codes: 0 done, 2 wrong use or error."""
    names = [spike.name for spike in SPIKES]
    parser = argparse.ArgumentParser(prog="make accuracy ARGS='mystery-2'", description=__doc__)
    parser.add_argument("--rows", nargs="*", choices=names, default=names, help="short runs of these only")
    parser.add_argument("--runs", type=int, default=3, help="short runs per row [3]")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each run [{SECONDS:g}]")
    parser.add_argument("--long", action="store_true", help="one long run on the machine's disk instead")
    parser.add_argument("--path", type=Path, default=ROOT / "build", help="where that is [build]")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the cases there")
    parser.add_argument(
        "--again", type=Path, metavar="CASE", help="solve the kept case of the newest long run again"
    )
    parser.add_argument("--table-only", action="store_true", help="write the page from what is stored")
    o = parser.parse_args(arguments)
    if not o.table_only and os.geteuid() != 0:
        print("whodisk: mystery 2 needs root: loop devices, FUSE, BPF", file=sys.stderr)
        return 2
    results = _load()
    if o.again is not None:
        newest = max((result for result in results if result.row == LONG), key=lambda result: result.utc)
        newest.solved = commit()
        _judge(newest, [spike for spike in SPIKES if spike.anywhere], Machine(), o.again, newest.device)
        _add(newest)
        results.append(newest)
    todo = (
        []
        if o.table_only or o.again
        else [LONG]
        if o.long
        else [name for name in o.rows for _ in range(o.runs)]
    )
    for row in todo:
        spikes = [spike for spike in SPIKES if spike.anywhere] if row == LONG else [_spike(row)]
        try:
            result = _run(row, spikes, o)
        except (ProgramError, runs.RunError) as error:
            print(f"whodisk: {row}: {error}", file=sys.stderr)
            return 2
        _add(result)
        results.append(result)
        mark = "aside" if result.aside else "ok   " if result.right else "WRONG"
        said = "; ".join(
            f"{hit.spike}: {hit.stage}, {'named' if hit.named else 'not named'}" for hit in result.hits
        )
        print(
            f"{row:17} {mark} {result.reads:,} reads, {result.status}: {said} {result.wrong or ''}",
            flush=True,
        )
    OUTPUT.write_text(_document(results), encoding="utf-8")
    readme.write()
    print(f"written: {OUTPUT}")
    return 0


def _run(row: str, spikes: list[Spike], o: argparse.Namespace) -> Result:
    with ExitStack() as stack:
        disk = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whodisk-mystery-", dir=o.path)))
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whodisk-mystery-", dir=MEMORY)))
        log, injected = work / "injected.jsonl", time.monotonic() + SET_UP_SECONDS
        if row == LONG:
            device, size_bytes = _disk_of(disk), 0
            place = Place(disk / "data", work / "scratch", seed=1, scale=LONG_SCALE)
            place.data.mkdir()
            place.scratch.mkdir()
        else:
            (spike,), size_bytes = spikes, DISK_BYTES
            spare = f"{(DISK_BYTES - SPARE_BYTES) >> 10}KiB..{DISK_BYTES >> 10}KiB"
            at = SET_UP_SECONDS + o.seconds / 2
            faults = [text.format(spare=spare, at=f"{at:g}s", end=f"{at + HIT_S:g}s") for text in spike.disk]
            device = stack.enter_context(
                slowdisk(*faults, seed=1, size=f"{DISK_BYTES}B", backing=disk / "image", log=log)
            )
            runs.make_file_system("ext4", device, DISK_BYTES - SPARE_BYTES)
            place = stack.enter_context(runs.mounted("ext4", device, work, 1))
        PROGRAM.set_up(place)
        os.sync()
        time.sleep(max(0.0, injected - time.monotonic()))
        keep = disk if o.keep is None else o.keep / f"{row.replace(' ', '-')}-{utc()}"
        keep.mkdir(parents=True, exist_ok=True)
        case = keep / "run.case"
        with watched() as machine, PROGRAM.ready(place, o.seconds) as load:
            scene = Scene(PROGRAM, device, size_bytes, load.server, place.data.parent)
            with _acting(spikes, scene, o.seconds) as hits:
                runs.record(WHODISK, load, case, place)
        late = [] if row == LONG or spike.act else runs.injections(log)
        if late:
            hits.append(Hit(row, min(i.start_ns for i in late), max(i.end_ns for i in late)))
        begin = time.monotonic()
        runs.seal(PROGRAM, WHODISK, o.seconds, case, place)
        result = Result(
            row=row,
            disk="the machine's disk" if row == LONG else "slowdisk",
            utc=utc(),
            device=device.name,
            commit=commit(),
            solved=commit(),
            machine=words(),
            seconds=o.seconds,
            hits=hits,
            seal_seconds=time.monotonic() - begin,
            aside=machine.aside(),
        )
        _judge(result, spikes, machine, case, device.name)
        return result


@contextmanager
def _acting(spikes: list[Spike], scene: Scene, seconds: float) -> Iterator[list[Hit]]:
    """Does one after the other to a running program, evenly over its time; raises what went wrong in it, at the end."""
    hits: list[Hit] = []
    ended, failed = threading.Event(), []

    def run(onces: list[tuple[Spike, Once]]) -> None:
        # A thread of this process has a name of its own in a recording.
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(HOLDER, encoding="ascii")
        begun = time.monotonic()
        try:
            for number, (spike, once) in enumerate(onces, 1):
                due = begun + seconds * number / (len(onces) + 1)
                if ended.wait(max(0.0, due - time.monotonic())):
                    return
                start_ns = time.monotonic_ns()
                once()
                hits.append(Hit(spike.name, start_ns, time.monotonic_ns()))
        except Exception as error:  # told below: a spike that was not made must not pass for one that was
            failed.append(error)

    with ExitStack() as stack:
        onces = [(spike, stack.enter_context(spike.act(scene))) for spike in spikes if spike.act]
        thread = threading.Thread(target=run, args=(onces,))
        thread.start()
        try:
            yield hits
        finally:
            ended.set()
            thread.join()
    if failed:
        raise failed[0]


def _disk_of(folder: Path) -> Path:
    """The disk that holds a folder."""
    source = said("findmnt", "--noheadings", "--output", "SOURCE", "--target", folder)
    parent = said("lsblk", "--nodeps", "--noheadings", "--output", "PKNAME", source)
    return Path("/dev") / parent if parent else Path(source)


def _own(case: Path, zero_ns: int) -> Own:
    """The program's own log, which the case holds as it is; as many operations as these are no lists."""
    read = f"read_parquet('{case}/ops/layer=app/*.parquet')"
    kinds = [row[0] for row in duckdb.execute(f"SELECT DISTINCT op FROM {read} ORDER BY 1").fetchall()]
    query = f"SELECT start_ns, latency_ns, list_position(?, CAST(op AS VARCHAR)) - 1 AS kind FROM {read} ORDER BY 1"
    found = duckdb.execute(query, [kinds]).fetchnumpy()
    start_ns = found["start_ns"].astype(np.int64) + zero_ns
    return Own(start_ns, found["latency_ns"].astype(np.int64), np.array(kinds)[found["kind"]])


def _judge(result: Result, spikes: list[Spike], machine: Machine, case: Path, device: str) -> None:
    """Completes a result by what is true, and by what the verdict says."""
    zero_ns = json.loads((case / "case.json").read_text(encoding="utf-8"))["clock"]["start_ns"]
    own = _own(case, zero_ns)
    injected = [Injection(hit.start_ns, hit.end_ns) for hit in result.hits]
    result.wrong, result.excuses = [], []
    result.reads = int((own.kind == "read").sum())
    result.requests = _requests(case, device)
    result.case_bytes = sum(path.stat().st_size for path in case.rglob("*") if path.is_file())
    begin = time.monotonic()
    verdict, result.solve_bytes = _solved(case)
    result.solve_seconds = time.monotonic() - begin
    result.status = verdict["status"]
    for hit, one in zip(result.hits, injected, strict=True):
        covered = covered_ns(own, [one])
        struck = own.latency_ns[
            (covered >= HIT_SHARE * own.latency_ns) & (covered >= HIT_SHARE * SPIKE_S * 1e9)
        ]
        hit.operations, hit.slowest_ns = len(struck), int(struck.max(initial=0))
        for told in verdict["slowest"]:
            start_ns = zero_ns + told["start_ns"]
            shared_ns = min(start_ns + told["latency_ns"], one.end_ns) - max(start_ns, one.start_ns)
            if shared_ns >= HIT_SHARE * SPIKE_S * 1e9:
                hit.stage, hit.what = told["stage"], told["what"]
                break
        hit.named = any(
            names.name_it(finding, device, PROGRAM)
            for finding in verdict["findings"]
            for names in _spike(hit.spike).culprits
        )
    records = Records(
        own, [], machine.stolen_windows(), case, zero_ns, device if result.row == "device" else None,
        injected=injected,
    )  # fmt: skip
    # What makes the spike needs a CPU itself.
    known = [INJECTOR, *(names for spike in spikes for names in (*spike.culprits, *spike.consequences))]
    for finding in verdict["findings"]:
        if finding["culprit"]["kind"] == "saturation" or any(
            names.name_it(finding, device, PROGRAM) for names in known
        ):
            continue
        reason = excuse(finding, records)
        (result.excuses if reason else result.wrong).append(
            f"{in_short(finding)}{f': {reason}' if reason else ''}"
        )
    result.quality = next(iter(verdict["speed"]), "")
    result.cleared = next((c for item in verdict["cleared"] if (c := _cleared(item, device))), "")


def _cleared(item: dict[str, Any], device: str) -> str:
    """How a device is cleared; empty if it is not, or only of more than the spike took."""
    bound = re.search(r"over ([\d.,]+) (ns|us|ms|s) in it", item["bound"])
    if item["what"] != f"device:{device}" or bound is None:
        return ""
    seconds = float(bound[1].replace(",", "")) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[bound[2]]
    if seconds > SPIKE_S / 2:
        return ""
    return f"{item['bound']}; holds for {100 * item['quantile']:.4g} % of blocks of {item['block_ns'] / 1e6:.3g} ms"


def _requests(case: Path, device: str) -> int:
    row = duckdb.execute(
        f"SELECT count(*) FROM read_parquet('{case}/ops/layer=block/*.parquet') WHERE op = 'read' AND device = ?",
        [device],
    ).fetchone()
    return int(row[0]) if row else 0


def _solved(case: Path) -> tuple[dict[str, Any], int]:
    """The verdict, and how much memory it took."""
    with tempfile.TemporaryFile() as out:
        command = [str(WHODISK), "solve", str(case), "--json", "--no-report", "--expect", EXPECTED]
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        # 1: what was expected is not met.
        if process.returncode not in (0, 1):
            raise runs.RunError(f"{' '.join(command)}: exit code {process.returncode}")
        out.seek(0)
        verdict: dict[str, Any] = json.load(out)
    return verdict, usage.ru_maxrss << 10


def _load() -> list[Result]:
    if not STORE.exists():
        return []
    lines = [json.loads(line) for line in STORE.read_text(encoding="utf-8").splitlines() if line]
    return [Result(**{**line, "hits": [Hit(**hit) for hit in line["hits"]]}) for line in lines]


def _add(result: Result) -> None:
    with STORE.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def _document(results: list[Result]) -> str:
    """The page: of each row the runs of the newest commit; runs on a busy machine are counted, and told apart."""
    short = [result for result in results if result.row != LONG]
    long = [result for result in results if result.row == LONG and result.aside is None]
    lines = [INTRODUCTION]
    commits = {result.row: result.commit for result in short}
    newest = [result for result in short if result.commit == commits[result.row]]
    kept = [result for result in newest if result.aside is None]
    right = sum(result.right for result in kept)
    if kept:
        lines += [
            f"**{right} of {len(kept)} short runs are right**, {kept[-1].machine}, commit {', '.join(sorted({r.commit for r in kept}))}; "
            f"set aside before they were judged: {len(newest) - len(kept)}.",
            "",
            "| spike in | what is done, once | right | status | slowest operation that it hit | stage said | reads, requests per run | device |",
            "|---|---|---|---|---|---|---|---|",
            *(_row(spike, [r for r in kept if r.row == spike.name]) for spike in SPIKES),
            "",
        ]
        lines += [f"- {r.row}: {_wrong(r)}" for r in kept if not r.right]
        lines += [f"- {r.row}: excused: {text}" for r in kept for text in r.excuses]
    for result in long[-1:]:
        lines += ["", *_long(result)]
    return "\n".join(lines) + "\n"


def _row(spike: Spike, of_it: list[Result]) -> str:
    if not of_it:
        return f"| {spike.name} | {spike.words} | - | - | - | - | - | - |"
    hits = [hit for result in of_it for hit in result.hits]
    slowest = ", ".join(f"{hit.slowest_ns / 1e6:.0f} ms" for hit in hits)
    stages = ", ".join(dict.fromkeys(hit.stage or "-" for hit in hits))
    reads = f"{min(r.reads for r in of_it):,}, {min(r.requests for r in of_it):,}"
    cleared = sum(bool(r.cleared) for r in of_it)
    device = "has a part in it" if spike.disk else f"cleared in {cleared} of {len(of_it)}"
    status = ", ".join(dict.fromkeys(r.status for r in of_it))
    right = sum(r.right for r in of_it)
    return f"| {spike.name} | {spike.words} | {right} of {len(of_it)} | {status} | {slowest} | {stages} | {reads} | {device} |"


def _wrong(result: Result) -> str:
    said = [
        f"{hit.spike} {'named' if hit.named else 'not named'}, stage {hit.stage or '-'}"
        for hit in result.hits
    ]
    return "; ".join([result.status, *said, *result.wrong])


def _long(result: Result) -> list[str]:
    return [
        "## One long run",
        "",
        f"{result.utc[:10]}, commit {result.commit} (solved by {result.solved}), {result.machine}: {result.seconds:,.0f} s on {result.disk}, "
        f"**{result.reads:,} reads, {result.requests:,} of them (and of compactions) from the device**; "
        f"a case of {result.case_bytes / 1e9:.2f} GB, sealed in {result.seal_seconds:.0f} s, "
        f"solved in {result.solve_seconds:.0f} s and {result.solve_bytes / 2**30:.2f} GiB. "
        f"The verdict is {'right' if result.right else 'wrong'}: {_wrong(result)}.",
        "",
        "| spike in | operations that it hit | slowest | stage said | meanwhile |",
        "|---|---|---|---|---|",
        *(
            f"| {hit.spike} | {hit.operations} | {hit.slowest_ns / 1e6:.1f} ms | {hit.stage or '-'} | {hit.what or '-'} |"
            for hit in result.hits
        ),
        "",
        f"Quality of service, as far as the count allows: {result.quality}",
        "",
        f"Device cleared: {result.cleared or 'no'}.",
        *(f"Excused: {text}" for text in result.excuses),
    ]
