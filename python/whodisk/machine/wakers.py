"""Whom sleepers waited for: the thread that let them go on, directly or behind others, and what it did meanwhile.

A thread that sleeps for a lock goes on when another one wakes it (`sched_waking`; DESIGN 5, "Who woke the sleeper"). Where the waker had slept itself until
somebody else woke it, that part of the wait was for this one, and so on: who is named in the end ran, was in a call on storage, or slept until a moment or an
interrupt came.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.evidence.asleep import sample
from whodisk.evidence.context import Context
from whodisk.evidence.sleeps import of_threads
from whodisk.evidence.thread_time import CALL_OF, CALLS, OTHERS
from whodisk.evidence.thresholds import (
    WAKERS_CALL_MIN_NS,
    WAKERS_DID_MIN,
    WAKERS_HOPS_MAX,
    WAKERS_KNOWN_MIN,
    WAKERS_SLEEPS_MAX,
)
from whodisk.machine.kernel_threads import is_kernel_thread
from whodisk.statistics.stats import Bools, Floats, Ints, disjoint, overlap

#: What a thread did, beside calls and sleeps, while others waited for it.
RAN, NO_CPU, STOPPED = "ran", "had no CPU", "was stopped"
#: ... and in a call: of which kind follows.
IN_CALL = "was in "
#: What threads of the kernel do that others wait for, and what to do about it.
KERNEL_WORK = {
    "ext4lazyinit": "It fills the inode tables of a file system that was made a short time ago: wait until it has, or make the file system with "
    "`mkfs.ext4 -E lazy_itable_init=0,lazy_journal_init=0`.",
}


@dataclass(frozen=True)
class Holder:
    """Threads of one name that sleepers waited for."""

    name: str
    pids: tuple[int, ...]
    tids: tuple[int, ...]
    #: Part of the sleeps' time.
    share: float
    #: What they did then, and for which part of it; the longest first. Nothing of time in which nothing was recorded of them: they may not have been there.
    did: tuple[tuple[str, float], ...]
    #: The one of them that was waited for longest, and which part of the time that was.
    first: tuple[int, float]

    @property
    def is_idle(self) -> bool:
        """Whether they mostly slept until something came from outside: those behind them had nothing to do, either."""
        return bool(self.did) and self.did[0][0] in {_slept(cause) for cause in words.AS_WHEN_IDLE}

    def let_go(self, whom: str = "they were") -> str:
        """Continues a sentence on the sleeps of others."""
        return f"{words.percent(self.share)} of it until {whom} let go on, directly or behind others, by {self.said(())}"

    @property
    def in_calls(self) -> dict[str, float]:
        """For which part of that time they were in calls on storage, by kind (`thread_time.CALLS`)."""
        told = {f"{IN_CALL}{name}": name for name in CALLS}
        return {told[what]: part for what, part in self.did if what in told}

    @property
    def remedy(self) -> str:
        """What whoever waits for it can do."""
        if self.name in KERNEL_WORK:
            return KERNEL_WORK[self.name]
        return f"Look at what {self.name} ({words.processes(self.pids)}) does while others wait for it, and whether it can do so at another time, or in shorter pieces."

    @property
    def refute(self) -> str:
        """What would show that it was not waited for."""
        return f"Repeat without {self.name}: if as many operations are slow, it was not {self.name} that they waited for."

    def said(self, own: tuple[int, ...]) -> str:
        """``backup (process 41), which was in syncs for 93 % of that``; `own` are the processes of those who waited."""
        if set(self.pids) <= set(own):
            who = f"{'a thread' if len(self.tids) == 1 else 'threads'} of the same program ({self.name})"
            if len(self.tids) > 1 and self.first[1] >= WAKERS_KNOWN_MIN:
                who += f", mostly thread {self.first[0]}"
        else:
            who = f"{self.name} ({words.processes(self.pids)})"
        did = [f"{what} for {words.percent(part)}" for what, part in self.did[:2] if part >= WAKERS_DID_MIN]
        return f"{who}, which {words.listed(did)} of that time" if did else who


@dataclass(frozen=True)
class _Parts:
    """Parts of sleeps, and the thread that each of them was for; an array element each, ns."""

    tid: Ints
    begin_ns: Ints
    end_ns: Ints

    @property
    def length_ns(self) -> float:
        return float((self.end_ns - self.begin_ns).sum())


def holders_of(context: Context, tid: Ints, begin_ns: Ints, end_ns: Ints) -> list[Holder]:
    """Whom these sleeps waited for (their threads, begins and ends, ns), the longest first.

    Nothing where the recorder did not see who ended most of that time: it looks at sleeps of 100 us and more that are not for I/O, and an interrupt is nobody. Of many sleeps all long
    ones are asked, and an even part of the others, which stands for these.
    """
    if "waker_tid" not in context.case.columns.get("waits", ()) or not len(tid):
        return []
    whole_ns = max(1.0, float((end_ns - begin_ns).sum()))
    known, found = 0.0, []
    for group in _groups(end_ns - begin_ns):
        step = -(-len(group) // WAKERS_SLEEPS_MAX)
        weight = float((end_ns - begin_ns)[group].sum()) / whole_ns
        asked = _Parts(tid[group[::step]], begin_ns[group[::step]], end_ns[group[::step]])
        _, parts = _split(context, asked, in_calls=True)
        if len(parts.tid):
            known += weight * parts.length_ns / max(1.0, asked.length_ns)
            found += [replace(one, share=weight * one.share) for one in _behind(context, asked, parts)]
    return _merged(found) if found and known >= WAKERS_KNOWN_MIN else []


def _groups(length_ns: Ints) -> list[Ints]:
    """The places of sleeps that are asked for alike. Of more than can be asked, few may have most of the time: those as long as an even part of all of it are for themselves, and there are
    no more of these than are asked."""
    if len(length_ns) <= WAKERS_SLEEPS_MAX:
        return [np.arange(len(length_ns))]
    long = WAKERS_SLEEPS_MAX * length_ns.astype(np.float64) >= float(length_ns.sum())
    return [places for chosen in (long, ~long) if len(places := np.flatnonzero(chosen))]


def _merged(found: list[Holder]) -> list[Holder]:
    """Holders of one name are one; what they did counts by how long they were waited for."""
    of_name: dict[str, list[Holder]] = defaultdict(list)
    for one in found:
        of_name[one.name].append(one)
    merged = []
    for its in of_name.values():
        share = sum(one.share for one in its)
        did: dict[str, float] = defaultdict(float)
        for one in its:
            for what, part in one.did:
                did[what] += part * one.share / max(share, 1e-12)
        foremost = max(its, key=lambda one: one.share * one.first[1])
        first_ns = sum(one.share * one.first[1] for one in its if one.first[0] == foremost.first[0])
        merged.append(
            Holder(
                name=its[0].name,
                pids=tuple(sorted({pid for one in its for pid in one.pids})),
                tids=tuple(sorted({tid for one in its for tid in one.tids})),
                share=share,
                did=tuple(sorted(did.items(), key=lambda item: (-item[1], item[0]))),
                first=(foremost.first[0], first_ns / max(share, 1e-12)),
            )
        )
    return sorted(merged, key=lambda holder: (-holder.share, holder.name))


def _behind(context: Context, asked: _Parts, parts: _Parts) -> list[Holder]:
    """Whom the sleeps that were asked for ended with, followed from who was woken to who woke; `parts`: those of them that a thread ended, for that one."""
    ended = []
    for _ in range(WAKERS_HOPS_MAX):
        rest, parts = _split(context, parts, in_calls=False)
        ended.append(rest)
        if not len(parts.tid):
            break
    return _told(context, _joined([*ended, parts]), asked.length_ns)


def other_program(context: Context, chosen: Bools, cause: str) -> Holder | None:
    """The program, not one of those that were slow, for which threads slept so during these slow operations; None where that is not known, or was not mostly
    the same one."""
    return other_program_of(context, *sample(context, chosen), cause)


def other_program_then(context: Context, tid: int, begin_ns: int, end_ns: int) -> Holder | None:
    """The same of whatever a thread slept in at one time."""
    at, low, high = (np.array([value], np.int64) for value in (tid, begin_ns, end_ns))
    return other_program_of(context, at, low, high)


def other_program_of(
    context: Context, tid: Ints, begin_ns: Ints, end_ns: Ints, *causes: str
) -> Holder | None:
    """The same of threads at times, an array element each; without causes, of whatever they slept in."""
    found: list[tuple[Ints, Ints, Ints]] = []
    for mine, sleeps in of_threads(context.case, tid, begin_ns, end_ns, causes, unseen=True):
        inside = overlap(sleeps.begin_ns, sleeps.end_ns, begin_ns[mine], end_ns[mine]) > 0
        low, high = sleeps.begin_ns[inside], sleeps.end_ns[inside]
        found.append((np.full(len(low), tid[mine][0], np.int64), low, high))
    if not found:
        return None
    holders = holders_of(context, *(np.concatenate(column) for column in zip(*found, strict=True)))
    holder = next((holder for holder in holders if holder.share >= WAKERS_KNOWN_MIN), None)
    if holder is None:
        return None
    own = context.case.rows(f"SELECT DISTINCT pid, comm FROM waits WHERE tid IN ({_listed(tid)})")
    is_own = any(row["pid"] in holder.pids or row["comm"] == holder.name for row in own)
    return None if is_own else holder


def _joined(several: list[_Parts]) -> _Parts:
    return _Parts(
        np.concatenate([parts.tid for parts in several]),
        np.concatenate([parts.begin_ns for parts in several]),
        np.concatenate([parts.end_ns for parts in several]),
    )


def _split(context: Context, parts: _Parts, *, in_calls: bool) -> tuple[_Parts, _Parts]:
    """What of these parts is the threads' own, and the sleeps in them that another thread ended, for that one.

    A thread that sleeps in a call on storage until the kernel goes on is in that call, unless such sleeps are what is asked for (`in_calls`); one that sleeps there
    for another program's thread is behind that one, as in a queue for a lock.
    """
    rows = context.case.arrays(
        f"""SELECT tid, waker_tid, coalesce(waker, '') AS waker, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE state = 'blocked' AND waker_tid IS NOT NULL AND tid IN ({_listed(parts.tid)})
  AND start_ns < {int(parts.end_ns.max())} AND start_ns + duration_ns > {int(parts.begin_ns.min())} ORDER BY tid, begin_ns"""
    )
    tid, waker, begin, end = (
        rows[name].astype(np.int64) for name in ("tid", "waker_tid", "begin_ns", "end_ns")
    )
    first, last = _places(tid, begin, end, parts)
    if not in_calls:
        within = np.unique(
            np.concatenate([np.arange(low, high) for low, high in zip(first, last, strict=True)])
        )
        names = rows["waker"].astype(str)
        kernel = [name for name in np.unique(names[within]).tolist() if is_kernel_thread(context.case, name)]
        within = within[np.isin(names[within], kernel)]
        held = within[_in_calls(context, _Parts(tid[within], begin[within], end[within]))]
        waker[held] = 0
    own: list[tuple[int, int, int]] = []
    woken: list[tuple[int, int, int]] = []
    for at in range(len(parts.tid)):
        low, high = int(parts.begin_ns[at]), int(parts.end_ns[at])
        for row in range(first[at], last[at]):
            if not waker[row]:
                continue
            its_low, its_high = max(low, int(begin[row])), min(high, int(end[row]))
            own.append((int(parts.tid[at]), low, its_low))
            woken.append((int(waker[row]), its_low, its_high))
            low = its_high
        own.append((int(parts.tid[at]), low, high))
    return _parts(own), _parts(woken)


def _parts(found: list[tuple[int, int, int]]) -> _Parts:
    """Without empty ones."""
    table = np.array([part for part in found if part[2] > part[1]], np.int64).reshape(-1, 3)
    return _Parts(table[:, 0], table[:, 1], table[:, 2])


def _places(tid: Ints, begin: Ints, end: Ints, parts: _Parts) -> tuple[Ints, Ints]:
    """For each part the first of its thread's sleeps that reaches into it, and the one behind the last; in order by thread and begin, none overlaps another
    one of its thread."""
    first, last = np.zeros(len(parts.tid), np.int64), np.zeros(len(parts.tid), np.int64)
    for thread in np.unique(parts.tid):
        mine = parts.tid == thread
        low, high = (int(np.searchsorted(tid, thread, side=side)) for side in ("left", "right"))
        first[mine] = low + np.searchsorted(end[low:high], parts.begin_ns[mine], side="right")
        last[mine] = low + np.searchsorted(begin[low:high], parts.end_ns[mine], side="left")
    return first, np.maximum(first, last)


def _in_calls(context: Context, sleeps: _Parts) -> Bools:
    """Which of these sleeps lie in a call on storage of their thread."""
    found = np.zeros(len(sleeps.tid), np.bool_)
    if "syscall" not in context.case.layers or not len(sleeps.tid):
        return found
    rows = context.case.arrays(
        f"""SELECT n FROM ({_values(sleeps)}) ASOF JOIN (SELECT tid, start_ns, start_ns + latency_ns AS end_ns FROM syscall_ops
  WHERE tid IN ({_listed(sleeps.tid)})) AS calls ON of_tid = tid AND low_ns >= start_ns WHERE end_ns >= high_ns"""
    )
    found[rows["n"].astype(np.int64)] = True
    return found


def _values(parts: _Parts) -> str:
    each = zip(parts.tid.tolist(), parts.begin_ns.tolist(), parts.end_ns.tolist(), strict=True)
    listed = ", ".join(f"({at}, {tid}, {low}, {high})" for at, (tid, low, high) in enumerate(each))
    return f"SELECT * FROM (VALUES {listed}) AS asked(n, of_tid, low_ns, high_ns)"


def _listed(tid: Ints) -> str:
    return ", ".join(map(str, np.unique(tid).tolist()))


def _told(context: Context, parts: _Parts, whole_ns: float) -> list[Holder]:
    """The threads by name; those of the kernel are nobody's program."""
    names = context.case.rows(
        f"""SELECT waker_tid AS tid, arg_max(waker_pid, start_ns) AS pid, arg_max(waker, start_ns) AS name FROM waits
WHERE waker_tid IN ({_listed(parts.tid)}) GROUP BY 1"""
    )
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in names:
        name = str(row["name"] or "")
        if name and not is_kernel_thread(context.case, name):
            groups[name].append((int(row["tid"] or 0), int(row["pid"] or 0)))
    found = []
    for name, its in groups.items():
        tids, pids = (tuple(sorted(set(numbers))) for numbers in zip(*its, strict=True))
        mine = np.isin(parts.tid, tids)
        theirs = _Parts(parts.tid[mine], parts.begin_ns[mine], parts.end_ns[mine])
        each = [(float((theirs.end_ns - theirs.begin_ns)[theirs.tid == one].sum()), one) for one in tids]
        most_ns, most = max(each)
        first = most, most_ns / max(1.0, theirs.length_ns)
        found.append(Holder(name, pids, tids, theirs.length_ns / whole_ns, _did(context, theirs), first))
    return sorted(found, key=lambda holder: (-holder.share, holder.name))


