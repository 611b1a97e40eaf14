"""Sampled series as matrices: log latency of each device against its peers, in blocks of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whodisk.evidence.peer_comparison import Comparison, PeerGroup, compare
from whodisk.evidence.thresholds import PEER_BLOCKS_MIN, SAMPLES_PER_BLOCK, SERIES_BLOCKS_MAX
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
        f"SELECT count(*) AS n, min(time_ns) AS low, max(time_ns) AS high FROM series WHERE {_chosen(latency)}"
    )[0]
    samples, low = int(facts["n"] or 0), int(facts["low"] or 0)
    period_ns = _period(case, latency)
    if period_ns is None:
        return None
    slots = (int(facts["high"] or 0) - low) // period_ns + 1
    block_ns = period_ns * max(SAMPLES_PER_BLOCK, -(-slots // SERIES_BLOCKS_MAX))
    if slots // SAMPLES_PER_BLOCK < PEER_BLOCKS_MIN:
        # A short recording: blocks of fewer samples are better than no blocks.
        block_ns = period_ns * max(1, slots // (2 * PEER_BLOCKS_MIN))
    load = _load_metric(case)
    data = case.arrays(blocks_sql(latency, low, period_ns, block_ns))
    loads = case.arrays(load_sql(load, low, block_ns)) if load else None
    groups = _groups(data, loads, low, block_ns)
    return Sampled(latency, load, period_ns, block_ns, samples, groups)


def compare_series(case: Case) -> list[tuple[str, tuple[Sampled, Comparison] | None]]:
    """Each sampled latency of devices with its devices against their peers; None where there are too few samples."""
    if "series" not in case.columns:
        return []
    found: list[tuple[str, tuple[Sampled, Comparison] | None]] = []
    for metric in latency_metrics(case):
        sampled = sampled_devices(case, metric)
        found.append((metric, None if sampled is None else (sampled, compare(sampled.groups))))
    return found


def blocks_sql(latency: str, low_ns: int, period_ns: int, block_ns: int) -> str:
    """Per host, device and block: median log ratio to the host's median at the same moment, and that median."""
    slot = f"(time_ns - {low_ns}) // {period_ns}"
    per_block = block_ns // period_ns
    return f"""WITH samples AS (
  SELECT coalesce(host, '') AS host, subject, {slot} AS slot, ln(value) AS v
  FROM series WHERE {_chosen(latency)} AND value > 0),
common AS (SELECT host, slot, median(v) AS v FROM samples GROUP BY 1, 2)
SELECT s.host, s.subject, s.slot // {per_block} AS block, median(s.v - c.v) AS ratio, median(c.v) AS common
FROM samples AS s JOIN common AS c ON s.host = c.host AND s.slot = c.slot
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def load_sql(load: str, low_ns: int, block_ns: int) -> str:
    """Per host, device and block: median log load."""
    return f"""SELECT coalesce(host, '') AS host, subject, (time_ns - {low_ns}) // {block_ns} AS block,
  median(ln(value)) AS load
FROM series WHERE {_chosen(load)} AND value > 0 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def parts_sql(latency: str, devices: Sequence[tuple[str, str]], part_ns: int, *, of_day: bool = False) -> str:
    """Devices (host, name) against the fast third of their host at the same moments, part by part; with `of_day` all days (they
    begin with the recording) are laid over each other."""
    part = f"CAST(floor(s.time_ns / {part_ns}) AS BIGINT)"
    label = "part"
    if of_day:
        parts = DAY_NS // part_ns
        part, label = f"({part} % {parts} + {parts}) % {parts} * {part_ns}", "since_begin_of_day_ns"
    hosts = ", ".join(sorted({quoted(host) for host, _ in devices}))
    chosen = " OR ".join(
        f"(s.host = {quoted(host)} AND s.subject = {quoted(device)})" for host, device in devices
    )
    return f"""WITH samples AS (
  SELECT coalesce(host, '') AS host, time_ns, subject, value FROM series
  WHERE {_chosen(latency)} AND coalesce(host, '') IN ({hosts})),
fast_third AS (SELECT host, time_ns, quantile_disc(value, 0.33) AS peer_ns FROM samples GROUP BY 1, 2)
SELECT s.host, s.subject, {part} AS {label}, count(*) AS samples,
  median(s.value) AS latency_ns, median(f.peer_ns) AS peers_ns, median(s.value / f.peer_ns) AS ratio
FROM samples AS s JOIN fast_third AS f ON s.host = f.host AND s.time_ns = f.time_ns
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


def _load_metric(case: Case) -> str | None:
    rows = case.rows("SELECT DISTINCT metric FROM series WHERE kind = 'device' ORDER BY metric")
    names = [str(row["metric"]) for row in rows if str(row["metric"]).endswith("_per_s")]
    preferred = [name for name in names if name == "throughput_bytes_per_s"]
    return next(iter(preferred or names), None)


def _groups(
    data: dict[str, npt.NDArray[Any]], loads: dict[str, npt.NDArray[Any]] | None, low_ns: int, block_ns: int
) -> list[PeerGroup]:
    hosts = data["host"].astype(str)
    groups = []
    for host in np.unique(hosts):
        rows = hosts == host
        members, member = np.unique(data["subject"][rows].astype(str), return_inverse=True)
        blocks, block = np.unique(data["block"][rows].astype(np.int64), return_inverse=True)
        latency = np.full((len(blocks), len(members)), np.nan)
        latency[block, member] = data["ratio"][rows] + data["common"][rows]
        load = _load(loads, str(host), members, blocks)
        groups.append(
            PeerGroup(str(host), [str(m) for m in members], latency, load, low_ns + blocks * block_ns)
        )
    return groups


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
