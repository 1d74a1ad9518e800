"""One series under way: which slot leaves now, and which reading's values it shows.

A plan depends on nothing but key, context and step, so the number of readings that arrived says everything about
where a series is. A checkpoint only saves walking all the way again: what came after it is walked anew.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from whenmask.keystream import Context, Key, Keystream, Series
from whenmask.sampler import Sampler, Walk

# Readings between two checkpoints: as many as a walk of PureSwitch reads words ahead for.
BETWEEN = 128


@dataclass(frozen=True)
class Course:
    """What all series of a gateway share.

    Attributes:
        sampler: The mechanism.
        delay: Slot t leaves when reading t + delay has come, or later if it is not decided then.
        key: The secret.
        run: The run id of the state.
    """

    sampler: Sampler
    delay: int
    key: Key
    run: str

    def walk(self, series: Series, episode: int) -> Walk:
        """Start a series, for the first time or again after it was ended."""
        # A series that was ended has another context, since no context may serve two inputs.
        name = series if episode == 0 else (series, episode)
        return self.sampler.walk(Keystream(self.key, Context(self.sampler.identity, name, self.run)))


class Progress:
    """A series under way.

    Attributes:
        number: The number of the series in the state.
        name: The series.
        episode: How often it was ended.
        arrived: How many readings have come.
        shown: How many slots have left.
        newest: The latest time so far.
        overdue: How many slots left later than they should since the last look.
    """

    __slots__ = (
        "_course", "_ready", "_unplaced", "_walk", "arrived", "episode", "name", "newest", "number", "overdue",
        "saved", "shown",
    )  # fmt: skip

    def __init__(self, course: Course, number: int, name: Series, episode: int) -> None:
        self._course = course
        self.number, self.name, self.episode = number, name, episode
        self._walk = course.walk(name, episode)
        # The sources of slots that are decided and have not left.
        self._ready: array[int] = array("q")
        # Readings whose values have no slot yet.
        self._unplaced: set[int] = set()
        self.arrived = self.shown = self.saved = self.overdue = 0
        self.newest: int | None = None

    def advance(self) -> Sequence[tuple[int, int]]:
        """Take one more reading; return the slots that leave now, each with the source of its values."""
        arrived = self.arrived
        self.arrived = arrived + 1
        sources = self._walk.push()
        self._ready.extend(sources)
        if self._walk.memory is None:
            self._unplaced.add(arrived)
            self._unplaced.difference_update(sources)
        due = arrived - self._course.delay - self.shown + 1
        if due <= 0:
            return ()
        leaving = self._leave(min(due, len(self._ready)))
        self.overdue += min(len(leaving), due - 1)
        return leaving

    def end(self) -> Sequence[tuple[int, int]]:
        """End the series; return all slots that have not left, each with the source of its values."""
        self._ready.extend(self._walk.finish())
        return self._leave(len(self._ready))

    def _leave(self, count: int) -> list[tuple[int, int]]:
        leaving = list(enumerate(self._ready[:count], self.shown))
        del self._ready[:count]
        self.shown += count
        return leaving

    def walk_to(self, arrived: int) -> None:
        """Walk again, from a checkpoint, what was walked before a restart."""
        while self.arrived < arrived:
            self.advance()
        self.overdue = 0

    @property
    def needed(self) -> int:
        """The first reading that a later slot may need."""
        memory = self._walk.memory
        unplaced = self.arrived if memory is None else max(0, self.arrived - memory)
        return min(self.shown, min(self._ready, default=unplaced), min(self._unplaced, default=unplaced))

    def checkpoint(self) -> bytes:
        """Return what `restore` needs; and give back memory that the walk does not need."""
        state = self._walk.state()
        self._walk.restore(state)
        self.saved = self.arrived
        content = (self.arrived, self.shown, self.newest, self._ready.tolist(), sorted(self._unplaced), state)
        return msgspec.msgpack.encode(content)

    def restore(self, checkpoint: bytes) -> None:
        """Go on from a checkpoint."""
        content: Any = msgspec.msgpack.decode(checkpoint)
        self.arrived, self.shown, self.newest, ready, unplaced, state = content
        self._ready, self._unplaced = array("q", ready), set(unplaced)
        self._walk.restore(state)
        self.saved = self.arrived
