"""Do pairs of windows, with and without a fault, differ? A rank test."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

#: Below so many pairs nothing is said (DESIGN 11).
PAIRS_MIN = 5
LEVEL = 0.05


def worse_chance(with_fault: Sequence[float], without: Sequence[float]) -> float:
    """Chance that pairs come out so much worse (larger) with the fault if it does nothing; exact, one-sided.

    Wilcoxon's signed ranks. Raises ValueError for fewer than `PAIRS_MIN` pairs or lists of different length.
    """
    if len(with_fault) != len(without) or len(without) < PAIRS_MIN:
        raise ValueError(
            f"expected {PAIRS_MIN} pairs or more, found {len(with_fault)} values with and {len(without)} without"
        )
    differences = [a - b for a, b in zip(with_fault, without, strict=True) if a != b]
    if not differences:
        return 1.0
    return float(stats.wilcoxon(differences, alternative="greater", method="exact").pvalue)


def differs(chances: Sequence[float]) -> bool:
    """Whether any of several figures of the same pairs differs: 5 % in all (Bonferroni)."""
    return min(chances) * len(chances) < LEVEL
