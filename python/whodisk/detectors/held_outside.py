"""Threads that another program holds while none of their calls is an operation: with a lock on a file, or because it froze their file system.

Who asks for a lock (fcntl, flock), or writes to a page of a mapped file, makes no call that is recorded; its sleep is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whodisk import words
from whodisk.detectors.base import Detector, Result, evidence
from whodisk.detectors.candidates import of_time_lost
from whodisk.detectors.thresholds import SHARE_OF_LATENCY_FLOOR, SHARE_OF_LATENCY_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.outside_calls import lost_outside, sleeps_outside, sleeps_outside_sql
from whodisk.evidence.slow_operations import none_of
from whodisk.findings import Culprit
from whodisk.machine.wakers import holders_of
from whodisk.statistics.stats import Ints

#: By what threads slept in: what its holder does to them, what they wait for, and what to do about it.
HELD_BY = (
    (
        words.AS_WHEN_LOCKED,
        "holds the lock on a file",
        "for a lock on a file",
        "Let {who} hold that lock for a shorter time, or at another one (/proc/locks lists who holds and who waits).",
    ),
    (
        words.AS_WHEN_FROZEN,
        "keeps writers out of files that they have mapped, as when a file system is frozen",
        "to write to files that they have mapped",
        "Look who starts {who}: fsfreeze, a snapshot (LVM, a hypervisor's agent in this guest), a backup.",
    ),
)


def run(context: Context) -> Result:
    """A candidate for each way in which another program held the judged one's threads."""
    result = Result()
    if context.layer in ("syscall", "app"):
        for causes, does, waiting, remedy in HELD_BY:
            _held(context, causes, (does, waiting, remedy), result)
    return result


def _held(context: Context, causes: tuple[str, ...], said: tuple[str, str, str], result: Result) -> None:
    """`said`: what `HELD_BY` says of these causes."""
    does, waiting, remedy = said
    rows = sleeps_outside(context, causes)
    tid, begin, end = rows
    tids = [int(thread) for thread in np.unique(tid)]
    if not tids or float((end - begin).sum()) < SHARE_OF_LATENCY_FLOOR * context.survey.span_ns:
        return
    own = set(context.own_programs[1])
    holders = holders_of(context, *rows)
    holder = next((one for one in holders if not own & set(one.pids)), None)
    held = lost_outside(context, rows)
    if held is None:
        return
    for one in holders:
        if own & set(one.pids) and one.share * held.share >= SHARE_OF_LATENCY_MIN:
            # What its own threads do to each other is no fault, and what it costs is told.
            result.observed.append(
                f"{_named(context, tid)} waited {words.duration(one.share * float((end - begin).sum()))} {waiting}, in no call that is recorded, until let go on, directly or behind others, by "
                f"{one.said(tuple(sorted(own)))}: {words.percent(one.share * held.share)} of the time of {words.things(len(tids), 'thread')}."
            )
    if holder is None:
        return
    # Of the rest threads of the program itself were the reason, or nobody that was seen.
    part = min(1.0, holder.share)
    held = replace(held, share=held.share * part, low=held.low * part, high=held.high * part)
    who = f"{holder.name} ({words.processes(holder.pids)})"
    names = _named(context, tid)
    waited_ns = part * float((end - begin).sum())
    threads = "its thread" if len(tids) == 1 else f"{words.count(len(tids))} threads"
    claim = (
        f"{who} {does}. {names} waited {words.duration(waited_ns)} for it, directly or behind others, in no call that is recorded: "
        f"{words.percent(held.share)} of the time of {threads}."
    )
    found = of_time_lost(
        held,
        culprit=Culprit("process", holder.name, "holds others"),
        claim=claim,
        baseline="the rest of the time of these threads",
        metric="part of the threads' time",
        evidence=[evidence(context.case, "sleeps for it, and who ended them", _slept_sql(context, causes))],
        refute=holder.refute,
        remedy=remedy.format(who=holder.name),
        explains=none_of(context.slow),
        causes=(("process", "silence of the submitter, state blocked"),),
    )
    result.candidates.append(found)


def _named(context: Context, tid: Ints) -> str:
    """What threads are called; those that became another program, as that one."""
    listed = ", ".join(map(str, np.unique(tid)))
    rows = context.case.rows(
        f"SELECT arg_max(comm, start_ns) AS comm FROM waits WHERE tid IN ({listed}) AND comm IS NOT NULL GROUP BY tid"
    )
    return words.listed(sorted({str(row["comm"]) for row in rows}))


def _slept_sql(context: Context, causes: tuple[str, ...]) -> str:
    return f"""SELECT start_ns, end_ns - start_ns AS slept_ns, comm, tid, cause, waker, waker_pid
FROM ({sleeps_outside_sql(context, causes)}) AS apart ORDER BY 2 DESC, 1, 4 LIMIT 10"""


DETECTOR = Detector(
    name="held_outside",
    needs=("waits.waker_tid",),
    needs_stages=(),
    null_model="none: that a thread slept, and who ended that, stands in the record",
    smallest_effect="5 % of the time of the threads that it held",
    run=run,
)
