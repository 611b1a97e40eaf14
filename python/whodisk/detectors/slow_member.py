"""One device unlike its peers under the same load: from sampled series, or from single operations."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import numpy as np

from whodisk import words
from whodisk.alike import Kind, busier, kinds, rotates
from whodisk.daily import Daily
from whodisk.detectors.base import (
    SEEN_P99_RATIO_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
    Candidate,
    Context,
    Detector,
    Result,
    evidence,
    none_of,
)
from whodisk.findings import Culprit, Effect, Evidence
from whodisk.held import lost_above
from whodisk.peers import SLOW_BLOCK, Comparison, PeerGroup, SlowMember, compare
from whodisk.sampled import Sampled, hosts_sql, latency_metrics, parts_sql, sampled_devices
from whodisk.stats import Floats
from whodisk.survey import DEPTH_CLASS, SIZE_CLASS, Stratum, Survey
from whodisk.views import quoted

#: Hosts do different work; one is accused only if it is slower than the others by this (log).
HOST_EFFECT_MIN = math.log(1.2)
#: Fewer hosts than this are no peers of each other.
HOSTS_MIN = 8
#: Time blocks of single operations.
TIME_BLOCKS = 168
#: Operations a device must have in every block on average.
OPERATIONS_PER_BLOCK = 5
#: A device tells what is typical of a stratum from so many operations there on, ...
OPERATIONS_TYPICAL = 20
#: ... and a stratum compares devices if so many tell it: the middle of two is pulled by either.
DEVICES_TYPICAL = 3
#: Beyond this many times typical an operation is an outlier and counts no more (`stage_blame` looks at those).
CLIP = 8.0
DAY_NS = 86_400_000_000_000
#: So many candidates are told in full; the others are counted.
TOLD_MAX = 100

REFUTE = (
    "Exchange the device with one of its peers (or move its load to another): if the slowness does not move with "
    "it, the device is innocent and its place (slot, cable, port, interrupt vector) is not."
)
HOST_REFUTE = (
    "Give this host the load of another one for a while: if it is as fast then, its load was different and nothing "
    "is wrong with it."
)


def run(context: Context) -> Result:
    """Candidates from every source the case has."""
    result = Result()
    if "series" in context.case.columns:
        for metric in latency_metrics(context.case):
            _from_series(context, metric, result)
    _from_operations(context, result)
    return result


# -- sampled series -----------------------------------------------------------------------------


def _from_series(context: Context, metric: str, result: Result) -> None:
    sampled = sampled_devices(context.case, metric)
    if sampled is None:
        result.caveats.append(("a slow device", f"too few samples of {metric} to compare devices"))
        return
    found = compare(sampled.groups)
    excess, total = _latency_sums(sampled, found)
    told = found.slow[:TOLD_MAX]
    parts = _parts(context, sampled, told)
    for member, proof in zip(told, parts, strict=True):
        own = excess.get((member.group, member.member), 0.0)
        result.candidates.append(
            _series_candidate(
                context, metric, member, proof, own / (sum(excess.values()) or 1.0), own / total
            )
        )
    for group, device, ratio, z in found.near[:5]:
        result.observed.append(
            f"{_name(group, device)} is {words.percent(ratio - 1)} slower than its peers: {words.significant(z, 2)} "
            f"times the usual difference between peers, too little to accuse it."
        )
    for group, why in found.skipped[:5]:
        result.caveats.append((f"a slow device of host {group}" if group else "a slow device", why))
    if found.judged:
        result.observed.append(
            f"{words.things(found.judged, 'device')} of {words.things(len(found.common), 'host')} were compared over "
            f"{words.count(sampled.samples)} samples of {metric}; peers differ by {words.percent(found.spread)} "
            f"(robust standard deviation), {len(found.slow)} stand out."
        )
    _hosts(context, sampled, found, result)


def _latency_sums(sampled: Sampled, found: Comparison) -> tuple[dict[tuple[str, str], float], float]:
    """Excess of each slow device, and latency of all devices, in sums of block latencies."""
    excess: dict[tuple[str, str], float] = {}
    total = 0.0
    slow = {(m.group, m.member) for m in found.slow}
    for group in sampled.groups:
        if group.name not in found.ratios:
            continue
        latency = np.exp(group.latency)
        total += float(np.nansum(latency))
        expected = latency * np.exp(-np.maximum(found.ratios[group.name], 0.0))
        for number, member in enumerate(group.members):
            if (group.name, member) in slow:
                excess[group.name, member] = float(np.nansum(latency[:, number] - expected[:, number]))
    return excess, max(total, 1e-300)


def _parts(context: Context, sampled: Sampled, members: list[SlowMember]) -> list[Evidence]:
    """Each member day by day. One query runs for all of them; each gets its own, which gives the same rows."""
    if not members:
        return []
    part_ns = _part_ns(context)
    unit = "day" if part_ns == DAY_NS else "tenth of the recording"
    names = [(member.group, member.member) for member in members]
    rows = context.case.rows(parts_sql(sampled.latency, names, part_ns))
    return [
        Evidence(
            f"the device against the fast third of its host, per {unit}",
            context.case.expand(parts_sql(sampled.latency, [name], part_ns)),
            [row for row in rows if (row["host"], row["subject"]) == name],
        )
        for name in names
    ]


def _series_candidate(
    context: Context,
    metric: str,
    member: SlowMember,
    proof: Evidence,
    share_of_excess: float,
    share_of_latency: float,
) -> Candidate:
    name = _name(member.group, member.member)
    claim = f"{name} is {_how_slow(member, context)} its {member.peers} peers under the same load; {_since(member)}."
    proofs = [proof]
    if member.daily:
        sql = parts_sql(metric, [(member.group, member.member)], member.daily.part_ns, of_day=True)
        proofs.insert(
            0,
            evidence(context.case, "the device against the fast third of its host, by time of the day", sql),
        )
    return Candidate(
        culprit=Culprit("device", name),
        claim=claim,
        baseline=f"{member.peers} devices of the same host at the same time, load accounted for",
        effect=Effect("latency", member.ratio, "x peers", member.low, member.high),
        share_of_excess=share_of_excess,
        share_of_latency=share_of_latency,
        p_value=member.p_value,
        episodes=member.episodes,
        evidence=proofs,
        refute=REFUTE,
        remedy=f"Take {name} out of service and look at its error log; `whodisk locate` on its host shows where it is.",
        otherwise=claim,
        explains=none_of(context.slow),
        large=True,
    )


def _hosts(context: Context, sampled: Sampled, found: Comparison, result: Result) -> None:
    """Whole hosts that are slower than the others, all of their devices together."""
    groups = [group for group in sampled.groups if group.name in found.common]
    if len(groups) < HOSTS_MIN:
        return
    moments = np.unique(np.concatenate([group.begin_ns for group in groups]))
    latency = np.full((len(moments), len(groups)), np.nan)
    load = latency.copy()
    for number, group in enumerate(groups):
        place = np.searchsorted(moments, group.begin_ns)
        latency[place, number] = found.common[group.name]
        load[place, number] = _row_medians(group.load)
    change = latency - _explained(latency, load)
    # Hosts do different work: each is compared with its own best times, and only changes count.
    change -= np.nanquantile(change, 0.1, axis=0)
    names = [group.name for group in groups]
    # What a host does at a time of the day is its work.
    members = compare(
        [PeerGroup("hosts", names, change, np.full_like(change, np.nan), moments)],
        HOST_EFFECT_MIN,
        daily=False,
    )
    total = float(np.nansum(np.exp(latency)))
    for member in members.slow:
        number = names.index(member.member)
        lost = np.exp(latency[:, number]) * (1 - np.exp(-np.maximum(members.ratios["hosts"][:, number], 0.0)))
        claim = (
            f"All devices of host {member.member} together became {_how_slow(member, context)} those of {member.peers} other hosts, each against its best times; "
            f"{_since(member)}. None of its devices stands out: the host, its path or its load is the cause."
        )
        share = float(np.nansum(lost)) / max(total, 1e-300)
        result.candidates.append(
            Candidate(
                culprit=Culprit("host", member.member),
                claim=claim,
                baseline=f"{member.peers} other hosts at the same time",
                effect=Effect("latency", member.ratio, "x peers", member.low, member.high),
                share_of_excess=1.0,
                share_of_latency=share,
                p_value=member.p_value,
                episodes=member.episodes,
                evidence=[
                    evidence(
                        context.case,
                        "median latency of this host's devices and of all others'",
                        hosts_sql(sampled.latency, member.member, _part_ns(context)),
                    )
                ],
                refute=HOST_REFUTE,
                remedy="Look at what the devices share: controller, backplane, CPU, network, and what the host runs.",
                otherwise=claim,
                explains=none_of(context.slow),
                large=True,
            )
        )


def _explained(latency: Floats, load: Floats) -> Floats:
    """What of the hosts' latencies their loads explain: one power for all, from how each host's latency follows its load."""
    known = np.isfinite(latency) & np.isfinite(load)
    if not known.any():
        return np.zeros_like(latency)
    x, y = np.where(known, load, 0.0), np.where(known, latency, 0.0)
    count = np.maximum(known.sum(axis=0), 1)
    x = np.where(known, x - x.sum(axis=0) / count, 0.0)
    y = np.where(known, y - y.sum(axis=0) / count, 0.0)
    power = float(np.clip((x * y).sum() / max(float((x * x).sum()), 1e-300), 0.0, 1.0))
    usual = float(np.median(load[known]))
    return np.where(known, power * (load - usual), 0.0)


def _row_medians(values: Floats) -> Floats:
    medians = np.full(len(values), np.nan)
    known = np.isfinite(values).any(axis=1)
    medians[known] = np.nanmedian(values[known], axis=1)
    return medians


def _name(host: str, device: str) -> str:
    return f"{host}/{device}" if host else device


def _part_ns(context: Context) -> int:
    """Days, or tenths of a shorter recording."""
    span_ns = context.case.duration_ns or DAY_NS
    return DAY_NS if span_ns > 2 * DAY_NS else max(1, span_ns // 10)


def _how_slow(member: SlowMember, context: Context) -> str:
    if member.always:
        interval = f"(95 %: {words.significant(member.low)} to {words.significant(member.high)})"
        return f"{words.significant(member.ratio)} {interval} times as slow as"
    if when := member.daily:
        then, otherwise = (words.significant(math.exp(level)) for level in (when.then, when.otherwise))
        return (
            f"slower than its peers at the same time of every day ({then} times {_clock(context, when)}, {otherwise} times "
            f"otherwise), compared with"
        )
    return (
        f"at times slower than its peers ({words.significant(member.slow_ratio)} times in its slow third, "
        f"{words.significant(member.ratio)} times on average), compared with"
    )


def _clock(context: Context, when: Daily) -> str:
    """``from 13:00 to 14:00 UTC``; from the begin of the recording, if that is not known."""
    begin, end = (timedelta(microseconds=ns // 1000) for ns in (when.begin_ns, when.end_ns))
    try:
        start = datetime.fromisoformat(str(context.case.meta.get("start_utc")))
    except ValueError:
        return f"from {begin} to {end} of each day of the recording"
    return f"from {start + begin:%H:%M} to {start + end:%H:%M} UTC"


def _since(member: SlowMember) -> str:
    part = f"slow {words.percent(member.slow_share)} of the time"
    if member.onset_ns is None:
        return f"{part}, from the begin"
    days = member.onset_ns / DAY_NS
    when = f"day {words.significant(days, 2)}" if days >= 1 else f"{words.duration(member.onset_ns)}"
    return f"{part}, since {when} of the recording"


# -- single operations --------------------------------------------------------------------------


def _from_operations(context: Context, result: Result) -> None:
    survey = context.surveys.get("block") or context.surveys.get(context.layer)
    if survey is None:
        return
    for kind in kinds(context, survey):
        group = _operations_group(context, survey, kind)
        if group is None:
            continue
        found = compare([group])
        busy = busier(survey, kind)
        for member in found.slow:
            if not member.always and rotates(context, member.member):
                result.observed.append(
                    f"{member.member} is at times slower than its peers, as rotating disks are that have other data."
                )
                continue
            if not member.always and member.member in busy:
                result.observed.append(
                    f"{member.member} is at times slower than its peers, but it has more to do than they have."
                )
                continue
            result.candidates.append(_operations_candidate(context, survey, member, found, group))


def operations_sql(survey: Survey, limits: list[tuple[Stratum, float]], blocks: int) -> str:
    """Mean log latency per device, stratum and time block; outliers count as `CLIP` times typical."""
    values = ", ".join(
        f"('{s.op}', {s.size_class}, {s.depth_class}, CAST({typical!r} AS DOUBLE))" for s, typical in limits
    )
    block = survey.time_bin_sql(blocks)
    return f"""SELECT m.device, m.op, m.size_class, m.depth_class, m.block,
  avg(ln(greatest(t.typical_ns / {CLIP}, least(t.typical_ns * {CLIP}, m.latency_ns)))) AS v, count(*) AS n
