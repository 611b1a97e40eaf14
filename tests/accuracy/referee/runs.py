"""Makes one run: sets a program up, injects, records, and finds out what is true of it. Solving comes later."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.accuracy.host import slowdisk
from tests.accuracy.referee import others
from tests.accuracy.referee import truth as truths
from tests.accuracy.referee.excuses import Records
from tests.accuracy.referee.faults import SPARE_BYTES, Injection, Scene, Window, acting, disk_faults
from tests.accuracy.referee.freeze import environment
from tests.accuracy.referee.machine import Machine, watched
from tests.accuracy.referee.rows import FILE_SYSTEMS, Run
from tests.accuracy.referee.scene import processes
from tests.accuracy.referee.scheduler import OffCpu, off_cpu
from tests.accuracy.referee.tracer import Request, traced
from tests.accuracy.referee.truth import Own, Truth
from whodisk.programs.base import Load, Log, Place, Program, ProgramError, find, said, told_of

SIZE_BYTES = 768 << 20
#: Data and logs lie in memory: no disk but the one that is looked at takes part.
MEMORY = Path("/dev/shm")
#: Files of a run beside its case.
CASE, FACTS, OWN, REQUESTS = "run.case", "facts.json", "own.json.gz", "requests.json.gz"
THREADS = "threads.json.gz"
#: Pairs of windows with and without the fault; eight, so that the rank test can be sure of four figures at once.
PAIRS = 8
WINDOW_SECONDS_MIN, WINDOW_SECONDS_MAX = 0.6, 1.6
#: The first window opens so long after the start of the disk: mounting and starting a program take less.
LEAD_SECONDS = 4.0
UNMOUNT_SECONDS_MAX = 10.0
MKFS = {
    "ext4": ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["-q", "-f"],
    "btrfs": ["-q", "-f"],
}


class RunError(Exception):
    """A run could not be made; the text says which command failed, and how."""


def make(
    run: Run, whodisk: Path, seconds: float, keep: Path, *, disturbed_too: bool = False
) -> tuple[Machine, Truth]:
    """Makes a run and leaves it in the folder `keep` (emptied first); gives what the machine did, and the truth.

    Of a run that is to be set aside the truth is not looked for to the end, unless `disturbed_too`.

    Raises RunError if it cannot be recorded, ProgramError or TracerError if it cannot be made.
    """
    shutil.rmtree(keep, ignore_errors=True)
    keep.mkdir(parents=True)
    row, fault, magnitudes = run.row, run.row.fault, run.magnitudes()
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="whodisk-referee-") as folder:
        work = Path(folder)
        # Servers that are not root look into it.
        work.chmod(0o755)
        model = fault.model if fault else ""
        with _disk(work, run.seed) as device:
            make_file_system(row.file_system, device, SIZE_BYTES - SPARE_BYTES)
            with mounted(row.file_system, device, work, run.seed) as place:
                row.program.set_up(place)
        log = work / "injected.jsonl"
        faults = disk_faults(fault, magnitudes, SIZE_BYTES, None) if fault else []
        with watched() as machine, _disk(work, run.seed, *faults, log=log, model=model) as device:
            name = device.name
            with (
                mounted(row.file_system, device, work, run.seed) as place,
                row.program.ready(place, seconds) as load,
            ):
                scene = Scene(row.program, device, SIZE_BYTES, load.server, work / "mount")
                ours = [pid for pid, comm in processes(scene) if not comm.startswith("whodisk")]
                with (
                    off_cpu([os.getpid(), *ours]) as off,
                    traced() as requests,
                    acting(fault, scene, magnitudes, run.seed) as acted,
                ):
                    begin_ns = time.monotonic_ns()
                    record(whodisk, load, keep / CASE, place)
                    end_ns = time.monotonic_ns()
                fails = fault is not None and fault.fails
                own = truths.columns(_own_log(row.program, place, may_lack=fails), may_be_empty=fails)
                seal(row.program, whodisk, seconds, keep / CASE, place)
        injected = None if fault is None else acted if fault.act else injections(log)
        if fails:
            failed = [
                i for i in injections(log, failed_only=True) if begin_ns <= i.start_ns and i.end_ns <= end_ns
            ]
            truth, needs_pairs = truths.of_failed_requests(own, len(failed)), False
        else:
            truth, needs_pairs = truths.of_run(own, injected)
        if fault and needs_pairs and (disturbed_too or machine.aside() is None):
            _pairs(run, work, truth)
    facts = {
        "row": row.name,
        "seed": str(run.seed),
        "magnitudes": magnitudes,
        "device": name,
        "faulty": name if faults else None,
        "injected": None if injected is None else [[i.start_ns, i.end_ns] for i in injected],
        "machine": machine.to_json(),
        "truth": truth.to_json(),
    }
    (keep / FACTS).write_text(json.dumps(facts), encoding="utf-8")
    _pack(keep / OWN, [own.start_ns.tolist(), own.latency_ns.tolist(), own.kind.tolist()])
    _pack(keep / REQUESTS, [dataclasses.astuple(request) for request in requests])
    _pack(keep / THREADS, [dataclasses.astuple(each) for each in off])
    return machine, truth


def records_of(keep: Path) -> tuple[Records, Truth, str]:
    """What `make` left beside the case: records, truth, name of the device."""
    facts = json.loads((keep / FACTS).read_text(encoding="utf-8"))
    meta = json.loads((keep / CASE / "case.json").read_text(encoding="utf-8"))
    own = Own(*(np.array(column) for column in _unpack(keep / OWN)))
    records = Records(
        own=own,
        requests=[Request(*values) for values in _unpack(keep / REQUESTS)],
        off=[OffCpu(*values) for values in _unpack(keep / THREADS)],
        stolen=Machine(**facts["machine"]).stolen_windows(),
        case=keep / CASE,
        case_start_ns=int(meta["clock"]["start_ns"]),
        faulty=facts["faulty"],
        injected=[Injection(*each) for each in facts["injected"] or []],
    )
    return records, Truth(**facts["truth"]), facts["device"]


def solve(whodisk: Path, keep: Path) -> dict[str, Any]:
    """The verdict of a freeze on a run. Raises RunError if it gives none."""
    command = [str(whodisk), "solve", str(keep / CASE), "--json", "--no-report"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(whodisk))
    if done.returncode:
        raise RunError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-600:]}")
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


def _own_log(program: Program, place: Place, *, may_lack: bool) -> Log:
    """The program's own log; an empty one if it may lack and does."""
    try:
        return program.own_log(place)
    except ProgramError:
        if not may_lack:
            raise
        return Log()


