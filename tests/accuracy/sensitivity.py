"""`python -m tests.accuracy sensitivity`: how many verdicts change if a threshold is half or twice as large.

Every case of `ground_truth` is built and solved as it is; then again for each threshold that its solver can have read (`--most`: for at most as many cases per threshold), at each factor. A threshold whose name no function that
ran mentions cannot change the verdict, and is not tried. Results are kept per case, threshold and factor, so a run that was stopped goes on where it was. A verdict is its status and
its culprits in order; one that changes from right to wrong is counted apart.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from ground_truth.cases import TRUTHS, Truth
from whodisk.detectors.thresholds import TABLE, scaled
from whodisk.errors import CaseError
from whodisk.findings import Verdict
from whodisk.verdict.solve import solve

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "docs/reference/accuracy-sensitivity.md"
FACTORS = (0.5, 2.0)
#: Said of what is no wider than this: a page names single cases only up to here.
NAMED_MAX = 3

HEAD = """# Sensitivity of thresholds

Written by `python -m tests.accuracy sensitivity`. Each threshold of the table (`whodisk.detectors.thresholds.TABLE`) is set to half and to twice its value, and every kept case with a known
truth (`ground_truth`) that can have read it, or as many of them as the table says, drawn by a hash, is solved again. *Changed*: another status, or other culprits, or in another order. *Wrong*: right before, and no more.

