"""Requests that judged operations waited for, and that found another program's inside the device: against those just before and after that found none.

`neighbour` looks at operations that begin soon after another program's requests, and `background_work` at times with it and without; a program that syncs all the
time leaves neither. But its requests come and go within milliseconds, and which of the judged requests find some of them is chance. A device that is slow for a while has more in flight:
so each request is compared with those of its kind next to it in time, those of the same block of time decide, and what it lost while the device completed nothing for half of its time does not count.

What a program wrote is still in the device's cache when its requests have ended: whoever flushes that next waits for these data. So a flush after mostly its writes is compared, too, with those
just before and after that had as much of others to make durable. What ended before a flush is known when it begins: a pause of the device meanwhile is chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import leave_device
from whodisk.detectors.served_others import silences
from whodisk.detectors.shared_devices import asking, shared_devices
from whodisk.detectors.thresholds import (
    BACKGROUND_MOVED_MIN,
    MET_OF_KIND_MIN,
    MET_REQUESTS_MAX,
    NEIGHBOUR_BLOCKS,
    NEIGHBOUR_BLOCKS_MIN,
    NEIGHBOUR_PROGRAMS_MAX,
    NEIGHBOUR_REQUESTS_MIN,
    P99_RATIO_MIN,
    REQUESTS_LOOKED_UP_MAX,
    SERVED_SILENCE_MAX,
    SHARE_FOR_P99_MIN,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.flush_owners import written_before_flushes
from whodisk.evidence.links import waited_sql
from whodisk.evidence.lost_to_requests import lost_to_requests, p99_without
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.survey import SIZE_CLASS
from whodisk.evidence.thresholds import FLUSH_OWNER_MIN
from whodisk.findings import Effect
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.machine.peers import rotates
from whodisk.reading.views import quoted
from whodisk.statistics.probability import mean_above_zero
from whodisk.statistics.stats import Bools, Floats, Ints, bootstrap_ratio


@dataclass(frozen=True)
class Waited:
    """Requests to one device that judged operations waited for, in the order in which the device got them."""

    op_id: Ints
    begin_ns: Ints
    end_ns: Ints
    #: Equal ones can be compared: of one operation, size class, and number of others of these in flight (by powers of two).
    kind: Ints

    @property
    def device_ns(self) -> Floats:
        """How long each was inside the device."""
        return (self.end_ns - self.begin_ns).astype(np.float64)


@dataclass(frozen=True)
class Met:
    """What it cost these requests to find those of a program inside the device."""

    #: Which of them.
    places: Ints
    #: How long others of their kind took just before and after, each, ns.
    usual_ns: Floats
    #: What each took beyond that (or less, below 0), ns. More counts only where the device completed others meanwhile.
    excess_ns: Floats
    #: Null: in a block of time as many of them took less than such another one there as took more.
    p_value: float
    blocks: int


def run(context: Context) -> Result:
    """A candidate for each program whose requests those of the judged one find inside a device."""
    result = Result()
    if (
        context.layer not in ("app", "syscall")
        or "block" not in context.surveys
        or "links" not in context.case.columns
    ):
        return result
    for device in shared_devices(context):
        if rotates(context, device):
            # `shared_arm` knows better.
            continue
        programs = _programs(context, device)
        if not programs:
            continue
        waited = _waited(context, device, [comm for comm, _ in programs])
        block = _block(context, waited.begin_ns)
        ended = np.sort(_inside(context, device)[1])
        for comm, requests in programs:
            theirs = met(waited, block, *_inside(context, device, comm), ended)
            thirds = [other for other, _ in programs if other != comm]
            flushes = _flushes(context, device, comm, thirds, waited)
            flushed = flushed_after(flushes, _block(context, flushes.begin_ns))
            claims = [
                _candidate(context, device, comm, requests, waited, theirs) if theirs else None,
                _candidate(context, device, comm, requests, flushes, flushed, of_flushes=True)
                if flushed
                else None,
            ]
            # The one that says more: what both cost may be the same time.
            told = sorted(
                (claim for claim in claims if claim), key=lambda claim: (claim.large, claim.share_of_latency)
            )
            result.candidates.extend(told[-1:])
    return result


def _programs(context: Context, device: str) -> list[tuple[str, int]]:
    """Other programs that move a good part of what the device does, and their requests there."""
    rows = context.case.rows(_programs_sql(context, device))
    least_bytes, least = (
        BACKGROUND_MOVED_MIN * sum(float(row[name] or 0) for row in rows) for name in ("bytes", "requests")
    )
    return [
        (str(row["comm"]), int(row["requests"] or 0))
        for row in rows
        if not row["own"]
        and not is_kernel_thread(context.case, str(row["comm"]))
        and int(row["requests"] or 0) >= NEIGHBOUR_REQUESTS_MIN
        and (float(row["bytes"] or 0) >= least_bytes or float(row["requests"] or 0) >= least)
    ][:NEIGHBOUR_PROGRAMS_MAX]


def _programs_sql(context: Context, device: str) -> str:
    return f"""SELECT comm, comm IN ({own_sql(context)}) AS own, count(*) AS requests, sum(size_bytes) AS bytes, sum(device_ns) AS device_ns
