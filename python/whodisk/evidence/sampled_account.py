"""What sampled counters say of each device by itself: how long requests took on average, when most, how busy it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from whodisk import words
from whodisk.evidence import rocksdb_account
from whodisk.evidence.alike_devices import disk_family, kernel_named
from whodisk.evidence.drive_counters import drive_counters
from whodisk.evidence.sampled_handlers import handlers
from whodisk.evidence.sampled_latencies import METRIC, Paragraph, latencies, zero_sql
from whodisk.evidence.sampled_levels import two_levels
from whodisk.evidence.sampled_rates import falls, rates, when_lowest
from whodisk.evidence.stuck_devices import while_busy
from whodisk.evidence.thresholds import (
    ACCOUNT_ALIKE_MAX,
    ACCOUNT_APART_MIN,
    ACCOUNT_AS_BUSY_MIN,
    ACCOUNT_AS_BUSY_SHARE,
    ACCOUNT_BUSY_MIN,
    ACCOUNT_BUSY_POSSIBLE_MAX,
    ACCOUNT_DEVICES_MAX,
    ACCOUNT_DEVICES_TOLD,
    ACCOUNT_DISAGREE_RATIO,
    ACCOUNT_IN_FLIGHT_MIN,
    ACCOUNT_LOAD_RATIO,
    ACCOUNT_MANY_TIMES_MIN,
    ACCOUNT_SAMPLES_MIN,
    ACCOUNT_SLOW_RATE_MAX,
    ACCOUNT_TAIL_MIN,
    ACCOUNT_UNEXPLAINED_RATIO,
    ACCOUNT_WORST_MIN_NS,
    ACCOUNT_WORST_RATIO,
    DRIVE_NAMES_MAX,
    STUCK_BUSY_MIN,
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

    case: Case
    name: str
    time_ns: Floats
    values: dict[str, Floats]

    def of(self, metric: str) -> Floats:
        return self.values.get(metric, np.full(len(self.time_ns), np.nan))


def account(case: Case) -> list[str]:
    """What is sampled or summed up, without a test: a paragraph per device and program, the busiest first."""
    of_rocksdb, told = rocksdb_account.account(case)
    if "series" not in case.columns:
        return of_rocksdb
    devices, left, others = _devices(case)
    less = (
        [f"{words.things(left, 'more device')} {'is' if left == 1 else 'are'} in the log."]
        if devices and left > 0
        else []
    )
    described = {device for _, device in devices} | others | told
    rest = latencies(case, described)
    told_rates = rates(case, described)
    # What all of them did together fell: that comes before what a kind took.
    rest = [*(one for one in told_rates if one.fell), *rest, *(one for one in told_rates if not one.fell)]
    troubled, well = drive_counters(case)
    of_devices = [*devices.values(), *less]
    return [
        *([*of_devices, *troubled] if _is_anything_busy(case) else [*troubled, *of_devices]),
        *well,
        *of_rocksdb,
        *map(str, _with_falls(falls(case, told), rest)),
        *handlers(case),
    ]


def _is_anything_busy(case: Case) -> bool:
    """Whether some device had much to do: else what it counts of its errors comes before how little that was."""
    row = case.rows(
        """SELECT max(mean) AS most FROM (SELECT avg(value) AS mean FROM series WHERE kind = 'device' AND metric = 'busy_ratio' GROUP BY host, subject) AS means"""
    )[0]
    return float(row["most"] or 0) >= ACCOUNT_AS_BUSY_MIN


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
        f"The worst sample: {kind} of {rows[0]['subject']} took {words.duration(most)} on average (at {case.moment(float(rows[0]['at_ns'] or 0))}), "
        f"{words.significant(most / usual, 2)} times as long as usual."
    ]


def _with_falls(fallen: list[tuple[str, str]], paragraphs: list[Paragraph]) -> list[Paragraph]:
    """That nothing ended, or less than otherwise, stands first in what is said of its program; and that before what others took. Before all stands what failed:
    it is why nothing ended."""
    first: list[Paragraph] = []
    for name, said in fallen:
        mine = next((one for one in paragraphs if one.of == name), None)
        if mine is None:
            first.append(Paragraph(name, name, said))
        else:
            paragraphs.remove(mine)
            first.append(mine.after(said))
    together = [*first, *paragraphs]
    if failed := " ".join(one.failed for one in together if one.failed):
        others = [replace(one, failed="") for one in together]
        others = [one for one in others if one.text]
        together = [replace(others[0] if others else Paragraph("", "", ""), failed=failed), *others[1:]]
    return together


def _devices(case: Case) -> tuple[dict[tuple[str, str], str], int, set[str]]:
    """By host and device; how many there are beside those that were looked at; and which have counters of operations."""
    metrics = [metric for _, *both in KINDS for metric in both] + [
        "busy_ratio",
        "queue_depth",
        "throughput_bytes_per_s",
    ]
    chosen = f"kind = 'device' AND (metric IN ({', '.join(map(quoted, metrics))}) OR (contains(metric, 'latency') AND ends_with(metric, '_ns')))"
    means: dict[tuple[str, str], dict[str, float]] = {}
    samples = 0
    #: Devices with percentiles, which say more than means.
    with_tail: set[str] = set()
    for row in case.rows(
        f"SELECT coalesce(host, '') AS host, subject, metric, avg(value) AS mean, count(*) AS n FROM series WHERE {chosen} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ):
        metric = str(row["metric"])
        key = (str(row["host"]), str(row["subject"]))
        if metric not in metrics and METRIC.fullmatch(metric):
            with_tail.add(key[1])
        else:
            means.setdefault(key, {})[metric] = float(row["mean"] or 0)
            samples = max(samples, int(row["n"] or 0))
    if not means:
        return {}, 0, set()
    several = len({host for host, _ in means}) > 1
    told: dict[tuple[str, str], str] = {}
    # In more samples it is said before all else (`stuck_devices`).
    ordered = _busiest_first(means, samples < STUCK_SAMPLES_MIN)
    beside = _as_bad(means, ordered, samples < STUCK_SAMPLES_MIN, several)
    described: list[tuple[tuple[str, str], _Device, _InFlight | None]] = []
    for host, subject in ordered[: 2 * ACCOUNT_DEVICES_TOLD]:
        data = case.arrays(
            f"""SELECT time_ns - {zero_sql(case)} AS time_ns, metric, value FROM series
