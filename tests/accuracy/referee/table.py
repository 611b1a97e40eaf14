"""docs/reference/accuracy-programs.md, from what is stored: every freeze, every run that was set aside, every excuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.accuracy.referee.faults import FAULTS
from tests.accuracy.referee.intervals import Proportion, wilson, wilson_of_cells
from tests.accuracy.referee.rows import ROWS
from tests.accuracy.referee.seeds import DEVELOPMENT, RUNS, TEST, VALIDATION
from tests.accuracy.referee.store import Line, Store, key

INTRODUCTION = """# Accuracy on real programs

Written by `make accuracy ARGS='programs --freeze COMMIT --set SET'` from `docs/reference/accuracy/programs.jsonl`, to which lines are
only ever added. Each run draws a program, a file system and a fault (or none) with its magnitude, runs the program on a
`whodisk slowdisk` in memory, records it with the frozen recorder, and solves it once with the frozen solver.

- **Sets.** *validation*: 90 fresh runs per freeze. *test*: seeds are SHA-256(commit of the freeze, row, number). A third of all cells
  (program x fault) occur in the test set only. A test set whose verdicts were looked at one by one is development data, and says so.
- **True** is what the program's own log says. A fault counts if the injector's log says that it hit, and an operation that it hit
  stands apart in the program's log (of what was there for more than 30 % of the time: more of those that stand apart than by chance), or windows
  with and without it differ (8 interleaved pairs, Wilcoxon's signed ranks, 5 %). What counts is
  `slow` from 5 % of all latency or 20 % worse p99 or throughput on (within a factor of 1.25 of these limits neither status is wrong), `outliers`
  where an operation stands apart, and else too little to be reported. Of a device that fails requests the program may end, and its log with it: no status is
  wrong then, but the verdict must say that the device had errors.
- **Right**: status right, culprit first, no finding that is wrong. A finding about something that was not injected is excused only if a second tracer (the
  kernel's event tracing, of requests and of the scheduler) or the kernel's account of steal shows it at the same operations; every excuse is listed.
- **Set aside** is a run by what else the machine did (others and the hypervisor had 0.3 CPUs or more on average), written down
  before the run is solved.
- Intervals: Wilson, 95 %; *over cells*: cells of program x fault count as what fails together. How it is done: `tests/accuracy/referee/`.
"""


@dataclass(frozen=True)
class Group:
    """The runs of one set of one freeze."""

    freeze: Line
    of_set: str
    results: list[Line]
    machines: list[Line]
    revealed: bool

    @property
    def truth(self) -> dict[tuple[Any, ...], Line]:
        """Truth of each run that was kept."""
        return {key(line): line.get("truth") or {} for line in self.machines if line["aside"] is None}


def document(store: Store) -> str:
    """The page. Latest freeze first; its latest set is the headline."""
    groups = list(_groups(store))
    lines = [INTRODUCTION]
    if not groups:
        return "\n".join([*lines, "No run was solved yet.", ""])
    head = next((g for g in groups if g.of_set == TEST), groups[0])
    lines += [f"**{_headline(head)}**", ""]
    lines += ["## Every freeze", "", *_freezes(groups)]
    for group in groups:
        lines += ["", *_group(group)]
    lines += _again(store)
    return "\n".join(lines).rstrip() + "\n"


def _groups(store: Store) -> Iterable[Group]:
    for freeze in reversed(list(store.of("freeze"))):
        for of_set in (TEST, VALIDATION, DEVELOPMENT):
            wanted = {"freeze": freeze["freeze"], "set": of_set}
            machines = list(store.of("machine", **wanted))
            if machines:
                shown = of_set != TEST or any(True for _ in store.of("revealed", **wanted))
                yield Group(freeze, of_set, list(store.of("result", **wanted)), machines, shown)


def _headline(group: Group) -> str:
    first, over = _first(group.results, group)
    accused = _accused(group)
    return (
        f"{group.of_set.capitalize()} set of the latest freeze, {group.freeze['freeze']}: the culprit is first in {_said(first)} faulty runs "
        f"(over cells {_range(over)}); {accused.successes} of {accused.trials} runs without a fault have a finding that is wrong."
    )


def _freezes(groups: list[Group]) -> list[str]:
    lines = [
        "Latest first. Hashes of what was frozen (first 8 digits); an empty one is part of the solver. Faulty runs are those whose fault counts and has to be named.",
        "",
        "| freeze | frozen | recorder | join | solver | thresholds | judge | set | runs | recordings set aside | all right | culprit first | over cells | no fault, accused | slowest is the one hit | machine |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in groups:
        f, results = group.freeze, group.results
        first, over = _first(results, group)
        right = wilson(sum(r["right"] for r in results), len(results))
        slowest = [r["slowest_right"] for r in results if r["slowest_right"] is not None]
        hashes = " | ".join(f[part][:8] for part in ("recorder", "join", "solver", "thresholds", "judge"))
        of_set = group.of_set + (
            ", looked into: development data" if group.of_set == TEST and group.revealed else ""
        )
        wanted = RUNS.get(group.of_set)
        machines = sorted({line["machine"] for line in group.machines})
        lines.append(
            f"| {f['commit'][:8]} | {f['utc'][:10]} | {hashes} | {of_set} | {len(results)}{f' of {wanted}' if wanted else ''} | {_aside(group)} "
            f"| {_said(right)} | {_said(first)} | {_range(over)} | {_said(_accused(group))} | {_said(wilson(sum(slowest), len(slowest)))} | {'; '.join(machines)} |"
        )
    return lines


def _group(group: Group) -> list[str]:
    days = sorted({line["utc"][:10] for line in group.machines})
    lines = [
        f"## Freeze {group.freeze['freeze']}, {group.of_set} set",
        "",
        f"Runs of {days[0]}{' to ' + days[-1] if len(days) > 1 else ''}.",
        "",
    ]
    lines += ["| fault | " + " | ".join(_programs()) + " |", "|---" * (1 + len(_programs())) + "|"]
    for fault in ("none", *(fault.name for fault in FAULTS)):
        cells = [_cell(group, f"{program}/{fault}") for program in _programs()]
        lines.append(f"| {fault} | {' | '.join(cells)} |")
    lines += [
        "",
        "Right of runs; in brackets those whose fault did too little to be reported, or did not count.",
        "",
    ]
    for name, place in (("file system", 1), ("fault", 2)):
        lines += [f"| {name} | all right | culprit first |", "|---|---|---|"]
        for value in dict.fromkeys(_parts(line)[place] for line in (*_all_rows(), *group.results)):
            part = [r for r in group.results if _parts(r)[place] == value]
            if part:
                first, _ = _first(part, group)
                lines.append(
                    f"| {value} | {_said(wilson(sum(r['right'] for r in part), len(part)))} | {_said(first)} |"
                )
        lines.append("")
    why = Counter(_why(truth) for truth in group.truth.values() if truth.get("hits") is not None)
    lines += ["Faults: " + "; ".join(f"{count} {text}" for text, count in why.most_common()) + ".", ""]
    excused = [f"- {_name(r)}: {text}" for r in group.results for text in r["excuses"]]
    lines += ["### Excuses", "", *(excused or ["None."]), ""]
    aside = [f"- {_name(line)}, {line['utc']}: {line['aside']}" for line in group.machines if line["aside"]]
    lines += ["### Set aside, before it was solved", "", *(aside or ["None."]), "", "### Wrong verdicts", ""]
    if not group.revealed:
        return [*lines, "Not shown: whoever builds on them makes this set development data (`--reveal`)."]
    wrong = [
        f"- {_name(r)} {_magnitudes(group, r)}: {_mistake(group, r)}" for r in group.results if not r["right"]
    ]
    return [*lines, *(wrong or ["None."])]


def _again(store: Store) -> list[str]:
    lines = list(store.of("again"))
    if not lines:
        return []
    out = [
        "",
        "## Solved again",
        "",
        "Later solvers on runs that were judged before. Those who built them may have looked at these runs: no row of this table is a result.",
        "",
        "| recorded by | set | solved again by | judge | right at first | right now |",
        "|---|---|---|---|---|---|",
    ]
    for place in dict.fromkeys(
        (line["freeze"], line["set"], line["solver"], line["judge"]) for line in lines
    ):
        group = [
            line for line in lines if (line["freeze"], line["set"], line["solver"], line["judge"]) == place
        ]
        first = {key(r): r["right"] for r in store.of("result", freeze=place[0], set=place[1])}
        before = wilson(sum(first[key(line)] for line in group), len(group))
        now = wilson(sum(line["right"] for line in group), len(group))
        out.append(
            f"| {place[0]} | {place[1]} | {place[2][:8]} | {place[3][:8]} | {_said(before)} | {_said(now)} |"
        )
    return out


def _first(results: list[Line], group: Group) -> tuple[Proportion, Proportion]:
    """Culprit first, of the runs that must name one: over runs and over cells."""
    cells: dict[str, list[int]] = {}
    for result in results:
        if group.truth.get(key(result), {}).get("must_name") or _failed_fault(result):
            cell = cells.setdefault(_cell_name(result), [0, 0])
            cell[0] += bool(result["first_right"])
            cell[1] += 1
    counts = [(s, n) for s, n in cells.values()]
    return wilson(sum(s for s, _ in counts), sum(n for _, n in counts)), wilson_of_cells(counts)


def _failed_fault(result: Line) -> bool:
    """A faulty run that the recorder or the solver failed on: nobody was named."""
    return str(result["said"]).startswith("failed:") and _parts(result)[2] != "none"


def _accused(group: Group) -> Proportion:
    healthy = [r for r in group.results if _parts(r)[2] == "none"]
    return wilson(sum(bool(r["wrong"]) for r in healthy), len(healthy))


def _aside(group: Group) -> str:
    aside = [line for line in group.machines if line["aside"]]
    left = {key(line) for line in aside} - {key(line) for line in group.machines if not line["aside"]}
    return f"{len(aside)} of {len(group.machines)}" + (f", {len(left)} runs not made again" if left else "")


def _cell(group: Group, name: str) -> str:
    part = [r for r in group.results if _cell_name(r) == name]
    if not part:
        return "-"
    small = sum(_parts(r)[2] != "none" and not group.truth.get(key(r), {}).get("must_name") for r in part)
    return f"{sum(r['right'] for r in part)} of {len(part)}" + (f" ({small})" if small else "")


def _mistake(group: Group, result: Line) -> str:
    truth = group.truth.get(key(result), {})
    parts = []
    if not result["status_right"]:
        parts.append(f"status should be {' or '.join(truth.get('statuses', []))} ({truth.get('why')})")
    if result["first_right"] is False:
        parts.append("culprit not first")
    if result["wrong"]:
        parts.append(f"wrong: {', '.join(result['wrong'])}")
    return f"{'; '.join(parts)}. It said: {result['said']}"


def _why(truth: Line) -> str:
    if not truth.get("counts"):
        return "do not count (" + ("it hit nothing" if not truth.get("hits") else "no visible effect") + ")"
    return "count and must be named" if truth["must_name"] else "count and do too little to be reported"


def _magnitudes(group: Group, result: Line) -> str:
    line = next(line for line in group.machines if key(line) == key(result) and not line["aside"])
    return (
        "(" + ", ".join(f"{name} {value:g}" for name, value in line["magnitudes"].items()) + ")"
        if line["magnitudes"]
        else ""
    )


def _name(line: Line) -> str:
    return f"{line['row']} run {line['number']}"


def _parts(line: Line) -> list[str]:
    return str(line["row"]).split("/")


def _cell_name(line: Line) -> str:
    return f"{_parts(line)[0]}/{_parts(line)[2]}"


def _programs() -> list[str]:
    return list(dict.fromkeys(row.program.name for row in ROWS.values()))


def _all_rows() -> list[Line]:
    return [{"row": name} for name in ROWS]


def _said(p: Proportion) -> str:
    return f"{p.successes} of {p.trials} ({_range(p)})" if p.trials else "-"


def _range(p: Proportion) -> str:
    return f"{100 * p.low:.0f} to {100 * p.high:.0f} %" if p.trials else "-"
