"""Sampled series as matrices: log latency of each device against its peers, in blocks of time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.evidence.alike_devices import alike as alike_devices
from whodisk.evidence.peer_comparison import Comparison, PeerGroup, SlowMember, compare
from whodisk.evidence.thresholds import (
    ALIKE_LOAD_MAX,
    ALIKE_PART_MAX,
    ALIKE_RATIO_MAX,
    ALIKE_WORK_MAX,
    IDLE_IN_FLIGHT_MAX,
    LONG_BLOCK_NS,
    PEER_BLOCKS_MIN,
    SAMPLE_OPERATIONS_MIN,
    SAMPLES_PER_BLOCK,
    SAMPLES_PER_LONG_BLOCK,
    SERIES_BLOCKS_MAX,
)
from whodisk.evidence.times_of_day import DAY_NS
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Floats, Ints


@dataclass(frozen=True)
class Sampled:
    """Devices with a sampled latency, by host."""

    #: Name of the latency's metric, and of the load's (None = there is none).
    latency: str
    load: str | None
    period_ns: int
    block_ns: int
    samples: int
    groups: list[PeerGroup]
    #: Hosts without three disks of a kind.
    without_peers: tuple[str, ...] = ()
    #: Disks that stand out, but may be of another kind, or do other work; and what says so.
    unlike: tuple[tuple[SlowMember, str], ...] = ()

    def host_of(self, group: str) -> str:
        """The host that a group's devices are in."""
        return next((g.host or g.name for g in self.groups if g.name == group), group)

    def peers_of(self, group: str) -> tuple[str, ...]:
        """The devices of a group that only the kernel's names tell; none where all devices of its host were declared alike."""
        return next((tuple(g.members) for g in self.groups if g.name == group and g.by_name_only), ())


def latency_metrics(case: Case) -> list[str]:
    """Metrics of devices that are latencies; none if the case holds no series of devices."""
    rows = case.rows("SELECT DISTINCT metric FROM series WHERE kind = 'device' ORDER BY metric")
    names = [str(row["metric"]) for row in rows]
    return [name for name in names if "latency" in name and name.endswith("_ns")]


