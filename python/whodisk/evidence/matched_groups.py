"""Two groups of operations that ought to take as long: of the same kind and size, at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whodisk.evidence.survey import DEPTH_CLASS, SIZE_CLASS, Survey
from whodisk.evidence.thresholds import MATCHED_BLOCKS, MATCHED_CELL_MIN, MATCHED_ROUNDS
from whodisk.reading.views import Case
from whodisk.statistics.stats import SEED, Floats, Ints


@dataclass(frozen=True)
class Matched:
    """How much longer one group takes than the other."""

    ratio: float
    #: Of 95 %, over blocks of time.
    low: float
    high: float
    p_value: float
    #: Blocks of time in which both were seen.
    blocks: int
    #: Operations of the group that takes longer, in strata that the other one has, too.
    operations: int


def compare_groups(
    case: Case,
    survey: Survey,
    value: str,
    group: str,
    where: str,
    strata: tuple[str, ...] = (DEPTH_CLASS,),
) -> Matched | None:
    """Compares rows of a layer for which the SQL `group` is true with those for which it is false, by the typical log of the SQL `value`; None
    where they were too seldom seen side by side. `strata`: what must be equal, too, beside kind and size class.

    Null model: within a stratum and a block of time it makes no difference in which group an operation is; so the sign of a block's
    difference is a coin's (sign-flip test).
    """
    keys = ["op", SIZE_CLASS, *strata]
    data = case.arrays(
        f"""SELECT {", ".join(f"{key} AS k{n}" for n, key in enumerate(keys))}, {survey.time_bin_sql(MATCHED_BLOCKS)} AS block,
  count(*) FILTER ({group}) AS n_one, count(*) FILTER (NOT ({group})) AS n_other,
  median(ln(greatest({value}, 1))) FILTER ({group}) AS one, median(ln(greatest({value}, 1))) FILTER (NOT ({group})) AS other
FROM measured WHERE layer = '{survey.layer}' AND ({value}) IS NOT NULL AND ({group}) IS NOT NULL AND {where}
GROUP BY ALL HAVING n_one >= {MATCHED_CELL_MIN} AND n_other >= {MATCHED_CELL_MIN} ORDER BY ALL"""
    )
    if not len(data["block"]):
        return None
    n_one, n_other = (data[name].astype(np.float64) for name in ("n_one", "n_other"))
    difference = data["one"].astype(np.float64) - data["other"].astype(np.float64)
    return matched(data["block"].astype(np.int64), n_one, n_other, difference)


def matched(block: Ints, n_one: Floats, n_other: Floats, difference: Floats) -> Matched | None:
    """The same of cells (a stratum in a block of time each): how many of each group there are, and by how much their median logs differ."""
    # What the difference of two medians is worth.
    weight = n_one * n_other / (n_one + n_other)
    _, place = np.unique(block, return_inverse=True)
    total = np.bincount(place, weight)
    per_block: Floats = np.bincount(place, weight * difference) / total
    if len(per_block) < MATCHED_BLOCKS // 2:
        return None
    generator = np.random.default_rng(SEED)
    drawn = generator.choice(len(per_block), (MATCHED_ROUNDS, len(per_block)))
    means = (per_block[drawn] * total[drawn]).sum(axis=1) / total[drawn].sum(axis=1)
    low, high = np.percentile(np.exp(means), [2.5, 97.5])
    flips = generator.choice((-1.0, 1.0), (MATCHED_ROUNDS, len(per_block)))
    seen = float(per_block @ total)
    at_least = int((flips @ (per_block * total) >= seen).sum())
    return Matched(
        ratio=float(np.exp(seen / total.sum())),
        low=float(low),
        high=float(high),
        p_value=(1 + at_least) / (1 + MATCHED_ROUNDS),
        blocks=len(per_block),
        operations=int(n_one.sum()),
    )