WHERE {chosen} AND subject = {quoted(subject)} AND coalesce(host, '') = {quoted(host)} ORDER BY 1, 2"""
        )
        moments, place = np.unique(data["time_ns"].astype(np.int64), return_inverse=True)
        values = {}
        for metric in means[host, subject]:
            mine = data["metric"].astype(str) == metric
            values[metric] = np.full(len(moments), np.nan)
            values[metric][place.ravel()[mine]] = data["value"][mine].astype(np.float64)
        device = _Device(case, _named((host, subject), several), moments.astype(np.float64), values)
        described.append(((host, subject), device, _in_flight(device)))
    # What held requests for longer than a sample is not to be seen in means of those that ended.
    described.sort(key=lambda one: -one[2].depth if one[2] is not None and one[2].drained else 0.0)
    for key, device, in_flight in described[:ACCOUNT_DEVICES_TOLD]:
        sentences = _sentences(device, in_flight)
        if sentences:
            # Behind the first sentence of the first device: a short screen has no room for the next one.
            told[key] = " ".join([sentences[0], *([] if told else beside), *sentences[1:]])
    rest = ordered[ACCOUNT_DEVICES_TOLD:]
    # What a log counts of disks says of those that did nothing that they did nothing.
    counters = {counter for _, *both in KINDS for counter in both}
    others = {device[1] for device in means if counters & means[device].keys()} - with_tail
    return told or _idle(case, means), len(rest), others


def _idle(case: Case, means: dict[tuple[str, str], dict[str, float]]) -> dict[tuple[str, str], str]:
    """That nothing was asked of any device, where the log says so."""
    rates = [rate for _, _, rate in KINDS]
    if any(not any(rate in of for rate in rates) or any(of.values()) for of in means.values()):
        return {}
    samples = int(
        case.rows("SELECT count(DISTINCT time_ns) AS n FROM series WHERE kind = 'device'")[0]["n"] or 0
    )
    among = "the only sample" if samples == 1 else f"any of {words.things(samples, 'sample')}"
    names = words.some(list(dict.fromkeys(subject for _, subject in means)), DRIVE_NAMES_MAX)
    return {next(iter(means)): f"{names}: no operation in {among}."}


def _busiest_first(
    means: dict[tuple[str, str], dict[str, float]], hanging_first: bool
) -> list[tuple[str, str]]:
    """With `hanging_first` devices that complete nothing and are busy all the time, then by the part of the time that they were busy, or by what they had in flight where the log does not
    say that; of about as much, disks come before what lies on them."""
    names = {subject for _, subject in means}
    has_busy = any(values.get("busy_ratio") for values in means.values())
    hanging = {device for device, values in means.items() if hanging_first and _hangs(values)}
    on_disks = {
        device for device in means if kernel_named(device[1]) and disk_family(device[1], names) is None
    }
    # A volume hangs because its disk does.
    hanging = hanging - on_disks or hanging

    def rank(device: tuple[str, str]) -> tuple[bool, float, bool, float, float, float, str, str]:
        values = means[device]
        took = max((values.get(latency, 0.0) for _, latency, _ in KINDS), default=0.0)
        in_flight = sum(values.get(latency, 0.0) * values.get(rate, 0.0) / 1e9 for _, latency, rate in KINDS)
        much = values.get("busy_ratio", 0.0) if has_busy else math.log2(1 + in_flight)
        return (
            device not in hanging,
            -round(much, 1),
            device in on_disks,
            -in_flight,
            -values.get("operations_per_s", 0.0),
            -took,
            *device,
        )

    return sorted(means, key=rank)


def _as_bad(
    means: dict[tuple[str, str], dict[str, float]],
    ordered: list[tuple[str, str]],
    hanging_first: bool,
    several: bool,
) -> list[str]:
    """Which devices do as badly as the first of them: they hang, too, or are about as busy."""
    if not ordered:
        return []
    first, *others = ordered
    hang = [device for device in others if _hangs(means[device])]
    hang = hang if hanging_first and _hangs(means[first]) else []
    busy = means[first].get("busy_ratio", 0.0)
    least = max(ACCOUNT_AS_BUSY_SHARE * busy, ACCOUNT_AS_BUSY_MIN)
    as_busy = [
        device
        for device in others
        if device not in hang and least <= means[device].get("busy_ratio", 0.0) <= ACCOUNT_BUSY_POSSIBLE_MAX
    ]
    own = _longest(means[first])[1]

    def told(device: tuple[str, str]) -> str:
        kind, took = _longest(means[device])
        # Where its own device is quick, what a volume takes is spent above that.
        far = own > 0 and took >= ACCOUNT_MANY_TIMES_MIN * own
        return (
            f"{_named(device, several)} ({kind} took {words.duration(took)})"
            if far
            else _named(device, several)
        )

    return [
        f"{words.things(len(devices), 'more device')} {'was' if len(devices) == 1 else 'were'} {said}: "
        f"{words.some([told(device) for device in devices], DRIVE_NAMES_MAX)}."
        for said, devices in (("stuck, too", hang), ("as busy", as_busy))
        if devices
    ]


def _longest(means: dict[str, float]) -> tuple[str, float]:
    """The kind of requests that took longest on average, and how long, ns."""
    return max(((kind, means.get(latency, 0.0)) for kind, latency, _ in KINDS), key=lambda kind: kind[1])


def _named(device: tuple[str, str], several: bool) -> str:
    """A device; of several hosts with its own."""
    host, subject = device
    return f"{subject} of {host}" if several and host else subject


def _hangs(means: dict[str, float]) -> bool:
    """Whether it completed nothing in the whole log, and was busy all the time."""
    rates = [means[rate] for _, _, rate in KINDS if rate in means]
    return bool(rates) and not any(rates) and means.get("busy_ratio", 0.0) >= STUCK_BUSY_MIN


def _sentences(device: _Device, in_flight: _InFlight | None) -> list[str]:
    if len(device.time_ns) < ACCOUNT_SAMPLES_MIN or not any(
        metric.endswith("latency_ns") for metric in device.values
    ):
        return _in_few(device)
    kinds = [
        sentence
        for kind, latency, rate in _worst_first(device)
        if (
            sentence := _of_kind(
                device,
                f"{kind} took",
                device.of(latency),
                device.of(rate),
                _beside(device, kind, device.of(latency), device.of(rate)),
            )
        )
    ]
    # What is called otherwise than importers call it.
    named = {latency for _, latency, _ in KINDS}
    kinds += [
        sentence
        for metric in sorted(device.values)
        if metric.endswith("_ns") and metric not in named
        if (
            sentence := _of_kind(
                device, f"{metric.removesuffix('_ns')} was", device.of(metric), device.of("")
            )
        )
    ]
    if not kinds and in_flight is None:
        return _in_few(device)
    told = [*kinds, *_busy(device)]
    if in_flight is not None:
        told.insert(0 if in_flight.drained else len(told), in_flight.said)
    return [f"{device.name}: {told[0]}", *(sentence[0].upper() + sentence[1:] for sentence in told[1:])]


def _mean_or_both(values: Floats, mean: float, said: Callable[[float], str]) -> str:
    """The mean of all samples; of two that are far apart both in their order, as the mean is near none of them, and which belong together would be lost in a range."""
    if len(values) == 2 and values.max() >= ACCOUNT_APART_MIN * values.min():
        return " then ".join(said(float(value)) for value in values)
    return said(mean)


def _in_few(device: _Device) -> list[str]:
    """A device in a sample or two, or in a log without latencies: means over all of it, or what two samples say."""

    def known_of(metric: str) -> Floats:
        values = device.of(metric)
        return values[~np.isnan(values)]

    def mean(metric: str) -> float:
        known = known_of(metric)
        return float(known.mean()) if len(known) else 0.0

    def mean_ns(latency: str, rate: str) -> float:
        """Samples count as the operations in them do."""
        value, weight = device.of(latency), np.nan_to_num(device.of(rate))
        known = ~np.isnan(value)
        if weight[known].sum() <= 0:
            return mean(latency)
        return float((value[known] * weight[known]).sum() / weight[known].sum())

    took = [
        f"{kind} took {_mean_or_both(known[known > 0], ns, words.duration)}"
        for kind, latency, per_s in _kinds(device)
        if (ns := mean_ns(latency, per_s)) > 0
        for known in [known_of(latency)]
    ]
    rates = known_of("operations_per_s")
    if not rates.any():
        rates = sum(
            (np.nan_to_num(device.of(per_s)) for _, _, per_s in KINDS[:3]), np.zeros(len(device.time_ns))
        )
    rate = float(rates.mean())
    busy, depth, count = mean("busy_ratio"), mean("queue_depth"), len(device.time_ns)
    among = "the only sample" if count == 1 else words.things(count, "sample")
    if not took and rate <= 0:
        # In more samples it is one of those that are stuck.
        if busy < STUCK_BUSY_MIN or count >= STUCK_SAMPLES_MIN:
            return []
        return [f"{device.name}: no operation completed in {among}, {while_busy(depth)}."]
    made = sum(mean_ns(latency, per_s) * mean(per_s) / 1e9 for _, latency, per_s in _kinds(device))
    parts = [f"{words.listed(took)} on average"] if took else []
    if rate > 0:
        through = mean("throughput_bytes_per_s")
        of_bytes = _mean_or_both(known_of("throughput_bytes_per_s"), through, words.size)
        many = _mean_or_both(rates, rate, words.rate)
        parts.append(
            f"{many} {'operation' if many == '1' else 'operations'} per second"
            + (f" ({of_bytes} per second)" if through else "")
        )
    if 0 < busy <= ACCOUNT_BUSY_POSSIBLE_MAX:
        shares = np.minimum(1.0, known_of("busy_ratio"))
        parts.append(f"busy for {_mean_or_both(shares, min(1.0, busy), words.percent)} of the time")
    lacks = _impossible(busy)
    if (
        depth >= ACCOUNT_IN_FLIGHT_MIN
        and made > 0
        and max(depth, made) >= ACCOUNT_DISAGREE_RATIO * min(depth, made)
    ):
        lacks += f"; {words.significant(depth)} in flight, where rate and latency make {words.significant(made)}: these disagree"
    if not took:
        # The utilisation is among what -x prints.
        lacks += "; the log does not say how long they took" + (
            "" if "busy_ratio" in device.values else " (iostat does with -x)"
        )
    return [f"{device.name}: {', '.join(parts)} in {among}{lacks}.", *_fell(device)]


def _impossible(busy: float) -> str:
    if busy <= ACCOUNT_BUSY_POSSIBLE_MAX:
        return ""
    return f"; its busy share of {words.percent(busy)} is impossible (a bug of the kernel, or a misread log)"


def _fell(device: _Device) -> list[str]:
    """Of a log without latencies: the lowest rate, where it is far below the usual one."""
    rate = device.of("operations_per_s")
    known = np.flatnonzero(np.isfinite(rate))
    if len(known) < ACCOUNT_SAMPLES_MIN or any(metric.endswith("latency_ns") for metric in device.values):
        return []
    least, usual = float(rate[known].min()), float(np.median(rate[known]))
    if least >= ACCOUNT_SLOW_RATE_MAX * usual:
        return []
    when = when_lowest(device.case, device.time_ns[known], rate[known])
    return [
        f"The lowest rate was {words.rate(least)} per second ({when}), the usual one {words.rate(usual)}."
    ]


def _kinds(device: _Device) -> tuple[tuple[str, str, str], ...]:
    """Those that its log parts, else all together."""
    return KINDS[:3] if any(metric in device.values for _, metric, _ in KINDS[:2]) else KINDS[3:]


def _worst_first(device: _Device) -> list[tuple[str, str, str]]:
    """The kinds as they are listed, but for one with a sample that is many times as long as any of the others'. Flushes take long by nature."""

    def most(kind: tuple[str, str, str]) -> float:
        values = device.of(kind[1])
        return float(np.nanmax(values)) if np.isfinite(values).any() else 0.0

    kinds = list(_kinds(device))
    worst = max((kind for kind in kinds if kind[0] != "flushes"), key=most)
    rest = [kind for kind in kinds if kind != worst]
    return (
        [worst, *rest] if most(worst) >= ACCOUNT_MANY_TIMES_MIN * max(map(most, rest), default=0.0) else kinds
    )


