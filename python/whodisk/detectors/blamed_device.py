"""Which device the slow operations of a stage are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.thresholds import (
    BLAMED_DEVICE_LINKED_MAX,
    BLAMED_DEVICE_MOSTLY,
    DEVICE_P_MAX,
    DEVICE_SHARE_ALONE,
    EVENT_NEAR,
    LOOP_BELOW_MIN,
    OWNER_DRAWS,
    OWNER_EPISODES_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.links import below_sql
from whodisk.machine.below_loop import Below, User, below_loop, disk_of_loop, foremost_user
from whodisk.machine.volumes import volumes_of
from whodisk.reading.views import STAGES
from whodisk.statistics import probability
from whodisk.statistics.stats import SEED, Bools, Floats, Ints

#: Stages in which an operation is in the hands of its program: no device is behind them.
SUBMITTER_STAGES = ("app", "reap", "runqueue")


@dataclass
class Suspect:
    """Slow operations blamed on one stage."""

    stage: int
    chosen: Bools
    #: Episode of each chosen operation.
    numbers: Ints

    @property
    def episodes(self) -> int:
        return int(self.numbers.max()) + 1 if len(self.numbers) else 0


def device_of(context: Context, suspect: Suspect) -> str | None:
    """The device that these episodes belong to: the only one there is, or one with more than its share; None in a stage of the submitter.

    A slow operation that names no device counts against each of them.

    Null model: each episode falls on a device in proportion to its operations, or to their time: a pause of all hits what is there. Bonferroni over
    devices.
    """
    if STAGES[suspect.stage] in SUBMITTER_STAGES:
        return None
    top = _device_above(context, suspect) or _device_slept_for(context, suspect)
    # What a volume did, those below it did, where one of them is to be told.
    return (_device_below(context, suspect) or top) if top is None or top in volumes_of(context.case) else top


def _device_slept_for(context: Context, suspect: Suspect) -> str | None:
    """The device of the requests that they slept for (`asleep_for_requests`), where that is one: calls on a file system of a process name no device."""
    slow, chosen = context.slow, suspect.chosen
    if not len(slow.for_request):
        return None
    names, index = np.unique(slow.for_device[chosen].astype(str), return_inverse=True)
    excess = np.bincount(index.ravel(), slow.excess_ns[chosen], minlength=len(names))
    top = int(np.argmax(excess))
    return str(names[top]) or None if excess[top] >= BLAMED_DEVICE_MOSTLY * excess.sum() else None


def _device_above(context: Context, suspect: Suspect) -> str | None:
    """The device by what the operations themselves say."""
    names = context.slow.device[suspect.chosen]
    operations = context.survey.by_device()
    if len(operations) == 1:
        return next(iter(operations)) or None
    index = {name: number for number, name in enumerate(sorted(operations))}
    held = np.zeros((suspect.episodes, len(index)))
    np.add.at(
        held,
        (suspect.numbers, np.array([index[name] for name in names])),
        context.slow.excess_ns[suspect.chosen],
    )
    # What names no device never went to one (it ended in the cache): no device could have held it.
    named = {name: number for name, number in operations.items() if name}
    busy = {name: sum(s.operations * s.typical_ns for s in context.survey.select(name)) for name in named}
    sizes = np.bincount(suspect.numbers, minlength=suspect.episodes)
    return _owner(held, sizes, sorted(operations), named, busy)


def _owner(
    held: Floats, sizes: Ints, names: list[str], operations: dict[str, int], busy: dict[str, float]
) -> str | None:
    """The device that holds nearly all of every episode: that is where they were. Else the one that holds most of nearly every episode, where it has
    nearly all operations anyway, or more of them than chance would give it.

    `held`: what each device (column, in the order of `names`) lost in each episode (row), in ns; `sizes`: its slow operations. `busy`: what decides beside the number of
    operations where a pause of all would fall; may be empty.
    """
    owned = np.bincount(np.argmax(held, axis=1), minlength=len(names))
    most = int(np.argmax(owned))
    top = names[most]
    share = operations.get(top, 0) / max(1, sum(operations.values()))
    wholly = held[:, most] >= BLAMED_DEVICE_MOSTLY * held.sum(axis=1)
    if len(held) >= OWNER_EPISODES_MIN and wholly.all():
        return top or None
    mostly = bool(owned.max() >= BLAMED_DEVICE_MOSTLY * owned.sum())
    if share >= DEVICE_SHARE_ALONE and mostly:
        return top or None
    return (top or None) if owner_p(owned, sizes, top, operations, busy) < DEVICE_P_MAX else None


def owner_of_events(held: Floats, sizes: Ints, names: list[str], operations: dict[str, int]) -> str | None:
    """The device that holds nearly all of nearly every event, more of them than chance would give it."""
    most = int(np.argmax(held.sum(axis=0)))
    mine = held[:, most] >= BLAMED_DEVICE_MOSTLY * held.sum(axis=1)
    if mine.mean() < BLAMED_DEVICE_MOSTLY:
        return None
    owned = np.bincount(np.argmax(held, axis=1), minlength=len(names))
    return (
        (names[most] or None) if owner_p(owned, sizes, names[most], operations, {}) < DEVICE_P_MAX else None
    )


def owner_p(owned: Ints, sizes: Ints, top: str, operations: dict[str, int], busy: dict[str, float]) -> float:
    """Probability that a device holds most of as many episodes as `top` does (`owned`: of how many each device holds most), if their slow operations
    (`sizes`: how many each episode has) fall on devices in proportion to operations, or to their time; Bonferroni over devices.

    Of an episode of many operations the busiest device holds most nearly always: no share of it tells that, so episodes as large are drawn.
    """
    chance = max(_most(top, dict(operations), sizes), _most(top, busy, sizes))
    return min(1.0, probability.at_least(int(owned.max()), int(owned.sum()), chance) * len(operations))


def _most(top: str, weights: Mapping[str, float], sizes: Ints) -> float:
    """Chance that `top` has most of an episode's operations, the mean over episodes of these sizes."""
    whole = sum(weights.values())
    if top not in weights or whole <= 0 or not len(sizes):
        return 0.0
    names = sorted(weights)
    shares = np.array([weights[name] for name in names]) / whole
    generator = np.random.default_rng(SEED)
    distinct, episodes = np.unique(sizes, return_counts=True)
    won = []
    for size in distinct.tolist():
        drawn = generator.multinomial(int(size), shares, OWNER_DRAWS)
        most = drawn == drawn.max(axis=1, keepdims=True)
        # Of those that have as many any may have lost most.
        won.append(float((most[:, names.index(top)] / most.sum(axis=1)).mean()))
    return float(np.average(won, weights=episodes))


