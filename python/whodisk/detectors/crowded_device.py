"""Another program that fills the slots of a device, and for which the judged operations wait in its queue.

`background_work` compares a program's presence with its absence; one that never stops has no absence. Here nothing is compared:
an operation that waits in the queue of a device waits for the requests that hold its slots, and the record names their programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import of_time_lost
from whodisk.detectors.thresholds import (
    CROWDED_REQUESTS_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
    WORSE_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.thresholds import LOSS_BLOCKS
from whodisk.evidence.time_lost import TimeLost, lost_per_episode, p99_ratio, weigh
from whodisk.findings import Culprit
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import STAGES
from whodisk.statistics.stats import Floats, bootstrap_sum, placed


@dataclass(frozen=True)
class Crowd:
    """A program that is not judged, and its part of the slots."""

    comm: str
    requests: int
    #: Of the time of all requests inside the devices, where the judged program's requests go, too.
    share: float
    held: TimeLost
    #: What each judged operation waited for it: a query with `op_id` and `lost_ns`.
    lost_sql: str


def run(context: Context) -> Result:
    """A candidate for each program with requests that the judged operations wait for."""
    result = Result()
    if context.layer not in ("app", "syscall") or "block" not in context.surveys:
        return result
    rows = context.case.arrays(slots_sql(context))
    waited, whole = _waited(context)
    names, place = rows["comm"].astype(str), rows["block"].astype(np.int64)
    busy, count = rows["device_ns"].astype(np.float64), rows["n"].astype(np.int64)
    every = np.bincount(place, busy, LOSS_BLOCKS)
    for name in sorted({str(name) for name in names[~rows["own"].astype(np.bool_)]}):
        mine = names == name
        if is_kernel_thread(context.case, name) or count[mine].sum() < CROWDED_REQUESTS_MIN:
            continue
        part = np.bincount(place[mine], busy[mine], LOSS_BLOCKS) / np.maximum(every, 1.0)
        held = weigh(
            waited * part, whole, int(count[mine].sum()), np.full(LOSS_BLOCKS, np.nan), context.survey.span_ns
        )
        if held is not None:
            share = float(busy[mine].sum() / max(1.0, every.sum()))
            crowd = Crowd(name, held.count, share, held, _lost_sql(context, part))
            result.candidates.append(_candidate(context, crowd))
    return result


def slots_sql(context: Context) -> str:
    """Time of requests inside the devices that the judged program uses, per program and block of time."""
    own = own_sql(context)
    return f"""SELECT comm, comm IN ({own}) AS own, block, sum(device_ns) AS device_ns, count(*) AS n
FROM (SELECT {program_sql(context)} AS comm, {context.survey.time_bin_sql(LOSS_BLOCKS)} AS block, device_ns FROM measured
  WHERE layer = 'block' AND comm IS NOT NULL AND device_ns > 0
    AND device IN (SELECT device FROM measured WHERE layer = 'block' AND comm IN ({own}) AND queue_ns > 0 GROUP BY 1)) AS r
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def _lost_sql(context: Context, part: Floats) -> str:
    """`part`: of the slots that the program holds, per block of time."""
    held = ", ".join(f"({block}, {float(part[block])!r})" for block in np.flatnonzero(part > 0).tolist())
    return f"""SELECT w.op_id, w.queue_ns * p.part AS lost_ns
FROM (SELECT op_id, queue_ns, {context.survey.time_bin_sql(LOSS_BLOCKS)} AS block FROM measured WHERE layer = '{context.layer}' AND queue_ns > 0) AS w
JOIN (VALUES {held}) AS p(block, part) ON p.block = w.block"""


def _waited(context: Context) -> tuple[Floats, Floats]:
    """Time of the judged operations in the stage `queue`, and in all stages, per block of time, ns."""
    data = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(LOSS_BLOCKS)} AS block, coalesce(sum(queue_ns), 0) AS queue_ns, sum(latency_ns) AS latency_ns
FROM measured WHERE layer = '{context.layer}' GROUP BY 1 ORDER BY 1"""
    )
    waited, whole = (
        placed(data["block"], data[column], LOSS_BLOCKS) for column in ("queue_ns", "latency_ns")
    )
    return waited, whole


def _candidate(context: Context, crowd: Crowd) -> Candidate:
    waited = sum(float(s.stage_ns[STAGES.index("queue")]) for s in context.survey.strata)
    part = words.percent(waited / max(1.0, context.survey.latency_ns))
    claim = (
        f"Operations spend {part} of their time in the queue of a device; {crowd.comm} fills its slots, too: "
        f"{words.things(crowd.requests, 'request')}, {words.percent(crowd.share)} of the time that the device worked for anybody. "
        f"Waiting for these is {words.percent(crowd.held.share)} of all latency."
    )
    found = of_time_lost(
        crowd.held,
        culprit=Culprit("process", crowd.comm, "stage:queue"),
        claim=claim,
        baseline=f"the same operations without the part of their waiting in which {crowd.comm} held the slots",
        metric="part of the operations' time",
        evidence=[
            evidence(
                context.case,
                "which programs had requests inside the devices, and for how long",
                _shares_sql(context),
            )
        ],
        refute=f"Stop {crowd.comm} for a while: if operations wait in the queue as long, it is not its requests.",
        remedy=f"Let {crowd.comm} have fewer requests in flight, or work at another time or on another device: io.weight or io.max "
        "for its group, ionice -c3.",
        explains=none_of(context.slow),
        causes=tuple(("stage", stage) for stage in STAGES),
    )
    # Where it comes and goes, `background_work` and `burst` report it, too.
    found.consequence = True
    below = sum(
        float(s.stage_ns[STAGES.index(name)]) for s in context.survey.strata for name in ("queue", "device")
    )
    # A device whose slots are full works at its limit: what others have in it makes its own time longer, too. By how much is not recorded.
    found.likely_share = crowd.share * min(1.0, below / max(1.0, context.survey.latency_ns))
    if crowd.held.share >= SHARE_OF_LATENCY_FLOOR:
        _weigh_those_behind(context, crowd, found)
    return found


def _weigh_those_behind(context: Context, crowd: Crowd, found: Candidate) -> None:
    """Of operations that are due at times of their own, those that waited behind lost it, too."""
    found.p99_ratio = p99_ratio(context, crowd.lost_sql)
    found.lost_sql = crowd.lost_sql
    lost_ns = lost_per_episode(context, crowd.lost_sql)
    share = min(1.0, float(lost_ns.sum()) / max(1.0, context.survey.latency_ns))
    if share <= found.share_of_latency * (1 + WORSE_MIN):
        return
    low, high = bootstrap_sum(lost_ns / max(1.0, context.survey.latency_ns))
    found.claim += f" With what waited behind those, it is {words.percent(share)}."
    found.otherwise = found.claim
    found.effect = replace(found.effect, value=share, low=low, high=min(1.0, high))
    found.share_of_excess = found.share_of_latency = share
    found.large = share >= SHARE_OF_LATENCY_MIN


def _shares_sql(context: Context) -> str:
    return f"""SELECT comm, own, sum(n) AS requests, sum(device_ns) AS device_ns FROM ({slots_sql(context)}) AS s
GROUP BY 1, 2 ORDER BY 4 DESC, 1, 2 LIMIT 20"""


DETECTOR = Detector(
    name="crowded_device",
    needs=("judged.queue_ns", "judged.comm"),
    needs_stages=("queue",),
    null_model="none: how long operations waited in the queue stands in the record, and how long the requests of each program held the slots meanwhile",
    smallest_effect="5 % of the time of all operations",
    run=run,
)
