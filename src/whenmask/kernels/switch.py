"""Switching: words to offsets, offsets to exchanges."""

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int64]


@njit(cache=True)
def offsets(words: Words, stay: np.uint64, unit: np.uint64) -> Indices:
    """Turn words into offsets: 0 below `stay`, then 1, 2, … in steps of `unit`.

    The quotient comes from a multiplication by the float reciprocal, which is at most one off, and is then put
    right with integers: exact, and several times faster than the division it stands for.
    """
    out = np.empty(words.size, np.int64)
    reciprocal = 1.0 / np.float64(unit)
    one = np.uint64(1)
    for i in range(words.size):
        word = words[i]
        beyond = word - stay if word >= stay else np.uint64(0)
        quotient = np.uint64(np.float64(beyond) * reciprocal)
        product = quotient * unit
        if product > beyond:
            quotient -= one
        elif beyond - product >= unit:
            quotient += one
        out[i] = np.int64(quotient) + 1 if word >= stay else 0
    return out


@njit(cache=True)
def switch(work: Indices, offset: Indices, first: int, reach: int) -> None:
    """Switch the contents of slots i and i + offset, for each slot i that has an offset, in place.

    `work[i]` is the source of slot first + i. A value that has already waited b slots may wait for at most
    reach − b more: a longer offset counts as 0 (StaSwitch). A reach of −1 means no limit (RanSwitch).
    """
    for i in range(offset.size):
        step = offset[i]
        if reach >= 0 and step > reach - (first + i - work[i]):
            step = 0
        moved = work[i + step]
        work[i + step] = work[i]
        work[i] = moved
