"""What sampled counters say of each device by itself: how long requests took on average, when most, how busy it was."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.evidence import rocksdb_account
from whodisk.evidence.alike_devices import disk_family, kernel_named
from whodisk.evidence.drive_counters import drive_counters
from whodisk.evidence.sampled_handlers import handlers
from whodisk.evidence.sampled_latencies import latencies, zero_sql
from whodisk.evidence.sampled_rates import rates, silences
from whodisk.evidence.thresholds import (
    ACCOUNT_ALIKE_MAX,
    ACCOUNT_BUSY_MIN,
    ACCOUNT_DEVICES_MAX,
    ACCOUNT_DEVICES_TOLD,
    ACCOUNT_IN_FLIGHT_MIN,
    ACCOUNT_LOAD_RATIO,
    ACCOUNT_SAMPLES_MIN,
    ACCOUNT_TAIL_MIN,
    ACCOUNT_UNEXPLAINED_RATIO,
    ACCOUNT_WORST_MIN_NS,
    ACCOUNT_WORST_RATIO,
    STUCK_BUSY_MIN,
    STUCK_IN_FLIGHT_MIN,
    STUCK_SAMPLES_MIN,
)
from whodisk.reading.views import Case, quoted
from whodisk.statistics.stats import Floats

#: Mean latencies, with the rate of the same requests; the last one where a log does not part reads from writes.
KINDS = (
    ("reads", "read_latency_ns", "read_operations_per_s"),
    ("writes", "write_latency_ns", "write_operations_per_s"),
    ("flushes", "flush_latency_ns", "flush_operations_per_s"),
    ("requests", "latency_ns", "operations_per_s"),
)


@dataclass(frozen=True)
class _Device:
    """The samples of a device by metric; NaN where a sample does not say it."""

    name: str
    time_ns: Floats
    values: dict[str, Floats]

    def of(self, metric: str) -> Floats:
        return self.values.get(metric, np.full(len(self.time_ns), np.nan))


def account(case: Case) -> list[str]:
    """What is sampled or summed up, without a test: a paragraph per device and program, the busiest first; none of a fleet."""
    of_rocksdb, told = rocksdb_account.account(case)
    if "series" not in case.columns:
        return of_rocksdb
    devices, left = _devices(case)
    less = (
        [f"{words.things(left, 'more device')} {'was' if left == 1 else 'were'} less busy."]
        if devices and left > 0
        else []
    )
    rest = latencies(case, {device for _, device in devices} | told)
    return [
        *devices.values(),
        *less,
        *drive_counters(case),
        *of_rocksdb,
        *_with_silences(silences(case), [*filter(None, rest), *rates(case, told)]),
        *handlers(case),
    ]


def worst_sample(case: Case) -> list[str]:
    """The sample with the longest mean beside what is usual of its device, which neither a median nor a comparison over the whole log shows; none of a fleet."""
    rows = case.rows(
        f"""WITH usual AS (
  SELECT coalesce(host, '') AS host, subject, metric, median(value) AS usual, max(value) AS most, arg_max(time_ns, value) - {zero_sql(case)} AS at_ns
  FROM series WHERE kind = 'device' AND metric IN ({", ".join(quoted(latency) for _, latency, _ in KINDS)}) AND value > 0
  GROUP BY 1, 2, 3 HAVING count(*) >= {ACCOUNT_TAIL_MIN})
