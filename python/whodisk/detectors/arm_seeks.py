"""Requests for which the arm of a disk had to move: slow beside those that follow each other, and as fast as such a disk is.

Most reads of a tree of files are served by readahead or by the drive's own, in tenths of a millisecond; a few begin elsewhere, and take a seek and half
a turn. Those stand far out, again and again, and nothing is wrong. So they are excused, where the disk is seen to take long for what lies elsewhere
and the request took no longer than others of these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Detector, Excuse, Result
from whodisk.detectors.thresholds import (
    ARM_FAR_BYTES,
    ARM_ORDINARY_RATIO_MAX,
    ARM_RATIO_MIN,
    ARM_REQUESTS_MIN,
    ARM_TOLD_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.service_times import Served, served_by
from whodisk.machine.peers import rotates, takes_turns
from whodisk.reading.views import STAGES, quoted
from whodisk.statistics.stats import Bools, Ints

DEVICE = STAGES.index("device")


@dataclass(frozen=True)
class Arm:
    """What a disk takes for requests that follow the one before, and for those that lie elsewhere."""

    near_ns: float
    far_ns: float
    far: int
    #: Requests that lie elsewhere and took no longer than such requests do there.
    ordinary: Ints


def run(context: Context) -> Result:
    """Excuses slow operations that waited for an ordinary movement of the arm."""
    result = Result()
    if context.layer not in ("app", "syscall") or "block" not in context.surveys:
        return result
    for device in sorted(context.surveys["block"].by_device()):
        if not device or not takes_turns(context, device):
            continue
        mine = ~context.explained & (context.slow.blamed == DEVICE) & (context.slow.device == device)
        arm = arm_of(served_by(context, device)) if mine.any() else None
        chosen = None if arm is None else mine & _waited_for(context, device, arm.ordinary)
        if arm is None or chosen is None or not chosen.any():
            continue
        # A loop device over a disk that is called rotating shows the same; it has no arm that could be named.
        has_arm = rotates(context, device)
        why = f"the arm of {device} moved" if has_arm else f"requests to {device} that begin elsewhere"
        result.excuses.append(Excuse(why, chosen))
        share = context.share_lost(chosen)
        if share >= ARM_TOLD_MIN:
            number = words.things(float(chosen.sum()) * context.slow.thinning, "operation")
            result.observed.append(
                f"{number} waited for {'the arm of ' * has_arm}{device}: a request that begins elsewhere takes {words.duration(arm.far_ns)} there ({arm.far} did), one that "
                f"follows {words.duration(arm.near_ns)}. {'So does every disk that turns: ' if has_arm else 'That is '}{words.percent(share)} of all latency."
            )
    return result


def arm_of(served: Served) -> Arm | None:
    """None where requests that lie elsewhere take about as long as the others, or too few of either are known."""
    if len(served.op_id) < 2:
        return None
    elsewhere = ~served.follows & (served.op != "flush")
    elsewhere[np.flatnonzero(elsewhere)[:1]] = False
    far = elsewhere & (served.distance_bytes >= ARM_FAR_BYTES)
    if min(far.sum(), served.follows.sum()) < ARM_REQUESTS_MIN:
        return None
    near_ns, far_ns = (float(np.median(served.service_ns[which])) for which in (served.follows, far))
    if far_ns < ARM_RATIO_MIN * near_ns:
        return None
    most = ARM_ORDINARY_RATIO_MAX * float(np.quantile(served.service_ns[far], 0.9))
    return Arm(near_ns, far_ns, int(far.sum()), served.op_id[elsewhere & (served.service_ns <= most)])


def _waited_for(context: Context, device: str, requests: Ints) -> Bools:
    """Slow operations with all of their long requests there among these."""
    rows = context.case.arrays(
        f"""SELECT parent_id, child_id, device_ns FROM links JOIN block_ops ON op_id = child_id
WHERE device = {quoted(device)} AND parent_id IN (SELECT op_id FROM judged WHERE layer = '{context.layer}' AND latency_ns >= {int(context.slow.latency_ns.min())})
ORDER BY parent_id, child_id"""
    )
    parent, child = rows["parent_id"].astype(np.int64), rows["child_id"].astype(np.int64)
    took = np.nan_to_num(rows["device_ns"].astype(np.float64))
    # The longest of an operation's requests is what it waited for.
    order = np.lexsort((-took, parent))
    first = np.unique(parent[order], return_index=True)[1]
    longest_parent, longest_child = parent[order][first], child[order][first]
    held = longest_parent[np.isin(longest_child, requests)]
    return np.asarray(np.isin(context.slow.op_id, held), np.bool_)


DETECTOR = Detector(
    name="arm_seeks",
    needs=("judged.start_ns", "judged.latency_ns"),
    needs_stages=("device",),
    null_model="none: it accuses nobody",
    smallest_effect="none: it excuses operations with a request that began elsewhere on a disk that takes five times as long for that, and took no more than "
    "twice what a tenth of such requests take",
    run=run,
    needs_all=True,
)
