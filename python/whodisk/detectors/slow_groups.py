"""Slow operations that are blamed on one stage: how likely chance made them, and what is said of the stage.

Shared by `stage_blame`, for the operations that are judged, and `slow_requests`, for those below them.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.blamed_device import Suspect, events
from whodisk.detectors.thresholds import HOST_WAITED_MIN
from whodisk.evidence.context import Context
from whodisk.evidence.sleeps import HELD_TO_WRITE
from whodisk.evidence.slow_operations import APP, HOLDERS, SlowSet
from whodisk.evidence.survey import bin_middle_ns, bin_sql
from whodisk.statistics.stats import (
    Bools,
    concentration_p,
    episodes,
    find_split,
    quantile_from_bins,
    same_length_p,
    tail_p,
)

#: Histogram bin of the time of an operation without its wait for its turn.
SERVED_BIN = bin_sql("latency_ns - coalesce(app_ns, 0)")

REMEDIES = {
    "device": "Look at the device and what is below it (firmware, media, path, host of a virtual disk).",
    "queue": "Look at the scheduler and the limits of the queue: nr_requests, tags, I/O scheduler, who else fills it.",
    "interrupt": "Look at the completing CPU: interrupt affinity, other handlers on the same vector, soft interrupts.",
    "reap": "Look at the submitter: it took its completions late (not running, or busy with something else).",
    "app": "Look at the program: operations were handed to the kernel later than they were due.",
    "fs": "Look above the block layer: file system, journal, locks, memory allocation.",
    "throttle": "Look at I/O controllers and writeback throttling; they held the operation back on purpose.",
    "runqueue": "Look at the CPU: the submitter was ready to run and did not (other load, steal time).",
    "unknown": "Record again with the block layer, so that this part can be divided.",
}

REFUTES = {
    "device": "Repeat with the same load on another device, or with this device emptied of other users: if the slow "
    "operations stay, it is not this device.",
    "queue": "Repeat with the scheduler `none` and half the queue depth: if the slow operations stay, it is not the queue.",
    "interrupt": "Move the device's interrupt to an idle CPU (smp_affinity) and repeat: if the slow operations stay, it "
    "is not the interrupt.",
    "reap": "Repeat with the submitter alone on a CPU at real-time priority: if the slow operations stay, it is not the "
    "submitter.",
    "app": "Log the program's own time before each submit: if it was not late, this is wrong.",
    "fs": "Repeat on the raw block device: if the slow operations stay, it is not the file system.",
}

#: By what a thread slept in: what to do, and what would refute it.
ADVICE = {
    **dict.fromkeys(
        words.AS_WHEN_FROZEN,
        (
            "Look who freezes the file system: fsfreeze, a snapshot (LVM, a hypervisor's agent in this guest), a backup.",
            "Repeat while nobody takes a snapshot or a backup: if as many calls wait for that lock, the file system was not frozen.",
        ),
    ),
    **dict.fromkeys(
        words.AS_WHEN_WATCHED,
        (
            "Look which program watches this file system (fanotify marks in /proc/*/fdinfo/*), and whether it can leave these files out.",
            "Repeat without that program: if as many calls are slow, it was not its answer that they waited for.",
        ),
    ),
    HELD_TO_WRITE: (
        "Nobody gets a turn to write before the device has taken enough of what was written earlier: look at the device, or write less at a time. "
        "`echo 0 > /sys/block/DEVICE/queue/wbt_lat_usec` for a minute shows what the turns cost.",
        "Set wbt_lat_usec of the device to 0 and repeat: if as many calls are slow, it was no turn to write that they waited for.",
    ),
    **dict.fromkeys(
        words.AS_WHEN_PEER,
        (
            "Look at whoever is at the other end of the connection or pipe: these calls slept until it took, or sent, some data.",
            "Let the other end discard what it gets: if as many calls are slow, it was not the other end that they waited for.",
        ),
    ),
}
#: Where the time passes in a volume itself, below the file system.
INSIDE_VOLUME = "Look at what the volume does with each request (dmsetup table, /proc/mdstat): encryption, checksums, parity, copies for a snapshot, a delay."
#: What single requests that a volume holds, with nothing in flight below, may wait for.
SUSPENDED = "Look whether the volume was suspended then (dmsetup suspend): a snapshot, a resize or a move does that for a moment, and all that comes waits."
NOT_VOLUME = (
    "Repeat on the device below the volume: if as many operations are slow there, it is not the volume."
)
#: Where requests waited because their driver had given them back.
GIVEN_BACK = "Look at why the driver gives requests back: a target that answers busy or full, transport errors that are tried again (dmesg), too deep a queue for it (queue_depth of the device or its host)."
NOT_GIVEN_BACK = "Repeat with half the queue depth of the device: if as many requests are given back, it is not that too many were sent."


def is_undivided(printed: str, name: str) -> bool:
    """Whether a recording of more layers would separate the parts of a stage; those of `app` lie outside of this machine's kernel."""
    return name != "app" and printed.count("+") >= 2