FROM (SELECT {program_sql(context)} AS comm, size_bytes, device_ns FROM measured WHERE layer = 'block' AND comm IS NOT NULL AND device = {quoted(device)}) AS r
GROUP BY 1, 2 ORDER BY requests DESC, 1"""


def _inside(context: Context, device: str, comm: str | None = None) -> tuple[Ints, Ints]:
    """When requests (of this program) went into the device, and when they came back, ns; in order of the first."""
    of = f"AND {program_sql(context)} = {quoted(comm)}" if comm else ""
    data = context.case.arrays(
        f"""SELECT start_ns + coalesce(queue_ns, 0) AS begin_ns, start_ns + latency_ns AS end_ns FROM measured
WHERE layer = 'block' AND device = {quoted(device)} {of} ORDER BY 1, 2"""
    )
    return data["begin_ns"].astype(np.int64), data["end_ns"].astype(np.int64)


def _waited(context: Context, device: str, others: list[str]) -> Waited:
    """Requests there that judged operations waited for, but those that these programs made: what is waited for with them is another question."""
    data = context.case.arrays(
        f"""SELECT op_id, start_ns + coalesce(queue_ns, 0) AS begin_ns, start_ns + latency_ns AS end_ns, hash(op, {SIZE_CLASS}) AS kind FROM block_ops
WHERE NOT open AND device = {quoted(device)} AND coalesce({program_sql(context)}, '') NOT IN ({", ".join(map(quoted, others))})
  AND op_id IN (SELECT child_id FROM ({waited_sql(context.layer)}) AS waited) ORDER BY 2, 1 LIMIT {MET_REQUESTS_MAX}"""
    )
    op_id, begin, end = (data[name].astype(np.int64) for name in ("op_id", "begin_ns", "end_ns"))
    depth = np.arange(len(begin)) - np.searchsorted(np.sort(end), begin, side="right")
    alike = np.unique(data["kind"], return_inverse=True)[1].astype(np.int64)
    return Waited(op_id, begin, end, alike * 64 + np.ceil(np.log2(depth + 1)).astype(np.int64))


@dataclass(frozen=True)
class Flushes(Waited):
    """Flush commands among these. Equal kinds: about as many bytes of others than the program that is asked for were written before them."""

    #: Whether most of what was written before each is that program's, ...
    after_its: Bools
    #: ... or that of another one beside the judged program.
    after_others: Bools


def _flushes(context: Context, device: str, comm: str, thirds: list[str], waited: Waited) -> Flushes:
    data = context.case.arrays(
        f"""SELECT op_id, its_bytes > {FLUSH_OWNER_MIN} * (its_bytes + other_bytes) AS after_its, third_bytes > {FLUSH_OWNER_MIN} * (its_bytes + other_bytes) AS after_others,
  CAST(floor(log2(greatest(other_bytes, 1))) AS INTEGER) AS kind FROM {written_before_flushes(context, device, comm, thirds)} AS f ORDER BY op_id"""
    )
    order = np.argsort(waited.op_id)
    op_id = data["op_id"].astype(np.int64)
    at = np.searchsorted(waited.op_id[order], op_id).clip(0, max(0, len(order) - 1))
    known = waited.op_id[order][at] == op_id if len(order) else np.zeros(len(op_id), np.bool_)
    place = order[at[known]]
    # In the order in which the device got them, as `waited` is.
    turn = np.argsort(place, kind="stable")
    place = place[turn]
    after_its, after_others, kind = (
        data[name][known][turn] for name in ("after_its", "after_others", "kind")
    )
    return Flushes(
        waited.op_id[place],
        waited.begin_ns[place],
        waited.end_ns[place],
        kind.astype(np.int64),
        after_its.astype(np.bool_),
        after_others.astype(np.bool_),
    )


def flushed_after(flushes: Flushes, block: Ints) -> Met | None:
    """What it cost flushes that most of what they had to make durable was that program's; None where too few had, or had not."""
    free = np.asarray(~flushes.after_its & ~flushes.after_others, np.bool_)
    if not flushes.after_its.any() or not free.any():
        return None
    return _against(flushes, block, flushes.after_its, free, np.zeros(len(free), np.bool_))


