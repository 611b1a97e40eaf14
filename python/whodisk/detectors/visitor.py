"""Another program that used a device once, and left again or stayed: the judged program's own requests before, during and after.

`background_work` needs several visits, `slower_since` a device that had no more to do than before. A visit says enough by itself where requests of the same kind and
size take longer from its begin on, in all of it, and as long as before from its end on, where it has one. Only what the other program began counts: a device that pauses
collects the requests of whoever uses it, but does not make it begin more of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.candidates import leave_device
from whodisk.detectors.shared_devices import asking, disk_asked, disks_below, shared_devices, where
from whodisk.detectors.thresholds import (
    NEWCOMER_OFF_MAX,
    NEWCOMER_OUTSIDE,
    SHARE_OF_LATENCY_MIN,
    VISITOR_AROUND_MIN,
    VISITOR_BACK_MAX,
    VISITOR_BLOCKS,
    VISITOR_KIND_MIN,
    VISITOR_MORE_MAX,
    VISITOR_ONSET_MAX,
    VISITOR_PART_MIN,
    VISITOR_RATIO_MIN,
    VISITOR_RUN,
    VISITOR_UNLIKE_MAX,
)
from whodisk.evidence.context import Context
from whodisk.evidence.programs import own_sql, program_sql
from whodisk.evidence.slow_operations import waited_for
from whodisk.evidence.survey import SIZE_CLASS, thinned
from whodisk.evidence.time_lost import share_lost
from whodisk.findings import Effect
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Floats, Ints, bootstrap_sum


@dataclass(frozen=True)
class Requests:
    """Requests of the judged program, in order of their begin."""

    start_ns: Ints
    latency_ns: Floats
    size_bytes: Floats
    #: Same device, kind and size class.
    kind: Ints

    def pick(self, chosen: Bools) -> Requests:
        """Some of them."""
        return Requests(
            self.start_ns[chosen], self.latency_ns[chosen], self.size_bytes[chosen], self.kind[chosen]
        )


@dataclass(frozen=True)
class Visit:
    """When a program used the devices, and how long requests of the judged one took before, meanwhile and after, by kinds that occur in all three."""

    comm: str
    begin_ns: int
    end_ns: int
    requests: int
    in_flight: float
    #: Geometric means over kinds of their medians, ns.
    before_ns: float
    during_ns: float
    #: None: it stayed to the end of the run.
    after_ns: float | None
    #: How much longer (a logarithm) each block of the visit was than the time around it.
    rises: Floats
    #: Whether operations were compared, not requests: there were too few of these.
    of_operations: bool = False


def run(context: Context) -> Result:
    """A candidate for each program with a visit that slowed the judged one's requests."""
    result = Result()
    if context.layer not in ("app", "syscall") or "block" not in context.surveys:
        return result
    shared = shared_devices(context)
    if not shared:
        return result
    below = disks_below(context, shared)
    latest_ns = context.survey.end_ns - VISITOR_AROUND_MIN * context.survey.span_ns
    own: Requests | None = None
    operations: Requests | None = None
    seen: set[str] = set()
    for devices in (shared, [*below]) if below else (shared,):
        for comm, last_ns in _programs(context, devices):
            if comm in seen or is_kernel_thread(context.case, comm):
                continue
            own = own or _own(context, shared)
            stays = _stays(context, own, last_ns)
            if last_ns > latest_ns and not stays:
                continue
            seen.add(comm)
            theirs = _begun(context, devices, comm, own, stays=stays)
            if theirs is None:
                continue
            visit = _compared(own, theirs, stays=stays)
            if visit is None and _has_few(own, theirs):
                operations = operations or _own_operations(context, shared)
                visit = _compared(operations, theirs, stays=stays, few=True)
            if visit is not None:
                disk = disk_asked(context, shared, below, comm)
                result.candidates.append(
                    _candidate(context, shared, devices, visit, disk, where(disk, below))
                )
    return result


