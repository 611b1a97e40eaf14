"""Runs the table row by row, resumes where it was stopped, writes docs/reference/accuracy.md.

Recording needs a quiet machine, solving does not: `--cases DIR --record-only` now, `--cases DIR --solve-again` whenever the
solver has changed. `programs --help`: real programs against a frozen solver, a table of their own. `trials --help`: the same
programs, to develop with. `nulls --help`: worlds in which there is nothing to find. `sensitivity --help`: thresholds at half and twice their values.
`experiments --help`: intervals between made runs whose ratio is known. `layout --help`: `whodisk layout`, killed.
`copies --help`: figures of copies, out of experiments. `mystery-2 --help`: a spike in one layer after another, under RocksDB.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from tests.accuracy import crashes, emulated, mysteries, readme
from tests.accuracy.copies import main as copies
from tests.accuracy.experiments import main as experiments
from tests.accuracy.host import Unavailable
from tests.accuracy.judge import judge
from tests.accuracy.layout import main as layout
from tests.accuracy.modelled import main as modelled_drives
from tests.accuracy.mystery_2 import main as mystery_2
from tests.accuracy.nulls import main as null_worlds
from tests.accuracy.referee.command import main as real_programs
from tests.accuracy.referee.intervals import wilson
from tests.accuracy.referee.machine import DISTURBED_CPUS
from tests.accuracy.scenarios import ROOT, ROWS, Row, about_of, commit, record, solve, utc
from tests.accuracy.sensitivity import main as sensitivity
from tests.accuracy.trials import main as trials
from tests.vm.image import BuildError
from tests.vm.machine import MachineError

KILLED = {
    "killed/recording": f"`whodisk run`, up to {crashes.MOMENT_SECONDS:g} s after its begin or first stream",
    "killed/sealing": "`whodisk seal`, at any time",
}
OUTPUT = ROOT / "docs/reference/accuracy.md"
#: A run in which others had the CPUs is made so often, at most.
ATTEMPTS = 3
EMULATED = "## Another kernel, emulated"
MYSTERIES = "## The mysteries in the lab"
KILLS = "## Killed with SIGKILL"
AGAIN = "## Solved again"
WRONG = "## Wrong verdicts"
EXCUSES = "## Findings about what was not injected, and who else saw it"
TABLE_HEAD = (
    "| injected | where | right | runs | disturbed runs, not counted | runs with a stall of a device seen by the query | CPU |",
    "|---|---|---|---|---|---|---|",
)
PLACE = {"memory": "block device in memory", "disk": "system disk"}


def main() -> int:
    """Command line of `make accuracy`; exit code 1 if any verdict was wrong."""
    if sys.argv[1:2] == ["programs"]:
        return real_programs(sys.argv[2:])
    if sys.argv[1:2] == ["trials"]:
        return trials(sys.argv[2:])
    if sys.argv[1:2] == ["nulls"]:
        return null_worlds(sys.argv[2:])
    if sys.argv[1:2] == ["sensitivity"]:
        return sensitivity(sys.argv[2:])
    if sys.argv[1:2] == ["modelled"]:
        return modelled_drives(sys.argv[2:])
    if sys.argv[1:2] == ["mystery-2"]:
        return mystery_2(sys.argv[2:])
    if sys.argv[1:2] == ["experiments"]:
        return experiments(sys.argv[2:])
    if sys.argv[1:2] == ["copies"]:
        return copies(sys.argv[2:])
    if sys.argv[1:2] == ["layout"]:
        return layout(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="make accuracy", description=__doc__)
    names = [*(row.name for row in ROWS), *emulated.ROWS, *mysteries.ROWS, *crashes.ROWS]
    parser.add_argument(
        "--rows", nargs="+", choices=names, default=names, metavar="ROW", help=", ".join(names)
    )
    parser.add_argument("--runs", type=int, default=20, help="runs per row [20]")
    parser.add_argument(
        "--kills", type=int, default=100, help="runs per row in which whodisk is killed [100]"
    )
    parser.add_argument(
        "--boots",
        type=int,
        default=emulated.RUNS,
        help=f"runs per row in the emulated machine [{emulated.RUNS}]",
    )
    parser.add_argument("--seconds", type=float, default=6, help="measured seconds per run [6]")
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "accuracy.jsonl", help="kept results")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--fresh", action="store_true", help="forget what is kept of these rows")
    parser.add_argument("--cases", type=Path, metavar="DIR", help="keep every run there, 10 to 40 MB each")
    parser.add_argument(
        "--record-only", action="store_true", help="real faults: record into --cases, solve later"
    )
    parser.add_argument(
        "--solve-again", action="store_true", help="real faults: record nothing, solve what --cases holds"
    )
    parser.add_argument("--table-only", action="store_true", help="write the table from the kept results")
    options = parser.parse_args()
    if (options.record_only or options.solve_again) and not options.cases:
        parser.error("--record-only and --solve-again need --cases DIR")
    results = _load(options.state)
    if options.fresh:
        results = [r for r in results if r["row"] not in options.rows]
        _save(options.state, results)
    if not options.table_only:
        if os.geteuid() != 0:
            print("whodisk: the accuracy table needs root: loop devices, FUSE and BPF", file=sys.stderr)
            return 2
        lock = _only_one(options.state.with_suffix(".lock"))
        if lock is None:
            print(
                f"whodisk: another run of the accuracy table uses {options.state}; wait for its end",
                file=sys.stderr,
            )
            return 2
        for row in (row for row in ROWS if row.name in options.rows):
            try:
                _real_row(row, options, results)
            except Unavailable as lack:
                print(f"{row.name:16} left out: {lack}", flush=True)
        # What follows is made and judged in one go.
        names = [] if options.record_only or options.solve_again else options.rows
        for name in (name for name in emulated.ROWS if name in names):
            if (absent := emulated.missing()) is not None:
                print(f"{name:16} left out: {absent}", flush=True)
                continue
            _run_row(name, options.boots, partial(_emulated, name, options), options, results)
        for name in (name for name in mysteries.ROWS if name in names):
            _run_row(name, options.runs, partial(_mystery, name, options), options, results)
        for name in (name for name in crashes.ROWS if name in names):
            _run_row(name, options.kills, partial(_kill, name, options), options, results)
    old = options.output.read_text(encoding="utf-8") if options.output.exists() else ""
    document = _document(results, options, old)
    options.output.write_text(document, encoding="utf-8")
    if options.output == OUTPUT:
        readme.write()
    print(f"written: {options.output}")
    return 1 if any(not r["right"] for r in results if not r.get("disturbed")) else 0


def _only_one(path: Path) -> TextIO | None:
    """A lock that lasts as long as this process; None if another one has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _real_row(row: Row, options: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    """Records what is missing of a row of real faults, and solves it."""
    place = (options.cases or options.state.parent / "accuracy-runs") / row.name
    if options.fresh:
        shutil.rmtree(place, ignore_errors=True)
    solved = {
        r["seed"] for r in results if r["row"] == row.name and not r.get("disturbed") and not r.get("again")
    }
    for seed in range(1, options.runs + 1):
        begin = time.monotonic()
        work = place / str(seed)
        about = about_of(work)
        is_recorded = about is not None and not about.is_disturbed
        if options.solve_again:
            todo = is_recorded
        else:
            todo = seed not in solved and not (options.record_only and is_recorded)
        if not todo or not (is_recorded or _record(row, seed, options, work, results)):
            continue
        if options.record_only:
            print(f"{row.name:16} run {seed:2} {time.monotonic() - begin:5.1f} s", flush=True)
            continue
        if options.solve_again and seed in solved:
            # The first solve stays; what later solvers say is a table of its own, which keeps the last of them.
            results[:] = [
                r for r in results if not r.get("again") or (r["row"], r["seed"]) != (row.name, seed)
            ]
            _add(results, options, row.name, seed, begin, {**_judged(row, work, options), "again": True})
            continue
        _add(results, options, row.name, seed, begin, _judged(row, work, options))


def _record(
    row: Row, seed: int, options: argparse.Namespace, work: Path, results: list[dict[str, Any]]
) -> bool:
    """Whether there is a recording that others did not disturb."""
    for _ in range(ATTEMPTS):
        begin = time.monotonic()
        try:
            about = record(row, seed, options.seconds, work)
        except subprocess.CalledProcessError as error:
            _add(results, options, row.name, seed, begin, _failed(error))
            return False
        if not about.is_disturbed:
            return True
        shutil.rmtree(work)
        said = f"not solved: others had {about.others_cpus + about.stolen_cpus:.2f} CPUs"
        _add(results, options, row.name, seed, begin, {"named": said, "disturbed": True, "right": False})
    return False


def _run_row(
    name: str,
    runs: int,
    one: Callable[[int], dict[str, Any]],
    options: argparse.Namespace,
    results: list[dict[str, Any]],
) -> None:
    done = {r["seed"] for r in results if r["row"] == name}
    for seed in (s for s in range(1, runs + 1) if s not in done):
        begin = time.monotonic()
        _add(results, options, name, seed, begin, one(seed))


def _add(
    results: list[dict[str, Any]],
    options: argparse.Namespace,
    name: str,
    seed: int,
    begin: float,
    result: dict[str, Any],
) -> None:
    """Keeps and prints what came out of a run."""
    results.append(
        {"row": name, "seed": seed, "commit": commit(), "utc": utc(), "stalls": [], "claims": [], **result}
    )
    _save(options.state, results)
    mark = "AGAIN" if result.get("disturbed") else "ok   " if result["right"] else "WRONG"
    took = time.monotonic() - begin
    print(f"{name:16} run {seed:2} {mark} {took:5.1f} s  {result['named']}", flush=True)


def _judged(row: Row, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The verdict on a recording, judged. The recording goes, unless it is to stay or the verdict is wrong."""
    try:
        run = solve(work)
    except subprocess.CalledProcessError as error:
        return _failed(error)
    verdict = judge(row, run)
    if verdict.right and not options.cases:
        shutil.rmtree(work)
    return {
        "right": verdict.right,
        "named": verdict.named,
        "first_right": verdict.first_right,
        "status_right": verdict.status_right,
        "wrong": verdict.wrong,
        "excuses": verdict.excuses,
        "stalls": verdict.stalls,
        "claims": [finding["claim"] for finding in run.verdict["findings"]],
        "recorded": run.about.commit,
        "utc": run.about.utc,
    }


def _kill(name: str, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    try:
        outcome = crashes.run_once(name, seed, options.state.parent / "accuracy-kill")
    except subprocess.CalledProcessError as error:
        return _failed(error)
    return {"right": outcome.readable, "named": outcome.said}


def _emulated(name: str, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    try:
        verdict = emulated.run_once(name, options.state.parent / f"accuracy-emulated-{seed}")
    except (BuildError, MachineError) as error:
        return {"right": False, "named": f"failed: {error}"}
    return {"right": verdict.right, "named": verdict.named}


def _mystery(name: str, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    try:
        verdict = mysteries.run_once(name, seed, options.state.parent / "accuracy-lab")
    except subprocess.CalledProcessError as error:
        return _failed(error)
    return {"right": verdict.right, "named": verdict.named}


def _failed(error: subprocess.CalledProcessError) -> dict[str, Any]:
    text = (error.stderr or "").strip()
    return {"right": False, "named": f"failed: {text or error}"}


def _load(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _save(path: Path, results: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(r) + "\n" for r in results), encoding="utf-8")
    partial.replace(path)


def _document(results: list[dict[str, Any]], options: argparse.Namespace, old: str) -> str:
    """The tables. Of what no result is kept (it was made on another machine), they say what the document `old` does."""
    again = [r for r in results if r.get("again")]
    results = [r for r in results if not r.get("again")]
    real = [r for r in results if r["row"] not in (*emulated.ROWS, *mysteries.ROWS, *crashes.ROWS)]
    before = min(old.find(f"\n{title}\n") % (len(old) + 1) for title in (EMULATED, MYSTERIES, KILLS, AGAIN))
    parts = [
        _real(real, options, old[:before]),
        _emulated_rows([r for r in results if r["row"] in emulated.ROWS]) or _part(old, EMULATED),
        _mysteries([r for r in results if r["row"] in mysteries.ROWS]) or _part(old, MYSTERIES),
        _killed([r for r in results if r["row"] in crashes.ROWS]) or _part(old, KILLS),
        _again(again, real) or _part(old, AGAIN),
    ]
    return "\n\n".join("\n".join(part).strip() for part in parts if part) + "\n"


def _part(document: str, title: str) -> list[str]:
    """A part of the document, from its title to the next one."""
    _, found, rest = document.partition(f"\n{title}\n")
    return [title, *rest.partition("\n## ")[0].splitlines()] if found else []


def _real(results: list[dict[str, Any]], options: argparse.Namespace, old: str) -> list[str]:
    """What was found in real recordings. Rows without results are those of the document `old`, with their machines."""
    lines = [
        "# Accuracy on real faults",
        "",
        "Written by `make accuracy`. Each run injects one fault on a real kernel (or none), records a short",
        "workload (4 KiB, 60 % reads, 55 % random, unless `tests/accuracy/faults/` says another one), solves the case and",
        "compares. Right (DESIGN 11): the status is right, the fault is the *first* finding, no finding is wrong; a healthy run accuses",
        "nothing. Where a range is given, the seed of the run draws the magnitude from it. Rows in which nothing is wrong stand beside the fault",
        "that they look like. A finding about what was not injected is excused only if a second tracer (the kernel's event tracing) or",
        "the kernel's account of steal shows it at the same operations: same device, same time, same size. In brackets: Wilson's 95 % interval.",
        "Seeds 1 to 20 are known to all who build: this is development data. Real programs and unseen seeds: accuracy-programs.md.",
        "",
        f"Command: `make accuracy` ({options.seconds:g} s measured per run). A run in which others (programs, or the hypervisor's other",
        f"guests) had {DISTURBED_CPUS:g} CPUs or more on average is made again, whatever its verdict, and counted apart.",
        "",
    ]
    judged = [r for r in results if not r.get("disturbed")]
    table: list[str] = []
    kept: list[str] = []
    for row in ROWS:
        begin = f"| {row.fault.words} | {PLACE[row.place]} |"
        of_row = [r for r in judged if r["row"] == row.name]
        if of_row:
            right, stalled = _right(of_row), sum(bool(r["stalls"]) for r in of_row)
            again = sum(r["row"] == row.name for r in results) - len(of_row)
            table.append(f"{begin} {right} | {len(of_row)} | {again} | {stalled} | {_cpu_model()} |")
        else:
            earlier = [line for line in old.splitlines() if line.startswith(begin)]
            table += earlier[:1]
            kept += earlier[:1]
    here = f"- {_machine()}"
    machines = [line for line in old.splitlines() if kept and line.startswith("- ") and " CPUs (" in line]
    if judged and not any(line.endswith(f"| {_cpu_model()} |") for line in kept):
        # Nothing is left of what was run here before.
        machines = [line for line in machines if not line.startswith(here)]
    machines += [f"{here}: {_span(judged)}."] if judged else []
    lines += [*machines, "", *TABLE_HEAD, *table]
    ours = {r["row"] for r in judged}

    def of_others(title: str) -> list[str]:
        items = [line for line in _part(old, title) if line.startswith("- ")]
        return [line for line in items if line[2:].split(",")[0] not in ours]

    wrong = [_wrong(r) for r in judged if not r["right"]] + of_others(WRONG)
    lines += ["", WRONG, "", *(wrong or ["None."])]
    excused = [f"- {r['row']}, run {r['seed']}: {text}" for r in judged for text in r.get("excuses", [])]
    excused += of_others(EXCUSES)
    lines += ["", EXCUSES, "", *(excused or ["None."])]
    return lines


def _right(results: list[dict[str, Any]]) -> str:
    """How many were right, with Wilson's interval."""
    found = wilson(sum(r["right"] for r in results), len(results))
    return f"{found.successes} ({100 * found.low:.0f} to {100 * found.high:.0f} %)"


def _again(results: list[dict[str, Any]], first: list[dict[str, Any]]) -> list[str]:
    """The section on runs that a later solver solved again; empty if there were none."""
    if not results:
        return []
    lines = [
        AGAIN,
        "",
        "Later solvers on recordings whose first verdicts stand above. Those who built them may have looked at these runs.",
        f"Runs: {_span(results)}.",
        "",
        "| row | right at first | right now | runs |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(r["row"] for r in results):
        now = [r for r in results if r["row"] == name]
        seeds = {r["seed"] for r in now}
        before = [r for r in first if r["row"] == name and r["seed"] in seeds and not r.get("disturbed")]
        lines.append(f"| {name} | {_right(before)} | {_right(now)} | {len(now)} |")
    return lines


def _emulated_rows(results: list[dict[str, Any]]) -> list[str]:
    """The section on the emulated machine; empty if it did not run."""
    if not results:
        return []
    lines = [
        EMULATED,
        "",
        "Debian 12's kernel (6.1) under QEMU's emulation, with its own drivers for NVMe, MD raid and SCSI (`tests/vm`). Right: the fault is the",
        "first finding, and the healthy run of the same boot accuses nobody.",
        f"Runs: {_span(results)}.",
        "",
        "| boot | faults | right | runs |",
        "|---|---|---|---|",
    ]
    for name, faults in emulated.ROWS.items():
        of_row = [r for r in results if r["row"] == name]
        if of_row:
            what = ", ".join(faults).replace("_", " ")
            lines.append(f"| {name} | {what} | {_right(of_row)} | {len(of_row)} |")
    return [*lines, "", *(_wrong(r) for r in results if not r["right"])]


def _mysteries(results: list[dict[str, Any]]) -> list[str]:
    """The section on the mysteries in the lab; empty if there were none."""
    if not results:
        return []
    lines = [
        MYSTERIES,
        "",
        "Simulated (`scenarios/`), as found and as fixed: the culprit must be the first finding; where the second column says",
        f"nobody, nobody may be accused. Each run has a seed of its own. Runs: {_span(results)}.",
        "",
        "| scenario | culprit | right | runs |",
        "|---|---|---|---|",
    ]
    for name, mystery in mysteries.ROWS.items():
        of_row = [r for r in results if r["row"] == name]
        if of_row:
            culprit = f"{mystery.culprit[0]}: {mystery.culprit[1]}" if mystery.culprit else "nobody"
            beside = f", compared with {mystery.against}" if mystery.against else ""
            lines.append(f"| {name}{beside} | {culprit} | {_right(of_row)} | {len(of_row)} |")
    return [*lines, "", *(_wrong(r) for r in results if not r["right"])]


def _killed(results: list[dict[str, Any]]) -> list[str]:
    """The section on kills; empty if there were none."""
    if not results:
        return []
    lines = [
        KILLS,
        "",
        "At a random moment (the seed draws it). Readable: it can be sealed, `whodisk verify` finds no damage, the",
        "workload ended with its recorder; after a killed seal the next one gives the same bytes as one left alone.",
        f"Runs: {_span(results)}.",
        "",
        "| killed | runs | unreadable | before anything was recorded |",
        "|---|---|---|---|",
    ]
    for name in crashes.ROWS:
        of_row = [r for r in results if r["row"] == name]
        if of_row:
            unreadable = sum(not r["right"] for r in of_row)
            early = sum("yet" in r["named"] for r in of_row)
            lines.append(f"| {KILLED[name]} | {len(of_row)} | {unreadable} | {early} |")
    unreadable_runs = [_wrong(r) for r in results if not r["right"]]
    return [*lines, "", *unreadable_runs] if unreadable_runs else lines


def _wrong(result: dict[str, Any]) -> str:
    stalls = f"; stalls seen by the query: {', '.join(result['stalls'][:3])}" if result["stalls"] else ""
    wrong = f"; wrong: {', '.join(result['wrong'])}" if result.get("wrong") else ""
    status = "; the status is wrong" if result.get("status_right") is False else ""
    return f"- {result['row']}, run {result['seed']}: {result['named']}{status}{wrong}{stalls}"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def _machine() -> str:
    return f"{os.cpu_count()} CPUs ({_cpu_model()}), Linux {platform.release()}"


def _span(results: list[dict[str, Any]]) -> str:
    if not results:
        return "none"
    days = sorted({r["utc"][:10] for r in results})
    commits = ", ".join(sorted({r["commit"] for r in results}))
    recorded = ", ".join(sorted({r.get("recorded", r["commit"]) for r in results}))
    by = f"commit {commits}" if recorded == commits else f"recorded by {recorded}, solved by {commits}"
    return f"{len(results)} on {days[0]}{' to ' + days[-1] if len(days) > 1 else ''}, {by}"


if __name__ == "__main__":
    sys.exit(main())
