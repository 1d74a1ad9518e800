"""The engine for tables: sorted Arrow batches in, released batches out, in bounded memory.

Slot columns (series, time, and what is kept) stay; the value columns of a row move together to the slot that the
plan of its series says. Only rows whose slot or value is not out yet are held, so that memory depends on the
window and the batch size, not on how long a series is. Per series there is only the start of a plan; all else is
done for a batch at a time, since tables of a million short series are as common as long ones.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whenmask.columns import Columns, number_series, refuse_rows, time_numbers
from whenmask.errors import DataError
from whenmask.keystream import Key, Keystreams, Series, checked_key, checked_run
from whenmask.plan import CHUNK
from whenmask.sampler import Draw, Sampler, draw_whole

SORT_HINT = "sort the table by series, then by time"
REPEATED_TIME = "a time must occur only once within a series"
REPEAT_HINT = "average or drop them, or name further columns in `by`, so that a time is one slot"


def release_batches(
    batches: Iterable[pa.RecordBatch],
    sampler: Sampler,
    columns: Columns,
    *,
    key: Key | None = None,
    run: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Release a table that comes in batches, sorted by series and then by time.

    The rows come out in the order of the input, in batches of the same schema. Series may be of any length and
    fall into any number of batches; how the table is cut makes no difference to what is released. A series is
    what stands together: that it does not come back further down is checked within a batch, and beyond that is
    up to who sorts, since remembering every series would take memory without bound.

    Args:
        batches: The table, cut anywhere.
        sampler: The mechanism.
        columns: The roles of the columns.
        key: The secret; a fresh one by default.
        run: Only to repeat a run on the very same input; a fresh run id by default.

    Raises:
        ParameterError: The columns do not fit the table.
        DataError: The table is not sorted, a time is repeated within a series, or an id or time is null. What
            has been released until then is sound, but incomplete.

    Example:
        >>> from whenmask import Key, RanSwitch
        >>> batch = pa.record_batch({"meter": ["a"] * 5, "time": range(5), "kwh": [0.1, 0.2, 0.3, 0.4, 0.5]})
        >>> mechanism = RanSwitch.from_probabilities(q=0.2, window=3)
        >>> columns = Columns(by=("meter",), time="time")
        >>> released = pa.Table.from_batches(release_batches([batch], mechanism, columns, key=Key.for_testing(7)))
        >>> sorted(released["kwh"].to_pylist()), released["time"].to_pylist()
        ([0.1, 0.2, 0.3, 0.4, 0.5], [0, 1, 2, 3, 4])
    """
    return _released(batches, columns, Plans(sampler, key=checked_key(key), run=checked_run(run)))


def _released(batches: Iterable[pa.RecordBatch], columns: Columns, plans: "Plans") -> Iterator[pa.RecordBatch]:
    transit: Transit | None = None
    for batch in batches:
        transit = transit or Transit(batch.schema, columns, plans)
        if batch.num_rows:
            yield from transit.push(batch)
    if transit is not None:
        yield from transit.finish()


