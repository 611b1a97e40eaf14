"""`make accuracy ARGS='programs ...'`: runs sets of real programs against a frozen solver, and writes docs/reference/accuracy-programs.md.

Resumes where it was stopped; Ctrl-C is safe at any time.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.accuracy.referee import runs
from tests.accuracy.referee.excuses import excuse
from tests.accuracy.referee.freeze import ROOT, Freeze, FreezeError, checkout, freeze
from tests.accuracy.referee.judge import judge
from tests.accuracy.referee.machine import wait_until_calm, words
from tests.accuracy.referee.rows import ROWS, Run, refused
from tests.accuracy.referee.rows import runs as runs_of
from tests.accuracy.referee.seeds import DEVELOPMENT, RUNS, SETS, TEST
from tests.accuracy.referee.store import KEY, Line, Store, StoreError
from tests.accuracy.referee.table import document
from tests.accuracy.referee.tracer import TracerError
from tests.accuracy.scenarios import utc
from whodisk.programs.base import ProgramError

STORE = ROOT / "docs/reference/accuracy/programs.jsonl"
OUTPUT = ROOT / "docs/reference/accuracy-programs.md"
BUILD = ROOT / "build" / "referee"
#: A run on a machine that others use is made again so often in one go.
ATTEMPTS = 2
SECONDS = 6.0


def main(arguments: list[str]) -> int:
    """Exit codes: 0 done, 2 wrong use or error."""
    parser = argparse.ArgumentParser(prog="make accuracy ARGS='programs'", description=__doc__)
    parser.add_argument("--freeze", metavar="COMMIT", help="the recorder and solver that are judged")
    parser.add_argument("--set", choices=SETS, default=DEVELOPMENT, help=f"[{DEVELOPMENT}]")
    parser.add_argument("--runs", type=int, help=f"runs of the set [{RUNS}; {DEVELOPMENT}: one of each row]")
    parser.add_argument(
        "--rows", nargs="+", metavar="ROW", help="only these (development): PROGRAM/FILE_SYSTEM/FAULT"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"that a program runs and is recorded [{SECONDS:g}]"
    )
    parser.add_argument(
        "--record-only", action="store_true", help="solve nothing: the same command without it goes on"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait up to so long before each run until others leave the machine alone [0]",
    )
    parser.add_argument("--max-minutes", type=float, default=float("inf"), help="begin no run after so long")
    parser.add_argument(
        "--disturbed-too", action="store_true", help="development: keep runs on a busy machine"
    )
    parser.add_argument(
        "--solve-again",
        metavar="COMMIT",
        help="solve the kept cases of the set with this solver, for a table of its own",
    )
    parser.add_argument(
        "--reveal",
        action="store_true",
        help="show each verdict of a test set; it is development data from then on",
    )
    parser.add_argument("--list", action="store_true", help="list the rows and the runs of the set, and end")
    parser.add_argument("--build-only", action="store_true", help="check the freeze out, build it, and end")
    parser.add_argument(
        "--table-only", action="store_true", help="write the table from what is stored, and end"
    )
    o = parser.parse_args(arguments)
    if o.freeze is None and not (o.table_only or o.list):
        parser.error("--freeze COMMIT is needed: which recorder and solver are judged?")
    if o.disturbed_too and o.set != DEVELOPMENT:
        parser.error(
            f"--disturbed-too is for --set {DEVELOPMENT} only: elsewhere the rules of the machine decide"
        )
    if o.seconds != SECONDS and o.set != DEVELOPMENT:
        parser.error(f"--seconds is for --set {DEVELOPMENT} only: the others are all alike")
    if o.rows and (why := refused(o.rows, o.set)):
        parser.error(why)
    # A stop by `timeout` or by the system takes everything back, too.
    signal.signal(signal.SIGTERM, _stop)
    try:
        return _run(o)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
    except (FreezeError, StoreError, TracerError) as error:
        print(f"whodisk: {error}", file=sys.stderr)
    return 2


def _stop(*_: object) -> None:
    """As Ctrl-C, which whoever is started in the background ignores."""
    raise KeyboardInterrupt


def _run(o: argparse.Namespace) -> int:
    path = BUILD / "development.jsonl" if o.set == DEVELOPMENT else STORE
    store = Store(path)
    if o.table_only:
        _write_table(store, path)
        return 0
    if o.list:
        return _list(o)
    frozen = freeze(o.freeze)
    if o.build_only:
        print(checkout(frozen))
        return 0
    if o.reveal:
        for line in list(store.of("freeze", commit=frozen.commit)):
            store.add({"kind": "revealed", "freeze": line["freeze"], "set": o.set, "utc": utc()})
        _write_table(store, path)
        return 0
    if os.geteuid() != 0:
        raise FreezeError("real programs need root: loop devices, FUSE, BPF, tracefs")
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FreezeError(f"another run of this table holds {BUILD / 'lock'}; wait for its end") from None
        try:
            return _solve_again(o, frozen, store) if o.solve_again else _first_solves(o, frozen, store)
        finally:
            _write_table(store, path)


def _list(o: argparse.Namespace) -> int:
    for row in ROWS.values():
        print(f"{row.name:34} {'held out: test set only' if row.held_out else ''}")
    if o.freeze:
        for run in _runs(o, freeze(o.freeze), None):
            print(f"{run.of_set} {run.row.name} {run.number} {run.magnitudes()}")
    return 0


def _runs(o: argparse.Namespace, frozen: Freeze, store: Store | None) -> list[Run]:
    used: dict[str, int] = {}
    if store is not None:
        # Another judge of the same commit has seen these numbers.
        others = [
            line["freeze"]
            for line in store.of("freeze", commit=frozen.commit)
            if line["freeze"] != frozen.name
        ]
        for line in (line for other in others for line in store.of("machine", freeze=other, set=o.set)):
            used[line["row"]] = max(used.get(line["row"], 0), line["number"])
    rows = o.rows or list(ROWS)
    count = o.runs or RUNS.get(o.set) or sum(not ROWS[name].held_out for name in rows)
    return list(runs_of(frozen.commit, o.set, count, used, o.rows))


def _first_solves(o: argparse.Namespace, frozen: Freeze, store: Store) -> int:
    latest = time.monotonic() + 60 * o.max_minutes
    whodisk = checkout(frozen)
    if not any(True for _ in store.of("freeze", freeze=frozen.name)):
        store.add({"kind": "freeze", "utc": utc(), **frozen.to_json()})
    todo = [run for run in _runs(o, frozen, store) if not _is_done(store, _key(frozen.name, run), o)]
    longest = 0.0
    for place, run in enumerate(todo, 1):
        if (lack := run.row.program.missing()) is not None:
            print(f"left out: {lack}", file=sys.stderr)
            continue
        began = time.monotonic()
        if began + longest > latest:
            print(
                f"{len(todo) - place + 1} runs are left: the time is over; the same command goes on from here"
            )
            break
        line = _one(o, frozen, store, run, whodisk)
        took = time.monotonic() - began
        longest = max(longest, took)
        mark = (
            "aside"
            if line is None
            else "kept "
            if "right" not in line
            else "ok   "
            if line["right"]
            else "WRONG"
        )
        # What a test set's verdicts say is nobody's to know: it would be development data.
        said = (
            ""
            if line is None or "said" not in line or o.set == TEST
            else f"{'|'.join(line['truth']['statuses'])} <- {line['said']}"
        )
        print(
            f"{place:3} of {len(todo)} {run.row.name:34} {run.number:3} {mark} {took:5.1f} s  {said}",
            flush=True,
        )
    return 0


def _is_done(store: Store, key: dict[str, Any], o: argparse.Namespace) -> bool:
    if any(True for _ in store.of("result", **key)):
        return True
    return o.record_only and any(line["aside"] is None for line in store.of("machine", **key))


def _one(o: argparse.Namespace, frozen: Freeze, store: Store, run: Run, whodisk: Path) -> Line | None:
    """Makes and solves one run; None if the machine was not quiet enough. With --record-only it has no result yet."""
    keep, key = _folder(frozen.name, run), _key(frozen.name, run)
    kept = [line for line in store.of("machine", **key) if line["aside"] is None]
    failed = None
    for _ in range(0 if kept else ATTEMPTS):
        wait_until_calm(o.patience)
        begun, aside, about = utc(), None, {}
        try:
            machine, truth = runs.make(run, whodisk, o.seconds, keep, disturbed_too=o.disturbed_too)
            aside = None if o.disturbed_too else machine.aside()
            about = {
                "others_cpus": machine.others_cpus,
                "stolen_cpus": machine.stolen_cpus,
                "truth": truth.to_json(),
            }
        except runs.RunError as error:
            # The recorder failed: that is a result.
            failed = str(error)
        except (ProgramError, ValueError) as error:
            aside = f"not made: {error}"
        line = {
            "kind": "machine",
            **key,
            "utc": begun,
            "seed": str(run.seed),
            "magnitudes": run.magnitudes(),
            "machine": words(),
            "aside": aside,
            **about,
        }
        store.add(line)
        if aside is None:
            kept = [line]
            break
        shutil.rmtree(keep, ignore_errors=True)
    if not kept:
        return None
    if o.record_only and failed is None:
        return kept[-1]
    result = _solved(run, whodisk, keep) if failed is None else _failure(failed)
    store.add({"kind": "result", **key, "utc": utc(), **result})
    return {**kept[-1], **result, "truth": kept[-1].get("truth", {"statuses": ["?"]})}


def _solved(run: Run, whodisk: Path, keep: Path) -> Line:
    """The verdict on a kept run, judged."""
    if not (keep / runs.FACTS).exists():
        return _failure(f"{keep} was lost before it was solved")
    records, truth, device = runs.records_of(keep)
    try:
        verdict = runs.solve(whodisk, keep)
    except runs.RunError as error:
        return _failure(str(error))
    judged = judge(
        verdict,
        truth,
        run.row.fault,
        run.row.program,
        device,
        lambda finding: excuse(finding, records),
        records.case_start_ns,
    )
    (keep / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
    return judged.to_json()


def _failure(text: str) -> Line:
    return {
        "right": False,
        "status_right": False,
        "first_right": False,
        "wrong": [],
        "excuses": [],
        "slowest_right": None,
        "said": f"failed: {text}",
    }


def _solve_again(o: argparse.Namespace, frozen: Freeze, store: Store) -> int:
    solver = freeze(o.solve_again)
    whodisk = checkout(solver)
    # Whoever judged them first.
    names = {line["freeze"] for line in store.of("freeze", commit=frozen.commit)}
    for line in [line for line in store.of("result", set=o.set) if line["freeze"] in names]:
        (machine,) = (m for m in store.of("machine", **{k: line[k] for k in KEY}) if m["aside"] is None)
        run = Run(o.set, ROWS[line["row"]], line["number"], int(machine["seed"]))
        key, keep = _key(line["freeze"], run), _folder(line["freeze"], run)
        if any(True for _ in store.of("again", **key, solver=solver.commit, judge=solver.judge)):
            continue
        if not keep.exists():
            print(f"{run.row.name} {run.number}: its case is no longer kept; left out", file=sys.stderr)
            continue
        result = _solved(run, whodisk, keep)
        store.add(
            {"kind": "again", **key, "utc": utc(), "solver": solver.commit, "judge": solver.judge, **result}
        )
        mark, said = "ok   " if result["right"] else "WRONG", "" if o.set == TEST else result["said"]
        print(f"{run.row.name:34} {run.number:3} {mark} {said}", flush=True)
    return 0


def _folder(name: str, run: Run) -> Path:
    return (
        BUILD
        / "cases"
        / name.replace("/", "-")
        / run.of_set
        / run.row.name.replace("/", "-")
        / str(run.number)
    )


def _key(name: str, run: Run) -> dict[str, Any]:
    return {"freeze": name, "set": run.of_set, "row": run.row.name, "number": run.number}


def _write_table(store: Store, path: Path) -> None:
    output = OUTPUT if path == STORE else path.with_suffix(".md")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(document(store), encoding="utf-8")
    print(f"written: {output}")
