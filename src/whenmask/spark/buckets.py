"""Buckets: many series under way in one state, for streams whose state is kept for them between two calls.

A state of its own for every series would cost a round trip each; so a bucket holds the series that hash to it, and
its rows as two Arrow tables: slots that are not decided, and values that can still be released. The plans are
those of `Stream`, walked value by value, since a walk has a state that can be kept. At rest a bucket is sealed
with AES-256-GCM under a key derived from the stream's own: values that wait are never in the clear.

A series that has ended leaves its id and the time of its last row behind. If it comes back, it is a new series
with words of its own: the same words must never serve two inputs.
"""

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whenmask.columns import Columns, number_series, time_numbers
from whenmask.errors import DataError, SecretError, SnapshotError
from whenmask.keystream import Context, Key, Keystream, Series
from whenmask.mechanisms import Temporal
from whenmask.sampler import Walk

Numbers: TypeAlias = NDArray[np.int64]

VERSION = 1
PURPOSE = b"bucket"
# A row is named by its series and its number therein, in one integer.
SHIFT = 40
NONE = -1


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
        run = self.run if part == 0 else f"{self.run}, part {part + 1}"
        return self.mechanism.walk(Keystream(self.key, Context(self.mechanism.identity, series, run)))

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


@dataclass
class Counts:
    """What happened to the rows of a bucket.

    Attributes:
        released: Rows released.
        late: Rows dropped because their series had a later one already.
        repeated: Rows dropped because their series had one at that time already.
        ended: Series that ended.
        pending: Values that wait for their slot now.
        waiting: Rows that wait for earlier ones now.
        series: Series under way now.
        longest: The most values that wait of one series now.
    """

    released: int = 0
    late: int = 0
    repeated: int = 0
    ended: int = 0
    pending: int = 0
    waiting: int = 0
    series: int = 0
    longest: int = 0


class Pool:
    """Rows that are held, each by its name."""

    def __init__(self, names: Numbers, rows: pa.RecordBatch) -> None:
        self.names = names
        self.rows = rows

    def joined(self, names: Numbers, rows: pa.RecordBatch) -> "Pool":
        """Return the pool with further rows."""
        if not names.size:
            return self
        if not self.names.size:
            return Pool(names, rows)
        return Pool(np.concatenate([self.names, names]), pa.concat_batches([self.rows, rows]))

    def find(self, names: Numbers) -> Numbers:
        """Return where the rows with these names are; there must be such rows."""
        order = np.argsort(self.names, kind="stable")
        found: Numbers = order[np.searchsorted(self.names, names, sorter=order)]
        return found

    def kept(self, mask: NDArray[np.bool_]) -> "Pool":
        """Return the pool with the rows of the mask only."""
        return self if mask.all() else Pool(self.names[mask], self.rows.filter(pa.array(mask)))

    def content(self) -> tuple[bytes, bytes]:
        """Return what `opened` needs."""
        return self.names.tobytes(), packed(self.rows)

    @classmethod
    def opened(cls, content: tuple[bytes, bytes], schema: pa.Schema) -> "Pool":
        """Return a pool from its content."""
        names, rows = content
        return cls(np.frombuffer(names, dtype=np.int64), unpacked(rows, schema))


def packed(rows: pa.RecordBatch) -> bytes:
    """Return rows as bytes, without their schema."""
    octets: bytes = rows.serialize().to_pybytes()
    return octets


