"""Striped, mirrored or erasure-coded operations that wait for one member."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whodisk import words
from whodisk.detectors.base import Candidate, Detector, Result, evidence
from whodisk.detectors.thresholds import (
    MEMBER_PAIR_EFFECT_MIN,
    SHARE_OF_LATENCY_MIN,
    STRIPE_HOLDS_UP_MIN,
    STRIPE_LINKS_SAMPLE,
    STRIPE_SLOW_MAX,
    STRIPE_SLOW_RATIO,
    STRIPES_MIN,
)
from whodisk.evidence.context import Context
from whodisk.evidence.slow_operations import none_of
from whodisk.evidence.survey import SIZE_CLASS, Survey, bin_middle_ns
from whodisk.evidence.thresholds import PEER_DEVICES_MIN
from whodisk.findings import Culprit, Effect
from whodisk.reading.views import Row
from whodisk.statistics import probability
from whodisk.statistics.stats import Bools, Floats, Ints, bootstrap_sum, episodes


@dataclass(frozen=True)
class Waits:
    """Slow stripes, one array element each: the member that ended last, and what it cost."""

    start_ns: Ints
    end_ns: Ints
    device: npt.NDArray[np.object_]
    lost_ns: Floats


def _typical(survey: Survey, stacked: list[str]) -> list[tuple[str, str, int, float]]:
    """(device, op, size class, median latency in ns) of stacked devices."""
    kinds = sorted({(s.device, s.op, s.size_class) for s in survey.strata if s.device in stacked})
    return [
        (
            *kind,
            survey.quantile_ns([s for s in survey.strata if (s.device, s.op, s.size_class) == kind], 0.5),
        )
        for kind in kinds
    ]


def slow_sql(typical: list[tuple[str, str, int, float]], thinning: int) -> str:
    """Every slow stripe: when it began, how long it took, and the member that ended last.

    `lost_ns` is the time by which the last member was later than the last but one; of a stripe with one member, its
    time beyond the median of its kind.
    """
    values = ", ".join(
        f"('{device}', '{op}', {size_class}, CAST({ns!r} AS DOUBLE))"
        for device, op, size_class, ns in typical
    )
    thinned = f" AND hash(p.op_id) % {thinning} = 0" if thinning > 1 else ""
    return f"""WITH slow AS (SELECT p.op_id, p.start_ns, p.latency_ns, t.typical_ns
  FROM (SELECT op_id, start_ns, latency_ns, device, op, {SIZE_CLASS} AS size_class FROM measured WHERE layer = 'block') AS p
  JOIN (VALUES {values}) AS t(device, op, size_class, typical_ns)
    ON p.device = t.device AND p.op = t.op AND p.size_class = t.size_class
  WHERE p.latency_ns >= {STRIPE_SLOW_RATIO} * t.typical_ns{thinned}),
members AS (SELECT l.parent_id, c.device, c.start_ns + c.latency_ns AS end_ns,
    row_number() OVER (PARTITION BY l.parent_id ORDER BY c.start_ns + c.latency_ns DESC, c.op_id) AS place
  FROM slow JOIN links AS l ON l.parent_id = slow.op_id JOIN block_ops AS c ON c.op_id = l.child_id
  WHERE l.kind = 'stacked' AND NOT c.open AND c.device IS NOT NULL),
ends AS (SELECT parent_id, count(*) AS members, max(CASE WHEN place = 1 THEN device END) AS device,
    max(CASE WHEN place = 2 THEN end_ns END) AS second_ns
  FROM members GROUP BY 1),
slow_stripes AS (SELECT s.start_ns, s.start_ns + s.latency_ns AS end_ns, e.device, greatest(0, CASE WHEN e.members > 1
    THEN s.start_ns + s.latency_ns - e.second_ns ELSE s.latency_ns - s.typical_ns END) AS lost_ns
  FROM slow AS s JOIN ends AS e ON e.parent_id = s.op_id)"""


def run(context: Context) -> Result:
    """One candidate: the member that holds up most."""
    result = Result()
    survey = context.surveys.get("block")
    sample = _sample(context)
    if survey is None or not sample:
        return result
    stacked = sorted({str(row["parent"]) for row in sample})
    typical = _typical(survey, stacked)
    beyond = sum(
        int(s.counts[bin_middle_ns(s.bins) >= STRIPE_SLOW_RATIO * ns].sum())
        for device, op, size_class, ns in typical
        for s in survey.strata
        if (s.device, s.op, s.size_class) == (device, op, size_class)
    )
    if beyond < STRIPES_MIN:
        return result
    thinning = -(-beyond // STRIPE_SLOW_MAX)
    sql = slow_sql(typical, thinning)
    data = context.case.arrays(f"{sql} SELECT * FROM slow_stripes ORDER BY start_ns, device, end_ns")
    waits = Waits(
        data["start_ns"].astype(np.int64),
        data["end_ns"].astype(np.int64),
        data["device"],
        data["lost_ns"].astype(np.float64),
    )
    if len(waits.start_ns) < STRIPES_MIN:
        return result
    parts = _parts(sample)
    latency_ns = sum(s.latency_ns for s in survey.strata if s.device in stacked) / thinning
    candidate = _candidate(context, waits, parts, sql, latency_ns)
    if candidate is not None:
        result.candidates.append(candidate)
    return result


def _sample(context: Context) -> list[Row]:
    """Stacked devices and their members, with the number of links among some of the case."""
    return context.case.rows(
        f"""SELECT p.device AS parent, c.device AS member, count(*) AS n
