"""For whom threads of the kernel write: what any program has written through the page cache they write out later.

The recorder notes who made pages of a file dirty, whoever that is, and when a thread of the kernel wrote a file out (events `dirtied` and
`inode_written`): a request that this thread issued meanwhile is of that file, and so of the program that had dirtied it last.
"""

from __future__ import annotations

from collections.abc import Collection

from whodisk.evidence.thresholds import DIRTIED_MIN, PLUGGED_NS
from whodisk.reading.flush_waits import KERNEL
from whodisk.reading.views import Case, quoted

_PROGRAM = r"regexp_extract(detail, ' by (.*) \(pid [0-9]+\)$', 1)"
_PID = r"TRY_CAST(regexp_extract(detail, '\(pid ([0-9]+)\)$', 1) AS INTEGER)"
_LENGTH_NS = "coalesce(TRY_CAST(regexp_extract(detail, 'duration_ns ([0-9]+)', 1) AS BIGINT), 0)"
#: SQL, of an event: the bytes that it tells of; 0 where it tells none.
BYTES = "coalesce(TRY_CAST(regexp_extract(detail, 'bytes ([0-9]+)', 1) AS BIGINT), 0)"


def writers(case: Case, own: Collection[str]) -> list[str]:
    """Programs that are not judged and that wrote `DIRTIED_MIN` or more through the page cache, those with most first."""
    if "events" not in case.columns or "block" not in case.layers:
        return []
    # A journal's thread makes pages dirty again while it commits them.
    rows = case.rows(
        f"""SELECT program, sum(bytes) AS bytes FROM (SELECT {_PROGRAM} AS program, {BYTES} AS bytes FROM events WHERE kind = 'dirtied') AS dirtied
WHERE program NOT IN (SELECT comm FROM block_ops WHERE comm IS NOT NULL AND coalesce(flags, 0) & {KERNEL} > 0)
GROUP BY 1 HAVING sum(bytes) >= {DIRTIED_MIN} ORDER BY 2 DESC, 1"""
    )
    return [str(row["program"]) for row in rows if row["program"] and row["program"] not in own]


def written_for_sql(names: list[str]) -> str:
    """Query (request_id, program): the requests of the kernel's threads that write out what these programs had dirtied last."""
    listed = ", ".join(map(quoted, names))
    return f"""SELECT asked.op_id AS request_id, any_value(files.program) AS program
FROM (SELECT op_id, pid, start_ns FROM block_ops WHERE op = 'write' AND coalesce(flags, 0) & {KERNEL} > 0) AS asked
ASOF JOIN (SELECT written.pid, written.begin_ns, written.end_ns, dirtied.program
  FROM (SELECT subject, time_ns AS begin_ns, time_ns + {_LENGTH_NS} AS end_ns, {_PID} AS pid FROM events WHERE kind = 'inode_written') AS written
  ASOF JOIN (SELECT subject, time_ns AS from_ns, {_PROGRAM} AS program FROM events WHERE kind = 'dirtied') AS dirtied
  ON written.subject = dirtied.subject AND written.end_ns >= dirtied.from_ns) AS files
ON asked.pid = files.pid AND asked.start_ns >= files.begin_ns
WHERE asked.start_ns <= files.end_ns + {PLUGGED_NS} AND files.program IN ({listed}) GROUP BY 1"""
