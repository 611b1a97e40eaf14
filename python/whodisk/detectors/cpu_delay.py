"""Submitters that were ready to run and did not get a CPU.

Only waits longer than another thread's turn accuse anybody. Shorter ones are the ordinary life of a machine with its CPUs
all in use: the verdict reports their cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Excuse, Result, evidence
from whodisk.detectors.candidates import leave_cpu, of_time_lost
from whodisk.detectors.cpu_holders import Hog, foremost, hogs_of, hogs_sql, told_crowd
from whodisk.detectors.shared_devices import SAME_DEVICE, shared_devices
from whodisk.detectors.thresholds import (
    CROWD_MIN,
    CROWD_OFTEN,
    CROWD_WAIT_NS,
    CROWDED_CPU_MIN,
    HOG_ASKS_MIN,
    LONG_TURN_NS,
    ONE_HOG_MIN,
    P99_RATIO_MIN,
    SHARE_FOR_P99_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
    SHORT_WAIT_NS,
)
from whodisk.evidence.context import Context
from whodisk.evidence.denied_cpu import denied_cpu
from whodisk.evidence.own_threads import own_sql
from whodisk.evidence.programs import program_sql
from whodisk.evidence.recorder import RECORDER_HAD_CPU
from whodisk.evidence.thread_stops import find_stops
from whodisk.evidence.thresholds import ORDINARY_WAIT_NS, STILL_MIN_NS
from whodisk.evidence.time_lost import (
    TimeLost,
    busy_submitters,
    late_in_waits,
    lost_in_blocks,
    lost_in_stage,
    lost_in_waits,
    submitters,
    waits_where,
)
from whodisk.findings import Culprit
from whodisk.machine.partners import partners_of
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.coincidence import Covered, Intervals
from whodisk.statistics.stats import Bools, bootstrap_sum, episodes

RUNQUEUE = STAGES.index("runqueue")
STILL_REFUTE = "Run hwlatdetect, or cyclictest at real-time priority, on the idle machine: if no CPU is ever away for that long, this is wrong."
STILL_REMEDY = "Pin the CPUs of the virtual machine or move it to a quieter host; on bare metal look for what the firmware does (SMIs)."


def run(context: Context) -> Result:
    """One candidate for all waiting for CPUs."""
    result = Result()
    tids = submitters(context)
    hogs = hogs_of(context, tids)
    hog = foremost(hogs)
    own = hog is not None and hog.together
    if own and (beside := _beside_own(context, hogs, tids)) is not None:
        result.candidates.append(beside)
        return result
    held = _held_long(context, tids)
    if held is None or held.share < SHARE_OF_LATENCY_MIN:
        crowd = None
        if hog is None and told_crowd(hogs):
            crowd = _many(context, None, tids, hogs)
        elif hog is not None and not own and not hog.serves:
            crowd = _crowd(context, hog, tids)
        if crowd is None or not crowd.summed:
            crowd = _long_turns(context, tids) or crowd
        if crowd is not None:
            result.candidates.append(crowd)
            return result
        if held is not None and (long := _long_waits(context, held, tids)) is not None:
            result.candidates.append(long)
            return result
        held = _in_operations(context, tids, 1) or lost_in_waits(context, tids, "runnable")
        if held is None:
            return result
        if held.share >= SHARE_OF_LATENCY_MIN and not own:
            result.observed.append(
                f"{_claim(held, hog, hogs)} These are waits of a time slice and less: the CPUs are in use, and no program keeps "
                "them for itself."
            )
            return result
    else:
        # Who has the CPU in many short waits may not be who has it in the long ones.
        hogs = hogs_of(context, tids, ORDINARY_WAIT_NS)
        hog = foremost(hogs)
        own = hog is not None and hog.together
        if hog is not None and (every := _behind_rival(context, held, hog, tids)) is not None:
            result.candidates.append(every)
            return result
    if hog is not None and hog.recorder:
        _recorder(context, held, hog, tids, result)
    elif own and held.share >= SHARE_OF_LATENCY_MIN:
        result.observed.append(
            f"The threads of {_together(context)} wait for each other's CPU: {words.percent(held.share)} of the time of those that submit. More CPUs, or "
            "fewer threads, and no fault of the storage."
        )
    else:
        result.candidates.append(_candidate(context, held, hog, tids, crowd=hogs))
    return result


def _together(context: Context) -> str:
    own = set(context.own_programs[0])
    names = sorted(set(partners_of(context).values()) - own)
    return (
        f"the recorded program, and of {words.listed(names)}, which works with it,"
        if names
        else "the recorded program"
    )


def _beside_own(context: Context, hogs: list[Hog], tids: list[int]) -> Candidate | None:
    """What one other program costs where most of the crowd are the program's own threads: the part of operations in which that one had the CPU, and
    nothing else. What own threads cost each other is a limit."""
    others = [hog for hog in hogs if hog.rival]
    if not others or others[0].share < ONE_HOG_MIN * sum(other.share for other in others):
        return None
    rival = others[0]
    held = lost_in_blocks(context, _behind_sql(context, tids, rival), "wait_ns")
    denied = denied_cpu(context, rival.sql, with_others=any(hog.partner for hog in hogs))
    claim = _claim_behind(held, rival) if held is not None else ""
    if denied is not None and (held is None or denied.share > held.share):
        # A program that is as fast as its CPUs let it be loses what it is denied of them, in its calls or not.
        held, claim = denied, _claim_denied(denied, rival)
    if held is None or held.share < SHARE_OF_LATENCY_MIN:
        return None
    found = _candidate(context, held, rival, tids)
    found.claim = found.otherwise = (
        f"{claim}{_asks_too(context, rival)} The program's own threads wait for each other, too; that is not counted.{held.said}"
    )
    found.explains = _waited_behind(context, tids, rival)
    return found


def _behind_rival(context: Context, long: TimeLost, hog: Hog, tids: list[int]) -> Candidate | None:
    """All that one other program costs, where its long turns alone accuse it: most of its turns are shorter, and what it takes in these is as lost."""
    if not hog.rival:
        return None
    held = lost_in_blocks(context, _behind_sql(context, tids, hog), "wait_ns")
    if held is None or held.share <= long.share:
        return None
    found = _candidate(context, held, hog, tids)
    found.claim = found.otherwise = f"{_claim_behind(held, hog)}{_asks_too(context, hog)}{held.said}"
    return found


def _asks_too(context: Context, hog: Hog | None) -> str:
    """That a program which has the CPU also asks the devices that the judged one waits for: CPUs of its own then leave a part of what it costs."""
    if hog is None or not hog.rival or hog.namesake is not None or "block" not in context.surveys:
        return ""
    devices = shared_devices(context)
    if not devices:
        return ""
    names = ", ".join(map(quoted, devices))
    row = context.case.rows(
        f"""WITH asked AS (SELECT {program_sql(context)} = {quoted(hog.comm)} AS its, coalesce(size_bytes, 0) AS size_bytes FROM measured
  WHERE layer = 'block' AND op <> 'flush' AND comm IS NOT NULL AND device IN ({names}))