def injections(log: Path, *, failed_only: bool = False) -> list[Injection]:
    """What a slow disk says that it did: requests that it delayed, or those that it failed."""
    if not log.exists():
        return []
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [
        Injection(line["time_ns"], line["time_ns"] + line["delay_ns"])
        for line in lines
        if (line["error"] is not None if failed_only else line["delay_ns"] > 0)
    ]


def _pairs(run: Run, work: Path, truth: Truth) -> None:
    """Runs the program again, not recorded, with the fault in one half of each of `PAIRS` pairs of windows, by chance."""
    fault, magnitudes, chance = run.row.fault, run.magnitudes(), random.Random(f"pairs {run.seed}")
    assert fault is not None
    # What comes and goes in stretches: a window holds one of them and the pause before it, whose lengths are drawn, too.
    stretch_s = 3 * others.STRETCH_NS / 1e9 if fault.act else 0.0
    cycle_s = magnitudes.get("every_s", stretch_s) + magnitudes.get("length_ms", 0.0) / 1e3
    length = min(WINDOW_SECONDS_MAX, max(WINDOW_SECONDS_MIN, 1.2 * cycle_s))
    halves: list[tuple[int, int]] = []
    for pair in range(PAIRS):
        first = chance.randrange(2)
        halves.append((2 * pair + first, 2 * pair + 1 - first))
    windows_s = [
        (LEAD_SECONDS + with_it * length, LEAD_SECONDS + (with_it + 1) * length) for with_it, _ in halves
    ]
    log = work / "pairs.jsonl"
    faults = disk_faults(fault, magnitudes, SIZE_BYTES, windows_s)
    # The disk counts from its own start, which lies within the time that it takes to appear.
    asked_ns = time.monotonic_ns()
    with _disk(work, run.seed + 1, *faults, log=log, model=fault.model) as device:
        begin_ns = (asked_ns + time.monotonic_ns()) // 2

        def window(half: int) -> Window:
            at = begin_ns + round((LEAD_SECONDS + half * length) * 1e9)
            return at, at + round(length * 1e9)

        windows = [(window(a), window(b)) for a, b in halves]
        with mounted(run.row.file_system, device, work, run.seed) as place:
            left = (begin_ns - time.monotonic_ns()) / 1e9 + LEAD_SECONDS + 2 * PAIRS * length
            with run.row.program.ready(place, left + 1.0) as load:
                scene = Scene(run.row.program, device, SIZE_BYTES, load.server, work / "mount")
                with acting(fault, scene, magnitudes, run.seed, [a for a, _ in windows]) as acted:
                    said(load.command, cwd=place.scratch)
            own = truths.columns(run.row.program.own_log(place))
    done = acted if fault.act else injections(log)
    truths.with_pairs(truth, own, windows, len(done))