def _beside(device: _Device, kind: str, latency_ns: Floats, own: Floats) -> str:
    """Of a kind that took far longer than usual in some samples, with no more of its own: of which other kind there were far more in these, enough for a queue."""
    with np.errstate(invalid="ignore"):
        has = np.flatnonzero(latency_ns > 0)
    if len(has) < ACCOUNT_SAMPLES_MIN:
        return ""
    is_slow = latency_ns[has] >= ACCOUNT_MANY_TIMES_MIN * np.median(latency_ns[has])
    slow, rest = has[is_slow], has[~is_slow]
    own = np.nan_to_num(own)
    if not len(slow) or np.median(own[slow]) >= ACCOUNT_LOAD_RATIO * np.median(own[rest]):
        return ""
    more: list[tuple[float, str]] = []
    for other, latency, rate in _kinds(device):
        per_s = np.nan_to_num(device.of(rate))
        then, otherwise = float(np.median(per_s[slow])), float(np.median(per_s[rest]))
        in_flight = float(np.median(per_s[slow] * np.nan_to_num(device.of(latency)[slow]) / 1e9))
        if other == kind or in_flight < ACCOUNT_IN_FLIGHT_MIN or then < ACCOUNT_MANY_TIMES_MIN * otherwise:
            continue
        times = f"{words.significant(then / otherwise, 2)} times as many as" if otherwise else "and none"
        more.append((in_flight, f"{words.rate(then)} {other} per second, {times} otherwise"))
    if not more:
        return ""
    those = "sample" if len(slow) == 1 else words.things(len(slow), "sample")
    return f"; in the {those} in which they took {words.significant(ACCOUNT_MANY_TIMES_MIN)} times the median or more there were {max(more)[1]}"


