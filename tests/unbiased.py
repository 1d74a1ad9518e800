"""The test that every estimator is held to: is a mean what it should be, at one error level?"""

import math

import numpy as np
from scipy import stats

from tests.chisquare import ERROR_LEVEL

# A mean of many draws is further off than this many standard errors once in a million times.
FAR = float(stats.norm.isf(ERROR_LEVEL / 2))


def is_unbiased(draws, mean: float, deviation: float) -> bool:
    """Say whether the mean of independent draws with a known standard deviation is compatible with `mean`."""
    return abs(np.mean(draws) - mean) <= FAR * deviation / math.sqrt(np.size(draws))
