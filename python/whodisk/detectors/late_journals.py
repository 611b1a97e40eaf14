"""What slept in a file system while the thread that commits its journal, or who serves its device, was ready and had no CPU: no file system is slow then.

Each of these waits may be a few milliseconds, another thread's turn; a commit that needs many of them is late all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.detectors.thresholds import CROWD_WAIT_NS, SERVED_BELOW_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.late_servers import LateServers, late_file_systems
from whodisk.evidence.late_threads import FS
from whodisk.evidence.sleeps import of_threads
from whodisk.evidence.slowest import BELOW
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Bools, Floats, Ints, overlap


@dataclass(frozen=True)
class LateJournal:
    """Slow operations that lost most of their time in the file system in such waits."""

    device: str
    held: Bools
    #: For how long each slow operation slept in such waits, ns.
    waited_ns: Floats
    #: Who had the CPU meanwhile, and for how long, ns; whoever had it longest first.
    by: list[tuple[LateServers, float]]


def late_journals(context: Context) -> list[LateJournal]:
    """Those of each device; none where these waits were not recorded."""
    slow, found = context.slow, list[LateJournal]()
    asked = np.asarray(~context.explained & (slow.blamed == FS), np.bool_)
    every = late_in_files(context, asked)
    for device, late in every.items():
        mine = asked & ((slow.device == device) | ((len(every) == 1) & (slow.device == "")))
        turns = [_turns(times) for times in late]
        waited_ns = asleep_in(context, mine, *_together(turns))
        lost_ns = SERVED_BELOW_MIN * slow.stage_excess_ns[:, FS]
        held = np.asarray(mine & (waited_ns > 0) & (waited_ns >= lost_ns), np.bool_)
        if held.any():
            its_ns = [float(asleep_in(context, held, *turn).sum()) for turn in turns]
            order = np.argsort(-np.array(its_ns), kind="stable").tolist()
            by = [(late[at], its_ns[at]) for at in order]
            found.append(LateJournal(device, held, waited_ns, by))
    return found


def late_in_files(context: Context, chosen: Bools) -> dict[str, list[LateServers]]:
    """Device -> when those whom its file system waits for had no CPU, of the devices of these slow operations; of all devices, where one carries none."""
    devices = set(context.slow.device[chosen].astype(str).tolist())
    if "" in devices:
        every = [context.survey, *(context.surveys[name] for name in context.surveys if name == "block")]
        devices |= {device for survey in every for device in survey.by_device() if device}
    return late_file_systems(context.case, context.layer, sorted(devices - {""}))


def shares_of(
    context: Context, device: str, alone: bool, serves: bool, late: list[LateServers]
) -> list[float]:
    """For each of these programs, the part of the time of all operations in which they were at a device (if somebody serves it), or in its file system, while
    it had the CPU of those who work for them; of operations with half of that time, or more, in such waits of all of these programs."""
    stages = (*(BELOW if serves else ()), "fs")
    spent = " + ".join(f"coalesce({stage}_ns, 0)" for stage in stages)
    on_it = f"device = {quoted(device)}" + (" OR device IS NULL" if alone else "")
    there = context.case.arrays(
        f"""SELECT start_ns, start_ns + latency_ns AS end_ns, {spent} AS spent_ns FROM measured
WHERE layer = '{context.layer}' AND ({on_it}) AND {spent} >= {CROWD_WAIT_NS} ORDER BY 1, 2, 3"""
    )
    begin, end, spent_ns = (there[name].astype(np.int64) for name in ("start_ns", "end_ns", "spent_ns"))
    turns = [_turns(times) for times in late]
    held = overlap(begin, end, *_together(turns)) >= SERVED_BELOW_MIN * spent_ns
    whole = max(1.0, context.survey.latency_ns)
    return [
        float(np.minimum(overlap(begin[held], end[held], *turn), spent_ns[held]).sum()) / whole
        for turn in turns
    ]


def _turns(times: LateServers) -> tuple[Ints, Ints]:
    """Those that are more than any switch costs."""
    long = times.end_ns - times.begin_ns >= CROWD_WAIT_NS
    return times.begin_ns[long], times.end_ns[long]


def _together(turns: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    begin, end = (np.concatenate([turn[side] for turn in turns]) for side in (0, 1))
    return begin, end


def asleep_in(context: Context, chosen: Bools, begin_ns: Ints, end_ns: Ints) -> Floats:
    """For how long the threads of these slow operations slept in the union of these times, within the operations, ns; 0 for the others."""
    slow, found = context.slow, np.zeros(len(context.slow))
    at = np.flatnonzero(chosen)
    if not len(at) or not len(begin_ns):
        return found
    tid, start, end = slow.tid[at], slow.start_ns[at], slow.end_ns[at]
    for mine, sleeps in of_threads(context.case, tid, start, end, unseen=True):
        # Between two neighbouring edges a moment is in all of these times, or in none.
        edges = np.unique(np.concatenate((sleeps.begin_ns, sleeps.end_ns, begin_ns, end_ns)))
        lows, highs = edges[:-1], edges[1:]
        asleep, late = (
            2 * overlap(lows, highs, *of) >= highs - lows
            for of in ((sleeps.begin_ns, sleeps.end_ns), (begin_ns, end_ns))
        )
        found[at[mine]] = overlap(start[mine], end[mine], lows[asleep & late], highs[asleep & late])
    return found
