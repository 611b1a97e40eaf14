"""One device unlike its peers under the same load, operation by operation."""

from __future__ import annotations

import math

import numpy as np

from whodisk import words
from whodisk.detectors.against_peers import NULL_MODEL, REFUTE, how_slow, its_peers, since
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import (
    MEMBER_BLOCKS,
    MEMBER_CLIP,
    MEMBER_DEVICES_TYPICAL,
    MEMBER_OPERATIONS_PER_BLOCK,
    MEMBER_OPERATIONS_TYPICAL,
    MEMBER_PAIR_EFFECT_MIN,
    SEEN_P99_RATIO_MIN,
    SHARE_OF_LATENCY_FLOOR,
    SHARE_OF_LATENCY_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.member_queue import in_front_said, waits_in_front
from whodisk.evidence.peer_comparison import Comparison, PeerGroup, SlowMember, compare
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, Stratum, Survey
from whodisk.evidence.thresholds import PEER_DEVICES_MIN, SLOW_BLOCK
from whodisk.evidence.time_lost import lost_above
from whodisk.findings import Culprit, Effect
from whodisk.machine.peers import Kind, busier, kinds, rotates, shared_alike, usual_of, without_facts
from whodisk.reading.views import quoted
from whodisk.statistics.stats import Floats


def run(context: Context) -> Result:
    """Candidates among the devices of each kind."""
    result = Result()
    survey = context.surveys.get("block") or context.surveys.get(context.layer)
    if survey is None:
        return result
    if len(lacking := without_facts(context, survey)) >= PEER_DEVICES_MIN:
        result.caveats.append(
            (
                "one device slower than others like it",
                f"the case has neither model nor size of {words.listed(lacking)}, so they were not compared "
                "with each other",
            )
        )
    for kind in kinds(context, survey, pairs=True):
        group = _operations_group(context, survey, kind)
        if group is None:
            continue
        # How much two differ by nature, no third one tells.
        found = compare([group], MEMBER_PAIR_EFFECT_MIN if len(kind.devices) < PEER_DEVICES_MIN else None)
        busy = busier(survey, kind)
        for member in found.slow:
            if waits_in_front(context, survey, member.member, list(kind.devices)):
                result.tested.append(member.p_value)
                result.observed.append(in_front_said(member.member))
                continue
            if not member.always and rotates(context, member.member):
                result.tested.append(member.p_value)
                result.observed.append(
                    f"{member.member} is at times slower than its peers, as rotating disks are that have other data."
                )
                continue
            if not member.always and member.member in busy:
                result.tested.append(member.p_value)
                result.observed.append(
                    f"{member.member} is at times slower than its peers, but it has more to do than they have."
                )
                continue
            result.candidates.append(_candidate(context, survey, member, found, group))
    return result


def operations_sql(
    survey: Survey, limits: list[tuple[Stratum, float]], slow: list[Stratum], blocks: int
) -> str:
    """Mean log latency per device, stratum and time block; outliers count as `MEMBER_CLIP` times typical, or times the median of those that are `slow`."""
    values = ", ".join(
        f"('{s.op}', {s.size_class}, {s.depth_class}, CAST({typical!r} AS DOUBLE))" for s, typical in limits
    )
    own = ", ".join(
        f"({quoted(s.device)}, '{s.op}', {s.size_class}, {s.depth_class}, CAST({s.own_median_ns!r} AS DOUBLE))"
        for s in slow
    )
    own = own or "(NULL, NULL, NULL, NULL, NULL)"
    block = survey.time_bin_sql(blocks)
    return f"""SELECT m.device, m.op, m.size_class, m.depth_class, m.block,
  avg(ln(greatest(t.typical_ns / {MEMBER_CLIP}, least(coalesce(s.own_ns, t.typical_ns) * {MEMBER_CLIP}, m.latency_ns)))) AS v, count(*) AS n
FROM (SELECT device, op, {SIZE_CLASS} AS size_class, {DEPTH_CLASS} AS depth_class, {block} AS block, latency_ns
  FROM measured WHERE layer = '{survey.layer}' AND device IS NOT NULL) AS m
JOIN (VALUES {values}) AS t(op, size_class, depth_class, typical_ns)
  ON m.op = t.op AND m.size_class = t.size_class AND m.depth_class = t.depth_class
LEFT JOIN (VALUES {own}) AS s(device, op, size_class, depth_class, own_ns)
  ON m.device = s.device AND m.op = s.op AND m.size_class = s.size_class AND m.depth_class = s.depth_class
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5"""


def _operations_group(context: Context, survey: Survey, kind: Kind) -> PeerGroup | None:
    """Devices by time blocks; strata that hardly more than one device has say nothing and are left out."""
    shared: dict[tuple[str, int, int], list[Stratum]] = {}
    for stratum in survey.strata:
        if stratum.device in kind.devices and stratum.operations >= MEMBER_OPERATIONS_TYPICAL:
            shared.setdefault((stratum.op, stratum.size_class, stratum.depth_class), []).append(stratum)
    strata = [
        s
        for s in shared.values()
        if len(s) >= min(MEMBER_DEVICES_TYPICAL, len(kind.devices))
        and shared_alike(kind, [x.operations for x in s])
    ]
    operations = sum(x.operations for s in strata for x in s)
    blocks = min(MEMBER_BLOCKS, operations // (MEMBER_OPERATIONS_PER_BLOCK * len(kind.devices)))
    if blocks < 8:
        return None
    limits = [(s[0], usual_of(kind, [x.own_median_ns for x in s])) for s in strata]
    # Few are so slow that the limit on outliers would hide by how much.
    slow = [
        x
        for s, (_, typical) in zip(strata, limits, strict=True)
        for x in s
        if x.own_median_ns > typical * MEMBER_CLIP / 2
    ]
    data = context.case.arrays(operations_sql(survey, limits, slow, blocks))
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


def _candidate(
    context: Context, survey: Survey, member: SlowMember, found: Comparison, group: PeerGroup
) -> Candidate:
    strata = survey.select(member.member)
    own = sum(s.latency_ns for s in strata) * (1.0 - 1.0 / member.ratio)
    share, worse = own / max(1.0, survey.latency_ns), None
    # What operations lost counts, where it is known which requests they waited for.
    ratios = found.ratios[group.name][:, group.members.index(member.member)]
    lost_sql = _lost_sql(survey, member, ratios)
    if above := lost_above(context, survey, lost_sql):
        lost, worse = above
        share = float(lost.sum()) / max(1.0, context.survey.latency_ns)
    claim = (
        f"{member.member} is {how_slow(member, context)} {its_peers(member.peers)} for operations of the same kind, size and "
        f"queue depth; {since(member)}."
    )
    return Candidate(
        culprit=Culprit("device", member.member),
        claim=claim,
        baseline=f"{words.things(member.peers, 'device')} of the same kind ({member.group}) at the same time, strata of operation, size and "
        "queue depth",
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
GROUP BY 1, 2, 3 HAVING count(*) >= 30 ORDER BY 2, 3, 5 DESC, 1 LIMIT 40""",
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
        lost_sql=lost_sql,
        basis="estimated",
    )


DETECTOR = Detector(
    name="slow_member",
    needs=("judged.latency_ns",),
    needs_stages=(),
    null_model=NULL_MODEL,
    smallest_effect="10 % slower than its peers on average, in the slow third of the time, or at the same time of every day, and 4.5 (6.5, 4.5) times the "
    "spread of healthy peers; of operations, 5 % of the latency of those that waited for it, or a 99th percentile 10 % above that without "
    "(1 % of all latency where these are not known)",
    run=run,
)