SELECT count(*) AS every, coalesce(sum(size_bytes), 0) AS every_bytes, count(*) FILTER (its) AS its, coalesce(sum(size_bytes) FILTER (its), 0) AS its_bytes FROM asked"""
    )[0]
    every, every_bytes, its, its_bytes = (
        float(row[name] or 0) for name in ("every", "every_bytes", "its", "its_bytes")
    )
    part, of = max((its / max(1.0, every), "requests"), (its_bytes / max(1.0, every_bytes), "bytes"))
    if part < HOG_ASKS_MIN:
        return ""
    return f" It also makes {words.things(round(its), 'request')} of {SAME_DEVICE} ({words.percent(part)} of all {of} there); what these cost is not counted here."


def _claim_behind(held: TimeLost, hog: Hog) -> str:
    return (
        f"{hog.told} had the CPU while submitters were ready to run, in {words.percent(held.share)} of the time of their operations "
        f"({held.times})."
    )


def _claim_denied(held: TimeLost, hog: Hog) -> str:
    return (
        f"{hog.told} had {words.percent(held.share)} of the CPU time that the program, which keeps the CPUs busy, asked for: threads of it were ready to run meanwhile "
        f"({words.things(held.count, 'wait')}, typically {words.duration(held.each_ns)} each)."
    )


def _behind(context: Context, tids: list[int], rival: Hog) -> str:
    """Waits of submitters in which that program had the CPU, but for those that any switch costs."""
    return f"""SELECT tid, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE {waits_where(context, tids, "runnable")} AND duration_ns >= {CROWD_WAIT_NS} AND {rival.sql}
  AND NOT {own_sql(context.case, context.layer)}"""


def _behind_sql(context: Context, tids: list[int], rival: Hog) -> str:
    """What each operation waited for a CPU behind that program; of several in flight on one thread the latest has it."""
    return f"""WITH behind AS ({_behind(context, tids, rival)}),
