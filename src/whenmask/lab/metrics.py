"""The measures of the evaluation, each one a few lines: so that they can be checked by hand."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]


def moving_averages(values: Numbers, length: int) -> Numbers:
    """Return the mean of each `length` values in a row.

    Example:
        >>> moving_averages(np.array([1.0, 3.0, 5.0, 1.0]), 2).tolist()
        [2.0, 4.0, 3.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    averages: Numbers = (sums[length:] - sums[:-length]) / length
    return averages


def paper_error(one: Numbers, other: Numbers) -> float:
    """Return what the paper calls the mean square error: the root of the sum of squares, divided by n.

    The division stands outside the root, so it falls with the length of the series.

    Example:
        >>> paper_error(np.zeros(2), np.array([3.0, 4.0]))
        2.5
    """
    return float(np.sqrt(np.sum((one - other) ** 2)) / one.size)


def root_mean_square(one: Numbers, other: Numbers) -> float:
    """Return the ordinary root mean square error.

    Example:
        >>> root_mean_square(np.zeros(2), np.array([1.0, 7.0]))
        5.0
    """
    return float(np.sqrt(np.mean((one - other) ** 2)))


def running_counts(ups: NDArray[np.bool_]) -> Numbers:
    """Return how many have been up so far."""
    return np.cumsum(ups).astype(np.float64)


def corrected_counts(counts: Numbers, keep: float) -> Numbers:
    """Return unbiased estimates from running counts of bits that were kept with probability `keep`.

    Example:
        >>> corrected_counts(np.array([1.0, 1.0, 2.0]), 0.75).tolist()
        [1.5, 1.0, 2.5]
    """
    seen = np.arange(1, counts.size + 1)
    corrected: Numbers = (counts - seen * (1 - keep)) / (2 * keep - 1)
    return corrected


def carried_forward(source: Indices) -> Indices:
    """Return the sources with each empty slot taking the last one before it; those before all take the first.

    Example:
        >>> carried_forward(np.array([-1, 0, -1, -1, 3])).tolist()
        [0, 0, 0, 0, 3]
    """
    filled = np.flatnonzero(source >= 0)
    if filled.size == 0:
        return np.zeros_like(source)
    last = np.searchsorted(filled, np.arange(source.size), side="right") - 1
    carried: Indices = source[filled[np.maximum(last, 0)]]
    return carried


def recall(found: Indices, wanted: Indices, tolerance: int) -> float:
    """Return the share of the places wanted that have one found within the tolerance.

    Example:
        >>> recall(np.array([10, 52]), np.array([12, 40, 55]), 3)
        0.6666666666666666
    """
    near = np.abs(wanted[:, None] - found[None, :]) <= tolerance
    return float(near.any(axis=1).mean())