class Plans:
    """The plans of one run, drawn series after series, each in any number of parts.

    Rows are counted through: row 0 is the first row of the first series.

    Attributes:
        rows: How many rows have come.
        needed: Rows from this one on can still be released, whether or not they have been.
    """

    def __init__(self, sampler: Sampler, *, key: Key, run: str) -> None:
        self._sampler = sampler
        self._run = Keystreams(key, sampler.identity, run)
        self._memory = sampler.walk(self._run.of(None)).memory
        self._draw: Draw | None = None
        self._series: Series = None
        # The first row of the open series, and how many of its slots are out.
        self._first = 0
        self._out = 0
        self.rows = 0

    @property
    def once(self) -> bool:
        """Whether every value is released exactly once."""
        return self._memory is None

    @property
    def needed(self) -> int:
        """The first row that can be released again, for mechanisms that repeat values."""
        return self.rows if self._draw is None else max(self._first, self.rows - (self._memory or 0))

    def extend(self, series: Iterable[Series], lengths: Iterable[int]) -> NDArray[np.int64]:
        """Take further rows, so many of each series; return the sources of the slots decided now, as row numbers.

        The first series may be the one that the last call ended with, and goes on then.
        """
        series, lengths = list(series), np.fromiter(lengths, dtype=np.int64)
        parts: list[NDArray[np.int64]] = []
        firsts: list[int] = []
        begun = bool(series) and self._draw is not None and series[0] == self._series
        if begun:
            self._go_on(series[0], int(lengths[0]), parts, firsts)
        between = slice(int(begun), -1)
        if lengths[between].max(initial=0) <= CHUNK:
            self._draw_whole(series[between], lengths[between], parts, firsts)
        else:
            for one, length in zip(series[between], lengths[between].tolist(), strict=True):
                self._go_on(one, length, parts, firsts)
        if len(series) > begun:
            self._go_on(series[-1], int(lengths[-1]), parts, firsts)
        return self._joined(parts, firsts)

    def _go_on(self, one: Series, length: int, parts: list[NDArray[np.int64]], firsts: list[int]) -> None:
        """Take so many further rows of a series, which may be the open one."""
        if self._draw is None or one != self._series:
            self._close(parts, firsts)
            self._draw = self._sampler.draw(self._run.of(one))
            self._series, self._first, self._out = one, self.rows, 0
        for start in range(0, length, CHUNK):
            self._add(self._draw.push(min(CHUNK, length - start)), parts, firsts)
        self.rows += length

    def _draw_whole(
        self,
        series: list[Series],
        lengths: NDArray[np.int64],
        parts: list[NDArray[np.int64]],
        firsts: list[int],
    ) -> None:
        """Take series that begin and end here."""
        if not series:
            return
        self._close(parts, firsts)
        sources = draw_whole(self._sampler, self._run, series, lengths)
        starts = self.rows + np.cumsum(lengths) - lengths
        self.rows += int(lengths.sum())
        if sources.size != lengths.sum():
            raise _broken("fewer or more slots than values")
        parts.append(np.where(sources < 0, -1, sources + np.repeat(starts, lengths)))
        firsts.append(0)

    def close(self) -> NDArray[np.int64]:
        """End the last series; return the sources of the remaining slots, as row numbers."""
        parts: list[NDArray[np.int64]] = []
        firsts: list[int] = []
        self._close(parts, firsts)
        return self._joined(parts, firsts)

    def _add(self, part: NDArray[np.int64], parts: list[NDArray[np.int64]], firsts: list[int]) -> None:
        if part.size:
            parts.append(part)
            firsts.append(self._first)
            self._out += part.size

    def _close(self, parts: list[NDArray[np.int64]], firsts: list[int]) -> None:
        if self._draw is not None:
            self._add(self._draw.finish(), parts, firsts)
            self._draw = None
            if self._out != self.rows - self._first:
                raise _broken("fewer or more slots than values")

    def _joined(self, parts: list[NDArray[np.int64]], firsts: list[int]) -> NDArray[np.int64]:
        """Return sources within their series as row numbers."""
        if not parts:
            return np.empty(0, dtype=np.int64)
        sources = np.concatenate(parts)
        rows: NDArray[np.int64] = sources + np.repeat(firsts, [part.size for part in parts])
        if not self.once:
            rows[sources < 0] = -1
        return rows


