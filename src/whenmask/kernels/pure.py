"""PureSwitch: choices to paths that are joined, begun and closed.

Path b has the open slot paths[0, b] and the outstanding value paths[1, b]. The order of the paths is part of the
release: a new path goes to the end, and the last one takes the place of one that is closed or joined to another.
The last column of `paths` is no path: its value is OPEN.

Which of six kinds a step is cannot be guessed, so a branch on it costs more than everything else. A block of
steps therefore goes through three loops without one: the first follows the height and lists what moves, the
second, which the compiler can do several steps at a time, turns kinds and words into places, and the third reads
and writes those places, the same for every kind; what a kind does not need goes where it does no harm.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whenmask.kernels.choices import (
    ALL,
    ONE,
    Words,
    choose_kind,
    choose_paths,
    scale,
    settle_kind,
    settle_paths,
)
from whenmask.kernels.guide import ASK, Guide
from whenmask.kernels.kinds import CHANGES, CLOSE, FILL, MERGE, NEW, OPEN, STAY, TAKE
from whenmask.kernels.switch import Flags, settle

Indices: TypeAlias = NDArray[np.int64]

# Steps that go through the loops at a time: with all that is known of them they stay in the first-level cache.
BLOCK = 192
# One more than a block, since the first loop writes before it knows, and what keeps rows apart.
ROW = BLOCK + 16
# Rows of `Moves.heads`: the number of the step in the block, its kind, and how many paths there are before it.
STEP, KIND, FREE = (np.uint64(row * ROW) for row in range(3))
# Rows of `Moves.places`: that of the open slot that is filled, of the outstanding value that is taken and of the
# one put in its stead, of the value that ends a path, and of the path that comes in the stead of one.
FILLED, TAKEN, PASSED, ENDED, LAST = (np.uint64(row * ROW) for row in range(5))


class Moves(NamedTuple):
    """The steps of a block that move a value. Rows of one array need one register, and arrays of their own five.

    Attributes:
        words: The words that choose the paths of each.
        heads: What they are, see `STEP` and the others.
        places: Which paths they read and write, see `FILLED` and the others.
    """

    words: Words
    heads: NDArray[np.int32]
    places: NDArray[np.int32]


@njit(cache=True)
def room() -> Moves:
    """Return room for the moves of a block."""
    return Moves(np.empty(ROW, np.uint64), np.empty(3 * ROW, np.int32), np.empty(5 * ROW, np.int32))


@njit(cache=True, inline="always")
def list_moves(words: Words, begin: int, steps: int, guide: Guide, height: int, moves: Moves) -> tuple[int, int]:
    """List which of the steps from `begin` on move a value; return the height after all, and how many they are.

    The number is −1 where a spare word may decide.
    """
    heads, rows, shift = moves.heads, np.uint64(guide.rows), np.uint64(guide.shift)
    # Below 0 is far above `rows` without a sign.
    row = np.uint64(np.int64(height - guide.low))
    count = np.uint64(0)
    for i in range(steps):
        place = np.uint64(2 * (begin + i))
        word, before = words[place], guide.low + np.int64(row)
        kind, cell = ASK, (word >> shift) * rows + row
        if row < rows:
            kind = guide.kinds[cell]
        if kind == ASK:
            chosen, tied = choose_kind(word, guide.stacked, np.uint64(before))
            if tied:
                return height, -1
            kind = np.uint8(chosen)
            row = np.uint64(np.int64(row) + CHANGES[chosen])
        else:
            row = np.uint64(guide.nexts[cell])
        heads[count + STEP] = i
        heads[count + KIND] = kind
        heads[count + FREE] = before
        moves.words[count] = words[place + ONE]
        count += np.uint64(kind != STAY)
    return int(guide.low + np.int64(row)), int(count)


@njit(cache=True, inline="always")
def place_moves(moves: Moves, count: int, nothing: int) -> bool:
    """Choose the paths of all moves, and with them the places; say whether no spare word can change them.

    Places are those of the paths before the move, and of a free one behind them, which holds what has just
    arrived; `nothing` is the place of the value OPEN.
    """
    heads, places, sure = moves.heads, moves.places, True
    for i in range(count):
        j = np.uint64(i)
        kind, free = heads[j + KIND], heads[j + FREE]
        height = np.uint64(free)
        upper, rest = scale(moves.words[j], height)
        digit, further = scale(rest, height - ONE)
        b, c = np.int32(upper), np.int32(digit + np.uint64(digit >= upper))
        merge, fill, take = kind == MERGE, kind == FILL, kind == TAKE
        join = merge | (kind == CLOSE)
        # The second is only meant for pairs, but then the same for all kinds.
        sure &= bool((rest <= ALL - height) & ((further <= ALL - height * height) | (not merge)))
        taken = c if merge else (b if take | join else np.int32(nothing))
        places[j + FILLED] = b if fill | join else free
        places[j + TAKEN] = taken
        places[j + PASSED] = b if merge else taken
        places[j + ENDED] = b if take | join else free
        places[j + LAST] = free - np.int32(1) if join else free
    return sure


@njit(cache=True, inline="always")
def make_moves(moves: Moves, count: int, opens: Indices, values: Indices, work: Indices, place: Indices) -> None:
    """Make all moves of the block that begins with the step to come.

    A slot that was not to be filled is that of the step itself, which is written to once more right after. Where
    no value is taken the slot gets OPEN, and OPEN gets OPEN. Where no path ends, what has just arrived comes in
    the stead of the slot or the value, or of itself.
    """
    heads, places = moves.heads, moves.places
    _, first, base = place
    for i in range(count):
        j = np.uint64(i)
        t = first + np.int64(heads[j + STEP])
        free, filled = np.uint64(heads[j + FREE]), np.uint64(places[j + FILLED])
        taken = np.uint64(places[j + TAKEN])
        opens[free] = t
        values[free] = t
        work[np.uint64(opens[filled] - base)] = t
        work[np.uint64(t - base)] = values[taken]
        values[taken] = values[np.uint64(places[j + PASSED])]
        last = np.uint64(places[j + LAST])
        values[np.uint64(places[j + ENDED])] = values[last]
        opens[filled] = opens[last]


@njit(cache=True)
def advance(words: Words, spares: Words, guide: Guide, paths: Indices, work: Indices, place: Indices) -> None:
    """Take a step for every two words, in place.

    `place` holds the height, the step to come, and the slot that `work` begins with. `work` gets the sources of
    the slots, OPEN where a slot waits. Without `spares`, it stops before a step that needs its spare words.
    """
    opens, values = paths
    nothing = opens.size - 1
    values[nothing] = OPEN
    moves = room()
    for begin in range(0, words.size // 2, BLOCK):
        height, first, base = place
        steps = min(BLOCK, words.size // 2 - begin)
        reached, count = list_moves(words, begin, steps, guide, height, moves)
        if count >= 0 and place_moves(moves, count, nothing):
            # As `lay` does, but a slice costs two atomic operations.
            for t in range(first, first + steps):
                work[np.uint64(t - base)] = t
            make_moves(moves, count, opens, values, work, place)
            place[0], place[1] = reached, first + steps
        else:
            part = slice(2 * begin, 2 * (begin + steps))
            advance_one_by_one(words[part], spares[part], guide, paths, work, place)
            if place[1] < first + steps:
                break


@njit(cache=True)
def advance_one_by_one(
    words: Words, spares: Words, guide: Guide, paths: Indices, work: Indices, place: Indices
) -> None:
    """Do what `advance` does, whatever the words are, but with branches that cannot be guessed."""
    h, t, base = place
    stacked, opens, values = guide.stacked, paths[0], paths[1]
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
def first_open(paths: Indices, place: Indices) -> int:
    """Return the first slot that is open, or that of the step to come."""
    first: int = place[1]
    for b in range(place[0]):
        first = min(first, paths[0, b])
    return first


@njit(cache=True)
def pure_series(words: Words, series: Indices, guide: Guide, work: Indices, out: Indices) -> Flags:
    """Draw whole series; say which of them are done, rather than in need of more steps or of spare words.

    Args:
        words: For all steps of one series after the other.
        series: For each series a column: how many steps it has, how many values, and where in `out` it starts.
        guide: What words choose.
        work: Room for the most steps.
        out: Where the sources go.
    """
    done = np.zeros(series.shape[1], np.bool_)
    paths = np.empty((2, guide.stacked.shape[1] + 1), np.int64)
    begin = 0
    for s in range(done.size):
        steps, length, start = series[:, s]
        place = np.zeros(3, np.int64)
        advance(words[2 * begin : 2 * (begin + steps)], words[:0], guide, paths, work, place)
        stop = first_open(paths, place)
        done[s] = settle(work[:stop], length, out[start : start + length])
        begin += steps
    return done


@njit(cache=True)
def rehearse(words: Words, spares: Words, guide: Guide, prefixes: Indices) -> None:
    """Fill each row with the first steps of a plan of its own."""
    trials, steps = prefixes.shape
    paths = np.empty((2, guide.stacked.shape[1] + 1), np.int64)
    for i in range(trials):
        place = np.zeros(3, np.int64)
        start, stop = 2 * steps * i, 2 * steps * (i + 1)
        advance(words[start:stop], spares[start:stop], guide, paths, prefixes[i], place)


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
        height += CHANGES[kind]
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
