"""The programs with requests in a case: the judged one, and others on the same devices."""

from __future__ import annotations

from whodisk.evidence.context import Context
from whodisk.reading.views import quoted


def own_sql(context: Context) -> str:
    """SQL, for `IN (...)`: the names that the judged program goes by."""
    return ", ".join(quoted(name) for name in context.own_programs[0]) or "NULL"


def program_sql(context: Context) -> str:
    """SQL, of a row of layer `block`: the name of the program that a request belongs to.

    Another process may bear the name of the judged one: a second instance of the same database. The verdict names it with its number. What the kernel writes out for
    another program belongs to that one.
    """
    pids, writers = context.own_programs[1], context.other_writers
    comm = "coalesce((SELECT program FROM written_for WHERE request_id = op_id), comm)" if writers else "comm"
    if not pids:
        return comm
    same = f"pid > 0 AND comm IN ({own_sql(context)}) AND pid NOT IN ({', '.join(map(str, pids))})"
    return f"CASE WHEN {same} THEN concat(comm, ' (process ', pid, ')') ELSE {comm} END"


def programs_sql(context: Context, bins: int, devices: list[str]) -> str:
    """SQL: bytes and requests per time bin of programs on these devices, the judged one among them."""
    own = own_sql(context)
    names = ", ".join(quoted(device) for device in devices) or "NULL"
    return f"""SELECT comm, comm IN ({own}) AS own, bin, sum(size_bytes) AS bytes, count(*) AS requests
FROM (SELECT {program_sql(context)} AS comm, {context.survey.time_bin_sql(bins)} AS bin, size_bytes FROM measured
  WHERE layer = 'block' AND comm IS NOT NULL AND device IN ({names})) AS requests
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