def _device_below(context: Context, suspect: Suspect) -> str | None:
    """The device that served the requests of these operations, where only links say it; or the only one there is.

    Of several, the one with the longest request of the operation in nearly all episodes; the null model is `device_of`'s.
    """
    if "block" not in context.surveys or STAGES[suspect.stage] not in ("device", "queue", "interrupt"):
        return None
    operations = context.surveys["block"].by_device()
    if len(operations) == 1:
        return next(iter(operations)) or None
    if "links" not in context.case.columns:
        return None
    # Those that only waited behind others (for a free slot) went anywhere afterwards.
    slow, places = context.slow, np.flatnonzero(suspect.chosen)
    stuck = np.flatnonzero(np.argmax(slow.stage_excess_ns[places], axis=1) == suspect.stage)[
        :BLAMED_DEVICE_LINKED_MAX
    ]
    ids = slow.op_id[places[stuck]]
    longest = context.case.arrays(longest_sql(ids)) if len(ids) else {"op_id": ids}
    if not len(longest["op_id"]):
        return None
    names, index = np.unique(longest["device"].astype(str), return_inverse=True)
    volumes = volumes_of(context.case)
    if len(names) == 1 and not volumes:
        return str(names[0]) or None
    # What a volume did, those below it did.
    leaves = {device: number for device, number in operations.items() if device not in volumes}
    each_ns, order = longest["latency_ns"].astype(np.float64), np.argsort(ids)
    at = stuck[order[np.searchsorted(ids[order], longest["op_id"].astype(np.int64))]]

    def held_in(numbers: Ints) -> tuple[Floats, Ints]:
        held = np.zeros((int(numbers.max()) + 1, len(names)))
        np.add.at(held, (numbers, index), each_ns)
        there = held.sum(axis=1) > 0
        return held[there], np.bincount(numbers)[there]

    held, sizes = held_in(suspect.numbers[at])
    top = _owner(held, sizes, names.tolist(), leaves, {})
    owned = np.bincount(np.argmax(held, axis=1), minlength=len(names))
    if top or len(held) > 1:
        return top if owned.max() >= BLAMED_DEVICE_MOSTLY * len(held) else None
    # One episode may be many long waits that overlap, each of its own: then what none of them shares tells, by chance alone.
    held, sizes = held_in(events(slow.start_ns[places[at]], slow.end_ns[places[at]]))
    return owner_of_events(held, sizes, names.tolist(), leaves)


