"""Threads that another program holds while none of their calls is an operation: with a lock on a file, because it froze their file system, or because it is stopped.

Who asks for a lock (fcntl, flock), writes to a page of a mapped file, or waits for another process at a pipe makes no call that is recorded; its sleep is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import of_time_lost
from whodisk.detectors.thresholds import SHARE_OF_LATENCY_FLOOR, SHARE_OF_LATENCY_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.others_stopped import slept_meanwhile, stops_of_all, stops_of_all_sql
from whodisk.evidence.outside_calls import (
    lost_outside,
    sleeps_outside,
    sleeps_outside_sql,
    slept_outside_sql,
)
from whodisk.evidence.slept_through import slept_through
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.time_lost import busy_submitters, lost_in_rows, threads_time
from whodisk.findings import Culprit, Evidence
from whodisk.machine.servers import file_server_of
from whodisk.machine.wakers import STOPPED, holders_of
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
#: What to do about a process that is stopped.
WHO_STOPS = (
    "Find out who stops {who} (SIGSTOP, a debugger, a job control shell, a freezer): `strace -f -e trace=none -p PID` or auditd shows the sender. The storage "
    "has nothing to do with it."
)


def run(context: Context) -> Result:
    """A candidate for each way in which another program held the judged one's threads."""
    result = Result()
    if context.layer in ("syscall", "app"):
        for causes, does, waiting, remedy in HELD_BY:
            _held(context, causes, (does, waiting, remedy), result)
        result.candidates += [found for found in (_stopped(context), _stopped_below(context)) if found]
    return result


def _stopped_below(context: Context) -> Candidate | None:
    """Another process that was stopped, while calls of the judged threads were in flight that began and ended with its stops: it serves their files, or feeds who does."""
    through = slept_through(context)
    if through is None:
        return None
    stops, tids = stops_of_all(context), busy_submitters(context)
    rows = through.tid, through.begin_ns, through.end_ns
    whole = threads_time(context, tids)
    held = lost_in_rows(context, tids, rows, whole=whole)
    if held is None:
        return None
    held = replace(held, unit="call", threads_ns=float(whole.sum()))
    name = _name_of(context, through.pids)
    begin, end = stops.of(list(through.pids))
    server = file_server_of(context, through.op_id)
    where = f" on {server.mount}, which {server.said} serves (FUSE)," if server is not None else ""
    if through.serves:
        where = f" on {through.serves}, which it serves,"
    claim = (
        f"{_was_stopped(name, through.pids, begin, end)} {words.things(len(through.op_id), 'call')} of {_named(context, through.tid)}{where} began and ended with "
        f"{'that stop' if through.stops == 1 else f'{words.count(through.met)} of these stops'}: {words.percent(held.share)} of the time of {_its_threads(tids)}."
    )
    return of_time_lost(
        held,
        culprit=Culprit("process", name, STOPPED),
        claim=claim,
        baseline="the rest of the time of these threads",
        metric="part of the threads' time",
        evidence=[_the_stops(context, through.pids)],
        refute=f"Look who stops {name}, and repeat without: if calls take as long, they did not wait for it.",
        remedy=WHO_STOPS.format(who=name),
        explains=np.isin(context.slow.op_id, through.op_id),
        causes=(
            ("process", "silence of the submitter, state blocked"),
            *([("stage", "device"), ("stage", "queue")] if through.serves else []),
        ),
    )


def _was_stopped(name: str, pids: tuple[int, ...], begin: Ints, end: Ints) -> str:
    lasted = end - begin
    if len(begin) == 1:
        return f"{name} ({words.processes(pids)}) was stopped once, for {words.duration(float(lasted[0]))}."
    return (
        f"{name} ({words.processes(pids)}) was stopped {words.things(len(begin), 'time')} for {words.duration(float(lasted.sum()))} in all "
        f"(typically {words.duration(float(np.median(lasted)))})."
    )


def _its_threads(tids: list[int]) -> str:
    return "its thread" if len(tids) == 1 else f"its {words.count(len(tids))} threads"


def _the_stops(context: Context, pids: tuple[int, ...]) -> Evidence:
    listed = ", ".join(map(str, pids))
    return evidence(
        context.case,
        "the stops",
        f"SELECT * FROM ({stops_of_all_sql(context)}) AS stops WHERE pid IN ({listed}) ORDER BY start_ns, tid LIMIT 20",
    )


def _name_of(context: Context, pids: tuple[int, ...]) -> str:
    rows = context.case.rows(
        f"SELECT arg_max(comm, start_ns) AS comm FROM waits WHERE state = 'stopped' AND pid IN ({', '.join(map(str, pids))}) GROUP BY pid ORDER BY 1"
    )
    return words.listed(sorted({str(row["comm"]) for row in rows}))


def _stopped(context: Context) -> Candidate | None:
    """Another process that was stopped, while the judged threads slept until it let them go on."""
    if "syscall" not in context.case.layers:
        return None
    stops, tids = stops_of_all(context), busy_submitters(context)
    if not len(stops.pid) or not tids:
        return None
    rows = slept_meanwhile(context, tids, stops)
    waited_ns = float((rows[2] - rows[1]).sum())
    if waited_ns < SHARE_OF_LATENCY_FLOOR * context.survey.span_ns:
        return None
    # What of these sleeps ended, directly or behind others, with a thread that was stopped then.
    behind = {
        holder: holder.share * dict(holder.did).get(STOPPED, 0.0) for holder in holders_of(context, *rows)
    }
    holder = max(behind, key=lambda one: behind[one], default=None)
    whole = threads_time(context, tids)
    held = lost_in_rows(context, tids, rows, whole=whole)
    if holder is None or held is None or behind[holder] <= 0:
        return None
    begin, end = stops.of(list(holder.pids))
    if not len(begin):
        return None
    part = min(1.0, behind[holder])
    held = replace(held, share=held.share * part, low=held.low * part, high=held.high * part)
    held = replace(held, unit="sleep", threads_ns=float(whole.sum()))
    names = _named(context, rows[0])
    claim = (
        f"{_was_stopped(holder.name, holder.pids, begin, end)} "
        f"Meanwhile {names} slept {words.duration(part * waited_ns)} until it let go on, directly or behind others, in no call on storage: "
        f"{words.percent(held.share)} of the time of {_its_threads(tids)}."
    )
    return of_time_lost(
        held,
        culprit=Culprit("process", holder.name, STOPPED),
        claim=claim,
        baseline="the rest of the time of these threads",
        metric="part of the threads' time",
        evidence=[
            _the_stops(context, holder.pids),
            evidence(
                context.case,
                "the longest sleeps, and who ended them",
                f"SELECT start_ns, end_ns - start_ns AS slept_ns, comm, tid, cause, waker, waker_pid FROM ({slept_outside_sql(context, tids)}) AS apart ORDER BY 2 DESC, 1, 4 LIMIT 10",
            ),
        ],
        refute=f"Look who stops {holder.name}, and repeat without: if threads sleep as long, they did not wait for it.",
        remedy=WHO_STOPS.format(who=holder.name),
        explains=none_of(context.slow),
        causes=(("process", "silence of the submitter, state blocked"),),
    )


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