class Transit:
    """A table on its way: the rows whose slot or value is not out yet."""

    def __init__(self, schema: pa.Schema, columns: Columns, plans: Plans) -> None:
        self._schema = schema
        self._columns = columns.fitted(schema.names)
        self._plans = plans
        self._staying = [name for name in schema.names if name not in self._columns.moving]
        # Slots that are not decided, in order.
        self._slots: list[pa.RecordBatch] = []
        # Values that can still be released, and their row numbers, in order.
        self._values: list[pa.RecordBatch] = []
        self._rows = np.empty(0, dtype=np.int64)
        # The series and the time of the last row.
        self._last: tuple[Series, NDArray[Any]] | None = None

    @property
    def held(self) -> int:
        """How many slots or values are held, whichever are more."""
        return max(sum(int(batch.num_rows) for batch in self._slots), self._rows.size)

    def push(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take a batch; return the slots that are decided now, if any."""
        if not batch.schema.equals(self._schema):
            raise DataError("all batches must have the same schema", hint="cast them to one schema first")
        first = self._plans.rows
        sources = self._plans.extend(*self._runs(batch, first))
        self._slots.append(batch.select(self._staying))
        self._values.append(batch.select(self._columns.moving))
        self._rows = np.concatenate([self._rows, np.arange(first, self._plans.rows)])
        return self._decided(sources, first)

    def finish(self) -> list[pa.RecordBatch]:
        """End the table; return the slots that remained, if any."""
        return self._decided(self._plans.close(), self._plans.rows)

    def _runs(self, batch: pa.RecordBatch, first: int) -> tuple[list[Series], list[int]]:
        """Return the series of the batch and how many rows each has, or say what is not in order."""
        by = [batch.column(name) for name in self._columns.by]
        numbers, series = number_series(by, batch.num_rows, first, alone=self._columns.series)
        starts = np.append(0, np.flatnonzero(np.diff(numbers)) + 1)
        _, firsts = np.unique(numbers[starts], return_index=True)
        again = np.zeros(batch.num_rows, dtype=np.bool_)
        again[np.delete(starts, firsts)] = True
        refuse_rows(again, first, "the rows of a series must stand together", SORT_HINT)
        runs = [series[number] for number in numbers[starts].tolist()]
        if self._columns.time is not None:
            self._check_times(batch.column(self._columns.time), first, starts, runs)
        return runs, np.diff(starts, append=batch.num_rows).tolist()

    def _check_times(self, column: pa.Array, first: int, starts: NDArray[np.int64], runs: list[Series]) -> None:
        """Refuse times that go back or stand still within a series, across batches too."""
        times = time_numbers(column, first)
        before = np.concatenate([times[:1], times[:-1]])
        inside = np.ones(times.size, dtype=np.bool_)
        inside[starts] = False
        if self._last is not None and self._last[0] == runs[0]:
            before[:1], inside[0] = self._last[1], True
        self._last = (runs[-1], times[-1:])
        refuse_rows(inside & (times < before), first, "time must not go back within a series", SORT_HINT)
        refuse_rows(inside & (times == before), first, REPEATED_TIME, REPEAT_HINT)

    def _decided(self, sources: NDArray[np.int64], first: int) -> list[pa.RecordBatch]:
        """Put values to the slots decided now, and keep what is still needed; rows from `first` on are new."""
        if not sources.size:
            return []
        slots, values = _joined(self._slots), _joined(self._values)
        places = sources + (self._rows.size - self._plans.rows)
        early = sources < first
        places[early] = np.searchsorted(self._rows, sources[early])
        empty = sources < 0
        if not np.array_equal(self._rows[places[~empty]], sources[~empty]):
            raise _broken("a value that it had already given away")
        if empty.any() and not all(field.nullable for field in values.schema):
            raise DataError("a column that may not be null cannot hold an empty slot", hint="make it nullable")
        moved = _taken(values, pa.array(places, mask=empty if empty.any() else None))
        out = slots.slice(0, sources.size)
        self._slots = [slots.slice(sources.size)]
        if self._plans.once:
            waiting = np.ones(self._rows.size, dtype=np.bool_)
            waiting[places] = False
        else:
            waiting = self._rows >= self._plans.needed
        self._values = [_taken(values, pa.array(np.flatnonzero(waiting)))]
        self._rows = self._rows[waiting]
        whole = {name: part.column(name) for part in (out, moved) for name in part.schema.names}
        return [pa.RecordBatch.from_arrays([whole[name] for name in self._schema.names], schema=self._schema)]


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one, without a copy where only one has rows."""
    filled = [batch for batch in batches if batch.num_rows] or batches[:1]
    return filled[0] if len(filled) == 1 else pa.concat_batches(filled)


def _taken(values: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
    try:
        return values.take(places)
    except pa.ArrowNotImplementedError:
        raise immovable() from None


def immovable() -> DataError:
    """Return the error for columns that Arrow has no `take` for."""
    hint = "cast columns of views or run ends to plain ones"
    return DataError("a column of values is of a type that Arrow cannot move", hint=hint)


def _broken(what: str) -> DataError:
    """Return an error that no data can cause: going on would give values to other series' slots."""
    return DataError("the mechanism drew no sound plan", what, "this is a fault of the mechanism, not of the data")
