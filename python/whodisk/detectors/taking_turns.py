"""Threads of one program that wait for each other in their calls: for a lock on a file, a folder, a journal. More of them do not make it faster."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.thresholds import TURNS_AT_ONCE_MAX, TURNS_SLEPT_MIN
from whodisk.evidence.context import Context
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Ints, overlap

#: Causes of sleeps that another thread ends, whoever that is (case-format, waits).
LOCKS = ("mutex", "read lock", "write lock", "rt mutex", "per-CPU read lock")
#: The experiment.
FILES_OF_THEIR_OWN = (
    "Give each thread files of its own, or run the same with one thread: if throughput grows with the first, or falls by much with the second, "
    "the threads do not wait for each other."
)


@dataclass(frozen=True)
class Turns:
    """What calls of several threads slept in until another thread let them go on."""

    #: Part of the calls' time.
    share: float
    #: What most of it was in, where the recorder looked.
    cause: str

    def said(self, device: str, at_once: float) -> str:
        """Continues a sentence on its threads."""
        where = f", mostly {words.asleep(self.cause)}" if self.cause else ""
        return (
            f"of these calls {words.significant(at_once, 2)} at a time are at {device}: for {words.percent(self.share)} of their time their threads sleep until another one "
            f"lets them go on{where}; "
        )


def taking_turns(
    context: Context, calls: tuple[Ints, Ints, Ints], in_flight: float, at_once: float
) -> Turns | None:
    """Of these calls (their threads, begins and ends, ns), `in_flight` on average: whether they mostly sleep for locks, or until a thread of their process lets them go
    on, while their device has `at_once` requests in flight; None where that is not so, or was not recorded."""
    if not 0 < at_once <= TURNS_AT_ONCE_MAX * in_flight or "waits" not in context.case.columns:
        return None
    tid, begin, end = calls
    let_go = " OR waker_pid = pid" if "waker_pid" in context.case.columns["waits"] else ""
    rows = context.case.arrays(
        f"""SELECT tid, coalesce(cause, '') AS cause, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE state = 'blocked' AND (cause IN ({", ".join(map(quoted, LOCKS))}){let_go}) AND tid IN ({", ".join(map(str, np.unique(tid).tolist()))})
  AND start_ns < {int(end.max())} AND start_ns + duration_ns > {int(begin.min())} ORDER BY start_ns, tid"""
    )
    slept: dict[str, float] = defaultdict(float)
    causes = rows["cause"].astype(str)
    low, high = (rows[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    for thread in np.unique(rows["tid"]).tolist():
        its, mine = rows["tid"] == thread, tid == thread
        inside = overlap(low[its], high[its], begin[mine], end[mine])
        for cause in np.unique(causes[its]).tolist():
            slept[cause] += float(inside[causes[its] == cause].sum())
    share = sum(slept.values()) / max(1.0, float((end - begin).sum()))
    if share < TURNS_SLEPT_MIN:
        return None
    known = {cause: ns for cause, ns in slept.items() if cause}
    return Turns(min(1.0, share), max(sorted(known), key=lambda cause: known[cause], default=""))
