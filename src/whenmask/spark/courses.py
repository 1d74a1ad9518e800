"""Series under way: how far each has come, and which slots further rows decide.

The plans are those of `Stream`, walked value by value, since a walk has a state that can be kept. A series that
has ended leaves its id and the time of its last row behind. If it comes back, it is a new series with words of its
own: the same words must never serve two inputs.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whenmask.columns import Columns
from whenmask.keystream import Key, Keystreams, Series
from whenmask.mechanisms import Temporal
from whenmask.sampler import Walk
from whenmask.spark.pools import SHIFT, Numbers, unsound

VERSION = 1
# The name of no row.
NONE = -1


@dataclass(frozen=True)
class Lot:
    """Rows that came together, sorted by series and time.

    Attributes:
        order: Where they stood.
        owners: The number of each row's series.
        times: Their times, as numbers.
        marks: Which of them only mark the end of their series.
    """

    order: Numbers
    owners: Numbers
    times: NDArray[Any]
    marks: NDArray[np.bool_]

    def only(self, mask: NDArray[np.bool_]) -> "Lot":
        """Return the rows of the mask."""
        return Lot(self.order[mask], self.owners[mask], self.times[mask], self.marks[mask])


@dataclass(frozen=True)
class Flow:
    """What is the same for all buckets of a stream.

    Attributes:
        mechanism: The mechanism.
        key: The secret.
        run: The run id.
        columns: The roles of the columns.
        schema: The columns of the rows, the marker aside.
        end: The column that marks the end of a series, if there is one.
        sorts: Whether rows wait until no earlier ones are expected, and are sorted then.
        idle: After so long without a row a series ends, in units of time.
    """

    mechanism: Temporal
    key: Key
    run: str
    columns: Columns
    schema: pa.Schema
    end: str | None = None
    sorts: bool = False
    idle: int | None = None

    @cached_property
    def rows(self) -> pa.Schema:
        """The columns that come in."""
        return self.schema if self.end is None else self.schema.append(pa.field(self.end, pa.bool_()))

    @cached_property
    def staying(self) -> list[str]:
        """The columns that stay."""
        return [name for name in self.schema.names if name not in self.columns.moving]

    def walk(self, series: Series, part: int) -> Walk:
        """Start a series, or a further part of one that had ended."""
        run = self._first_run if part == 0 else self._keystreams(f"{self.run}, part {part + 1}")
        return self.mechanism.walk(run.of(series))

    def _keystreams(self, run: str) -> Keystreams:
        return Keystreams(self.key, self.mechanism.identity, run)

    @cached_property
    def _first_run(self) -> Keystreams:
        """The keystreams of all series that have not ended yet: keys cost more than a handful of values."""
        return self._keystreams(self.run)

    @cached_property
    def memory(self) -> int | None:
        """What `Walk.memory` is for this mechanism."""
        return self.walk(None, 0).memory

    def header(self, number: int) -> bytes:
        """Return what a sealed bucket says in the clear, so that it cannot be taken for another."""
        return f"whenmask bucket {VERSION} {number} {self.mechanism.identity}\n".encode()


class Course:
    """One series under way, or what is remembered of one that has ended."""

    __slots__ = ("arrived", "last", "out", "part", "series", "state", "walk")

    def __init__(self, series: Series) -> None:
        self.series = series
        # How many times it has ended.
        self.part = 0
        # Values that came, and slots that are out, of the part under way.
        self.arrived = self.out = 0
        # The time of the last row.
        self.last: Any = None
        # How to go on: as a walk, or as the state of one. Neither: it has ended.
        self.walk: Walk | None = None
        self.state: Any = None

    @property
    def open(self) -> bool:
        """Whether the series is under way."""
        return self.walk is not None or self.state is not None

    def going(self, flow: Flow) -> Walk:
        """Return the walk, started or restored as need be."""
        if self.walk is None:
            self.walk = flow.walk(self.series, self.part)
            if self.state is not None:
                self.walk.restore(self.state)
        return self.walk

    def close(self) -> None:
        """Forget the part under way."""
        self.walk = self.state = None
        self.part += 1
        self.arrived = self.out = 0

    def kept(self) -> tuple[Any, ...]:
        """Return what `taken_up` needs."""
        state = self.state if self.walk is None else self.walk.state()
        return self.series, self.part, self.arrived, self.out, self.last, state

    @classmethod
    def taken_up(cls, kept: tuple[Any, ...]) -> "Course":
        """Go on with what was kept."""
        course = cls(kept[0])
        _, course.part, course.arrived, course.out, course.last, course.state = kept
        return course


class Turn:
    """One call of a bucket: which slots it decides.

    A series that ends and comes back within one call has two tracks, so that their rows are told apart.
    """

    def __init__(self, flow: Flow, courses: list[Course]) -> None:
        self._flow = flow
        self._courses = courses
        # The track that each series is on, where that is not its own number, and whose the further ones are.
        self._tracks: dict[int, int] = {}
        self._further: list[int] = []
        self._base = len(courses)
        self._sources: list[int] = []
        # Stretches of slots and of arrivals: track, first, how many.
        self._stretches: list[tuple[int, int, int]] = []
        self._arrivals: list[tuple[int, int, int]] = []
        self.ended = 0

    def advance(self, lot: Lot) -> None:
        """Take rows: those of a series one after the other, cut where it ends."""
        self._base = len(self._courses)
        if not lot.owners.size:
            return
        cut = lot.owners[1:] != lot.owners[:-1]
        cut |= lot.marks[:-1]
        idle = self._flow.idle
        if idle is not None:
            cut |= lot.times[1:] - lot.times[:-1] > idle
        starts = np.append(0, np.flatnonzero(cut) + 1)
        stops = np.append(starts[1:], lot.owners.size)
        marked = lot.marks[stops - 1]
        counts = (stops - starts - marked).tolist()
        firsts, lasts = lot.times[starts].tolist(), lot.times[stops - 1].tolist()
        pieces = zip(lot.owners[starts].tolist(), counts, firsts, lasts, marked.tolist(), strict=True)
        for owner, count, first, last, ends in pieces:
            course = self._courses[owner]
            if idle is not None and course.open and first - course.last > idle:
                self._end(owner, course)
            if count:
                self._go(owner, course, count)
            course.last = last
            if ends:
                self._end(owner, course)

    def expire(self, horizon: int | None) -> None:
        """End the series that have been without a row for too long."""
        idle = self._flow.idle
        if idle is None or horizon is None:
            return
        for owner, course in enumerate(self._courses):
            if course.open and horizon - course.last > idle:
                self._end(owner, course)

    def _go(self, owner: int, course: Course, count: int) -> None:
        """Take so many values of a series."""
        walk, sources = course.going(self._flow), self._sources
        before, push, track = len(sources), walk.push, self._tracks.get(owner, owner)
        for _ in range(count):
            sources += push()
        self._arrivals.append((track, course.arrived, count))
        course.arrived += count
        self._note(track, course, len(sources) - before)

    def _end(self, owner: int, course: Course) -> None:
        """End a series, if it is under way."""
        if not course.open:
            return
        before, track = len(self._sources), self._tracks.get(owner, owner)
        self._sources += course.going(self._flow).finish()
        self._note(track, course, len(self._sources) - before)
        if course.out != course.arrived:
            raise unsound("fewer or more slots than values")
        course.close()
        self._tracks[owner] = self._base + len(self._further)
        self._further.append(owner)
        self.ended += 1

    def _note(self, track: int, course: Course, slots: int) -> None:
        self._stretches.append((track, course.out, slots))
        course.out += slots

    def arrivals(self) -> Numbers:
        """Return the names of the rows taken."""
        return _spelled(self._arrivals)

    def decided(self) -> tuple[Numbers, Numbers]:
        """Return the names of the slots decided, and those of the rows whose values go there, or less than 0."""
        sources = np.array(self._sources, dtype=np.int64)
        tracks = np.repeat(
            np.array([track for track, _, _ in self._stretches], dtype=np.int64),
            [count for _, _, count in self._stretches],
        )
        return _spelled(self._stretches), np.where(sources < 0, NONE, (tracks << SHIFT) | sources)

    def needed(self, names: Numbers, memory: int) -> NDArray[np.bool_]:
        """Tell which values can still be released, where they are lost and repeated."""
        owners, current = self._owners(names >> SHIFT)
        arrived = np.array([course.arrived for course in self._courses], dtype=np.int64)
        mask: NDArray[np.bool_] = current & (names & ((1 << SHIFT) - 1) >= arrived[owners] - memory)
        return mask

    def renamed(self, names: Numbers) -> Numbers:
        """Return the names of what is left by the numbers of series, now that all else is out."""
        owners, _ = self._owners(names >> SHIFT)
        return (owners << SHIFT) | (names & ((1 << SHIFT) - 1))

    def _owners(self, tracks: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return whose tracks these are, and whether they are under way."""
        owner = np.append(np.arange(self._base), np.array(self._further, dtype=np.int64))
        current = np.arange(self._base)
        for number, track in self._tracks.items():
            current[number] = track
        owners = owner[tracks]
        return owners, current[owners] == tracks


def _spelled(stretches: list[tuple[int, int, int]]) -> Numbers:
    """Return the names in stretches of a track, the first of them and how many."""
    if not stretches:
        return np.empty(0, dtype=np.int64)
    tracks, firsts, counts = np.array(stretches, dtype=np.int64).T
    starts = (tracks << SHIFT) + firsts - (np.cumsum(counts) - counts)
    names: Numbers = np.repeat(starts, counts) + np.arange(counts.sum())
    return names
