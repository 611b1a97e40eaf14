"""One device that is stuck more often than its peers: pauses that leave its typical latency alone.

What all devices of a kind do alike is how that kind is, and accuses none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk import words
from whodisk.detectors.against_peers import its_peers
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import (
    MEMBER_TAIL_DISTANCES,
    MEMBER_TAIL_EPISODES_MIN,
    MEMBER_TAIL_OPERATIONS_MIN,
    MEMBER_TAIL_QUANTILE,
    MEMBER_TAIL_RATE_RATIO_MIN,
    P99_RATIO_MIN,
    SEEN_P99_RATIO_MIN,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.member_queue import in_front_said, waits_in_front
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, Stratum, Survey
from whodisk.evidence.time_lost import lost_above
from whodisk.findings import Culprit, Effect
from whodisk.machine.peers import Kind, busier, kinds, rotates, shared_alike, usual_of
from whodisk.reading.views import quoted
from whodisk.statistics import probability
from whodisk.statistics.stats import Bools, Floats, Ints, bootstrap_sum, episodes


@dataclass(frozen=True)
class Tail:
    """Slow episodes of one device, and of its peers."""

    device: str
    peers: int
    episodes: int
    #: Requests in strata that are shared with peers.
    requests: float
    #: Slow episodes per request; the median over its peers.
    rate: float
    peers_rate: float
    #: Time beyond typical in its slow requests, per episode, ns, and the part of it that its peers do not have.
    beyond_ns: Floats
    own_part: float
    #: 99th percentile of all devices together, and of the peers alone, ns.
    p99_ns: float
    p99_without_ns: float
    p_value: float


def run(context: Context) -> Result:
    """A candidate for each device that is stuck more often than its peers."""
    result = Result()
    survey = context.surveys.get("block") or context.surveys.get(context.layer)
    if survey is None:
        return result
    for kind in kinds(context, survey, pairs=True):
        if any(rotates(context, device) for device in kind.devices):
            # How long a request takes there depends on where the last one was: peers with other data differ by nature.
            continue
        found: dict[str, Candidate] = {}
        # Pauses that are short but frequent; and rarer ones, out of the natural tail, far out.
        for least in MEMBER_TAIL_DISTANCES:
            limits = _limits(survey, kind, least)
            for tail in _tails(context, survey, kind, limits) if limits else []:
                candidate = _candidate(context, survey, kind, tail, limits)
                before = found.get(tail.device)
                if before is None or (candidate.large, -candidate.p_value) > (before.large, -before.p_value):
                    found[tail.device] = candidate
        busy = busier(survey, kind)
        for device, candidate in found.items():
            if waits_in_front(context, survey, device, list(kind.devices)):
                result.tested.append(candidate.p_value)
                result.observed.append(in_front_said(device))
            elif device in busy:
                result.tested.append(candidate.p_value)
                result.observed.append(f"{candidate.claim} But it has more to do than they have.")
            else:
                result.candidates.append(candidate)
    return result


@dataclass(frozen=True)
class Limit:
    """What is slow in a stratum of a device, and what is typical of it there.

    Median over the devices; one that always takes longer is slow (`slow_member`), and stuck only where it takes longer than it does by itself.
    """

    stratum: Stratum
    slow_ns: float
    typical_ns: float


def _limits(survey: Survey, kind: Kind, least: float) -> list[Limit]:
    """Slow is what is beyond the usual quantile, and `least` times the median; of a device that always takes longer, by as much more."""
    alike: dict[tuple[str, int, int], list[Stratum]] = {}
    for stratum in survey.strata:
        if stratum.device in kind.devices:
            alike.setdefault((stratum.op, stratum.size_class, stratum.depth_class), []).append(stratum)
    limits = []
    for strata in alike.values():
        known = [s for s in strata if s.operations >= MEMBER_TAIL_OPERATIONS_MIN]
        if not (2 * len(known) > len(kind.devices) and shared_alike(kind, [s.operations for s in strata])):
            continue
        beyond = [max(survey.quantile_ns([s], MEMBER_TAIL_QUANTILE), least * s.own_median_ns) for s in known]
        slow_ns, typical_ns = usual_of(kind, beyond), usual_of(kind, [s.own_median_ns for s in known])
        for stratum in strata:
            longer = max(1.0, stratum.own_median_ns / max(1.0, typical_ns)) if stratum in known else 1.0
            limits.append(Limit(stratum, slow_ns * longer, typical_ns * longer))
    return limits


def slow_requests_sql(survey: Survey, kind: Kind, limits: list[Limit]) -> str:
    """Requests beyond the limit of their stratum."""
    strata = [(limit.stratum, round(limit.slow_ns), round(limit.typical_ns)) for limit in limits]
    values = ", ".join(
        f"({quoted(s.device)}, '{s.op}', {s.size_class}, {s.depth_class}, {slow_ns}, {typical_ns})"
        for s, slow_ns, typical_ns in strata
    )
    names = ", ".join(quoted(device) for device in kind.devices)
    lowest = min(slow_ns for _, slow_ns, _ in strata)
    return f"""SELECT m.device, m.op_id, m.start_ns, m.latency_ns, m.latency_ns - t.typical_ns AS beyond_ns
