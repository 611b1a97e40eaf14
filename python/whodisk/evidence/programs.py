"""The programs whose requests are in a case: the judged one, and others on the same devices."""

from __future__ import annotations

from whodisk.evidence.context import Context


def own_sql(context: Context) -> str:
    """The names that the judged operations come from."""
    return f"SELECT comm FROM measured WHERE layer = '{context.layer}' AND comm IS NOT NULL GROUP BY 1"


def programs_sql(context: Context, bins: int) -> str:
    """Bytes and requests per time bin of programs on the judged program's devices, and of the judged program."""
    own = own_sql(context)
    return f"""SELECT comm, comm IN ({own}) AS own, {context.survey.time_bin_sql(bins)} AS bin, sum(size_bytes) AS bytes,
  count(*) AS requests FROM measured
WHERE layer = 'block' AND comm IS NOT NULL
  AND device IN (SELECT device FROM measured WHERE layer = 'block' AND comm IN ({own}) GROUP BY 1)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