FROM (SELECT parent_id, child_id FROM links WHERE kind = 'stacked' ORDER BY parent_id, child_id LIMIT {STRIPE_LINKS_SAMPLE}) AS l
JOIN block_ops AS p ON p.op_id = l.parent_id JOIN block_ops AS c ON c.op_id = l.child_id
WHERE p.device IS NOT NULL AND c.device IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"""
    )


def _parts(sample: list[Row]) -> dict[str, float]:
    """Part of all memberships that each device has."""
    counts: dict[str, float] = {}
    for row in sample:
        counts[str(row["member"])] = counts.get(str(row["member"]), 0.0) + float(row["n"] or 0)
    whole = sum(counts.values())
    return {device: number / whole for device, number in sorted(counts.items())}


def _candidate(
    context: Context, waits: Waits, parts: dict[str, float], sql: str, latency_ns: float
) -> Candidate | None:
    if len(parts) < 2:
        return None
    lost = {device: float(waits.lost_ns[waits.device == device].sum()) for device in parts}
    worst = max(sorted(parts), key=lambda device: lost[device] - parts[device] * sum(lost.values()))
    mine = waits.device == worst
    share, part = float(mine.mean()), parts[worst]
    others = [lost[device] / parts[device] for device in parts if device != worst]
    # What a member costs that is no slower than the others is not its fault.
    excess_ns = max(0.0, lost[worst] - part * float(np.median(others)))
    if share < min(STRIPE_HOLDS_UP_MIN * part, (1 + part) / 2):
        return None
    later = float(np.median(waits.lost_ns[mine] / np.maximum(1, waits.end_ns - waits.start_ns)[mine]))
    if len(parts) < PEER_DEVICES_MIN and later < -math.expm1(-MEMBER_PAIR_EFFECT_MIN):
        # Of a pair the one that is asked second ends last by a little, always; and no third one tells how far two drives differ by nature.
        return None
    numbers = episodes(waits.start_ns, waits.end_ns)
    held, p_value = held_up(numbers, mine, part, len(parts))
    per_episode = np.bincount(numbers, np.where(mine, waits.lost_ns, 0.0)).astype(np.float64)
    scale = excess_ns / max(1.0, lost[worst]) / max(1.0, latency_ns)
    low, high = bootstrap_sum(np.asarray(per_episode * scale, np.float64))
    cost = excess_ns / max(1.0, latency_ns)
    claim = (
        f"{words.percent(share)} of {words.things(len(mine), 'slow stripe')} waited for {worst}, "
        f"{words.duration(float(np.median(waits.lost_ns[mine])))} each: {words.percent(cost)} of the time of all stripes. "
        f"It holds {words.percent(part)} of their parts."
    )
    return Candidate(
        culprit=Culprit("device", worst),
        claim=claim,
        baseline="the other members of the stripes",
        effect=Effect("part of the stripes' time", cost, "1", low, min(1.0, high)),
        share_of_excess=min(1.0, excess_ns / max(1.0, float(waits.lost_ns.sum()))),
        share_of_latency=cost,
        p_value=p_value,
        episodes=held,
        evidence=[
            evidence(
                context.case,
                "slow stripes by the member that ended last",
                f"""{sql} SELECT device, count(*) AS slow_stripes, CAST(median(lost_ns) AS BIGINT) AS lost_median_ns, sum(lost_ns) AS lost_ns
FROM slow_stripes GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 40""",
            )
        ],
        refute=f"Take {worst} out of the array for a while (or exchange it): if as many stripes are slow, another member "
        "takes its place and it is innocent.",
        remedy=f"See why {worst} is slower than its peers before it is replaced; `whodisk locate {worst}` shows where it is.",
        otherwise=claim,
        explains=none_of(context.slow),
        large=cost >= SHARE_OF_LATENCY_MIN,
        causes=(("stage", "device"),),
        consequence=True,
    )


def held_up(numbers: Ints, mine: Bools, part: float, members: int) -> tuple[int, float]:
    """Episodes (`numbers`, one per slow stripe) in which a member held up most stripes, and the probability that it would be this many, if any
    member ended last as often as it is one (`part` of all memberships); Bonferroni over the members."""
    chosen = np.bincount(numbers, mine.astype(np.float64)) > np.bincount(numbers) / 2
    held = int(chosen.sum())
    chance = min(1.0, max(part, 1 / members))
    return held, min(1.0, probability.at_least(held, len(chosen), chance) * members)


DETECTOR = Detector(
    name="stripe_wait",
    needs=("links.kind", "ops/block.latency_ns"),
    needs_stages=(),
    null_model="the member that ends last in a slow stripe is any of them, as often as it is a member",
    smallest_effect="5 % of the time of all stripes, and a member that holds up twice as many slow stripes as its part of them",
    run=run,
)
