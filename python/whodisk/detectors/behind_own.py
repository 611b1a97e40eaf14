"""Single operations that waited in a queue while their device served other requests of their own program, none of them long.

Who maps a library of 8 MB has it fetched in pieces of a MiB, and the page that is needed first comes behind them. That is what so much data takes, on any device.
"""

from __future__ import annotations

import numpy as np

from whodisk.detectors.thresholds import BULK_ORDINARY_MAX
from whodisk.evidence.context import Context
from whodisk.evidence.programs import program_sql
from whodisk.evidence.slowest import Episode
from whodisk.evidence.thresholds import COVERS_MIN
from whodisk.machine.kernel_threads import made_for
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import disjoint, overlap

QUEUE = STAGES.index("queue")


def queued_behind_own(context: Context, episodes: list[Episode]) -> list[bool]:
    """Which of these operations, long in stage `queue`, waited there for requests of their own program."""
    found = [False] * len(episodes)
    if "block" not in context.surveys or context.layer == "block":
        return found
    for number, episode in enumerate(episodes):
        if episode.device and not episode.silence:
            found[number] = _is_behind_own(context, episode)
    return found


def _is_behind_own(context: Context, episode: Episode) -> bool:
    """Whether requests of the program that were at the device cover nearly as much time as the operation waited, and none took long for its size."""
    data = context.case.arrays(_served_sql(context, episode))
    if not len(data["begin_ns"]):
        return False
    ours = made_for(context.case, data["who"].astype(str), {*context.own_programs[0], episode.comm})
    ours &= data["ordinary"].astype(np.bool_)
    if not ours.any():
        return False
    begin, end = disjoint(data["begin_ns"][ours].astype(np.float64), data["end_ns"][ours].astype(np.float64))
    whole = np.array([float(episode.start_ns)]), np.array([float(episode.end_ns)])
    return bool(overlap(*whole, begin, end)[0] >= COVERS_MIN * episode.stage_ns[QUEUE])


def _served_sql(context: Context, episode: Episode) -> str:
    """When the device served requests during an operation, whose they were, and whether each took what is usual for its kind and size."""
    of_device = f"device = {quoted(episode.device)} AND NOT open AND device_ns IS NOT NULL"
    issued = "start_ns + latency_ns - device_ns - coalesce(interrupt_ns, 0)"
    return f"""WITH r AS (SELECT {program_sql(context)} AS who, {issued} AS begin_ns, start_ns + latency_ns AS end_ns,
  device_ns <= {BULK_ORDINARY_MAX} * median(device_ns) OVER (PARTITION BY op, floor(log2(greatest(size_bytes, 1)))) AS ordinary
FROM block_ops WHERE {of_device})
SELECT coalesce(who, '') AS who, begin_ns, end_ns, ordinary FROM r WHERE begin_ns < {episode.end_ns} AND end_ns > {episode.start_ns} ORDER BY begin_ns"""
