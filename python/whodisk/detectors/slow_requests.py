"""Requests that are far slower than others of their kind, inside operations of several requests.

A commit that makes nine requests and meets one slow flush takes three times its usual time: at its own layer nothing stands apart. The flush does, among
flushes. So requests are looked at as `stage_blame` looks at operations, and what the judged operations lost to the slow ones is added up.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.blamed_device import (
    Suspect,
    device_of,
    remedy_at_user,
    said_of_user,
    under_loop,
    user_below,
)
from whodisk.detectors.late_workers import late_workers
from whodisk.detectors.own_bulk import behind_bulk
from whodisk.detectors.served_others import passed_over
from whodisk.detectors.slow_groups import bunched_p_of, p_value_of, refute_of, remedy_of
from whodisk.detectors.thresholds import (
    FLUSH_AFTER_MAX,
    FLUSH_COVERS_MIN,
    ONE_KIND_MOSTLY,
    OUTLIER_EPISODES_MIN,
    OUTLIER_RATIO_MIN,
    P99_RATIO_MIN,
    REQUESTS_LOOKED_UP_MAX,
    REQUESTS_PER_OPERATION_MIN,
    SHARE_FOR_P99_MIN,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.lost_to_requests import Lost, lost_to_requests, p99_without
from whodisk.evidence.slow_operations import SlowSet
from whodisk.evidence.thresholds import WORK_LATENCY_MAX
from whodisk.findings import Culprit, Effect
from whodisk.machine.peers import judged_elsewhere
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import (
    Bools,
    Floats,
    Ints,
    bootstrap_sum,
    episodes,
    overlap,
)

#: Where a slow request is the device's, or that of who stands before it.
LOOKED_AT = ("queue", "device")


def run(context: Context) -> Result:
    """One candidate per stage and device with slow requests."""
    result = Result()
    if not _hides_requests(context):
        return result
    below = context.requests
    slow = below.slow
    if not len(slow):
        return result
    usable = (
        ~passed_over(below) & ~slow.ordinary & ~_in_turn(context, slow) & ~_behind_ordinary_flushes(below)
    )
    for bulk in behind_bulk(below, context):
        usable &= ~bulk.behind
    for late in late_workers(below):
        usable &= ~late.held
    devices = sorted(set(slow.device.astype(str).tolist()) - judged_elsewhere(context, below.survey))
    for stage in LOOKED_AT:
        number = STAGES.index(stage)
        for device in devices:
            part = np.asarray(usable & (slow.blamed == number) & (slow.device == device), np.bool_)
            if part.any():
                part &= ~_usual_after_as_much(below, part, device)
            if not part.any():
                continue
            suspect = Suspect(number, part, episodes(slow.start_ns[part], slow.end_ns[part]))
            found = _candidate(context, below, suspect)
            if found is not None:
                result.candidates.append(found)
    return result


def _hides_requests(context: Context) -> bool:
    """Whether the judged operations wait for several requests each, or readahead makes most requests, so that a slow one need not show in them."""
    if context.layer == "block" or "block" not in context.surveys or "links" not in context.case.columns:
        return False
    row = context.case.rows(
        "SELECT count(*) AS links, approx_count_distinct(parent_id) AS operations FROM links WHERE kind = 'waits_for'"
    )[0]
    links, operations = float(row["links"] or 0), float(row["operations"] or 0)
    if operations > 0 and links >= REQUESTS_PER_OPERATION_MIN * operations:
        return True
    # Readahead asks before the program does: only reads that came too early wait, and where most of those met a slow request, nothing is slower than they.
    requests = sum(stratum.operations for stratum in context.surveys["block"].select(op="read"))
    waited = sum(stratum.operations for stratum in context.survey.select(op="read") if stratum.device)
    return 0 < REQUESTS_PER_OPERATION_MIN * waited <= requests


def _in_turn(context: Context, slow: SlowSet) -> Bools:
    """Which of these waited while their device took the others before them at its pace: a limit, and no request of them is slow by itself."""
    waited = np.zeros(len(slow), np.bool_)
    for pace in context.paces:
        waited |= (slow.device == pace.device) & pace.covers(slow.start_ns, slow.end_ns)
    return waited


def _behind_ordinary_flushes(below: Context) -> Bools:
    """Slow requests that the device completed as soon as flushes were done, none of which was slow: it does nothing else meanwhile."""
    slow = below.slow
    waited = np.zeros(len(slow), np.bool_)
    data = below.case.arrays(
        """SELECT device, op_id, start_ns + coalesce(queue_ns, 0) AS begin_ns, start_ns + latency_ns AS end_ns FROM block_ops
