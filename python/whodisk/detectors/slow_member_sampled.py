"""A device that is slower than its peers, by sampled series: a monitoring system's, or another tool's."""

from __future__ import annotations

import numpy as np

from whodisk import words
from whodisk.detectors.against_peers import NULL_MODEL, REFUTE, how_slow, its_peers, part_ns, since
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import SAMPLED_TOLD_MAX, WATCHED_COST_MAX
from whodisk.evidence.context import Context
from whodisk.evidence.peer_comparison import Comparison, SlowMember
from whodisk.evidence.sampled_series import Sampled, parts_sql
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.times_of_day import DAY_NS
from whodisk.findings import Culprit, Effect, Evidence


def run(context: Context) -> Result:
    """Candidates from every sampled latency."""
    result = Result()
    for metric, compared in context.compared_series:
        _from_series(context, metric, compared, result)
    return result


def _from_series(
    context: Context, metric: str, compared: tuple[Sampled, Comparison] | None, result: Result
) -> None:
    if compared is None:
        result.caveats.append(("a slow device", f"too few samples of {metric} to compare devices"))
        return
    sampled, found = compared
    excess, total = _latency_sums(sampled, found)
    accused = [member for member in found.slow if member.cost >= WATCHED_COST_MAX]
    watched = [member for member in found.slow if member.cost < WATCHED_COST_MAX]
    result.tested += [member.p_value for member in watched]
    result.observed += [_watched(context, sampled, member) for member in watched[:SAMPLED_TOLD_MAX]]
    told = accused[:SAMPLED_TOLD_MAX]
    result.tested += [member.p_value for member in accused[SAMPLED_TOLD_MAX:]]
    parts = _parts(context, sampled, told)
    for member, proof in zip(told, parts, strict=True):
        own = excess.get((member.group, member.member), 0.0)
        result.candidates.append(
            _candidate(context, sampled, member, proof, own / (sum(excess.values()) or 1.0), own / total)
        )
    _tell_unlike(context, sampled, result)
    for group, device, ratio, z in found.near[:5]:
        result.observed.append(
            f"{_name(sampled, group, device)} is {words.percent(ratio - 1)} slower than its peers: {words.significant(z, 2)} "
            f"times the usual difference between peers, too little to accuse it."
        )
    lonely = [
        (host, "no three of its disks are of one kind, by their names and latencies, or have enough to do")
        for host in sampled.without_peers
    ]
    for group, why in [*((sampled.host_of(group), why) for group, why in found.skipped), *lonely][:5]:
        result.caveats.append((f"a slow device of host {group}" if group else "a slow device", why))
    # Of disks that were declared alike one that is next to idle says nothing against the others.
    if found.judged and not any(sampled.peers_of(member.group) for member, _ in sampled.unlike):
        result.compared.append(
            f"{words.things(found.judged, 'device')} of {words.things(len({sampled.host_of(name) for name in found.common}), 'host')} were compared over "
            f"{words.count(sampled.samples)} samples of {metric}; peers differ by {words.percent(found.spread)} "
            f"(robust standard deviation), {len(found.slow)} stand out."
        )


def _tell_unlike(context: Context, sampled: Sampled, result: Result) -> None:
    """Disks that take longer than others of their host, but may be of another kind, or do other work."""
    by_why: dict[tuple[str, str], list[SlowMember]] = {}
    for member, why in sampled.unlike:
        result.tested.append(member.p_value)
        by_why.setdefault((sampled.host_of(member.group), why), []).append(member)
    for (_, why), members in by_why.items():
        names = [_name(sampled, member.group, member.member) for member in members]
        shown = words.listed(names[:3] if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"])
        how = how_slow(members[0], context)
        first = "" if len(names) == 1 else f"{names[0]} "
        are = (
            f"are slower than other disks ({first}{how} {its_peers(members[0].peers)})"
            if first
            else f"is {how} {its_peers(members[0].peers)}"
        )
        result.observed.append(f"{shown} {are}, but {why}: of another kind, perhaps, or with other work.")
        result.caveats.append(
            (
                f"whether {shown} {'is' if len(names) == 1 else 'are'} slow",
                f"{why}, and the log does not say what disks they are",
            )
        )


def _watched(context: Context, sampled: Sampled, member: SlowMember) -> str:
    return (
        f"{_name(sampled, member.group, member.member)} is to be watched: it is {how_slow(member, context)} {its_peers(member.peers)}, which costs "
        f"{words.percent(max(0.0, member.cost))} of its own time, less than accuses a drive."
    )


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
    """Each member day by day. One query runs for all that were declared alike; each gets its own, which gives the same rows."""
    if not members:
        return []
    length_ns = part_ns(context)
    unit = "day" if length_ns == DAY_NS else "tenth of the recording"
    together: dict[tuple[str, ...], list[SlowMember]] = {}
    for member in members:
        together.setdefault(sampled.peers_of(member.group), []).append(member)
    proofs: dict[tuple[str, str], Evidence] = {}
    for peers, some in together.items():
        names = {
            (member.group, member.member): (sampled.host_of(member.group), member.member) for member in some
        }
        rows = context.case.rows(
            parts_sql(
                sampled.latency, list(names.values()), length_ns, period_ns=sampled.period_ns, peers=peers
            )
        )
        for key, name in names.items():
            proofs[key] = Evidence(
                f"the device against the fast third of its {'peers' if peers else 'host'}, per {unit}",
                context.case.expand(
                    parts_sql(sampled.latency, [name], length_ns, period_ns=sampled.period_ns, peers=peers)
                ),
                [row for row in rows if (row["host"], row["subject"]) == name],
            )
    return [proofs[member.group, member.member] for member in members]


def _candidate(
    context: Context,
    sampled: Sampled,
    member: SlowMember,
    proof: Evidence,
    share_of_excess: float,
    share_of_latency: float,
) -> Candidate:
    name = _name(sampled, member.group, member.member)
    load = " under the same load" if sampled.load else ""
    claim = f"{name} is {how_slow(member, context)} {its_peers(member.peers)}{load}; {since(member)}."
    proofs = [proof]
    if member.daily:
        peers = sampled.peers_of(member.group)
        whose = "peers" if peers else "host"
        sql = parts_sql(
            sampled.latency,
            [(sampled.host_of(member.group), member.member)],
            member.daily.part_ns,
            period_ns=sampled.period_ns,
            of_day=True,
            peers=peers,
        )
        proofs.insert(
            0,
            evidence(
                context.case, f"the device against the fast third of its {whose}, by time of the day", sql
            ),
        )
    return Candidate(
        culprit=Culprit("device", name),
        claim=claim,
        baseline=f"{words.things(member.peers, 'device')} of the same host at the same time{', load accounted for' if sampled.load else ''}",
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
        basis="estimated",
    )


def _name(sampled: Sampled, group: str, device: str) -> str:
    host = sampled.host_of(group)
    return f"{host}/{device}" if host else device


DETECTOR = Detector(
    name="slow_member_sampled",
    needs=("series.value",),
    needs_stages=(),
    null_model=NULL_MODEL,
    smallest_effect="10 % slower than its peers on average, in the slow third of the time, or at the same time of every day, which costs 10 % of its own mean latency; and 4.5 (6.5, 4.5) times the "
    "spread of healthy peers",
    run=run,
)