SELECT *, count(*) OVER () AS n FROM usual ORDER BY most / usual DESC, host, subject, metric LIMIT 1"""
    )
    if not rows or int(rows[0]["n"] or 0) > ACCOUNT_DEVICES_MAX * len(KINDS):
        return []
    usual, most = float(rows[0]["usual"] or 1), float(rows[0]["most"] or 0)
    if most < ACCOUNT_WORST_MIN_NS or most < ACCOUNT_WORST_RATIO * usual:
        return []
    kind = next(kind for kind, latency, _ in KINDS if latency == str(rows[0]["metric"]))
    return [
        f"The worst sample: {kind} of {rows[0]['subject']} took {words.duration(most)} on average (at {words.seconds(float(rows[0]['at_ns'] or 0))}), "
        f"{words.significant(most / usual, 2)} times as long as usual."
    ]


def _with_silences(silent: list[tuple[str, str]], paragraphs: list[str]) -> list[str]:
    """That nothing ended stands first in what is said of its program."""
    for name, said in silent:
        begin = f"{name}: "
        at = next((at for at, text in enumerate(paragraphs) if text.startswith(begin)), None)
        if at is None:
            paragraphs.append(begin + said)
        else:
            rest = paragraphs[at].removeprefix(begin)
            paragraphs[at] = f"{begin}{said} {rest[0].upper()}{rest[1:]}"
    return paragraphs


def _devices(case: Case) -> tuple[dict[tuple[str, str], str], int]:
    """By host and device, and how many there are beside those that were looked at."""
    metrics = [metric for _, *both in KINDS for metric in both] + [
        "busy_ratio",
        "queue_depth",
        "throughput_bytes_per_s",
    ]
    chosen = f"kind = 'device' AND metric IN ({', '.join(map(quoted, metrics))})"
    means: dict[tuple[str, str], dict[str, float]] = {}
    for row in case.rows(
        f"SELECT coalesce(host, '') AS host, subject, metric, avg(value) AS mean FROM series WHERE {chosen} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ):
        means.setdefault((str(row["host"]), str(row["subject"])), {})[str(row["metric"])] = float(
            row["mean"] or 0
        )
    if not 0 < len(means) <= ACCOUNT_DEVICES_MAX:
        return {}, 0
    several = len({host for host, _ in means}) > 1
    told: dict[tuple[str, str], str] = {}
    for host, subject in _busiest_first(means)[:ACCOUNT_DEVICES_TOLD]:
        data = case.arrays(
            f"""SELECT time_ns - {zero_sql(case)} AS time_ns, metric, value FROM series