"""


@contextmanager
def noted(read: set[str]) -> Iterator[None]:
    """Adds the thresholds that functions mention which run meanwhile, in this thread."""
    seen: set[CodeType] = set()

    def look(frame: FrameType, _event: str, _argument: Any) -> None:
        if frame.f_code not in seen:
            seen.add(frame.f_code)
            read.update(TABLE.keys() & set(frame.f_code.co_names))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def key_of(verdict: Verdict) -> list[Any]:
    """What of a verdict is compared."""
    return [
        verdict.status,
        *([f.culprit.kind, f.culprit.name, f.culprit.because_of] for f in verdict.findings),
    ]


def is_right(truth: Truth, key: Sequence[Any]) -> bool:
    """Whether the status and the first culprit are those of the truth."""
    status, *culprits = key
    if truth.status is not None and status != truth.status:
        return False
    if not truth.positive or truth.kind is None:
        return truth.positive or truth.status is not None or status != "slow"
    expected = (truth.kind, truth.name, truth.because_of)
    return bool(culprits) and all(
        wanted is None or wanted == found for wanted, found in zip(expected, culprits[0], strict=True)
    )


class Kept:
    """Verdicts by case, threshold and factor; a line of JSON each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.verdicts: dict[tuple[str, str, float], list[Any]] = {}
        self.read: dict[str, list[str]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._take(json.loads(line))

    def _take(self, row: dict[str, Any]) -> None:
        self.verdicts[row["case"], row["threshold"], row["factor"]] = row["verdict"]
        if "read" in row:
            self.read[row["case"]] = row["read"]

    def put(self, case: str, threshold: str, factor: float, verdict: list[Any], **more: Any) -> None:
        row = {"case": case, "threshold": threshold, "factor": factor, "verdict": verdict, **more}
        self._take(json.loads(json.dumps(row)))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def as_it_is(name: str, path: Path, kept: Kept) -> None:
    """Solves one case with the thresholds as they are, and keeps which ones it can have read."""
    read: set[str] = set()
    with noted(read):
        verdict = solve(path)
    kept.put(name, "", 1.0, key_of(verdict), read=sorted(read))


def chosen(thresholds: Sequence[str], kept: Kept, most: int) -> dict[str, list[str]]:
    """For each case the thresholds that are tried on it: of the cases that can have read one, at most so many, drawn by a hash of both names."""
    tried: dict[str, list[str]] = {}
    for threshold in thresholds:
        readers = [case for case, read in kept.read.items() if threshold in read]
        readers.sort(key=lambda case: hashlib.sha256(f"{threshold} {case}".encode()).digest())
        for case in readers[: most or None]:
            tried.setdefault(case, []).append(threshold)
    return tried


def try_case(name: str, path: Path, thresholds: Sequence[str], kept: Kept, until: float) -> None:
    """Solves one case with each of these thresholds changed; ends when the time is over."""
    for threshold in thresholds:
        for factor in FACTORS:
            if (name, threshold, factor) in kept.verdicts:
                continue
            if time.monotonic() > until:
                return
            with scaled(threshold, factor):
                try:
                    key = key_of(solve(path))
                except (ValueError, ArithmeticError, IndexError, CaseError) as error:
                    # A value that the solver cannot bear is a result, too.
                    key = [f"{type(error).__name__}"]
            kept.put(name, threshold, factor, key)


def document(kept: Kept) -> str:
    """The page, from what is kept."""
    bases = {case: verdict for (case, threshold, _), verdict in kept.verdicts.items() if not threshold}
    right = {case for case, key in bases.items() if is_right(TRUTHS[case], key)}
    lines = [
        HEAD,
        f"{len(bases)} cases, {len(right)} of them right as they are; {len({t for _, t, _ in kept.verdicts if t})} of {len(TABLE)} thresholds.",
        "",
        "| threshold | value | source | cases | changed at half | wrong | changed at twice | wrong | which |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in TABLE.items():
        cells, which = [], []
        tried = {case for case, threshold, _ in kept.verdicts if threshold == name}
        if not tried:
            continue
        for factor in FACTORS:
            keys = {c: v for (c, t, f), v in kept.verdicts.items() if t == name and f == factor}
            changed = {c for c, key in keys.items() if key != bases[c]}
            wrong = {c for c in changed & right if not is_right(TRUTHS[c], keys[c])}
            cells += [f"{len(changed)} of {len(keys)}", str(len(wrong))]
            which += sorted(wrong or changed)
        named = ", ".join(list(dict.fromkeys(which))[:NAMED_MAX])
        value = ", ".join(f"{v:g}" for v in row.value) if isinstance(row.value, tuple) else f"{row.value:g}"
        lines.append(
            f"| `{name}` | {value} {row.unit} | {row.source} | {len(tried)} | {' | '.join(cells)} | {named} |"
        )
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str]) -> int:
    """`python -m tests.accuracy sensitivity`; exit code 0."""
    parser = argparse.ArgumentParser(prog="make accuracy ARGS='sensitivity'", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=sorted(TRUTHS), default=sorted(TRUTHS), metavar="CASE")
    parser.add_argument("--thresholds", nargs="+", choices=list(TABLE), default=list(TABLE), metavar="NAME")
    parser.add_argument(
        "--most",
        type=int,
        default=0,
        help="cases per threshold at most, drawn from those that can have read it; 0: all [0]",
    )
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="ends after this, and goes on the next time [60]"
    )
    parser.add_argument(
        "--state", type=Path, default=ROOT / "build" / "sensitivity.jsonl", help="kept verdicts"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args(arguments)
    kept = Kept(options.state)
    until = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        for name in options.cases:
            if name not in kept.read and time.monotonic() < until:
                as_it_is(name, TRUTHS[name].build(0, Path(folder) / name), kept)
                print(f"{name}: {len(kept.read[name])} thresholds can have been read", flush=True)
                shutil.rmtree(Path(folder) / name)
        for name, thresholds in chosen(options.thresholds, kept, options.most).items():
            todo = [t for t in thresholds if any((name, t, f) not in kept.verdicts for f in FACTORS)]
            if name not in options.cases or not todo or time.monotonic() > until:
                continue
            path = TRUTHS[name].build(0, Path(folder) / name)
            try_case(name, path, todo, kept, until)
            print(f"{name}: {len(kept.verdicts)} verdicts", flush=True)
            shutil.rmtree(Path(folder) / name)
    options.output.write_text(document(kept), encoding="utf-8")
    print(f"written: {options.output}")
    return 0