def programs_sql(context: Context, devices: list[str]) -> str:
    """Who began how many requests to these devices, and when."""
    names = ", ".join(map(quoted, devices)) or "NULL"
    return f"""SELECT comm, count(*) AS requests, sum(size_bytes) AS bytes, CAST(quantile_cont(start_ns, {NEWCOMER_OUTSIDE}) AS BIGINT) AS begin_ns, CAST(quantile_cont(start_ns, {1 - NEWCOMER_OUTSIDE}) AS BIGINT) AS end_ns
FROM (SELECT {program_sql(context)} AS comm, size_bytes, start_ns FROM measured WHERE layer = 'block' AND comm IS NOT NULL AND device IN ({names})) AS requests
WHERE comm NOT IN ({own_sql(context)}) GROUP BY 1 ORDER BY 2 DESC, 1"""


def _programs(context: Context, devices: list[str]) -> list[tuple[str, float]]:
    """Those that came with enough of the run before them, and until when they began requests."""
    earliest_ns = context.survey.begin_ns + VISITOR_AROUND_MIN * context.survey.span_ns
    return [
        (str(row["comm"]), float(row["end_ns"] or 0))
        for row in context.case.rows(programs_sql(context, devices))
        if float(row["begin_ns"] or 0) >= earliest_ns and int(row["requests"] or 0) >= VISITOR_KIND_MIN
    ]


def _stays(context: Context, own: Requests, last_ns: float) -> bool:
    """Whether a program whose requests begin until then was there until the judged one made its last."""
    if not len(own.start_ns):
        return False
    end_ns, begin_ns = int(own.start_ns[-1]), context.survey.begin_ns
    return last_ns >= end_ns - NEWCOMER_OFF_MAX * (end_ns - begin_ns)


def _own(context: Context, devices: list[str]) -> Requests:
    names = ", ".join(map(quoted, devices))
    data = context.case.arrays(
        f"""SELECT start_ns, latency_ns, coalesce(size_bytes, 0) AS size_bytes, hash(device, op, {SIZE_CLASS}) AS kind FROM measured
WHERE layer = 'block' AND op IN ('read', 'write') AND device IN ({names}) AND {program_sql(context)} IN ({own_sql(context)}) AND {thinned(context.surveys["block"].operations)} ORDER BY start_ns, op_id"""
    )
    return _requests(data)


def _own_operations(context: Context, devices: list[str]) -> Requests:
    """Judged operations that spent most of their time at these devices, or waiting for them."""
    return _requests(context.case.arrays(_operations_sql(context, devices)))


def _operations_sql(context: Context, devices: list[str]) -> str:
    names = ", ".join(map(quoted, devices))
    return f"""SELECT op_id, start_ns, latency_ns, coalesce(size_bytes, 0) AS size_bytes, hash(op, {SIZE_CLASS}) AS kind FROM measured
WHERE layer = '{context.layer}' AND device IN ({names}) AND 2 * (coalesce(queue_ns, 0) + coalesce(device_ns, 0)) >= latency_ns AND {thinned(context.survey.operations)} ORDER BY start_ns, op_id"""


def _requests(data: dict[str, np.ndarray]) -> Requests:
    return Requests(
        data["start_ns"].astype(np.int64),
        np.maximum(data["latency_ns"].astype(np.float64), 1.0),
        data["size_bytes"].astype(np.float64),
        np.unique(data["kind"], return_inverse=True)[1].astype(np.int64),
    )


@dataclass(frozen=True)
class Begun:
    """When a program used the devices."""

    comm: str
    begin_ns: int
    end_ns: int
    requests: int
    in_flight: float
    #: From when on nearly all of its requests came: it may have read its own program a while before.
    most_from_ns: int