WHERE {chosen} AND subject = {quoted(subject)} AND coalesce(host, '') = {quoted(host)} ORDER BY 1, 2"""
        )
        moments, place = np.unique(data["time_ns"].astype(np.int64), return_inverse=True)
        values = {}
        for metric in metrics:
            mine = data["metric"].astype(str) == metric
            if mine.any():
                values[metric] = np.full(len(moments), np.nan)
                values[metric][place.ravel()[mine]] = data["value"][mine].astype(np.float64)
        name = f"{subject} of {host}" if several and host else subject
        sentences = _sentences(_Device(name, moments.astype(np.float64), values))
        if sentences:
            told[host, subject] = " ".join(sentences)
    return told, len(means) - ACCOUNT_DEVICES_TOLD


def _busiest_first(means: dict[tuple[str, str], dict[str, float]]) -> list[tuple[str, str]]:
    """Devices by the part of the time that they were busy, or by what they had in flight where the log does not say that; of about as much, disks come
    before what lies on them."""
    names = {subject for _, subject in means}
    has_busy = any(values.get("busy_ratio") for values in means.values())

    def rank(device: tuple[str, str]) -> tuple[float, bool, float, float, str, str]:
        values = means[device]
        in_flight = sum(values.get(latency, 0.0) * values.get(rate, 0.0) / 1e9 for _, latency, rate in KINDS)
        much = values.get("busy_ratio", 0.0) if has_busy else math.log2(1 + in_flight)
        is_on_disks = kernel_named(device[1]) and disk_family(device[1], names) is None
        return -round(much, 1), is_on_disks, -in_flight, -values.get("operations_per_s", 0.0), *device

    return sorted(means, key=rank)


def _sentences(device: _Device) -> list[str]:
    if len(device.time_ns) < ACCOUNT_SAMPLES_MIN or not any(
        metric.endswith("latency_ns") for metric in device.values
    ):
        return _in_few(device)
    kinds = [
        sentence
        for kind, latency, rate in _kinds(device)
        if (sentence := _of_kind(device, kind, device.of(latency), device.of(rate)))
    ]
    wrong = _in_flight(device)
    if not kinds and wrong is None:
        return _in_few(device)
    told = [*kinds, *_busy(device), *([wrong] if wrong else [])]
    return [f"{device.name}: {told[0]}", *(sentence[0].upper() + sentence[1:] for sentence in told[1:])]


def _in_few(device: _Device) -> list[str]:
    """A device in a sample or two, or in a log without latencies: means over all of it."""

    def mean(metric: str) -> float:
        known = device.of(metric)
        known = known[~np.isnan(known)]
        return float(known.mean()) if len(known) else 0.0

    def mean_ns(latency: str, rate: str) -> float:
        """Samples count as the operations in them do."""
        value, weight = device.of(latency), np.nan_to_num(device.of(rate))
        known = ~np.isnan(value)
        if weight[known].sum() <= 0:
            return mean(latency)
        return float((value[known] * weight[known]).sum() / weight[known].sum())

    took = [
        f"{kind} took {words.duration(ns)}"
        for kind, latency, per_s in _kinds(device)
        if (ns := mean_ns(latency, per_s)) > 0
    ]
    rate = mean("operations_per_s") or sum(mean(per_s) for _, _, per_s in KINDS[:3])
    busy, depth, count = mean("busy_ratio"), mean("queue_depth"), len(device.time_ns)
    among = "the only sample" if count == 1 else words.things(count, "sample")
    if not took and rate <= 0:
        # In more samples it is one of those that are stuck.
        if busy < STUCK_BUSY_MIN or depth < STUCK_IN_FLIGHT_MIN or count >= STUCK_SAMPLES_MIN:
            return []
        flying = words.significant(depth, 2)
        return [
            f"{device.name}: no operation completed in {among}, while {flying} {'was' if flying == '1' else 'were'} in flight and it counted as busy."
        ]
    parts = [f"{words.listed(took)} on average"] if took else []
    if rate > 0:
        through = mean("throughput_bytes_per_s")
        parts.append(
            f"{words.rate(rate)} {'operation' if words.rate(rate) == '1' else 'operations'} per second"
            + (f" ({words.size(through)} per second)" if through else "")
        )
    if busy:
        parts.append(f"busy for {words.percent(min(1.0, busy))} of the time")
    lacks = ""
    if not took:
        # The utilisation is among what -x prints.
        lacks = "; the log does not say how long they took" + (
            "" if "busy_ratio" in device.values else " (iostat does with -x)"
        )
    return [f"{device.name}: {', '.join(parts)} in {among}{lacks}."]


def _kinds(device: _Device) -> tuple[tuple[str, str, str], ...]:
    """Those that its log parts, else all together."""
    return KINDS[:3] if any(metric in device.values for _, metric, _ in KINDS[:2]) else KINDS[3:]


def _of_kind(device: _Device, kind: str, latency_ns: Floats, per_s: Floats) -> str | None:
    """How long requests of a kind took on average in samples that have any, and whether there was more to do where they took long."""
    with np.errstate(invalid="ignore"):
        has = np.flatnonzero(latency_ns > 0)
    if len(has) < ACCOUNT_SAMPLES_MIN:
        return None
    latency = latency_ns[has]
    usual, late, most = (float(value) for value in np.quantile(latency, (0.5, 0.95, 1.0)))
    at = has[int(np.argmax(latency))]
    twentieth = f", {words.duration(late)} or more in one of twenty," if len(has) >= ACCOUNT_TAIL_MIN else ""
    said = (
        f"{kind} took {words.duration(usual)} on average in the median of {words.things(len(has), 'sample')}{twentieth} and "
        f"{words.duration(most)} at most (at {words.seconds(device.time_ns[at])})."
    )
    if not twentieth or late < ACCOUNT_LOAD_RATIO * usual:
        return said
    rates = per_s[has]
    slow = latency >= late
    if np.isnan(rates).any():
        return said
    then, otherwise = float(np.median(rates[slow])), float(np.median(rates[~slow]))
    more = then / max(otherwise, 1e-9)
    if more >= ACCOUNT_LOAD_RATIO:
        what = f"{words.significant(more, 2)} times as many as otherwise"
    else:
        what = f"{'no' if more <= ACCOUNT_ALIKE_MAX else 'hardly'} more than otherwise"
    return f"{said} In these slow ones there were {words.rate(then)} per second, {what}."


def _busy(device: _Device) -> list[str]:
    busy = device.of("busy_ratio")
    busy = busy[~np.isnan(busy)]
    if not len(busy):
        return []
    full = int((busy >= ACCOUNT_BUSY_MIN).sum())
    if not full:
        return [f"it was busy for {words.percent(float(busy.max()))} of a sample at most."]
    return [
        f"it was busy for {words.percent(ACCOUNT_BUSY_MIN)} or more in {words.count(full)} of {words.things(len(busy), 'sample')}."
    ]


def _in_flight(device: _Device) -> str | None:
    """Whether much more is in flight than rates and latencies make (Little's law): then the kernel lost count."""
    depth = device.of("queue_depth")
    known = ~np.isnan(depth)
    if known.sum() < ACCOUNT_SAMPLES_MIN:
        return None
    made = np.zeros(len(device.time_ns))
    for _, latency, rate in _kinds(device):
        made += np.nan_to_num(device.of(latency)) * np.nan_to_num(device.of(rate)) / 1e9
    in_flight, explained = float(np.median(depth[known])), float(np.median(made[known]))
    if in_flight < ACCOUNT_IN_FLIGHT_MIN or in_flight < ACCOUNT_UNEXPLAINED_RATIO * explained:
        return None
    return (
        f"it has {words.significant(in_flight, 2)} requests in flight in the median sample, where its rates and latencies make "
        f"{words.significant(explained, 2)}: some take longer than a sample, or never end, or the kernel lost count, and then how busy it was says nothing."
    )
