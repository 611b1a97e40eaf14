"""Requests that judged operations waited for, and that wait in a queue while another program's are issued that came later.

Whoever comes first is served first, unless a scheduler prefers somebody: by I/O priority, weight, deadline or the turn of a process. So nothing is compared here: each request that went past
is known, and the time that it was inside the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.shared_devices import shared_devices
from whodisk.detectors.thresholds import (
    MET_REQUESTS_MAX,
    NEIGHBOUR_PROGRAMS_MAX,
    OVERTAKEN_MIN,
    OVERTAKEN_WAIT_MIN_NS,
    P99_RATIO_MIN,
    REQUESTS_LOOKED_UP_MAX,
    SHARE_FOR_P99_MIN,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.links import waited_sql
from whodisk.evidence.lost_to_requests import Lost, lost_to_requests, p99_without
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.time_lost import lost_mostly
from whodisk.findings import Culprit, Effect
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Floats, Ints, bootstrap_sum, disjoint, episodes

#: From when a request was in the queue, and from when inside the device, ns.
_MOMENTS = (
    "start_ns + coalesce(throttle_ns, 0) AS came_ns, start_ns + coalesce(throttle_ns, 0) + coalesce(queue_ns, 0) AS issued_ns, "
    "start_ns + latency_ns AS end_ns"
)


@dataclass(frozen=True)
class Queued:
    """Requests to one device in the order in which they came into its queue, ns."""

    op_id: Ints
    came_ns: Ints
    issued_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.op_id)


@dataclass(frozen=True)
class Overtaken:
    """What requests lost to those of one program that came later and were issued earlier."""

    #: Which of the requests.
    places: Ints
    #: How long each waited while such a one was inside the device, ns; what overlaps counts once.
    lost_ns: Floats
    #: How many went past at least one of them.
    others: int


def run(context: Context) -> Result:
    """A candidate for each program whose requests go past those of the judged one."""
    result = Result()
    if (
        context.layer not in ("app", "syscall")
        or "block" not in context.surveys
        or "links" not in context.case.columns
    ):
        return result
    for device in shared_devices(context):
        waited = _waited(context, device)
        for comm in _programs(context, device) if len(waited) else []:
            found = overtaken(waited, _queued(context, device, f"{program_sql(context)} = {quoted(comm)}"))
            claim = (
                _candidate(context, device, comm, waited, found) if found.others >= OVERTAKEN_MIN else None
            )
            if claim is not None:
                result.candidates.append(claim)
    return result


def overtaken(waited: Queued, others: Queued) -> Overtaken:
    """Of the requests `waited`, those that some of the `others` went past."""
    places, lost_ns = [], []
    passed = np.zeros(len(others), np.bool_)
    first = np.searchsorted(others.came_ns, waited.came_ns, side="right")
    last = np.searchsorted(others.came_ns, waited.issued_ns, side="left")
    for place in np.flatnonzero(last > first):
        later = slice(int(first[place]), int(last[place]))
        until = waited.issued_ns[place]
        earlier = others.issued_ns[later] < until
        if not earlier.any():
            continue
        passed[later] |= earlier
        begin, end = others.issued_ns[later][earlier], np.minimum(others.end_ns[later][earlier], until)
        low, high = disjoint(begin, end)
        places.append(int(place))
        lost_ns.append(float(np.maximum(0, high - low).sum()))
    return Overtaken(np.array(places, np.int64), np.array(lost_ns, np.float64), int(passed.sum()))


def _programs(context: Context, device: str) -> list[str]:
    """Programs that are not judged, those with the most requests first."""
    rows = context.case.rows(_programs_sql(context, device))
    names = [
        str(row["comm"]) for row in rows if not row["own"] and int(row["requests"] or 0) >= OVERTAKEN_MIN
    ]
    return [name for name in names if not is_kernel_thread(context.case, name)][:NEIGHBOUR_PROGRAMS_MAX]


def _programs_sql(context: Context, device: str) -> str:
    return f"""SELECT comm, comm IN ({own_sql(context)}) AS own, count(*) AS requests, sum(queue_ns) AS queue_ns, sum(device_ns) AS device_ns