FROM (SELECT device, op, {SIZE_CLASS} AS size_class, {DEPTH_CLASS} AS depth_class, {block} AS block, latency_ns
  FROM measured WHERE layer = '{survey.layer}' AND device IS NOT NULL) AS m
JOIN (VALUES {values}) AS t(op, size_class, depth_class, typical_ns)
  ON m.op = t.op AND m.size_class = t.size_class AND m.depth_class = t.depth_class
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5"""


def _operations_group(context: Context, survey: Survey, kind: Kind) -> PeerGroup | None:
    """Devices by time blocks; strata that hardly more than one device has say nothing and are left out."""
    shared: dict[tuple[str, int, int], list[Stratum]] = {}
    for stratum in survey.strata:
        if stratum.device in kind.devices and stratum.operations >= OPERATIONS_TYPICAL:
            shared.setdefault((stratum.op, stratum.size_class, stratum.depth_class), []).append(stratum)
    strata = [s for s in shared.values() if len(s) >= DEVICES_TYPICAL]
    operations = sum(x.operations for s in strata for x in s)
    blocks = min(TIME_BLOCKS, operations // (OPERATIONS_PER_BLOCK * len(kind.devices)))
    if blocks < 8:
        return None
    limits = [(s[0], float(np.median([x.own_median_ns for x in s]))) for s in strata]
    data = context.case.arrays(operations_sql(survey, limits, blocks))
    index = {device: number for number, device in enumerate(kind.devices)}
    typical = {(s.op, s.size_class, s.depth_class): math.log(max(1.0, t)) for s, t in limits}
    total, weight = np.zeros((blocks, len(index))), np.zeros((blocks, len(index)))
    columns = (data[c] for c in ("device", "op", "size_class", "depth_class", "block", "v", "n"))
    for device, op, size_class, depth_class, block, value, number in zip(*columns, strict=True):
        member = index.get(str(device))
        if member is not None:
            centre = typical[str(op), int(size_class), int(depth_class)]
            total[int(block), member] += (float(value) - centre) * float(number)
            weight[int(block), member] += float(number)
    latency = np.where(weight > 0, total / np.maximum(weight, 1.0), np.nan)
    begins = survey.begin_ns + (np.arange(blocks) * (survey.span_ns / blocks)).astype(np.int64)
    return PeerGroup(kind.name, list(kind.devices), latency, np.full_like(latency, np.nan), begins)


def _lost_sql(survey: Survey, member: SlowMember, ratios: Floats) -> str:
    """What each of the member's operations lost against its peers: always the same part, or what it was slower in that block of time."""
    condition = f"layer = '{survey.layer}' AND device = {quoted(member.member)} AND latency_ns IS NOT NULL"
    if member.always:
        return f"SELECT op_id, {1.0 - 1.0 / member.ratio!r} * latency_ns AS lost_ns FROM measured WHERE {condition}"
    slow = [
        f"({block}, CAST({-math.expm1(-ratio)!r} AS DOUBLE))"
        for block, ratio in enumerate(ratios.tolist())
        if ratio >= SLOW_BLOCK
    ]
    return f"""SELECT op_id, part * latency_ns AS lost_ns
FROM (SELECT op_id, latency_ns, {survey.time_bin_sql(len(ratios))} AS block FROM measured WHERE {condition})
JOIN (VALUES {", ".join(slow) or "(-1, 0.0)"}) AS slow(block, part) USING (block)"""


