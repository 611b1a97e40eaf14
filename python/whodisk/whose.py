"""Which device the slow operations of a stage are of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import probability
from whodisk.below import below_sql, volumes_of
from whodisk.detectors.base import Context
from whodisk.stats import Bools, Ints
from whodisk.views import STAGES

#: A device is named when its slow episodes are this unlikely to fall on it by chance.
DEVICE_P_MAX = 0.01
#: A device that holds this part of a stage's excess is judged by itself; one that also served this part of
#: all operations is named without a test: there was hardly another.
DEVICE_SHARE_ALONE = 0.8
#: A device is named only if this part of the episodes is its own.
MOSTLY = 0.9
#: Stages in which an operation is in the hands of its program: no device is behind them.
SUBMITTER_STAGES = ("app", "reap", "runqueue")
#: Slow operations whose requests are looked up.
LINKED_MAX = 1000


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
    """The device whose episodes these are: the only one there is, or one with more than its share; None in a stage of the submitter.

    Null model: each episode falls on a device in proportion to its operations. Bonferroni over devices.
    """
    if STAGES[suspect.stage] in SUBMITTER_STAGES:
        return None
    names = context.slow.device[suspect.chosen]
    operations = context.survey.by_device()
    if len(operations) == 1:
        return next(iter(operations)) or _device_below(context, suspect)
    index = {name: number for number, name in enumerate(sorted(operations))}
    held = np.zeros((suspect.episodes, len(index)))
    np.add.at(
        held,
        (suspect.numbers, np.array([index[name] for name in names])),
        context.slow.excess_ns[suspect.chosen],
    )
    owned = np.bincount(np.argmax(held, axis=1), minlength=len(index))
    top = sorted(operations)[int(np.argmax(owned))]
    if (
        operations[top] >= DEVICE_SHARE_ALONE * sum(operations.values())
        and owned.max() >= MOSTLY * owned.sum()
    ):
        return top or None
    chance = operations.get(top, 0) / max(1, sum(operations.values()))
    p = probability.at_least(int(owned.max()), len(held), chance) * len(operations)
    return top if p < DEVICE_P_MAX else None


def _device_below(context: Context, suspect: Suspect) -> str | None:
    """The device that served the requests of these operations, where only links say it; or the only one there is.

    Of several, the one whose request was the longest of its operation in nearly all episodes; the null model is `device_of`'s.
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
    stuck = np.flatnonzero(np.argmax(slow.stage_excess_ns[places], axis=1) == suspect.stage)[:LINKED_MAX]
    ids = slow.op_id[places[stuck]]
    longest = context.case.arrays(longest_sql(ids)) if len(ids) else {"op_id": ids}
    if not len(longest["op_id"]):
        return None
    episode = dict(zip(ids.tolist(), suspect.numbers[stuck].tolist(), strict=True))
    names, index = np.unique(longest["device"].astype(str), return_inverse=True)
    held = np.zeros((suspect.episodes, len(names)))
    numbers = np.array([episode[int(number)] for number in longest["op_id"]])
    np.add.at(held, (numbers, index), longest["latency_ns"].astype(np.float64))
    seen = held.sum(axis=1) > 0
    owned = np.bincount(np.argmax(held[seen], axis=1), minlength=len(names))
    top = str(names[int(np.argmax(owned))])
    volumes = volumes_of(context.case)
    if len(names) == 1 and not volumes:
        return top or None
    leaves = {device: number for device, number in operations.items() if device not in volumes}
    chance = leaves.get(top, 0) / max(1, sum(leaves.values()))
    p = probability.at_least(int(owned.max()), int(seen.sum()), chance) * len(leaves)
    return top if owned.max() >= MOSTLY * seen.sum() and p < DEVICE_P_MAX else None


def longest_sql(op_ids: Ints) -> str:
    """The longest request of each operation to a device at the bottom: not to a volume made of others."""
    return f"""SELECT op_id, device, latency_ns FROM (SELECT p.op_id, b.device, b.latency_ns,
  row_number() OVER (PARTITION BY p.op_id ORDER BY b.latency_ns DESC, b.op_id) AS place
FROM ({below_sql(op_ids)}) AS p JOIN block_ops AS b ON b.op_id = p.child_id
WHERE b.op_id NOT IN (SELECT parent_id FROM links WHERE kind = 'stacked')) AS requests WHERE place = 1 ORDER BY op_id"""
