"""Devices that take requests at a fixed pace of their own: bytes per second, or requests per second, whatever is asked of them.

A device that is full serves one request after the other: from the end of the one before it, each takes the time that its bytes (or just its
turn) need, and what every request costs. So the times between ends lie on one line over size; of a device with time to spare they
do not: overheads scatter, and several requests are in work at once.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.evidence.room import waits_for_room
from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import (
    PACE_ALONE_HELD_MIN,
    PACE_ALONE_MIN_NS,
    PACE_BUSY_MAX,
    PACE_BY_TURNS_MAX,
    PACE_COVERS_MIN,
    PACE_COVERS_ROOM_MIN,
    PACE_FASTER_MAX,
    PACE_HELD_MIN,
    PACE_NEAR_MIN,
    PACE_REQUESTS_MAX,
    PACE_REQUESTS_MIN,
    PACE_SIMPLER,
    PACE_SIZES_MAX,
    PACE_SIZES_PART,
    PACE_TOGETHER,
    PACE_WAITED_MIN,
    PACE_WIDTH,
)
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Bools, Floats, Ints, overlap

#: Kinds of requests that carry bytes.
KINDS = ("read", "write")
#: Stages in which an operation waits for a device, or for room on its way there.
WAITS = ("fs", "throttle", "queue", "device", "interrupt")
#: What is counted.
BYTES, REQUESTS = "bytes", "requests"


@dataclass(frozen=True)
class Pace:
    """Requests of one kind that a device took at one pace."""

    device: str
    op: str
    #: `BYTES` if requests of different sizes kept the same pace by their bytes, else `REQUESTS`.
    unit: str
    per_s: float
    bytes_per_s: float
    #: Part of the device's time with such requests in which it kept this pace, 0 to 1.
    held: float
    #: Of a typical request: bytes, and the time from the end of the one before it, ns.
    size_bytes: float
    each_ns: float
    #: Times in which the device was busy with such requests, pauses left out, ns, in order; they do not overlap.
    begin_ns: Floats
    end_ns: Floats
    #: Length of the time that was looked at, ns.
    span_ns: float
    #: Nobody asked for a second one while one was under way, and their time does not grow with their bytes: it may be what one takes, and no pace.
    alone: bool = False

    @property
    def busy(self) -> float:
        """Part of the time that was looked at in which the device was busy with such requests."""
        return float((self.end_ns - self.begin_ns).sum()) / max(1.0, self.span_ns)

    @property
    def rate(self) -> str:
        """In words: `18.6 MiB/s`."""
        return f"{words.size(self.bytes_per_s)}/s"

    def is_of(self, device: str) -> bool:
        """Whether it may hold who waits for that device; "" where none is known, as of what waits above the block layer."""
        return device in ("", self.device)

    def covers(self, begin_ns: Ints | Floats, end_ns: Ints | Floats, least: float | None = None) -> Bools:
        """Whether the device was at its pace in that part of each of these times; in most of it where none is given."""
        least = PACE_COVERS_MIN if least is None else least
        covered = overlap(begin_ns, end_ns, self.begin_ns, self.end_ns)
        return np.asarray(covered >= least * (np.asarray(end_ns) - np.asarray(begin_ns)), np.bool_)

    def times(self, begin_ns: Ints | Floats, end_ns: Ints | Floats) -> float:
        """How many times as long as its pace a typical request took in these times; 0 where there was none."""
        inside = overlap(self.begin_ns, self.end_ns, begin_ns, end_ns) > 0
        return float(np.median((self.end_ns - self.begin_ns)[inside])) / self.each_ns if inside.any() else 0.0

    def held_up(self, case: Case, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Bools:
        """Whether the device was at its pace in most of each of these times of a thread; or in some, and else the thread slept until its file
        system had made room by what the device took."""
        held = self.covers(begin_ns, end_ns)
        if self.op == "write":
            at = np.flatnonzero(~held & self.covers(begin_ns, end_ns, PACE_COVERS_ROOM_MIN))
            held[at] = waits_for_room(case, tid[at], begin_ns[at], end_ns[at])
        return held


def paces_of(case: Case, block: Survey) -> list[Pace]:
    """The paces that devices kept, the one that took the most time first. From `PACE_REQUESTS_MAX` requests around the middle of each."""
    found = []
    for device, op in block.families():
        count = sum(s.operations for s in block.select(device, op))
        if op not in KINDS or count < PACE_REQUESTS_MIN:
            continue
        data = case.arrays(_requests_sql(device, op))
        if len(data["end_ns"]) < PACE_REQUESTS_MIN:
            continue
        issued, end, size = (data[name].astype(np.float64) for name in ("issued_ns", "end_ns", "size_bytes"))
        stretch_ns = float(end.max() - issued.min())
        span_ns = float(block.span_ns) if count <= PACE_REQUESTS_MAX else stretch_ns
        pace = pace_of(device, op, issued, end, size, span_ns)
        if pace is not None:
            found.append(pace)
    return sorted(found, key=lambda pace: -float((pace.end_ns - pace.begin_ns).sum()))


def pace_since(case: Case, device: str, begin_ns: int, end_ns: int) -> Pace | None:
    """The pace that a device kept for requests that move data, whatever they do, between two moments; None if it kept none, or takes one at a time."""
    data = case.arrays(_requests_sql(device, *KINDS, begin_ns=begin_ns, end_ns=end_ns))
    if len(data["end_ns"]) < PACE_REQUESTS_MIN:
        return None
    issued, end, size = (data[name].astype(np.float64) for name in ("issued_ns", "end_ns", "size_bytes"))
    pace = pace_of(device, KINDS[0], issued, end, size, float(end.max() - issued.min()))
    return None if pace is None or pace.alone else pace


def _requests_sql(device: str, *ops: str, begin_ns: int | None = None, end_ns: int | None = None) -> str:
    """Issue, end and size of requests, in order of their ends; of those that begin between two moments, where these are given."""
    within = f" AND start_ns BETWEEN {begin_ns} AND {end_ns}" if begin_ns is not None else ""
    return f"""SELECT * FROM (SELECT start_ns + latency_ns - device_ns - coalesce(interrupt_ns, 0) AS issued_ns, start_ns + latency_ns AS end_ns,
    size_bytes, row_number() OVER (ORDER BY start_ns, op_id) AS place, count(*) OVER () AS every
  FROM block_ops WHERE device = {quoted(device)} AND op IN ({", ".join(map(quoted, ops))}) AND NOT open AND device_ns IS NOT NULL AND size_bytes > 0{within})