def _begun(context: Context, devices: list[str], comm: str, own: Requests, *, stays: bool) -> Begun | None:
    """None unless it did most there, all of the time."""
    names = ", ".join(map(quoted, devices))
    theirs = context.case.arrays(
        f"""SELECT start_ns, latency_ns, size_bytes FROM measured
WHERE layer = 'block' AND device IN ({names}) AND {program_sql(context)} = {quoted(comm)} ORDER BY start_ns, op_id"""
    )
    begun = theirs["start_ns"].astype(np.int64)
    first, last = np.quantile(begun, (NEWCOMER_OUTSIDE, 1 - NEWCOMER_OUTSIDE))
    length = float(last - first)
    # What belongs to it of the few that were left out.
    mine = (begun >= first - length / VISITOR_BLOCKS) & (begun <= last + length / VISITOR_BLOCKS)
    begin_ns, end_ns = int(begun[mine].min()), int(begun[mine].max()) + 1
    # A device that pauses ends none; one that is full lets none begin.
    moments = np.concatenate((begun[mine], (begun + theirs["latency_ns"].astype(np.int64))[mine]))
    present = np.histogram(moments, VISITOR_BLOCKS, (begin_ns, end_ns))[0]
    if length < VISITOR_AROUND_MIN * context.survey.span_ns or not present.all():
        return None
    in_flight = _part(context, names, comm, begin_ns, end_ns)
    if in_flight is None:
        return None
    until_ns = max(end_ns, int(own.start_ns[-1]) + 1) if stays else end_ns
    return Begun(comm, begin_ns, until_ns, int(mine.sum()), in_flight, max(begin_ns, int(first)))


def _part(context: Context, names: str, comm: str, begin_ns: int, end_ns: int) -> float | None:
    """Its mean number in flight; None unless it began most of the requests or bytes of the time, and most of what was in flight was its.

    Flushes are left out: the kernel makes them for all who sync, and they have no program.
    """
    rows = context.case.rows(
        f"""SELECT coalesce({program_sql(context)}, '') = {quoted(comm)} AS its, count(*) AS requests, sum(size_bytes) AS bytes, sum(latency_ns) AS busy_ns
FROM measured WHERE layer = 'block' AND op <> 'flush' AND device IN ({names}) AND start_ns >= {begin_ns} AND start_ns < {end_ns} GROUP BY 1"""
    )
    all_of = {key: sum(float(row[key] or 0) for row in rows) for key in ("requests", "bytes", "busy_ns")}
    its = {key: sum(float(row[key] or 0) for row in rows if row["its"]) for key in all_of}
    part = {key: its[key] / max(1.0, all_of[key]) for key in all_of}
    if max(part["requests"], part["bytes"]) < VISITOR_PART_MIN or part["busy_ns"] < VISITOR_PART_MIN:
        return None
    return its["busy_ns"] / (end_ns - begin_ns)


def _compared(own: Requests, theirs: Begun, *, stays: bool = False, few: bool = False) -> Visit | None:
    """None unless own requests were slow in all of the visit and in no other time. `stays`: to the end of the run, so that nothing comes after it. `few`: some that
    are as long as several blocks of the visit are enough, each of which counts in all blocks that it was under way in."""
    begin_ns, end_ns = theirs.begin_ns, theirs.end_ns
    kinds = int(own.kind.max()) + 1 if len(own.kind) else 0
    if not kinds:
        return None
    asked = own
    if few:
        own = _in_each_block(own, begin_ns, end_ns)
    period = _periods(own, begin_ns, end_ns)
    periods = range(2 if stays else 3)
    counts = np.stack([np.bincount(own.kind[period == number], minlength=kinds) for number in periods])
    least = [VISITOR_KIND_MIN, VISITOR_BLOCKS if few else VISITOR_KIND_MIN, VISITOR_KIND_MIN][: len(counts)]
    known = np.flatnonzero((counts >= np.array(least)[:, None]).all(axis=0))
    if not len(known) or _asks_more(asked, begin_ns, end_ns, stays=stays):
        return None
    weight = _weights(own, begin_ns, end_ns) if few else np.ones(len(own.start_ns))
    medians = _medians(own, weight, period, known, len(periods))
    part = counts[1, known] / counts[1, known].sum()
    before, during, *after = (float(level) for level in np.log(medians) @ part)
    told = [before, during, *after]
    if few:
        # What is said is of operations, each once.
        each = _medians(
            asked,
            np.ones(len(asked.start_ns)),
            _periods(asked, theirs.most_from_ns, end_ns),
            known,
            len(periods),
        )
        if np.isfinite(each).all():
            told = [float(level) for level in np.log(each) @ part]
    around = [before, *after]
    rise = during - max(around)
    if rise < np.log(VISITOR_RATIO_MIN) or max(around) - min(around) > VISITOR_BACK_MAX * rise:
        return None
    usual = np.full(kinds, np.nan)
    usual[known] = np.exp(np.log(np.delete(medians, 1, axis=0)).mean(axis=0))
    there = np.isfinite(usual[own.kind])
    chosen = own.pick(there)
    beyond = np.log(chosen.latency_ns / usual[chosen.kind])
    middle = 0.5 * (during - float(np.mean(around)))
    rises = _blocks(chosen.start_ns, beyond, weight[there], begin_ns, end_ns, middle)
    if rises is None or not _came_first(chosen, beyond > middle, theirs, stays=stays, few=few):
        return None
    return Visit(
        theirs.comm,
        begin_ns,
        end_ns,
        theirs.requests,
        theirs.in_flight,
        before_ns=float(np.exp(told[0])),
        during_ns=float(np.exp(told[1])),
        after_ns=float(np.exp(told[2])) if after else None,
        rises=rises,
        of_operations=few,
    )


