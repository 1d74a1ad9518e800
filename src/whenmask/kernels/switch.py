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
BLOCK = 1024
# From this probability of offset 0 on, in units of 2^-64, a list of the values that move pays off.
OFTEN = np.uint64(5 << 60)
LOWER = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


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

    Attributes:
        stay: Words below this stay.
        unit: How many words each other offset has.
        window: One more than the greatest offset.
        reach: How many slots a value may wait in all, −1 for no limit.
        cell: See below.
        start: See below.
        bits: See below.
        doubt: See `choose`.

    A half h stands for the words from h·2^32 on. How many units the first of them is beyond staying, times
    2^bits, is h·cell − start, but for the rounding of `cell` and `start` to whole numbers; see `choose`.
    """

    stay: np.uint64
    unit: np.uint64
    window: int
    reach: int
    cell: int
    start: int
    bits: int
    doubt: int

    @classmethod
    def of(cls, stay: int, unit: int, window: int, reach: int) -> "Law":
        """Return the law; `bits` is the most with which every h·cell − start has 64 bits and a sign."""
        # A unit of 1 leaves no such bits: then 0 makes every half uncertain.
        bits = max(0, unit.bit_length() - 2)
        cell, start = ((1 << (32 + bits)) // unit, (stay << bits) // unit) if unit > 1 else (0, 0)
        return cls(np.uint64(stay), np.uint64(unit), window, reach, cell, start, bits, (1 << 32) + cell + 1)


@njit(cache=True)
def choose(halves: Halves, law: Law, out: Steps) -> bool:
    """Turn upper halves of words into offsets; say whether all are certain, whatever the lower halves are.

    Let x = h·cell − start. In the same measure, the exact place of a word of half h is above x − 1, and below
    x + doubt, doubt = 2^32 + cell + 1: `cell` is less than 1 too small, and h of them less than 2^32; the lower
    half adds less than cell + 1; `start` is less than 1 too small. The offset is certain if no whole unit is
    from x to x + doubt, that is, if x + doubt is more than `doubt` beyond the last one; then it is one more than
    the units in x + doubt, or 0 if that is below 0.
    """
    cell, bits, doubt = np.uint64(law.cell) & LOWER, np.int64(law.bits), np.int64(law.doubt)
    unit = np.int64(1) << bits
    shift = unit + doubt - np.int64(law.start)
    # Numbers of 32 bits are faster. With fewer bits than these nothing is certain.
    further = np.int32(max(law.bits - 32, 0))
    uncertain = np.int64(0)
    for i in range(out.size):
        place = np.int64(np.uint64(halves[i]) * cell) + shift
        uncertain |= (place & (unit - 1)) - (doubt + 1)  # below 0 if uncertain
        out[i] = max(np.int32(place >> np.int64(32)) >> further, np.int32(0))
    return bool(uncertain >= 0)


@njit(cache=True)
def choose_exactly(halves: Halves, spares: Halves, law: Law, out: Steps) -> None:
    """Turn words, each given as two halves, into offsets."""
    for i in range(out.size):
        word = (np.uint64(halves[i]) << np.uint64(32)) | np.uint64(spares[i])
        out[i] = np.int32((word - law.stay) // law.unit) + np.int32(1) if word >= law.stay else np.int32(0)


@njit(cache=True)
def exchange(work: Indices, here: np.uint64, there: np.uint64) -> None:
    """Switch the contents of two slots (RanSwitch)."""
    moved = work[there]
    work[there] = work[here]
    work[here] = moved


@njit(cache=True)
def exchange_near(work: Indices, here: np.uint64, there: np.uint64, lag: int) -> None:
    """Switch the contents of two slots unless the source in the first is below `there` − `lag` (StaSwitch).

    A value that has already waited b slots may wait for at most reach − b more, and a longer offset counts as 0:
    where `work` begins with slot s, `lag` is reach − s. There is no branch, since it would often be guessed
    wrongly; and what is written depends on the source, not where: places that are known early let the processor
    go ahead.
    """
    source, moved = work[here], work[there]
    near = source >= np.int64(there) - lag
    work[there] = source if near else moved
    work[here] = moved if near else source


@njit(cache=True)
def step_all(work: Indices, offset: Steps, reach: int, lag: int) -> None:
    """Exchange each slot of `work` in turn with the one at its offset, as far as the reach allows."""
    # Indices without a sign spare the question whether they count from the end.
    if reach < 0:
        for i in range(offset.size):
            exchange(work, np.uint64(i), np.uint64(i) + np.uint64(offset[i]))
    else:
        for i in range(offset.size):
            exchange_near(work, np.uint64(i), np.uint64(i) + np.uint64(offset[i]), lag)


@njit(cache=True)
def step_some(work: Indices, offset: Steps, reach: int, lag: int, room: Words) -> None:
    """Do what `step_all` does, faster where many values stay: list the others first."""
    count = np.uint64(0)
    for i in range(offset.size):
        room[count] = (np.uint64(i) << HALF) | np.uint64(offset[i])
        count += np.uint64(offset[i] != 0)
    if reach < 0:
        for move in room[: np.int64(count)]:
            exchange(work, move >> HALF, (move >> HALF) + (move & LOWER))
    else:
        for move in room[: np.int64(count)]:
            exchange_near(work, move >> HALF, (move >> HALF) + (move & LOWER), lag)


@njit(cache=True)
def switch(halves: Halves, spares: Halves, work: Indices, law: Law, first: int) -> int:
    """Take a step for each half of a word, in place; return how many were taken.

    The step of a slot puts the value that arrives then, window − 1 slots later, into a slot of its own; the slots
    before have theirs. Without `spares`, the lower halves of the words, it goes no further than to a stretch
    that needs them.
    """
    later = law.window - 1
    room = np.empty(min(BLOCK, halves.size), np.int32)
    moves = np.empty(room.size + 1, np.uint64)
    for start in range(0, halves.size, BLOCK):
        stop = min(start + BLOCK, halves.size)
        offset = room[: stop - start]
        if not choose(halves[start:stop], law, offset):
            if not spares.size:
                return start
            choose_exactly(halves[start:stop], spares[start:stop], law, offset)
        lay(work[start + later : stop + later], first + start + later)
        lag = law.reach - first - start
        if law.stay < OFTEN:
            step_all(work[start:], offset, law.reach, lag)
        else:
            step_some(work[start:], offset, law.reach, lag, moves)
    return halves.size


@njit(cache=True)
def switch_series(halves: Halves, series: Indices, law: Law, work: Indices, out: Indices) -> Flags:
    """Draw whole series; say which of them are done, rather than in need of more steps or of lower halves.

    Args:
        halves: For all steps of one series after the other.
        series: For each series a column: how many steps it has, how many values, and where in `out` it starts.
        law: What halves are compared with.
        work: Room for the most steps and window − 1 more.
        out: Where the sources go.
    """
    done = np.zeros(series.shape[1], np.bool_)
    begin = 0
    for s in range(done.size):
        steps, length, start = series[:, s]
        lay(work[: law.window - 1], 0)
        taken = switch(halves[begin : begin + steps], halves[:0], work, law, 0)
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
