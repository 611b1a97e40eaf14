"""When an experiment has seen enough: the interval of its first metric is narrow enough, or it may not go on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from whodisk.statistics.repeated import CONFIDENCE, Ratio

#: Rounds before the rule is asked for the first time; of fewer the spread is not known well enough to stop by it.
ROUNDS_MIN = 5
#: Level of the interval of an experiment that ends when its interval is narrow. Who looks after every round and stops at a narrow one stops
#: too early where the spread looks small by chance: an interval of 95 % then covers the truth in 92 to 95 % of experiments, this one in 94 to 97 %.
LEVEL_STOPPED = 0.965


@dataclass(frozen=True)
class Rule:
    """How many rounds there are."""

    #: The interval reaches at most so far from the ratio, on each side, as a part of it (0.02 = 2 %); None: always `most` rounds.
    half_width: float | None
    least: int
    most: int

    @property
    def level(self) -> float:
        """Level of the intervals, so that they cover what they should however the experiment ended."""
        return CONFIDENCE if self.half_width is None else LEVEL_STOPPED


def enough(rule: Rule, rounds: int, ratios: list[Ratio]) -> bool:
    """Whether to stop after so many rounds; `ratios` are the first metric's, one per pair of arms that is compared."""
    if rounds >= rule.most:
        return True
    if rule.half_width is None or rounds < max(rule.least, ROUNDS_MIN):
        return False
    return all(ratio.is_known and half_width(ratio) <= rule.half_width for ratio in ratios)


def half_width(ratio: Ratio) -> float:
    """How far the interval reaches from the ratio, as a part of it."""
    return math.expm1(0.5 * math.log(ratio.high / ratio.low)) if ratio.low > 0 else math.inf
