"""Requests of a software device that were late because those who serve it had no CPU: whoever had it is to blame, and not the device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Excuse, Result, evidence
from whodisk.detectors.candidates import leave_cpu, of_time_lost
from whodisk.detectors.cpu_holders import told_apart
from whodisk.detectors.late_journals import LateJournal, asleep_in, late_in_files, late_journals, shares_of
from whodisk.detectors.late_workers import late_workers
from whodisk.detectors.thresholds import (
    CROWD_TOLD,
    HOG_SHARE_MIN,
    ONE_HOG_MIN,
    SERVED_BELOW_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.late_servers import LateServers, file_system_sql, late_servers
from whodisk.evidence.late_threads import FS
from whodisk.evidence.recorder import is_recorder
from whodisk.evidence.serving_waits import serving_of
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.slowest import BELOW
from whodisk.evidence.surroundings import IDLE
from whodisk.evidence.thresholds import ORDINARY_WAIT_NS
from whodisk.evidence.time_lost import lost_in_blocks
from whodisk.findings import Culprit
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import Bools, Ints, overlap


@dataclass(frozen=True)
class _Place:
    """A device, or a file system on it, for which threads work that need a CPU."""

    device: str
    #: Who had the CPU while those were ready who serve the device, and while those were whom its file system waits for.
    serving: list[LateServers]
    of_files: list[LateServers]
    #: What carries no device (a rename) is on this one.
    alone: bool

    @property
    def does(self) -> str:
        if not self.serving:
            return f"commits for {self.device}"
        return f"serves or commits for {self.device}" if self.of_files else f"serves {self.device}"

    @property
    def every(self) -> list[LateServers]:
        """By who had the CPU. A file system waits for who serves its device, too."""
        return self.of_files or self.serving


def run(context: Context) -> Result:
    """One candidate for each device and program that kept its servers, or those of its file system, from a CPU for longer than another thread's turn."""
    result = Result()
    for place in _places(context):
        for late in place.every:
            explains = _held(context, place, late)
            found = None if _works_for_them(context, late) else _candidate(context, place, late, explains)
            if found is not None:
                result.candidates.append(found)
            elif explains.any():
                result.excuses.append(Excuse(f"who {place.does} had no CPU", explains))
    _excuse_loops(context, result)
    _journals(context, result)
    return result


def _places(context: Context) -> list[_Place]:
    serving = late_servers(context.case, context.layer)
    of_files = late_in_files(context, np.asarray(context.slow.blamed == FS, np.bool_))
    return [
        _Place(device, serving.get(device, []), of_files.get(device, []), alone=len(of_files) == 1)
        for device in sorted({*serving, *of_files})
    ]


def _excuse_loops(context: Context, result: Result) -> None:
    """What waited at loop devices of the kernel for their workers. What a hog costs the program itself `cpu_delay` counts."""
    slow = context.slow
    for late in late_workers(context):
        result.excuses.append(Excuse(f"who serves {late.device} had no CPU", late.held))
        share = context.share_lost(late.held)
        if share >= SHARE_OF_LATENCY_FLOOR:
            result.observed.append(
                f"{words.things(float(late.held.sum()) * slow.thinning, 'operation')} waited at {late.device} while the kernel's worker that serves it was ready and "
                f"had no CPU; mostly {late.who} had it: {words.percent(share)} of all latency."
            )


def _journals(context: Context, result: Result) -> None:
    """What slept in a file system for its journal's thread, or for who serves its device, in turns of any length: whoever had the CPU is to blame for what is
    slow by it, and what is no longer than a turn is told."""
    slow = context.slow
    already = np.logical_or.reduce([none_of(slow), *(item.explains for item in result.excuses)])
    accused = {claim.culprit.name for claim in result.candidates}
    already = np.logical_or.reduce([already, *(claim.explains for claim in result.candidates)])
    for late in late_journals(context.after(context.explained | already)):
        result.excuses.append(Excuse(f"who serves or commits for {late.device} had no CPU", late.held))
        found = _in_turns(context, late)
        if found is not None and found.culprit.name not in accused:
            result.candidates.append(found)
            continue
        share = context.share_lost(late.held)
        if share >= SHARE_OF_LATENCY_FLOOR:
            result.observed.append(
                f"{words.things(float(late.held.sum()) * slow.thinning, 'operation')} slept in the file system on {late.device} while who serves or commits for it "
                f"was ready and had no CPU; mostly {told_apart(context, late.by[0][0].who, late.by[0][0].foremost)[1]} had it: {words.percent(share)} of all latency."
            )


