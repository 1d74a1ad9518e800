"""Dispatching: words or offsets to the slots that values are written to, and the probabilities of what came out.

The sources of the slots of a window stand in a ring: slot s at place s modulo the window, −1 while it is empty.
"""

import math
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whenmask.kernels.switch import Indices, Words

Floats: TypeAlias = NDArray[np.float64]


@njit(cache=True)
def threshold(
    words: Words, first: int, ring: Indices, empties: Indices, floor: int, limit: np.uint64
) -> tuple[Indices, Indices]:
    """Decide slots first, first + 1, …, one for each word; return their sources, and what is left of `empties`.

    A word chooses one of `count` empty slots by its product with `count`, shifted right by 64 bits (in two halves,
    so that nothing overflows), or writes to the slot of its own unless it is above `limit`.

    `empties` holds the places of the empty slots of the window, in an order that is part of the draw. A choice
    among them is one multiplication, and keeping the list is one assignment: when slot t goes, slot t + window
    comes, and both have the same place in the ring. So if slot t was still in the list, slot t + window is in
    the list already; if not, it takes over the entry of the slot that has just been written to. Only before the
    steady state can a slot leave the window empty: then the list loses the entry written to, to its last one.
    """
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    out = np.empty(words.size, np.int64)
    count = np.uint64(empties.size)
    least = np.uint64(floor)
    place = first % ring.size
    for i in range(words.size):
        word = words[i]
        own = ring[place]
        if own >= 0 or count > least:
            chosen = ((word >> half) * count + ((word & low) * count >> half)) >> half
            written = empties[chosen]
            ring[written] = first + i
            if own >= 0:
                empties[chosen] = place
            elif written == place:
                own = first + i
            else:
                count -= np.uint64(1)
                empties[chosen] = empties[count]
        elif word <= limit:
            own = first + i
        out[i] = own
        ring[place] = -1
        place += 1
        if place == ring.size:
            place = 0
    return out, empties[: np.int64(count)]


@njit(cache=True)
def forward(offset: Indices, first: int, ring: Indices) -> Indices:
    """Write each value to its offset, over what stands there; decide one slot for each, and change `ring`."""
    out = np.empty(offset.size, np.int64)
    size = ring.size
    place = first % size
    for i in range(offset.size):
        target = place + offset[i]
        ring[target - size if target >= size else target] = first + i
        out[i] = ring[place]
        ring[place] = -1
        place += 1
        if place == size:
            place = 0
    return out


@njit(cache=True)
def log_threshold(rows: Indices, window: int, floor: int, log_keep: float, log_miss: float) -> Floats:
    """Return the log-probability of each row of sources by replaying its steps.

    The last `window` − 1 columns are slots that have not been decided yet, filled or not.
    """
    trials, width = rows.shape
    steps = width - window + 1
    out = np.empty(trials)
    slots = np.empty(steps, np.int64)
    for trial in range(trials):
        row = rows[trial]
        total = 0.0 if _placed(row, window, slots) else -math.inf
        count = window
        for i in range(steps):
            if (row[i] >= 0 and row[i] < i) or count > floor:
                total += -math.log(count) if slots[i] >= 0 else -math.inf
                if row[i] < 0:
                    count -= 1
            elif slots[i] == i:
                total += log_keep
            else:
                total += log_miss if slots[i] < 0 else -math.inf
        out[trial] = total
    return out


@njit(cache=True)
def log_forward(rows: Indices, window: int, own: float, other: float) -> Floats:
    """Return the log-probability of each row of sources.

    A value that is there was written there. One that is not was written over, by a later value, or is still to
    come: beyond the row every slot of its window is possible. The choices of different values are independent.
    A slot with source v takes any write of the values within the window before v, so each slot adds one to a run
    of them; running sums of where the runs begin and end say how many slots each value may have gone to.
    """
    trials, steps = rows.shape
    out = np.empty(trials)
    slots = np.empty(steps, np.int64)
    begins = np.empty(steps + 1, np.int64)
    # Logarithms cost more than all the rest.
    log_own, log_others = math.log(own), np.full(window + 1, -math.inf)
    log_others[1:] = np.log(np.arange(1, window + 1) * other)
    for trial in range(trials):
        row = rows[trial]
        total = 0.0 if _placed(row, window, slots) else -math.inf
        begins[:] = 0
        for slot in range(steps):
            first = max(0, slot - window + 1)
            if row[slot] > first:
                begins[first] += 1
                begins[min(row[slot], steps)] -= 1
        hidden = 0
        for i in range(steps):
            hidden += begins[i]
            if slots[i] >= 0:
                total += log_own if slots[i] == i else log_others[1]
            else:
                # Its own slot is not among them: what stands there is earlier, or nothing.
                total += log_others[hidden + max(0, i + window - steps)]
        out[trial] = total
    return out


@njit(cache=True)
def _placed(row: Indices, window: int, slots: Indices) -> bool:
    """Set `slots` to the slot of each value, −1 if it has none; return whether dispatching can do that.

    Every slot in reach of the steps taken must be decided, and none beyond them may be decided to be empty.
    """
    steps = slots.size
    slots[:] = -1
    for slot in range(row.size):
        value = row[slot]
        if value < 0:
            if (value == -1) != (slot < steps):
                return False
        elif value >= steps or not 0 <= slot - value < window or slots[value] >= 0:
            return False
        else:
            slots[value] = slot
    return True
