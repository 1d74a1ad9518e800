"""The two samplers of PureSwitch: paths that are begun, extended, joined and closed, many steps at a time or one.

A path has an open slot, which waits for a value from the future, and an outstanding value, which waits for a slot
(docs/guarantees.md, Lemma 1). A slot is decided when it and all slots before it are filled.
"""

from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whenmask.kernels.kinds import FILL, MERGE, NEW, OPEN, STAY, TAKE
from whenmask.keystream import SPARE, Keystream
from whenmask.mechanisms.heights import Table
from whenmask.sampler import checked_room

# Words that one step reads: one for the kind of choice, one for the paths. As many are spare: step t may need the
# words SPARE + 2t, for the kind, and SPARE + 2t + 1, for the paths.
STEP_WORDS = 2
# Placeholder values that a draw adds at a time at the end of a series, at first and at most.
TAIL, LONGEST_TAIL = 64, 1 << 15
# Steps whose words a walk reads ahead: few at first, since many walks are short, and ever more in a long one.
FIRST_AHEAD, MOST_AHEAD = 16, 512
# Slots that a walk keeps behind it before it drops them.
BEHIND = 1024
WORD = 64
LOWER = (1 << WORD) - 1
# A product's lower word up to here leaves nothing to the second word, for any number of choices below 2^44.
CLEAR = (1 << WORD) - (1 << 44)


