"""When threads slept, and in what; of one that slept until another one of its program let it go on, in what that one slept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.evidence.thresholds import HELD_BY_OWN_MIN, HELD_BY_OWN_SLEEPS_MAX, WAKERS_HOPS_MAX
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Bools, Floats, Ints, overlap

#: What a thread sleeps in that made too many pages dirty: a word of the recorder's, and the kernel's function.
DIRTY_SLEEPS = ("dirty throttling", "balance_dirty_pages")
#: Where a thread sleeps before its request is queued, until the device has taken more of what was written (block/blk-rq-qos.c).
HELD_TO_WRITE = "rq_qos_wait"


@dataclass(frozen=True)
class Sleeps:
    """Sleeps of one thread, in order of their begin; an array element each."""

    #: Empty: nobody looked.
    cause: npt.NDArray[np.str_]
    begin_ns: Ints
    end_ns: Ints


#: What a query of `waits` has beside thread, cause and times for `behind_own`, where that was recorded.
HOLDER_COLUMNS = (
    "coalesce(pid, 0) AS pid, coalesce(waker_tid, 0) AS waker_tid, coalesce(waker_pid, 0) AS waker_pid"
)
#: Where a thread sleeps until a process that serves its file system has answered (fs/fuse/dev.c; the callers, where the compiler put it into them).
AS_WHEN_SERVED = (
    "request_wait_answer",
    "__fuse_request_send",
    "__fuse_simple_request",
    "fuse_simple_request",
)
#: Whom nobody waits for with a lock of the kernel in hand: who waits for work, or for a lock of the program.
NO_HOLDER = (*words.AS_WHEN_IDLE, *words.AS_WHEN_WOKEN)


def is_in(causes: npt.NDArray[np.str_], functions: tuple[str, ...]) -> Bools:
    """Which of these causes are these functions of the kernel, whatever a compiler appended to their names."""
    names, which = np.unique(causes, return_inverse=True)
    found: Bools = np.isin(np.array([words.function(name) for name in names.tolist()], np.str_), functions)
    return np.asarray(found[which.ravel()], np.bool_)


def behind_own(
    case: Case, rows: dict[str, npt.NDArray[np.generic]], *, served: bool = False
) -> tuple[npt.NDArray[np.str_], Bools]:
    """In what each of these sleeps (tid, pid, cause, begin_ns, end_ns, waker_tid, waker_pid; `HOLDER_COLUMNS`) was held, and whether that was a sleep of another thread.

    Six threads rename files, one of them with the lock that all need in hand, asleep until it may write: the five others wait for that, one behind the other.
    Who woke a sleeper is known of sleeps of 100 us and more; of its own process only, as a lock that another program holds is that one's doing. With `served`
    a process that serves the sleeper's file system (FUSE) counts as its own: it works for that call.
    """
    # A column of strings keeps its width: what is put in would be cut.
    cause = rows["cause"].astype(str).astype(object)
    begin, end = (rows[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    behind = np.zeros(len(cause), np.bool_)
    if "waker_tid" not in case.columns.get("waits", ()):
        return cause.astype(str), behind
    pid = rows["pid"].astype(np.int64)
    waker, of = (rows[name].astype(np.int64) for name in ("waker_tid", "waker_pid"))
    may = ~is_in(cause.astype(str), NO_HOLDER)
    follows = of == pid
    if served and case.servers:
        follows |= is_in(cause.astype(str), AS_WHEN_SERVED) & np.isin(of, list(case.servers))
        pid = np.where(follows, of, pid)
    at = np.flatnonzero(may & (waker > 0) & follows)
    at = np.sort(at[np.argsort((begin - end)[at], kind="stable")[:HELD_BY_OWN_SLEEPS_MAX]])
    for _ in range(WAKERS_HOPS_MAX):
        if not len(at):
            break
        its = case.arrays(
            f"""SELECT tid, cause, start_ns AS begin_ns, start_ns + duration_ns AS end_ns, {HOLDER_COLUMNS} FROM waits
