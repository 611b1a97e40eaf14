"""A host with devices that all became slow together, by sampled series."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from whodisk import words
from whodisk.detectors.against_peers import how_slow, part_ns, since
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import HOST_EFFECT_MIN, HOSTS_MIN, WATCHED_COST_MAX
from whodisk.evidence.context import Context
from whodisk.evidence.host_kinds import HostFacts, host_kinds
from whodisk.evidence.peer_comparison import (
    MAD_EFFICIENCY,
    Comparison,
    PeerGroup,
    SlowMember,
    compare,
    natural_p,
    steady_member,
)
from whodisk.evidence.sampled_series import Sampled, hosts_sql
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.thresholds import LEVEL_Z_MIN, PEER_CHUNKS, SPREAD_FLOOR_FEW
from whodisk.findings import Culprit, Effect
from whodisk.statistics.stats import Bools, Floats, Ints

REFUTE = (
    "Give this host the load of another one for a while: if it is as fast then, its load was different and nothing "
    "is wrong with it."
)


def run(context: Context) -> Result:
    """Candidates from every sampled latency."""
    result = Result()
    for _, compared in context.compared_series:
        if compared is not None:
            _hosts(context, *compared, result)
    return result


def _hosts(context: Context, sampled: Sampled, found: Comparison, result: Result) -> None:
    """Whole hosts that are slower than others like them, all of their devices together."""
    # Of a host with several kinds of devices the one with most of them.
    groups = [g for g in sampled.groups if g.name in found.common and g.host in ("", g.name)]
    if len(groups) < HOSTS_MIN:
        return
    moments = np.unique(np.concatenate([group.begin_ns for group in groups]))
    latency = np.full((len(moments), len(groups)), np.nan)
    load = latency.copy()
    for number, group in enumerate(groups):
        place = np.searchsorted(moments, group.begin_ns)
        latency[place, number] = found.common[group.name]
        load[place, number] = _row_medians(group.load)
    level = latency - _explained(latency, load)
    kinds, lonely = host_kinds(_facts(groups, level, load))
    total = float(np.nansum(np.exp(latency)))
    declined = lonely.tolist()
    # What each host lost against the others of its kind.
    lost_ns: list[tuple[SlowMember, float, bool]] = []
    for kind in kinds:
        hosts = kind.hosts
        if len(hosts) < HOSTS_MIN:
            declined += hosts.tolist()
            continue
        names = [groups[number].name for number in hosts]
        became = _became_slow(names, level[:, hosts], moments)
        are = _are_slow(names, level[:, hosts], np.isin(hosts, kind.usual))
        told: dict[str, tuple[SlowMember, Floats]] = {}
        for members in (became, are):
            for member in members.slow:
                ratios = members.ratios["hosts"][:, names.index(member.member)]
                # Two ways to be slow are tried.
                told.setdefault(
                    member.member, (replace(member, p_value=min(1.0, 2 * member.p_value)), ratios)
                )
        changed = {member.member for member in became.slow}
        for name, (member, ratios) in told.items():
            lost = np.exp(latency[:, hosts[names.index(name)]]) * (1 - np.exp(-np.maximum(ratios, 0.0)))
            lost_ns.append((member, float(np.nansum(lost)), name in changed))
    whole = max(sum(lost for _, lost, _ in lost_ns), 1e-300)
    for member, lost, has_changed in lost_ns:
        if member.cost < WATCHED_COST_MAX:
            # What accuses no drive accuses no host.
            result.tested.append(member.p_value)
            result.observed.append(
                f"Host {member.member} is to be watched: all of its devices together {'became' if has_changed else 'are'} {how_slow(member, context)} those of "
                f"{member.peers} other hosts, which costs {words.percent(max(0.0, member.cost))} of their time, less than accuses a host."
            )
            continue
        shares = lost / whole, lost / max(total, 1e-300)
        result.candidates.append(_candidate(context, sampled, member, shares, has_changed))
    if declined:
        who = words.listed([groups[number].name for number in sorted(declined)[:3]])
        more = f" and {len(declined) - 3} more" if len(declined) > 3 else ""
        result.caveats.append(
            (
                f"a host with slow devices only ({who}{more})",
                f"{HOSTS_MIN} hosts with as many devices and as much to do are needed to compare with",
            )
        )


def _facts(groups: list[PeerGroup], level: Floats, load: Floats) -> HostFacts:
    middle, low = np.nanmedian(level, axis=0), np.nanquantile(level, 0.1, axis=0)
    with warnings.catch_warnings():
        # Of some hosts the load is not known.
        warnings.simplefilter("ignore", RuntimeWarning)
        load_middle, load_low = np.nanmedian(load, axis=0), np.nanquantile(load, 0.1, axis=0)
    return HostFacts(
        devices=np.log([max(1, len(group.members)) for group in groups]),
        load=load_middle,
        load_swing=load_middle - load_low,
        level=middle,
        swing=middle - low,
    )


def _became_slow(names: list[str], level: Floats, moments: Ints) -> Comparison:
    """Each against its own best times; what a host does at a time of the day is its work."""
    change = level - np.nanquantile(level, 0.1, axis=0)
    group = PeerGroup("hosts", names, change, np.full_like(change, np.nan), moments)
    return compare([group], HOST_EFFECT_MIN, daily=False)


def _are_slow(names: list[str], level: Floats, usual: Bools) -> Comparison:
    """Hosts that behave otherwise than the many with their load, always.

    The levels themselves show how much the hosts differ: a robust standard deviation of their levels.
    """
    result = Comparison()
    known = np.nanmedian(level, axis=0)
    middle = float(np.median(known[usual]))
    seen = 1.4826 * float(np.median(np.abs(known[usual] - middle)))
    spread = max(seen, SPREAD_FLOOR_FEW)
    # What is taken for the least that hosts differ by is known better than what a few of them show.
    degrees = MAD_EFFICIENCY * int(usual.sum()) if seen > SPREAD_FLOOR_FEW else None
    with warnings.catch_warnings():
        # There are moments at which none of them was observed.
        warnings.simplefilter("ignore", RuntimeWarning)
        common = np.nanmedian(level[:, usual], axis=1)
    ratios = level - common[:, None]
    result.ratios["hosts"] = ratios
    for number in np.flatnonzero(known - middle >= HOST_EFFECT_MIN):
        z = float(known[number] - middle) / spread
        if z < LEVEL_Z_MIN:
            continue
        chunks = np.array(
            [
                np.nanmean(part)
                for part in np.array_split(ratios[:, number], PEER_CHUNKS)
                if np.isfinite(part).any()
            ]
        )
        slow_member = steady_member(
            "hosts",
            names[number],
            int(usual.sum()),
            chunks,
            z,
            natural_p(z, len(names), degrees),
        )
        result.slow.append(slow_member)
    return result


def _candidate(
    context: Context, sampled: Sampled, member: SlowMember, shares: tuple[float, float], changed: bool
) -> Candidate:
    """`shares`: its part of what all slow hosts lost, and of all latency."""
    how = "became" if changed else "are"
    against = "each against its best times" if changed else "which do as much and behave alike"
    claim = (
        f"All devices of host {member.member} together {how} {how_slow(member, context)} those of {member.peers} other hosts, {against}; "
        f"{since(member)}. None of its devices stands out: the host, its path or its load is the cause."
    )
    return Candidate(
        culprit=Culprit("host", member.member),
        claim=claim,
        baseline=f"{member.peers} other hosts with as many devices and as much to do, at the same time",
        effect=Effect("latency", member.ratio, "x peers", member.low, member.high),
        share_of_excess=shares[0],
        share_of_latency=shares[1],
        p_value=member.p_value,
        episodes=member.episodes,
        evidence=[
            evidence(
                context.case,
                "median latency of this host's devices and of all others'",
                hosts_sql(sampled.latency, member.member, part_ns(context)),
            )
        ],
        refute=REFUTE,
        remedy="Look at what the devices share: controller, backplane, CPU, network, and what the host runs.",
        otherwise=claim,
        explains=none_of(context.slow),
        large=True,
        basis="estimated",
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


DETECTOR = Detector(
    name="slow_host",
    needs=("series.value",),
    needs_stages=(),
    null_model="Among hosts of one kind (load, number of devices, behaviour of the many): one changes places with the others in any chunk of time, each against its own "
    "best times; and healthy ones differ by a robust spread with tails as heavy as Student's t; the largest of all is compared (max-T).",
    smallest_effect="20 % slower than other hosts on average or in the slow third of the time, and 4.5 (6.5) times the spread of healthy hosts",
    run=run,
)
