"""Releasing a table on Spark: repartition by series, sort within partitions, hand the rows to the batch engine.

A series lies in one partition and streams through one worker a batch at a time, so that it may be larger than an
executor's memory. What a worker does is a function of the key, the run id and its rows alone: a retried task, a
speculative copy of it and a second evaluation of the plan release the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation writes it

from whenmask.batches import Plans, release_batches
from whenmask.columns import ColumnNames, Columns
from whenmask.keystream import Key, checked_run
from whenmask.mechanisms import Temporal
from whenmask.spark.faults import fit_to_show
from whenmask.spark.keys import Carried
from whenmask.spark.tables import NO_ID, NO_TIME, REPEATED, Table, named


@dataclass(frozen=True)
class Task:
    """What a worker does with the rows of a partition; it can be sent, and shows no key.

    Attributes:
        mechanism: The mechanism.
        columns: The roles of the columns.
        carried: The key.
        run: The run id.
        once: Whether every value is released exactly once; if not, slots may be empty.
    """

    mechanism: Temporal
    columns: Columns
    carried: Carried
    run: str
    once: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Release sorted batches."""
        with fit_to_show():
            yield from self.released(batches if self.once else map(self._opened, batches))

    def released(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Release sorted batches."""
        return release_batches(batches, self.mechanism, self.columns, key=self.carried.key, run=self.run)

    def _opened(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch whose values may be null."""
        fields = [
            field.with_nullable(True) if field.name in self.columns.moving else field for field in batch.schema
        ]
        return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def release(
    frame: DataFrame,
    mechanism: Temporal,
    /,
    *,
    key: Key | None = None,
    run: str | None = None,
    drop_invalid: bool = False,
    observation: Observation | None = None,
    **columns: Unpack[ColumnNames],
) -> DataFrame:
    """Return a table released: the same, row for row, as anywhere else with the same key and run id.

    Nothing runs before an action asks for the rows, which come out with every series in one partition, sorted by
    time. The key and the run id are fixed now: evaluating the result twice gives the same release twice, as long
    as its input is the same both times. Where an input differs from one evaluation to the next (it samples, or
    reads files that change), write it out first: two different inputs must never be released under one run id.

    Args:
        frame: The table. All series must have ids and times, and a time must occur once within a series.
        mechanism: The mechanism.
        key: The secret; a fresh one by default.
        run: Only to repeat a run on the very same input; a fresh run id by default.
        drop_invalid: Leave out rows without id or time, and all rows at a repeated time, rather than fail.
        observation: Is told the number of rows that came in (`rows`), of each kind of invalid ones
            (`without_id`, `without_time`, `repeated_time`), and of those `released`.
        **columns: The roles of the columns: `by`, `time`, `values`, `keep`, as for `mechanism.release`. `time`
        must
            be given, for rows have no order on Spark.

    Raises:
        ParameterError: The columns do not fit the table.
        DataError: Ids or times are of types that cannot be. Invalid rows raise it when the job runs; see
            `plain_errors`.
    """
    table = Table(frame, Columns.named(**columns))
    key, run = key or Key.fresh(), checked_run(run)
    once = Plans(mechanism, key=key, run=run).once
    task = Task(mechanism, table.columns, Carried(key), run, once)
    rows = sorted_rows(table, drop_invalid=drop_invalid, observation=observation)
    return table.mapped(rows, task, table.schema(once=once))


def sorted_rows(table: Table, *, drop_invalid: bool, observation: Observation | None) -> DataFrame:
    """Return the rows to be released, each series in one partition and sorted by time."""
    if not drop_invalid:
        frame = table.spread()
        if observation is not None:
            rows = F.count(F.lit(1))
            frame = frame.observe(observation, rows.alias("rows"), rows.alias("released"))
        return table.sorted(frame)
    frame, reason = table.reasons(), named(table.reason)
    if observation is not None:
        counts = [F.count_if(reason == F.lit(why)).alias(why) for why in (NO_ID, NO_TIME, REPEATED)]
        released = F.count_if(reason.isNull()).alias("released")
        frame = frame.observe(observation, F.count(F.lit(1)).alias("rows"), *counts, released)
    return table.sorted(frame.where(reason.isNull()).drop(table.reason))
