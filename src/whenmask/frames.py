"""Releasing a table in memory: a pandas, Polars or Arrow table in, the same type and schema out.

narwhals reads series ids and times from any of them; the plans are those of `batches`; and `take` moves the values
in the library that holds them, so that types, categories, zones and nulls come back as they were. Nothing is
sorted but row numbers: values go from their row straight to the row of their slot, wherever the rows stand.
"""

from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whenmask.batches import REPEAT_HINT, REPEATED_TIME, Plans, immovable
from whenmask.columns import Columns, number_series, otherwise, time_numbers
from whenmask.errors import DataError
from whenmask.keystream import Key, Series, checked_key, checked_run
from whenmask.sampler import Sampler
from whenmask.take import EMPTY, take

Frame: TypeAlias = nw.DataFrame[Any]

FRAME_HINT = "give a pandas or Polars frame, or an Arrow table or batch"


def is_frame(data: Any) -> bool:
    """Return whether the data are a table with named columns, of any library that narwhals knows."""
    try:
        return isinstance(data, pa.RecordBatch) or nw.from_native(data, pass_through=True) is not data
    except nw.exceptions.DuplicateError:
        return True


def release_frame(
    frame: Any,
    sampler: Sampler,
    columns: Columns,
    *,
    key: Key | None = None,
    run: str | None = None,
    empty: Any = EMPTY,
) -> Any:
    """Return a table released: every series by its own plan, in the order of its times.

    The rows may stand in any order and stay in it, as do the index and all columns that do not move. A Polars lazy
    frame is collected, since a plan needs the whole series, and a lazy frame comes back.

    Args:
        frame: A pandas frame, a Polars frame (eager or lazy), or an Arrow table or batch.
        sampler: The mechanism.
        columns: The roles of the columns.
        key: The secret; a fresh one by default.
        run: Only to repeat a run on the very same input; a fresh run id by default.
        empty: What the values of an empty slot are; by default null, as suits the types.

    Raises:
        ParameterError: The columns do not fit the table.
        DataError: A time is repeated within a series, an id or time is null, or a type cannot be released.
    """
    if isinstance(frame, pa.RecordBatch):
        table = release_frame(pa.table(frame), sampler, columns, key=key, run=run, empty=empty)
        return table.combine_chunks().to_batches()[0] if len(table) else frame
    table = _wrapped(frame)
    if isinstance(table, nw.LazyFrame):
        if not table.implementation.is_polars():
            raise DataError(
                "a lazy frame of this kind cannot be released", f"a {type(frame).__name__}", FRAME_HINT
            )
        collected = table.collect().to_native()
        return release_frame(collected, sampler, columns, key=key, run=run, empty=empty).lazy()
    columns = columns.fitted(table.columns)
    source = _sources(table, columns, Plans(sampler, key=checked_key(key), run=checked_run(run)))
    try:
        taken = take(table.select(nw.col(*columns.moving)).to_native(), source, empty)
    except pa.ArrowNotImplementedError:
        raise immovable() from None
    if isinstance(frame, pa.Table):  # narwhals would lose what a schema says beyond names and types
        parts = [taken if name in columns.moving else frame for name in frame.column_names]
        arrays = [part[name] for part, name in zip(parts, frame.column_names, strict=True)]
        return pa.Table.from_arrays(arrays, schema=frame.schema)
    return table.with_columns(*nw.from_native(taken, eager_only=True).iter_columns()).to_native()


def _wrapped(frame: Any) -> Frame | nw.LazyFrame[Any]:
    """Return the frame as narwhals sees it."""
    try:
        wrapped: Frame | nw.LazyFrame[Any] = nw.from_native(frame)
    except nw.exceptions.DuplicateError:
        hint = "rename all but one of them"
        raise DataError("the columns of a table must have different names", hint=hint) from None
    except TypeError:
        raise DataError("this is not a table", f"a {type(frame).__name__}", FRAME_HINT) from None
    return wrapped


