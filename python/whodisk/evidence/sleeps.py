"""When threads slept, and in what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Bools, Ints

#: What a thread sleeps in that made too many pages dirty: a word of the recorder's, and the kernel's function.
DIRTY_SLEEPS = ("dirty throttling", "balance_dirty_pages")


@dataclass(frozen=True)
class Sleeps:
    """Sleeps of one thread, in order of their begin; an array element each."""

    #: Empty: nobody looked.
    cause: npt.NDArray[np.str_]
    begin_ns: Ints
    end_ns: Ints


def of_threads(
    case: Case,
    tid: Ints,
    begin_ns: Ints,
    end_ns: Ints,
    causes: tuple[str, ...] = (),
    *,
    unseen: bool = False,
) -> Iterator[tuple[Bools, Sleeps]]:
    """For each thread that slept: which of these times are its, and its sleeps around then (in one of the causes, if any are given).

    A recorder looks at the cause of a sleep now and then: `unseen` are the others, too. Nothing where that was not recorded.
    """
    if "waits" not in case.columns or not len(tid):
        return
    listed = ", ".join(map(str, np.unique(tid).tolist()))
    chosen = (
        f"cause IN ({', '.join(map(quoted, causes))})"
        if causes
        else "true"
        if unseen
        else "cause IS NOT NULL"
    )
    data = case.arrays(
        f"""SELECT tid, coalesce(cause, '') AS cause, start_ns AS begin_ns, start_ns + duration_ns AS end_ns FROM waits
WHERE state = 'blocked' AND {chosen} AND tid IN ({listed})
  AND start_ns < {int(end_ns.max())} AND start_ns + duration_ns > {int(begin_ns.min())} ORDER BY start_ns"""
    )
    cause = data["cause"].astype(str)
    low, high = (data[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    for thread in np.unique(data["tid"]):
        its = data["tid"] == thread
        yield np.asarray(tid == thread, np.bool_), Sleeps(cause[its], low[its], high[its])
