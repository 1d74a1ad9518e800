"""What would make a release useless, found before it is made: columns that tell the time by themselves.

A release hides *when* by letting values trade places. A column that only ever rises, a row number or a timestamp
among the values gives the order back, whatever the mechanism and its guarantee. The table is read once, sorted
by series and time, as `batches` reads it; what is held depends on the window, not on the table. Findings hold
counts and shares, never what is in a cell.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whenmask.clues import SAMPLE, Column, Others
from whenmask.columns import ColumnNames, Columns, Runs, time_numbers
from whenmask.errors import DataError, whole_number
from whenmask.finding import Finding
from whenmask.frames import sorted_table

# Rows looked at together.
STRETCH = 1 << 16


def check_batches(
    batches: Iterable[pa.RecordBatch], columns: Columns, *, window: int | None = None
) -> list[Finding]:
    """Return what is to know of a table before it is released, the worst first.

    Args:
        batches: The table, sorted by series and then by time, cut anywhere.
        columns: The roles of the columns.
        window: The number of timestamps that may trade places; without it, what depends on it is not looked at.

    Raises:
        ParameterError: The columns do not fit the table.
        DataError: An id or time is null, or of a type that cannot be one.

    Example:
        >>> batch = pa.record_batch({"time": range(50), "total": range(100, 150)})
        >>> [(finding.kind, finding.severity) for finding in check_batches([batch], Columns(time="time"))]
        [('sequence', 'useless')]
    """
    check = Check(columns, window=window)
    for _ in check.watch(batches):
        pass
    return check.findings()


def check_frame(frame: Any, /, *, window: int | None = None, **columns: Unpack[ColumnNames]) -> list[Finding]:
    """Return what is to know of a table in memory before it is released, the worst first.

    Args:
        frame: A pandas or Polars frame, or an Arrow table or batch; the rows may stand in any order.
        window: As for `check_batches`.
        **columns: The roles of the columns, as for `release`.
    """
    roles = Columns.named(**columns)
    table = sorted_table(frame, roles)
    return check_batches(
        table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)], roles, window=window
    )


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, the worst first."""
    order = ("useless", "warning", "note")
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def useless(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings for which a release would hide little or nothing."""
    return [finding for finding in findings if finding.severity == "useless"]


def refuse_useless(findings: Iterable[Finding]) -> None:
    """Refuse a table whose release would hide little or nothing.

    Raises:
        DataError: There are such findings; their columns and kinds are named.
    """
    found = useless(findings)
    if found:
        named = ", ".join(
            finding.kind if finding.column is None else f"{finding.column!r} ({finding.kind})" for finding in found
        )
        hint = "`whenmask check` says why and what to do; to release all the same, accept the risk: --accept-risk"
        raise DataError("a release of this table would hide little or nothing", named, hint)


class Check:
    """A check under way: tables pass through in parts, and the findings can be asked for at any time.

    Args:
        columns: The roles of the columns.
        window: The number of timestamps that may trade places, if known.

    Attributes:
        rows: How many rows have been looked at.
    """

    def __init__(self, columns: Columns, *, window: int | None = None) -> None:
        hint = "it counts the timestamps that may trade places"
        self._window = None if window is None else whole_number("window", window, least=2, hint=hint)
        self._columns = columns
        self._waiting: list[pa.RecordBatch] = []
        self.rows = 0
        self._runs = Runs(columns)
        self._lengths = Lengths(self._window)
        self._schema: pa.Schema | None = None
        self._values: list[Column] = []
        self._others = Others()

    @property
    def series(self) -> int:
        """How many series have been looked at."""
        self._look()
        return self._runs.series

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand batches through, and look at them."""
        for batch in batches:
            self.push(batch)
            yield batch

    def push(self, batch: pa.RecordBatch) -> None:
        """Look at further rows."""
        if self._schema is None:
            self._columns, self._schema = self._columns.fitted(batch.schema.names), batch.schema
            self._values = [
                Column(name, batch.schema.field(name).type, self._window) for name in self._columns.moving
            ]
        if not batch.schema.equals(self._schema):
            raise DataError("all batches must have the same schema", hint="cast them to one schema first")
        if batch.num_rows:
            self._waiting.append(batch)
            self.rows += batch.num_rows
        if sum(part.num_rows for part in self._waiting) >= max(STRETCH, 4 * (self._window or 0)):
            self._look()

    def findings(self) -> list[Finding]:
        """Return what was found until now, the worst first."""
        self._look()
        found = self._lengths.findings()
        for column in self._values:
            found += column.findings()
        return worst_first(found)

    def _look(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting = []
        runs, _ = self._runs.extend(table)
        self._lengths.extend(runs)
        if self._columns.time is not None:
            times = _whole(table[self._columns.time].slice(0, SAMPLE))
            self._others.extend(time_numbers(times, self._runs.rows - len(table)), runs[:SAMPLE])
        for column in self._values:
            column.extend(_whole(table[column.name]), runs, self._others)


class Lengths:
    """How long the series are."""

    def __init__(self, window: int | None) -> None:
        self._window = window or 0
        self._open = 0
        self._last = 0
        self._counts = dict.fromkeys(("rows", "series", "single", "short", "short rows"), 0)

    def extend(self, runs: NDArray[np.int64]) -> None:
        """Take further rows, with how many series came before each row's."""
        lengths = np.bincount(runs - self._last)
        lengths[0] += self._open
        self._close(self._counts, lengths[:-1])
        self._open, self._last = int(lengths[-1]), int(runs[-1])

    def _close(self, counts: dict[str, int], lengths: NDArray[np.int64]) -> None:
        """Count series that have ended."""
        short = lengths[lengths < self._window]
        counts["rows"] += int(lengths.sum())
        counts["series"] += lengths.size
        counts["single"] += int(np.count_nonzero(lengths == 1))
        counts["short"] += short.size
        counts["short rows"] += int(short.sum())

    def findings(self) -> list[Finding]:
        """Return what is to know of the series."""
        if not self._open:
            return [Finding("empty", None, "note", "0 rows", "There is nothing to release.", "Check the input.")]
        seen = dict(self._counts)
        self._close(seen, np.array([self._open]))
        if seen["single"] == seen["series"]:
            what = f"each of the {seen['series']:,} series has 1 row"
            meaning = "A single value has nothing to trade places with: the release would equal the input."
            return [Finding("single", None, "useless", what, meaning, "Name fewer columns in `by`.")]
        if not seen["short"]:
            return []
        share = seen["short"] / seen["series"]
        what = (
            f"{seen['short']:,} of {seen['series']:,} series ({seen['short rows']:,} of {seen['rows']:,} rows) "
            f"are shorter than the window of {self._window}"
        )
        meaning = (
            "Their values can trade places only within what there is, so fewer moments are possible for each."
        )
        advice = "Choose a smaller window, or leave such series out if that is too little."
        return [Finding("short", None, "warning" if share >= 0.5 else "note", what, meaning, advice)]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