def remedy_of(printed: str, name: str, part: float = 1.0) -> str:
    """What to do about a stage, in which this part of the slow operations' time passed."""
    if is_undivided(printed, name):
        return f"Record again as root, with the block layer: it divides {printed} into its parts."
    if name == "device" and part >= HOST_WAITED_MIN:
        return f"{REMEDIES[name].removesuffix('.')}; the host above it only waited."
    return REMEDIES[name]


def refute_of(printed: str, name: str) -> str:
    if is_undivided(printed, name):
        return f"A recording with the block layer that shows no part of {printed} longer than usual."
    return REFUTES.get(name, "Record the layers on both sides of this stage and repeat.")


def p_value_of(context: Context, suspect: Suspect, bunched_p: float) -> float:
    """The smallest of several tests, times their number.

    Tail: episodes of a family lie farther out than its natural tail could put them. Bunching: the
    slow operations share events, while natural ones would be spread over all operations. Families are
    Bonferroni-corrected. Served: as tail, of the time without the wait for a turn, where those that waited behind slow ones lost more than
    these: they fill what sets these apart. Same length: of what was lost below the file system, where natural tails of any index would scatter.
    """
    slow, chosen = context.slow, suspect.chosen
    # There a natural tail scatters: nobody waits for a lock, a timer or a turn of one length.
    is_below = suspect.stage in HOLDERS
    best = alike = 1.0
    for number in range(len(slow.families)):
        members = chosen & (slow.family == number)
        if members.any():
            best = min(best, _family_p(slow, members, number))
            if is_below:
                alike = min(alike, _same_length_p(context, members))
    families = max(1, len(slow.families))
    tests = [best * families, bunched_p]
    if is_below:
        tests.append(alike * families)
    if suspect.stage != APP and context.behind.excess_ns[chosen].sum() > slow.excess_ns[chosen].sum():
        tests.append(_served_p(context, suspect))
    return min(1.0, len(tests) * min(tests))


def _served_p(context: Context, suspect: Suspect) -> float:
    """Tail test of all kinds of operations together, each against its median."""
    data = context.case.arrays(
        f"""SELECT op, {SERVED_BIN} AS bin, count(*) AS n FROM judged WHERE layer = '{context.layer}' GROUP BY 1, 2 ORDER BY 1, 2"""
    )
    kind, bins, counts = data["op"].astype(str), data["bin"].astype(np.int64), data["n"].astype(np.int64)
    typical = {
        str(op): float(quantile_from_bins(bin_middle_ns(bins[kind == op]), counts[kind == op], 0.5))
        for op in np.unique(kind)
    }
    ratio = bin_middle_ns(bins) / np.array([typical[str(op)] for op in kind])
    order = np.argsort(ratio, kind="stable")
    split = find_split(ratio[order], counts[order])
    if split is None:
        return 1.0
    slow, chosen = context.slow, suspect.chosen
    served = (slow.latency_ns - slow.stage_ns[:, APP])[chosen]
    worst = np.zeros(suspect.episodes)
    np.maximum.at(worst, suspect.numbers, served / np.array([typical[str(op)] for op in slow.op[chosen]]))
    return tail_p(split, worst)


def bunched_p_of(context: Context, suspect: Suspect) -> float:
    slow, chosen = context.slow, suspect.chosen
    start, _ = context.operations
    return concentration_p(suspect.numbers, slow.start_ns[chosen], slow.latency_ns[chosen], start)


def _family_p(slow: SlowSet, members: Bools, number: int) -> float:
    """Tail test on the largest operation of each episode; or of each event, doubled, where long waits of their own overlap."""
    start, end = slow.start_ns[members], slow.end_ns[members]
    chances = []
    family = slow.families[number]
    ratio = slow.ratio_in(family)[members]
    for numbers in (episodes(start, end), events(start, end)):
        worst = np.zeros(int(numbers.max()) + 1)
        np.maximum.at(worst, numbers, ratio)
        chances.append(tail_p(family.split, worst))
    return min(1.0, 2 * min(chances))


def _same_length_p(context: Context, members: Bools) -> float:
    """Same-length test on the time below the file system of the first operation of each episode; where times are multiples of a unit, no finer
    than that.

    Not on the longest: the longest of many are of about one length, whatever made them.
    """
    slow = context.slow
    start, end = slow.start_ns[members], slow.end_ns[members]
    below_ns = slow.stage_ns[members][:, HOLDERS].sum(axis=1).astype(np.int64)
    order = np.lexsort((end, start))
    _, first = np.unique(episodes(start, end)[order], return_index=True)
    latency_ns = below_ns[order][first]
    latency_ns = latency_ns[latency_ns > 0]
    if not len(latency_ns):
        return 1.0
    unit_ns = max(context.case.resolution_ns, int(np.gcd.reduce(latency_ns)) if len(latency_ns) > 1 else 1)
    return same_length_p(latency_ns.astype(np.float64), unit_ns / float(latency_ns.min()))
