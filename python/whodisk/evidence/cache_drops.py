"""Pages that programs had the kernel drop from its page cache: posix_fadvise(POSIX_FADV_DONTNEED), ioctl(BLKFLSBUF).

Backup tools do so behind themselves, and benchmarks before each pass: fio whenever it opens a file, unless it is told invalidate=0. Who reads the
same again fetches it again, however much memory is free.
"""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.evidence.context import Context
from whodisk.evidence.thresholds import DROPS_MAX


@dataclass(frozen=True)
class Drops:
    """What one program had dropped, of pieces that were read before and after."""

    comm: str
    #: Whether it reads them itself: a process, or another one of its name.
    own: bool
    #: How often it asked for it, of the files that these pieces belong to.
    times: int
    #: Pieces that were fetched again for it.
    pieces: int


def drops(context: Context, touches_sql: str) -> list[Drops]:
    """Who had dropped what was fetched again (rows of `touches_sql` that were missed with `nth` > 1), most pieces first.

    Of several drops between two reads the last one counts. A drop of 0 bytes goes to the end of its file. Of all drops the first `DROPS_MAX` are looked at.
    """
    asked = context.case.rows("SELECT count(*) AS n FROM ops WHERE layer = 'syscall' AND op = 'drop'")
    if not asked[0]["n"]:
        return []
    rows = context.case.rows(
        f"""SELECT comm, own, count(DISTINCT drop_id) AS times, count(*) AS pieces FROM (
  SELECT t.op_id, t.offset_bytes, max_by(d.comm, d.start_ns) AS comm, max_by(d.op_id, d.start_ns) AS drop_id,
    max_by(d.pid = t.pid OR d.comm = t.comm, d.start_ns) AS own
  FROM (SELECT * FROM ({touches_sql}) AS touches WHERE missed AND nth > 1) AS t
  JOIN (SELECT op_id, file, comm, pid, start_ns, offset_bytes AS low, CASE WHEN size_bytes > 0 THEN offset_bytes + size_bytes END AS high
    FROM ops WHERE layer = 'syscall' AND op = 'drop' AND file IS NOT NULL AND error = 0 ORDER BY start_ns, op_id LIMIT {DROPS_MAX}) AS d
  ON t.file = d.file AND d.start_ns >= t.before_ns AND d.start_ns <= t.start_ns AND t.offset_bytes >= d.low AND (d.high IS NULL OR t.offset_bytes < d.high)
  GROUP BY 1, 2) AS dropped GROUP BY 1, 2 ORDER BY 4 DESC, 1"""
    )
    return [
        Drops(str(row["comm"]), bool(row["own"]), int(row["times"] or 0), int(row["pieces"] or 0))
        for row in rows
    ]