def _in_turns(context: Context, late: LateJournal) -> Candidate | None:
    """A claim on the programs that had the CPU in turns that held what is slow, if most of these are another program's; of several the one that had it for a
    good part, or all of them together."""
    slow, every_ns = context.slow, sum(ns for _, ns in late.by)
    rivals = [(of, ns) for of, ns in late.by if ns > 0 and not _works_for_them(context, of)]
    long = late.held & ~slow.ordinary
    if not long.any() or sum(ns for _, ns in rivals) < ONE_HOG_MIN * every_ns:
        return None
    values = ", ".join(
        f"({at}, {round(ns * slow.thinning)})"
        for at, ns in zip(slow.start_ns[long].tolist(), late.waited_ns[long].tolist(), strict=True)
    )
    lost_sql = f"SELECT start_ns, wait_ns FROM (VALUES {values}) AS each_of(start_ns, wait_ns)"
    held = lost_in_blocks(context, lost_sql, "wait_ns")
    if held is None or held.share < SHARE_OF_LATENCY_MIN:
        return None
    named = [
        f"{told_apart(context, of.who, of.foremost)[1]} ({words.percent(ns / every_ns)})" for of, ns in rivals
    ]
    who = told_apart(context, rivals[0][0].who, rivals[0][0].foremost)[0]
    one = rivals[0][1] >= HOG_SHARE_MIN * every_ns
    return of_time_lost(
        held,
        culprit=Culprit("process", who, "stage:runqueue") if one else Culprit("stage", "runqueue"),
        claim=f"Operations slept in the file system on {late.device} while who serves or commits for it was ready to run but had no CPU: "
        f"{words.percent(held.share)} of the time of all operations ({held.times}). Who had it: {words.some(named, CROWD_TOLD)}.",
        baseline="the same operations without the time in which those who work for them had no CPU",
        metric="part of the operations' time",
        evidence=[
            evidence(
                context.case,
                "slow operations, and what they waited so",
                f"{lost_sql} ORDER BY wait_ns DESC, start_ns LIMIT 10",
            )
        ],
        refute=f"Give the threads that work for {late.device} a real-time priority and repeat: if operations take as long, it was not the CPU.",
        remedy=leave_cpu(who) if one else f"Move the others to other CPUs: {words.some(named, CROWD_TOLD)}.",
        explains=late.held,
        causes=(("stage", "device"), ("stage", "queue"), ("stage", "runqueue")),
    )


def _works_for_them(context: Context, late: LateServers) -> bool:
    """Whether who had the CPU is none of the judged program's competitors: itself, the kernel, the recorder."""
    is_nobody = late.who.startswith(IDLE) or is_kernel_thread(context.case, late.who)
    return late.own or is_nobody or is_recorder(context.case, late.who)


def _held(context: Context, place: _Place, late: LateServers) -> Bools:
    """Slow operations that lost most of their time at the device meanwhile, or asleep in its file system."""
    slow = context.slow
    lost_ns = slow.latency_ns - slow.typical_ns
    below = np.isin(slow.blamed, [STAGES.index(stage) for stage in BELOW]) & (slow.device == place.device)
    served = next((times for times in place.serving if (times.who, times.own) == (late.who, late.own)), None)
    held_ns = np.zeros(len(slow))
    if served is not None:
        held_ns = np.where(below, overlap(slow.start_ns, slow.end_ns, *_longest(served)), 0.0)
    if place.of_files:
        on_it = (slow.device == place.device) | (place.alone & (slow.device == ""))
        in_fs = np.asarray((slow.blamed == FS) & on_it, np.bool_)
        held_ns = np.where(in_fs, asleep_in(context, in_fs, *_longest(late)), held_ns)
    return np.asarray((held_ns > 0) & (held_ns >= SERVED_BELOW_MIN * lost_ns), np.bool_)


