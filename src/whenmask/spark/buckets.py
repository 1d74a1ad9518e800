"""Buckets: many series under way in one state, for streams whose state is kept for them between two calls.

A state of its own for every series would cost a round trip each; so a bucket holds the series that hash to it, and
its rows as two Arrow tables: slots that are not decided, and values that can still be released. At rest a bucket
is sealed with AES-256-GCM under a key derived from the stream's own: values that wait are never in the clear.
"""

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whenmask.columns import number_series, time_numbers
from whenmask.errors import SecretError, SnapshotError
from whenmask.spark.courses import Course, Flow, Lot, Turn
from whenmask.spark.pools import SHIFT, Pool, nothing, packed, unpacked

PURPOSE = b"bucket"


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


@dataclass(frozen=True)
class Sifted:
    """Which rows of a lot go on now, and which wait; the others are dropped."""

    now: NDArray[np.bool_]
    waits: NDArray[np.bool_]


class Bucket:
    """The series of one bucket, between two calls and during one.

    Example:
        >>> from whenmask import Key, RanSwitch
        >>> from whenmask.columns import Columns
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

    def _sorted(self, rows: pa.RecordBatch) -> Lot:
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

    def _sift(self, lot: Lot, horizon: int | None, counts: Counts) -> Sifted:
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
