"""Intervals for proportions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Two-sided 95 %.
Z = 1.959963984540054


@dataclass(frozen=True)
class Proportion:
    """So many of so many, with a 95 % interval; all of it 0 to 1."""

    successes: int
    trials: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        """None where nothing was tried."""
        return self.successes / self.trials if self.trials else None


def wilson(successes: int, trials: int, design_effect: float = 1.0) -> Proportion:
    """Wilson's score interval; `design_effect` >= 1 says how many dependent trials are worth one independent one.

    Nothing tried: the interval is [0, 1]. Source: Wilson 1927; with a design effect, Korn and Graubard 1998.
    Raises ValueError for counts that cannot be.
    """
    if not 0 <= successes <= trials or design_effect < 1.0:
        raise ValueError(
            f"expected 0 <= {successes} <= {trials} and a design effect of 1 or more, found {design_effect}"
        )
    if trials == 0:
        return Proportion(0, 0, 0.0, 1.0)
    n = trials / design_effect
    part = successes / trials
    middle = (part + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(part * (1 - part) / n + Z * Z / (4 * n * n))
    return Proportion(successes, trials, max(0.0, middle - half), min(1.0, middle + half))


def wilson_of_cells(cells: Sequence[tuple[int, int]]) -> Proportion:
    """Wilson's interval where trials come in cells (successes, trials) that fail together.

    The design effect is the variance of the ratio estimator over cells divided by that of independent trials, at least 1.
    """
    cells = [cell for cell in cells if cell[1]]
    successes, trials = sum(s for s, _ in cells), sum(n for _, n in cells)
    if len(cells) < 2 or successes in (0, trials):
        return wilson(successes, trials)
    part = successes / trials
    between = sum((s - n * part) ** 2 for s, n in cells) * len(cells) / (len(cells) - 1) / trials**2
    return wilson(successes, trials, max(1.0, between / (part * (1 - part) / trials)))