def unpacked(octets: bytes | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows from bytes."""
    return pa.ipc.read_record_batch(octets, schema)


def nothing(schema: pa.Schema) -> pa.RecordBatch:
    """Return no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


class Bucket:
    """The series of one bucket, between two calls and during one.

    Example:
        >>> from whenmask import RanSwitch
        >>> schema = pa.schema([("meter", pa.string()), ("time", pa.int64()), ("kwh", pa.float64())])
        >>> columns = Columns(by=("meter",), time="time").fitted(schema.names)
        >>> flow = Flow(RanSwitch(4, window=2), Key.for_testing(7), "example", columns, schema)
        >>> bucket = Bucket(flow, 0)
        >>> rows = pa.record_batch([["a", "a", "b"], [1, 0, 5], [0.1, 0.2, 0.3]], schema=schema)
        >>> released, counts = bucket.push([rows])
        >>> released.num_rows, counts.pending, counts.series
        (1, 2, 2)
        >>> Bucket(flow, 0, bucket.sealed()).push([])[1].pending
        2
    """

    def __init__(self, flow: Flow, number: int, sealed: bytes | None = None) -> None:
        """Start a bucket, or take one up.

        Raises:
            SnapshotError: The state is damaged, of another stream or bucket, or under another key.
        """
        self._flow = flow
        self._number = number
        staying, moving = flow.schema.names, list(flow.columns.moving)
        self._staying = pa.schema([flow.schema.field(name) for name in staying if name not in moving])
        self._moving = pa.schema([flow.schema.field(name) for name in moving])
        if sealed is None:
            empty = np.empty(0, dtype=np.int64)
            self._courses: list[Course] = []
            self._slots = Pool(empty, nothing(self._staying))
            self._values = Pool(empty, nothing(self._moving))
            self._waiting = nothing(flow.rows)
        else:
            courses, slots, values, waiting = self._opened(sealed)
            self._courses = list(map(Course.taken_up, courses))
            self._slots = Pool.opened(slots, self._staying)
            self._values = Pool.opened(values, self._moving)
            self._waiting = unpacked(waiting, flow.rows)
        self._known = {course.series: number for number, course in enumerate(self._courses)}

    def _opened(self, sealed: bytes) -> tuple[Any, ...]:
        header = self._flow.header(self._number)
        try:
            clear = self._flow.key.unseal(PURPOSE, sealed.removeprefix(header), header)
        except SecretError:
            hint = "restart with the key, mechanism and checkpoint that the stream was started with"
            raise SnapshotError("the state of a bucket is of another stream, or damaged", hint=hint) from None
        content: tuple[Any, ...] = pickle.loads(clear)  # noqa: S301 - authenticated: made by a holder of the key
        return content

    def sealed(self) -> bytes:
        """Return the whole state, sealed."""
        courses = [course.kept() for course in self._courses]
        content = (courses, self._slots.content(), self._values.content(), packed(self._waiting))
        clear = pickle.dumps(content, protocol=5)
        header = self._flow.header(self._number)
        return header + self._flow.key.seal(PURPOSE, clear, header)

    @property
    def due(self) -> int | None:
        """The horizon from which on something is to be done without a further row; None if there is none."""
        idle, times = self._flow.idle, []
        if self._waiting.num_rows:
            times.append(int(time_numbers(self._waiting.column(self._flow.columns.time)).min()))
        if idle is not None:
            times += [course.last + idle + 1 for course in self._courses if course.open]
        return min(times, default=None)

    def push(
        self, batches: Iterable[pa.RecordBatch], *, horizon: int | None = None
    ) -> tuple[pa.RecordBatch, Counts]:
        """Take further rows; return the slots that are decided now.

        Args:
            batches: Rows with ids and times, in the order in which they came.
            horizon: The time up to which no rows are expected any more, once that is known.
        """
        counts, turn = Counts(), Turn(self._flow, self._courses)
        rows = pa.concat_batches([self._waiting, *batches])
        if rows.num_rows:
            lot = self._sorted(rows)
            taken = self._sift(lot, horizon, counts)
            self._waiting = rows.take(pa.array(lot.order[taken.waits]))
            readings = rows.take(pa.array(lot.order[taken.now & ~lot.marks]))
            turn.advance(lot.only(taken.now))
        turn.expire(horizon)
        if rows.num_rows:
            names = turn.arrivals()
            self._slots = self._slots.joined(names, readings.select(self._staying.names))
            self._values = self._values.joined(names, readings.select(self._moving.names))
        released = self._decided(turn)
        counts.released, counts.ended = released.num_rows, turn.ended
        self._describe(counts)
        return released, counts

    def _sorted(self, rows: pa.RecordBatch) -> "Lot":
        """Return whose the rows are and when, sorted by series and time; a marker comes after its time's row."""
        columns, end = self._flow.columns, self._flow.end
        numbers, ids = number_series([rows.column(name) for name in columns.by], rows.num_rows)
        for series in ids:
            if series not in self._known:
                self._known[series] = len(self._courses)
                self._courses.append(Course(series))
        owners = np.array([self._known[series] for series in ids], dtype=np.int64)[numbers]
        times = time_numbers(rows.column(columns.time))
        marks = np.zeros(rows.num_rows, dtype=np.bool_)
        if end is not None:
            marks = rows.column(end).fill_null(False).to_numpy(zero_copy_only=False)
        order = np.lexsort((marks, times, owners))
        return Lot(order, owners[order], times[order], marks[order])

    def _sift(self, lot: "Lot", horizon: int | None, counts: Counts) -> "Sifted":
        """Tell which rows go on now and which wait, and count those that are dropped."""
        lasts = [course.last for course in self._courses]
        known = np.array([last is not None for last in lasts], dtype=np.bool_)[lot.owners]
        last = np.array([last or 0 for last in lasts], dtype=lot.times.dtype)[lot.owners]
        late = known & (lot.times < last)
        again = known & (lot.times == last)
        again[1:] |= (lot.owners[1:] == lot.owners[:-1]) & (lot.times[1:] == lot.times[:-1])
        again &= ~lot.marks
        good = ~(late | again)
        if self._flow.sorts:
            due = np.zeros(good.size, dtype=np.bool_) if horizon is None else lot.times <= horizon
        else:
            due = np.ones(good.size, dtype=np.bool_)
        counts.late, counts.repeated = int(late.sum()), int(again.sum())
        return Sifted(good & due, good & ~due)

    def _decided(self, turn: "Turn") -> pa.RecordBatch:
        """Put values to the slots that are decided now, and keep what is still needed."""
        schema = self._flow.schema
        slots, sources = turn.decided()
        if slots.size:
            places = self._slots.find(slots)
            held = sources >= 0
            origins = np.zeros(sources.size, dtype=np.int64)
            origins[held] = self._values.find(sources[held])
            empty = None if held.all() else ~held
            moved = self._values.rows.take(pa.array(origins, mask=empty))
            stayed = self._slots.rows.take(pa.array(places))
            found = {name: part.column(name) for part in (stayed, moved) for name in part.schema.names}
            released = pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)
            undecided = np.ones(self._slots.names.size, dtype=np.bool_)
            undecided[places] = False
            self._slots = self._slots.kept(undecided)
        else:
            released = nothing(schema)
        self._values = self._values.kept(turn.needed(self._values.names, sources))
        for pool in (self._slots, self._values):
            pool.names = turn.renamed(pool.names)
        return released

    def _describe(self, counts: Counts) -> None:
        """Count what is held."""
        counts.pending = self._slots.names.size
        counts.waiting = self._waiting.num_rows
        counts.series = sum(course.open for course in self._courses)
        if counts.pending:
            counts.longest = int(np.bincount(self._slots.names >> SHIFT).max())


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
class Sifted:
    """Which rows of a lot go on now, and which wait; the others are dropped."""

    now: NDArray[np.bool_]
    waits: NDArray[np.bool_]


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
            raise _broken()
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

    def needed(self, names: Numbers, sources: Numbers) -> NDArray[np.bool_]:
        """Tell which values can still be released."""
        memory = self._flow.memory
        if memory is None:
            return ~np.isin(names, sources)
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


def _broken() -> DataError:
    """Return an error that no data can cause."""
    hint = "this is a fault of the mechanism, not of the data"
    return DataError("the mechanism drew no sound plan", "fewer or more slots than values", hint)