WHERE op = 'flush' AND NOT open ORDER BY end_ns, op_id"""
    )
    ordinary = ~np.isin(data["op_id"].astype(np.int64), slow.op_id)
    begin_ns, end_ns = slow.start_ns.astype(np.float64), slow.end_ns.astype(np.float64)
    for device in np.unique(data["device"][ordinary].astype(str)):
        mine = ordinary & (data["device"].astype(str) == device)
        flush_begin_ns, flush_end_ns = (
            data[name][mine].astype(np.float64) for name in ("begin_ns", "end_ns")
        )
        last = np.searchsorted(flush_end_ns, end_ns, side="right") - 1
        after_ns = np.where(last >= 0, end_ns - flush_end_ns[np.maximum(last, 0)], np.inf)
        covered_ns = overlap(begin_ns, end_ns, flush_begin_ns, flush_end_ns)
        took_ns = end_ns - begin_ns
        behind = (covered_ns >= FLUSH_COVERS_MIN * took_ns) & (after_ns <= FLUSH_AFTER_MAX * took_ns)
        waited |= behind & (slow.device == device) & (slow.op != "flush")
    return waited


def _usual_after_as_much(below: Context, part: Bools, device: str) -> Bools:
    """Slow flushes that took no more than twice the median of those before which about as much was written (the same power of two): that is work."""
    slow = below.slow
    usual = np.zeros(len(slow), np.bool_)
    flushes = part & (slow.op.astype(str) == "flush")
    if not flushes.any():
        return usual
    data = below.case.arrays(
        f"""WITH moved AS (SELECT op_id, op, latency_ns, start_ns, sum(CASE WHEN op = 'write' THEN size_bytes END) OVER (ORDER BY start_ns, op_id) AS bytes
  FROM measured WHERE layer = 'block' AND device = {quoted(device)} AND op IN ('write', 'flush')),
