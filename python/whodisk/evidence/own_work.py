"""What a database does to itself: which of its own files the slowest operations waited for, and what it was doing meanwhile.

Of a program that `whodisk run` started (its operations are layer app). The names that RocksDB, PostgreSQL and SQLite give
its files identify them; its own log (`workload.activities`) says what it was doing. Sentences only: nobody is accused by them.
"""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.evidence.thresholds import OWN_SHARE_TOLD, TAIL_OPERATIONS_MIN, TAIL_PART
from whodisk.reading.views import Case
from whodisk.statistics.stats import Ints, overlap

#: What a database keeps where: SQL patterns of paths, and words; the first that fits.
FILES = (
    ("%.sst", "tables"),
    ("%/MANIFEST-%", "the manifest"),
    ("%/pg_wal/%", "the write-ahead log"),
    ("%.db-wal", "the write-ahead log"),
    ("%.log", "the write-ahead log"),
    ("%.db-journal", "the rollback journal"),
    ("%/pg_xact/%", "the commit log"),
    ("%/base/%", "tables"),
    ("%/global/%", "tables"),
    ("%.db", "tables"),
)
_CALLS = {"read": "reads of", "write": "writes to", "sync": "syncs of"}


def own_work(case: Case) -> list[str]:
    """A sentence per kind of operation; none for any other case than that of a program with a log of its own."""
    if case.program is None or "app" not in case.layers or "syscall" not in case.layers:
        return []
    told = []
    for row in case.rows(
        "SELECT op, count(*) AS n FROM measured WHERE layer = 'app' GROUP BY 1 ORDER BY 2 DESC, 1"
    ):
        if int(row["n"] or 0) * TAIL_PART >= TAIL_OPERATIONS_MIN:
            told += _of_kind(case, str(row["op"]), int(row["n"] or 0))
    return told


def _of_kind(case: Case, op: str, operations: int) -> list[str]:
    number = round(operations * TAIL_PART)
    tail = case.arrays(
        f"""SELECT op_id, start_ns, latency_ns, coalesce(app_ns, 0) AS app_ns, coalesce(runqueue_ns, 0) AS runqueue_ns
FROM measured WHERE layer = 'app' AND op = '{op}' ORDER BY latency_ns DESC, op_id LIMIT {number}"""
    )
    total = max(1.0, float(tail["latency_ns"].sum()))
    shares = {
        "the program itself": float(tail["app_ns"].sum()) / total,
        "waits for a CPU": float(tail["runqueue_ns"].sum()) / total,
    }
    classes = " ".join(f"WHEN file LIKE '{pattern}' THEN '{what}'" for pattern, what in FILES)
    ids = ", ".join(str(int(number)) for number in tail["op_id"])
    for row in case.rows(
        f"""WITH mine AS (SELECT op_id, tid AS its_tid, start_ns AS from_ns, start_ns + latency_ns AS to_ns FROM app_ops WHERE op_id IN ({ids}))
SELECT call.op, CASE {classes} ELSE 'other files' END AS what, call.tid <> its_tid AND call.tid IN (SELECT tid FROM app_ops) AS others,
  sum(greatest(0, least(call.start_ns + call.latency_ns, to_ns) - greatest(call.start_ns, from_ns) - coalesce(call.runqueue_ns, 0))) AS ns
FROM mine JOIN links ON links.parent_id = mine.op_id JOIN syscall_ops AS call ON call.op_id = links.child_id
GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"""
    ):
        kind = f"{_CALLS.get(str(row['op']), 'other calls on')} {row['what']}"
        if row["others"]:
            kind += " by another one, for which they slept"
        shares[kind] = shares.get(kind, 0.0) + float(row["ns"] or 0) / total
    parts = [
        f"{words.percent(min(1.0, share))} in {what}"
        for what, share in sorted(shares.items(), key=lambda item: -item[1])
        if share >= OWN_SHARE_TOLD
    ]
    if not parts:
        return []
    slowest = f"The slowest {words.percent(TAIL_PART)} of {words.plural_op(op)} ({words.count(number)})"
    return [f"{slowest} spent {words.listed(parts)}.{_meanwhile(case, tail['start_ns'], tail['latency_ns'])}"]


def _meanwhile(case: Case, start_ns: Ints, latency_ns: Ints) -> str:
    """What the program's log says it was doing: in how much of their time, and in how much of all time."""
    zero = int((case.meta.get("clock") or {}).get("start_ns") or 0)
    spans: dict[str, list[tuple[int, int]]] = {}
    for activity in case.activities:
        from_zero = int(activity["start_ns"]) - zero
        span = from_zero, from_zero + int(activity["duration_ns"])
        spans.setdefault(str(activity["what"]), []).append(span)
    begin, end = start_ns.astype(np.int64), (start_ns + latency_ns).astype(np.int64)
    said = []
    for what, listed in sorted(spans.items()):
        from_ns, to_ns = np.array(listed, np.int64).T
        within = float(overlap(begin, end, from_ns, to_ns).sum()) / max(1.0, float(latency_ns.sum()))
        whole = np.array([0]), np.array([case.duration_ns or 1])
        always = float(overlap(*whole, from_ns, to_ns)[0]) / (case.duration_ns or 1)
        said.append(f"{what} in {words.percent(within)} of their time ({words.percent(always)} of all)")
    return f" Meanwhile, by its own log: {words.listed(said)}." if said else ""