waiting AS (SELECT op_id, tid, start_ns, start_ns + latency_ns AS until_ns, runqueue_ns FROM measured
  WHERE layer = '{context.layer}' AND runqueue_ns >= {CROWD_WAIT_NS})
SELECT min(waiting.start_ns) AS start_ns, least(min(runqueue_ns), sum(least(end_ns, until_ns) - begin_ns)) AS wait_ns
FROM behind ASOF JOIN waiting ON behind.tid = waiting.tid AND behind.begin_ns >= waiting.start_ns
WHERE begin_ns < until_ns GROUP BY op_id"""


def _waited_behind(context: Context, tids: list[int], rival: Hog) -> Bools:
    """Slow operations that lost most of their time to that program."""
    slow = context.slow
    found = context.case.arrays(f"{_behind(context, tids, rival)} ORDER BY tid, begin_ns")
    behind = Intervals(*(found[name].astype(np.int64) for name in ("tid", "begin_ns", "end_ns")))
    waited_ns = Covered(behind).by(slow.tid, slow.start_ns, slow.end_ns)
    return np.asarray((slow.blamed == RUNQUEUE) & (2 * waited_ns >= slow.excess_ns), np.bool_)


def _long_waits(context: Context, held: TimeLost, tids: list[int]) -> Candidate | None:
    """Waits longer than another thread's turn that cost too little to accuse by themselves, while one other program had the CPU: who holds up what is
    slow in the stage `runqueue`."""
    hog = foremost(hogs_of(context, tids, ORDINARY_WAIT_NS))
    if hog is None or hog.share < ONE_HOG_MIN or not hog.rival:
        return None
    return _candidate(context, held, hog, tids)


def _recorder(context: Context, held: TimeLost, hog: Hog, tids: list[int], result: Result) -> None:
    """What the recorder costs accuses nobody: without it, it would not be."""
    result.observed.append(
        f"{_claim(held, hog, [])} That is the recorder itself: without it this time is not lost."
    )
    result.caveats.append(
        (
            "how fast this is without the recorder",
            f"it had the CPU in {words.percent(hog.share)} of the time in which submitters waited for one, {words.percent(held.share)} of their time "
            "(--cpu-budget, fewer probes, or a CPU of its own make that less)",
        )
    )
    result.excuses.append(Excuse(RECORDER_HAD_CPU, _explained(context, tids), by_recorder=True))


def _explained(context: Context, tids: list[int]) -> Bools:
    """Slow operations that waited for a CPU, or with a thread that did."""
    waited = np.asarray(context.slow.blamed == RUNQUEUE, np.bool_)
    return np.asarray(waited | late_in_waits(context, tids, "runnable"), np.bool_)


def _crowd(context: Context, hog: Hog, tids: list[int]) -> Candidate | None:
    """Many short waits while another process had the CPU."""
    return _many(context, hog, tids) or _slower_tail(
        context, hog, tids, SHORT_WAIT_NS, SHARE_OF_LATENCY_FLOOR
    )


def _many(context: Context, hog: Hog | None, tids: list[int], hogs: Sequence[Hog] = ()) -> Candidate | None:
    """What short waits cost threads, or many operations, all together."""
    crowd = lost_in_waits(context, tids, "runnable")
    if crowd is not None and crowd.share >= CROWD_MIN:
        found = _candidate(context, crowd, hog, tids, "the submitting threads' time", hogs)
        # Operations wait with their thread, and those that are due meanwhile behind them.
        waits = find_stops(context, "runnable", SHORT_WAIT_NS)
        if waits is not None:
            found.share_of_latency = max(found.share_of_latency, min(1.0, waits.share_of_latency))
        return found
    often = _in_operations(context, tids, CROWD_WAIT_NS)
    if (
        often is not None
        and often.share >= CROWD_MIN
        and often.count >= CROWD_OFTEN * context.survey.operations
    ):
        return _candidate(context, often, hog, tids, crowd=hogs)
    return None


def _long_turns(context: Context, tids: list[int]) -> Candidate | None:
    """The same of turns that are no mere switch of threads: who takes these may be nobody among thousands of short waits for whoever serves the device."""
    hog = foremost(hogs_of(context, tids, LONG_TURN_NS))
    if hog is None or not hog.rival:
        return None
    return _slower_tail(context, hog, tids, LONG_TURN_NS, SHARE_FOR_P99_MIN)


def _slower_tail(
    context: Context, hog: Hog, tids: list[int], least_ns: int, least_share: float
) -> Candidate | None:
    """Short waits that the slowest operations owe to one other program: theirs, and of what was in flight or due meanwhile."""
    if hog.share < ONE_HOG_MIN:
        return None
    waits = find_stops(context, "runnable", least_ns)
    if waits is None or waits.share_of_latency < least_share:
        return None
    if waits.p99_ns < P99_RATIO_MIN * waits.p99_without_ns:
        return None
    low, high = bootstrap_sum(waits.per_stop * waits.share_of_latency / max(1.0, float(waits.per_stop.sum())))
    happened = int(episodes(waits.start_ns, waits.start_ns + waits.duration_ns).max()) + 1
    held = TimeLost(
        share=min(1.0, waits.share_of_latency),
        low=low,
        high=min(1.0, high),
        windows=happened,
        windows_ns=float(waits.duration_ns.sum()),
        part=waits.share_of_time,
        count=len(waits.tid),
        each_ns=float(np.median(waits.duration_ns)),
        unit="wait",
    )
    found = _candidate(context, held, hog, tids)
    # Operations that only overlap with such waits are looked at, too: whether these made them slow is inferred.
    found.basis, found.summed, found.p_value = "inferred", False, waits.p_value
    found.p99_ratio = waits.p99_ns / max(1.0, waits.p99_without_ns)
    found.large = True
    found.claim += (
        f" The 99th percentile is {words.duration(waits.p99_ns)}, of the operations apart from these moments "
        f"{words.duration(waits.p99_without_ns)}."
    )
    return found


def _held_long(context: Context, tids: list[int]) -> TimeLost | None:
    """What waits longer than another thread's turn cost: operations, or threads between them, whichever lost the larger part of its time. A thread that has no CPU makes no
    operation that could wait for one."""
    inside = _in_operations(context, tids, ORDINARY_WAIT_NS)
    if "waits" not in context.case.columns:
        return inside
    every = lost_in_waits(context, busy_submitters(context), "runnable", ORDINARY_WAIT_NS)
    return max(
        (held for held in (inside, every) if held is not None), key=lambda held: held.share, default=None
    )


def _in_operations(context: Context, tids: list[int], least_ns: int) -> TimeLost | None:
    """What waiting for a CPU costs operations, apart from waits in which a controller kept their thread from it: those are in the same stage."""
    if "waits" not in context.case.columns:
        return lost_in_stage(context, "runqueue", least_ns)
    stopped = waits_where(context, tids, "throttled")
    if not context.case.rows(f"SELECT 1 FROM waits WHERE {stopped} LIMIT 1"):
        if least_ns <= 1:
            return lost_in_stage(context, "runqueue")
        stopped = "false"
    return lost_in_blocks(context, _apart_sql(context, stopped, least_ns), "wait_ns")


def _apart_sql(context: Context, stopped: str, least_ns: int) -> str:
    """`stopped`: condition for waits that are a controller's.

    A wait counts from that length on, and not short ones that add up to it within one operation. Of operations for which others waited, too (workers), all
    of the stage counts: their own thread's waits are less than half of it.
    """
    return f"""WITH stopped AS (SELECT tid, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits WHERE {stopped}),
