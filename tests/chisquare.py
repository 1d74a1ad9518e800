"""The chi-square test that every law is held against, at one error level."""

import numpy as np
from scipy import stats

ERROR_LEVEL = 1e-6
# Cells are merged, from the rarest on, until each expects at least this many.
LEAST_EXPECTED = 10


def p_value(observed, probabilities) -> float:
    """Return the probability of counts at least this far from the law."""
    observed, expected = np.asarray(observed, float), np.asarray(probabilities) * np.sum(observed)
    order = np.argsort(expected)
    small = np.cumsum(expected[order]) < LEAST_EXPECTED
    cut = min(int(small.sum()) + 1, order.size - 1) if small.any() else 0
    merged = [order[:cut], *order[cut:, None]] if cut else list(order[:, None])
    statistic = sum((observed[cell].sum() - expected[cell].sum()) ** 2 / expected[cell].sum() for cell in merged)
    return float(stats.chi2.sf(statistic, len(merged) - 1))


def displacement_counts(source, law, spacing):
    """Return how often each displacement of a law occurs at slots far enough apart to be independent.

    The last cell counts what lies outside the law's support.
    """
    slots = np.arange(spacing, source.size - spacing, spacing)
    displaced = slots - source[slots]
    inside = (displaced >= law.displacements[0]) & (displaced <= law.displacements[-1])
    counts = np.bincount(displaced[inside] - law.displacements[0], minlength=law.displacements.size)
    return np.append(counts, (~inside).sum())