WHERE abs(place - every / 2) <= {PACE_REQUESTS_MAX // 2} ORDER BY end_ns, issued_ns"""


def pace_of(
    device: str, op: str, issued_ns: Floats, end_ns: Floats, size_bytes: Floats, span_ns: float
) -> Pace | None:
    """The pace that these requests, in order of their ends, kept; None if they kept none."""
    before = np.maximum.accumulate(np.concatenate(([-np.inf], end_ns[:-1])))
    begin_ns = np.maximum(issued_ns, before)
    own_ns = np.maximum(end_ns - begin_ns, 1.0)
    waited: Bools = np.asarray(issued_ns < before, np.bool_)
    held = {model: _held(model, own_ns, size_bytes, waited) for model in _models(own_ns, size_bytes)}
    if not any(held.values()):
        own_ns, held = _evened_out(own_ns, size_bytes, waited)
    most = max(held.values(), default=0.0)
    if most == 0:
        return None
    # The simplest one that tells nearly as much as the one that tells most.
    best = next(model for model, part in held.items() if part and part >= most - PACE_SIMPLER)
    kept = _kept(best, own_ns, size_bytes)
    time_ns = float(own_ns[kept].sum())
    # Of requests that are all alike nothing shows whether bytes or turns are counted: turns, which is what was seen.
    by_number = any(part > 0 for model, part in held.items() if not model.per_byte_ns)
    bytes_count = best.per_byte_ns * float(size_bytes[kept].sum()) >= 0.5 * time_ns
    is_bytes = bytes_count and (not by_number or _differ(size_bytes[kept], own_ns[kept]))
    alone = bool(waited.mean() < PACE_WAITED_MIN)
    quick = float(np.median(own_ns[kept])) < PACE_ALONE_MIN_NS
    if alone and (quick or not is_bytes) and time_ns < PACE_ALONE_HELD_MIN * float(own_ns.sum()):
        # Nobody asked for a second one while the first was under way: how long one takes is no pace, but where it hardly varies, or grows with its bytes.
        return None
    busy = own_ns <= PACE_BUSY_MAX * best.takes_ns(size_bytes)
    return Pace(
        device=device,
        op=op,
        unit=BYTES if is_bytes else REQUESTS,
        per_s=1e9 * int(kept.sum()) / time_ns,
        # Where a request costs nothing by itself, what was taken is the rate; else small ones would lower it.
        bytes_per_s=1e9 / best.per_byte_ns
        if is_bytes and best.each_ns > 0
        else 1e9 * float(size_bytes[kept].sum()) / time_ns,
        held=time_ns / float(own_ns.sum()),
        size_bytes=float(np.median(size_bytes[kept])),
        each_ns=float(np.median(own_ns[kept])),
        begin_ns=begin_ns[busy],
        end_ns=end_ns[busy],
        span_ns=span_ns,
        alone=alone and not is_bytes,
    )


@dataclass(frozen=True)
class _Model:
    """What a request takes: a part that is the same for each, and a part for each byte, ns."""

    each_ns: float
    per_byte_ns: float

    def takes_ns(self, size_bytes: Floats) -> Floats:
        return self.each_ns + self.per_byte_ns * size_bytes


def _models(own_ns: Floats, size_bytes: Floats) -> list[_Model]:
    """Models worth trying: by bytes alone, by number alone, and through each two of the sizes that took most of the time."""
    found = _plain_models(own_ns, size_bytes)
    sizes, index = np.unique(size_bytes, return_inverse=True)
    most = np.argsort(-np.bincount(index, own_ns), kind="stable")[:PACE_SIZES_MAX]
    points = sorted((float(sizes[at]), float(np.median(own_ns[index == at]))) for at in most)
    for (small, short_ns), (large, long_ns) in itertools.combinations(points, 2):
        slope = (long_ns - short_ns) / (large - small)
        each_ns = short_ns - slope * small
        if large >= 2 * small and slope > 0 and each_ns >= 0:
            found.append(_Model(each_ns, slope))
    return found


def _plain_models(own_ns: Floats, size_bytes: Floats) -> list[_Model]:
    """By bytes alone, and by number alone."""
    return [_Model(0.0, _densest(own_ns / size_bytes, own_ns)), _Model(_densest(own_ns, own_ns), 0.0)]


def _evened_out(own_ns: Floats, size_bytes: Floats, waited: Bools) -> tuple[Floats, dict[_Model, float]]:
    """The times from end to end with what ends came late and early by turns evened out among `PACE_TOGETHER` neighbours that waited in line, and the part of
    the time in which each model holds then; none where ends do not come by turns.

    Who tells the ends may need a CPU for it: one end is told late, and the next one, told in time, seems fast. Of times that requests take by themselves
    neighbours know nothing. Requests that wait behind flushes, and come out together, take nothing like what eight of them take on average.
    """
    groups = len(own_ns) // PACE_TOGETHER
    if groups < PACE_REQUESTS_MIN or _by_turns(own_ns / size_bytes, waited) > PACE_BY_TURNS_MAX:
        return own_ns, {}
    whole = groups * PACE_TOGETHER
    own, size, waiting = (
        values[:whole].reshape(groups, PACE_TOGETHER) for values in (own_ns, size_bytes, waited)
    )
    in_line: Bools = np.asarray(waiting[:, 1:].all(axis=1), np.bool_)
    evened = own_ns.copy()
    # By bytes; of requests of one size that is by number, too.
    part = np.where(
        in_line[:, None], own.sum(axis=1, keepdims=True) * size / size.sum(axis=1, keepdims=True), own
    )
    evened[:whole] = part.ravel()
    none = np.zeros(len(evened), np.bool_)
    return evened, {
        model: _held(model, evened, size_bytes, none)
        for model in _plain_models(evened, size_bytes)
        if (np.abs(np.log2(own_ns / model.takes_ns(size_bytes))) < 1.0).mean() >= PACE_NEAR_MIN
    }


def _by_turns(per_byte: Floats, waited: Bools) -> float:
    """Correlation of neighbours that both waited in line; 0 where there are too few. Single long ones count as four times the median."""
    usual = np.minimum(per_byte / np.median(per_byte), 4.0)
    both: Bools = np.asarray(waited[1:] & waited[:-1], np.bool_)
    if both.sum() < PACE_REQUESTS_MIN:
        return 0.0
    first, second = usual[:-1][both], usual[1:][both]
    spread = float(first.std() * second.std())
    return float(((first - first.mean()) * (second - second.mean())).mean()) / spread if spread > 0 else 0.0


def _held(model: _Model, own_ns: Floats, size_bytes: Floats, waited: Bools) -> float:
    """Part of the time in which a model holds; 0 where it holds too little, or the device can do more: then it is no limit.

    `waited`: which requests were there when the one before them ended. The device went on with such a one while the end of the one before
    was late to be told: what that one came late, up to a request's time, is no speed of the device.
    """
    part = float(own_ns[_kept(model, own_ns, size_bytes)].sum() / own_ns.sum())
    takes_ns = model.takes_ns(size_bytes)
    late_ns = np.concatenate(([0.0], np.maximum(own_ns - takes_ns, 0.0)[:-1])) * waited
    faster = own_ns + np.minimum(late_ns, takes_ns) < takes_ns * (1 - PACE_WIDTH)
    amount = size_bytes if model.per_byte_ns else np.ones(len(own_ns))
    too_fast = float(amount[faster].sum()) > PACE_FASTER_MAX * float(amount.sum())
    return part if part >= PACE_HELD_MIN and not too_fast else 0.0


def _kept(model: _Model, own_ns: Floats, size_bytes: Floats) -> Bools:
    """Which requests took what a model says, within `PACE_WIDTH`."""
    takes_ns = model.takes_ns(size_bytes)
    return np.asarray(np.abs(own_ns - takes_ns) <= PACE_WIDTH * takes_ns, np.bool_)


def _densest(each: Floats, own_ns: Floats) -> float:
    """The value around which, within `PACE_WIDTH`, most of the time lies."""
    log = np.log(each)
    order = np.argsort(log, kind="stable")
    upto = np.concatenate(([0.0], np.cumsum(own_ns[order])))
    width = np.log1p(PACE_WIDTH) - np.log1p(-PACE_WIDTH)
    last = np.searchsorted(log[order], log[order] + width, side="right")
    first = int(np.argmax(upto[last] - upto[:-1]))
    return float(each[order][first] / (1 - PACE_WIDTH))


def _differ(size_bytes: Floats, own_ns: Floats) -> bool:
    """Whether sizes twice apart each had a part of the time: what depends on them can be seen."""
    small = np.quantile(size_bytes, PACE_SIZES_PART)
    large = size_bytes >= 2 * small
    return bool(own_ns[large].sum() >= PACE_SIZES_PART * own_ns.sum())
