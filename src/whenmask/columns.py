"""What the columns of a table mean: which name the series, which one is the time, which move and which stay.

Every engine for tables (frames, batches, files, Spark) reads series ids and times through this module, as Arrow
arrays, so that the same table gets the same plans whatever holds it: `series_ids` is the one place where a value
becomes the name of a series. Messages name rows by their number and never show what is in them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from whenmask.errors import DataError, ParameterError
from whenmask.keystream import Series

Names: TypeAlias = str | Sequence[str] | None

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
TIME_HINT = "give timestamps, dates or numbers; text must be parsed first, so that it sorts by time"
ID_HINT = "ids are whole numbers, text, bytes, booleans, dates, times, decimals or floats; others can be made text"
# Numbers as text, and the share of texts from which on they are taken for numbers.
NUMBER_TEXT = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
NEARLY = 0.95
# Rows to a run of one id from which on it is worth while to look at runs only.
SHORT_RUNS = 4
NO_ID = "every row must have a series id"
NO_ID_HINT = "drop or fill the rows with a null or NaN id"


class ColumnNames(TypedDict, total=False):
    """The columns of a table, as a person names them: one name, or several.

    Attributes:
        by: The columns that together name the series; without any, the table is one series.
        time: The column that orders the slots of a series; without it, the rows are the slots as they stand.
        values: The columns that move, together; all that have no other role by default.
        keep: Further columns that stay with their slot, in the clear.
    """

    by: Names
    time: str | None
    values: Names
    keep: Names


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns.

    Attributes:
        by: The columns that together name the series.
        time: The column that orders the slots of a series, if any.
        values: The columns that move together; None for all that have no other role.
        keep: Further columns that stay with their slot.
        series: What the one series is called in a table without `by`.
    """

    by: tuple[str, ...] = ()
    time: str | None = None
    values: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    series: Series = None

    @classmethod
    def named(
        cls,
        series: Series = None,
        *,
        by: Names = None,
        time: str | None = None,
        values: Names = None,
        keep: Names = None,
    ) -> Self:
        """Return the roles, from single names or sequences of them."""
        if by and series is not None:
            hint = "`by` names the series, `series` the only one of a table without `by`"
            raise ParameterError("`by` and `series` exclude each other", "both", hint)
        clocks = _listed("time", time)
        if len(clocks) > 1:
            hint = "make one column of them that sorts as they do"
            raise ParameterError("`time` must name one column", f"{len(clocks)} names", hint)
        moving = None if values is None else _listed("values", values)
        return cls(_listed("by", by), clocks[0] if clocks else None, moving, _listed("keep", keep), series)

    @property
    def moving(self) -> tuple[str, ...]:
        """The columns that move together, once they are known."""
        return self.values or ()

    def fitted(self, names: Iterable[str]) -> Self:
        """Return the roles in a table with these columns: every column has one.

        Raises:
            ParameterError: A column is missing, has two roles or none, or there is nothing to release.
            DataError: Two columns of the table have the same name.
        """
        table = list(names)
        if len(set(table)) < len(table):
            raise DataError("the columns of a table must have different names", hint="rename all but one of them")
        found = set(table)
        time = () if self.time is None else (self.time,)
        roles = {"by": self.by, "time": time, "values": self.moving, "keep": self.keep}
        for role, members in roles.items():
            for name in members:
                if name not in found:
                    hint = "names are case sensitive; what is in an index must be made a column first"
                    raise ParameterError(f"`{role}` must name columns of the table", f"{role}={name!r}", hint)
        named = [name for members in roles.values() for name in members]
        if len(set(named)) < len(named):
            twice = next(name for name in named if named.count(name) > 1)
            hint = "a column names series, orders slots, moves, or stays"
            raise ParameterError("a column can have only one role", f"{twice!r} more than once", hint)
        left = tuple(name for name in table if name not in set(named))
        if self.values is not None and left:
            hint = "what stays beside values that move can tell when they occurred; keep only what may be seen"
            problem = "with `values` given, every other column must be in `by`, `time` or `keep`"
            raise ParameterError(problem, f"{len(left)} columns without a role", hint)
        moving = self.moving or left
        if not moving:
            hint = "name the columns that hold what is to be released"
            raise ParameterError("there must be at least one column of values", "none", hint)
        return type(self)(self.by, self.time, moving, self.keep, self.series)


def _listed(role: str, names: Names) -> tuple[str, ...]:
    """Return names as a tuple."""
    if names is None:
        return ()
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Iterable):
        hint = "give the name of a column, or a list of names"
        raise ParameterError(f"`{role}` must name columns", f"{role} of type {type(names).__name__}", hint)
    return tuple(names)


