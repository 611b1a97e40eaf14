"""What a process is called that had the CPU: a program, however many it was started through.

The recorder notes the name that a process had when it took the CPU. A process that executes one program after the other (`timeout taskset chrt md5sum`) has
several, the last of which is its own; and one that keeps the CPU from its start on is known by the name of what started it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from whodisk import words
from whodisk.evidence.thresholds import ORDINARY_WAIT_NS
from whodisk.reading.views import TABLES, Case, Row, quoted


@dataclass(frozen=True)
class _Named:
    """A process while it had one name."""

    name: str
    #: First and last moment at which somebody got the CPU that it had kept.
    first_ns: int
    last_ns: int
    #: It kept a CPU for longer than another thread's turn, and only once, as far as is known: nobody else had that CPU in between.
    long: bool
    once: bool


def name_holders(case: Case) -> None:
    """Lets the view `waits` call whoever had a CPU by the last program that its process executed, as far as that is known."""
    if not {"cause", "cause_pid"} <= case.columns.get("waits", frozenset()):
        return
    programs, called = _programs(case)
    if not programs:
        return
    case.called = called
    values = ", ".join(f"({pid}, {quoted(name)})" for pid, name in sorted(programs.items()))
    cause = "CASE WHEN state = 'runnable' THEN coalesce(program, cause) ELSE cause END AS cause"
    columns = ", ".join(cause if column == "cause" else column for column in TABLES["waits"])
    case.views["waits"] = (
        f"SELECT {columns}\nFROM ({case.views['waits']}) AS recorded LEFT JOIN (VALUES {values}) AS holders(holder, program) ON cause_pid = holder"
    )


def said_of(case: Case, name: str) -> str:
    """A program in a sentence, with what its processes were called that were not seen to execute it."""
    called = case.called.get(name, ())
    return f"{name} (started as {words.listed(list(called))})" if called else name


def _programs(case: Case) -> tuple[dict[int, str], dict[str, tuple[str, ...]]]:
    """Process -> its program, where that is another than it was called; and program -> what some of its processes were called that were not seen to execute it."""
    # Threads of one process have names of their own.
    threads = {int(pid) for of in ("processes", "recorder", "servers") for pid in (case.system.get(of) or {})}
    rows = [row for row in case.rows(_names_sql()) if int(row["cause_pid"] or 0) not in threads]
    again = _again(case, rows)
    found: dict[int, list[_Named]] = defaultdict(list)
    for row in rows:
        pid, name, long = int(row["cause_pid"] or 0), str(row["cause"]), row["long_begin_ns"] is not None
        once = long and (pid, name) not in again
        found[pid].append(
            _Named(name, int(row["first_ns"] or 0), int(row["last_ns"] or 0), long=long, once=once)
        )
    lives = {pid: names for pid, names in found.items() if _one_after_the_other(names)}
    programs = {pid: names[-1].name for pid, names in lives.items()}
    onward = _onward(lives)
    called: dict[str, set[str]] = defaultdict(set)
    for pid, names in lives.items():
        last = names[-1]
        if last.once and last.name in onward:
            programs[pid] = onward[last.name]
            called[onward[last.name]].add(last.name)
    changed = {pid: name for pid, name in programs.items() if {of.name for of in lives[pid]} != {name}}
    return changed, {name: tuple(sorted(names)) for name, names in called.items()}


def _names_sql() -> str:
    """Processes that kept others from a CPU for as long as another thread's turn, by their names."""
    return f"""SELECT *, sum(waited_ns) OVER (PARTITION BY cause_pid) AS in_all_ns FROM (
  SELECT cause_pid, cause, sum(duration_ns) AS waited_ns, min(start_ns + duration_ns) AS first_ns, max(start_ns + duration_ns) AS last_ns,
    max(start_ns) FILTER (is_long) AS long_begin_ns, min(start_ns + duration_ns) FILTER (is_long) AS long_end_ns,
    arg_max(cpu, start_ns) FILTER (is_long) AS last_cpu
  FROM (SELECT *, duration_ns >= {ORDINARY_WAIT_NS} AS is_long FROM waits WHERE state = 'runnable' AND cause_pid > 0 AND cause IS NOT NULL) AS held GROUP BY 1, 2) AS named
QUALIFY in_all_ns >= {ORDINARY_WAIT_NS} ORDER BY cause_pid, first_ns, cause"""


def _again(case: Case, rows: list[Row]) -> set[tuple[int, str]]:
    """Processes that kept a CPU for long under a name and did so again, after another one had had it."""
    values = [
        f"({row['cause_pid']}, {quoted(str(row['cause']))}, {row['last_cpu']}, {row['long_end_ns']}, {row['long_begin_ns']})"
        for row in rows
        if row["last_cpu"] is not None and int(row["long_begin_ns"] or 0) > int(row["long_end_ns"] or 0)
    ]
    if not values:
        return set()
    between = case.rows(
        f"""SELECT DISTINCT holder, name FROM (VALUES {", ".join(values)}) AS turns(holder, name, its_cpu, from_ns, until_ns) JOIN waits
ON cpu = its_cpu AND start_ns >= from_ns AND start_ns + duration_ns <= until_ns AND state = 'runnable' AND cause_pid <> holder"""
    )
    return {(int(row["holder"] or 0), str(row["name"])) for row in between}


def _one_after_the_other(names: list[_Named]) -> bool:
    """Whether a process had each name before the next, as one that executes programs has; threads have theirs at the same time."""
    return all(one.last_ns <= next_one.first_ns for one, next_one in pairwise(names))


def _onward(lives: dict[int, list[_Named]]) -> dict[str, str]:
    """Name -> the program that processes of that name executed, if all that then kept a CPU for longer than another thread's turn executed the same.

    A process that kept a CPU as long and more than once under that name is what it is called, and so are the others then.
    """
    into: dict[str, set[str]] = defaultdict(set)
    for names in lives.values():
        last = names[-1]
        if not last.long:
            continue
        if not last.once:
            into[last.name].add(last.name)
        for earlier in names[:-1]:
            into[earlier.name].add(last.name)

    def ends(name: str, seen: frozenset[str]) -> set[str]:
        if name not in into or name in seen:
            return {name}
        return {end for one in into[name] for end in ends(one, seen | {name})}

    reached = {name: ends(name, frozenset()) for name in into}
    return {name: next(iter(to)) for name, to in reached.items() if len(to) == 1 and to != {name}}