delayed AS (SELECT op_id, tid, start_ns, start_ns + latency_ns AS until_ns, runqueue_ns FROM measured
  WHERE layer = '{context.layer}' AND runqueue_ns >= {least_ns}),
inside AS (SELECT op_id, sum(least(end_ns, until_ns) - greatest(begin_ns, start_ns)) AS stopped_ns FROM delayed
  JOIN stopped ON stopped.tid = delayed.tid AND begin_ns < until_ns AND end_ns > start_ns GROUP BY 1),
waiting AS (SELECT op_id, tid, start_ns, until_ns, runqueue_ns - coalesce(stopped_ns, 0) AS waited_ns FROM delayed LEFT JOIN inside USING (op_id)
  WHERE runqueue_ns - coalesce(stopped_ns, 0) >= {least_ns}),
turns AS (SELECT tid, start_ns AS begin_ns, start_ns + duration_ns AS end_ns, duration_ns >= {least_ns} AS is_long FROM waits WHERE state = 'runnable'),
seen AS (SELECT op_id, sum(least(end_ns, until_ns) - begin_ns) AS seen_ns, sum(least(end_ns, until_ns) - begin_ns) FILTER (is_long) AS long_ns
  FROM turns ASOF JOIN waiting ON turns.tid = waiting.tid AND begin_ns >= start_ns WHERE begin_ns < until_ns GROUP BY 1),
