"""What a stage in which operations are held up costs: a CPU that is busy, a controller that holds back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from whodisk import probability
from whodisk.below import LEVELS
from whodisk.detectors.base import SHARE_OF_LATENCY_MIN, Candidate, Context
from whodisk.findings import Culprit, Effect, Evidence
from whodisk.late import late_in
from whodisk.stats import SEED, Bools, Floats, bootstrap_ratio, episodes, placed, upper_quantile
from whodisk.survey import Survey

#: The unit of evidence: a block of time.
TIME_BLOCKS = 200
ROUNDS = 1999
#: A percentile is told from the largest values: to so many standard errors beyond its rank; ...
TAIL_ERRORS = 6.0
#: ... if these are more, the rank is certain enough by itself.
TAIL_MAX = 100_000


@dataclass(frozen=True)
class Held:
    """Time lost in one way, against all time in operations (or of submitting threads)."""

    share: float
    low: float
    high: float
    #: Sign test over the blocks in which something was lost: as often as not it is less than the smallest effect.
    p_value: float
    #: That it is less in all blocks together, if these are drawn again and again (bootstrap).
    together_p: float
    #: Blocks in which it was more.
    blocks: int
    #: Operations (or waits) that were held up.
    count: int
    #: Typical time each of them lost, ns.
    each_ns: float

    @property
    def either_p(self) -> float:
        """The smaller of the two, doubled: for a loss whose cause was seen each time, however unevenly it comes."""
        return min(1.0, 2 * min(self.p_value, self.together_p))


def in_stage(
    context: Context, stage: str, least_ns: int = 1, least_share: float = SHARE_OF_LATENCY_MIN
) -> Held | None:
    """What a stage costs those of the judged operations that spent `least_ns` there; None if it costs nothing.

    `least_share` is the smallest effect that the p value is about.
    """
    chosen = f"{stage}_ns >= {least_ns}"
    data = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(TIME_BLOCKS)} AS block, coalesce(sum({stage}_ns) FILTER ({chosen}), 0) AS lost_ns, sum(latency_ns) AS all_ns,
  count(*) FILTER ({chosen}) AS n, median({stage}_ns) FILTER ({chosen}) AS each_ns
FROM measured WHERE layer = '{context.layer}' AND {stage}_ns IS NOT NULL GROUP BY 1 ORDER BY 1"""
    )
    lost, whole = data["lost_ns"].astype(np.float64), data["all_ns"].astype(np.float64)
    each = data["each_ns"].astype(np.float64)
    return weigh(lost, whole, int(data["n"].sum()), each, least_share)