def record(whodisk: Path, load: Load, case: Path, place: Place) -> None:
    """Records a load with a frozen recorder, without its tables. Raises RunError if that fails."""
    server = [] if load.server is None else ["--pid", str(load.server)]
    options = ["--of-program", "--no-seal", "-o", str(case.resolve())]
    _of_freeze(whodisk, ["record", *options, *server, "--", *load.command], place)


def seal(program: Program, whodisk: Path, seconds: float, case: Path, place: Place) -> None:
    """The tables of a case, with the program's own log as layer app, as `whodisk run PROGRAM` makes them. Raises RunError if that fails."""
    told = told_of(program, place, seconds)
    log = [] if told.log is None else ["--log", str(told.log)]
    _of_freeze(whodisk, ["own-log", str(case.resolve()), "--about", str(told.about), *log], place)
    _of_freeze(whodisk, ["seal", str(case.resolve()), "--drop-raw"], place)


def _of_freeze(whodisk: Path, words: list[str], place: Place) -> None:
    """Runs a command of the frozen recorder. Raises RunError if it fails."""
    command = [str(whodisk.parent / "whodisk-agent"), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(whodisk), cwd=place.scratch
    )
    if done.returncode:
        raise RunError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-600:]}")


def make_file_system(kind: str, device: Path, size: int) -> None:
    """A file system of so many bytes. Raises RunError if its tool is not installed, ProgramError if it fails."""
    tool = find(FILE_SYSTEMS[kind])
    if tool is None:
        raise RunError(f"{FILE_SYSTEMS[kind]} is not installed; `make packages-accuracy` installs it")
    sized = {
        "ext4": [str(device), f"{size >> 10}K"],
        "xfs": ["-d", f"size={size}", str(device)],
        "btrfs": ["-b", str(size), str(device)],
    }
    said([tool, *MKFS[kind], *sized[kind]])


@contextmanager
def _disk(work: Path, seed: int, *faults: str, log: Path | None = None, model: str = "") -> Iterator[Path]:
    with slowdisk(
        *faults, seed=seed % 2**62, size=f"{SIZE_BYTES}B", backing=work / "image", log=log, model=model
    ) as device:
        yield device


@contextmanager
def mounted(kind: str, device: Path, work: Path, seed: int) -> Iterator[Place]:
    """Mounts a device in the folder `work`; gives a place with its data there, and its logs beside it."""
    place = Place(work / "mount" / "data", work / "scratch", seed)
    with ExitStack() as stack:
        (work / "mount").mkdir(exist_ok=True)
        said(["mount", "-t", kind, device, work / "mount"])
        stack.callback(_unmount, work / "mount")
        for folder in (place.data, place.scratch):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        yield place


def _unmount(mount: Path) -> None:
    """Programs that were interrupted hold a file system for a moment; after that it goes as soon as they let go."""
    latest = time.monotonic() + UNMOUNT_SECONDS_MAX
    while subprocess.run(["umount", str(mount)], check=False, capture_output=True).returncode:
        if time.monotonic() > latest:
            said(["umount", "--lazy", mount])
            return
        time.sleep(0.1)


def _pack(path: Path, content: Sequence[object]) -> None:
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        json.dump(content, file)


def _unpack(path: Path) -> list[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        content: list[Any] = json.load(file)
    return content