def _of_kind(device: _Device, took: str, latency_ns: Floats, per_s: Floats, beside: str = "") -> str | None:
    """How long requests of a kind took on average in samples that have any, and whether there was more to do where they took long."""
    with np.errstate(invalid="ignore"):
        has = np.flatnonzero(latency_ns > 0)
    if len(has) < ACCOUNT_SAMPLES_MIN:
        return None
    latency = latency_ns[has]
    usual, late, most = (float(value) for value in np.quantile(latency, (0.5, 0.95, 1.0)))
    at = has[int(np.argmax(latency))]
    twentieth = f", {words.duration(late)} or more in one of twenty," if len(has) >= ACCOUNT_TAIL_MIN else ""
    levels = two_levels(device.time_ns[has], latency)
    usually = (
        f"{words.duration(usual)} on average in the median of {words.things(len(has), 'sample')}"
        if levels is None
        else f"on average {levels.said(device.case, words.duration(levels.before), words.duration(levels.after))} ({words.things(len(has), 'sample')})"
    )
    said = f"{took} {usually}{twentieth} and {words.duration(most)} at most (at {device.case.moment(device.time_ns[at])}){beside}."
    # A mean of 0 is the mean of nothing, where no rate says that it was rounded.
    idle = int(((latency_ns == 0) & ~(np.nan_to_num(per_s) > 0)).sum())
    if idle:
        said += f" {words.things(idle, 'more sample')} {'has' if idle == 1 else 'have'} a mean of 0: no operation ended in {'it' if idle == 1 else 'them'}."
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
    if busy.max() > ACCOUNT_BUSY_POSSIBLE_MAX:
        over = int((busy > ACCOUNT_BUSY_POSSIBLE_MAX).sum())
        return [
            f"its busy share is above 100 % in {words.count(over)} of {words.things(len(busy), 'sample')} ({words.percent(float(busy.max()))} at most), "
            "which is impossible (a bug of the kernel, or a misread log)."
        ]
    if not full:
        return [f"it was busy for {words.percent(float(busy.max()))} of a sample at most."]
    return [
        f"it was busy for {words.percent(ACCOUNT_BUSY_MIN)} or more in {words.count(full)} of {words.things(len(busy), 'sample')}."
    ]


@dataclass(frozen=True)
class _InFlight:
    """Requests in flight that rates and latencies do not explain (Little's law)."""

    depth: float
    #: Whether there were samples with nothing in flight: then the kernel did not lose count, and they did take that long.
    drained: bool
    said: str


def _in_flight(device: _Device) -> _InFlight | None:
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
    drained = bool((depth[known] < ACCOUNT_IN_FLIGHT_MIN).any())
    why = (
        "they took longer than a sample, and a mean holds only what ended in its sample"
        if drained
        else "some take longer than a sample, or never end, or the kernel lost count, and then how busy it was says nothing"
    )
    return _InFlight(
        in_flight,
        drained,
        f"{words.significant(in_flight, 2)} requests were in flight in the median sample, where its rates and latencies make "
        f"{words.significant(explained, 2)}: {why}.",
    )
