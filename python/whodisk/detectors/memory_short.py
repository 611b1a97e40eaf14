"""Threads that free memory themselves before they get any, and wait for pages that were swapped out: there is less memory than the program uses.

A program that only reads or writes much frees pages that nobody needs again, which is cheap; what was swapped out was needed.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import of_time_lost
from whodisk.detectors.thresholds import (
    RECLAIM_ALONE_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
    SWAPPED_IN_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.time_lost import (
    NONE_HELD,
    Rows,
    TimeLost,
    held_rows,
    lost_in_rows,
    lost_meanwhile,
    submitters,
)
from whodisk.findings import Culprit
from whodisk.machine.disks import swap_disks
from whodisk.reading.views import quoted

#: What `waits.cause` says of a thread that has to free memory, or to move pages for a large piece, before it gets any.
RECLAIM = ("direct reclaim", "direct compaction")


def run(context: Context) -> Result:
    """One candidate for all submitting threads; what is little, or was only freed, is reported."""
    result = Result()
    tids = submitters(context)
    if not tids:
        return result
    disks = swap_disks(context) if "block" in context.surveys else []
    freed = held_rows(context, _freeing_sql(tids))
    swapped = held_rows(context, _swapped_sql(tids, disks)) if disks else NONE_HELD
    held = lost_in_rows(context, tids, freed, swapped)
    if held is None or held.share < SHARE_OF_LATENCY_FLOOR:
        return result
    of_swap = lost_in_rows(context, tids, swapped)
    is_short = of_swap is not None and of_swap.share >= SWAPPED_IN_MIN
    said = _said(held, freed, swapped, disks)
    if is_short and held.share >= SHARE_OF_LATENCY_MIN:
        result.candidates.append(_candidate(context, tids, held, said, (freed, swapped)))
    elif held.share >= RECLAIM_ALONE_MIN:
        result.besides = f"memory: {said[0].lower()}{said[1:]}"
        result.limited = True
    else:
        result.observed.append(f"{said}.")
    return result


def _freeing_sql(tids: list[int]) -> str:
    return f"""SELECT tid, start_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE cause IN ({", ".join(map(quoted, RECLAIM))}) AND tid IN ({", ".join(map(str, tids))})"""


def _swapped_sql(tids: list[int], disks: list[str]) -> str:
    return f"""SELECT tid, start_ns, start_ns + latency_ns AS end_ns FROM block_ops
WHERE op = 'read' AND device IN ({", ".join(map(quoted, disks))}) AND tid IN ({", ".join(map(str, tids))}) AND NOT open"""


def _said(held: TimeLost, freed: Rows, swapped: Rows, disks: list[str]) -> str:
    ways = []
    for (_, begin, end), doing in (
        (freed, "freeing memory before they got any"),
        (swapped, "reading pages that had been swapped out"),
    ):
        if len(begin):
            ways.append(
                f"{doing} ({words.things(len(begin), 'time')}, typically {words.duration(float(np.median(end - begin)))})"
            )
    devices = f" from {words.listed(disks)}" if len(swapped[0]) else ""
    return (
        f"Submitting threads spent {words.percent(held.share)} of their time on {words.listed(ways)}{devices}"
    )


def _candidate(
    context: Context, tids: list[int], held: TimeLost, said: str, of: tuple[Rows, Rows]
) -> Candidate:
    return of_time_lost(
        held,
        culprit=Culprit("config", f"memory of {_program(context, tids)}", None),
        claim=f"Memory is short: {said[0].lower()}{said[1:]}.",
        baseline="the same threads without that time",
        metric="part of the threads' time",
        evidence=[evidence(context.case, "who freed memory itself", _by_thread_sql(tids))],
        refute="Repeat with twice the memory (memory.max of its group, or fewer programs beside it): if it takes as long, memory is not short.",
        remedy="Give it more memory (memory.max and memory.high of its control group, memory of the machine), or let it use less; /proc/pressure/memory and memory.events say whether that helped.",
        explains=lost_meanwhile(context, *(np.concatenate(parts) for parts in zip(*of, strict=True))),
        causes=(("stage", "fs"), ("stage", "app"), ("stage", "reap")),
    )


def _program(context: Context, tids: list[int]) -> str:
    rows = context.case.rows(
        f"SELECT coalesce(comm, '') AS comm FROM measured WHERE layer = '{context.layer}' AND tid IN ({', '.join(map(str, tids))}) GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
    )
    return str(rows[0]["comm"]) if rows else ""


def _by_thread_sql(tids: list[int]) -> str:
    return f"""SELECT tid, comm, cause, count(*) AS times, CAST(sum(duration_ns) AS BIGINT) AS duration_ns FROM waits
WHERE cause IN ({", ".join(map(quoted, RECLAIM))}) AND tid IN ({", ".join(map(str, tids))}) GROUP BY 1, 2, 3 ORDER BY 5 DESC, 1 LIMIT 10"""


DETECTOR = Detector(
    name="memory_short",
    needs=("judged.start_ns", "waits.cause"),
    needs_stages=(),
    null_model="none: when threads freed memory, and what they read from swap space, stands in the record",
    smallest_effect="5 % of the submitting threads' time in both, with 1 % in reads from swap space",
    run=run,
)