def events(start_ns: Ints, end_ns: Ints) -> Ints:
    """Number of the event each operation waited for: what waited for the same one began together or ended together.

    Long waits that only overlap (each for a timer of its own) are as many events as there are moments at which they
    begin and end; the fewer of the two count.
    """
    near = EVENT_NEAR * float(np.median(end_ns - start_ns))
    found: list[Ints] = []
    for moments in (start_ns, end_ns):
        order = np.argsort(moments, kind="stable")
        numbers = np.empty(len(moments), np.int64)
        numbers[order] = np.cumsum(np.concatenate(([0], np.diff(moments[order]) > near)))
        found.append(numbers)
    return min(found, key=lambda numbers: int(numbers.max()))


def longest_sql(op_ids: Ints) -> str:
    """The longest request of each operation to a device at the bottom: not to a volume made of others."""
    return f"""SELECT op_id, device, latency_ns FROM (SELECT p.op_id, b.device, b.latency_ns,
  row_number() OVER (PARTITION BY p.op_id ORDER BY b.latency_ns DESC, b.op_id) AS place
FROM ({below_sql(op_ids)}) AS p JOIN block_ops AS b ON b.op_id = p.child_id
WHERE b.op_id NOT IN (SELECT parent_id FROM links WHERE kind = 'stacked')) AS requests WHERE place = 1 ORDER BY op_id"""


def under_loop(context: Context, suspect: Suspect, device: str | None) -> str:
    """What the disk under a loop device did while it held these operations, as a sentence; empty for other devices, and where that was little."""
    if not device or STAGES[suspect.stage] != "device":
        return ""
    slow = context.slow
    below = below_loop(context, device, slow.start_ns[suspect.chosen], slow.end_ns[suspect.chosen])
    said = said_of(below)
    return f" {said}." if said else ""


def user_below(context: Context, suspect: Suspect, device: str | None) -> User | None:
    """Who else had the disk under a loop device at work while that held these operations; None where that was for little of their time."""
    disk = disk_of_loop(context, device) if device and STAGES[suspect.stage] == "device" else None
    if disk is None:
        return None
    slow = context.slow
    user = foremost_user(context, disk[1], slow.start_ns[suspect.chosen], slow.end_ns[suspect.chosen])
    return user if user is not None and user.busy >= LOOP_BELOW_MIN else None


def said_of_user(user: User) -> str:
    """The sentence behind `under_loop`."""
    return (
        f" For {words.percent(user.busy)} of it that had requests of {user.comm} in flight ({words.things(user.requests, 'request')} and "
        f"{words.size(user.bytes)} in the whole recording)."
    )


def remedy_at_user(user: User, remedy: str) -> str:
    """What to do first about a device that may only have waited for the disk below it."""
    return f"Stop {user.comm} for a while, or let it use another disk. If operations stay slow: {remedy[0].lower()}{remedy[1:]}"


def said_of(below: Below | None) -> str:
    """What the disk under a loop device did, without a full stop; empty where that was little, or is not known."""
    if below is None or below.busy < LOOP_BELOW_MIN:
        return ""
    return words.under_loop(below.loop, below.file, below.disk, below.busy)
