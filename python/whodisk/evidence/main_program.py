"""The program whose limit is looked for: processes of one name, with all their threads.

A thread may be called as it likes (`pool-1-thread-4`), and has one call at a time by nature: what it keeps in flight says nothing of its program.
A process is called as its first thread was while most of its calls were made: a shell that becomes another program made few of them under its own name.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from whodisk.evidence.context import Context
from whodisk.evidence.thresholds import COMMAND_SHARE
from whodisk.reading.views import Row, quoted
from whodisk.types import Cell


@dataclass(frozen=True)
class Program:
    """Processes of one name, and the device that they use most (empty: none)."""

    name: str
    device: str
    #: Empty: the recording has no processes; then who bears the name belongs to it.
    pids: tuple[int, ...] = ()

    @property
    def sql(self) -> str:
        """SQL, of an operation or a wait: it is the program's."""
        named = f"comm = {quoted(self.name)}"
        if not self.pids:
            return named
        # A shell that becomes another program keeps its number: its first thread has another name until then.
        its = f"pid IN ({', '.join(map(str, self.pids))}) AND (coalesce(tid <> pid, TRUE) OR {named})"
        return f"(({its}) OR (coalesce(pid, 0) <= 0 AND {named}))"


def main_program(context: Context) -> Program | None:
    """The recorded command if it did much itself, else the program with the most time in operations of the judged layer."""
    rows = context.case.rows(
        f"""SELECT coalesce(pid, 0) AS pid, comm, coalesce(device, '') AS device, sum(latency_ns) AS busy_ns
FROM measured WHERE layer = '{context.layer}' AND comm IS NOT NULL GROUP BY 1, 2, 3"""
    )
    names = _names(context, rows)
    busy: dict[tuple[str, str], int] = defaultdict(int)
    pids: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        pid = _int(row["pid"])
        name = names[pid] if pid > 0 else str(row["comm"])
        busy[name, str(row["device"])] += _int(row["busy_ns"])
        if pid > 0:
            pids[name].add(pid)
    chosen = sorted(busy, key=lambda of: (-busy[of], of))
    least = COMMAND_SHARE * sum(busy.values())
    command = _int(context.case.meta.get("command_pid"))
    own = [
        of for of in chosen if (command in pids[of[0]] or of[0] == _command(context)) and busy[of] >= least
    ]
    for name, device in own or chosen:
        return Program(name, device, tuple(sorted(pids[name])))
    return None


def _command(context: Context) -> str:
    command = context.case.meta.get("command") or [""]
    # The kernel keeps 15 characters of a command name.
    return str(command[0]).rsplit("/", 1)[-1][:15]


def _names(context: Context, rows: list[Row]) -> dict[int, str]:
    """Process -> what its first thread was called while most of its calls were made; where that is not in the recording, the command, or its number."""
    threads: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        pid = _int(row["pid"])
        if pid > 0:
            threads[pid][str(row["comm"])] += _int(row["busy_ns"])
    first = _borne(context, sorted(threads))
    command = _int(context.case.meta.get("command_pid"))
    if command in threads and command not in first and (name := _command(context)):
        first[command] = {name: 1}
    return {pid: _name(pid, first.get(pid), its) for pid, its in threads.items()}


def _borne(context: Context, pids: list[int]) -> dict[int, dict[str, int]]:
    """Process -> the names of its first thread, and how much time calls of all its threads took from the first record of each name to the end of the last, ns."""
    found: dict[int, dict[str, int]] = defaultdict(dict)
    if not pids:
        return found
    its = f"tid = pid AND comm IS NOT NULL AND pid IN ({', '.join(map(str, pids))})"
    seen = f"SELECT pid, comm, start_ns, start_ns + latency_ns AS end_ns FROM measured WHERE layer = '{context.layer}' AND {its}"
    if "waits" in context.case.columns:
        seen += f" UNION ALL SELECT pid, comm, start_ns, start_ns + duration_ns FROM waits WHERE {its}"
    borne = f"SELECT pid, comm, min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM ({seen}) AS seen GROUP BY 1, 2"
    for row in context.case.rows(
        f"""WITH borne AS ({borne}), several AS (SELECT * FROM borne QUALIFY count(*) OVER (PARTITION BY pid) > 1)
SELECT pid, comm, 1 AS busy_ns FROM borne WHERE pid NOT IN (SELECT pid FROM several) UNION ALL
SELECT s.pid, s.comm, coalesce(sum(m.latency_ns), 0) FROM several AS s LEFT JOIN (SELECT pid, start_ns, latency_ns FROM measured WHERE layer = '{context.layer}') AS m
  ON m.pid = s.pid AND m.start_ns BETWEEN s.first_ns AND s.last_ns GROUP BY 1, 2"""
    ):
        found[_int(row["pid"])][str(row["comm"])] = _int(row["busy_ns"])
    return found


def _name(pid: int, first: dict[str, int] | None, threads: dict[str, int]) -> str:
    of = first or threads
    name = max(sorted(of), key=lambda each: of[each])
    return name if first or len(threads) == 1 else f"process {pid} ({name} and others)"


def _int(value: Cell) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
