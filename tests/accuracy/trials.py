"""`python -m tests.accuracy trials FOLDER`: development runs of real programs with the solver of this tree, as it stands.

Each run is kept in the folder with its truth, so that `--solve-again` needs no recording after a change. Nothing is stored in docs/:
what was seen here says nothing of how right a solver is. Cells that are held out for the test set are never drawn.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

from tests.accuracy.host import WHODISK
from tests.accuracy.referee import runs
from tests.accuracy.referee.excuses import excuse
from tests.accuracy.referee.judge import judge
from tests.accuracy.referee.rows import ROWS, Run, refused
from tests.accuracy.referee.seeds import DEVELOPMENT, digest, seed
from tests.accuracy.referee.tracer import TracerError
from whodisk.programs.base import ProgramError

SECONDS = 6.0


def main(arguments: list[str]) -> int:
    """Exit codes: 0 done, 1 a verdict was wrong, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy trials", description=__doc__)
    parser.add_argument("folder", type=Path, help="where runs are kept, 5 to 60 MB each")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only these: PROGRAM/FILE_SYSTEM/FAULT")
    parser.add_argument(
        "--runs", type=int, default=1, help="runs of each row in all, those kept included [1]"
    )
    parser.add_argument(
        "--from-run", type=int, default=1, metavar="NUMBER", help="number of the first run [1]"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"that a program runs [{SECONDS:g}]")
    parser.add_argument("--max-seconds", type=float, default=float("inf"), help="begin no run after so long")
    parser.add_argument("--disturbed-too", action="store_true", help="keep runs on a busy machine")
    parser.add_argument("--record-only", action="store_true", help="solve nothing")
    parser.add_argument("--solve-again", action="store_true", help="record nothing: solve what is kept")
    o = parser.parse_args(arguments)
    if o.rows and (why := refused(o.rows, DEVELOPMENT)):
        parser.error(why)
    names = o.rows or [name for name, row in ROWS.items() if not row.held_out]
    wanted = [
        _run(name, number) for number in range(o.from_run, o.runs + 1) for name in _mixed(names, number)
    ]
    if not o.solve_again:
        _record(wanted, o)
    return 0 if o.record_only else _solve([run for run in wanted if _is_kept(o.folder, run)], o.folder)


def _mixed(names: list[str], number: int) -> list[str]:
    """Another order for each round: wherever it is stopped, programs and faults are mixed."""
    return sorted(names, key=lambda name: digest("trials", number, name))


def _run(name: str, number: int) -> Run:
    return Run(DEVELOPMENT, ROWS[name], number, seed("trials", DEVELOPMENT, name, number))


def _keep(folder: Path, run: Run) -> Path:
    return folder.resolve() / run.row.name.replace("/", "-") / str(run.number)


def _is_kept(folder: Path, run: Run) -> bool:
    return (_keep(folder, run) / runs.FACTS).exists()


def _record(wanted: list[Run], o: argparse.Namespace) -> None:
    began, longest = time.monotonic(), 0.0
    for run in (run for run in wanted if not _is_kept(o.folder, run)):
        if (lack := run.row.program.missing()) is not None:
            print(f"left out: {lack}", file=sys.stderr)
            continue
        before = time.monotonic()
        if before - began + longest > o.max_seconds:
            print("the time is over; the same command goes on from here")
            return
        keep = _keep(o.folder, run)
        try:
            machine, truth = runs.make(run, WHODISK, o.seconds, keep, disturbed_too=o.disturbed_too)
            aside = machine.aside() is not None and not o.disturbed_too
            said = f"{'|'.join(truth.statuses)} ({truth.why})"
            if machine.aside() is not None:
                said = f"{said if o.disturbed_too else ''} disturbed: {machine.aside()}"
        except (runs.RunError, ProgramError, TracerError, ValueError) as error:
            said, aside = str(error), True
        if aside:
            # Whatever its verdict would be, it says nothing.
            shutil.rmtree(keep, ignore_errors=True)
        longest = max(longest, time.monotonic() - before)
        mark = "aside" if aside else "kept "
        print(
            f"{run.row.name:34} {run.number:3} {mark} {time.monotonic() - before:5.1f} s  {said}", flush=True
        )


def _solve(kept: list[Run], folder: Path) -> int:
    right: dict[str, list[bool]] = defaultdict(list)
    for run in kept:
        keep = _keep(folder, run)
        records, truth, device = runs.records_of(keep)
        fault, program = run.row.fault, run.row.program
        try:
            verdict: dict[str, Any] = runs.solve(WHODISK, keep)
        except runs.RunError as error:
            right[run.row.cell].append(False)
            print(f"{run.row.name:34} {run.number:3} WRONG {error}", flush=True)
            continue
        (keep / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
        judged = judge(
            verdict, truth, fault, program, device, partial(excuse, records=records), records.case_start_ns
        )
        right[run.row.cell].append(judged.right)
        what = ", ".join(f"{name} {value:g}" for name, value in run.magnitudes().items())
        true = f"{'|'.join(truth.statuses)}{', to be named' if truth.must_name else ''} ({truth.why}) {what}"
        slowest = "" if judged.slowest_right is not False else " SLOWEST"
        mark = "ok   " if judged.right else "WRONG"
        print(f"{run.row.name:34} {run.number:3} {mark}{slowest} {true} <- {judged.said}", flush=True)
        for excused in judged.excuses:
            print(f"{'':46} excused: {excused}")
    for cell, of_cell in sorted(right.items()):
        print(f"{cell:30} {sum(of_cell)} of {len(of_cell)}")
    every = [each for of_cell in right.values() for each in of_cell]
    print(f"{'all':30} {sum(every)} of {len(every)}")
    return 0 if all(every) else 1