FROM (SELECT {program_sql(context)} AS comm, queue_ns, device_ns FROM measured WHERE layer = 'block' AND comm IS NOT NULL AND device = {quoted(device)}) AS r
GROUP BY 1, 2 ORDER BY requests DESC, 1"""


def _waited(context: Context, device: str) -> Queued:
    """Requests there that judged operations waited for, and that waited in the queue."""
    return _queued(
        context,
        device,
        f"queue_ns >= {OVERTAKEN_WAIT_MIN_NS} AND op_id IN (SELECT child_id FROM ({waited_sql(context.layer)}) AS waited)",
    )


def _queued(context: Context, device: str, condition: str) -> Queued:
    data = context.case.arrays(
        f"""SELECT op_id, {_MOMENTS} FROM block_ops
WHERE NOT open AND device = {quoted(device)} AND queue_ns IS NOT NULL AND {condition} ORDER BY 2, 1 LIMIT {MET_REQUESTS_MAX}"""
    )
    return Queued(*(data[name].astype(np.int64) for name in ("op_id", "came_ns", "issued_ns", "end_ns")))


def _candidate(
    context: Context, device: str, comm: str, waited: Queued, found: Overtaken
) -> Candidate | None:
    step = -(-len(found.places) // REQUESTS_LOOKED_UP_MAX)
    places = found.places[::step]
    lost = lost_to_requests(
        context,
        waited.op_id[places],
        waited.issued_ns[places],
        found.lost_ns[::step],
        np.zeros(len(places), np.int64),
        step,
    )
    if not len(lost.op_id):
        return None
    total = max(1.0, context.survey.latency_ns)
    # Requests that wait together wait for the same ones.
    together = episodes(waited.came_ns[places], waited.issued_ns[places])
    per_episode = np.bincount(together, found.lost_ns[::step])
    share = min(1.0, float(lost.lost_ns.sum()) * lost.weight / total)
    low, high = (share * edge for edge in bootstrap_sum(per_episode / max(1.0, float(per_episode.sum()))))
    p99_ns, without_ns = p99_without(context, lost, np.ones(len(lost.op_id), np.bool_))
    worse = p99_ns / without_ns
    scheduler = _scheduler(context, device)
    claim = (
        f"{comm} uses {device}, too, and in its queue{f' (scheduler {scheduler})' * bool(scheduler)} {words.things(found.others, 'request')} of {comm} went past "
        f"{words.things(len(found.places), 'request')} that had come before and that operations waited for. In {words.percent(share)} of their time "
        f"operations waited there while the device worked for those. "
        f"The 99th percentile is {words.duration(p99_ns)}, without these waits {words.duration(without_ns)}."
    )
    return Candidate(
        culprit=Culprit("process", comm, "stage:queue"),
        claim=claim,
        baseline=f"the same operations without the time in which requests of {comm} that came later were inside the device",
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        p_value=0.0,
        episodes=len(per_episode),
        basis="measured",
        summed=True,
        evidence=[
            evidence(
                context.case,
                f"who waited in the queue of {device}, and who was inside",
                _programs_sql(context, device),
            )
        ],
        refute=f"Stop {comm} for a while, or give both the same I/O priority and weight: if operations wait in the queue as long, it is not its requests.",
        remedy=f"Compare the I/O priority of both (ionice -p PID) and the weights of their groups (io.weight, io.bfq.weight): give {comm} the lower one"
        f"{f', or choose another scheduler than {scheduler}' if scheduler else ''}; or let {comm} work at another time.",
        otherwise=claim,
        explains=_explains(context, lost),
        causes=(("stage", "queue"),),
        large=low > 0
        and (share >= SHARE_OF_LATENCY_MIN or (share >= SHARE_FOR_P99_MIN and worse >= P99_RATIO_MIN)),
        p99_ratio=worse,
    )


def _explains(context: Context, lost: Lost) -> Bools:
    """Slow operations that lost half of their excess or more so."""
    slow = context.slow
    order = np.argsort(lost.op_id)
    at = np.searchsorted(lost.op_id[order], slow.op_id).clip(0, len(order) - 1)
    known = lost.op_id[order][at] == slow.op_id
    return lost_mostly(slow, np.where(known, lost.lost_ns[order][at], 0.0))


def _scheduler(context: Context, device: str) -> str:
    """Its name; empty where there is none, or it is not known."""
    queue = ((context.case.system.get("devices") or {}).get(device) or {}).get("queue") or {}
    name = words.in_use(str(queue.get("scheduler") or ""))
    return "" if name == "none" else name


DETECTOR = Detector(
    name="overtaken",
    needs=("judged.start_ns", "links.kind"),
    needs_stages=("queue",),
    null_model="none: when each request came into the queue, was issued and ended stands in the record",
    smallest_effect="5 % of all latency, or 0.2 % and a 99th percentile 1.2 times what it would be",
    run=run,
)
