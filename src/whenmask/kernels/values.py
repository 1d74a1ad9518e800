"""Piecewise: two words and an input to an output."""

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int64]


@njit(cache=True)
def piecewise(words: Words, codes: Indices, high: np.uint64, width: np.uint64, steps: np.uint64) -> Indices:
    """Turn inputs into outputs, two words each: the first chooses near or far, the second the place there.

    The place is the high half of the product of the word and the number of places, taken in two halves because no
    integer here has 128 bits; the number of places is at most 2^32. Far places are counted past the near ones.
    """
    out = np.empty(codes.size, np.int64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    for i in range(codes.size):
        start = np.uint64(codes[i])
        near = words[2 * i] < high
        places = width if near else steps
        word = words[2 * i + 1]
        place = ((word >> half) * places + ((word & low) * places >> half)) >> half
        if near:
            place += start
        elif place >= start:
            place += width
        out[i] = place
    return out
