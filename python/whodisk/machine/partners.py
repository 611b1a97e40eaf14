"""Programs that the judged one works with: they let its threads go on again and again, as a client does with a server, or a server with its client.

The CPU time that such a one takes is a part of the work that both do, and not what a stranger takes away. Where a whole machine was recorded, so is that of each program
that makes a good part of its operations.
"""

from __future__ import annotations

from collections import defaultdict

from whodisk.evidence.context import Context
from whodisk.evidence.thresholds import PARTNER_OPERATIONS_MIN, PARTNER_WAKES_MIN, PARTNER_WAKES_PART_MIN
from whodisk.machine.kernel_threads import is_kernel_thread


def partners_of(context: Context) -> dict[int, str]:
    """Process -> its name; empty where it is not known who ended sleeps."""
    return _awake(context) | _at_work(context)


def _awake(context: Context) -> dict[int, str]:
    """Those that ended a good part of the sleeps of the judged threads that a program ended."""
    pids = context.own_programs[1]
    if not pids or "waker_pid" not in context.case.columns.get("waits", frozenset()):
        return {}
    own = ", ".join(map(str, pids))
    rows = context.case.rows(
        f"""SELECT waker_pid AS pid, arg_max(waker, start_ns) AS waker, count(*) AS wakes, count(*) FILTER (waker_pid <> pid AND waker <> comm) AS others FROM waits
WHERE state = 'blocked' AND waker_pid > 0 AND pid IN ({own}) GROUP BY 1 ORDER BY 3 DESC, 1"""
    )
    woken = [row for row in rows if not is_kernel_thread(context.case, str(row["waker"]))]
    every = sum(int(row["wakes"] or 0) for row in woken)
    # Several processes of one name are one client.
    wakes: dict[str, int] = defaultdict(int)
    for row in woken:
        wakes[str(row["waker"])] += int(row["others"] or 0)
    least = max(PARTNER_WAKES_MIN, PARTNER_WAKES_PART_MIN * every)
    return {int(row["pid"] or 0): str(row["waker"]) for row in woken if wakes[str(row["waker"])] >= least}


def _at_work(context: Context) -> dict[int, str]:
    """In a recording of a whole machine, the processes of programs with a good part of the time of all operations."""
    if context.case.is_of_a_part:
        return {}
    rows = context.case.rows(
        f"""SELECT pid, mode(comm) AS comm, sum(latency_ns) AS busy_ns FROM measured WHERE layer = '{context.layer}' AND pid > 0 AND comm IS NOT NULL GROUP BY 1 ORDER BY 1"""
    )
    busy: dict[str, float] = defaultdict(float)
    for row in rows:
        busy[str(row["comm"])] += float(row["busy_ns"] or 0)
    least = PARTNER_OPERATIONS_MIN * sum(busy.values())
    return {int(row["pid"] or 0): str(row["comm"]) for row in rows if busy[str(row["comm"])] >= least}
