"""PureSwitch: words to choices.

A step reads two words: one chooses the kind, against the stacked integers of its height, the other the path or
the pair of paths. Each is the upper half of an integer of 128 bits, so that no choice of a kind is more likely
than another by more than the number of choices over 2^128. The lower half, a spare word, decides only when the
upper one leaves it open, which hardly ever happens; but only so the law is the one accounted for.
"""

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whenmask.kernels.kinds import MERGE, STAY

Words: TypeAlias = NDArray[np.uint64]

HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)


@njit(cache=True)
def wide(x: np.uint64, y: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the upper and the lower word of a product."""
    x1, x0, y1, y0 = x >> HALF, x & LOWER, y >> HALF, y & LOWER
    low = x0 * y0
    middle = x1 * y0 + (low >> HALF)
    crossed = x0 * y1 + (middle & LOWER)
    return x1 * y1 + (middle >> HALF) + (crossed >> HALF), ((crossed & LOWER) << HALF) | (low & LOWER)


@njit(cache=True)
def carried(fraction: np.uint64, word: np.uint64, ways: np.uint64) -> bool:
    """Say whether the second word, times the number of ways, carries into the result of the first."""
    return bool(fraction > ALL - ways and wide(word, ways)[0] > ALL - fraction)


@njit(cache=True)
def pick(first: np.uint64, second: np.uint64, height: int) -> np.int64:
    """Return ⌊z·height / 2^128⌋ for the integer z of two words."""
    ways = np.uint64(height)
    path, fraction = wide(first, ways)
    return np.int64(path) + np.int64(carried(fraction, second, ways))


@njit(cache=True)
def pick_pair(first: np.uint64, second: np.uint64, height: int) -> tuple[np.int64, np.int64]:
    """Return the two digits of ⌊z·h(h−1) / 2^128⌋ to the base h − 1, as an ordered pair of different paths."""
    ways = np.uint64(height)
    upper, rest = wide(first, ways)
    digit, fraction = wide(rest, ways - ONE)
    filled, taken = np.int64(upper), np.int64(digit)
    if carried(fraction, second, ways * (ways - ONE)):
        taken += np.int64(1)
        if taken == height - 1:
            filled, taken = filled + np.int64(1), np.int64(0)
    return filled, taken + np.int64(taken >= filled)


@njit(cache=True)
def choose_kind(word: np.uint64, stacked: Words, height: np.uint64) -> tuple[int, bool]:
    """Return how many of the stacked upper words are below, and whether a spare word matters."""
    kind, equal = 0, False
    for i in range(STAY):  # a fixed number, so that the loop is unrolled
        kind += word > stacked[0, height, i]
        equal |= word == stacked[0, height, i]
    return kind, equal


@njit(cache=True)
def settle_kind(first: np.uint64, second: np.uint64, stacked: Words, height: np.uint64) -> int:
    """Return how many of the stacked integers are not above the integer of two words."""
    kind = 0
    for i in range(STAY):
        upper, lower = stacked[0, height, i], stacked[1, height, i]
        kind += (first > upper) | ((first == upper) & (second >= lower))
    return kind


@njit(cache=True)
def scale(word: np.uint64, ways: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the upper and the lower word of a product with a number of at most 32 bits."""
    low = (word & LOWER) * ways
    middle = (word >> HALF) * ways + (low >> HALF)
    return middle >> HALF, ((middle & LOWER) << HALF) | (low & LOWER)


@njit(cache=True)
def choose_paths(word: np.uint64, height: np.uint64, kind: int) -> tuple[np.uint64, np.uint64, bool]:
    """Return the path to fill and the path to take from, and whether no spare word can change that."""
    b, rest = scale(word, height)
    if kind != MERGE:
        return b, b, bool(rest <= ALL - height)
    c, rest = scale(rest, height - ONE)
    return b, c + np.uint64(c >= b), bool(rest <= ALL - height * (height - ONE))


@njit(cache=True)
def settle_paths(first: np.uint64, second: np.uint64, height: int, kind: int) -> tuple[np.uint64, np.uint64]:
    """Return the same where the spare word, the second, may decide."""
    b = c = pick(first, second, height)
    if kind == MERGE:
        b, c = pick_pair(first, second, height)
    return np.uint64(b), np.uint64(c)