def submitters(context: Context) -> list[int]:
    """Threads with at least a tenth of the operations, or of an even part of them."""
    rows = context.case.rows(
        f"SELECT tid, count(*) AS n FROM measured WHERE layer = '{context.layer}' AND tid IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    least = 0.1 * context.survey.operations / max(1, len(rows))
    return [int(row["tid"] or 0) for row in rows if int(row["n"] or 0) >= least]


def waits_where(context: Context, tids: list[int], state: str) -> str:
    """Condition for waits of submitting threads inside the measured window."""
    survey = context.survey
    listed = ", ".join(str(tid) for tid in tids) or "NULL"
    return f"state = '{state}' AND tid IN ({listed}) AND start_ns >= {survey.begin_ns} AND start_ns < {survey.end_ns}"


def waits_sql(context: Context, tids: list[int], state: str, least_ns: int = 1) -> str:
    """The waits of submitting threads in that state inside the measured window, from that length on."""
    return f"""SELECT tid, comm, start_ns, duration_ns FROM waits
WHERE {waits_where(context, tids, state)} AND duration_ns >= {least_ns} ORDER BY start_ns, tid"""


def in_waits(context: Context, tids: list[int], state: str, least_ns: int = 1) -> Held | None:
    """The same out of the waits of submitting threads that lasted `least_ns`, against their time; None if there are none."""
    data = context.case.arrays(
        f"""SELECT {context.survey.time_bin_sql(TIME_BLOCKS)} AS block, sum(duration_ns) AS lost_ns, count(*) AS n, median(duration_ns) AS each_ns
FROM waits WHERE {waits_where(context, tids, state)} AND duration_ns >= {least_ns} GROUP BY 1 ORDER BY 1"""
    )
    lost = placed(data["block"], data["lost_ns"], TIME_BLOCKS)
    each = placed(data["block"], data["each_ns"], TIME_BLOCKS, np.nan)
    whole = np.full(TIME_BLOCKS, max(1, len(tids)) * context.survey.span_ns / TIME_BLOCKS)
    return weigh(lost, whole, int(data["n"].sum()), each)


def in_blocks(context: Context, lost_sql: str, column: str) -> Held | None:
    """The same out of any query with `start_ns` and a time lost per row, against the time of all judged operations."""
    block = context.survey.time_bin_sql(TIME_BLOCKS)
    lost_data = context.case.arrays(
        f"""SELECT {block} AS block, sum({column}) AS lost_ns, count(*) AS n, median({column}) AS each_ns
FROM ({lost_sql}) AS lost GROUP BY 1 ORDER BY 1"""
    )
    all_data = context.case.arrays(
        f"""SELECT {block} AS block, sum(latency_ns) AS all_ns FROM measured
WHERE layer = '{context.layer}' GROUP BY 1 ORDER BY 1"""
    )
    whole = placed(all_data["block"], all_data["all_ns"], TIME_BLOCKS)
    lost = placed(lost_data["block"], lost_data["lost_ns"], TIME_BLOCKS)
    each = placed(lost_data["block"], lost_data["each_ns"], TIME_BLOCKS, np.nan)
    return weigh(np.minimum(lost, whole), whole, int(lost_data["n"].sum()), each)


def p99_ratio(context: Context, lost_sql: str) -> float:
    """99th percentile of the judged operations over that without what they lost: the sum of `lost_ns` of any query with `op_id`.

    What was lost may be of operations further down: of requests to a drive, say. In a closed loop more operations would be done in the
    same time without the loss; what else strikes strikes at moments of its own, and would hit a smaller part of them.
    """
    each = _each_sql(context, lost_sql)
    without = "greatest(0, m.latency_ns - coalesce(e.lost_ns, 0))"
    source = f"FROM measured AS m LEFT JOIN each AS e ON e.op_id = m.op_id WHERE m.layer = '{context.layer}'"
    row = context.case.rows(
        f"{each} SELECT count(*) AS n, sum(m.latency_ns) AS all_ns, sum({without}) AS without_ns {source}"
    )[0]
    count, all_ns, without_ns = (float(row[name] or 0) for name in ("n", "all_ns", "without_ns"))
    more = 1.0 if context.case.offered_per_s else all_ns / max(1.0, without_ns)

    def p99_ns(value: str, part: float) -> float:
        part = min(1.0, part)
        most = math.ceil(count * part + TAIL_ERRORS * (math.sqrt(count * part) + 1))
        if most > TAIL_MAX:
            [found] = context.case.rows(
                f"{each} SELECT quantile_cont({value}, {1 - part!r}) AS p99_ns {source}"
            )
            return float(found["p99_ns"] or 0)
        tail = context.case.arrays(f"{each} SELECT {value} AS ns {source} ORDER BY 1 DESC LIMIT {most}")["ns"]
        return upper_quantile(tail.astype(np.float64), int(count), part)

    return p99_ns("m.latency_ns", 0.01) / max(1.0, p99_ns(without, 0.01 * more))


def lost_above(context: Context, survey: Survey, lost_sql: str) -> tuple[Floats, float] | None:
    """What the judged operations lost in requests of another layer (`lost_per_episode`, `p99_ratio`); None if they are of that layer
    themselves, or if nobody is known to have waited for one."""
    lost = lost_per_episode(context, lost_sql) if survey.layer != context.layer else np.zeros(0)
    return (lost, p99_ratio(context, lost_sql)) if len(lost) else None


def lost_per_episode(context: Context, lost_sql: str) -> Floats:
    """What the judged operations lost, as in `p99_ratio`, at most all of their latency; one value per episode, ns."""
    lost = context.case.arrays(
        f"""{_each_sql(context, lost_sql)}
SELECT m.start_ns, m.latency_ns, least(e.lost_ns, m.latency_ns) AS lost_ns
FROM measured AS m JOIN each AS e ON e.op_id = m.op_id WHERE m.layer = '{context.layer}' ORDER BY m.start_ns, m.op_id"""
    )
    start = lost["start_ns"].astype(np.int64)
    numbers = episodes(start, start + lost["latency_ns"].astype(np.int64))
    return np.asarray(np.bincount(numbers, lost["lost_ns"].astype(np.float64)), np.float64)


def _each_sql(context: Context, lost_sql: str) -> str:
    """The begin of a query: `each` (op_id, lost_ns), what operations lost by themselves and by all that is linked below them."""
    reached = "SELECT op_id, op_id AS source FROM lost"
    levels = ""
    if "links" in context.case.columns:
        for level in range(1, LEVELS + 1):
            below = "lost" if level == 1 else f"above_{level - 1}"
            source = "op_id" if level == 1 else "source"
            levels += (
                f", above_{level} AS (SELECT DISTINCT l.parent_id AS op_id, s.{source} AS source FROM {below} AS s "
                "JOIN links AS l ON l.child_id = s.op_id)"
            )
            reached += f" UNION SELECT op_id, source FROM above_{level}"
    return f"""WITH lost AS (SELECT op_id, sum(lost_ns) AS lost_ns FROM ({lost_sql}) AS parts GROUP BY 1){levels},
  each AS (SELECT r.op_id, sum(lost.lost_ns) AS lost_ns FROM ({reached}) AS r JOIN lost ON lost.op_id = r.source GROUP BY 1)"""


def late_in_waits(context: Context, tids: list[int], state: str, least_ns: int = 1) -> Bools:
    """Slow operations that were not submitted, or not taken, because of these waits of their thread."""
    if "waits" not in context.case.columns or not len(context.slow):
        return np.zeros(len(context.slow), np.bool_)
    data = context.case.arrays(waits_sql(context, tids, state, least_ns))
    tid, start, duration = (data[name].astype(np.int64) for name in ("tid", "start_ns", "duration_ns"))
    return late_in(context, tid, start, duration).explained


def weigh(
    lost: Floats, whole: Floats, count: int, each: Floats, least_share: float = SHARE_OF_LATENCY_MIN
) -> Held | None:
    """One value per block of time."""
    total = float(whole.sum())
    if lost.sum() <= 0 or total <= 0:
        return None
    some = lost > 0
    more = int((lost[some] >= least_share * whole[some]).sum())
    low, high = bootstrap_ratio(lost, whole)
    return Held(
        share=min(1.0, float(lost.sum()) / total),
        low=low,
        high=min(1.0, high),
        p_value=probability.at_least(more, int(some.sum()), 0.5),
        together_p=_less_p(lost, whole, least_share),
        blocks=more,
        count=count,
        each_ns=float(np.nanmedian(each)) if np.isfinite(each).any() else 0.0,
    )


def _less_p(lost: Floats, whole: Floats, least_share: float) -> float:
    """How often blocks drawn at random lose less than a share of their time together."""
    count = len(lost)
    draws = (
        np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), ROUNDS).astype(np.float64)
    )
    return float((1 + (draws @ (lost - least_share * whole) < 0).sum()) / (1 + ROUNDS))


def candidate(
    held: Held,
    *,
    culprit: Culprit,
    claim: str,
    baseline: str,
    metric: str,
    evidence: list[Evidence],
    refute: str,
    remedy: str,
    explains: Bools,
    causes: tuple[tuple[str, str], ...],
) -> Candidate:
    """What is said of time lost in one way: its part is the effect, and what a blameless storage would not have taken."""
    return Candidate(
        culprit=culprit,
        claim=claim,
        baseline=baseline,
        effect=Effect(metric, held.share, "1", held.low, held.high),
        share_of_excess=held.share,
        share_of_latency=held.share,
        p_value=held.p_value,
        episodes=held.blocks,
        evidence=evidence,
        refute=refute,
        remedy=remedy,
        otherwise=claim,
        explains=explains,
        causes=causes,
        large=held.share >= SHARE_OF_LATENCY_MIN,
    )