FROM (SELECT device, op_id, op, {SIZE_CLASS} AS size_class, {DEPTH_CLASS} AS depth_class, start_ns, latency_ns
  FROM measured WHERE layer = '{survey.layer}' AND device IN ({names}) AND latency_ns > {lowest}) AS m
JOIN (VALUES {values}) AS t(device, op, size_class, depth_class, limit_ns, typical_ns)
  ON m.device = t.device AND m.op = t.op AND m.size_class = t.size_class AND m.depth_class = t.depth_class
WHERE m.latency_ns > t.limit_ns ORDER BY m.start_ns, m.op_id"""


def _tails(context: Context, survey: Survey, kind: Kind, limits: list[Limit]) -> list[Tail]:
    data = context.case.arrays(slow_requests_sql(survey, kind, limits))
    keys = {(s.device, s.op, s.size_class, s.depth_class) for s in (limit.stratum for limit in limits)}
    device = data["device"].astype(str)
    start, end = data["start_ns"].astype(np.int64), (data["start_ns"] + data["latency_ns"]).astype(np.int64)
    beyond = data["beyond_ns"].astype(np.float64)
    requests, found = np.zeros(len(kind.devices)), np.zeros(len(kind.devices))
    excess: list[Floats] = []
    for number, name in enumerate(kind.devices):
        strata = [s for s in survey.select(name) if (s.device, s.op, s.size_class, s.depth_class) in keys]
        requests[number] = sum(s.operations for s in strata)
        mine: Bools = device == name
        numbers: Ints = episodes(start[mine], end[mine])
        excess.append(np.asarray(np.bincount(numbers, beyond[mine]), np.float64))
        found[number] = len(excess[-1])
    rates = found / np.maximum(requests, 1.0)
    tails = []
    for number, name in enumerate(kind.devices):
        others = np.arange(len(kind.devices)) != number
        usual = float(np.median(rates[others & (requests > 0)])) if (others & (requests > 0)).any() else 0.0
        if found[number] < MEMBER_TAIL_EPISODES_MIN or rates[number] < MEMBER_TAIL_RATE_RATIO_MIN * usual:
            continue
        tails.append(_tail(survey, kind, number, name, requests, found, excess, usual))
    return tails


def _tail(
    survey: Survey,
    kind: Kind,
    number: int,
    name: str,
    requests: Floats,
    found: Floats,
    excess: list[Floats],
    usual: float,
) -> Tail:
    peers = [device for device in kind.devices if device != name]
    p = stuck_p(found, requests, np.array([_time_ns(survey, device) for device in kind.devices]), number)
    theirs = [excess[n].sum() / max(1.0, requests[n]) for n in range(len(excess)) if n != number]
    natural = float(np.median(theirs)) * float(requests[number])
    own = excess[number]
    p99s = [
        survey.quantile_ns([s for device in devices for s in survey.select(device)], 0.99)
        for devices in (kind.devices, peers)
    ]
    return Tail(
        device=name,
        peers=len(peers),
        episodes=int(found[number]),
        requests=float(requests[number]),
        rate=float(found[number] / requests[number]),
        peers_rate=usual,
        beyond_ns=own,
        own_part=max(0.0, 1.0 - natural / max(1.0, float(own.sum()))),
        p99_ns=p99s[0],
        p99_without_ns=p99s[1],
        p_value=min(1.0, len(MEMBER_TAIL_DISTANCES) * p),
    )


def stuck_p(found: Floats, requests: Floats, time_ns: Floats, number: int) -> float:
    """Probability that this many of all slow episodes (`found` per device) fall on the one with this number; Bonferroni over the devices.

    Null model: a tail hits each of its `requests` alike, what pauses hits whatever is under way (`time_ns`), or comes at any moment, to each device as often: the
    largest of the three chances. A device that has little to do is not stuck more often for having fewer requests.
    """
    chance = max(
        float(requests[number] / max(1.0, requests.sum())),
        float(time_ns[number] / max(1.0, time_ns.sum())),
        1.0 / len(found),
    )
    return min(1.0, probability.at_least(int(found[number]), int(found.sum()), chance) * len(found))


def _time_ns(survey: Survey, device: str) -> float:
    """What a device's requests usually take together, ns: what slow ones lost is not counted."""
    return sum(s.operations * s.own_median_ns for s in survey.select(device))


