"""Reads that missed a cache: while it warms up, or because it is too small for what is read again.

A miss takes as long as the tier below takes: that is no fault of the tier below, and slow operations that are only misses are
explained here. What was never read before has to be fetched once, and accuses nobody. What had been read before and had to
be fetched again costs a finding, unless the program itself had it dropped meanwhile. That the recording saw it being read before is one way to know; the kernel's own
count of what it evicted is another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Excuse, Result, evidence
from whodisk.detectors.candidates import of_time_lost
from whodisk.detectors.thresholds import (
    CACHE_AGAIN_MIN,
    CACHE_DROPPED_MIN,
    CACHE_EARLY_MIN,
    CACHE_HITS_MIN,
    CACHE_MISSES_MIN,
    CACHE_MISSES_TOLD_MIN,
)
from whodisk.evidence.cache_drops import Drops, drops
from whodisk.evidence.context import Context
from whodisk.evidence.missed import missed_sql
from whodisk.evidence.page_cache import Group, PageCache, page_cache
from whodisk.evidence.slept_through import slept_through
from whodisk.evidence.thresholds import TAIL_BEGIN
from whodisk.evidence.time_lost import TimeLost, lost_in_blocks, p99_ratio
from whodisk.findings import Culprit
from whodisk.statistics.stats import Bools

#: Tiers that are the cache itself.
HIT = "('ram', 'readahead')"


def touches_sql(context: Context) -> str:
    """Pieces of reads in the measured window: whether it was missed, how often it had been read before, when it was read the last time, when that ended, and how much it was."""
    survey = context.survey
    return f"""SELECT * FROM (SELECT c.op_id, c.file, c.offset_bytes, c.size_bytes, c.tier, c.wait_ns, r.start_ns, r.comm, r.pid,
  c.tier NOT IN {HIT} AND c.wait_ns > 0 AS missed, row_number() OVER touched AS nth, lag(r.start_ns) OVER touched AS before_ns,
  lag(r.start_ns + r.latency_ns) OVER touched AS before_end_ns, lag(c.size_bytes) OVER touched AS before_bytes
FROM cache AS c JOIN ops AS r ON r.op_id = c.op_id WHERE r.op IN ('read', 'copy', 'fault') AND c.offset_bytes IS NOT NULL
WINDOW touched AS (PARTITION BY c.file, c.offset_bytes ORDER BY r.start_ns, c.op_id)) AS touches
WHERE start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns}"""


def run(context: Context) -> Result:
    """A candidate for what had to be fetched again; a sentence for what was fetched once."""
    result = Result(excuses=_only_missed(context))
    counts = context.case.rows(
        f"""SELECT count(*) FILTER (missed AND nth = 1) AS cold, count(*) FILTER (missed AND nth > 1) AS again,
  coalesce(sum(size_bytes) FILTER (missed AND nth > 1), 0) AS again_bytes,
  count(*) FILTER (missed AND nth = 1 AND start_ns < {context.survey.begin_ns + context.survey.span_ns // 2}) AS early,
  count(*) FILTER (NOT missed AND wait_ns > 0) AS ahead, count(DISTINCT (file, offset_bytes)) AS pieces, count(*) FILTER (NOT missed AND nth > 1) AS kept, coalesce(sum(wait_ns) FILTER (missed AND nth = 1), 0) AS cold_ns
FROM ({touches_sql(context)}) AS t"""
    )[0]
    cold, again, ahead, kept, early = (
        int(counts[name] or 0) for name in ("cold", "again", "ahead", "kept", "early")
    )
    cold_share = float(counts["cold_ns"] or 0) / max(1.0, context.survey.latency_ns)
    warming = early >= CACHE_EARLY_MIN * cold and kept >= CACHE_HITS_MIN * (kept + again + cold)
    if cold >= CACHE_MISSES_MIN and cold_share >= CACHE_MISSES_TOLD_MIN and warming:
        result.observed.append(
            f"The cache was warming up: {words.things(cold, 'piece')} of reads {'was' if cold == 1 else 'were'} read for the first "
            f"time and had to be fetched, {words.percent(min(1.0, cold_share))} of the time of all operations. That is no fault "
            "of the device; measure after a ramp."
        )
    often = kept >= CACHE_HITS_MIN * (kept + again) or again >= CACHE_AGAIN_MIN * int(counts["pieces"] or 0)
    seen_again = again >= CACHE_MISSES_MIN and often
    if not seen_again and again + cold + ahead < CACHE_MISSES_MIN:
        return result
    account = page_cache(context)
    asked = drops(context, touches_sql(context)) if seen_again else []
    if sum(one.pieces for one in asked) >= CACHE_DROPPED_MIN * again > 0:
        _of_drops(context, asked, again, kept, result)
        return result
    if account is not None and account.drops and (emptied := _emptied(context, account, kept)) is not None:
        result.candidates.append(emptied)
        return result
    # Of a group at its limit, what the recording saw being read before tells more than the kernel's count, if it is more.
    if (
        account is not None
        and account.is_limited
        and (account.group is None or again <= account.refaulted_part * (again + cold + ahead))
    ):
        result.candidates += _of_a_group(context, account)
    elif seen_again or (account is not None and account.group is not None):
        result.candidates += _read_again(context, account, again, kept, float(counts["again_bytes"] or 0))
    return result


def _only_missed(context: Context) -> list[Excuse]:
    """Slow operations that took no longer than misses do are excused, whoever served them.

    A read that waits for readahead in flight waits for the same tier as a miss does.
    """
    slow = context.slow
    if not len(slow) or not context.case.rows("SELECT 1 AS one FROM cache WHERE wait_ns > 0 LIMIT 1"):
        return []
    misses = _misses(context)
    if misses is None or context.survey.operations - misses.measured < misses.measured:
        return []
    return [Excuse("took no longer than a miss", _only_missed_among(context, misses))]


@dataclass(frozen=True)
class _Misses:
    """Judged operations that missed."""

    #: What one takes, ns.
    typical_ns: float
    #: Operations in the measured window.
    measured: int


def _misses(context: Context) -> _Misses | None:
    # A ramp fills the cache: few misses may be left after it, and what one costs was learned there.
    typical = context.case.rows(
        f"""SELECT median(latency_ns) AS ns, count(*) AS n, count(*) FILTER (start_ns >= {context.survey.begin_ns}) AS measured
FROM ops WHERE NOT open AND layer = '{context.layer}' AND {missed_sql(context.case)}"""
    )[0]
    if int(typical["n"] or 0) < CACHE_MISSES_MIN:
        return None
    return _Misses(float(typical["ns"] or 0), int(typical["measured"] or 0))


def _only_missed_among(context: Context, misses: _Misses) -> Bools:
    """The slow operations that missed, and took no longer than one does that misses."""
    slow = context.slow
    ids = context.case.arrays(
        f"""SELECT op_id FROM measured WHERE layer = '{context.layer}' AND {missed_sql(context.case)}
AND latency_ns >= {int(slow.latency_ns.min())} AND latency_ns <= {int(TAIL_BEGIN * misses.typical_ns)}"""
    )
    return np.isin(slow.op_id, ids["op_id"].astype(np.int64))


def _read_again(
    context: Context, account: PageCache | None, again: int, kept: int, again_bytes: float
) -> list[Candidate]:
    """The claim about what the recording saw being read before, and fetched again."""
    lost_sql = _again_sql(context)
    held = lost_in_blocks(context, lost_sql, "lost_ns")
    if held is None:
        return []
    said = _said_again(held, again, kept)
    if account is not None and _mostly_after(context, account.first_drop_ns, again):
        return [_of_emptied(context, account, held, lost_sql, again, kept)]
    if account is not None and account.group is not None:
        return [
            _of_the_limit(
                context,
                held,
                lost_sql,
                account.group,
                f"{_too_little(account.group)} for what its programs read: {said}",
            )
        ]
    if account is not None and account.evicted < CACHE_DROPPED_MIN * again_bytes:
        return [
            _candidate(
                context,
                held,
                lost_sql,
                culprit=_ram("dropped at somebody's request"),
                claim=f"Somebody has pages dropped from the cache that are read again: for want of memory the kernel evicted {words.size(account.evicted)}, and "
                f"{words.size(again_bytes)} were fetched again. {said[0].upper()}{said[1:]}",
                refute="Give the cache more room and repeat: if less is fetched again, it was its size after all.",
                remedy="Find who drops them: posix_fadvise with POSIX_FADV_DONTNEED (tools that copy or back up files), `blockdev --flushbufs`, "
                "direct writes to the same file, a network file system that asks its server again, a new mount. `perf trace -e fadvise64` names callers.",
            )
        ]
    return [
        _candidate(
            context,
            held,
            lost_sql,
            culprit=_ram("read again, but no longer there"),
            claim=f"The cache is too small for what is read again and again: {said}",
            refute="Give the cache more room (memory, the group's memory.high) or read a smaller part of the data: if as much is "
            "fetched again, it is not its size.",
            remedy="Look at free memory, memory.max and memory.high of the group, and who else fills the cache (streams that are read "
            "once: posix_fadvise, direct I/O); make the data or the cache fit.",
        )
    ]


def _again_sql(context: Context) -> str:
    """Pieces that had been read before and had to be fetched again, and the time that each cost."""
    return f"SELECT * FROM ({_without_held_back(context)}) AS t WHERE missed AND nth > 1"


def _without_held_back(context: Context, part: float = 1.0, of: str = "") -> str:
    """Pieces (those of a query with the columns of `touches_sql`, else all) with the time that each cost, or a part of it: without what a controller held it back, which is its doing, and no lack of cache;
    nor what they waited for a process that was stopped."""
    through = slept_through(context)
    stopped = (
        ""
        if through is None
        else f" * CASE WHEN t.op_id IN ({', '.join(map(str, through.op_id.tolist()))}) THEN 0 ELSE 1 END"
    )
    return f"""SELECT t.*, {part!r} * t.wait_ns * coalesce(1 - held.part, 1){stopped} AS lost_ns FROM ({of or touches_sql(context)}) AS t
LEFT JOIN (SELECT op_id, least(1, throttle_ns / latency_ns) AS part FROM measured
  WHERE layer = '{context.layer}' AND throttle_ns > 0 AND latency_ns > 0) AS held ON held.op_id = t.op_id"""


def _fetched_again_sql(context: Context, account: PageCache) -> str:
    """Pieces that were in memory as a whole when their last read ended, and that this one had to wait for; `emptied`: somebody emptied the cache in between.

    Whoever asked for them first: a read that must not wait (RWF_NOWAIT) has them fetched and returns, and another thread waits for what is in flight then. What
    was asked for before the last read ended is its readahead, and was never dropped.
    """
    asked = "NULL"
    join = ""
    if "links" in context.case.columns:
        asked = "asked.asked_ns"
        join = """LEFT JOIN (SELECT parent_id AS op_id, min(b.start_ns) AS asked_ns FROM links JOIN block_ops AS b ON b.op_id = child_id GROUP BY 1) AS asked
  ON asked.op_id = t.op_id"""
    looks = ", ".join(f"({low}, {high})" for low, high in account.dropped)
    return f"""SELECT t.* REPLACE (true AS missed), EXISTS (SELECT 1 FROM (VALUES {looks}) AS looks(low, high)
    WHERE high >= t.before_end_ns AND low <= t.start_ns) AS emptied
FROM ({touches_sql(context)}) AS t {join}
WHERE t.wait_ns > 0 AND t.nth > 1 AND t.before_bytes >= t.size_bytes AND (t.missed OR {asked} >= t.before_end_ns)"""


def _emptied(context: Context, account: PageCache, kept: int) -> Candidate | None:
    """The claim about pages that were there until somebody emptied the whole cache; None if most of what was fetched again was not, or the kernel evicted as much for
    want of memory, or programs had it dropped themselves."""
    fetched = _fetched_again_sql(context, account)
    counts = context.case.rows(
        f"""SELECT count(*) AS n, count(*) FILTER (emptied) AS emptied, coalesce(sum(size_bytes) FILTER (emptied), 0) AS bytes,
  count(*) FILTER (emptied AND tier = 'readahead') AS in_flight FROM ({fetched}) AS fetched"""
    )[0]
    every, emptied, size, in_flight = (
        int(counts[name] or 0) for name in ("n", "emptied", "bytes", "in_flight")
    )
    if emptied < max(CACHE_MISSES_MIN, CACHE_DROPPED_MIN * every):
        return None
    if account.evicted >= CACHE_DROPPED_MIN * size:
        return None
    rows = f"SELECT * FROM ({fetched}) AS fetched WHERE emptied"
    if sum(one.pieces for one in drops(context, rows)) >= CACHE_DROPPED_MIN * emptied:
        return None
    lost_sql = _without_held_back(context, of=rows)
    held = lost_in_blocks(context, lost_sql, "lost_ns")
    if held is None:
        return None
    # What waited for pages in flight was counted as found there.
    return _of_emptied(context, account, held, lost_sql, emptied, max(0, kept - in_flight))


def _of_emptied(
    context: Context, account: PageCache, held: TimeLost, lost_sql: str, again: int, kept: int
) -> Candidate:
    return _candidate(
        context,
        held,
        lost_sql,
        culprit=_ram("the page cache was dropped"),
        claim=f"Somebody emptied the page cache {words.things(account.drops, 'time')} while this was recorded, and {_said_again(held, again, kept)}",
        refute="Let nobody empty the cache meanwhile and repeat: if as much is fetched again, it is not that.",
        remedy="Find who writes to /proc/sys/vm/drop_caches: the kernel's log names the program and its process each time "
        "(`dmesg | grep drop_caches`).",
    )


def _said_again(held: TimeLost, again: int, kept: int) -> str:
    return (
        f"{words.percent(again / (again + kept))} of {words.count(again + kept)} pieces that had been read before had to be fetched again, "
        f"{words.duration(held.each_ns)} each, {words.percent(held.share)} of the time of all operations."
    )


def _of_drops(context: Context, asked: list[Drops], again: int, kept: int, result: Result) -> None:
    """What programs had dropped themselves is said, and accuses nobody; who dropped it for the judged program is accused."""
    lost_sql = _again_sql(context)
    held = lost_in_blocks(context, lost_sql, "lost_ns")
    if held is None:
        return
    most = asked[0]
    dropped = f"{most.comm} has pages dropped from the cache ({words.things(most.times, 'call')} of posix_fadvise or BLKFLSBUF) that are read again: "
    claim = dropped + _said_again(held, again, kept)
    if most.own:
        result.observed.append(f"{claim} That is its own doing, not a lack of cache.")
        return
    result.candidates.append(
        _candidate(
            context,
            held,
            lost_sql,
            culprit=Culprit("process", most.comm, "dropped pages of the cache"),
            claim=claim,
            refute=f"Stop {most.comm} for a while: if as much is fetched again, it is not that.",
            remedy=f"Let {most.comm} keep its hands off files that others read, or read past the cache (O_DIRECT) instead of dropping what it has read.",
        )
    )


def _mostly_after(context: Context, moment_ns: float, again: int) -> bool:
    """Whether most of what was fetched again was so after a moment."""
    if not math.isfinite(moment_ns):
        return False
    after = context.case.rows(
        f"SELECT count(*) AS n FROM ({touches_sql(context)}) AS t WHERE missed AND nth > 1 AND start_ns >= {moment_ns!r}"
    )[0]
    return 2 * int(after["n"] or 0) >= again


def _of_a_group(context: Context, account: PageCache) -> list[Candidate]:
    """The claim about a group's limit: of each wait, for readahead in flight too, the part counts that had been in memory."""
    lost_sql = f"SELECT * FROM ({_without_held_back(context, account.refaulted_part)}) AS t WHERE wait_ns > 0"
    held = lost_in_blocks(context, lost_sql, "lost_ns")
    if held is None:
        return []
    beside = "" if account.group else f", while {words.size(account.free)} of memory were free"
    claim = (
        f"{_too_little(account.group)} for what its programs read: {words.percent(account.refaulted_part)} of the "
        f"{words.size(account.read)} that disks read had been in memory before and was evicted{beside}. Waiting for it took "
        f"{words.percent(held.share)} of the time of all operations."
    )
    return [_of_the_limit(context, held, lost_sql, account.group, claim)]


def _too_little(group: Group | None) -> str:
    if group is None:
        return "A control group has too little memory"
    return (
        f"The control group {group.name}, which may use {words.size(group.limit)} of memory, has too little"
    )


def _of_the_limit(
    context: Context, held: TimeLost, lost_sql: str, group: Group | None, claim: str
) -> Candidate:
    limit = f"the limit of {group.name if group else 'its control group'}"
    return _candidate(
        context,
        held,
        lost_sql,
        culprit=_ram(f"the memory limit of {f'control group {group.name}' if group else 'a control group'}"),
        claim=claim,
        refute=f"Raise {limit} (memory.max and memory.high; memory.limit_in_bytes of cgroup v1) and repeat: if as much is fetched again, it "
        "is not the limit.",
        remedy=f"Raise {limit} (memory.max and memory.high; memory.limit_in_bytes of cgroup v1), or let it read less.",
    )


def _ram(because_of: str) -> Culprit:
    return Culprit("cache_tier", "ram", because_of)


def _candidate(
    context: Context, held: TimeLost, lost_sql: str, *, culprit: Culprit, claim: str, refute: str, remedy: str
) -> Candidate:
    found = of_time_lost(
        held,
        culprit=culprit,
        claim=claim,
        baseline="pieces that had been read before and were still there",
        metric="part of the operations' time",
        evidence=[
            evidence(
                context.case,
                "pieces of reads, by how often they had been read before",
                f"""SELECT file, nth > 1 AS read_before, missed, count(*) AS pieces, sum(wait_ns) AS waited_ns
FROM ({touches_sql(context)}) AS t GROUP BY 1, 2, 3 ORDER BY 5 DESC, 1, 2, 3 LIMIT 20""",
            )
        ],
        refute=refute,
        remedy=remedy,
        explains=np.zeros(len(context.slow), np.bool_),
        causes=(("stage", "device"), ("stage", "fs")),
    )
    found.makes_requests = True
    found.p99_ratio = p99_ratio(context, f"SELECT op_id, lost_ns FROM ({lost_sql}) AS lost")
    # A miss explains why a read went to the tier below, not why that took far longer than it does for other misses.
    misses = _misses(context) if len(context.slow) else None
    if misses is not None:
        found.met = _only_missed_among(context, misses)
    return found


DETECTOR = Detector(
    name="cache_misses",
    needs=("cache.tier", "judged.latency_ns"),
    needs_stages=(),
    null_model="none: what had been read before, and how long it took to fetch it again, stands in the record",
    smallest_effect="5 % of the time of all operations, where at least a fifth of what is read again is found in the cache, or each "
    "piece is fetched again three times",
    run=run,
    needs_all=True,
)
