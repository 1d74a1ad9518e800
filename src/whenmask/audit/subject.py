"""What can be audited, and the few things that every instrument does with its plans.

A plan is a row of sources: column s holds the index of the value released at slot s, −1 if the slot is empty and
−2 if it is not decided yet. An audit knows nothing else of a mechanism than how to draw such rows and how likely
each of them is.
"""

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

    "After `steps` steps" means: slots 0 … steps−1 are in the row, and either all of them are decided, or (for
    mechanisms that leave slots undecided) values 0 … steps−1 have arrived, one in each step; then a step adds its
    own slot and fills at most one older slot, with the value that has just arrived.
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
        short, or with any numbers from −2 to three windows past the last slot in them.
        """
        ...


@runtime_checkable
class Finite(Auditable, Protocol):
    """A mechanism that also draws plans for finite series, whose ends can then be audited."""

    def plan(self, n: int, *, key: Key, series: Series, run: str) -> Any:
        """Return a plan with a `source` for each of `n` slots."""
        ...


def leaves_undecided(subject: Auditable) -> bool:
    """Tell whether slots can be undecided: whether the law gives an undecided first slot a chance."""
    return bool(subject.log_probabilities(np.array([[UNDECIDED]], dtype=np.int64))[0] > -np.inf)


def exchanged(rows: Rows, i: int, j: int) -> Rows:
    """Return the plans that release the same in the neighbouring world, where values i and j are exchanged."""
    other = rows.copy()
    other[rows == i] = j
    other[rows == j] = i
    return other


def begun(rows: Rows, steps: int, undecided: bool) -> Rows:
    """Return what was known of the same plans after fewer steps."""
    earlier = rows[:, :steps].copy()
    if undecided:
        earlier[earlier >= steps] = UNDECIDED
    return earlier


def continued(rows: Rows, window: int, undecided: bool) -> tuple[Rows, NDArray[np.int64]]:
    """Return every row that one more step could lead to, and which of the given rows each continues."""
    if undecided:
        return _filled(rows)
    count, steps = rows.shape
    sources = np.arange(EMPTY_SLOT, steps + 2 * window)
    longer = np.empty((count, sources.size, steps + 1), dtype=np.int64)
    longer[:, :, :steps] = rows[:, None, :]
    longer[:, :, steps] = sources
    return longer.reshape(-1, steps + 1), np.repeat(np.arange(count), sources.size)


def _filled(rows: Rows) -> tuple[Rows, NDArray[np.int64]]:
    """Return every row in which the new slot is anything so far, and at most one undecided slot gets the value."""
    steps = rows.shape[1]
    pieces = [np.empty((0, steps + 1), dtype=np.int64)]
    for row in rows:
        undecided = np.flatnonzero(row == UNDECIDED)
        sources = np.concatenate([[UNDECIDED, EMPTY_SLOT], np.setdiff1d(np.arange(steps + 1), row)])
        longer = np.empty((undecided.size + 1, sources.size, steps + 1), dtype=np.int64)
        longer[:, :, :steps] = row
        longer[:, :, steps] = sources
        longer[np.arange(undecided.size), :, undecided] = steps
        pieces.append(longer.reshape(-1, steps + 1))
    sizes = [piece.shape[0] for piece in pieces[1:]]
    return np.concatenate(pieces), np.repeat(np.arange(rows.shape[0]), sizes)


def released_once(rows: Rows) -> bool:
    """Tell whether no slot is empty and no value comes twice, in any of the rows."""
    ordered = np.sort(rows, axis=1)
    repeats = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return not repeats.any() and not (rows == EMPTY_SLOT).any()


def chunk_key(seed: int, chunk: int) -> Key:
    """Return the testing key of one chunk of draws: the same in every process."""
    return Key.for_testing((seed << 24) + chunk)