class PureDraw:
    """The compiled form: a stretch of slots at a time, carrying over those that are not decided yet."""

    def __init__(self, table: Table, words: Keystream) -> None:
        # Here, not above: only a batch is worth numba's 0.4 s.
        from whenmask.kernels import pure

        self._kernels = pure
        self._words = words
        self._guide = table.guide
        # A column for each path, and one that is none.
        self._paths = np.empty((2, table.top + 2), dtype=np.int64)
        # The height, the step to come, and the slot that `_work` begins with.
        self._place = np.zeros(3, dtype=np.int64)
        self._work = np.empty(0, dtype=np.int64)
        # The slots of `_work` before this one are released.
        self._head = 0

    def push(self, count: int) -> NDArray[np.int64]:
        """Take `count` more values; return the sources of the slots that are decided now."""
        waiting = self._waiting()
        if self._head + waiting + count > self._work.size:
            # Twice what is needed, so that each slot is copied a bounded number of times.
            self._move(np.empty(2 * (waiting + count), dtype=np.int64))
        return self._release(count).copy()

    def push_into(self, count: int, room: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take `count` more values; put the sources of the slots that are decided now into `room`."""
        self._move(checked_room(room, self._waiting() + count))
        return self._release(count)

    def _waiting(self) -> int:
        """Return how many values have arrived that have no slot yet."""
        return int(self._place[1] - self._place[2]) - self._head

    def _move(self, room: NDArray[np.int64]) -> None:
        """Go on in other room, with the slots that wait at its beginning."""
        step, base = int(self._place[1]), int(self._place[2])
        waiting = self._work[self._head : step - base]
        room[: waiting.size] = waiting
        self._work = room
        self._place[2] = base + self._head
        self._head = 0

    def _release(self, count: int) -> NDArray[np.int64]:
        """Take `count` steps; return the sources of the slots that are decided then."""
        self._advance(int(self._place[1]), count)
        start = self._head
        self._head = self._kernels.first_open(self._paths, self._place) - int(self._place[2])
        return self._work[start : self._head]

    def _advance(self, step: int, count: int) -> None:
        """Take so many steps; read the spare words of a step only where they may decide."""
        words = self._words.words(STEP_WORDS * step, STEP_WORDS * count)
        spares = words[:0]
        while words.size:
            stop = words.size if not spares.size else STEP_WORDS
            self._kernels.advance(words[:stop], spares, self._guide, self._paths, self._work, self._place)
            taken = int(self._place[1]) - step
            words = words[STEP_WORDS * taken :]
            step += taken
            spares = words[:0] if taken else self._words.words(SPARE + STEP_WORDS * step, STEP_WORDS)

    def finish(self) -> NDArray[np.int64]:
        """Go on with placeholders until every value is out, then drop the placeholders and close up."""
        length = int(self._place[1])
        owed = length - int(self._place[2]) - self._head
        pieces = [np.empty(0, dtype=np.int64)]
        tail = TAIL
        while owed:
            piece = self.push(tail)
            pieces.append(piece[piece < length])
            owed -= pieces[-1].size
            tail = min(2 * tail, LONGEST_TAIL)
        return np.concatenate(pieces)


class PureWalk:
    """The plain form: one slot at a time."""

    memory: int | None = None

    def __init__(self, table: Table, words: Keystream) -> None:
        self._words = words
        self._stacked = table.stacked
        self._rows = table.rows
        self._arrived = 0
        self._opens: list[int] = []
        self._values: list[int] = []
        # The sources of the slots from `_base` on; those before `_head` are released.
        self._work: list[int] = []
        self._base = 0
        self._head = 0
        # The words for kinds and for paths of the next steps, the last one first.
        self._kinds: list[int] = []
        self._picks: list[int] = []
        self._reading = FIRST_AHEAD

    def push(self) -> list[int]:
        """Take one more value; return the sources of the slots that are decided now."""
        # Written for CPython: few attribute reads, few calls; this is the cost of a stream.
        if not self._kinds:
            self._read_ahead()
        t, work = self._arrived, self._work
        self._arrived = t + 1
        word, row = self._kinds.pop(), self._rows[len(self._opens)]
        kind = bisect_right(row, word) - 1
        if row[kind] == word:
            kind = self._exact_kind(t, word)
        pick = self._picks.pop()
        if kind == STAY:
            work.append(t)
        elif kind == NEW:
            work.append(OPEN)
            self._opens.append(t)
            self._values.append(t)
        else:
            self._join(kind, pick, t)
        head = self._head
        if work[head] == OPEN:
            return []
        return self._released(head)

    def _join(self, kind: int, pick: int, t: int) -> None:
        """Fill an open slot, take an outstanding value, or both."""
        opens, values, work = self._opens, self._values, self._work
        height = len(opens)
        ways = height * (height - 1) if kind == MERGE else height
        product = pick * ways
        if product & LOWER > CLEAR:
            product += self._spare(t, 1) * ways >> WORD
        b = c = product >> WORD
        if kind == TAKE:
            work.append(values[c])
            values[c] = t
            return
        if kind == MERGE:
            b, c = divmod(b, height - 1)
            c += c >= b
        work[opens[b] - self._base] = t
        if kind == FILL:
            work.append(OPEN)
            opens[b] = t
            return
        work.append(values[c])
        values[c] = values[b]
        last_open, last_value = opens.pop(), values.pop()
        if b < height - 1:
            opens[b], values[b] = last_open, last_value

    def _released(self, head: int) -> list[int]:
        """Return the sources from `head` up to the first open slot, and forget those that are long gone."""
        work = self._work
        try:
            end = work.index(OPEN, head)
        except ValueError:
            end = len(work)
        released = work[head:end]
        if end > BEHIND:
            del work[:end]
            self._base += end
            end = 0
        self._head = end
        return released

    def _read_ahead(self) -> None:
        """Read the words of the next steps, the last step first."""
        count, self._reading = self._reading, min(2 * self._reading, MOST_AHEAD)
        words = self._words.words(STEP_WORDS * self._arrived, STEP_WORDS * count).reshape(-1, STEP_WORDS)
        self._kinds = words[::-1, 0].tolist()
        self._picks = words[::-1, 1].tolist()

    def _spare(self, step: int, which: int) -> int:
        """Return a word that hardly ever matters."""
        return int(self._words.words(SPARE + STEP_WORDS * step + which, 1)[0])

    def _exact_kind(self, step: int, word: int) -> int:
        """Return the kind where the word is that of a threshold, so that the spare one decides."""
        height = len(self._opens)
        drawn = (word, self._spare(step, 0))
        upper, lower = (part[height].tolist() for part in self._stacked)
        return bisect_right(list(zip(upper, lower, strict=True)), drawn)

    def finish(self) -> list[int]:
        """Go on with placeholders until every value is out, then drop the placeholders and close up."""
        length = self._arrived
        owed = length - self._base - self._head
        released: list[int] = []
        while len(released) < owed:
            released += [source for source in self.push() if source < length]
        return released

    def state(self) -> tuple[int, list[int], list[int], list[int]]:
        """Return what `restore` needs."""
        return self._arrived, list(self._opens), list(self._values), self._work[self._head :]

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        self._arrived, opens, values, work = state
        self._opens, self._values, self._work = list(opens), list(values), list(work)
        self._base, self._head = self._arrived - len(work), 0
        self._kinds, self._picks = [], []
        self._reading = FIRST_AHEAD