lost AS (SELECT start_ns, CASE WHEN 2 * coalesce(seen_ns, 0) < waited_ns THEN waited_ns ELSE least(waited_ns, coalesce(long_ns, 0)) END AS wait_ns
  FROM waiting LEFT JOIN seen USING (op_id))
SELECT start_ns, wait_ns FROM lost WHERE wait_ns > 0"""


def _candidate(
    context: Context,
    held: TimeLost,
    hog: Hog | None,
    tids: list[int],
    of: str = "the time of their operations",
    crowd: Sequence[Hog] = (),
) -> Candidate:
    """`crowd`: who had the CPU, where that is nobody in particular."""
    asks = _asks_too(context, hog)
    claim = _claim(held, hog, crowd, of) + asks
    explains = _explained(context, tids)
    proof = [
        evidence(context.case, "operations that waited longest for a CPU", _operations_sql(context)),
        evidence(context.case, "who ran while submitters were ready to run", hogs_sql(context, tids)),
    ]
    return of_time_lost(
        held,
        culprit=_culprit(held, hog),
        claim=claim,
        baseline="the same operations without the time in which their thread had no CPU",
        metric="part of the operations' time",
        evidence=proof,
        refute=STILL_REFUTE
        if _stood_still(held, hog)
        else "Give the submitters CPUs of their own (taskset, cpuset) or a real-time priority (chrt -f 50) and repeat: if "
        "operations take as long, the CPU is innocent.",
        remedy=STILL_REMEDY if _stood_still(held, hog) else _both(asks) + _remedy(hog, crowd),
        explains=explains,
        causes=(
            ("stage", "runqueue"),
            ("process", "silence of the submitter, state runnable"),
            *_crowded_cpus(context, hog, tids),
        ),
    )


def _crowded_cpus(context: Context, hog: Hog | None, tids: list[int]) -> list[tuple[str, str]]:
    """The CPUs, as findings name them, on which submitters mostly waited for that program: that what is slow was there is its doing."""
    if hog is None or hog.idle:
        return []
    rows = context.case.rows(
        f"""SELECT cpu, sum(duration_ns) AS waited_ns FROM waits
