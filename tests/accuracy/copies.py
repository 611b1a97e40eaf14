"""Writes the figures of docs/how-to/copies.md, out of folders that `whodisk experiment examples/copies.toml` and `copies-tail.toml` left.

`--ways ext4=FOLDER xfs=FOLDER --tails xfs=FOLDER`; what no folder is named for stays as it is. Says in the page when, with which commit, and how often.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.accuracy.scenarios import ROOT, commit
from whodisk import words
from whodisk.evidence.prefetching import accounts
from whodisk.reading.views import Case
from whodisk.verdict.solve import solve

PAGE = ROOT / "docs/how-to/copies.md"
WAYS_HEAD = (
    "| server | way | round trip | file system | copied, MB/s | times `smb_read_write` (95 %) |",
    "|---|---|---|---|---|---|",
)
TAILS_HEAD = (
    "| file system | arm | copied, MB/s | reads that waited for their end | prefetch accuracy | coverage | seeks per MiB | `solve` names a tail |"
    " says that it cannot show a device |",
    "|---|---|---|---|---|---|---|---|---|",
)


def main(arguments: Sequence[str]) -> int:
    """Command line of `make accuracy ARGS='copies ...'`."""
    parser = argparse.ArgumentParser(prog="make accuracy ARGS=copies", description=__doc__)
    for name in ("ways", "tails"):
        parser.add_argument(f"--{name}", nargs="+", default=[], type=_named, metavar="FS=FOLDER")
    parser.add_argument("--commit", default=commit(), help="that the experiments ran on [the present one]")
    parser.add_argument("--output", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    page = options.output.read_text(encoding="utf-8")
    for name, head, rows in (("ways", WAYS_HEAD, ways), ("tails", TAILS_HEAD, tails)):
        folders: list[tuple[str, Path]] = getattr(options, name)
        if folders:
            lines = [*head, *(line for kind, folder in folders for line in rows(kind, folder)), ""]
            lines += [_when(kind, folder, options.commit) for kind, folder in folders]
            page = put(page, name, "\n".join(lines))
    options.output.write_text(page, encoding="utf-8")
    print(f"written: {options.output}")
    return 0


def _named(text: str) -> tuple[str, Path]:
    kind, _, folder = text.partition("=")
    if not (Path(folder) / "experiment.json").is_file():
        raise argparse.ArgumentTypeError(
            f"expected FS=FOLDER with experiment.json in the folder, found {text!r}"
        )
    return kind, Path(folder)


def put(page: str, name: str, text: str) -> str:
    """The page with `text` between the marks of this name. Raises ValueError where they are absent."""
    begin, end = f"<!-- measured: {name} -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"expected the marks {begin} and {end}, found none; put them back")
    return f"{before}{begin}\n{text}\n{end}{after}"


def _read(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "experiment.json").read_text(encoding="utf-8"))
    return data


def _when(kind: str, folder: Path, ran_on: str) -> str:
    data = _read(folder)
    rounds = sorted({len(arm["runs"]) for arm in data["arms"]})
    begun = min(attempt["started_utc"] for attempt in data["order"])
    machine = data["machine"]
    return (
        f"- {kind}: {begun}, commit {ran_on}, kernel {machine['kernel']}, {machine['cpus']} CPUs; runs per arm: "
        f"{words.listed([str(number) for number in rounds])}."
    )


def _value(data: dict[str, Any], arm: str, metric: str) -> float | None:
    """A metric of an arm, over all its runs."""
    for comparison in data["comparisons"]:
        for side in ("first", "second"):
            if comparison[side]["name"] == arm:
                for each in comparison["metrics"]:
                    if each["metric"] == metric and each[side] is not None:
                        return float(each[side])
    return None


def ways(kind: str, folder: Path) -> list[str]:
    """A row per arm of examples/copies.toml, by server, round trip and way."""
    data = _read(folder)
    lines = []
    for arm in sorted(each["name"] for each in data["arms"]):
        server, way, *delay = arm.split(" ")
        copied = _value(data, arm, "copied")
        # An arm is compared with reading and writing on the same server, at the same delay.
        against = " ".join([server, "read_write", *delay])
        found = [
            metric
            for comparison in data["comparisons"]
            if (comparison["first"]["name"], comparison["second"]["name"]) == (against, arm)
            for metric in comparison["metrics"]
            if metric["metric"] == "copied"
        ]
        ratio = "1" if arm == against else "not known"
        if found and not found[0]["missing"]:
            ratio = "{ratio:.3g} ({low:.3g} to {high:.3g})".format(**found[0])
        trip = f"+ {delay[0]}" if delay else "as it is"
        told = "not known" if copied is None else f"{copied / 1e6:.3g}"
        lines.append((server, bool(delay), way, f"| {server} | {way} | {trip} | {kind} | {told} | {ratio} |"))
    return [line for *_, line in sorted(lines)]


def tails(kind: str, folder: Path) -> list[str]:
    """A row per arm of examples/copies-tail.toml, each of its cases solved."""
    data = _read(folder)
    lines = []
    for arm in data["arms"]:
        name, cases = arm["name"], [Path(run["case"]) for run in arm["runs"]]
        verdicts = [solve(case) for case in cases]
        named = [
            re.sub(r".*the same part: (the .*?), .*", r"\1", finding.claim)
            for verdict in verdicts
            for finding in verdict.findings[:1]
            if finding.detector == "uncached_tail"
        ]
        masked = sum(verdict.served_from == "ram" for verdict in verdicts)
        told = f"{len(named)} of {len(cases)}" + "".join(f"; {each}" for each in sorted(set(named)))

        def part(metric: str, arm: str = name) -> str:
            value = _value(data, arm, metric)
            return "not known" if value is None else words.percent(value)

        copied = _value(data, name, "copied")
        cells = [
            kind,
            name,
            "not known" if copied is None else f"{copied / 1e6:.3g}",
            part("tail misses"),
            words.percent(median(accuracy(case) for case in cases)),
            part("prefetch coverage"),
            f"{median(seeks_per_mib(case) for case in cases):.2g}",
            told,
            f"{masked} of {len(cases)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def accuracy(path: Path) -> float:
    """Part of what was fetched ahead of the file that was copied, and read later: 0 to 1, 0 where nothing was fetched."""
    with Case(path) as case:
        found = accounts(case)
    return found[0].accuracy if found else 0.0


def seeks_per_mib(path: Path) -> float:
    """Reads of the disk that begin elsewhere than the request before them ended, per MiB that reached the destination."""
    with Case(path) as case:
        row = case.rows(
            """WITH placed AS (SELECT op, offset_bytes, lag(offset_bytes + size_bytes) OVER
    (PARTITION BY device ORDER BY start_ns, op_id) AS before FROM measured WHERE layer = 'block' AND size_bytes > 0)
SELECT count(*) FILTER (op = 'read' AND before <> offset_bytes) AS seeks FROM placed"""
        )[0]
        outcome = (case.meta.get("workload") or {}).get("outcome") or {}
    copied = sum(int(each["copied_bytes"]) for each in outcome.get("passes", []))
    return float(row["seeks"] or 0) / max(1.0, copied / (1 << 20))
