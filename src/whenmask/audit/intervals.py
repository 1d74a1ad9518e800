"""Bounds that hold for every number of draws, none of them by approximation.

They are what turns draws into statements at a stated confidence. `level` is always the probability with which a
statement may be wrong; an interval spends half of it on each end.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]


def _special() -> Any:
    """Return SciPy's special functions, which take longer to import than all that a stream needs."""
    from scipy import special

    return special


def clopper_pearson(count: int, trials: int, level: float) -> Interval:
    """Return an interval for a probability, from how often the event came (Clopper and Pearson, 1934).

    Example:
        >>> low, high = clopper_pearson(8, 10, 0.05)
        >>> round(low, 4), round(high, 4)
        (0.4439, 0.9748)
    """
    special = _special()
    low = float(special.betaincinv(count, trials - count + 1, level / 2)) if count else 0.0
    high = float(special.betainccinv(count + 1, trials - count, level / 2)) if count < trials else 1.0
    return low, high


def empirical_bernstein(mean: float, variance: float, trials: int, level: float) -> Interval:
    """Return an interval for the mean of numbers in [0, 1] (Maurer and Pontil, 2009, Theorem 4).

    Args:
        mean: The mean of the numbers drawn.
        variance: Their variance, with divisor trials − 1.
        trials: How many were drawn.
        level: The probability with which the interval may be wrong.

    Example:
        >>> low, high = empirical_bernstein(0.5, 0.25, 10_000, 0.05)
        >>> round(low, 4), round(high, 4)
        (0.4842, 0.5158)
    """
    logarithm = math.log(4 / level)
    width = math.sqrt(2 * variance * logarithm / trials) + 7 * logarithm / (3 * (trials - 1))
    return max(0.0, mean - width), min(1.0, mean + width)


def surprise(observed: NDArray[np.float64], expected: NDArray[np.float64], variance: NDArray[np.float64]) -> float:
    """Return a bound for the probability that any of several counts is this far from its expectation.

    Each counts independent events of known probabilities; `variance` is Σ p(1 − p). By Bennett's inequality, on
    both sides, added up over the counts.
    """
    away = np.abs(observed - expected)
    # Below what sums of probabilities lose by rounding there is nothing to be surprised at.
    safe = np.maximum(variance, 1e-12)
    ratio = away / safe
    exponents = safe * (_special().xlog1py(1 + ratio, ratio) - ratio)
    return min(1.0, float(2 * away.size * np.exp(-exponents.max()))) if away.size else 1.0


def imbalance(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return a bound for the probability that any of several counts differs so much between two equal samples.

    Given their sum, each of the two counts is at most as spread as the heads of a fair coin.
    """
    both = first + second
    seen = both > 0
    if not seen.any():
        return 1.0
    tails = 2 * _special().bdtr(np.minimum(first, second)[seen].astype(np.float64), both[seen], 0.5)
    return min(1.0, float(tails.min() * tails.size))