flushes AS (SELECT op_id, latency_ns, bytes - coalesce(lag(bytes) OVER (ORDER BY start_ns, op_id), 0) AS written FROM moved WHERE op = 'flush')
SELECT op_id, median(latency_ns) OVER (PARTITION BY floor(log2(greatest(1, coalesce(written, 0))))) AS alike_ns FROM flushes ORDER BY op_id"""
    )
    known_id, alike_ns = data["op_id"].astype(np.int64), data["alike_ns"].astype(np.float64)
    # What has not ended yet is like none.
    limit_ns = WORK_LATENCY_MAX * _of_each(slow.op_id[flushes], known_id, alike_ns)
    usual[flushes] = slow.latency_ns[flushes] <= limit_ns
    return usual


def _of_each(op_id: Ints, known_id: Ints, values: Floats) -> Floats:
    """The value of each of these operations, 0 where there is none; `known_id` in ascending order."""
    if not len(known_id):
        return np.zeros(len(op_id))
    at = np.searchsorted(known_id, op_id).clip(max=len(known_id) - 1)
    return np.where(known_id[at] == op_id, values[at], 0.0)


def _candidate(context: Context, below: Context, suspect: Suspect) -> Candidate | None:
    lost = _lost(context, below, suspect)
    if not len(lost.op_id):
        return None
    whole_ns = max(1.0, context.survey.latency_ns)
    per_episode = np.bincount(lost.label, lost.lost_ns * lost.weight, suspect.episodes) / whole_ns
    share = float(per_episode.sum())
    low, high = bootstrap_sum(per_episode)
    largest = int(np.argmax(per_episode))
    p99_ns, without_ns = p99_without(context, lost, np.ones(len(lost.op_id), np.bool_))
    worse = p99_ns / without_ns
    # A percentile that one episode made says nothing of the others.
    still_worse = p99_without(context, lost, lost.label == largest)[1] / without_ns
    ratio = float(np.median(below.slow.ratio[suspect.chosen]))
    enough = suspect.episodes >= OUTLIER_EPISODES_MIN and ratio >= OUTLIER_RATIO_MIN
    by_share = share >= SHARE_OF_LATENCY_MIN and low > 0
    by_p99 = share >= SHARE_FOR_P99_MIN and still_worse >= P99_RATIO_MIN
    stage = context.stage(STAGES[suspect.stage])
    claim = _claim(below, suspect, lost, share, p99_ns, without_ns)
    device = device_of(below, suspect)
    remedy = remedy_of(stage, STAGES[suspect.stage])
    claim += under_loop(below, suspect, device)
    if (user := user_below(below, suspect, device)) is not None:
        claim, remedy = claim + said_of_user(user), remedy_at_user(user, remedy)
    by_slow, excess = _lost_by_slow(context, lost), context.slow.excess_ns
    return Candidate(
        culprit=Culprit("stage", stage, f"device:{device}" if device else None),
        claim=claim,
        baseline="the median request of the same device, kind, size class and queue depth class in this case",
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=float(by_slow.sum() / max(1.0, float(excess.sum()))),
        share_of_latency=share,
        p_value=p_value_of(below, suspect, bunched_p_of(below, suspect)),
        episodes=suspect.episodes,
        evidence=[
            evidence(context.case, "the slowest of these requests", _slowest_sql(below, suspect)),
            evidence(context.case, "operations that waited longest for one", _waited_sql(context, lost)),
        ],
        refute=refute_of(stage, STAGES[suspect.stage]),
        remedy=remedy,
        otherwise=claim,
        # Those that lost half of their excess to slow requests.
        explains=np.asarray((by_slow > 0) & (by_slow >= 0.5 * excess), np.bool_),
        large=enough and (by_share or by_p99),
        consequence=True,
        p99_ratio=worse,
    )


def _lost(context: Context, below: Context, suspect: Suspect) -> Lost:
    slow, chosen = below.slow, np.flatnonzero(suspect.chosen)
    step = -(-len(chosen) // REQUESTS_LOOKED_UP_MAX)
    places, numbers = chosen[::step], suspect.numbers[::step]
    ids = slow.op_id[places]
    return lost_to_requests(
        context,
        ids,
        slow.end_ns[places],
        slow.stage_excess_ns[places, suspect.stage],
        numbers,
        slow.thinning * step,
    )


def _lost_by_slow(context: Context, lost: Lost) -> Floats:
    """Of what each slow operation lost the part that slow requests took, ns."""
    slow = context.slow
    by_requests = _of_each(slow.op_id, lost.op_id, lost.lost_ns) * slow.weight * slow.thinning
    return np.asarray(np.minimum(by_requests, slow.excess_ns), np.float64)


def _claim(
    below: Context,
    suspect: Suspect,
    lost: Lost,
    share: float,
    p99_ns: float,
    without_ns: float,
) -> str:
    slow, chosen = below.slow, suspect.chosen
    ops, sizes = np.unique(slow.op[chosen].astype(str), return_counts=True)
    main = str(ops[np.argmax(sizes)])
    of_kind = sizes.max() >= ONE_KIND_MOSTLY * chosen.sum()
    kind, counted = (words.plural_op(main), [main]) if of_kind else ("requests", list(ops))
    total = sum(s.operations for s in below.survey.strata if s.op in counted)
    every = total / max(1.0, np.isin(slow.op[chosen].astype(str), counted).sum() * slow.thinning)
    waited, times = np.unique(lost.op, return_counts=True)
    waiting = str(waited[np.argmax(times)])
    device = str(slow.device[chosen][0])
    p99, without = words.duration(p99_ns), words.duration(without_ns)
    percentile = f" The 99th percentile is {p99}, without these waits {without}." if p99 != without else ""
    return (
        f"1 in {words.significant(every)} {kind} of {device} took {words.duration(float(np.median(slow.latency_ns[chosen])))} where "
        f"{words.duration(float(np.median(slow.typical_ns[chosen])))} is typical, and lost the time in the "
        f"{below.stage(STAGES[suspect.stage])} stage. {words.things(len(lost.op_id) * lost.weight, waiting, words.plural_op(waiting))} waited for one, "
        f"{words.duration(float(np.median(lost.lost_ns)))} longer each: {words.percent(share)} of all latency.{percentile}"
    )


def _listed(op_ids: Ints) -> str:
    return ", ".join(str(int(number)) for number in op_ids) or "NULL"


def _slowest_sql(below: Context, suspect: Suspect) -> str:
    slow, places = below.slow, np.flatnonzero(suspect.chosen)
    slowest = places[np.argsort(-slow.stage_excess_ns[places, suspect.stage], kind="stable")][:10]
    return f"""SELECT op_id, start_ns, op, device, size_bytes, queue_depth, latency_ns, {STAGES[suspect.stage]}_ns FROM block_ops
WHERE op_id IN ({_listed(slow.op_id[slowest])}) ORDER BY latency_ns DESC, op_id"""


def _waited_sql(context: Context, lost: Lost) -> str:
    longest = np.argsort(-lost.lost_ns, kind="stable")[:10]
    return f"""SELECT op_id, start_ns, op, tid, comm, latency_ns FROM measured
WHERE layer = '{context.layer}' AND op_id IN ({_listed(lost.op_id[longest])}) ORDER BY latency_ns DESC, op_id"""


DETECTOR = Detector(
    name="slow_requests",
    needs=("judged.start_ns", "judged.latency_ns", "links.kind"),
    needs_stages=("queue", "device"),
    null_model="that of stage_blame, for requests: slow ones are the natural tail of their kind, and each could have been any other",
    smallest_effect="requests of 10 x typical in at least 3 episodes, that cost 5 % of all latency; or 0.2 % and make the 99th percentile 1.2 times what "
    "it would be",
    run=run,
)
