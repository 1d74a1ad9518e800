"""PureSwitch: words to choices, and choices to paths that are joined, begun and closed.

A step reads two words: one chooses the kind, against the stacked integers of its height, the other the path or
the pair of paths. Each is the upper half of an integer of 128 bits, so that no choice of a kind is more likely
than another by more than the number of choices over 2^128. The lower half, a spare word, decides only when the
upper one leaves it open, which hardly ever happens; but only so the law is the one accounted for.

Path b has the open slot paths[0, b] and the outstanding value paths[1, b]. The order of the paths is part of the
release: a new path goes to the end, and the last one takes the place of one that is closed or joined to another.
"""

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whenmask.kernels.kinds import CLOSE, FILL, MERGE, NEW, OPEN, STAY, TAKE
from whenmask.kernels.switch import Flags, settle

Words: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int64]

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


@njit(cache=True)
def advance(words: Words, spares: Words, stacked: Words, paths: Indices, work: Indices, place: Indices) -> None:
    """Take a step for every two words, in place.

    `place` holds the height, the step to come, and the slot that `work` begins with. `work` gets the sources of
    the slots, OPEN where a slot waits. Without `spares`, it stops before a step that needs its spare words.
    """
    h, t, base = place
    opens, values = paths[0], paths[1]
    for i in range(words.size // 2):
        one, two = words[np.uint64(2 * i)], words[np.uint64(2 * i + 1)]
        # Indices without a sign spare the question whether they count from the end.
        height, slot = np.uint64(h), np.uint64(t - base)
        kind, tied = choose_kind(one, stacked, height)
        if tied:
            if not spares.size:
                break
            kind = settle_kind(one, spares[2 * i], stacked, height)
        if kind == NEW:
            work[slot] = OPEN
            opens[height] = values[height] = t
            h += 1
        elif kind == STAY:
            work[slot] = t
        else:
            b, c, sure = choose_paths(two, height, kind)
            if not sure:
                if not spares.size:
                    break
                b, c = settle_paths(two, spares[2 * i + 1], h, kind)
            if kind == FILL:
                work[slot] = OPEN
                work[np.uint64(opens[b] - base)] = t
                opens[b] = t
            elif kind == TAKE:
                work[slot] = values[b]
                values[b] = t
            else:
                h -= 1
                last = np.uint64(h)
                work[np.uint64(opens[b] - base)] = t
                work[slot] = values[c]
                values[c] = values[b]
                opens[b] = opens[last]
                values[b] = values[last]
        t += 1
    place[0] = h
    place[1] = t


@njit(cache=True)
def first_open(work: Indices, start: int, stop: int) -> int:
    """Return the first index from `start` on that holds OPEN, or `stop`."""
    while start < stop and work[start] != OPEN:
        start += 1
    return start


@njit(cache=True)
def pure_series(words: Words, series: Indices, stacked: Words, work: Indices, out: Indices) -> Flags:
    """Draw whole series; say which of them are done, rather than in need of more steps or of spare words.

    Args:
        words: For all steps of one series after the other.
        series: For each series a column: how many steps it has, how many values, and where in `out` it starts.
        stacked: The integers of each height.
        work: Room for the most steps.
        out: Where the sources go.
    """
    done = np.zeros(series.shape[1], np.bool_)
    paths = np.empty((2, stacked.shape[1]), np.int64)
    begin = 0
    for s in range(done.size):
        steps, length, start = series[:, s]
        place = np.zeros(3, np.int64)
        advance(words[2 * begin : 2 * (begin + steps)], words[:0], stacked, paths, work, place)
        stop = first_open(work, 0, place[1])
        done[s] = settle(work[:stop], length, out[start : start + length])
        begin += steps
    return done


@njit(cache=True)
def rehearse(words: Words, spares: Words, stacked: Words, prefixes: Indices) -> None:
    """Fill each row with the first steps of a plan of its own."""
    trials, steps = prefixes.shape
    paths = np.empty((2, stacked.shape[1]), np.int64)
    for i in range(trials):
        place = np.zeros(3, np.int64)
        start, stop = 2 * steps * i, 2 * steps * (i + 1)
        advance(words[start:stop], spares[start:stop], stacked, paths, prefixes[i], place)


@njit(cache=True)
def weigh(prefix: Indices, slots: Indices, ends: Indices, logs: NDArray[np.float64]) -> float:
    """Return the log-probability of the first steps of a plan, −∞ where it is impossible.

    Args:
        prefix: For each slot its source if that is a value before the end, any negative number otherwise.
        slots: For each value the slot that it goes to, a negative number if it is later than the end.
        ends: Room for, at each open slot, the outstanding value of its path; and the other way round.
        logs: For each kind and height the log-probability of one choice of that kind.
    """
    height, total = 0, 0.0
    last, start = ends
    for t in range(prefix.size):
        source, slot = prefix[t], slots[t]
        fills, takes = 0 <= slot < t, 0 <= source < t
        if source == t:
            kind = STAY
        elif not fills and not takes:
            kind = NEW
            last[t] = start[t] = t
        elif not takes:
            kind = FILL
            last[t] = last[slot]
            start[last[t]] = t
        elif not fills:
            kind = TAKE
            start[t] = start[source]
            last[start[t]] = t
        else:
            kind = CLOSE if last[slot] == source else MERGE
            value, first = last[slot], start[source]
            last[first] = value
            start[value] = first
        if height >= logs.shape[1]:
            return -np.inf
        total += logs[kind, height]
        height += (kind == NEW) - (kind in (CLOSE, MERGE))
    return total


@njit(cache=True)
def weigh_all(prefixes: Indices, logs: NDArray[np.float64], totals: NDArray[np.float64]) -> None:
    """Put the log-probability of each row into `totals`."""
    trials, steps = prefixes.shape
    ends = np.empty((2, steps), np.int64)
    slots = np.empty(steps, np.int64)
    for i in range(trials):
        slots[:] = OPEN
        sound = True
        for slot in range(steps):
            source = prefixes[i, slot]
            if source >= 0:
                sound = sound and source < steps and slots[source] == OPEN
                if sound:
                    slots[source] = slot
        totals[i] = weigh(prefixes[i], slots, ends, logs) if sound else -np.inf