def _has_few(own: Requests, theirs: Begun) -> bool:
    """Whether no kind of own requests has enough of them in a visit."""
    kinds = own.kind[(own.start_ns >= theirs.most_from_ns) & (own.start_ns < theirs.end_ns)]
    return not len(kinds) or int(np.bincount(kinds).max()) < VISITOR_KIND_MIN


def _periods(own: Requests, begin_ns: int, end_ns: int) -> Ints:
    """0 before a visit, 1 during it, 2 after it; what was under way when it came is of none (3)."""
    done_ns = own.start_ns + own.latency_ns
    inside = (own.start_ns >= begin_ns) & (own.start_ns < end_ns)
    return np.select([done_ns < begin_ns, inside, own.start_ns >= end_ns], [0, 1, 2], 3)


def _medians(own: Requests, weight: Floats, period: Ints, known: Ints, periods: int) -> Floats:
    """Of each period and each of these kinds, ns; NaN where there is none."""
    found = np.full((periods, len(known)), np.nan)
    for number in range(periods):
        for at, kind in enumerate(known):
            mine = (own.kind == kind) & (period == number)
            if mine.any():
                found[number, at] = _middle(own.latency_ns[mine], weight[mine])
    return found


def _in_each_block(own: Requests, begin_ns: int, end_ns: int) -> Requests:
    """The same, those that began in the visit once more in each further block of it that they were under way in."""
    inside = np.flatnonzero((own.start_ns >= begin_ns) & (own.start_ns < end_ns))
    edges = 1 + begin_ns + (np.arange(1, VISITOR_BLOCKS) * (end_ns - begin_ns)) // VISITOR_BLOCKS
    done_ns = own.start_ns[inside] + own.latency_ns[inside]
    at, edge = np.nonzero((own.start_ns[inside, None] < edges) & (done_ns[:, None] > edges))
    place = np.concatenate((np.arange(len(own.start_ns)), inside[at]))
    start_ns = np.concatenate((own.start_ns, edges[edge]))
    order = np.argsort(start_ns, kind="stable")
    place = place[order]
    return Requests(start_ns[order], own.latency_ns[place], own.size_bytes[place], own.kind[place])


def _asks_more(own: Requests, begin_ns: int, end_ns: int, *, stays: bool) -> bool:
    """Whether the judged program itself asked for more during the visit than before and after: then it is in its own way, too."""
    period = _periods(own, begin_ns, end_ns)
    spans = [begin_ns - own.start_ns[0], end_ns - begin_ns, own.start_ns[-1] - end_ns]
    for amounts in (np.ones(len(period)), own.size_bytes):
        before, during, *after = (
            float(amounts[period == number].sum()) / max(1.0, float(span))
            for number, span in enumerate(spans[:2] if stays else spans)
        )
        if during > VISITOR_MORE_MAX * max([before, *after]):
            return True
    return False


