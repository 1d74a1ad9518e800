"""What statistics over a release lost, compared with the original while both pass by.

The rows before and after are held only as long as they are on their way, and as many as the longest range has.
What comes out tells about the secret plan: it is for whoever holds the original, not to be published.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whenmask.columns import Columns, Runs, holds_numbers, is_text, text_numbers
from whenmask.errors import DataError
from whenmask.keystream import Series

Numbers: TypeAlias = NDArray[np.float64]

# Rows that are compared together.
STRETCH = 1 << 16
# Rows of the one series that is shown, at most, and in windows.
SHOWN = 480
SHOWN_WINDOWS = 4


@dataclass(frozen=True)
class Loss:
    """What statistics over a sliding range of rows lost in one column.

    Attributes:
        column: The column.
        rows: The length of the range.
        average: The root mean square error of the moving average over the range.
        count: The root mean square error of how many values in the range exceed the threshold.
        spread: The standard deviation of the column's values, to judge `average` by.
        ranges: How many ranges were compared.
    """

    column: str
    rows: int
    average: float
    count: float
    spread: float
    ranges: int


@dataclass(frozen=True, eq=False)
class Example:
    """The beginning of one series before and after its release: raw data.

    Attributes:
        series: What the series is called.
        column: The column shown.
        times: The times of the rows, as text; empty without a time.
        before: The values as recorded; NaN where there is none.
        after: The values as released; NaN where there is none.
    """

    series: str
    column: str
    times: Sequence[str]
    before: Numbers
    after: Numbers


class Comparison:
    """The rows before and after a release, compared as they pass.

    Args:
        columns: The roles of the columns.
        window: The window of the mechanism.
        ranges: The ranges of moving averages and counts in rows; by default from 1 to four windows.
        show: The one series to keep the beginning of, by its id as text (several columns joined by ", ").
    """

    def __init__(
        self, columns: Columns, *, window: int, ranges: Sequence[int] | None = None, show: str | None = None
    ) -> None:
        usual = (1, window // 64, window // 16, window // 4, window // 2, window, 2 * window, 4 * window)
        self._ranges = sorted({max(1, rows) for rows in (usual if ranges is None else ranges)})
        self._columns = columns
        self._window = window
        self.show = show
        self._names: list[str] = []
        self._runs: Runs | None = None
        self._before: list[Numbers] = []
        self._after: list[Numbers] = []
        self._numbers: list[NDArray[np.int64]] = []
        self._sums: _Sums | None = None
        self._shown: list[tuple[list[str], Numbers, Numbers]] = []
        self._shown_run = -1

    @property
    def rows(self) -> int:
        """How many rows have been released."""
        return 0 if self._runs is None else self._runs.rows

    @property
    def series(self) -> int:
        """How many series have been released, or begun."""
        return 0 if self._runs is None else self._runs.series

    def watch_before(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand the batches of the input through, and look at them."""
        for batch in batches:
            self.push_before(batch)
            yield batch

    def watch_after(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand the batches of the release through, and compare them with the input."""
        for batch in batches:
            self.push_after(batch)
            yield batch

    def push_before(self, batch: pa.RecordBatch) -> None:
        """Take further rows of the input."""
        if self._runs is None:
            self._columns = self._columns.fitted(batch.schema.names)
            self._runs = Runs(self._columns)
            self._names = [name for name in self._columns.moving if _is_numeric(batch.column(name))]
        self._before.append(_matrix(batch, self._names))

    def push_after(self, batch: pa.RecordBatch) -> None:
        """Take further rows of the release, in the order of the input's."""
        if self._runs is None or sum(map(len, self._after)) + batch.num_rows > sum(map(len, self._before)):
            raise DataError("a release has no more rows than its input", hint="give the input's batches first")
        runs, series = self._runs.extend(batch)
        self._after.append(_matrix(batch, self._names))
        self._numbers.append(runs)
        self._keep_example(batch, runs, series)
        if sum(map(len, self._after)) >= max(STRETCH, 4 * self._ranges[-1]):
            self._compare()

    def losses(self) -> list[Loss]:
        """Return what moving averages and counts lost, by column and range."""
        self._compare()
        return [] if self._sums is None else self._sums.losses(self._names)

    def example(self) -> Example | None:
        """Return the beginning of the series to show, if it came by and has a column of numbers."""
        if not self._shown or not self._names or self.show is None:
            return None
        times, before, after = zip(*self._shown, strict=True)
        return Example(
            self.show,
            self._names[0],
            [time for part in times for time in part],
            np.concatenate(before),
            np.concatenate(after),
        )

    def _keep_example(self, batch: pa.RecordBatch, runs: NDArray[np.int64], series: list[Series]) -> None:
        if self.show is None or not self._names:
            return
        if self._shown_run < 0:
            places = [place for place, one in enumerate(series) if series_label(one) == self.show]
            if not places:
                return
            self._shown_run = int(runs[0]) + places[0]
        rows = np.flatnonzero(runs == self._shown_run)
        room = min(SHOWN, max(96, SHOWN_WINDOWS * self._window)) - sum(len(part[1]) for part in self._shown)
        rows = rows[: max(0, room)]
        if not rows.size:
            return
        first, last = int(rows[0]), int(rows[-1]) + 1
        behind = sum(map(len, self._after)) - batch.num_rows
        before = _slice(self._before, behind + first, behind + last)[:, 0]
        times = (
            [] if self._columns.time is None else _texts(batch.column(self._columns.time).slice(first, rows.size))
        )
        self._shown.append((times, before.copy(), self._after[-1][first:last, 0].copy()))

    def _compare(self) -> None:
        if not self._after:
            return
        after, runs = np.concatenate(self._after), np.concatenate(self._numbers)
        waiting = np.concatenate(self._before)
        if self._names:
            self._sums = self._sums or _Sums(self._ranges, waiting[: len(after)])
            self._sums.extend(waiting[: len(after)], after, runs)
        self._before, self._after, self._numbers = [waiting[len(after) :]], [], []


class _Sums:
    """Squared differences of moving averages and counts, by range and column."""

    def __init__(self, ranges: list[int], first: Numbers) -> None:
        columns = first.shape[1]
        with np.errstate(all="ignore"):
            filled = np.where(np.isfinite(first), first, np.nan)
            empty = np.isnan(filled).all(axis=0)
            filled[:, empty] = 0.0
            # The threshold of counts; and sums of what is left above it keep more digits.
            self._center: Numbers = np.nanmedian(filled, axis=0)
        self._ranges = ranges
        self._tail = (np.empty((0, columns)), np.empty((0, columns)), np.empty(0, dtype=np.int64))
        self._averages = np.zeros((len(ranges), columns))
        self._counts = np.zeros((len(ranges), columns))
        self._compared = np.zeros((len(ranges), columns), dtype=np.int64)
        self._counted = np.zeros(len(ranges), dtype=np.int64)
        self._moments = np.zeros((3, columns))

    def extend(self, before: Numbers, after: Numbers, runs: NDArray[np.int64]) -> None:
        """Take further rows."""
        before, after = before - self._center, after - self._center
        with np.errstate(over="ignore", invalid="ignore"):
            self._moments += [np.isfinite(before).sum(0), np.nansum(before, 0), np.nansum(before**2, 0)]
        held = len(self._tail[0])
        before, after = np.concatenate([self._tail[0], before]), np.concatenate([self._tail[1], after])
        runs = np.concatenate([self._tail[2], runs])
        sums = [_summed(part) for values in (before, after) for part in _parts(values)]
        for number, rows in enumerate(self._ranges):
            ends = np.arange(max(held, rows - 1), runs.size)
            ends = ends[runs[ends] == runs[ends - rows + 1]]
            totals = [part[ends + 1] - part[ends + 1 - rows] for part in sums]
            self._add(number, totals)
        keep = max(0, runs.size - (self._ranges[-1] - 1))
        self._tail = before[keep:].copy(), after[keep:].copy(), runs[keep:]

    def _add(self, number: int, totals: list[Numbers]) -> None:
        there, total, above, there_after, total_after, above_after = totals
        with np.errstate(all="ignore"):
            errors = total_after / there_after - total / there
        both = np.isfinite(errors)
        self._averages[number] += (np.where(both, errors, 0.0) ** 2).sum(axis=0)
        self._compared[number] += both.sum(axis=0)
        self._counts[number] += ((above_after - above) ** 2).sum(axis=0)
        self._counted[number] += len(there)

    def losses(self, names: list[str]) -> list[Loss]:
        """Return the root mean squares."""
        count, total, squares = self._moments
        with np.errstate(all="ignore"):
            spread = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
            averages = np.sqrt(self._averages / self._compared)
            counts = np.sqrt(self._counts / self._counted[:, None])
        return [
            Loss(
                name,
                rows,
                float(averages[number, column]),
                float(counts[number, column]),
                float(spread[column]),
                int(self._compared[number, column]),
            )
            for column, name in enumerate(names)
            for number, rows in enumerate(self._ranges)
            if self._compared[number, column]
        ]


def compare_batches(
    before: Iterable[pa.RecordBatch], after: Iterable[pa.RecordBatch], comparison: Comparison
) -> Comparison:
    """Compare a table and its release, both sorted by series and then by time; return the comparison."""
    ahead = 0
    inputs = iter(before)
    for batch in after:
        ahead -= batch.num_rows
        while ahead < 0 and (earlier := next(inputs, None)) is not None:
            comparison.push_before(earlier)
            ahead += earlier.num_rows
        comparison.push_after(batch)
    return comparison


def series_label(series: Series) -> str:
    """Return a series id as a person would type it."""
    if isinstance(series, tuple):
        return ", ".join(series_label(part) for part in series)
    return series.decode(errors="replace") if isinstance(series, bytes) else str(series)


def _is_numeric(column: pa.Array) -> bool:
    kind = column.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(number or (is_text(kind) and holds_numbers(column)))


def _matrix(batch: pa.RecordBatch, names: list[str]) -> Numbers:
    """Return columns of numbers side by side, NaN where there is no finite number."""
    matrix = np.empty((batch.num_rows, len(names)))
    for place, name in enumerate(names):
        column: Any = batch.column(name)
        numbers = text_numbers(column) if is_text(column.type) else column.cast(pa.float64(), safe=False)
        matrix[:, place] = numbers.to_numpy(zero_copy_only=False)
    matrix[~np.isfinite(matrix)] = np.nan
    return matrix


def _texts(times: pa.Array) -> list[str]:
    try:
        texts = times.cast(pa.string()).to_pylist()
    except pa.ArrowException:  # a zone that this machine does not know
        return []
    return [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]


def _slice(parts: list[Numbers], first: int, last: int) -> Numbers:
    """Return rows of what parts would be as one."""
    found, passed = [], 0
    for part in parts:
        found.append(part[max(0, first - passed) : max(0, last - passed)])
        passed += len(part)
    return np.concatenate(found)


def _parts(values: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return which values are there, the values, and which are above the center; 0 where there is none."""
    there = ~np.isnan(values)
    return there.astype(np.float64), np.where(there, values, 0.0), (there & (values > 0)).astype(np.float64)


def _summed(values: Numbers) -> Numbers:
    """Return the sums of the first 0, 1, 2, … rows."""
    return np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
