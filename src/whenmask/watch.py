"""A mechanism that is watched: it makes the same plans, and what they do is counted on their way.

Whatever engine releases with it needs no hook and notices nothing. The counts tell about the secret plan: they are
for whoever holds the original, not to be published.
"""

import numpy as np
from numpy.typing import NDArray

from whenmask.keystream import Keystream
from whenmask.law import Costs
from whenmask.sampler import Draw, Sampler, Walk


class Watched:
    """A mechanism that makes the same plans, and counts them.

    Args:
        sampler: The mechanism.

    Attributes:
        series: How many series it has drawn for.
        slots: How many slots they have.
        distinct: How many values have been released, those that are repeated counted once.

    Example:
        >>> from whenmask import Key, RanSwitch
        >>> from whenmask.plan import draw_plan
        >>> watched = Watched(RanSwitch.from_probabilities(q=0.2, window=3))
        >>> plan = draw_plan(watched, 1000, key=Key.for_testing(7))
        >>> watched.costs() == plan.costs()
        True
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        # How often each displacement occurred, from −half to half.
        self._counts = np.zeros(1, dtype=np.int64)
        self.series = 0
        self.slots = 0
        self.distinct = 0

    @property
    def window(self) -> int:
        """The number of timestamps that may trade places."""
        return self._sampler.window

    @property
    def identity(self) -> str:
        """The identity of the mechanism: its draws are the same."""
        return self._sampler.identity

    def draw(self, words: Keystream) -> Draw:
        """Start a series that is counted."""
        self.series += 1
        return _WatchedDraw(self._sampler.draw(words), self, self._sampler.walk(words).memory)

    def walk(self, words: Keystream) -> Walk:
        """Start a release value by value; these are not counted."""
        return self._sampler.walk(words)

    def count(self, displacements: NDArray[np.int64]) -> None:
        """Count displaced values."""
        if not displacements.size:
            return
        half = self._counts.size // 2
        reach = int(np.abs(displacements).max())
        if reach > half:
            self._counts = np.pad(self._counts, reach - half)
            half = reach
        found = np.bincount(displacements + half)
        self._counts[: found.size] += found

    def displacements(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the displacements from the least to the largest, and how often each occurred."""
        half = self._counts.size // 2
        return np.arange(-half, half + 1), self._counts.copy()

    def costs(self) -> Costs:
        """Return what all plans together did."""
        displacements, counts = self.displacements()
        released = int(counts.sum())
        return Costs(
            displacement=int(np.abs(displacements) @ counts),
            missing=self.slots - self.distinct,
            repeated=released - self.distinct,
            empty=self.slots - released,
            slots=self.slots,
            window=self.window,
        )


class _WatchedDraw:
    """One series under way, counted."""

    def __init__(self, draw: Draw, watched: Watched, memory: int | None) -> None:
        self._draw = draw
        self._watched = watched
        self._memory = memory
        self._arrived = 0
        self._slot = 0
        # Values that have been released and can be again.
        self._seen = np.empty(0, dtype=np.int64)

    def push(self, count: int) -> NDArray[np.int64]:
        """Take `count` more values; return the sources of the slots that are decided now."""
        self._arrived += count
        self._watched.slots += count
        return self._counted(self._draw.push(count))

    def finish(self) -> NDArray[np.int64]:
        """End the series; return the sources of the remaining slots."""
        return self._counted(self._draw.finish())

    def _counted(self, sources: NDArray[np.int64]) -> NDArray[np.int64]:
        slots = np.arange(self._slot, self._slot + sources.size)
        self._slot += sources.size
        if self._memory is None:
            self._watched.count(slots - sources)
            self._watched.distinct += sources.size
            return sources
        filled = sources >= 0
        self._watched.count((slots - sources)[filled])
        fresh = np.setdiff1d(sources[filled], self._seen)
        self._watched.distinct += fresh.size
        seen = np.concatenate([self._seen, fresh])
        self._seen = seen[seen >= self._arrived - self._memory]
        return sources