def _longest(late: LateServers) -> tuple[Ints, Ints]:
    """Those that are no other thread's turn."""
    long = late.end_ns - late.begin_ns >= ORDINARY_WAIT_NS
    return late.begin_ns[long], late.end_ns[long]


def _candidate(context: Context, place: _Place, late: LateServers, explains: Bools) -> Candidate | None:
    waited = _waited_sql(context, place, late)
    held = lost_in_blocks(context, waited, "wait_ns")
    if held is None or held.share < SHARE_OF_LATENCY_MIN:
        return None
    who, told = told_apart(context, late.who, late.foremost)
    there = f"at {place.device}" if not place.of_files else f"at {place.device} or in its file system"
    return of_time_lost(
        held,
        culprit=Culprit("process", who, "stage:runqueue"),
        claim=f"Who {place.does} was ready to run but had no CPU: {told} had it. That is {words.percent(held.share)} of the time of all operations "
        f"({held.times}), which they spent {there}.{_beside(context, place, late)}",
        baseline="the same operations without the time in which those who work for them had no CPU",
        metric="part of the operations' time",
        evidence=[
            evidence(
                context.case,
                "operations that waited longest for a server without a CPU",
                f"SELECT op_id, start_ns, wait_ns, latency_ns FROM ({waited}) AS waited ORDER BY wait_ns DESC, op_id LIMIT 10",
            )
        ],
        refute=f"Give the threads that work for {place.device} a CPU of their own (taskset) or a real-time priority and repeat: if operations take as long, "
        f"{who} is innocent.",
        remedy=leave_cpu(who),
        explains=explains,
        causes=(("stage", "device"), ("stage", "queue"), ("stage", "runqueue")),
    )


def _beside(context: Context, place: _Place, late: LateServers) -> str:
    """Other programs that had the CPU in turns of any length while operations waited for who works for them."""
    others = [of for of in place.every if of is not late and not _works_for_them(context, of)]
    parts = shares_of(context, place.device, place.alone, bool(place.serving), [late, *others])
    told = sorted(
        (
            (-part, told_apart(context, of.who, of.foremost)[1])
            for of, part in zip(others, parts[1:], strict=True)
            if part >= SHARE_OF_LATENCY_FLOOR
        )
    )
    if not told:
        return ""
    named = words.some([f"{name} ({words.percent(-part)})" for part, name in told], CROWD_TOLD)
    return f" In shorter turns others had it, too: {named}."


def _waited_sql(context: Context, place: _Place, late: LateServers) -> str:
    """Of each operation that was at the device, or in its file system, mostly while those waited who work for it: the longest of these waits, at most its
    time there."""
    serves = serving_of(context.case).get(place.device)
    works = file_system_sql(place.device, serves or "false") if place.of_files else serves
    stages = [*(BELOW if serves else ()), *(("fs",) if place.of_files else ())]
    spent = " + ".join(f"coalesce({stage}_ns, 0)" for stage in stages)
    on_it = f"device = {quoted(place.device)}" + (" OR device IS NULL" if place.alone else "")
    return f"""WITH late AS (SELECT start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
  WHERE state = 'runnable' AND {late.sql} AND duration_ns >= {ORDINARY_WAIT_NS} AND {works}),
there AS (SELECT op_id, start_ns, latency_ns, start_ns + latency_ns AS until_ns, {spent} AS spent_ns FROM measured
  WHERE layer = '{context.layer}' AND ({on_it}) AND {spent} >= {ORDINARY_WAIT_NS}),
waited AS (SELECT op_id, start_ns, latency_ns, spent_ns, max(least(end_ns, until_ns) - greatest(begin_ns, start_ns)) AS wait_ns
  FROM there JOIN late ON begin_ns < until_ns AND end_ns > start_ns GROUP BY ALL)
SELECT op_id, start_ns, latency_ns, least(spent_ns, wait_ns) AS wait_ns FROM waited WHERE wait_ns >= {SERVED_BELOW_MIN} * spent_ns"""


DETECTOR = Detector(
    name="late_servers",
    needs=("judged.start_ns", "judged.latency_ns", "waits.state"),
    needs_stages=("device",),
    null_model="none: that who serves the device was ready and had no CPU, and who had it, stands in the record",
    smallest_effect="5 % of the time of all operations, in waits longer than another thread's turn on a CPU",
    run=run,
)
