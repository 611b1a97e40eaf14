"""What a process is called that had the CPU: a program, however many it was started through.

The recorder notes the name that a process had while it had the CPU. One that executes one program after the other (`timeout taskset chrt md5sum`) has several,
the last of which is its own. A helper thread that outlives the others by a moment has a name of its own, too: the program is the one that the process kept the CPU under.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from whodisk.evidence.thresholds import ORDINARY_WAIT_NS
from whodisk.reading.views import TABLES, Case, quoted


def name_holders(case: Case) -> None:
    """Lets the view `waits` call whoever had a CPU by the last program that its process executed, as far as that is known."""
    if not {"cause", "cause_pid"} <= case.columns.get("waits", frozenset()):
        return
    programs = _programs(case)
    if not programs:
        return
    values = ", ".join(f"({pid}, {quoted(name)})" for pid, name in sorted(programs.items()))
    cause = "CASE WHEN state = 'runnable' THEN coalesce(program, cause) ELSE cause END AS cause"
    columns = ", ".join(cause if column == "cause" else column for column in TABLES["waits"])
    case.views["waits"] = (
        f"SELECT {columns}\nFROM ({case.views['waits']}) AS recorded LEFT JOIN (VALUES {values}) AS holders(holder, program) ON cause_pid = holder"
    )


def _programs(case: Case) -> dict[int, str]:
    """Process -> its program, of those that had several names one after the other, and were mostly seen under the last."""
    # Threads of one process have names of their own.
    threads = {int(pid) for of in ("processes", "recorder", "servers") for pid in (case.system.get(of) or {})}
    #: Of each process its names, with the first and last moment at which somebody got the CPU that it had kept, and how long others waited for it.
    lives: dict[int, list[tuple[str, int, int, int]]] = defaultdict(list)
    for row in case.rows(_names_sql()):
        if (pid := int(row["cause_pid"] or 0)) not in threads:
            first, last, waited = (int(row[name] or 0) for name in ("first_ns", "last_ns", "waited_ns"))
            lives[pid].append((str(row["cause"]), first, last, waited))
    return {
        pid: names[-1][0]
        for pid, names in lives.items()
        if len(names) > 1
        and all(one[2] <= following[1] for one, following in pairwise(names))
        and 2 * names[-1][3] >= sum(waited for *_, waited in names)
    }


def _names_sql() -> str:
    """Processes that kept others from a CPU for as long as another thread's turn, by their names."""
    return f"""SELECT *, sum(waited_ns) OVER (PARTITION BY cause_pid) AS in_all_ns FROM (
  SELECT cause_pid, cause, sum(duration_ns) AS waited_ns, min(start_ns + duration_ns) AS first_ns, max(start_ns + duration_ns) AS last_ns
  FROM waits WHERE state = 'runnable' AND cause_pid > 0 AND cause IS NOT NULL GROUP BY 1, 2) AS named
QUALIFY in_all_ns >= {ORDINARY_WAIT_NS} ORDER BY cause_pid, first_ns, cause"""