def _did(context: Context, parts: _Parts) -> tuple[tuple[str, float], ...]:
    """What threads did in these parts of time; where several waited for one of them at once, it counts once. Nothing of what was before a thread's first
    record: who thaws a file system was started for that."""
    first_ns = _first_ns(context, parts.tid)
    sums: dict[str, float] = defaultdict(float)
    whole_ns = 0.0
    for thread in np.unique(parts.tid).tolist():
        mine = parts.tid == thread
        low, high = disjoint(parts.begin_ns[mine], parts.end_ns[mine])
        whole_ns += float((high - low).sum())
        low = np.minimum(np.maximum(low, first_ns.get(thread, np.inf)), high)
        free_ns = float((high - low).sum())
        if free_ns <= 0:
            continue
        taken = np.zeros(0), np.zeros(0)
        for what, begin, end in _doings(context, thread, float(low.min()), float(high.max())):
            # A sleep in a call belongs to the call, which comes first.
            both = np.append(taken[0], begin), np.append(taken[1], end)
            left_ns = free_ns - float(overlap(low, high, *both).sum())
            left_before_ns = free_ns - float(overlap(low, high, *taken).sum())
            sums[what] += left_before_ns - left_ns
            taken = both
        sums[RAN] += free_ns - float(overlap(low, high, *taken).sum())
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return tuple((what, ns / whole_ns) for what, ns in ordered if ns > 0)


