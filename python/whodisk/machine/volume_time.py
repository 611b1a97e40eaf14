"""Time that requests spend in volumes themselves: encryption, checksums, copies for a snapshot, parity, a delay; not in the devices below.

At layer `block` a volume's own part is the stage `fs` of its rows; to the operations above it is above their requests, as a file system's is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.evidence.in_flight import in_flight
from whodisk.evidence.links import below_sql
from whodisk.evidence.thresholds import (
    ASLEEP_REQUESTS_MAX,
    MEMBER_ALONE_MIN,
    MEMBER_ALONE_RATIO_MIN,
    MEMBER_ALONE_TIMES_MAX,
    VOLUME_ALONE_MIN,
    VOLUME_OPERATIONS_MAX,
    VOLUME_P_MAX,
    VOLUME_SHUFFLES,
    WOKE_NS,
)
from whodisk.machine.kernel_threads import made_for
from whodisk.machine.volumes import volumes_of
from whodisk.reading.views import quoted
from whodisk.statistics import probability
from whodisk.statistics.stats import SEED, Floats, Ints, disjoint, overlap


@dataclass(frozen=True)
class Awaited:
    """A device that is none of a volume's own, and for which the volume waits by itself: it goes on when the kernel's requests there complete."""

    device: str
    #: The other volume that it is part of, and which shares a device with the first one: a snapshot of it, say.
    through: str
    #: Part of the volume's time alone that ended so, and how long the kernel's requests there take, ns.
    part: float
    mean_ns: float


@dataclass(frozen=True)
class Last:
    """The member that alone had requests in flight for much of a volume's own time, while the others had done theirs."""

    device: str
    #: Part of the volume's own time, and the longest of these times, ns.
    part: float
    longest_ns: float
    #: Whoever has most of it alone besides, and which part.
    next_device: str
    next_part: float


@dataclass(frozen=True)
class VolumeTime:
    """The volume with most time of its own, and its part of that of the operations above it."""

    volume: str
    part: float
    #: Devices below it.
    members: tuple[str, ...]
    #: Part of its own time in which none of them had a request in flight.
    alone: float
    #: What it waits for when it has the requests alone, where that is known.
    awaited: Awaited | None = None
    #: The member that it waits for when it waits for one, where that is mostly the same.
    last: Last | None = None

    @property
    def held_by(self) -> str:
        """The device that has the time: what it waits for, or the volume itself."""
        waited = self.awaited or self.last
        return waited.device if waited is not None else self.volume

    @property
    def refute(self) -> str:
        """What would show that it is not the volume, or not what it waits for."""
        if self.awaited is not None:
            return f"Run the same without {self.awaited.through}, or with that on another device than {self.awaited.device}: if it takes as long, {self.volume} does not wait for it."
        if self.last is not None:
            return f"Run the same with another device in the place of {self.last.device}: if it takes as long, {self.volume} does not wait for it."
        below = self.members[0] if self.members else "the device below"
        return f"Run the same on {below}: if it takes as long there, the volume is not what limits it."

    @property
    def said(self) -> str:
        """Where that time passes: in the volume, in what it waits for, or in requests that it makes besides those of who waits."""
        below = words.listed(list(self.members)) or "what lies below it"
        if self.alone >= VOLUME_ALONE_MIN and self.awaited is not None:
            return (
                f"the volume {self.volume}, which waits for {self.awaited.device} (part of {self.awaited.through}, as {below} is): {words.percent(self.awaited.part)} of the time "
                f"without a request in {below} ends when the kernel's requests to {self.awaited.device} complete, {words.duration(self.awaited.mean_ns)} each, as with copies for a snapshot"
            )
        if self.alone >= VOLUME_ALONE_MIN:
            return f"the volume {self.volume} itself, not in {below}"
        said = f"the volume {self.volume}, while {below} had requests in flight that are not tied to these (parity, copies)"
        if self.last is None:
            return said
        return (
            f"{said}; for {words.percent(self.last.part)} of its own time only {self.last.device} has one, up to {words.duration(self.last.longest_ns)} at a time "
            f"(only {self.last.next_device}: {words.percent(self.last.next_part)})"
        )


def _volumes(context: Context) -> str:
    if "fs_ns" not in context.case.columns.get("ops/block", ()):
        return ""
    return ", ".join(map(quoted, sorted(volumes_of(context.case))))