def _weights(own: Requests, begin_ns: int, end_ns: int) -> Floats:
    """How long each was under way in the block that it begins in, ns: what held a block for half of its time counts, not half of what began there."""
    length = (end_ns - begin_ns) / VISITOR_BLOCKS
    block = np.floor((own.start_ns - begin_ns) / length)
    return np.minimum(own.latency_ns, np.maximum(1.0, begin_ns + (block + 1) * length - own.start_ns))


def _blocks(
    start_ns: Ints, beyond: Floats, weight: Floats, begin_ns: int, end_ns: int, middle: float
) -> Floats | None:
    """How much longer own requests took in each block of the visit; None unless nearly all of these lie above the middle and nearly all others below,
    those beside its begin and its end among them."""
    block = np.floor((start_ns - begin_ns) / ((end_ns - begin_ns) / VISITOR_BLOCKS)).astype(np.int64)
    numbers, place = np.unique(block, return_inverse=True)
    level = np.array([_middle(beyond[place == at], weight[place == at]) for at in range(len(numbers))])
    inside = (numbers >= 0) & (numbers < VISITOR_BLOCKS)
    if inside.sum() < (1 - VISITOR_UNLIKE_MAX) * VISITOR_BLOCKS or not (numbers < 0).any():
        return None
    as_expected = (level > middle) == inside
    edges = as_expected[np.isin(numbers, (-1, 0, VISITOR_BLOCKS - 1, VISITOR_BLOCKS))]
    like = min(as_expected[inside].mean(), as_expected[~inside].mean())
    return level[inside] if edges.all() and like >= 1 - VISITOR_UNLIKE_MAX else None


def _middle(values: Floats, weight: Floats) -> float:
    """The median, each value as often as its weight says."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    low, high = (int(np.searchsorted(reached, 0.5 * reached[-1], side=side)) for side in ("left", "right"))
    return float(0.5 * (values[order[low]] + values[order[min(high, len(order) - 1)]]))


def _came_first(own: Requests, slow: Bools, theirs: Begun, *, stays: bool, few: bool) -> bool:
    """Whether the visit began before own requests became slow: before the end of the first of several slow ones. Of who stays, not long before, too: nothing but
    that moment ties one to the other."""
    begin_ns, from_ns = theirs.begin_ns, theirs.most_from_ns
    block_ns = (theirs.end_ns - begin_ns) / VISITOR_BLOCKS
    near = own.start_ns >= begin_ns - block_ns
    if few:
        near |= own.start_ns + own.latency_ns >= begin_ns
    start, took, late = own.start_ns[near], own.latency_ns[near], slow[near].astype(np.float64)
    if len(late) < VISITOR_RUN:
        return False
    run_of = np.convolve(late, np.ones(VISITOR_RUN), "valid") / VISITOR_RUN
    onset = np.flatnonzero((run_of > 0.5) & (late[: len(run_of)] > 0))
    if not len(onset) or start[onset[0]] + took[onset[0]] < begin_ns:
        return False
    # One that had been under way for longer than others take was slow already.
    ordinary = own.latency_ns[~slow & (own.start_ns < begin_ns)]
    if few and begin_ns - start[onset[0]] > np.quantile(ordinary, 0.99):
        return False
    meanwhile = int((start[: onset[0]] >= from_ns).sum())
    return not stays or meanwhile <= 1 or bool(start[onset[0]] <= from_ns + VISITOR_ONSET_MAX * block_ns)


def _candidate(
    context: Context, shared: list[str], devices: list[str], visit: Visit, disk: str | None, place: str
) -> Candidate:
    survey = context.survey
    names = ", ".join(map(quoted, shared))
    asked = f"""layer = 'block' AND op IN ('read', 'write') AND device IN ({names}) AND {program_sql(context)} IN ({own_sql(context)})"""
    lost_sql = f"""SELECT op_id, greatest(0, latency_ns - usual_ns) AS lost_ns
FROM (SELECT op_id, latency_ns, start_ns, median(latency_ns) FILTER (start_ns >= {visit.end_ns} OR start_ns + latency_ns < {visit.begin_ns})
    OVER (PARTITION BY device, op, {SIZE_CLASS}) AS usual_ns FROM measured WHERE {asked}) AS own