WHERE {waits_where(context, tids, "runnable")} AND {hog.sql} AND cpu IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"""
    )
    total = sum(float(row["waited_ns"] or 0) for row in rows)
    return [
        ("config", f"submitting cpu {row['cpu']}")
        for row in rows
        if float(row["waited_ns"] or 0) >= CROWDED_CPU_MIN * total
    ]


def _stood_still(held: TimeLost, hog: Hog | None) -> bool:
    return hog is not None and hog.idle and held.each_ns >= STILL_MIN_NS


def _culprit(held: TimeLost, hog: Hog | None) -> Culprit:
    if _stood_still(held, hog):
        return Culprit("host", "hypervisor", "standstill")
    if hog is None or hog.idle or hog.serves:
        # Who works for what the program itself asked is none of its competitors.
        return Culprit("stage", "runqueue")
    return Culprit("process", hog.name, "stage:runqueue")


def _claim(
    held: TimeLost, hog: Hog | None, crowd: Sequence[Hog], of: str = "the time of their operations"
) -> str:
    claim = (
        f"Submitters were ready to run but had no CPU in {words.percent(held.share)} of {of} ({held.times})"
    )
    if hog and hog.idle:
        why = (
            "the CPU itself stood still. Its hypervisor, or its firmware, had it elsewhere and did not count that as steal."
            if _stood_still(held, hog)
            else "the CPU was idle, and took that long to wake up."
        )
        return f"{claim}; in {words.percent(hog.share)} of that time nobody else had it: {why}"
    if hog is not None:
        return f"{claim}; {hog.told} ran in {words.percent(hog.share)} of that time."
    many = told_crowd(crowd)
    return claim + (
        f"; several programs ran meanwhile, none of them most of the time: {many}."
        if many
        else "; nobody in particular ran meanwhile."
        if crowd
        else "; who ran meanwhile was not observed."
    )


def _both(asks: str) -> str:
    return (
        "Stop it, or keep it from the CPUs and from the device: other CPUs alone leave its requests. "
        if asks
        else ""
    )


def _remedy(hog: Hog | None, crowd: Sequence[Hog]) -> str:
    if hog is None and (many := told_crowd(crowd)):
        return f"More wants to run than there are CPUs: give the program CPUs of its own (taskset, cpuset), or move the others elsewhere, {many}."
    if hog is None or hog.idle:
        return "See who uses the CPUs (top, `perf sched timehist`); on a virtual machine look at steal time, too."
    return leave_cpu(hog.told, hog.namesake)


def _operations_sql(context: Context) -> str:
    return f"""SELECT op_id, tid, comm, start_ns, latency_ns, runqueue_ns FROM measured
WHERE layer = '{context.layer}' AND runqueue_ns > 0 ORDER BY runqueue_ns DESC, op_id LIMIT 10"""


DETECTOR = Detector(
    name="cpu_delay",
    needs=("judged.runqueue_ns or waits.state",),
    needs_stages=(),
    null_model="none where operations, or their threads, were seen waiting for a CPU; where short waits make the slowest operations: each wait "
    "could have begun with any operation near it",
    smallest_effect="5 % of the time of all operations (of the submitting threads, where only waits are known)",
    run=run,
)