def sampled_devices(case: Case, latency: str) -> Sampled | None:
    """Reads one latency metric; None if no device has enough samples.

    Samples of all devices of a host are brought to the same moments (multiples of the sampling period), so that
    what the whole host does at a moment cancels.
    """
    facts = case.rows(
        f"""SELECT count(*) AS n, min(time_ns) AS low, max(time_ns) AS high, min(value) FILTER (value > 0) AS least
FROM series WHERE {_chosen(latency)}"""
    )[0]
    samples, low = int(facts["n"] or 0), int(facts["low"] or 0)
    period_ns = _period(case, latency)
    if period_ns is None:
        return None
    slots = (int(facts["high"] or 0) - low) // period_ns + 1
    # Where samples are far apart each is the mean of many more operations already: fewer of them are a block.
    samples_per_block = max(SAMPLES_PER_LONG_BLOCK, min(SAMPLES_PER_BLOCK, -(-LONG_BLOCK_NS // period_ns)))
    block_ns = period_ns * max(samples_per_block, -(-slots // SERIES_BLOCKS_MAX))
    # Who logs some hours a day has as many samples as these hours hold, not as the days do.
    seen = _slots_seen(case, latency, low, period_ns)
    if seen // samples_per_block < PEER_BLOCKS_MIN:
        # A short recording: blocks of fewer samples are better than no blocks.
        block_ns = period_ns * max(1, seen // (2 * PEER_BLOCKS_MIN))
    load = _load_metric(case)
    rate = _rate_metric(case, latency)
    data = case.arrays(blocks_sql(latency, low, period_ns, block_ns, rate, float(facts["least"] or 1.0)))
    loads = case.arrays(load_sql(load, low, block_ns)) if load else None
    groups, without_peers = _groups(data, loads, low, block_ns)
    return Sampled(latency, load, period_ns, block_ns, samples, groups, without_peers)


def compare_series(case: Case) -> list[tuple[str, tuple[Sampled, Comparison] | None]]:
    """Each sampled latency of devices with its devices against their peers; None where there are too few samples."""
    if "series" not in case.columns:
        return []
    found: list[tuple[str, tuple[Sampled, Comparison] | None]] = []
    for metric in latency_metrics(case):
        sampled = sampled_devices(case, metric)
        found.append(
            (metric, None if sampled is None else _told_apart(sampled, compare(sampled.groups, few=True)))
        )
    return found


def _told_apart(sampled: Sampled, found: Comparison) -> tuple[Sampled, Comparison]:
    """Takes out of what was found the disks that may be of another kind, or do other work."""
    unlike: list[tuple[SlowMember, str]] = []
    for group in sampled.groups:
        slow = [member for member in found.slow if member.group == group.name]
        if not slow:
            continue
        judged = int((np.isfinite(found.ratios[group.name]).sum(axis=0) > 0).sum())
        for member in slow:
            why = _next_to_idle(group, member)
            if why is None and group.by_name_only:
                why = _unlike(group, member, len(slow), judged)
            if why is not None:
                unlike.append((member, why))
    if not unlike:
        return sampled, found
    apart = {(member.group, member.member) for member, _ in unlike}
    slow = [member for member in found.slow if (member.group, member.member) not in apart]
    return replace(sampled, unlike=tuple(unlike)), replace(found, slow=slow)


def _more_load(group: PeerGroup, member: SlowMember) -> Floats:
    """How much more than its peers a disk had to do (log), block by block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        more = group.load[:, group.members.index(member.member)] - np.nanmedian(group.load, axis=1)
    return np.asarray(more[np.isfinite(more)], np.float64)


def _next_to_idle(group: PeerGroup, member: SlowMember) -> str | None:
    """That a disk has far less in flight than its peers, so that it does other work; None: it has as much, or nobody knows.

    What is in flight is rate times latency. Where disks get the same work a slow one has as much in flight as the others, or more: who waits for it asks it
    less by as much as it is slower, and no less. A disk that is next to idle wakes for each request, seeks to another place, or answers what nobody else is asked.
    """
    more = _more_load(group, member)
    if not len(more) or float(np.median(more)) + math.log(member.ratio) > IDLE_IN_FLIGHT_MAX:
        return None
    return f"it has {words.significant(math.exp(-float(np.median(more))), 2)} times as little to do, and next to nothing in flight"


def _unlike(group: PeerGroup, member: SlowMember, slow: int, judged: int) -> str | None:
    """What says that a disk is compared with others than its like; None: nothing does."""
    if slow > max(1.0, ALIKE_PART_MAX * judged):
        return f"{slow} of {judged} disks are slower than the others"
    number = group.members.index(member.member)
    more = _more_load(group, member)
    load, apart = (
        (float(np.median(more)), float(np.median(np.abs(more)))) if len(more) else (math.nan, math.nan)
    )
    if abs(load) > ALIKE_LOAD_MAX:
        times = words.significant(math.exp(abs(load)), 2)
        return f"it has {times} times as {'much' if load > 0 else 'little'} to do"
    seen = int(np.isfinite(group.latency[:, number]).sum())
    if 2 * seen < len(group.begin_ns):
        return f"it had enough to do for {words.percent(seen / len(group.begin_ns))} of the time only"
    # Disks that have as much to do as each other in every stretch of time share a volume's work.
    if member.onset_ns is None and member.ratio >= ALIKE_RATIO_MAX and not apart <= ALIKE_WORK_MAX:
        return "it is so from the begin, and they do not share their work"
    return None


def blocks_sql(
    latency: str, low_ns: int, period_ns: int, block_ns: int, rate: str | None, least_ns: float
) -> str:
    """Per host, device and block: median log ratio to the host's median at the same moment, and that median.

    With the metric `rate` (operations per second) samples of few operations are left out, and the mean of many that is printed as nought is below the
    least that is printed, `least_ns`.
    """
    slot = f"(time_ns - {low_ns}) // {period_ns}"
    per_block = block_ns // period_ns
    samples = f"""SELECT coalesce(host, '') AS host, subject, {slot} AS slot, ln(value) AS v
  FROM series WHERE {_chosen(latency)} AND value > 0"""
    if rate is not None:
        per_s = SAMPLE_OPERATIONS_MIN * 1e9 / period_ns
        samples = f"""SELECT coalesce(s.host, '') AS host, s.subject, s.slot, ln(greatest(s.value, {least_ns / 2!r})) AS v
  FROM (SELECT *, {slot} AS slot FROM series WHERE {_chosen(latency)}) AS s
  JOIN (SELECT host, subject, time_ns FROM series WHERE {_chosen(rate)} AND value >= {per_s!r}) AS r
    ON coalesce(s.host, '') = coalesce(r.host, '') AND s.subject = r.subject AND s.time_ns = r.time_ns"""
    return f"""WITH samples AS (
  {samples}),
common AS (SELECT host, slot, median(v) AS v FROM samples GROUP BY 1, 2)
SELECT s.host, s.subject, s.slot // {per_block} AS block, median(s.v - c.v) AS ratio, median(c.v) AS common
FROM samples AS s JOIN common AS c ON s.host = c.host AND s.slot = c.slot
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def load_sql(load: str, low_ns: int, block_ns: int) -> str:
    """Per host, device and block: median log load."""
    return f"""SELECT coalesce(host, '') AS host, subject, (time_ns - {low_ns}) // {block_ns} AS block,
  median(ln(value)) AS load
FROM series WHERE {_chosen(load)} AND value > 0 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def parts_sql(
    latency: str,
    devices: Sequence[tuple[str, str]],
    part_ns: int,
    *,
    period_ns: int = 1,
    of_day: bool = False,
    peers: Sequence[str] = (),
) -> str:
    """Devices (host, name) against the fast third of their host in the same sampling period (of `peers`; none = all of the host), part by part; with `of_day` all days
    (they begin with the recording) are laid over each other."""
    part = f"CAST(floor(s.time_ns / {part_ns}) AS BIGINT)"
    label = "part"
    if of_day:
        parts = DAY_NS // part_ns
        part, label = f"({part} % {parts} + {parts}) % {parts} * {part_ns}", "since_begin_of_day_ns"
    hosts = ", ".join(sorted({quoted(host) for host, _ in devices}))
    among = f" AND subject IN ({', '.join(map(quoted, peers))})" if peers else ""
    chosen = " OR ".join(
        f"(s.host = {quoted(host)} AND s.subject = {quoted(device)})" for host, device in devices
    )
    return f"""WITH samples AS (
  SELECT coalesce(host, '') AS host, time_ns, CAST(floor(time_ns / {period_ns}) AS BIGINT) AS slot, subject, value FROM series
  WHERE {_chosen(latency)} AND value > 0 AND coalesce(host, '') IN ({hosts}){among}),
fast_third AS (SELECT host, slot, quantile_disc(value, 0.33) AS peer_ns FROM samples GROUP BY 1, 2)
SELECT s.host, s.subject, {part} AS {label}, count(*) AS samples,
  median(s.value) AS latency_ns, median(f.peer_ns) AS peers_ns, median(s.value / f.peer_ns) AS ratio
FROM samples AS s JOIN fast_third AS f ON s.host = f.host AND s.slot = f.slot
WHERE {chosen} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def hosts_sql(latency: str, host: str, part_ns: int) -> str:
    """A host's median latency against the median of all other hosts, part by part."""
    return f"""SELECT CAST(floor(time_ns / {part_ns}) AS INTEGER) AS part,
  median(CASE WHEN coalesce(host, '') = {quoted(host)} THEN value END) AS host_ns,
  median(CASE WHEN coalesce(host, '') <> {quoted(host)} THEN value END) AS others_ns
FROM series WHERE {_chosen(latency)} GROUP BY 1 ORDER BY 1"""


def _chosen(metric: str) -> str:
    return f"kind = 'device' AND metric = {quoted(metric)}"


def _period(case: Case, latency: str) -> int | None:
    """Usual distance of two samples of a device, ns; None with fewer than three samples."""
    rows = case.rows(
        f"""WITH one AS (
  SELECT host, subject FROM series WHERE {_chosen(latency)} GROUP BY 1, 2 ORDER BY count(*) DESC, 1, 2 LIMIT 1),
steps AS (
  SELECT s.time_ns - lag(s.time_ns) OVER (ORDER BY s.time_ns) AS step
  FROM series AS s JOIN one AS o ON s.subject = o.subject AND coalesce(s.host, '') = coalesce(o.host, '')
  WHERE s.kind = 'device' AND s.metric = {quoted(latency)})
SELECT CAST(median(step) AS BIGINT) AS step, count(step) AS n FROM steps WHERE step > 0"""
    )
    if int(rows[0]["n"] or 0) < 2:
        return None
    return max(1, int(rows[0]["step"] or 0))


def _slots_seen(case: Case, latency: str, low_ns: int, period_ns: int) -> int:
    """In how many sampling periods anything was sampled."""
    rows = case.rows(
        f"SELECT count(DISTINCT (time_ns - {low_ns}) // {period_ns}) AS n FROM series WHERE {_chosen(latency)}"
    )
    return int(rows[0]["n"] or 0)


def _load_metric(case: Case) -> str | None:
    rows = case.rows("SELECT DISTINCT metric FROM series WHERE kind = 'device' ORDER BY metric")
    names = [str(row["metric"]) for row in rows if str(row["metric"]).endswith("_per_s")]
    preferred = [name for name in names if name == "throughput_bytes_per_s"]
    return next(iter(preferred or names), None)


def _rate_metric(case: Case, latency: str) -> str | None:
    """The metric of how many operations a second a latency is of; None: the case has none."""
    name = latency.replace("latency_ns", "operations_per_s")
    rows = case.rows(f"SELECT count(*) AS n FROM series WHERE {_chosen(name)}")
    return name if name != latency and rows[0]["n"] else None


def _groups(
    data: dict[str, npt.NDArray[Any]], loads: dict[str, npt.NDArray[Any]] | None, low_ns: int, block_ns: int
) -> tuple[list[PeerGroup], tuple[str, ...]]:
    """Devices of a host that ought to be alike, the largest group of each host under its name; and hosts without any."""
    hosts = data["host"].astype(str)
    groups: list[PeerGroup] = []
    without: list[str] = []
    for host in np.unique(hosts):
        rows = hosts == host
        members, member = np.unique(data["subject"][rows].astype(str), return_inverse=True)
        blocks, block = np.unique(data["block"][rows].astype(np.int64), return_inverse=True)
        latency = np.full((len(blocks), len(members)), np.nan)
        latency[block, member] = data["ratio"][rows] + data["common"][rows]
        load = _load(loads, str(host), members, blocks)
        often = np.isfinite(latency).sum(axis=0) >= PEER_BLOCKS_MIN
        names = [str(member) for member in members]
        seen = [number for number, is_often in enumerate(often.tolist()) if is_often]
        alike, by_name_only = alike_devices([names[n] for n in seen], latency[:, seen])
        if not by_name_only:
            # What was seen seldom says so.
            alike, seen = [list(range(len(names)))], list(range(len(names)))
        if not alike:
            without.append(str(host))
        for some in sorted(([seen[n] for n in kind] for kind in alike), key=lambda kind: (-len(kind), kind)):
            is_first = not groups or groups[-1].host != str(host)
            groups.append(
                PeerGroup(
                    str(host) if is_first else f"{host}: {names[some[0]]}",
                    [names[n] for n in some],
                    latency[:, some],
                    load[:, some],
                    low_ns + blocks * block_ns,
                    str(host),
                    by_name_only,
                )
            )
    return groups, tuple(without)


def _load(
    loads: dict[str, npt.NDArray[Any]] | None, host: str, members: npt.NDArray[Any], blocks: Ints
) -> Floats:
    load = np.full((len(blocks), len(members)), np.nan)
    if loads is None:
        return load
    rows = loads["host"].astype(str) == host
    names, numbers = loads["subject"][rows].astype(str), loads["block"][rows].astype(np.int64)
    known = np.isin(names, members) & np.isin(numbers, blocks)
    place = np.searchsorted(blocks, numbers[known]), np.searchsorted(members, names[known])
    load[place] = loads["load"][rows][known].astype(np.float64)
    return load
