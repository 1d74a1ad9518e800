"""What the dispatch mechanisms share: step t reads word t and decides slot t, so no value waits for another.

A mechanism keeps a ring: the sources of the slots of the window as far as they are written, slot s at place s
modulo the window. At the end of a series values that are on their way to slots beyond it are missing; that is
what the papers leave.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import whole_number
from whenmask.keystream import Context, Key, Keystream
from whenmask.law import Latency
from whenmask.mechanisms.temporal import Temporal

# Words that a walk reads ahead.
AHEAD = 256
# Names the series that an audit draws; no release has this run id by chance.
AUDIT_RUN = "dispatch prefixes"


class DispatchDraw(ABC):
    """The compiled form: a stretch of slots at a time."""

    def __init__(self, words: Keystream, window: int) -> None:
        self._words = words
        self._slot = 0
        self._ring = np.full(window, -1, dtype=np.int64)

    @abstractmethod
    def _decide(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the sources of the next slots, one for each word."""

    def push(self, count: int) -> NDArray[np.int64]:
        """Take `count` more values; return the sources of as many slots, −1 for an empty one."""
        sources = self._decide(self._words.words(self._slot, count))
        self._slot += count
        return sources

    def finish(self) -> NDArray[np.int64]:
        """End the series: every slot is decided already."""
        return np.empty(0, dtype=np.int64)

    def written(self) -> NDArray[np.int64]:
        """Return the sources of the next `window` − 1 slots as far as they are written, −1 for the others."""
        return np.roll(self._ring, -(self._slot % self._ring.size))[:-1]


class DispatchWalk(ABC):
    """The plain form: one slot at a time."""

    memory: int | None

    def __init__(self, words: Keystream, window: int) -> None:
        self.memory = window - 1
        self._words = words
        self._slot = 0
        self._ring = [-1] * window
        # The next words, the last one first.
        self._ahead: list[int] = []

    @abstractmethod
    def _decide(self, slot: int, word: int) -> int:
        """Return the source of the slot, −1 if it is empty."""

    def push(self) -> tuple[int]:
        """Take one more value; return the source of its slot, −1 if it is empty."""
        slot = self._slot
        if not self._ahead:
            self._ahead = self._words.words(slot, AHEAD)[::-1].tolist()
        source = self._decide(slot, self._ahead.pop())
        self._slot = slot + 1
        return (source,)

    def finish(self) -> tuple[()]:
        """End the series: every slot is decided already."""
        return ()

    def state(self) -> Any:
        """Return what `restore` needs."""
        return self._slot, list(self._ring)

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        self._slot, ring = state
        self._ring = list(ring)
        self._ahead = []


class Dispatch(Temporal):
    """A mechanism that writes each value to a slot of the window ahead, or each slot from the window behind."""

    @property
    def latency(self) -> Latency:
        """A slot is decided when its own value has come."""
        return Latency.fixed(0)

    @abstractmethod
    def draw(self, words: Keystream) -> DispatchDraw:
        """Start a release for many values at a time (compiled)."""

    def _rows(self, trials: int, steps: int, key: Key) -> NDArray[np.int64]:
        """Return a row of sources for each series: `steps` slots, then what is written of `window` − 1 more."""
        trials = whole_number("trials", trials, least=0, hint="it is the number of series to draw")
        steps = whole_number("steps", steps, least=0, hint="it is the number of values in each series")
        rows = np.empty((trials, steps + self.window - 1), dtype=np.int64)
        for trial, row in enumerate(rows):
            draw = self.draw(Keystream(key, Context(self.identity, trial, AUDIT_RUN)))
            row[:steps] = draw.push(steps)
            row[steps:] = draw.written()
        return rows