def in_volumes(context: Context, op_ids: Ints) -> VolumeTime | None:
    """Of some operations; None where no volume is known to have taken part."""
    names, ids = _volumes(context), op_ids[:VOLUME_OPERATIONS_MAX]
    if not names or not len(ids):
        return None
    listed = ", ".join(str(op) for op in ids.tolist())
    return _most(
        context,
        f"""SELECT b.device, sum(least(b.fs_ns, o.latency_ns)) AS own_ns FROM ({below_sql(ids)}) AS p
JOIN block_ops AS b ON b.op_id = p.child_id JOIN ops AS o ON o.op_id = p.op_id WHERE b.device IN ({names}) AND b.fs_ns IS NOT NULL GROUP BY 1""",
        f"SELECT sum(latency_ns) AS all_ns FROM ops WHERE op_id IN ({listed})",
    )


def in_all_volumes(context: Context, ops: tuple[str, ...]) -> VolumeTime | None:
    """Of all judged operations of these kinds."""
    names = _volumes(context)
    if not names:
        return None
    kinds = ", ".join(map(quoted, ops))
    return _most(
        context,
        f"""SELECT b.device, sum(least(b.fs_ns, coalesce(m.fs_ns, b.fs_ns))) AS own_ns FROM links JOIN measured AS m ON m.op_id = links.parent_id JOIN block_ops AS b ON b.op_id = links.child_id
WHERE m.layer = '{context.layer}' AND m.op IN ({kinds}) AND b.device IN ({names}) AND b.fs_ns IS NOT NULL GROUP BY 1""",
        f"SELECT sum(latency_ns) AS all_ns FROM measured WHERE layer = '{context.layer}' AND op IN ({kinds})",
    )


def _most(context: Context, by_volume: str, whole: str) -> VolumeTime | None:
    rows = context.case.rows(
        f"SELECT device, own_ns FROM ({by_volume}) AS own ORDER BY own_ns DESC, device LIMIT 1"
    )
    all_ns = float(context.case.rows(whole)[0]["all_ns"] or 0)
    if not rows or all_ns <= 0:
        return None
    volume = str(rows[0]["device"])
    members = context.case.rows(
        f"""SELECT c.device FROM links AS l JOIN block_ops AS p ON p.op_id = l.parent_id JOIN block_ops AS c ON c.op_id = l.child_id
WHERE l.kind = 'stacked' AND p.device = {quoted(volume)} GROUP BY 1 ORDER BY 1"""
    )
    below = tuple(str(row["device"]) for row in members)
    part = min(1.0, float(rows[0]["own_ns"] or 0) / all_ns)
    alone = _alone(context, volume, below)
    if alone >= VOLUME_ALONE_MIN:
        return VolumeTime(volume, part, below, alone, awaited=_awaited(context, volume, below))
    return VolumeTime(volume, part, below, alone, last=_last(context, volume, below))


def _too_many(context: Context) -> bool:
    block = context.surveys.get("block")
    return block is None or block.operations > ASLEEP_REQUESTS_MAX


def _own(context: Context, volume: str) -> dict[str, Ints]:
    """Its requests: begin, end, and how much of that passed in the volume itself, ns."""
    own = context.case.arrays(
        f"SELECT start_ns AS begin_ns, start_ns + latency_ns AS end_ns, fs_ns FROM block_ops WHERE device = {quoted(volume)} AND NOT open AND fs_ns IS NOT NULL ORDER BY 1, 2"
    )
    return {name: values.astype(np.int64) for name, values in own.items()}


def _alone(context: Context, volume: str, members: tuple[str, ...]) -> float:
    """Part of a volume's own time in which no request of a member was in flight; 1 where the requests are too many to tell."""
    if not members or _too_many(context):
        return 1.0
    own = _own(context, volume)
    begin, end, own_ns = own["begin_ns"], own["end_ns"], own["fs_ns"].astype(np.float64)
    apart = np.maximum(0.0, (end - begin) - overlap(begin, end, *in_flight(context, *members)))
    return float(np.minimum(apart, own_ns).sum()) / max(1.0, float(own_ns.sum()))


def _last(context: Context, volume: str, members: tuple[str, ...]) -> Last | None:
    """The member that a volume waits for when it waits for one only, where that is mostly the same one.

    Null model: members are alike, so how long it waits for one of them has nothing to do with which it is.
    """
    if len(members) < 2 or _too_many(context):
        return None
    own = _own(context, volume)
    mine = 2 * own["fs_ns"] >= own["end_ns"] - own["begin_ns"]
    low, high = disjoint(own["begin_ns"][mine], own["end_ns"][mine])
    whole_ns = float((high - low).sum())
    alone_ns = []
    for member in members:
        others = in_flight(context, *(other for other in members if other != member))
        begin, end = _without(low, high, *disjoint(*others))
        each_ns = overlap(begin, end, *in_flight(context, member))
        alone_ns.append(each_ns[each_ns > 0])
    sums = np.array([each_ns.sum() for each_ns in alone_ns])
    most, following = (int(place) for place in np.argsort(-sums, kind="stable")[:2])
    if whole_ns <= 0 or sums[most] < MEMBER_ALONE_MIN * whole_ns:
        return None
    if sums[most] < MEMBER_ALONE_RATIO_MIN * sums[following] or not _longer(alone_ns, most):
        return None
    return Last(
        members[most],
        float(sums[most]) / whole_ns,
        float(alone_ns[most].max()),
        members[following],
        float(sums[following]) / whole_ns,
    )


