"""Calls that slept in the file system for a request of ordinary length: their page was being written, their journal entry, or the data they need.

Beside calls that are answered from memory such a call is long. It is as long as its device takes for a request, and that is no trouble.
"""

from __future__ import annotations

import numpy as np

from whodisk.evidence.context import Context
from whodisk.evidence.room import FOR_IO
from whodisk.evidence.sleeps import of_threads
from whodisk.evidence.thresholds import EXPLAINED_PART, ORDINARY_REQUESTS_MAX, ROOM_SEEN_MIN
from whodisk.reading.views import STAGES
from whodisk.statistics.stats import Bools, overlap

FS = STAGES.index("fs")


def waited_for_ordinary(context: Context, asked: Bools) -> Bools:
    """Which of these slow operations lost their time in `fs` in sleeps for I/O, and no more of it than a few requests of their device take."""
    slow = context.slow
    found = np.zeros(len(slow), np.bool_)
    block = context.surveys.get("block")
    if block is None or context.layer == "block" or not asked.any():
        return found
    typical_ns = {
        device: block.quantile_ns(block.select(device=device), 0.5) for device in block.by_device() if device
    }
    if not typical_ns:
        return found
    most_ns = ORDINARY_REQUESTS_MAX * np.array(
        [typical_ns.get(str(device), min(typical_ns.values())) for device in slow.device]
    )
    late_ns = slow.latency_ns - slow.typical_ns
    chosen = np.flatnonzero(asked & (slow.blamed == FS) & (late_ns <= most_ns))
    if not len(chosen):
        return found
    tid, begin, end = slow.tid[chosen], slow.start_ns[chosen], slow.end_ns[chosen]
    for_io, others, unseen = (np.zeros(len(chosen)) for _ in range(3))
    for mine, sleeps in of_threads(context.case, tid, begin, end, unseen=True):
        of_io, not_seen = np.isin(sleeps.cause, FOR_IO), sleeps.cause == ""
        for held, its in ((for_io, of_io), (others, ~of_io & ~not_seen), (unseen, not_seen)):
            held[mine] = overlap(begin[mine], end[mine], sleeps.begin_ns[its], sleeps.end_ns[its])
    # A recorder looks at what a thread sleeps in only now and then: where nearly all that it saw was for I/O, so are the others.
    if for_io.sum() >= ROOM_SEEN_MIN * (for_io.sum() + others.sum()):
        for_io += unseen
    found[chosen] = (for_io > 0) & (for_io >= EXPLAINED_PART * slow.stage_excess_ns[chosen, FS])
    return found
