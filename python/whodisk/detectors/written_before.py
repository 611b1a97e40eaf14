"""Calls that slept while the file system wrote out what was written before: a commit, room in its log, reserved space.

A caller that needs room waits until older data are on their way. What holds it then is work that its own program made, request after request
at the device's ordinary pace: nobody is to blame. Where one request held most of the wait, the device is asked instead. Who is known to sleep
until a file system has made room may do so for the file system's own timers, behind a few requests.

A file system that is short of space waits for all that is dirty, whoever wrote it: then it may be another program's work.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.thresholds import (
    WRITTEN_CALLS_MAX,
    WRITTEN_IDLE_MAX,
    WRITTEN_ONE_MAX,
    WRITTEN_OTHERS_MAX,
    WRITTEN_REQUESTS_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.programs import program_sql
from whodisk.evidence.room import FOR_IO, waits_for_room
from whodisk.evidence.sleeps import NO_HOLDER, held_in_ns, of_threads
from whodisk.machine.kernel_threads import made_for
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Floats, Ints, disjoint, overlap


def written_before(context: Context, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Bools:
    """Which of these calls of threads waited for writes of the kernel's, or of their own program, on a device that they use.

    Of many calls the longest `WRITTEN_CALLS_MAX` are looked at; the others count as not.
    """
    found = np.zeros(len(begin_ns), np.bool_)
    used = _devices(context)
    if not used or not len(begin_ns):
        return found
    longest = np.argsort(begin_ns - end_ns, kind="stable")[:WRITTEN_CALLS_MAX]
    longest = longest[~_slept_for_no_storage(context, tid[longest], begin_ns[longest], end_ns[longest])]
    if not len(longest):
        return found
    data = context.case.arrays(_meanwhile_sql(context, used, begin_ns[longest], end_ns[longest]))
    for_it = made_for(context.case, data["program"].astype(str), set(_programs(context)))
    for_room = waits_for_room(context.case, tid[longest], begin_ns[longest], end_ns[longest])
    call = data["call"].astype(np.int64)
    first, last = data["begin_ns"].astype(np.float64), data["end_ns"].astype(np.float64)
    for number, at in enumerate(longest):
        mine = call == number
        found[at] = _is_own_work(
            float(begin_ns[at]),
            float(end_ns[at]),
            first[mine],
            last[mine],
            for_it[mine],
            bool(for_room[number]),
        )
    return found


def written_for_another(context: Context, tid: Ints, begin_ns: Ints, end_ns: Ints) -> list[str]:
    """For each of these calls that slept until something was written, the other program whose writes through the page cache the file system wrote out all along; empty for the others."""
    found = [""] * len(begin_ns)
    used = _devices(context)
    if not used or not context.other_writers:
        return found
    slept = np.zeros(len(begin_ns))
    for mine, sleeps in of_threads(context.case, tid, begin_ns, end_ns, FOR_IO):
        slept[mine] = overlap(begin_ns[mine], end_ns[mine], sleeps.begin_ns, sleeps.end_ns)
    asked = np.flatnonzero((slept > 0) & (slept >= (1 - WRITTEN_IDLE_MAX) * (end_ns - begin_ns)))
    if not len(asked):
        return found
    data = context.case.arrays(_meanwhile_sql(context, used, begin_ns[asked], end_ns[asked]))
    call, program = data["call"].astype(np.int64), data["program"].astype(str)
    first, last = data["begin_ns"].astype(np.float64), data["end_ns"].astype(np.float64)
    size = data["size_bytes"].astype(np.float64)
    for number, at in enumerate(asked.tolist()):
        mine = call == number
        for name in context.other_writers:
            its = mine & (program == name)
            goes_on = _goes_on(float(begin_ns[at]), float(end_ns[at]), first[its], last[its])
            if goes_on and 2 * size[its].sum() >= size[mine].sum():
                found[at] = name
    return found


def _slept_for_no_storage(context: Context, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Bools:
    """Which of these calls slept for half of their time or more in what has nothing to do with storage, whatever was written meanwhile."""
    slept = held_in_ns(context.case, tid, begin_ns, end_ns, (*words.AS_WHEN_RCU, *NO_HOLDER))
    return np.asarray((slept > 0) & (2 * slept >= end_ns - begin_ns), np.bool_)


def _devices(context: Context) -> list[str]:
    """The devices that the judged calls use; none where requests were not recorded, or are what is judged."""
    if "block" not in context.surveys or context.layer == "block":
        return []
    return [device for device in context.survey.by_device() if device]


def _goes_on(begin_ns: float, end_ns: float, first: Floats, last: Floats) -> bool:
    """Whether requests came one after the other all along a wait, none of them long."""
    if len(first) < WRITTEN_REQUESTS_MIN:
        return False
    length = end_ns - begin_ns
    # Between requests, and behind the last one, the file system computes; nearly all of the time without any is no writing.
    low, high = disjoint(first, last)
    idle = np.append(low, end_ns) - np.append(begin_ns, high)
    inside = overlap(first, last, np.array([begin_ns]), np.array([end_ns]))
    return bool(idle.max() <= WRITTEN_IDLE_MAX * length and inside.max() <= WRITTEN_ONE_MAX * length)


def _is_own_work(
    begin_ns: float, end_ns: float, first: Floats, last: Floats, for_it: Bools, for_room: bool
) -> bool:
    """Whether requests came one after the other all along the wait, none of them long, and next to none another program's.

    Where it is known that the file system made room meanwhile, there may be few, or none: it sleeps by timers of its own between its rounds.
    """
    inside = overlap(first, last, np.array([begin_ns]), np.array([end_ns]))
    if float(inside[~for_it].sum()) > WRITTEN_OTHERS_MAX * float(inside.sum()):
        return False
    if for_room:
        return not len(first) or bool(for_it.any() and inside.max() <= WRITTEN_ONE_MAX * (end_ns - begin_ns))
    return _goes_on(begin_ns, end_ns, first[for_it], last[for_it])


def _programs(context: Context) -> list[str]:
    rows = context.case.rows(
        f"SELECT comm FROM judged WHERE layer = '{context.layer}' AND comm IS NOT NULL GROUP BY 1"
    )
    return [str(row["comm"]) for row in rows]


def _meanwhile_sql(context: Context, devices: list[str], begin_ns: Ints, end_ns: Ints) -> str:
    calls = ", ".join(
        f"({number}, {begin}, {end})"
        for number, (begin, end) in enumerate(zip(begin_ns.tolist(), end_ns.tolist(), strict=True))
    )
    # What the kernel writes out for another program is that one's.
    return f"""SELECT call, coalesce({program_sql(context)}, '') AS program, coalesce(size_bytes, 0) AS size_bytes, start_ns AS begin_ns, start_ns + latency_ns AS end_ns
FROM block_ops JOIN (VALUES {calls}) AS calls(call, low_ns, high_ns)
  ON start_ns < high_ns AND start_ns + latency_ns > low_ns
WHERE NOT open AND op IN ('write', 'flush') AND device IN ({", ".join(map(quoted, devices))}) ORDER BY 1, 3"""
