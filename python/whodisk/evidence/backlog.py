"""Operations that waited for their turn behind slow ones.

Where operations are due at times of their own, those that fall due while all slots are taken wait, and so do the ones after them until
the backlog is worked off. Nothing was stuck in their own way, yet the cause of the slow ones cost them that time, often much more than
the slow ones themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.slow_operations import APP, SlowSet, chains
from whodisk.evidence.survey import Survey, thinned
from whodisk.evidence.thresholds import BACKLOG_APART_MIN
from whodisk.reading.views import Case
from whodisk.statistics.stats import Floats, Ints, extents


@dataclass(frozen=True)
class Behind:
    """What waiting behind slow operations cost others; one array element per slow operation."""

    #: Latency of others beyond what operations apart from any backlog took, charged to this slow operation, ns.
    excess_ns: Floats
    #: When the backlog that it is part of had been worked off; its own end where there was none.
    until_ns: Ints


def waits_behind(case: Case, survey: Survey, slow: SlowSet) -> Behind:
    """What the slow operations of layer `app` cost those that waited behind them.

    A backlog is a chain of waits of one thread, each begun before the one before it was over, that a slow operation is part of.
    What the others in it lost is charged to its slow operations in proportion to what these lost by themselves. Of many operations a
    sample is looked at. All zero where no moments are known at which operations were due (stage `app`).
    """
    own = slow.end_ns
    nothing = Behind(np.zeros(len(slow)), own)
    waited = survey.layer == "app" and any(stratum.stage_ns[APP] > 0 for stratum in survey.strata)
    # Of thinned slow operations some would be taken for others.
    if not waited or not len(slow) or slow.thinning > 1:
        return nothing
    found = case.arrays(
        f"""SELECT op_id, op, coalesce(tid, 0) AS tid, start_ns, coalesce(app_ns, 0) AS app_ns, latency_ns FROM judged
WHERE layer = 'app' AND {thinned(survey.operations)} ORDER BY start_ns, op_id"""
    )
    others = ~np.isin(found["op_id"].astype(np.int64), slow.op_id)
    tid, start, app, latency = (
        found[name][others].astype(np.int64) for name in ("tid", "start_ns", "app_ns", "latency_ns")
    )
    if not len(start):
        return nothing
    # Shorter waits are what operations take turns with.
    waits = app > np.median(latency - app)
    if not waits.any():
        return nothing
    # Threads side by side on one axis of time.
    origin = min(int(start[0]), int(slow.start_ns[0]))
    apart_ns = max(int((start + latency).max()), int(own.max())) - origin + 1
    threads = np.unique(np.concatenate((tid, slow.tid)))
    place = start - origin + apart_ns * np.searchsorted(threads, tid)
    slow_place = slow.start_ns - origin + apart_ns * np.searchsorted(threads, slow.tid)
    begin = np.concatenate((slow_place, place[waits]))
    end = np.concatenate((slow_place + slow.latency_ns, (place + app)[waits]))
    order = np.argsort(begin, kind="stable")
    chain = np.empty(len(begin), np.int64)
    chain[order] = chains(begin[order], end[order])
    first, last = extents(chain, begin, end)
    mine = chain[: len(slow)]
    caused = np.unique(mine)
    # Chains neither overlap nor change their order: the last one that began before an operation is the only one it can be in.
    nearest = np.searchsorted(first[caused], place, side="right") - 1
    inside = (nearest >= 0) & (place <= last[caused][nearest])
    lost = np.zeros(len(first))
    kind = found["op"][others].astype(str)
    for op in np.unique(kind):
        same = kind == op
        apart = same & ~inside
        if apart.sum() < BACKLOG_APART_MIN:
            continue
        beyond = latency - float(latency[apart].mean())
        np.add.at(lost, caused[nearest[same & inside]], beyond[same & inside])
    lost = lost.clip(0.0) * (survey.operations - len(slow)) / len(start)
    weight = np.bincount(mine, slow.excess_ns, minlength=len(lost))
    return Behind(
        excess_ns=lost[mine] * slow.excess_ns / np.maximum(weight[mine], 1.0),
        until_ns=np.maximum(own, last[mine] - slow_place + slow.start_ns),
    )