WHERE usual_ns IS NOT NULL AND start_ns >= {visit.begin_ns} AND start_ns < {visit.end_ns}"""
    if visit.of_operations:
        lost_sql = f"""SELECT op_id, greatest(0, latency_ns - usual_ns) AS lost_ns
FROM (SELECT op_id, latency_ns, start_ns, median(latency_ns) FILTER (start_ns >= {visit.end_ns} OR start_ns + latency_ns < {visit.begin_ns})
    OVER (PARTITION BY kind) AS usual_ns FROM ({_operations_sql(context, shared)}) AS own) AS own
WHERE usual_ns IS NOT NULL AND start_ns >= {visit.begin_ns} AND start_ns < {visit.end_ns}"""
    share, worse = share_lost(context, survey if visit.of_operations else context.surveys["block"], lost_sql)
    share = min(1.0, share)
    ratio = float(np.exp(visit.rises.mean()))
    low, high = (float(np.exp(edge)) for edge in bootstrap_sum(visit.rises / len(visit.rises)))
    begin, end = (words.duration(at - survey.begin_ns) for at in (visit.begin_ns, visit.end_ns))
    asked_for = f"({words.things(visit.requests, 'request')}, {words.significant(visit.in_flight, 2)} in flight on average)"
    during, before = words.duration(visit.during_ns), words.duration(visit.before_ns)
    what = "operations" if visit.of_operations else "requests"
    if visit.after_ns is None:
        claim = f"{visit.comm} used {place} from {begin} on, to the end {asked_for}, and {what} of the same kind and size took {during} since, {before} before it came"
    else:
        claim = (
            f"{visit.comm} used {place} once, from {begin} to {end} {asked_for}, and {what} of the same kind and size took {during} meanwhile, {before} before it came "
            f"and {words.duration(visit.after_ns)} after it left"
        )
    claim += f": {words.percent(share)} of all latency."
    slow = context.slow
    met = (slow.start_ns < visit.end_ns) & (slow.end_ns > visit.begin_ns)
    return Candidate(
        culprit=asking(visit.comm, disk),
        claim=claim,
        baseline=f"the judged program's own requests of the same kind and size before {visit.comm} came{'' if visit.after_ns is None else ' and after it left'}",
        effect=Effect("time of a request", ratio, "x around it", low, high),
        share_of_excess=share,
        share_of_latency=share,
        p_value=0.0,
        basis="measured",
        summed=True,
        episodes=1,
        evidence=[
            evidence(
                context.case, "who used the devices, and when", f"{programs_sql(context, devices)} LIMIT 20"
            ),
            evidence(
                context.case,
                "own requests before, during and after",
                f"""SELECT CASE WHEN start_ns >= {visit.end_ns} THEN 'after' WHEN start_ns >= {visit.begin_ns} THEN 'during' ELSE 'before' END AS period, device, op,
  {SIZE_CLASS} AS size_class, count(*) AS requests, CAST(median(latency_ns) AS BIGINT) AS median_ns FROM measured WHERE {asked} GROUP BY 1, 2, 3, 4 ORDER BY 2, 3, 4, 1 LIMIT 40""",
            ),
        ],
        refute=f"Stop {visit.comm} for a while{'' if visit.after_ns is None else ' when it is there again'}: requests that stay slow are not its.",
        remedy=leave_device(visit.comm),
        otherwise=claim,
        explains=np.asarray(met & waited_for(slow, tuple(shared)), np.bool_),
        causes=(("stage", "device"), ("stage", "queue"), *(("device", device) for device in shared)),
        met=np.asarray(met, np.bool_),
        large=share >= SHARE_OF_LATENCY_MIN,
        p99_ratio=worse,
        lost_sql=lost_sql,
    )


DETECTOR = Detector(
    name="visitor",
    needs=("judged.start_ns", "judged.comm"),
    needs_stages=(),
    null_model="none: own requests of the same kind and size before, during and after are counted, and have to be slower in the visit alone, from its begin to its end",
    smallest_effect="5 % of all latency; requests 1.5 times as long in nearly all of the visit, which takes a tenth of the run or more, with as much before and after it",
    run=run,
)
