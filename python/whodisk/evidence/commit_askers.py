"""For whom a journal is committed: for a program that syncs, if that is one, and not the judged one.

A neighbour that syncs 16 KiB each time makes the journal's thread write blocks of its own, and the device flush its cache twice: of what that costs the disk its own request is
the smallest part. The record says which transaction a sync waited for, and when that was committed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whodisk.evidence.context import Context
from whodisk.evidence.programs import program_sql
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Ints

_FOR = "regexp_extract(detail, 'transaction ([0-9]+)', 1)"
_UNTIL = "time_ns + CAST(regexp_extract(detail, 'duration_ns ([0-9]+)', 1) AS BIGINT)"


def for_askers(
    context: Context, device: str, comm: npt.NDArray[np.str_], start_ns: Ints
) -> npt.NDArray[np.str_]:
    """Who made these requests (`comm`, empty: not known), in any order: the program for whose syncs alone a journal of the device was committed when its thread made
    them, or when a flush began, instead of the journal's thread or nobody."""
    if "events" not in context.case.columns or not len(comm):
        return comm
    commits = context.case.arrays(_commits_sql(context, device))
    begin, end = (commits[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
    if not len(begin):
        return comm
    thread, asker = commits["thread"].astype(str), commits["asker"].astype(str)
    at = np.clip(np.searchsorted(begin, start_ns, side="right") - 1, 0, None)
    within = (start_ns >= begin[at]) & (start_ns < end[at])
    its = within & ((comm == "") | (comm == thread[at]))
    return np.where(its, asker[at], comm)


def _commits_sql(context: Context, device: str) -> str:
    """Commits of the device's journal that syncs of one program waited for, which is not the judged one."""
    names, pids = context.own_programs
    own = f"asker IN ({', '.join(map(quoted, names)) or 'NULL'}) OR pid IN ({', '.join(map(str, pids)) or 'NULL'})"
    return f"""WITH c AS (SELECT time_ns AS begin_ns, {_UNTIL} AS end_ns, {_FOR} AS number, regexp_extract(detail, ' by (.*) [(]pid [0-9]+[)]$', 1) AS thread
  FROM events WHERE kind = 'journal_commit' AND subject = {quoted(device)} AND regexp_matches(detail, 'duration_ns [0-9]+ .*transaction [0-9]+ by ')),
programs AS (SELECT pid, arg_max(who, n) AS who FROM (SELECT pid, {program_sql(context)} AS who, count(*) AS n FROM block_ops WHERE pid > 0 GROUP BY 1, 2) AS p WHERE who IS NOT NULL GROUP BY 1),
f AS (SELECT *, coalesce((SELECT who FROM programs WHERE programs.pid = s.pid), thread) AS asker FROM
  (SELECT time_ns AS begin_ns, {_UNTIL} AS end_ns, {_FOR} AS number, regexp_extract(detail, ' by (.*) [(]pid [0-9]+[)]$', 1) AS thread,
    CAST(regexp_extract(detail, '[(]pid ([0-9]+)[)]$', 1) AS BIGINT) AS pid
   FROM events WHERE kind = 'fsync' AND regexp_matches(detail, 'duration_ns [0-9]+ .*transaction [0-9]+ by .*[(]pid [0-9]+[)]$')) AS s)
SELECT c.begin_ns, c.end_ns, min(c.thread) AS thread, min(f.asker) AS asker FROM c JOIN f ON f.number = c.number AND f.begin_ns < c.end_ns AND f.end_ns > c.begin_ns
GROUP BY 1, 2 HAVING count(DISTINCT f.asker) = 1 AND NOT bool_or({own}) ORDER BY 1"""
