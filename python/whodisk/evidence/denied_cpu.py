"""How much of the CPU time that a program asked for another one had.

A program of many processes that keeps the CPUs busy loses it everywhere: in calls, between them, and in the threads that serve it; each of these is little.
"""

from __future__ import annotations

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.own_threads import own_sql
from whodisk.evidence.running import running_of
from whodisk.evidence.thresholds import CPU_ASKED_MIN, CPU_ASKED_WITH_OTHERS_MIN, LOSS_BLOCKS
from whodisk.evidence.time_lost import TimeLost, in_blocks, weigh
from whodisk.statistics.stats import overlap


def denied_cpu(context: Context, rival_sql: str, *, with_others: bool = False) -> TimeLost | None:
    """The part of the CPU time that the judged program got, or was ready to use while a rival (`rival_sql`: a condition on rows of `waits`: it had the CPU) had it, which
    the rival had; None where that is nothing, or the program asked for less than half of the CPUs meanwhile (`with_others`, whose part is not known: for less than that): then it waits for something else.

    Threads that wait for one CPU at the same time are denied it once.
    """
    survey = context.survey
    pids = context.own_programs[1]
    if not pids:
        return None
    mine = f"pid IN ({', '.join(map(str, pids))})"
    waits = context.case.arrays(
        f"""SELECT cpu, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE state = 'runnable' AND cpu IS NOT NULL AND {mine} AND {rival_sql} AND NOT {own_sql(context.case, context.layer)} ORDER BY cpu, start_ns"""
    )
    cpu = waits["cpu"].astype(np.int64)
    begin, end = (waits[name].astype(np.float64) for name in ("begin_ns", "end_ns"))
    edges = np.linspace(survey.begin_ns, survey.end_ns, LOSS_BLOCKS + 1)
    denied = np.zeros(LOSS_BLOCKS)
    for number in np.unique(cpu):
        denied += overlap(edges[:-1], edges[1:], begin[cpu == number], end[cpu == number])
    running = running_of(context, mine, float(edges[0]), float(edges[-1]))
    known = ~running.unknown
    got = in_blocks(context, running.begin_ns[known], running.end_ns[known])
    there = denied > 0
    cpus = float(context.case.system.get("cpus") or 0)
    asked = float((denied + got)[there].sum())
    least = CPU_ASKED_WITH_OTHERS_MIN if with_others else CPU_ASKED_MIN
    if asked < least * cpus * float(np.diff(edges)[there].sum()) or cpus <= 0:
        return None
    return weigh(denied, denied + got, len(cpu), end - begin, survey.span_ns)
