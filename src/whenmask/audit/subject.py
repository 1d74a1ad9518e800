"""What can be audited, and the few things that every instrument does with its plans.

A plan is a row of sources: column s holds the index of the value released at slot s, −1 if the slot is empty and
−2 if it is not decided yet. An audit knows nothing else of a mechanism than how to draw such rows and how likely
each of them is.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from whenmask.keystream import Key, Series

EMPTY_SLOT = -1
UNDECIDED = -2

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


class Auditable(Protocol):
    """What an audit needs: two methods and the window.

    "After `steps` steps" means one of two things. If every slot is decided when its turn comes: what the slots
    0 … steps−1 show. If slots can be undecided, or decided ahead: where the values 0 … steps−1 have gone, one of
    which arrives in each step and goes to one slot at most; the row may then have a fixed number of columns
    beyond slot steps−1.
    """

    @property
    def window(self) -> int:
        """The number of timestamps that may trade places."""
        ...

    def prefixes(self, trials: int, steps: int, *, key: Key) -> Rows:
        """Return what is known of `trials` independent plans after `steps` steps, one in each row.

        The series goes on for ever; the rows are always the same for the same key. Column s holds the source of
        slot s, −1 for a slot that stays empty, −2 for one that is not decided yet.
        """
        ...

    def log_probabilities(self, prefixes: Rows) -> Floats:
        """Return the natural logarithm of the probability of each such row, −∞ where it cannot occur.

        It is asked about rows that were drawn, and about rows that never will be: with two values exchanged, cut
        short, or with any numbers from −2 to two windows past the last slot in them.
        """
        ...


@runtime_checkable
class Finite(Auditable, Protocol):
    """A mechanism that also draws plans for finite series, whose ends can then be audited."""

    def plan(self, n: int, *, key: Key, series: Series, run: str) -> Any:
        """Return a plan with a `source` for each of `n` slots."""
        ...


def exchanged(rows: Rows, i: int, j: int) -> Rows:
    """Return the plans that release the same in the neighbouring world, where values i and j are exchanged."""
    other = rows.copy()
    other[rows == i] = j
    other[rows == j] = i
    return other


@dataclass(frozen=True)
class View:
    """How a mechanism's rows are to be read.

    Attributes:
        window: The number of timestamps that may trade places.
        ahead: The number of columns beyond the steps made.
        undecided: Whether slots can be undecided, so that values tell what was known when.
    """

    window: int
    ahead: int
    undecided: bool

    @classmethod
    def of(cls, subject: Auditable) -> "View":
        """Look at a row, and ask for the chance of an undecided first slot."""
        ahead = subject.prefixes(1, 1, key=Key.for_testing(0)).shape[1] - 1
        blank = np.full((1, 1 + ahead), UNDECIDED, dtype=np.int64)
        undecided = ahead > 0 or bool(subject.log_probabilities(blank)[0] > -np.inf)
        return cls(subject.window, ahead, undecided)

    def begun(self, rows: Rows, steps: int) -> Rows:
        """Return what was known of the same plans after fewer steps."""
        earlier = rows[:, : steps + self.ahead].copy()
        if self.undecided:
            earlier[earlier >= steps] = UNDECIDED
            beyond = earlier[:, steps:]
            beyond[beyond == EMPTY_SLOT] = UNDECIDED
        return earlier

    def branches(self, rows: Rows) -> NDArray[np.int64]:
        """Return about how many rows each of the given ones could lead to."""
        if self.undecided:
            free: NDArray[np.int64] = (rows == UNDECIDED).sum(axis=1) + 2
            return free**2
        return np.full(rows.shape[0], rows.shape[1] + 2 * self.window + 1)

    def continued(self, rows: Rows) -> tuple[Rows, NDArray[np.int64]]:
        """Return every row that one more step could lead to, and which of the given rows each continues."""
        count, width = rows.shape
        if self.undecided:
            pieces = [_placed(row, width - self.ahead) for row in rows]
            empty = np.empty((0, width + 1), dtype=np.int64)
            return np.concatenate([empty, *pieces]), np.repeat(np.arange(count), [len(piece) for piece in pieces])
        sources = np.arange(EMPTY_SLOT, width + 2 * self.window)
        longer = np.empty((count, sources.size, width + 1), dtype=np.int64)
        longer[:, :, :width] = rows[:, None, :]
        longer[:, :, width] = sources
        return longer.reshape(-1, width + 1), np.repeat(np.arange(count), sources.size)


def _placed(row: Rows, steps: int) -> Rows:
    """Return every row in which the next value goes nowhere or to one undecided slot, and its own slot to any."""
    base = np.append(row, UNDECIDED)
    free = np.flatnonzero(base == UNDECIDED)
    placed = np.repeat(base[None, :], free.size + 1, axis=0)
    placed[np.arange(free.size), free] = steps
    still = placed[:, steps] == UNDECIDED
    sources = np.concatenate([[UNDECIDED, EMPTY_SLOT], np.setdiff1d(np.arange(steps), row)])
    longer = np.repeat(placed[still], sources.size, axis=0)
    longer[:, steps] = np.tile(sources, int(still.sum()))
    return np.concatenate([placed[~still], longer])


def released_once(rows: Rows) -> bool:
    """Tell whether no slot is empty and no value comes twice, in any of the rows."""
    ordered = np.sort(rows, axis=1)
    repeats = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return not repeats.any() and not (rows == EMPTY_SLOT).any()


def chunk_key(seed: int, chunk: int) -> Key:
    """Return the testing key of one chunk of draws: the same in every process."""
    return Key.for_testing((seed << 24) + chunk)