def met(waited: Waited, block: Ints, begin_ns: Ints, end_ns: Ints, ended_ns: Ints) -> Met | None:
    """Of the requests `waited`, with the block of time of each, those that found one of another program's inside the device (`begin_ns` in order, `end_ns`); `ended_ns`: all completions there, in order.

    None where too few found one, or found none, to compare in NEIGHBOUR_BLOCKS_MIN blocks of time.
    """
    before = np.searchsorted(begin_ns, waited.begin_ns, side="left")
    gone = np.searchsorted(np.sort(end_ns), waited.begin_ns, side="right")
    found = np.asarray(before > gone, np.bool_)
    if not found.any() or found.all():
        return None
    stood_still = np.zeros(len(found), np.bool_)
    stood_still[found] = (
        silences(waited.begin_ns[found], waited.end_ns[found], ended_ns)[1] >= SERVED_SILENCE_MAX
    )
    return _against(waited, block, found, np.asarray(~found, np.bool_), stood_still)


def _against(waited: Waited, block: Ints, found: Bools, free: Bools, stood_still: Bools) -> Met | None:
    """Those that are `found` against those of their kind just before and after that are `free`; while the device `stood_still`, more does not count."""
    earlier, later, near = _next_to(waited, block, free)
    places = np.flatnonzero(found & (earlier > 0))
    if len(places) < MET_OF_KIND_MIN:
        return None
    took, earlier, later, near = waited.device_ns[places], earlier[places], later[places], near[places]
    blocks, index = np.unique(block[places[near]], return_inverse=True)
    if len(blocks) < NEIGHBOUR_BLOCKS_MIN:
        return None
    still = stood_still[places]
    # A pause of the device meets those that find others inside more often, for they pile up in it: then it speaks for nobody that they took more.
    longer = np.sign(took - earlier) + np.sign(took - later)
    longer[still] = np.minimum(0.0, longer[still])
    usual = (earlier + later) / 2
    excess = took - usual
    excess[still] = np.minimum(0.0, excess[still])
    p_value = mean_above_zero(np.bincount(index, longer[near]) / np.bincount(index))
    return Met(places, usual, excess, p_value, len(blocks))


def _next_to(waited: Waited, block: Ints, free: Bools) -> tuple[Floats, Floats, Bools]:
    """For each request, how long the one before and the one after it took of those of its kind that are `free`, ns, and whether one of them is in its block of time.

    Of two the one in its block counts twice; and so does the first or last one. 0 where a kind has few.
    """
    before, after, near = np.zeros(len(free)), np.zeros(len(free)), np.zeros(len(free), np.bool_)
    took = np.maximum(1.0, waited.device_ns)
    for kind in np.unique(waited.kind):
        mine = np.flatnonzero(waited.kind == kind)
        others = mine[free[mine]]
        if len(others) < MET_OF_KIND_MIN:
            continue
        at = np.searchsorted(others, mine)
        earlier, later = others[(at - 1).clip(0)], others[at.clip(max=len(others) - 1)]
        is_near, is_near_too = block[earlier] == block[mine], block[later] == block[mine]
        before[mine] = took[np.where(is_near_too & ~is_near, later, earlier)]
        after[mine] = took[np.where(is_near & ~is_near_too, earlier, later)]
        near[mine] = is_near | is_near_too
    return before, after, near