def refuse_rows(wrong: NDArray[np.bool_], first: int, problem: str, hint: str) -> None:
    """Raise an error if any row is wrong, with how many and the number of one of them.

    Args:
        wrong: Which rows are wrong.
        first: The number of the first row in the table that is seen here.
        problem: What must hold.
        hint: What to do about it.
    """
    if wrong.any():
        raise otherwise(int(wrong.sum()), first + int(wrong.argmax()), problem, hint)


def otherwise(count: int, row: int, problem: str, hint: str) -> DataError:
    """Return an error about so many rows, one of which is named by its number."""
    rows = "1 row" if count == 1 else f"{count} rows"
    return DataError(problem, f"at least {rows} otherwise, for example row {row} (counted from 0)", hint)


def number_series(
    by: Sequence[pa.Array], rows: int, first: int = 0, *, alone: Series = None
) -> tuple[NDArray[np.int64], list[Series]]:
    """Return the number of each row's series, and the series by number: one id, or a tuple if there are several.

    Args:
        by: The columns that together name the series.
        rows: How many rows they have.
        first: The number of the first of them in the table.
        alone: What the series is called if no column names it.

    Raises:
        DataError: An id is null or NaN, or of a type that cannot name a series.
    """
    starts = _run_starts(by, rows)
    if starts is not None:
        found, series_found = number_series([column.take(pa.array(starts)) for column in by], starts.size)
        return np.repeat(found, np.diff(starts, append=rows)), series_found
    numbers = np.zeros(rows, dtype=np.int64)
    series: list[tuple[Series, ...]] = [()]
    for column in by:
        fine, ids = _number_ids(column, first)
        if len(series) > 1:
            pairs = pa.array(numbers * len(ids) + fine).dictionary_encode()
            numbers = pairs.indices.to_numpy().astype(np.int64)
            parts = (divmod(pair, len(ids)) for pair in pairs.dictionary.to_pylist())
            series = [(*series[coarse], ids[one]) for coarse, one in parts]
        else:
            numbers = fine
            series = [(*series[0], one) for one in ids]
    if len(by) == 1:
        return numbers, [ids[0] for ids in series]
    return numbers, list(series) if by else [alone]


def _run_starts(by: Sequence[pa.Array], rows: int) -> NDArray[np.int64] | None:
    """Return where rows with the same ids begin to stand together; None where that saves nothing."""
    if not by or rows < SHORT_RUNS or not all(map(_compares_fast, by)):
        return None
    change = np.zeros(rows, dtype=np.bool_)
    change[0] = True
    for column in by:
        change[1:] |= pc.not_equal(column.slice(1), column.slice(0, rows - 1)).to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(change)
    return starts if starts.size < rows // SHORT_RUNS else None


def _compares_fast(column: pa.Array) -> bool:
    """Return whether ids can be compared with their neighbours as they are."""
    kind, types = column.type, pa.types
    plain = types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)
    return bool(plain and not isinstance(column, pa.ChunkedArray) and not column.null_count)


def _number_ids(column: pa.Array, first: int) -> tuple[NDArray[np.int64], list[Series]]:
    """Return the number of each row's id, and the ids by number."""
    column = _plain(column)
    try:
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        refuse_rows(column.is_null().to_numpy(zero_copy_only=False), first, NO_ID, NO_ID_HINT)
        places = column.indices.to_numpy().astype(np.int64)
        used = np.flatnonzero(np.bincount(places))
        ids = series_ids(column.dictionary.take(pa.array(used)))
    except pa.ArrowException:
        raise _unfit_for_ids(column.type) from None
    # Two entries can have the same id: 0.0 and −0.0, or a dictionary that repeats itself.
    numbers: dict[Series, int] = {}
    table = np.zeros(len(column.dictionary), dtype=np.int64)
    table[used] = [numbers.setdefault(one, len(numbers)) for one in ids]
    found = table[places]
    if None in numbers:
        refuse_rows(found == numbers[None], first, NO_ID, NO_ID_HINT)
    return found, list(numbers)


def series_ids(values: pa.Array) -> list[Series]:
    """Return the series ids that the values stand for; None for null and NaN, which cannot name a series.

    Whole numbers of any width, text, bytes and booleans are their Python values, so that
    `mechanism.plan(n, series="meter 7")` is the plan of that meter in any table. Other types become a tuple of
    one text, tagged with the type, which no text of the same content can be mistaken for: `("date:2024-02-29",)`,
    `("timestamp:2024-02-29T12:30:00",)` for local time, `("instant:2024-02-29T11:30:00Z",)` where a zone is
    known, `("time:…",)` and `("duration:…",)` in nanoseconds, `("decimal:1.5",)`, `("float:1.5",)`. Units, widths
    and scales make no difference.

    Raises:
        DataError: The type cannot name a series.
    """
    values = _plain(values)
    kind, types = values.type, pa.types
    if types.is_floating(kind):
        floats = (None if number is None or number != number else number + 0.0 for number in values.to_pylist())  # noqa: PLR0124
        return [None if number is None else (f"float:{number!r}",) for number in floats]
    if types.is_decimal(kind):
        return [None if number is None else (_decimal_id(f"{number:f}"),) for number in values.to_pylist()]
    if types.is_temporal(kind) and not types.is_interval(kind):
        return [None if ticks is None else (_temporal_id(kind, ticks),) for ticks in _ticks(values).to_pylist()]
    texts = types.is_string(kind) or types.is_large_string(kind)
    octets = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if not (texts or octets or types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)):
        raise _unfit_for_ids(kind)
    ids: list[Series] = values.to_pylist()
    return ids


