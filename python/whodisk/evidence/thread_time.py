"""What the threads of a program did with their time: which calls held them, and what they did between calls.

A thread does one thing at a time, so the parts of its time sum to it; what a program has in flight says much less of it. A thread that keeps
eight writes in flight and sits in fsync three quarters of its time is no faster with sixteen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.evidence.context import Context
from whodisk.evidence.main_program import Program
from whodisk.evidence.own_threads import own_sql
from whodisk.evidence.sleeps import is_in
from whodisk.evidence.thresholds import (
    CALL_HOLDS_MIN,
    FOREMOST_MIN,
    THREAD_BUSY_MIN,
    THREAD_OPERATIONS_MAX,
    THREAD_OPERATIONS_MIN,
    THREADS_MAX,
)
from whodisk.statistics.stats import Bools, Floats, Ints, common, overlap
from whodisk.types import Cell

#: Flag of operations that somebody waits for; of a system call: it returns only when its data are durable (case-format, Flags).
SYNC = 1

#: What a thread may do; the calls first.
SYNCS, DURABLE, READS, WRITES, DROPS, OTHERS = (
    "syncs",
    "durable writes",
    "reads",
    "writes",
    "cache drops",
    "other calls",
)
#: No call held it: it slept while something of it was in flight, it slept while nothing was, it ran, or it had no CPU.
IN_FLIGHT, ASLEEP, RUNNING, NO_CPU = "in flight", "asleep", "running", "no CPU"
#: A call that moves data held it until whoever is at the other end of a connection or pipe took or sent some.
PEER = "peer"
CALLS = (SYNCS, DURABLE, READS, WRITES, DROPS, OTHERS)
#: Those that may have a connection or a pipe at their other end.
MOVING = (READS, WRITES)
#: A page that a thread touches and that has to be read first is a read.
CALL_OF = {
    "read": READS,
    "fault": READS,
    "write": WRITES,
    "copy": WRITES,
    "sync": SYNCS,
    "flush": SYNCS,
    "drop": DROPS,
}


@dataclass(frozen=True)
class Calls:
    """One kind of call that holds its thread."""

    count: int
    #: Of all of them together, ns.
    held_ns: float


@dataclass(frozen=True)
class ThreadTime:
    """The time of a program's busy threads, from the first to the last operation of each."""

    #: Threads that were looked at, how many are busy, of which these are an even part, and all the time of those looked at, ns.
    tids: tuple[int, ...]
    busy: int
    whole_ns: float
    #: From the first operation to the last, ns.
    begin_ns: float
    span_ns: float
    #: Part of the threads' time, by what they did; sums to 1.
    share: dict[str, float]
    #: Of all busy threads.
    calls: dict[str, Calls]
    #: Part of the span in which at least one thread was in a sync or a durable write.
    any_sync: float
    #: Whether anything was in flight beside calls, and which part of their time such operations passed while their own thread was in a sync.
    flies: bool
    behind_sync: float
    #: Whether it is known what threads did when no call held them.
    waits_known: bool
    #: Part of the time without a CPU in which a thread of the same program had it.
    own_cpu: float
    #: Part of the threads' time that they slept outside of calls, by what they slept in, as far as that was looked at.
    slept: dict[str, float]

    @property
    def threads(self) -> int:
        """How many were looked at."""
        return len(self.tids)

    @property
    def robbed(self) -> float:
        """Part of the time in which other programs had the CPU."""
        return self.share[NO_CPU] * (1.0 - self.own_cpu)


@dataclass(frozen=True)
class _Operations:
    """Operations of a program, by thread and then by start."""

    tid: Ints
    begin_ns: Floats
    end_ns: Floats
    #: Place in `CALLS`.
    kind: Ints


