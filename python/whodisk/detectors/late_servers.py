"""Requests of a software device that were late because those who serve it had no CPU: whoever had it is to blame, and not the device."""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Excuse, Result, evidence
from whodisk.detectors.candidates import leave_cpu, of_time_lost
from whodisk.detectors.late_workers import late_workers
from whodisk.detectors.thresholds import (
    SERVED_BELOW_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.cpu_names import said_of
from whodisk.evidence.late_servers import LateServers, late_servers
from whodisk.evidence.recorder import is_recorder
from whodisk.evidence.serving_waits import serving_of
from whodisk.evidence.slowest import BELOW
from whodisk.evidence.surroundings import IDLE
from whodisk.evidence.thresholds import ORDINARY_WAIT_NS
from whodisk.evidence.time_lost import lost_in_blocks
from whodisk.findings import Culprit
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import Bools, overlap


def run(context: Context) -> Result:
    """One candidate for each device and program that kept its servers from a CPU for longer than another thread's turn."""
    result = Result()
    for device, every in late_servers(context.case, context.layer).items():
        for late in every:
            explains = _held(context, device, late)
            found = None if _works_for_them(context, late) else _candidate(context, device, late, explains)
            if found is not None:
                result.candidates.append(found)
            elif explains.any():
                result.excuses.append(Excuse(f"who serves {device} had no CPU", explains))
    _excuse_loops(context, result)
    return result


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


def _works_for_them(context: Context, late: LateServers) -> bool:
    """Whether who had the CPU is none of the judged program's competitors: itself, the kernel, the recorder."""
    is_nobody = late.who.startswith(IDLE) or is_kernel_thread(context.case, late.who)
    return late.own or is_nobody or is_recorder(context.case, late.who)


def _held(context: Context, device: str, late: LateServers) -> Bools:
    """Slow operations that lost most of their time at the device meanwhile."""
    slow = context.slow
    long = late.end_ns - late.begin_ns >= ORDINARY_WAIT_NS
    below = np.isin(slow.blamed, [STAGES.index(stage) for stage in BELOW])
    held_ns = overlap(slow.start_ns, slow.end_ns, late.begin_ns[long], late.end_ns[long])
    lost_ns = slow.latency_ns - slow.typical_ns
    return np.asarray(below & (slow.device == device) & (held_ns >= SERVED_BELOW_MIN * lost_ns), np.bool_)


def _candidate(context: Context, device: str, late: LateServers, explains: Bools) -> Candidate | None:
    waited = _waited_sql(context, device, late)
    held = lost_in_blocks(context, waited, "wait_ns")
    if held is None or held.share < SHARE_OF_LATENCY_MIN:
        return None
    return of_time_lost(
        held,
        culprit=Culprit("process", late.who, "stage:runqueue"),
        claim=f"Who serves {device} was ready to run but had no CPU: {said_of(context.case, late.who)} had it. That is {words.percent(held.share)} of the time of all operations "
        f"({held.times}), which they spent at {device}.",
        baseline="the same operations without the time in which their device's servers had no CPU",
        metric="part of the operations' time",
        evidence=[
            evidence(
                context.case,
                "operations that waited longest for a server without a CPU",
                f"SELECT op_id, start_ns, wait_ns, latency_ns FROM ({waited}) AS waited ORDER BY wait_ns DESC, op_id LIMIT 10",
            )
        ],
        refute=f"Give the processes that serve {device} a CPU of their own (taskset) or a real-time priority and repeat: if operations take as long, "
        f"{late.who} is innocent.",
        remedy=leave_cpu(late.who),
        explains=explains,
        causes=(("stage", "device"), ("stage", "queue"), ("stage", "runqueue")),
    )


def _waited_sql(context: Context, device: str, late: LateServers) -> str:
    """Of each operation that was at the device mostly while its servers waited: the longest of these waits, at most its time there."""
    below = " + ".join(f"coalesce({stage}_ns, 0)" for stage in BELOW)
    return f"""WITH late AS (SELECT start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
  WHERE state = 'runnable' AND cause = {quoted(late.who)} AND duration_ns >= {ORDINARY_WAIT_NS} AND {serving_of(context.case)[device]}),
at_device AS (SELECT op_id, start_ns, latency_ns, start_ns + latency_ns AS until_ns, {below} AS below_ns FROM measured
  WHERE layer = '{context.layer}' AND device = {quoted(device)} AND {below} >= {ORDINARY_WAIT_NS}),
waited AS (SELECT op_id, start_ns, latency_ns, below_ns, max(least(end_ns, until_ns) - greatest(begin_ns, start_ns)) AS wait_ns
  FROM at_device JOIN late ON begin_ns < until_ns AND end_ns > start_ns GROUP BY ALL)
SELECT op_id, start_ns, latency_ns, least(below_ns, wait_ns) AS wait_ns FROM waited WHERE wait_ns >= {SERVED_BELOW_MIN} * below_ns"""


DETECTOR = Detector(
    name="late_servers",
    needs=("judged.start_ns", "judged.latency_ns", "waits.state"),
    needs_stages=("device",),
    null_model="none: that who serves the device was ready and had no CPU, and who had it, stands in the record",
    smallest_effect="5 % of the time of all operations, in waits longer than another thread's turn on a CPU",
    run=run,
)