def _longer(alone_ns: list[Floats], most: int) -> bool:
    """Whether the times of that member are longer than they would be if chance had dealt all times to members, as many to each; of many, the longest."""
    of = np.concatenate([np.full(len(each_ns), place) for place, each_ns in enumerate(alone_ns)])
    length_ns = np.concatenate(alone_ns)
    longest = np.argsort(-length_ns, kind="stable")[:MEMBER_ALONE_TIMES_MAX]
    mine, length_ns = of[longest] == most, length_ns[longest]
    found_ns = float(length_ns[mine].sum())
    generator = np.random.default_rng(SEED)
    drawn_ns = np.array([length_ns[generator.permutation(mine)].sum() for _ in range(VOLUME_SHUFFLES)])
    p_value = (1 + int((drawn_ns >= found_ns).sum())) / (1 + VOLUME_SHUFFLES)
    return p_value * len(alone_ns) < VOLUME_P_MAX


def _beside(context: Context, volume: str, members: tuple[str, ...]) -> dict[str, str]:
    """Devices that are none of this volume's, and the other volume which has them and shares a device with it."""
    found: dict[str, str] = {}
    for other, about in sorted((context.case.system.get("devices") or {}).items()):
        theirs = str((about.get("facts") or {}).get("members") or "").split()
        if other != volume and not set(members).isdisjoint(theirs):
            found.update({device: other for device in theirs if device not in (volume, *members)})
    return found


def _awaited(context: Context, volume: str, members: tuple[str, ...]) -> Awaited | None:
    """The device for which a volume waits while none of its members has a request.

    A snapshot's origin holds a write until the block below it is copied to the snapshot's own device, by requests of the kernel that no link ties to it. Then each such
    time ends when one of these completes. Null model: it ends at any time.
    """
    beside = _beside(context, volume, members)
    if not beside or _too_many(context):
        return None
    own = _own(context, volume)
    low, high = _without(*disjoint(own["begin_ns"], own["end_ns"]), *disjoint(*in_flight(context, *members)))
    alone_ns = float((high - low).sum())
    if alone_ns <= 0:
        return None
    best: Awaited | None = None
    for device, through in sorted(beside.items()):
        data = context.case.arrays(
            f"""SELECT start_ns AS begin_ns, start_ns + latency_ns AS end_ns, coalesce(comm, '') AS comm FROM block_ops
WHERE device = {quoted(device)} AND NOT open AND op_id NOT IN (SELECT child_id FROM links) ORDER BY 2, 1"""
        )
        chosen = made_for(context.case, data["comm"].astype(str), ())
        begin, end = (data[name].astype(np.int64)[chosen] for name in ("begin_ns", "end_ns"))
        if not len(end):
            continue
        before = np.searchsorted(end, high, side="right") - 1
        goes_on = (before >= 0) & (high - end[np.maximum(before, 0)] <= WOKE_NS)
        # One that was not in flight before that time ends was not waited for in it.
        goes_on &= end[np.maximum(before, 0)] > low
        part = float((high - low)[goes_on].sum()) / alone_ns
        reached = min(1.0, len(end) * WOKE_NS / max(1, context.survey.span_ns))
        by_chance = probability.at_least(int(goes_on.sum()), len(high), reached)
        if part >= VOLUME_ALONE_MIN and by_chance < VOLUME_P_MAX and (best is None or part > best.part):
            best = Awaited(device, through, part, float((end - begin).mean()))
    return best


def _without(low: Floats, high: Floats, from_ns: Floats, to_ns: Floats) -> tuple[Floats, Floats]:
    """What is left of intervals (in order, none overlaps another) without others (the same)."""
    begins, ends = [], []
    for begin, end in zip(low.tolist(), high.tolist(), strict=True):
        first = int(np.searchsorted(to_ns, begin, side="right"))
        last = int(np.searchsorted(from_ns, end, side="left"))
        edges = [begin, *np.column_stack((from_ns[first:last], to_ns[first:last])).ravel().tolist(), end]
        begins += edges[::2]
        ends += edges[1::2]
    lows, highs = np.array(begins, np.float64), np.array(ends, np.float64)
    there = highs > lows
    return lows[there], highs[there]