def thread_time(context: Context, program: Program, alone: bool = False) -> ThreadTime | None:
    """How the busy threads of a program spent their time, in a stretch around the middle; None where that is not known. `alone`: only the thread that most of its operations
    are of, and nearly all of their time; None where there is no such one among several.

    The judged layer has to be the system calls, with nothing left out of it.
    """
    if context.layer != "syscall" or context.case.copied:
        return None
    operations = _operations(context, program)
    if operations is None:
        return None
    busy = _busy(operations)
    if alone:
        busy = _foremost(operations, busy)
        if not busy:
            return None
    # Of a program that begins a process for each piece of work, the busiest ones are those that were held up most: an even part speaks for all.
    threads = busy[:: -(-len(busy) // THREADS_MAX)]
    known = "waits" in context.case.columns
    waits = _waits(context, [tid for tid, _ in threads]) if known else {}
    sums = _Sums(known)
    for tid, mine in threads:
        begin, end, kind = operations.begin_ns[mine], operations.end_ns[mine], operations.kind[mine]
        sums.add(begin, end, kind, waits.get(tid, _Waits.none()))
    if sums.whole_ns <= 0:
        return None
    low = min(float(operations.begin_ns[mine].min()) for _, mine in busy)
    high = max(float(operations.end_ns[mine].max()) for _, mine in busy)
    synced = [_synced(operations, mine) for _, mine in busy]
    each = len(busy) / len(threads)
    return ThreadTime(
        tids=tuple(tid for tid, _ in threads),
        busy=len(busy),
        whole_ns=sums.whole_ns,
        begin_ns=low,
        span_ns=high - low,
        share={name: max(0.0, value) / sums.whole_ns for name, value in sums.parts.items()},
        calls={
            name: Calls(round(calls.count * each), calls.held_ns * each) for name, calls in sums.calls.items()
        },
        any_sync=float(
            overlap(
                np.array([low]),
                np.array([high]),
                np.concatenate([begin for begin, _ in synced]),
                np.concatenate([end for _, end in synced]),
            )[0]
        )
        / (high - low),
        flies=sums.flown_ns > 0,
        behind_sync=sums.behind_ns / sums.flown_ns if sums.flown_ns > 0 else 0.0,
        waits_known=known,
        own_cpu=sums.own_ns / sums.parts[NO_CPU] if sums.parts[NO_CPU] > 0 else 0.0,
        slept={cause: ns / sums.whole_ns for cause, ns in sums.slept.items()},
    )


#: Begins and ends, ns.
_Times = tuple[Floats, Floats]


@dataclass(frozen=True)
class _Waits:
    """When a thread slept, when it had no CPU, and when of that a thread of its own program had it."""

    asleep: _Times
    ready: _Times
    by_own: _Times
    #: What it slept in, of each sleep; empty: nobody looked.
    causes: npt.NDArray[np.str_]

    @property
    def peer(self) -> _Times:
        """When it slept for the other end of a connection or a pipe."""
        mine = is_in(self.causes, words.AS_WHEN_PEER)
        return self.asleep[0][mine], self.asleep[1][mine]

    @staticmethod
    def none() -> _Waits:
        nothing = np.zeros(0), np.zeros(0)
        return _Waits(nothing, nothing, nothing, np.zeros(0, np.str_))


class _Sums:
    """What threads did, added up; ns."""

    def __init__(self, waits_known: bool) -> None:
        self.waits_known = waits_known
        self.parts: dict[str, float] = dict.fromkeys((*CALLS, PEER, IN_FLIGHT, ASLEEP, RUNNING, NO_CPU), 0.0)
        self.calls = {name: Calls(0, 0.0) for name in CALLS}
        self.whole_ns = self.flown_ns = self.behind_ns = self.own_ns = 0.0
        #: Outside of calls, by cause.
        self.slept: dict[str, float] = {}

    def add(self, begin: Floats, end: Floats, kind: Ints, waits: _Waits) -> None:
        """One thread's operations, in order of their begin."""
        holds = _holds(begin, end, kind)
        low, high = float(begin.min()), float(end.max())
        self.whole_ns += high - low
        for number, name in enumerate(CALLS):
            these = holds & (kind == number)
            took = _length((begin[these], end[these]))
            self.calls[name] = Calls(
                self.calls[name].count + int(these.sum()), self.calls[name].held_ns + took
            )
            # A call in which a thread had no CPU did not hold it then.
            lost = float(overlap(begin[these], end[these], *waits.ready).sum())
            # Nor does the storage while the other end of a connection takes nothing.
            peer = float(overlap(begin[these], end[these], *waits.peer).sum()) if name in MOVING else 0.0
            self.parts[name] += took - lost - peer
            self.parts[NO_CPU] += lost
            self.parts[PEER] += peer
        durable = _durable(kind, holds)
        flown = begin[~holds], end[~holds]
        self.flown_ns += _length(flown)
        self.behind_ns += float(overlap(*flown, begin[durable], end[durable]).sum())
        self.own_ns += float(overlap(np.array([low]), np.array([high]), *waits.by_own)[0])
        self._between(_free(begin[holds], end[holds], low, high), flown, waits)

    def _between(self, free: _Times, flown: _Times, waits: _Waits) -> None:
        """What a thread did between calls; where its waits are not known, it waited for what was in flight."""
        if not self.waits_known:
            flying = float(overlap(*free, *flown).sum())
            self.parts[IN_FLIGHT] += flying
            self.parts[ASLEEP] += _length(free) - flying
            return
        sleeps = common(free, waits.asleep)
        slept, without = _length(sleeps), float(overlap(*free, *waits.ready).sum())
        slept_flying = float(overlap(*sleeps, *flown).sum())
        outside = overlap(*waits.asleep, *free)
        for cause in np.unique(waits.causes).tolist():
            if cause:
                its = float(outside[waits.causes == cause].sum())
                self.slept[cause] = self.slept.get(cause, 0.0) + its
        self.parts[IN_FLIGHT] += slept_flying
        self.parts[ASLEEP] += slept - slept_flying
        self.parts[NO_CPU] += without
        self.parts[RUNNING] += max(0.0, _length(free) - slept - without)


def _length(times: _Times) -> float:
    return float((times[1] - times[0]).sum())


def _operations(context: Context, program: Program) -> _Operations | None:
    where = f"layer = '{context.layer}' AND {program.sql} AND tid IS NOT NULL"
    row = context.case.rows(
        f"SELECT count(*) AS n, min(start_ns) AS low_ns, max(start_ns) AS high_ns FROM measured WHERE {where}"
    )[0]
    count, low_ns, high_ns = (_int(row[name]) for name in ("n", "low_ns", "high_ns"))
    if count < THREAD_OPERATIONS_MIN or high_ns <= low_ns:
        return None
    half_ns = (high_ns - low_ns) * min(1.0, THREAD_OPERATIONS_MAX / count) / 2
    middle_ns = (low_ns + high_ns) / 2
    data = context.case.arrays(
        f"""SELECT tid, start_ns, start_ns + latency_ns AS end_ns, op, coalesce(flags, 0) & {SYNC} AS durable FROM measured
WHERE {where} AND start_ns >= {int(middle_ns - half_ns)} AND start_ns <= {int(middle_ns + half_ns) + 1}
ORDER BY tid, start_ns, op_id"""
    )
    if len(data["tid"]) < THREAD_OPERATIONS_MIN:
        return None
    kind = np.array([CALLS.index(CALL_OF.get(str(op), OTHERS)) for op in data["op"]], np.int64)
    kind[(kind == CALLS.index(WRITES)) & (data["durable"].astype(np.int64) > 0)] = CALLS.index(DURABLE)
    return _Operations(
        data["tid"].astype(np.int64),
        data["start_ns"].astype(np.float64),
        data["end_ns"].astype(np.float64),
        kind,
    )


def _busy(operations: _Operations) -> list[tuple[int, slice]]:
    """Threads that were in operations for a tenth of the time of the busiest one, and which operations are theirs; the busiest first."""
    tids, first = np.unique(operations.tid, return_index=True)
    last = np.append(first[1:], len(operations.tid))
    threads = []
    for tid, low, high in zip(tids.tolist(), first.tolist(), last.tolist(), strict=True):
        begin, end = operations.begin_ns[low:high], operations.end_ns[low:high]
        # In order of their begin: each adds what is beyond the latest end before it.
        latest = np.maximum.accumulate(np.append(begin[0], end))[:-1]
        busy_ns = float(np.maximum(0.0, end - np.maximum(begin, latest)).sum())
        threads.append((busy_ns, int(tid), slice(low, high)))
    threads.sort(key=lambda thread: (-thread[0], thread[1]))
    least = THREAD_BUSY_MIN * threads[0][0]
    return [(tid, mine) for busy_ns, tid, mine in threads if busy_ns >= least]


def _foremost(operations: _Operations, busy: list[tuple[int, slice]]) -> list[tuple[int, slice]]:
    """Of several threads the one that most operations are of, and nearly all of their time; empty: there is none. A program's first thread often only waits for the one that works."""
    if len(busy) < 2:
        return []
    took = operations.end_ns - operations.begin_ns
    every, every_ns = len(took), float(took.sum())
    return [
        (tid, mine)
        for tid, mine in busy
        if 2 * (mine.stop - mine.start) >= every and float(took[mine].sum()) >= FOREMOST_MIN * every_ns
    ]


def _holds(begin: Floats, end: Floats, kind: Ints) -> Bools:
    """Which operations held their thread: it began no other before they ended. Decided by kind, for one that ends before the next begins
    may be any."""
    following = np.append(begin[1:], np.inf)
    alone = following >= end
    holds = np.zeros(len(begin), np.bool_)
    for number in np.unique(kind):
        mine = kind == number
        holds[mine] = alone[mine].mean() >= CALL_HOLDS_MIN
    return holds


def _durable(kind: Ints, holds: Bools) -> Bools:
    """Syncs and durable writes that held their thread."""
    return np.asarray(holds & (kind <= CALLS.index(DURABLE)), np.bool_)


def _synced(operations: _Operations, mine: slice) -> _Times:
    """When a thread was in one."""
    begin, end, kind = operations.begin_ns[mine], operations.end_ns[mine], operations.kind[mine]
    durable = _durable(kind, _holds(begin, end, kind))
    return begin[durable], end[durable]


def _free(begin: Floats, end: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """The times between calls, which are in order of their begin."""
    ends = np.maximum.accumulate(np.append(low, end))
    begins = np.append(begin, high)
    keep = begins > ends
    return ends[keep], begins[keep]


def _waits(context: Context, tids: list[int]) -> dict[int, _Waits]:
    """Thread -> its waits."""
    listed = ", ".join(str(tid) for tid in tids)
    data = context.case.arrays(
        f"""SELECT tid, state, coalesce(cause, '') AS cause, start_ns AS begin_ns, start_ns + duration_ns AS end_ns, {own_sql(context.case, context.layer)} AS own FROM waits
WHERE tid IN ({listed}) ORDER BY tid, start_ns"""
    )
    tid, begin, end = (
        data["tid"].astype(np.int64),
        data["begin_ns"].astype(np.float64),
        data["end_ns"].astype(np.float64),
    )
    asleep = np.asarray(np.isin(data["state"].astype(str), ("blocked", "stopped")), np.bool_)
    own, cause = data["own"].astype(np.bool_), data["cause"].astype(str)
    found = {}
    for number in tids:
        part = slice(int(np.searchsorted(tid, number)), int(np.searchsorted(tid, number, side="right")))
        low, high, slept, its = begin[part], end[part], asleep[part], own[part]
        found[number] = _Waits(
            (low[slept], high[slept]),
            (low[~slept], high[~slept]),
            (low[~slept & its], high[~slept & its]),
            cause[part][slept],
        )
    return found


def _int(value: Cell) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
