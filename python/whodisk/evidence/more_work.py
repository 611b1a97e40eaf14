"""Operations that took longer because they made more requests: a checkpoint in a commit, a new log segment, a sync of all that was written.

They are compared with the operations that made as many, and with what their requests take when they are alone. Nobody is to blame for their length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from whodisk.evidence.links import two_levels_sql
from whodisk.evidence.survey import Survey
from whodisk.evidence.thresholds import (
    WORK_ALIKE_MIN,
    WORK_GAP_MAX,
    WORK_LATENCY_MAX,
    WORK_LINKS_MAX,
    WORK_PACE_MAX,
    WORK_RARE_MAX,
    WORK_REQUESTS_MIN,
)
from whodisk.reading.views import WBT, Case
from whodisk.statistics.stats import Bools, Ints

#: Stages in which requests are made and take their time.
MADE_IN = ("fs", "queue", "device")


@dataclass(frozen=True)
class More:
    """The operations that took longer because they did more."""

    #: Their numbers, in ascending order.
    op_id: Ints
    #: Requests of each.
    requests: Ints

    def among(self, op_id: Ints) -> Bools:
        """Which of these operations are some."""
        return np.asarray(np.isin(op_id, self.op_id), np.bool_)


NONE = More(np.zeros(0, np.int64), np.zeros(0, np.int64))


def more_work(case: Case, surveys: Mapping[str, Survey], layer: str) -> More:
    """Operations of many requests that took no longer than others with as many, or than these requests would one by one.

    Without links between layers nothing is known of an operation's work, and none is one.
    """
    if layer == "block" or "block" not in surveys or "links" not in case.columns:
        return NONE
    if float(case.rows("SELECT count(*) AS n FROM links")[0]["n"] or 0) > WORK_LINKS_MAX:
        return NONE
    data = case.arrays(work_sql(layer))
    if not len(data["op_id"]):
        return NONE
    kinds = data["op"].astype(str)
    requests, latency = data["requests"].astype(np.int64), data["latency_ns"].astype(np.float64)
    below, alone = data["below_ns"].astype(np.float64), data["alone_ns"].astype(np.float64)
    wbt = data["wbt_ns"].astype(np.float64)
    spread = data["gap_ns"].astype(np.float64) <= WORK_GAP_MAX * latency
    octave = np.log2(requests).astype(np.int64)
    found = np.zeros(len(kinds), np.bool_)
    for kind in np.unique(kinds):
        mine = kinds == kind
        operations = sum(s.operations for s in surveys[layer].select(op=str(kind)))
        for number in np.unique(octave[mine]):
            if (mine & (octave >= number)).sum() > WORK_RARE_MAX * operations:
                continue
            alike = mine & (octave == number)
            if alike.sum() < WORK_ALIKE_MIN:
                found |= alike & spread & (below <= alone)
            elif float(np.median(below[alike])) <= WORK_PACE_MAX * float(np.median(alone[alike])):
                most = WORK_LATENCY_MAX * float(np.median(latency[alike]))
                # What writeback throttling holds back it lets go as earlier requests end: nobody's doing where they end one after the other.
                found |= alike & ((latency <= most) | (spread & (latency - wbt <= most)))
    order = np.argsort(data["op_id"][found])
    return More(data["op_id"][found].astype(np.int64)[order], requests[found][order])


def work_sql(layer: str) -> str:
    """(op_id, op, latency_ns, below_ns, wbt_ns, requests, alone_ns, gap_ns) of operations of at least `WORK_REQUESTS_MIN` requests.

    `below_ns`: time in the stages queue and device; `wbt_ns`: time that writeback throttling held it back; `alone_ns`: what its requests take when next to nothing else is in flight, larger ones in proportion
    more; `gap_ns`: the longest time between the ends of two of them.
    """
    return f"""{two_levels_sql(f"SELECT op_id FROM measured WHERE layer = '{layer}'")},
  alone AS (SELECT device, op, median(latency_ns) AS alone_ns, greatest(1, median(size_bytes)) AS bytes
    FROM block_ops WHERE NOT open AND queue_depth <= 2 GROUP BY 1, 2),
  of_it AS (SELECT u.top_id AS op_id, b.start_ns + b.latency_ns AS end_ns, a.alone_ns * greatest(1, coalesce(b.size_bytes, 0) / a.bytes) AS alone_ns,
      b.start_ns + b.latency_ns - lag(b.start_ns + b.latency_ns) OVER (PARTITION BY u.top_id ORDER BY b.start_ns + b.latency_ns) AS gap_ns
    FROM below AS u JOIN block_ops AS b ON b.op_id = u.child_id JOIN alone AS a ON a.device = b.device AND a.op = b.op),
  work AS (SELECT op_id, count(*) AS requests, sum(alone_ns) AS alone_ns, max(coalesce(gap_ns, 0)) AS gap_ns
    FROM of_it GROUP BY 1 HAVING count(*) >= {WORK_REQUESTS_MIN})
SELECT m.op_id, m.op, m.latency_ns, coalesce(m.queue_ns, 0) + coalesce(m.device_ns, 0) AS below_ns,
  CASE WHEN coalesce(o.flags, 0) & {WBT} > 0 THEN coalesce(o.throttle_ns, 0) ELSE 0 END AS wbt_ns, w.requests, w.alone_ns, w.gap_ns
FROM work AS w JOIN measured AS m ON m.op_id = w.op_id JOIN {layer}_ops AS o ON o.op_id = w.op_id WHERE m.layer = '{layer}' ORDER BY 1"""
