"""When an experiment has seen enough: the interval of its first metric is narrow enough, or it may not go on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from whodisk.statistics import probability
from whodisk.statistics.repeated import CONFIDENCE, Ratio

#: Rounds before the rule is asked for the first time; of fewer the spread is not known well enough to stop by it.
ROUNDS_MIN = 5
#: Level of the first metric's interval in an experiment that ends when this interval is narrow. Who looks after every round stops by preference where the
#: spread looks small by chance, and would cover less than the level says; `UPPER` leaves little of that, and this makes up for the rest.
LEVEL_STOPPED = 0.96
#: The rule reckons with the spread that is exceeded with this chance only, given what was seen (a bound of the chi-squared distribution).
#: Normal rounds, 5 to 12 or to 20, 20,000 experiments each, half-widths of 0.3 to 3 standard deviations: intervals cover 93.8 to 96.1 %; without
#: the bound, at a level of 96.5 %, 94.0 to 96.7 % (docs/why/decisions/0240).
UPPER = 0.8


@dataclass(frozen=True)
class Rule:
    """How many rounds there are."""

    #: The interval reaches at most so far from the ratio, on each side, as a part of it (0.02 = 2 %); None: always `most` rounds.
    half_width: float | None
    least: int
    most: int

    @property
    def level(self) -> float:
        """Level of the first metric's interval, so that it covers what it should however the experiment ended."""
        return CONFIDENCE if self.half_width is None else LEVEL_STOPPED


def enough(rule: Rule, rounds: int, ratios: list[Ratio]) -> bool:
    """Whether to stop after this many rounds; `ratios` are the first metric's, one per pair of arms that is compared."""
    if rounds >= rule.most:
        return True
    if rule.half_width is None or rounds < max(rule.least, ROUNDS_MIN):
        return False
    return all(ratio.is_known and half_width(ratio, at_most=True) <= rule.half_width for ratio in ratios)


def half_width(ratio: Ratio, *, at_most: bool = False) -> float:
    """How far the interval reaches from the ratio, as a part of it; `at_most`: how far it might reach, were its spread known."""
    if ratio.low <= 0:
        return math.inf
    reach = 0.5 * math.log(ratio.high / ratio.low)
    if at_most and ratio.degrees > 0:
        reach *= math.sqrt(ratio.degrees / (probability.chi_squared_quantile(1 - UPPER, ratio.degrees)))
    return math.expm1(min(reach, 50.0))
