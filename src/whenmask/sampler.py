"""What the engines need of a mechanism: one sampler in two forms.

`Draw` takes many values at a time and is compiled; `Walk` takes one at a time in plain Python, keeps a state
that fits a snapshot, and never imports numba. Both read the same keystream words at the same steps, so they
make the same plan. The engines (plan, stream, batches) know a mechanism only through `Sampler`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError
from whenmask.keystream import Keystream, Keystreams, Series


class Draw(Protocol):
    """A release under way, many values at a time."""

    def push(self, count: int) -> NDArray[np.int64]:
        """Take `count` more values; return the sources of the slots that are decided now, in order."""
        ...

    def finish(self) -> NDArray[np.int64]:
        """End the series; return the sources of the remaining slots, so that every value has its slot."""
        ...


class Walk(Protocol):
    """A release under way, one value at a time."""

    # None: every value is released exactly once. A number: a value is released 0, 1 or more times, and never
    # again once that many further values have arrived.
    memory: int | None

    def push(self) -> Sequence[int]:
        """Take one more value; return the sources of the slots that are decided now, in order."""
        ...

    def finish(self) -> Iterable[int]:
        """End the series; return the sources of the remaining slots, so that every value has its slot."""
        ...

    def state(self) -> Any:
        """Return what `restore` needs, made of numbers, tuples and lists."""
        ...

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        ...


class Sampler(Protocol):
    """A mechanism as the engines see it."""

    @property
    def window(self) -> int:
        """The number of timestamps that may trade places."""
        ...

    @property
    def identity(self) -> str:
        """The mechanism's name and exact parameters: different for different laws."""
        ...

    def draw(self, words: Keystream) -> Draw:
        """Start a release for many values at a time."""
        ...

    def walk(self, words: Keystream) -> Walk:
        """Start a release for one value at a time."""
        ...


@runtime_checkable
class Together(Protocol):
    """A mechanism that draws many short series faster together than one by one, and the same."""

    def draw_together(
        self, run: Keystreams, series: Sequence[Series], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the sources of all slots of whole series, one series after another."""
        ...


@runtime_checkable
class InPlace(Draw, Protocol):
    """A draw that can work where its result is wanted, which spares a copy."""

    def push_into(self, count: int, room: NDArray[np.int64]) -> NDArray[np.int64]:
        """Do what `push` does; return the beginning of `room`.

        `room` has a place for every value that has arrived and has no slot yet. It holds what the next call
        needs, which must be given the rest of it.

        Raises:
            ParameterError: The room is too small.
        """
        ...


def checked_room(room: NDArray[np.int64], places: int) -> NDArray[np.int64]:
    """Return as many places of the room as are needed."""
    if room.size < places:
        hint = "it must have a place for every value that has no slot yet"
        raise ParameterError("`room` is too small", f"{room.size} places for {places} values", hint)
    return room[:places]


def draw_whole(
    sampler: Sampler, run: Keystreams, series: Sequence[Series], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sources of all slots of whole series, none of them long, one series after another."""
    if isinstance(sampler, Together):
        return sampler.draw_together(run, series, lengths)
    pieces = [np.empty(0, dtype=np.int64)]
    for one, length in zip(series, lengths.tolist(), strict=True):
        draw = sampler.draw(run.of(one))
        pieces += [draw.push(length), draw.finish()]
    return np.concatenate(pieces)
