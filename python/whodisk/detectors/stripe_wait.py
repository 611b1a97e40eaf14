"""Striped, mirrored or erasure-coded operations that wait for one member."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats as distributions

from whodisk import words
from whodisk.detectors.base import (
    SHARE_OF_LATENCY_MIN,
    Candidate,
    Context,
    Detector,
    Result,
    evidence,
    none_of,
)
from whodisk.findings import Culprit, Effect
from whodisk.stats import Floats, Ints, bootstrap_sum, episodes

#: A stripe is slow from this many times the median of its kind on.
SLOW_RATIO = 2.0
#: Fewer slow stripes say nothing.
STRIPES_MIN = 30
#: A member must hold up so many times as many slow stripes as its part in all of them.
HOLDS_UP_MIN = 2.0
#: With more links than this, stripes are thinned out by a hash of their id.
LINKS_MAX = 300_000


@dataclass(frozen=True)
class Waits:
    """Slow stripes, one array element each: the member that ended last, and what it cost."""

    start_ns: Ints
    end_ns: Ints
    device: npt.NDArray[np.object_]
    lost_ns: Floats


def stripes_sql(thinning: int) -> str:
    """Every stripe: when it began, how long it took, and the member that ended last.

    `lost_ns` is the time by which the last member was later than the last but one; of a stripe with one member, its
    time beyond the median of its kind.
    """
    thinned = f" AND hash(l.parent_id) % {thinning} = 0" if thinning > 1 else ""
    return f"""WITH members AS (SELECT l.parent_id, c.device, c.start_ns + c.latency_ns AS end_ns,
    row_number() OVER (PARTITION BY l.parent_id ORDER BY c.start_ns + c.latency_ns DESC, c.op_id) AS place
  FROM links AS l JOIN block_ops AS c ON c.op_id = l.child_id
  WHERE l.kind = 'stacked' AND NOT c.open AND c.device IS NOT NULL{thinned}),
ends AS (SELECT parent_id, count(*) AS members, max(CASE WHEN place = 1 THEN device END) AS device,
    max(CASE WHEN place = 2 THEN end_ns END) AS second_ns
  FROM members GROUP BY 1),
stripes AS (SELECT p.op, p.start_ns, p.latency_ns, e.members, e.device, e.second_ns, floor(log2(p.size_bytes + 1)) AS size_class
  FROM ends AS e JOIN measured AS p ON p.op_id = e.parent_id),
typical AS (SELECT op, members, size_class, median(latency_ns) AS typical_ns FROM stripes GROUP BY 1, 2, 3),
judged_stripes AS (SELECT s.*, t.typical_ns, greatest(0, CASE WHEN s.members > 1
    THEN s.start_ns + s.latency_ns - s.second_ns ELSE s.latency_ns - t.typical_ns END) AS lost_ns
  FROM stripes AS s JOIN typical AS t ON s.op = t.op AND s.members = t.members
    AND s.size_class IS NOT DISTINCT FROM t.size_class)"""


def run(context: Context) -> Result:
    """One candidate: the member that holds up most."""
    result = Result()
    number = int(context.case.rows("SELECT count(*) AS n FROM links WHERE kind = 'stacked'")[0]["n"] or 0)
    if number < STRIPES_MIN:
        return result
    thinning = -(-number // LINKS_MAX)
    sql = stripes_sql(thinning)
    totals = context.case.rows(f"{sql} SELECT sum(latency_ns) AS latency_ns FROM judged_stripes")[0]
    data = context.case.arrays(f"{sql} {_slow()}")
    waits = Waits(
        data["start_ns"].astype(np.int64),
        data["end_ns"].astype(np.int64),
        data["device"],
        data["lost_ns"].astype(np.float64),
    )
    if len(waits.start_ns) < STRIPES_MIN:
        return result
    parts = _parts(context, thinning)
    candidate = _candidate(context, waits, parts, sql, float(totals["latency_ns"] or 0))
    if candidate is not None:
        result.candidates.append(candidate)
    return result


def _slow() -> str:
    return f"""SELECT start_ns, start_ns + latency_ns AS end_ns, device, lost_ns FROM judged_stripes
WHERE latency_ns >= {SLOW_RATIO} * typical_ns ORDER BY start_ns, device, latency_ns"""


def _parts(context: Context, thinning: int) -> dict[str, float]:
    """Part of all memberships that each device has."""
    thinned = f" AND hash(l.parent_id) % {thinning} = 0" if thinning > 1 else ""
    rows = context.case.rows(
        f"""SELECT c.device, count(*) AS n FROM links AS l JOIN block_ops AS c ON c.op_id = l.child_id
WHERE l.kind = 'stacked' AND c.device IS NOT NULL{thinned} GROUP BY 1 ORDER BY 1"""
    )
    whole = sum(float(row["n"] or 0) for row in rows)
    return {str(row["device"]): float(row["n"] or 0) / max(1.0, whole) for row in rows}


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
    if share < min(HOLDS_UP_MIN * part, (1 + part) / 2):
        return None
    numbers = episodes(waits.start_ns, waits.end_ns)
    chosen = np.bincount(numbers, mine.astype(np.float64)) > np.bincount(numbers) / 2
    held = int(chosen.sum())
    p_value = float(distributions.binom.sf(held - 1, len(chosen), min(1.0, max(part, 1 / len(parts))))) * len(
        parts
    )
    per_episode = np.bincount(numbers, np.where(mine, waits.lost_ns, 0.0)).astype(np.float64)
    scale = excess_ns / max(1.0, lost[worst]) / max(1.0, latency_ns)
    low, high = bootstrap_sum(np.asarray(per_episode * scale, np.float64))
    cost = excess_ns / max(1.0, latency_ns)
    claim = (
        f"{words.percent(share)} of {words.things(len(mine), 'slow stripe')} waited for {worst}, which is a member of "
        f"{words.percent(part)} of what all stripes are made of; {words.duration(float(np.median(waits.lost_ns[mine])))} each, "
        f"{words.percent(cost)} of the time of all stripes."
    )
    return Candidate(
        culprit=Culprit("device", worst),
        claim=claim,
        baseline="the other members of the stripes",
        effect=Effect("part of the stripes' time", cost, "1", low, min(1.0, high)),
        share_of_excess=min(1.0, excess_ns / max(1.0, float(waits.lost_ns.sum()))),
        share_of_latency=cost,
        p_value=min(1.0, p_value),
        episodes=held,
        evidence=[
            evidence(
                context.case,
                "slow stripes by the member that ended last",
                f"""{sql} SELECT device, count(*) AS slow_stripes, CAST(median(lost_ns) AS BIGINT) AS lost_median_ns, sum(lost_ns) AS lost_ns
FROM judged_stripes WHERE latency_ns >= {SLOW_RATIO} * typical_ns GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 40""",
            )
        ],
        refute=f"Take {worst} out of the array for a while (or exchange it): if as many stripes are slow, another member "
        "takes its place and it is innocent.",
        remedy=f"See why {worst} is slower than its peers before it is replaced; `whodisk locate {worst}` shows where it is.",
        otherwise=claim,
        explains=none_of(context.slow),
        large=cost >= SHARE_OF_LATENCY_MIN,
        consequence=True,
    )


DETECTOR = Detector(
    name="stripe_wait",
    needs=("links.kind", "ops/block.latency_ns"),
    needs_stages=(),
    null_model="the member that ends last in a slow stripe is any of them, as often as it is a member",
    smallest_effect="5 % of the time of all stripes, and a member that holds up twice as many slow stripes as its part of them",
    run=run,
)