def _candidate(
    context: Context,
    device: str,
    comm: str,
    requests: int,
    waited: Waited,
    met: Met,
    *,
    of_flushes: bool = False,
) -> Candidate | None:
    took, block = waited.device_ns[met.places], _block(context, waited.begin_ns[met.places])
    excess, whole = (
        np.bincount(block, values, NEIGHBOUR_BLOCKS).astype(np.float64) for values in (met.excess_ns, took)
    )
    part = float(excess.sum() / max(1.0, whole.sum()))
    if part <= 0:
        return None
    # What single ones lost is their own affair as well: all lost the same part of their time.
    step = -(-len(met.places) // REQUESTS_LOOKED_UP_MAX)
    looked_at = met.places[::step]
    lost = lost_to_requests(
        context,
        waited.op_id[looked_at],
        waited.end_ns[looked_at],
        part * took[::step],
        np.zeros(len(looked_at), np.int64),
        step,
    )
    if not len(lost.op_id):
        return None
    share = min(1.0, float(lost.lost_ns.sum()) * lost.weight / max(1.0, context.survey.latency_ns))
    low, high = (max(0.0, share * edge / part) for edge in bootstrap_ratio(excess, whole))
    p99_ns, without_ns = p99_without(context, lost, np.ones(len(lost.op_id), np.bool_))
    worse = p99_ns / without_ns
    usual = words.duration(float(np.median(met.usual_ns)))
    what = "flush" if of_flushes else "request"
    did = (
        "had mostly its data to make durable"
        if of_flushes
        else "found some of its requests inside the device"
    )
    claim = (
        f"{comm} uses {device}, too ({words.things(requests, 'request')}). Of {words.things(len(waited.op_id), what, words.plural_op(what))} there that operations waited for, "
        f"{words.count(len(met.places))} {did}, and took {words.duration(float(np.median(took)))}, typically; others {'with as much of other data' if of_flushes else 'of their kind'} just before "
        f"and after took {usual}. That is {words.percent(share)} of all latency. The 99th percentile is {words.duration(p99_ns)}, without these waits {words.duration(without_ns)}."
    )
    by_share = share >= SHARE_OF_LATENCY_MIN
    by_p99 = share >= SHARE_FOR_P99_MIN and worse >= P99_RATIO_MIN
    return Candidate(
        culprit=asking(comm, None),
        claim=claim,
        baseline=f"the flushes next in time after as much was written by others, most of it not by {comm}"
        if of_flushes
        else "the requests next in time of the same kind and size class, with as many of the program's own in flight, that found none of "
        f"{comm} inside the device",
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=share,
        share_of_latency=share,
        p_value=met.p_value,
        episodes=met.blocks,
        evidence=[
            evidence(context.case, f"who asked {device}, and for how much", _programs_sql(context, device))
        ],
        refute=f"Stop {comm} for a while: operations that stay slow are not its.",
        remedy=leave_device(comm),
        otherwise=claim,
        explains=none_of(context.slow),
        causes=(("stage", "device"), ("stage", "queue")),
        large=low > 0 and (by_share or by_p99),
        # Where it comes and goes, `background_work` or `neighbour` may say so, too.
        consequence=True,
        p99_ratio=worse,
    )


def _block(context: Context, moment_ns: Ints) -> Ints:
    """The block of time, of NEIGHBOUR_BLOCKS, of each moment."""
    survey = context.survey
    block = (moment_ns - survey.begin_ns) * NEIGHBOUR_BLOCKS // max(1, survey.span_ns)
    return np.asarray(block.clip(0, NEIGHBOUR_BLOCKS - 1), np.int64)


DETECTOR = Detector(
    name="met_requests",
    needs=("judged.start_ns", "links.kind"),
    needs_stages=(),
    null_model="in a block of time, requests that find some of the other program's inside the device take more as often as less than those of their kind just before and after",
    smallest_effect="5 % of all latency, or 0.2 % and a 99th percentile 1.2 times what it would be",
    run=run,
)