WHERE state = 'blocked' AND cause IS NOT NULL AND tid IN ({", ".join(map(str, np.unique(waker[at]).tolist()))})
  AND duration_ns >= {int(HELD_BY_OWN_MIN * (end - begin)[at].min())} AND start_ns < {int(end[at].max())} AND start_ns + duration_ns > {int(begin[at].min())}
ORDER BY tid, begin_ns"""
        )
        tid, low, high = (its[name].astype(np.int64) for name in ("tid", "begin_ns", "end_ns"))
        further: list[int] = []
        for sleep in at.tolist():
            first, last = np.searchsorted(tid, [waker[sleep], waker[sleep] + 1])
            # Sleeps of one thread do not overlap: their begins and ends are in order.
            first, last = (
                first + int(np.searchsorted(high[first:last], begin[sleep], side="right")),
                first + int(np.searchsorted(low[first:last], end[sleep])),
            )
            if last <= first:
                continue
            inside = np.minimum(high[first:last], end[sleep]) - np.maximum(low[first:last], begin[sleep])
            most = first + int(np.argmax(inside))
            said = str(its["cause"][most])
            if inside.max() < HELD_BY_OWN_MIN * (end - begin)[sleep] or words.function(said) in NO_HOLDER:
                continue
            cause[sleep], behind[sleep] = said, True
            waker[sleep] = int(its["waker_tid"][most])
            if waker[sleep] > 0 and int(its["waker_pid"][most]) == pid[sleep]:
                further.append(sleep)
        at = np.array(further, np.int64)
    return cause.astype(str), behind


def held_in_ns(case: Case, tid: Ints, begin_ns: Ints, end_ns: Ints, functions: tuple[str, ...]) -> Floats:
    """How long each of these times of a thread was held in a sleep in one of these functions of the kernel (`behind_own`), ns."""
    slept = np.zeros(len(tid))
    for mine, sleeps in of_threads(case, tid, begin_ns, end_ns, held=True):
        its = is_in(sleeps.cause, functions)
        slept[mine] = overlap(begin_ns[mine], end_ns[mine], sleeps.begin_ns[its], sleeps.end_ns[its])
    return slept


def of_threads(
    case: Case,
    tid: Ints,
    begin_ns: Ints,
    end_ns: Ints,
    causes: tuple[str, ...] = (),
    *,
    unseen: bool = False,
    held: bool = False,
    served: bool = False,
) -> Iterator[tuple[Bools, Sleeps]]:
    """For each thread that slept: which of these times are its, and its sleeps around then; in one of the causes, if any are given.

    A recorder looks at the cause of a sleep now and then: `unseen` are the others, too. With `held` each has the cause that held it (`behind_own`), with `served`
    in a server of its file system, too. Nothing where that was not recorded.
    """
    if "waits" not in case.columns or not len(tid):
        return
    listed = ", ".join(map(str, np.unique(tid).tolist()))
    chosen = (
        f"cause IN ({', '.join(map(quoted, causes))})"
        if causes and not held
        else "true"
        if unseen
        else "cause IS NOT NULL"
    )
    data = case.arrays(
        f"""SELECT tid, coalesce(cause, '') AS cause, start_ns AS begin_ns, start_ns + duration_ns AS end_ns, {HOLDER_COLUMNS} FROM waits
WHERE state = 'blocked' AND {chosen} AND tid IN ({listed})
  AND start_ns < {int(end_ns.max())} AND start_ns + duration_ns > {int(begin_ns.min())} ORDER BY start_ns"""
    )
    cause = behind_own(case, data, served=served)[0] if held else data["cause"].astype(str)
    chosen_too: Bools = np.isin(cause, causes) if causes else np.ones(len(cause), np.bool_)
    low, high = (data[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    for thread in np.unique(data["tid"][chosen_too]):
        its = chosen_too & (data["tid"] == thread)
        yield np.asarray(tid == thread, np.bool_), Sleeps(cause[its], low[its], high[its])