def _first_ns(context: Context, tid: Ints) -> dict[int, float]:
    """Thread -> its first call or wait; without those that have none."""
    first: dict[int, float] = {}
    for table in ("waits", *(["syscall_ops"] if "syscall" in context.case.layers else [])):
        rows = context.case.rows(
            f"SELECT tid, min(start_ns) AS first_ns FROM {table} WHERE tid IN ({_listed(tid)}) GROUP BY 1"
        )
        for row in rows:
            at = int(row["tid"] or 0)
            first[at] = min(first.get(at, np.inf), float(row["first_ns"] or 0))
    return first


def _slept(cause: str) -> str:
    """How a thread slept that no other one woke."""
    return f"slept {words.asleep_alone(cause)}" if cause else "slept"


def _doings(context: Context, tid: int, low_ns: float, high_ns: float) -> list[tuple[str, Floats, Floats]]:
    """What a thread did around then, and when: calls on storage, waits for a CPU, sleeps."""
    around = f"tid = {tid} AND start_ns < {int(high_ns)}"
    found = []
    if "syscall" in context.case.layers:
        rows = context.case.arrays(
            f"""SELECT op AS what, start_ns AS begin_ns, start_ns + latency_ns AS end_ns FROM syscall_ops
WHERE {around} AND start_ns + latency_ns > {int(low_ns)} AND latency_ns >= {WAKERS_CALL_MIN_NS} ORDER BY 2"""
        )
        calls = np.array([CALL_OF.get(str(op), OTHERS) for op in rows["what"]], np.str_)
        found += [(f"{IN_CALL}{what}", rows, calls == what) for what in np.unique(calls).tolist()]
    rows = context.case.arrays(
        f"""SELECT CASE WHEN state = 'blocked' THEN coalesce(cause, '') ELSE '' END AS cause, state, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE {around} AND start_ns + duration_ns > {int(low_ns)} ORDER BY 3"""
    )
    state, cause = rows["state"].astype(str), rows["cause"].astype(str)
    found += [(STOPPED, rows, state == "stopped"), (NO_CPU, rows, np.isin(state, ("runnable", "throttled")))]
    for name in np.unique(cause[state == "blocked"]).tolist():
        found.append((_slept(name), rows, (state == "blocked") & (cause == name)))
    return [
        (what, of["begin_ns"].astype(np.float64)[its], of["end_ns"].astype(np.float64)[its])
        for what, of, its in found
    ]
