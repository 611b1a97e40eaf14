"""Devices that complete nothing in sampled counters, while they count as busy: with requests in flight, where the log counts these before they end.

Since Linux 5.0 the queue depth that iostat prints is made of what completed: of a device that hangs it is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from whodisk import words
from whodisk.evidence.alike_devices import disk_family, kernel_named
from whodisk.evidence.sampled_latencies import zero_sql
from whodisk.evidence.thresholds import (
    ACCOUNT_DEVICES_MAX,
    STUCK_BUSY_MIN,
    STUCK_IN_FLIGHT_MIN,
    STUCK_MIN_NS,
    STUCK_SAMPLES_MIN,
)
from whodisk.reading.views import Case


@dataclass(frozen=True)
class Stuck:
    """Samples of a device in which nothing completed."""

    host: str
    device: str
    #: Runs of such samples, and their time together, ns.
    times: int
    length_ns: int
    #: The longest: its begin, in words, and its length.
    begin: str
    longest_ns: int
    #: Requests in flight in it, on average, as far as the log counts those that did not end.
    in_flight: float
    #: Whether it completes something in other samples, and is at rest in some: else its counters may be wrong.
    works: bool

    @property
    def name(self) -> str:
        """The device, of its host."""
        return f"{self.host}/{self.device}" if self.host else self.device

    @property
    def said(self) -> str:
        """What the counters show."""
        again = f", and {words.things(self.times - 1, 'more time')}" if self.times > 1 else ""
        return f"{self.name} completed nothing for {words.duration(self.longest_ns)} (from {self.begin} on{again}), {while_busy(self.in_flight)}."


def while_busy(in_flight: float) -> str:
    """How a device that completes nothing is known not to rest."""
    if in_flight < STUCK_IN_FLIGHT_MIN:
        return "while it counted as busy"
    flying = words.significant(in_flight, 2)
    return f"while {flying} {'request was' if flying == '1' else 'requests were'} in flight and it counted as busy"


def samples_sql() -> str:
    """Per device and moment what it did; `period_ns` is the usual distance of its samples, `run` the number of each run of stuck ones."""
    # Of most devices, and of fleets, nothing else needs to be looked at.
    return f"""WITH suspects AS (
  SELECT coalesce(host, '') AS host, subject FROM series
  WHERE kind = 'device' AND metric = 'busy_ratio' AND value >= {STUCK_BUSY_MIN} GROUP BY 1, 2),
wide AS (
  SELECT coalesce(host, '') AS host, subject, time_ns,
    max(value) FILTER (metric = 'busy_ratio') AS busy, max(value) FILTER (metric = 'queue_depth') AS depth,
    sum(value) FILTER (metric LIKE '%operations_per_s') AS per_s
  FROM series WHERE kind = 'device' AND (metric IN ('busy_ratio', 'queue_depth') OR metric LIKE '%operations_per_s')
    AND (coalesce(host, ''), subject) IN (SELECT (host, subject) FROM suspects) GROUP BY 1, 2, 3),
steps AS (SELECT *, time_ns - lag(time_ns) OVER (PARTITION BY host, subject ORDER BY time_ns) AS step FROM wide),
flagged AS (
  SELECT *, median(step) OVER (PARTITION BY host, subject) AS period_ns,
    coalesce(busy >= {STUCK_BUSY_MIN} AND per_s = 0, false) AS stuck FROM steps)
SELECT *, sum(CASE WHEN stuck THEN 0 ELSE 1 END) OVER (PARTITION BY host, subject ORDER BY time_ns) AS run FROM flagged"""


def stuck_devices(case: Case) -> list[Stuck]:
    """Those that completed nothing in `STUCK_SAMPLES_MIN` samples on end, or for `STUCK_MIN_NS`, the longest first; of a host with such disks not the volumes on them."""
    if "series" not in case.columns:
        return []
    rows = case.rows(
        f"""WITH samples AS ({samples_sql()}),
runs AS (
  SELECT host, subject, run, count(*) AS n, min(time_ns) AS first_ns, any_value(coalesce(period_ns, 0)) AS period_ns, coalesce(avg(depth), 0) AS depth
  FROM samples WHERE stuck GROUP BY 1, 2, 3
  HAVING count(*) >= {STUCK_SAMPLES_MIN} OR count(*) * any_value(coalesce(period_ns, 0)) >= {STUCK_MIN_NS}),
others AS (
  SELECT host, subject, bool_or(per_s > 0) AND bool_or(busy < {STUCK_BUSY_MIN} AND coalesce(depth, 0) < {STUCK_IN_FLIGHT_MIN}) AS works FROM samples WHERE NOT stuck GROUP BY 1, 2)
SELECT r.host, r.subject, count(*) AS times, CAST(sum(n * period_ns) AS BIGINT) AS length_ns,
  CAST(arg_max(first_ns - period_ns, n) AS BIGINT) - {zero_sql(case)} AS begin_ns, CAST(max(n * period_ns) AS BIGINT) AS longest_ns, arg_max(depth, n) AS depth,
  coalesce(any_value(o.works), false) AS works
FROM runs AS r LEFT JOIN others AS o ON r.host = o.host AND r.subject = o.subject
GROUP BY 1, 2 ORDER BY longest_ns DESC, 1, 2 LIMIT {ACCOUNT_DEVICES_MAX}"""
    )
    found = [
        Stuck(
            str(row["host"]),
            str(row["subject"]),
            int(row["times"] or 0),
            int(row["length_ns"] or 0),
            case.moment(max(0, int(row["begin_ns"] or 0))),
            int(row["longest_ns"] or 0),
            float(row["depth"] or 0),
            bool(row["works"]),
        )
        for row in rows
    ]
    names = {one.device for one in found}
    disks = {one.host for one in found if _is_disk(one.device, names)}
    return [one for one in found if _is_disk(one.device, names) or one.host not in disks]


def _is_disk(name: str, names: set[str]) -> bool:
    return not kernel_named(name) or disk_family(name, names) is not None