def sorted_table(frame: Any, columns: Columns) -> pa.Table:
    """Return a table in memory as Arrow's, sorted by series and then by time.

    A column of values that Arrow cannot hold comes as nulls of a type without an order.

    Raises:
        ParameterError: The columns do not fit the table.
        DataError: This is not a table, a time is repeated within a series, or an id or time is null.
    """
    table = _wrapped(pa.table(frame) if isinstance(frame, pa.RecordBatch) else frame)
    if isinstance(table, nw.LazyFrame):
        table = table.collect()
    columns = columns.fitted(table.columns)
    order, _, _ = _ordered(table, columns)
    rows, unfit = pa.array(order), pa.nulls(len(table), pa.struct([]))
    native = table.to_native()
    whole = isinstance(native, pa.Table)
    arrays = {name: native[name] if whole else _arrow(table.get_column(name)) for name in table.columns}
    sorted_arrays = {name: None if one is None else _taken(one, rows) for name, one in arrays.items()}
    return pa.table({name: unfit if one is None else one for name, one in sorted_arrays.items()})


def _taken(values: pa.Array | pa.ChunkedArray, rows: pa.Array) -> pa.Array | pa.ChunkedArray | None:
    """Return the values at the rows, if Arrow can move them."""
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    try:
        return values.cast(views.get(values.type, values.type)).take(rows)
    except pa.ArrowNotImplementedError:
        return None


def _sources(table: Frame, columns: Columns, plans: Plans) -> NDArray[np.int64]:
    """Return for each row the row whose values it gets, −1 for none."""
    order, series, lengths = _ordered(table, columns)
    drawn = [plans.extend(series, lengths.tolist()), plans.close()]
    released = np.concatenate(drawn)
    rows = order[released]
    if not plans.once:
        rows[released < 0] = -1
    source = np.empty_like(rows)
    source[order] = rows
    return source


def _ordered(table: Frame, columns: Columns) -> tuple[NDArray[np.int64], list[Series], NDArray[np.int64]]:
    """Return the rows in the order of series and times, the series, and how many rows each has."""
    by = [_read(table, name) for name in columns.by]
    numbers, series = number_series(by, len(table), alone=columns.series)
    lengths = np.bincount(numbers, minlength=len(series))
    order = _grouped(numbers)
    if columns.time is not None:
        _sort_times(order, time_numbers(_read(table, columns.time)), lengths)
    return order, series, lengths


def _read(table: Frame, name: str) -> pa.Array:
    """Return a column of ids or times as an Arrow array."""
    column = table.get_column(name)
    array = _arrow(column)
    if array is None:
        problem = "a column of ids or times must be of a type that Arrow knows"
        hint = "give the column one plain type: numbers, text, dates or timestamps"
        raise DataError(problem, f"type {column.dtype}", hint)
    return array


def _arrow(column: nw.Series[Any]) -> pa.Array | None:
    """Return a column as an Arrow array, if Arrow can hold it."""
    # What Polars hands out of a column of objects are addresses in memory.
    if column.dtype == nw.Object and column.implementation.is_polars():
        return None
    try:
        return column.to_arrow()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _grouped(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows by series, as they stand within each.

    A radix sort: numpy sorts numbers of 16 bits by counting, many times faster than rows can be compared.
    """
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    for shift in range(16, int(numbers.max(initial=0)).bit_length(), 16):
        order = order[np.argsort((numbers >> shift).astype(np.uint16)[order], kind="stable")]
    return order


def _sort_times(order: NDArray[np.int64], times: NDArray[Any], lengths: NDArray[np.int64]) -> None:
    """Bring the rows of each series into the order of their times, in place; refuse times that are repeated."""
    times = times[order]
    ends = np.cumsum(lengths)
    late = times[1:] < times[:-1]
    late[ends[:-1] - 1] = False  # from one series to the next, time may go back
    for one in np.unique(np.searchsorted(ends, np.flatnonzero(late), side="right")).tolist():
        rows = slice(ends[one] - lengths[one], ends[one])
        by_time = np.argsort(times[rows])
        order[rows] = order[rows][by_time]
        times[rows] = times[rows][by_time]
    repeated = times[1:] == times[:-1]
    repeated[ends[:-1] - 1] = False
    places = np.flatnonzero(repeated)
    if places.size:
        raise otherwise(places.size, int(order[places[0] + 1]), REPEATED_TIME, REPEAT_HINT)
