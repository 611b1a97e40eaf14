"""The programs whose requests are in a case: the judged one, and others on the same devices."""

from __future__ import annotations

from whodisk.evidence.context import Context


def own_sql(context: Context) -> str:
    """SQL: the names that the judged program goes by, those that its operations come from and those of its other threads.

    A database's own compaction or checkpointer is no competitor of its clients.
    """
    mine = [f"SELECT comm FROM measured WHERE layer = '{context.layer}' AND comm IS NOT NULL GROUP BY 1"]
    if _calls_are_own(context):
        mine.append("SELECT comm FROM syscall_ops WHERE comm IS NOT NULL GROUP BY 1")
    if "block" in context.surveys:
        mine.append(
            f"SELECT comm FROM block_ops WHERE pid IN ({_pids_sql(context)}) AND comm IS NOT NULL GROUP BY 1"
        )
    return " UNION ".join(mine)


def program_sql(context: Context) -> str:
    """SQL, of a row of layer `block`: the name of the program that a request belongs to.

    Another process may bear the name of the judged one: a second instance of the same database. It is told with its number.
    """
    pids = _pids_sql(context)
    if not context.case.rows(f"SELECT 1 AS one FROM ({pids}) AS p LIMIT 1"):
        return "comm"
    same = f"pid > 0 AND comm IN ({own_sql(context)}) AND pid NOT IN ({pids})"
    return f"CASE WHEN {same} THEN concat(comm, ' (process ', pid, ')') ELSE comm END"


def programs_sql(context: Context, bins: int) -> str:
    """SQL: bytes and requests per time bin of programs on the judged program's devices, and of the judged program."""
    own = own_sql(context)
    return f"""SELECT comm, comm IN ({own}) AS own, bin, sum(size_bytes) AS bytes, count(*) AS requests
FROM (SELECT {program_sql(context)} AS comm, {context.survey.time_bin_sql(bins)} AS bin, size_bytes FROM measured
  WHERE layer = 'block' AND comm IS NOT NULL
    AND device IN (SELECT device FROM measured WHERE layer = 'block' AND comm IN ({own}) GROUP BY 1)) AS requests
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def _pids_sql(context: Context) -> str:
    mine = f"SELECT pid FROM measured WHERE layer = '{context.layer}' AND pid > 0 GROUP BY 1"
    if _calls_are_own(context):
        mine += " UNION SELECT pid FROM syscall_ops WHERE pid > 0 GROUP BY 1"
    return mine


def _calls_are_own(context: Context) -> bool:
    """Whether every recorded system call is one of the recorded command or its descendants."""
    return bool(context.case.meta.get("command")) and "syscall" in context.case.layers