def _operations_candidate(
    context: Context, survey: Survey, member: SlowMember, found: Comparison, group: PeerGroup
) -> Candidate:
    strata = survey.select(member.member)
    own = sum(s.latency_ns for s in strata) * (1.0 - 1.0 / member.ratio)
    share, worse = own / max(1.0, survey.latency_ns), None
    # What operations lost counts, where it is known which requests they waited for.
    ratios = found.ratios[group.name][:, group.members.index(member.member)]
    if above := lost_above(context, survey, _lost_sql(survey, member, ratios)):
        lost, worse = above
        share = float(lost.sum()) / max(1.0, context.survey.latency_ns)
    claim = (
        f"{member.member} is {_how_slow(member, context)} its {member.peers} peers for operations of the same kind, size and "
        f"queue depth; {_since(member)}."
    )
    return Candidate(
        culprit=Culprit("device", member.member),
        claim=claim,
        baseline=f"{member.peers} devices of the same kind at the same time, strata of operation, size and queue depth",
        effect=Effect("typical latency", member.ratio, "x peers", member.low, member.high),
        share_of_excess=min(1.0, share),
        share_of_latency=min(1.0, share),
        p_value=member.p_value,
        episodes=member.episodes,
        evidence=[
            evidence(
                context.case,
                "median latency per device, kind and size",
                f"""SELECT device, op, size_bytes, count(*) AS operations, median(latency_ns) AS median_ns,
  quantile_cont(latency_ns, 0.99) AS p99_ns
FROM measured WHERE layer = '{survey.layer}' AND device IS NOT NULL
GROUP BY 1, 2, 3 HAVING count(*) >= 30 ORDER BY 2, 3, 5 DESC LIMIT 40""",
            )
        ],
        refute=REFUTE,
        remedy=f"Find it with `whodisk locate {member.member}`; compare its link, firmware, temperature and interrupt "
        "vector with those of its peers before it is replaced.",
        otherwise=claim,
        explains=none_of(context.slow),
        causes=(("stage", f"device:{member.member}"),),
        # Where nobody above is known to wait for it, what it costs them is unknown, too.
        large=share >= (SHARE_OF_LATENCY_FLOOR if worse is None else SHARE_OF_LATENCY_MIN)
        or (worse is not None and worse >= SEEN_P99_RATIO_MIN),
        p99_ratio=worse,
    )


DETECTOR = Detector(
    name="slow_member",
    needs=("judged.latency_ns or series.value",),
    needs_stages=(),
    null_model="A device changes places with its peers in any chunk of time; healthy devices differ by a robust "
    "spread with tails as heavy as Student's t; the largest of all devices is compared (max-T).",
    smallest_effect="10 % slower than its peers on average, in the slow third of the time, or at the same time of every day, and 4.5 (6.5, 4.5) times the "
    "spread of healthy peers; of operations, 5 % of the latency of those that waited for it, or a 99th percentile 10 % above that without "
    "(1 % of all latency where these are not known)",
    run=run,
)
