"""Probabilities of the few distributions that detectors compare with, by special functions.

scipy.stats has them all, but to import it takes longer than to solve a small case. scipy.special takes a fraction of that, still a
third of what `whodisk solve` imports: whoever asks for no probability does not wait for it, and who will need it lets it come meanwhile (`ahead`).
"""

from __future__ import annotations

import importlib
import threading

import numpy as np
import numpy.typing as npt


def ahead() -> threading.Thread:
    """Begins to import what these functions need, beside what the caller does next: queries leave Python alone, and often half of the CPUs.

    To be joined before anything else of SciPy is imported: two threads that import parts of each other get halves of them.
    """
    coming = threading.Thread(target=importlib.import_module, args=("scipy.special",))
    coming.start()
    return coming


def at_least(count: float, trials: float, chance: float) -> float:
    """Probability of `count` or more hits in `trials` independent trials of the same `chance` (0 to 1).

    The binomial tail as a regularized incomplete beta function (Abramowitz and Stegun, 26.5.24).
    """
    if count <= 0:
        return 1.0
    if count > trials:
        return 0.0
    from scipy import special

    return float(special.betainc(count, trials - count + 1, chance))


def chi_squared_quantile(probability: float, degrees: float) -> float:
    """Value below which a chi-squared variable with `degrees` degrees of freedom stays with `probability`; 0 for 0 degrees."""
    from scipy import special

    return 2.0 * float(special.gammaincinv(degrees / 2, probability)) if degrees > 0 else 0.0


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Value below which a beta variable with the shapes `a` and `b` (both over 0) stays with `probability`."""
    from scipy import special

    return float(special.betaincinv(a, b, probability))


def beta_at_most(values: npt.NDArray[np.float64], a: float, b: float) -> npt.NDArray[np.float64]:
    """Probability that a beta variable with the shapes `a` and `b` (0: always below) stays below each value (0 to 1)."""
    from scipy import special

    return np.asarray(special.betainc(a, b, np.clip(values, 0.0, 1.0)), np.float64)


def normal_above(value: float) -> float:
    """Probability that a standard normal variable exceeds `value`."""
    from scipy import special

    return float(special.ndtr(-value))


def student_above(value: float, degrees: float) -> float:
    """Probability that Student's t with `degrees` degrees of freedom exceeds `value`."""
    from scipy import special

    return float(special.stdtr(degrees, -value))


def mean_above_zero(values: npt.NDArray[np.float64]) -> float:
    """Probability of so large a mean, were the true mean 0 (Student's t test, one-sided); 1 for fewer than two values."""
    count = len(values)
    if count < 2:
        return 1.0
    error = float(values.std(ddof=1)) / count**0.5
    mean = float(values.mean())
    if error == 0.0:
        return 0.0 if mean > 0 else 1.0
    return student_above(mean / error, count - 1)


def student_quantile(probability: float, degrees: float) -> float:
    """Value below which Student's t with `degrees` degrees of freedom (over 0) stays with `probability`."""
    from scipy import special

    return float(special.stdtrit(degrees, probability))


def wilson_low(successes: int, trials: int) -> float:
    """Lower bound of Wilson's 95 % interval (two-sided) of a proportion; `trials` >= 1."""
    z = 1.959964
    part = successes / trials
    middle = part + z * z / (2 * trials)
    half = z * float(np.sqrt(part * (1 - part) / trials + z * z / (4 * trials * trials)))
    return max(0.0, (middle - half) / (1 + z * z / trials))
