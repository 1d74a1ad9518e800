"""Switching: words to offsets, offsets to exchanges."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
Halves: TypeAlias = NDArray[np.uint32]
Steps: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.int64]
Logs: TypeAlias = NDArray[np.float64]

# Steps whose offsets are worked out at a time: they stay in the first-level cache.
BLOCK = 512
# From this reach on a step too long is masked, not branched on: a branch is often guessed wrongly, but without it
# the place of each exchange waits for the one before, if that is likely to be close by.
WIDE = 512
LOWER = np.uint64(0xFFFFFFFF)


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
def lay(work: Indices, first: int) -> None:
    """Put its own value into each slot; slot 0 of `work` is slot `first`."""
    for i in range(work.size):
        work[i] = first + i


class Law(NamedTuple):
    """What words are compared with, in units of 2^-64, and the same for upper halves of words.

    A half h stands for the words from h·2^32 on, so that (h·cell − start) / 2^bits is how many units the first of
    them is beyond staying; but for the rounding of `cell` and `start` to whole numbers, see `choose`.
    """

    stay: np.uint64
    unit: np.uint64
    cell: int
    start: int
    bits: int

    @classmethod
    def of(cls, stay: int, unit: int) -> "Law":
        """Return the law; `bits` is the most with which every h·cell − start has 64 bits and a sign."""
        # A unit of 1 leaves no such bits: then 0 makes every half uncertain.
        bits = max(0, unit.bit_length() - 2)
        cell, start = ((1 << (32 + bits)) // unit, (stay << bits) // unit) if unit > 1 else (0, 0)
        return cls(np.uint64(stay), np.uint64(unit), cell, start, bits)


@njit(cache=True)
def choose(halves: Halves, law: Law, out: Steps) -> bool:
    """Turn upper halves of words into offsets; say whether all are certain, whatever the lower halves are.

    Let x = h·cell − start. In the same measure, the exact place of a word of half h is above x − 1, and below
    x + 2^32 + cell + 1: `cell` is less than 1 too small, and h of them less than 2^32; the lower half adds less
    than cell + 1; `start` is less than 1 too small. The offset is certain if no whole unit is in between.
    """
    cell, start, bits = np.uint64(law.cell) & LOWER, np.int64(law.start), np.int64(law.bits)
    fraction = (np.int64(1) << bits) - np.int64(1)
    doubt = np.int64(cell) + np.int64(4294967297)
    uncertain = np.int64(0)
    for i in range(out.size):
        x = np.int64(np.uint64(halves[i]) * cell) - start
        rest = x & fraction
        uncertain |= np.int64(((rest == 0) | (rest > fraction - doubt)) & (x >= -doubt))
        out[i] = np.int32((x >> bits) + np.int64(1) if x >= 0 else np.int64(0))
    return bool(uncertain == 0)


@njit(cache=True)
def choose_exactly(halves: Halves, spares: Halves, law: Law, out: Steps) -> None:
    """Turn words, each given as two halves, into offsets."""
    for i in range(out.size):
        word = (np.uint64(halves[i]) << np.uint64(32)) | np.uint64(spares[i])
        out[i] = np.int32((word - law.stay) // law.unit) + np.int32(1) if word >= law.stay else np.int32(0)


@njit(cache=True)
def exchange(work: Indices, offset: Steps, first: int, reach: int) -> None:
    """Switch the contents of slots i and i + offset, for each slot i that has an offset, in place.

    `work[i]` is the source of slot first + i. A value that has already waited b slots may wait for at most
    reach − b more: a longer offset counts as 0 (StaSwitch). A reach of −1 means no limit (RanSwitch).
    """
    # Indices without a sign spare the question whether they count from the end.
    if reach < 0:
        for i in range(offset.size):
            here = np.uint64(i)
            there = here + np.uint64(offset[i])
            moved = work[there]
            work[there] = work[here]
            work[here] = moved
    elif reach < WIDE:
        for i in range(offset.size):
            here = np.uint64(i)
            source = work[here]
            if np.int64(offset[i]) <= reach - first - i + source:
                there = here + np.uint64(offset[i])
                moved = work[there]
                work[there] = source
                work[here] = moved
    else:
        for i in range(offset.size):
            here = np.uint64(i)
            source = work[here]
            step = np.int64(offset[i])
            # −1 where the step is too long, else 0. By 63 bits the compiler would see a sign and make it a branch.
            beyond = (reach - first - i + source - step) >> 62
            there = here + np.uint64(step & ~beyond)
            moved = work[there]
            work[there] = source
            work[here] = moved


@njit(cache=True)
def switch(halves: Halves, spares: Halves, work: Indices, law: Law, first: int, reach: int) -> int:
    """Take a step for each half of a word, in place; return how many were taken.

    Without `spares`, the lower halves of the words, it goes no further than to a stretch that needs them.
    """
    room = np.empty(min(BLOCK, halves.size), np.int32)
    for start in range(0, halves.size, BLOCK):
        stop = min(start + BLOCK, halves.size)
        offset = room[: stop - start]
        if not choose(halves[start:stop], law, offset):
            if not spares.size:
                return start
            choose_exactly(halves[start:stop], spares[start:stop], law, offset)
        exchange(work[start:], offset, first + start, reach)
    return halves.size


@njit(cache=True)
def switch_series(halves: Halves, series: Indices, law: Law, reach: int, work: Indices, out: Indices) -> Flags:
    """Draw whole series; say which of them are done, rather than in need of more steps or of lower halves.

    Args:
        halves: For all steps of one series after the other.
        series: For each series a column: how many steps it has, how many values, and where in `out` it starts.
        law: What halves are compared with.
        reach: See `exchange`.
        work: Room for the most steps and window − 1 more.
        out: Where the sources go.
    """
    done = np.zeros(series.shape[1], np.bool_)
    begin = 0
    for s in range(done.size):
        steps, length, start = series[:, s]
        lay(work, 0)
        taken = switch(halves[begin : begin + steps], halves[:0], work, law, 0, reach)
        done[s] = settle(work[:taken], length, out[start : start + length])
        begin += steps
    return done


@njit(cache=True)
def settle(decided: Indices, length: int, out: Indices) -> bool:
    """Leave placeholders out: put sources below `length` into `out`; say whether all of them were there."""
    filled = 0
    for source in decided:
        if source < length:
            out[filled] = source
            filled += 1
            if filled == length:
                break
    return filled == length


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