def _candidate(context: Context, survey: Survey, kind: Kind, tail: Tail, limits: list[Limit]) -> Candidate:
    # What operations lost counts, where it is known which requests they waited for.
    own = f"SELECT op_id, beyond_ns AS lost_ns FROM ({slow_requests_sql(survey, kind, limits)}) AS slow WHERE device = {quoted(tail.device)}"
    above = lost_above(context, survey, own)
    if above:
        (lost, worse), total, worse_min = above, context.survey.latency_ns, SEEN_P99_RATIO_MIN
    else:
        lost, worse = tail.beyond_ns, tail.p99_ns / max(1.0, tail.p99_without_ns)
        total, worse_min = survey.latency_ns, P99_RATIO_MIN
    parts = lost * tail.own_part / max(1.0, total)
    share = float(parts.sum())
    low, high = bootstrap_sum(parts)
    often = (
        f"{words.significant(tail.rate / tail.peers_rate)} times as often as {its_peers(tail.peers)}"
        if tail.peers_rate > 0
        else f"while {'its peer never was' if tail.peers == 1 else f'none of {its_peers(tail.peers)} was'}"
    )
    claim = (
        f"{tail.device} is stuck {often} ({words.things(tail.episodes, 'slow episode')} in "
        f"{words.things(tail.requests, 'request')}). The 99th percentile of all these devices together is "
        f"{words.duration(tail.p99_ns)}, of the others alone {words.duration(tail.p99_without_ns)}."
    )
    if above:
        claim += f" That of the operations above them is {words.significant(worse)} times what it would be without."
    return Candidate(
        culprit=Culprit("device", tail.device),
        claim=claim,
        baseline=f"{words.things(tail.peers, 'device')} of the same kind ({kind.name}), strata of operation, size and queue depth",
        effect=Effect("part of all latency", share, "1", low, min(1.0, high)),
        share_of_excess=min(1.0, share),
        share_of_latency=share,
        p_value=tail.p_value,
        episodes=tail.episodes,
        evidence=[evidence(context.case, "slow requests per device", _counts_sql(survey, kind, limits))],
        refute="Exchange the device with one of its peers, or move its load to another: if the pauses stay at the place, "
        "it is not the device.",
        remedy=f"Look at what {tail.device} does by itself (garbage collection, firmware, media errors, temperature): its "
        f"log pages, and `whodisk locate {tail.device}`; more spare space and trim help against garbage collection.",
        otherwise=claim,
        explains=none_of(context.slow),
        causes=(("stage", "device"),),
        consequence=True,
        large=share >= SHARE_OF_LATENCY_MIN or worse >= worse_min,
        p99_ratio=worse,
    )


def _counts_sql(survey: Survey, kind: Kind, limits: list[Limit]) -> str:
    return f"""SELECT device, count(*) AS slow_requests, CAST(avg(latency_ns) AS BIGINT) AS mean_ns, max(latency_ns) AS max_ns
FROM ({slow_requests_sql(survey, kind, limits)}) AS slow GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20"""


DETECTOR = Detector(
    name="member_tail",
    needs=("judged.device", "judged.latency_ns"),
    needs_stages=(),
    null_model="slow episodes fall on the devices of a kind in proportion to their requests, to the time of these, or to each as often (binomial, the largest "
    "chance; Bonferroni over the devices); a slow request is one beyond the 98 % quantile of its stratum, median over the devices",
    smallest_effect="twice as often stuck as its peers, in at least 5 episodes, and 5 % of all latency or a 99th percentile "
    "10 % above what it would be without, of the operations that waited for it; where these are not known, 20 %, of all devices together",
    run=run,
)
