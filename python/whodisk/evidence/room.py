"""Calls that slept until the file system had made room for what they were about to write."""

from __future__ import annotations

import numpy as np

from whodisk.evidence.sleeps import of_threads
from whodisk.evidence.thresholds import ROOM_ASLEEP_MIN, ROOM_SEEN_MIN
from whodisk.reading.views import Case
from whodisk.statistics.stats import Bools, Ints, overlap

#: Where btrfs lets a thread wait until it has made room for what it is about to write (fs/btrfs/space-info.c; which of them shows depends on what
#: the compiler put together). A worker writes older data out for that, and between its rounds sleeps by timers of its own.
FOR_ROOM = ("__reserve_bytes", "handle_reserve_ticket", "wait_reserve_ticket")
#: What a thread sleeps in that waits for I/O that is under way (kernel functions of Linux 6; `io` and `page under writeback` are the recorder's own words).
FOR_IO = (
    "io",
    "page under writeback",
    "folio_wait_bit",
    "folio_wait_bit_common",
    "do_get_write_access",
    "jbd2_log_wait_commit",
    "wb_wait_for_completion",
    *FOR_ROOM,
)


def waits_for_room(case: Case, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Bools:
    """In which of these times its thread mostly slept until the file system had made room; none where that was not recorded.

    A recorder looks at what a thread sleeps in only now and then. Where nearly all that it saw in these times was for room, so are the sleeps between.
    """
    none = np.zeros(len(tid), np.bool_)
    if not any(True for _ in of_threads(case, tid, begin_ns, end_ns, FOR_ROOM)):
        return none
    room, others, unseen = np.zeros(len(tid)), np.zeros(len(tid)), np.zeros(len(tid))
    for mine, sleeps in of_threads(case, tid, begin_ns, end_ns, unseen=True):
        of_room, not_seen = np.isin(sleeps.cause, FOR_ROOM), sleeps.cause == ""
        for held, its in ((room, of_room), (others, ~of_room & ~not_seen), (unseen, not_seen)):
            held[mine] = overlap(begin_ns[mine], end_ns[mine], sleeps.begin_ns[its], sleeps.end_ns[its])
    if room.sum() >= ROOM_SEEN_MIN * (room.sum() + others.sum()):
        room += unseen
    return np.asarray((room > 0) & (room >= ROOM_ASLEEP_MIN * (end_ns - begin_ns)), np.bool_)
