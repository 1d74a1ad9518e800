"""A guide to the kinds that PureSwitch's words choose: at likely heights their upper bits nearly always say which.

To compare a word with the five integers of its height takes three times as long as to look the answer up, and one
step must wait for the other, since it decides the height. Made by numpy: a stream does not need numba.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from whenmask.kernels.kinds import CHANGES

# What stands where the upper bits do not say, or a choice leads to a height that the guide does not have.
ASK = np.uint8(255)
# How many heights a guide may have. Together with the cells of each it must fit the first-level cache.
ROWS = (32, 64, 128, 256)
# The least part of all steps that should find their height in the guide.
COVERED = 0.999
# Into how many cells words are divided at least, and how many cells times heights there are if that allows more.
# More of them leave less to ask, but need more of the cache.
FEWEST_CELLS, PLACES = 64, 1 << 12


class Guide(NamedTuple):
    """The kind for each cell of words, and within that for each height from `low` on.

    Attributes:
        stacked: The integers that words are compared with in the end, see `heights.Table`.
        kinds: The kind, or ASK.
        nexts: The height after it, less `low`.
        low: The least height here.
        rows: How many heights there are.
        shift: The cell of a word is what remains of it without so many lower bits.
    """

    stacked: NDArray[np.uint64]
    kinds: NDArray[np.uint8]
    nexts: NDArray[np.uint8]
    low: int
    rows: int
    shift: int

    @classmethod
    def of(cls, stacked: NDArray[np.uint64], stationary: NDArray[np.float64]) -> Self:
        """Return the guide.

        Args:
            stacked: The integers of all heights.
            stationary: How likely each height is.
        """
        low, rows = _band(stationary)
        cells = max(FEWEST_CELLS, PLACES // rows)
        shift = 64 - (cells - 1).bit_length()
        first = (np.arange(cells, dtype=np.uint64) << np.uint64(shift))[:, None, None]
        last = first + np.uint64((1 << shift) - 1)
        limits = stacked[0, low : low + rows]
        least, most = (first > limits).sum(axis=2), (last >= limits).sum(axis=2)
        kinds = np.full((cells, rows), ASK)
        nexts = np.zeros((cells, rows), dtype=np.uint8)
        after = np.arange(len(limits)) + CHANGES[least]
        known = (least == most) & (after >= 0) & (after < rows)
        kinds[:, : len(limits)][known] = least[known]
        nexts[:, : len(limits)][known] = after[known]
        return cls(stacked, kinds.ravel(), nexts.ravel(), low, rows, shift)


def _band(stationary: NDArray[np.float64]) -> tuple[int, int]:
    """Return the least height of a guide, and how many there are: those most likely, and no more than needed."""
    total = np.concatenate([[0.0], np.cumsum(stationary)])
    for rows in ROWS:
        masses = total[min(rows, stationary.size) :] - total[: max(1, total.size - rows)]
        if masses.max() >= COVERED or rows == ROWS[-1]:
            break
    return int(masses.argmax()), rows
