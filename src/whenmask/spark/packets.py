"""Rows on their way to their bucket and back: as bytes, so that nothing on the way can change a type.

Spark hands state to Python through pandas, which has no nulls in whole numbers, no nested types and no
microseconds of its own. A packet holds the rows of one bucket from one stretch of a partition, as Arrow writes
them; it is also why a stream makes few round trips.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from whenmask.columns import Columns, number_series, time_numbers
from whenmask.keystream import Context, Series
from whenmask.spark.faults import fit_to_show
from whenmask.spark.pools import packed, unpacked

# Rows that are packed together, and a packet's columns.
STRETCH = 1 << 17
PACKETS = StructType(
    [
        StructField("bucket", IntegerType()),
        StructField("clock", LongType()),
        StructField("part", IntegerType()),
        StructField("number", IntegerType()),
        StructField("rows", BinaryType()),
        StructField("count", LongType()),
        StructField("without_id", LongType()),
        StructField("without_time", LongType()),
    ]
)
SENT = pa.schema(
    [
        ("bucket", pa.int32()),
        ("clock", pa.int64()),
        ("part", pa.int32()),
        ("number", pa.int32()),
        ("rows", pa.binary()),
        ("count", pa.int64()),
        ("without_id", pa.int64()),
        ("without_time", pa.int64()),
    ]
)


def bucket_of(series: Series, buckets: int) -> int:
    """Return the bucket of a series, the same in every process, on every machine and in every version.

    Example:
        >>> bucket_of("meter 7", 64), bucket_of(7, 64)
        (17, 23)
    """
    return zlib.crc32(Context("", series, "").encode()) % buckets


@dataclass(frozen=True)
class Packing:
    """Turns rows into packets.

    Attributes:
        columns: The roles of the columns.
        rows: The columns that are packed.
        buckets: How many buckets there are.
        ticks: Microseconds per unit of time, None if times are no moments.
        drop_invalid: Whether rows without id or time are dropped and counted.
    """

    columns: Columns
    rows: pa.Schema
    buckets: int
    ticks: int | None
    drop_invalid: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of a partition."""
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        first = 0
        with fit_to_show():
            for number, rows in enumerate(stretches(batches)):
                yield self.packed(rows, first, (part, number))
                first += rows.num_rows

    def packed(self, rows: pa.RecordBatch, first: int, place: tuple[int, int]) -> pa.RecordBatch:
        """Return the rows as packets; the row `first` in the partition is their first."""
        rows = pa.RecordBatch.from_arrays(
            [rows.column(field.name).cast(field.type) for field in self.rows], schema=self.rows
        )
        came = rows.num_rows
        no_id = no_time = 0
        if self.drop_invalid:
            rows, no_id, no_time = self._valid(rows)
        packets: list[dict[str, int | bytes | None]] = []
        if rows.num_rows:
            packets += self._split(rows, first)
        if came > rows.num_rows:
            packets.append({"bucket": 0, "count": 0, "without_id": no_id, "without_time": no_time})
        for packet in packets:
            packet["part"], packet["number"] = place
        return pa.RecordBatch.from_pylist(packets, schema=SENT)

    def _valid(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int, int]:
        """Return the rows with id and time, and how many had no id, and how many of the others no time."""
        missing = [_missing(rows.column(name)) for name in self.columns.by]
        no_id = np.logical_or.reduce(missing) if missing else np.zeros(rows.num_rows, dtype=np.bool_)
        no_time = ~no_id & _missing(rows.column(self.columns.time))
        if no_id.any() or no_time.any():
            rows = rows.filter(pa.array(~(no_id | no_time)))
        return rows, int(no_id.sum()), int(no_time.sum())

    def _split(self, rows: pa.RecordBatch, first: int) -> Iterator[dict[str, int | bytes | None]]:
        numbers, series = number_series([rows.column(name) for name in self.columns.by], rows.num_rows, first)
        times = time_numbers(rows.column(self.columns.time), first)
        clock = None if self.ticks is None else int(times.max()) * self.ticks
        buckets = np.array([bucket_of(one, self.buckets) for one in series], dtype=np.int64)[numbers]
        order = np.argsort(buckets, kind="stable")
        rows, buckets = rows.take(pa.array(order)), buckets[order]
        starts = np.append(0, np.flatnonzero(np.diff(buckets)) + 1)
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), buckets.size], strict=True):
            content = packed(rows.slice(start, stop - start))
            yield {"bucket": int(buckets[start]), "clock": clock, "rows": content, "count": stop - start}


def stretches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows in fewer, larger batches."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= STRETCH:
            yield pa.concat_batches(held)
            held = []
    if any(one.num_rows for one in held):
        yield pa.concat_batches(held)


def _missing(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True)
class Unpacking:
    """Turns released packets into rows."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the packets of a partition."""
        for batch in batches:
            for rows in batch.column("packet"):
                if rows.is_valid:
                    yield unpacked(rows.as_buffer(), self.schema)
