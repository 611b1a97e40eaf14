"""What the kernel counted of its page cache while a case was recorded: what it gave up, what it had to read again, and who emptied it.

The counters are those of /proc/vmstat (mm/vmstat.c), of the whole machine: `pgsteal_file`, `workingset_refault_file` (mm/workingset.c: a page that
was evicted leaves a mark, which the next reader of it finds), `drop_pagecache` (fs/drop_caches.c) and `nr_free_pages`. Control groups with a limit
of memory count what was read again for them alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from whodisk.evidence.context import Context
from whodisk.evidence.thresholds import GROUP_FULL_MIN, ONE_LOOK_NS, REFAULTED_MIN
from whodisk.reading.views import without_volumes_sql

_COUNTED = {
    "evicted": "evicted_file_bytes_per_s",
    "refaulted": "refaulted_file_bytes_per_s",
    "drops": "page_cache_drops_per_s",
}
_FREE = "free_memory_bytes"


@dataclass(frozen=True)
class Group:
    """A control group at its limit of memory: most of what was read after it had been evicted was so for this one."""

    #: Its path, or the end of one that is long.
    name: str
    limit: float


@dataclass(frozen=True)
class PageCache:
    """Sums over the measured window, bytes."""

    evicted: float
    refaulted: float
    #: The least that was free at any look.
    free: float
    #: What disks read, for everybody.
    read: float
    #: How often somebody told the kernel to drop its page cache, and from when on, ns since the start.
    drops: int
    first_drop_ns: float
    #: Between which looks at the counter that was, ns since the start.
    dropped: tuple[tuple[int, int], ...]
    #: Whose limit evicted it, where such a group was seen.
    group: Group | None

    @property
    def refaulted_part(self) -> float:
        """Part of what disks read that had been in memory and was evicted, 0 to 1: at least so much, as some reads pass the cache by."""
        return min(1.0, self.refaulted / self.read) if self.read > 0 else 0.0

    @property
    def is_limited(self) -> bool:
        """Whether a group is at its limit that most of what was read again was evicted by, or pages were evicted as fast as they were read, and most of what was read had
        been there before, while more memory was free than was evicted: then it is no lack of memory but the limit of a group that was not seen."""
        if self.group is not None:
            return True
        much = REFAULTED_MIN * self.read
        return self.read > 0 and self.refaulted >= much and self.evicted >= much and self.free >= self.evicted


def page_cache(context: Context) -> PageCache | None:
    """The account of a recording; None of a case without these counters, or without requests."""
    survey = context.survey
    if "block" not in context.surveys:
        return None
    names = ", ".join(f"'{name}'" for name in (*_COUNTED.values(), _FREE))
    samples = context.case.rows(
        f"""SELECT metric, time_ns, value,
  {grown_sql("metric")} AS grown
FROM series WHERE kind = 'host' AND metric IN ({names}) AND time_ns >= {survey.begin_ns} AND time_ns <= {survey.end_ns + 1_000_000_000} ORDER BY time_ns"""
    )
    free = [float(row["value"] or 0) for row in samples if row["metric"] == _FREE]
    if not free:
        return None
    grown = {
        name: [
            (int(row["time_ns"] or 0), float(row["grown"] or 0)) for row in samples if row["metric"] == metric
        ]
        for name, metric in _COUNTED.items()
    }
    sums = {name: sum(value for _, value in rows) for name, rows in grown.items()}
    # A sample tells what happened since the one before.
    looks = [time_ns for time_ns, _ in grown["drops"]]
    since = [time_ns - 1_000_000_000 for time_ns in looks[:1]] + looks[:-1]
    dropped = [(low, high) for low, (high, value) in zip(since, grown["drops"], strict=True) if value > 0]
    read = context.case.rows(
        f"SELECT sum(size_bytes) AS bytes FROM measured WHERE layer = 'block' AND op = 'read' AND {without_volumes_sql(context.case)}"
    )[0]
    return PageCache(
        evicted=sums["evicted"],
        refaulted=sums["refaulted"],
        free=min(free),
        read=float(read["bytes"] or 0),
        drops=round(sums["drops"]),
        first_drop_ns=float(dropped[0][1] - 1_000_000_000) if dropped else float("inf"),
        dropped=tuple(dropped),
        group=_group_at_its_limit(context),
    )


def grown_sql(series: str) -> str:
    """By how much a counter has grown since the sample before, of rows that hold its rate; the first sample tells of a second."""
    return f"value * (time_ns - coalesce(lag(time_ns) OVER (PARTITION BY {series} ORDER BY time_ns), time_ns - 1000000000)) / 1e9"


def _group_at_its_limit(context: Context) -> Group | None:
    """Of nested groups it is the tightest one that is full: what is counted for it is counted for those above it, too.

    A group whose limit was set in the middle of the recording is known from then on: it is compared with what the host read again since.
    """
    survey = context.survey
    groups = context.case.rows(
        f"""WITH sampled AS (SELECT kind, subject, metric, time_ns, CASE WHEN metric = 'refaulted_file_bytes_per_s'
    THEN {grown_sql("kind, subject, metric")} ELSE value END AS value
  FROM series WHERE kind IN ('cgroup', 'host') AND metric IN ('memory_limit_bytes', 'memory_used_bytes', 'refaulted_file_bytes_per_s')
    AND time_ns >= {survey.begin_ns} AND time_ns <= {survey.end_ns + 1_000_000_000}),
of_groups AS (SELECT subject, min(value) FILTER (metric = 'memory_limit_bytes') AS most, max(value) FILTER (metric = 'memory_used_bytes') AS used,
    sum(value) FILTER (metric = 'refaulted_file_bytes_per_s') AS refaulted, min(time_ns) FILTER (metric = 'refaulted_file_bytes_per_s') AS first_ns
  FROM sampled WHERE kind = 'cgroup' GROUP BY 1)
SELECT subject, most FROM of_groups WHERE used >= {GROUP_FULL_MIN} * most AND refaulted > 0 AND refaulted >= {REFAULTED_MIN} * (
  SELECT coalesce(sum(value), 0) FROM sampled WHERE kind = 'host' AND metric = 'refaulted_file_bytes_per_s' AND time_ns >= first_ns - {ONE_LOOK_NS})
ORDER BY 2, 1 LIMIT 1"""
    )
    return Group(str(groups[0]["subject"]), float(groups[0]["most"] or 0)) if groups else None