def _unfit_for_ids(kind: pa.DataType) -> DataError:
    return DataError("a column of this type cannot name series", f"type {kind}", ID_HINT)


def _plain(values: pa.Array) -> pa.Array:
    """Return the values in a type for which Arrow has all that is needed here."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_string_view(values.type):
        return values.cast(pa.large_string())
    if pa.types.is_binary_view(values.type):
        return values.cast(pa.large_binary())
    if pa.types.is_decimal32(values.type) or pa.types.is_decimal64(values.type):
        return values.cast(pa.decimal128(values.type.precision, values.type.scale))
    return values


def _ticks(values: pa.Array) -> pa.Array:
    """Return dates, times, timestamps and durations as the whole numbers that they are stored as."""
    return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())


def _decimal_id(digits: str) -> str:
    return "decimal:" + (digits.rstrip("0").rstrip(".") if "." in digits else digits)


def _temporal_id(kind: pa.DataType, ticks: int) -> str:
    if pa.types.is_date(kind):
        days = ticks if pa.types.is_date32(kind) else ticks // 86_400_000
        return f"date:{np.datetime64(days, 'D')}"
    nanoseconds = ticks * NANOSECONDS[kind.unit]
    if not pa.types.is_timestamp(kind):
        return f"{'duration' if pa.types.is_duration(kind) else 'time'}:{nanoseconds}"
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = f"{np.datetime64(seconds, 's')}" + (f".{rest:09d}".rstrip("0") if rest else "")
    return f"timestamp:{moment}" if kind.tz is None else f"instant:{moment}Z"


def time_numbers(column: pa.Array, first: int = 0) -> NDArray[Any]:
    """Return the times as numbers that sort as they do.

    Raises:
        DataError: A time is null or NaN, or the type has no natural order in time.
    """
    column = _plain(column)
    if pa.types.is_dictionary(column.type):
        column = _plain(column.dictionary_decode())
    kind = column.type
    temporal = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    if not (temporal or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise DataError("a column of this type cannot be the time", f"type {kind}", TIME_HINT)
    wrong = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    refuse_rows(wrong, first, "every row must have a time", "drop or fill the rows with a null or NaN time")
    numbers: NDArray[Any] = (_ticks(column) if temporal else column).to_numpy(zero_copy_only=False)
    return numbers


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def text_numbers(texts: pa.Array) -> pa.Array:
    """Return the numbers that texts are, null where they are none: files may keep numbers as they were written."""
    texts = texts.cast(pa.large_string())
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        numeric = pc.match_substring_regex(texts, NUMBER_TEXT)
        return pc.if_else(numeric, texts, None).cast(pa.float64())


def holds_numbers(texts: pa.Array) -> bool:
    """Return whether nearly all of these texts, empty ones aside, are numbers."""
    written = pc.sum(pc.greater(pc.binary_length(texts.cast(pa.large_string())), 0)).as_py() or 0
    numbers = text_numbers(texts)
    return bool(written and len(numbers) - numbers.null_count >= NEARLY * written)


class Runs:
    """Which series the rows of a sorted table belong to, counted on from batch to batch.

    Attributes:
        rows: How many rows have come.
        series: How many series have come.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.last: Series = None
        self.rows = 0
        self.series = 0

    def extend(self, table: pa.RecordBatch | pa.Table) -> tuple[NDArray[np.int64], list[Series]]:
        """Take further rows; return how many series came before each row's, and the series that begin or go on.

        The first of these is that of the first row.
        """
        by = [table.column(name) for name in self._columns.by]
        numbers, series = number_series(by, table.num_rows, self.rows, alone=self._columns.series)
        if not numbers.size:
            return numbers, []
        changes = np.append(True, np.diff(numbers) != 0)
        named = [series[number] for number in numbers[changes].tolist()]
        if self.series and named[0] == self.last:
            changes[0] = False
        runs: NDArray[np.int64] = self.series - 1 + np.cumsum(changes)
        self.last, self.series, self.rows = named[-1], int(runs[-1]) + 1, self.rows + numbers.size
        return runs, named
