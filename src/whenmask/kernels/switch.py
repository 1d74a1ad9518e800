"""Switching: words to offsets, offsets to exchanges."""

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int64]
Logs: TypeAlias = NDArray[np.float64]


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


@njit(cache=True)
def log_probabilities(plans: Indices, reach: int, stays: Logs, leaves: float) -> Logs:
    """Return the log-probability of each row: the sources of the slots from 0 on, replayed switch by switch.

    `stays[b]` is the log-probability of offset 0 where the slot's content has waited b slots (the last one serves
    all longer waits), `leaves` that of any other offset that is allowed. A row determines its offsets, since the
    content of each slot is known when its turn comes.
    """
    rows, steps = plans.shape
    window = stays.size
    size = steps + window
    content = np.empty(size, np.int64)
    place = np.empty(size, np.int64)
    out = np.empty(rows, np.float64)
    for row in range(rows):
        for i in range(size):
            content[i] = i
            place[i] = i
        total = 0.0
        for t in range(steps):
            source = plans[row, t]
            offset = place[source] - t if 0 <= source < size else -1
            waited = t - content[t]
            if offset < 0 or offset >= window or (reach >= 0 and offset > 0 and offset + waited > reach):
                total = -np.inf
                break
            total += leaves if offset else stays[min(waited, window - 1)]
            moved = content[t]
            content[t + offset] = moved
            place[moved] = t + offset
            place[source] = -1
        out[row] = total
    return out
