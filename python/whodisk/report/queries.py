"""The queries of the report over the named views of a case.

They depend on what is asked for (bin width, operations picked), so they are functions that give the SQL. Every order is
total, so the same case gives the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from whodisk.reading.views import IO_ERROR, STAGES, quoted


def extent() -> str:
    """One row per layer: operations, unfinished ones, I/O errors, bytes, first start, last end."""
    return f"""SELECT layer, count(*) AS n, count_if(open) AS open, count_if({IO_ERROR}) AS errors,
  sum(size_bytes) AS size_bytes, min(start_ns) AS start_ns, max(start_ns + latency_ns) AS end_ns
FROM ops GROUP BY 1 ORDER BY 1"""


def cells(bin_ns: int, bins: int, bins_per_octave: int, devices: Sequence[str]) -> str:
    """Operations per layer, kind, device, time bin and latency bin, the slowest of each cell, and one that its id's hash chooses.

    Devices that are not in `devices` share one row, in which `device` is NULL and `named` false.
    """
    named = _among("device", devices)
    # Latency and id in one number: one `max` finds the slowest operation, and of equals always the same.
    slowest = "max(CAST(latency_ns AS HUGEINT) * 1152921504606846976 + op_id)"
    return f"""SELECT layer, op, named, device, time_bin, latency_bin, n,
  CAST(slowest // 1152921504606846976 AS BIGINT) AS worst_ns, CAST(slowest % 1152921504606846976 AS BIGINT) AS worst_id, any_id
FROM (SELECT layer, op, {named} AS named, CASE WHEN {named} THEN device END AS device,
  CAST(least(greatest(floor(start_ns / {bin_ns}), 0), {bins - 1}) AS INTEGER) AS time_bin,
  CAST(floor(log2(greatest(latency_ns, 1)) * {bins_per_octave}) AS INTEGER) AS latency_bin,
  sum(weight) AS n, {slowest} AS slowest, arg_min(op_id, hash(op_id)) AS any_id
FROM ops GROUP BY 1, 2, 3, 4, 5, 6) AS cells ORDER BY 1, 2, 3, 4, 5, 6"""


def classes(thresholds: Sequence[tuple[str, str, int, int, int]]) -> str:
    """Stage sums of slow, typical and other operations.

    `thresholds`: layer, kind, slow from (ns), typical from and to (ns, inclusive).
    """
    branches = "\n".join(
        f"    WHEN layer = {quoted(layer)} AND op = {quoted(op)} AND latency_ns >= {slow} THEN 'slow'\n"
        f"    WHEN layer = {quoted(layer)} AND op = {quoted(op)} AND latency_ns BETWEEN {low} AND {high}"
        " THEN 'typical'"
        for layer, op, slow, low, high in thresholds
    )
    sums = ", ".join(f"sum({stage}_ns) AS {stage}_ns" for stage in STAGES)
    return f"""SELECT layer, op, CASE
{branches}
    ELSE 'other' END AS class,
  count(*) AS n, min(latency_ns) AS low_ns, max(latency_ns) AS high_ns, sum(latency_ns) AS latency_ns, {sums}
FROM measured GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def episodes(thresholds: Sequence[tuple[str, str, int]]) -> str:
    """How many groups of slow operations that overlap in time a layer has.

    `thresholds`: layer, kind, slow from (ns).
    """
    return f"""WITH {_episodes(thresholds)}
SELECT layer, count(*) AS episodes FROM episodes GROUP BY 1 ORDER BY 1"""


def _episodes(thresholds: Sequence[tuple[str, str, int]]) -> str:
    """Common table expressions, the last of which is `episodes`: slow operations that overlap in time, merged per layer."""
    slow = " OR ".join(
        f"(layer = {quoted(layer)} AND op = {quoted(op)} AND latency_ns >= {slow_ns})"
        for layer, op, slow_ns in thresholds
    )
    return f"""slow AS (
  SELECT layer, start_ns, start_ns + latency_ns AS end_ns, latency_ns, op_id FROM ops WHERE {slow}),
heads AS (
  SELECT *, CASE WHEN start_ns <= max(end_ns) OVER (
    PARTITION BY layer ORDER BY start_ns, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    THEN 0 ELSE 1 END AS head FROM slow),
numbered AS (
  SELECT *, sum(head) OVER (PARTITION BY layer ORDER BY start_ns, op_id) AS episode FROM heads),
episodes AS (
  SELECT layer, episode, min(start_ns) AS start_ns, max(end_ns) AS end_ns, count(*) AS n,
    max(latency_ns) AS worst_ns FROM numbered GROUP BY 1, 2)"""


def covered(thresholds: Sequence[tuple[str, str, int]], bin_ns: int, bins: int) -> str:
    """Per layer and time bin: ns in which a slow operation was in flight, the slow operations that overlapped there, the worst.

    Operations that overlap are merged first, so no moment counts twice. `thresholds`: layer, kind, slow from (ns).
    """
    return f"""WITH {_episodes(thresholds)},
parts AS (
  SELECT layer, start_ns, end_ns, n, worst_ns, unnest(range(
    CAST(least(greatest(start_ns, 0) // {bin_ns}, {bins - 1}) AS BIGINT),
    CAST(least(greatest(end_ns, 0) // {bin_ns}, {bins - 1}) + 1 AS BIGINT))) AS time_bin FROM episodes)
SELECT layer, time_bin, max(n) AS n, max(worst_ns) AS worst_ns, CAST(sum(greatest(1,
  least(end_ns, (time_bin + 1) * {bin_ns}) - greatest(start_ns, time_bin * {bin_ns}))) AS BIGINT) AS covered_ns
FROM parts GROUP BY 1, 2 ORDER BY 1, 2"""


def worst(layer: str, floor_ns: int, limit: int) -> str:
    """The slowest operations of a layer, unfinished ones included, ramp phases not.

    `floor_ns`: a latency that at least `limit` operations reach; it spares sorting all of them.
    """
    return f"""SELECT * FROM judged WHERE layer = {quoted(layer)} AND (open OR latency_ns >= {floor_ns})
ORDER BY latency_ns DESC, op_id LIMIT {limit}"""


def requests(parents: Sequence[int]) -> str:
    """The operations below each of `parents`, with their links, in order of start."""
    chosen = ", ".join(str(parent) for parent in parents)
    return f"""SELECT links.parent_id, links.kind, links.bytes, ops.*
FROM links JOIN ops ON ops.op_id = links.child_id
WHERE links.parent_id IN ({chosen}) ORDER BY links.parent_id, ops.start_ns, ops.op_id"""


def tiers() -> str:
    """Per layer, kind and tier: operations, bytes that the tier served them, and what they waited for these (ns).

    A read of a server's, or of a program's own operation, counts to that operation, too: `layer` is then `app`.
    """
    return """WITH reads AS (SELECT op_id, layer, op, op_id AS owner_id FROM measured WHERE op_id IN (SELECT op_id FROM cache)),
owners AS (SELECT r.op_id, a.layer, a.op, a.op_id AS owner_id FROM reads AS r JOIN links AS l ON l.child_id = r.op_id
  JOIN measured AS a ON a.op_id = l.parent_id AND a.layer = 'app'),
owned AS (SELECT * FROM reads UNION ALL SELECT * FROM owners),
asked AS (SELECT layer, op, count(DISTINCT owner_id) AS operations FROM owned GROUP BY 1, 2)
SELECT o.layer, o.op, c.tier, any_value(asked.operations) AS operations, sum(c.size_bytes) AS bytes,
  count_if(c.wait_ns > 0) AS waits, sum(c.wait_ns) AS wait_ns
FROM owned AS o JOIN cache AS c ON c.op_id = o.op_id JOIN asked ON asked.layer = o.layer AND asked.op = o.op
GROUP BY 1, 2, 3 ORDER BY 1, 2, 5 DESC, 3"""


def around(windows: Sequence[tuple[int, str, int, int, int]], reach_ns: int, limit: int) -> str:
    """What the thread of an operation had in flight beside it, at most `limit` each, longest first.

    `windows`: op_id, layer, tid, from (ns), to (ns). Operations that began more than `reach_ns`
    before the window are not looked for, so that a large case is not read whole.
    """
    parts = [
        f"""(SELECT {op_id} AS around_id, count(*) OVER () AS neighbours, * FROM {layer}_ops
WHERE tid = {tid} AND op_id <> {op_id} AND start_ns >= {start - reach_ns} AND start_ns < {end}
  AND start_ns + latency_ns > {start} ORDER BY latency_ns DESC, op_id LIMIT {limit})"""
        for op_id, layer, tid, start, end in windows
    ]
    return "\nUNION ALL\n".join(parts) + "\nORDER BY around_id, start_ns, op_id"


def gaps(limit: int) -> str:
    """The longest silences, those first in which the workload is known to have meant to be busy.

    Each row also holds the number of all silences and their sum.
    """
    return f"""SELECT *, count(*) OVER () AS gaps, sum(duration_ns) OVER () AS silent_ns,
  count_if(meant_busy) OVER () AS meant
FROM gaps ORDER BY meant_busy DESC NULLS LAST, duration_ns DESC, start_ns, tid, layer LIMIT {limit}"""


def gaps_around(windows: Sequence[tuple[int, str, int, int, int]]) -> str:
    """Silences of the thread of an operation within its window (see `around`)."""
    parts = [
        f"""SELECT {op_id} AS around_id, * FROM gaps WHERE layer = {quoted(layer)} AND tid = {tid}
  AND start_ns < {end} AND start_ns + duration_ns > {start}"""
        for op_id, layer, tid, start, end in windows
    ]
    return "\nUNION ALL\n".join(parts) + "\nORDER BY around_id, start_ns"


def losses(limit: int) -> str:
    """Losses, largest first."""
    return f"""SELECT *, count(*) OVER () AS losses FROM losses
ORDER BY lost DESC NULLS FIRST, start_ns, end_ns, probe, reason LIMIT {limit}"""


def events(limit: int) -> str:
    """What happened at a moment, in order of time."""
    return f"""SELECT *, count(*) OVER () AS events FROM events
ORDER BY time_ns, kind, subject, detail LIMIT {limit}"""


def _among(column: str, names: Sequence[str]) -> str:
    if not names:
        return f"({column} IS NULL)"
    chosen = ", ".join(quoted(name) for name in names)
    return f"({column} IS NULL OR {column} IN ({chosen}))"
