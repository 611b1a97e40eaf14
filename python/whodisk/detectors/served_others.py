"""Whom a device served while a request waited: others, or nobody.

A disk that is stuck serves nobody. So a long wait during which a rotating disk, which chooses its order, went on completing others is the
price of their order, and no sign that anything is broken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.detectors.thresholds import (
    SERVED_OPERATIONS_MAX,
    SERVED_OTHERS_MIN,
    SERVED_REQUESTS_MAX,
    SERVED_SAMPLE_MAX,
    SERVED_SILENCE_MAX,
    SERVED_TELLING_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.links import below_sql
from whodisk.evidence.slow_operations import none_of
from whodisk.machine.peers import takes_turns
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import Bools, Floats, Ints, episodes

DEVICE = STAGES.index("device")


def passed_over(context: Context) -> Bools:
    """Slow operations: a disk that serves one request after the other passed over their longest one."""
    slow, found = context.slow, none_of(context.slow)
    names = [name for name in sorted(context.case.system.get("devices") or {}) if takes_turns(context, name)]
    chosen = np.flatnonzero(slow.blamed == DEVICE) if len(slow) else np.zeros(0, np.int64)
    if not names or not 0 < len(chosen) <= SERVED_OPERATIONS_MAX or "block" not in context.surveys:
        return found
    data = context.case.arrays(requests_sql(context, slow.op_id[chosen], names))
    late: set[int] = set()
    for name in np.unique(data["device"].astype(str)):
        mine = data["device"].astype(str) == name
        ended = context.case.arrays(
            f"SELECT start_ns + latency_ns AS end_ns FROM block_ops WHERE device = {quoted(name)} ORDER BY 1"
        )["end_ns"].astype(np.int64)
        begin = data["begin_ns"][mine].astype(np.int64)
        end = data["end_ns"][mine].astype(np.int64)
        late.update(int(i) for i in data["op_id"][mine][went_on(begin, end, ended)])
    found[chosen] = [int(number) in late for number in slow.op_id[chosen]]
    return found


def went_on(begin_ns: Ints, end_ns: Ints, completed_ns: Ints) -> Bools:
    """Whether others completed throughout each wait; `completed_ns` are all completions of the disk, in order."""
    others, silence = silences(begin_ns, end_ns, completed_ns)
    return (others >= SERVED_OTHERS_MIN) & (silence < SERVED_SILENCE_MAX)


def silences(begin_ns: Ints, end_ns: Ints, completed_ns: Ints) -> tuple[Ints, Floats]:
    """Of each wait: how many others completed in it, and which part of it was the longest time without a completion."""
    first = np.searchsorted(completed_ns, begin_ns, side="right")
    last = np.searchsorted(completed_ns, end_ns, side="left")
    longest = np.ones(len(begin_ns))
    for number in np.flatnonzero(last > first):
        inside = completed_ns[first[number] : last[number]]
        moments = np.concatenate(([begin_ns[number]], inside, [end_ns[number]]))
        longest[number] = float(np.diff(moments).max()) / float(end_ns[number] - begin_ns[number])
    return last - first, longest


@dataclass(frozen=True)
class Requests:
    """Those of a device in the order in which they were issued, ns; `flush`: which of them are flush commands."""

    begin_ns: Ints
    end_ns: Ints
    flush: Bools


def requests_of(context: Context, device: str) -> Requests | None:
    """All that a device completed; None: they were not recorded, or are too many."""
    block = context.surveys.get("block")
    if block is None or sum(s.operations for s in block.select(device)) > SERVED_REQUESTS_MAX:
        return None
    data = context.case.arrays(
        f"""SELECT start_ns + coalesce(queue_ns, 0) AS begin_ns, start_ns + latency_ns AS end_ns, op = 'flush' AS flush FROM block_ops
WHERE NOT open AND device = {quoted(device)} ORDER BY 1, 2"""
    )
    begin, end = (data[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    return Requests(begin, end, data["flush"].astype(np.bool_))


def stood_still(context: Context, device: str, chosen: Bools) -> float | None:
    """Of slow operations that waited while the device had others to serve, the part in which it served nobody for half of the wait or longer.

    Others are those under way at the middle of a wait, and those that came and went meanwhile: quick ones are seldom under way at a given moment.
    None: the requests below were not recorded, or too few episodes show it.
    """
    requests = requests_of(context, device)
    if requests is None:
        return None
    ids = context.slow.op_id[chosen]
    ids = ids[:: -(-len(ids) // SERVED_SAMPLE_MAX)]
    data = context.case.arrays(requests_sql(context, ids, [device]))
    begin, end = (data[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    # A flush command belongs to the request that asked for it: these two are not each other's witness.
    begun, each_end = requests.begin_ns[~requests.flush], requests.end_ns[~requests.flush]
    ended = np.sort(each_end)
    middle = begin + (end - begin) // 2
    under_way = np.searchsorted(begun, middle, side="right") - np.searchsorted(ended, middle, side="right")
    passing = came_and_went(begin, end, begun, each_end)
    telling = (under_way > 1) | passing
    # Requests that wait together wait for one thing.
    if not telling.any() or episodes(begin[telling], end[telling]).max() + 1 < SERVED_TELLING_MIN:
        return None
    _, silence = silences(begin[telling], end[telling], ended)
    return float(((silence >= SERVED_SILENCE_MAX) & ~passing[telling]).mean())


def came_and_went(begin_ns: Ints, end_ns: Ints, begun_ns: Ints, ended_ns: Ints) -> Bools:
    """Whether another request began and completed in the middle half of each wait; `begun_ns` in order, `ended_ns` of the same requests.

    A device that pauses completes none that came after. In the first quarter it may not have paused yet, and in the last one it may go on.
    """
    quarter = (end_ns - begin_ns) // 4
    low = np.searchsorted(begun_ns, begin_ns + quarter, side="left")
    high = np.searchsorted(begun_ns, end_ns - quarter, side="right")
    found = np.zeros(len(begin_ns), np.bool_)
    for number in np.flatnonzero(high > low):
        found[number] = ended_ns[low[number] : high[number]].min() <= end_ns[number] - quarter[number]
    return found


def requests_sql(context: Context, op_ids: Ints, devices: list[str]) -> str:
    """The longest request of each operation to one of the devices: from when it was issued until it completed."""
    disks = ", ".join(quoted(name) for name in devices)
    if context.layer == "block":
        ids = ", ".join(str(int(number)) for number in op_ids)
        pairs = f"SELECT op_id, op_id AS child_id FROM block_ops WHERE op_id IN ({ids})"
    elif "links" in context.case.columns:
        pairs = below_sql(op_ids)
    else:
        pairs = "SELECT 0 AS op_id, 0 AS child_id WHERE FALSE"
    return f"""SELECT op_id, device, begin_ns, end_ns FROM (SELECT p.op_id, b.device,
  b.start_ns + coalesce(b.queue_ns, 0) AS begin_ns, b.start_ns + b.latency_ns AS end_ns,
  row_number() OVER (PARTITION BY p.op_id ORDER BY b.latency_ns DESC, b.op_id) AS place
FROM ({pairs}) AS p JOIN block_ops AS b ON b.op_id = p.child_id
WHERE NOT b.open AND b.device IN ({disks})) AS longest WHERE place = 1 ORDER BY 1"""
