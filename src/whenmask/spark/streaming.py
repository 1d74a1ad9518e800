"""Releasing a stream on Spark: Structured Streaming with `transformWithState`, over buckets of series.

Every micro-batch is packed by bucket, each bucket takes up its state, takes its rows, and leaves what it decides
and its new state, sealed. Spark commits offsets, state and output together: after a crash it hands the same rows
to the same state again, and since plans are addressed by key, run and series, the same release comes out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation writes it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from whenmask.columns import ColumnNames, Columns
from whenmask.errors import ParameterError, WhenmaskError, whole_number
from whenmask.files.duration import parsed_window
from whenmask.keystream import Key
from whenmask.mechanisms import Temporal
from whenmask.spark.buckets import Bucket, Counts
from whenmask.spark.checkpoint import Checkpoint, Terms
from whenmask.spark.courses import Flow
from whenmask.spark.faults import fit_to_show, unwarned
from whenmask.spark.keys import Carried
from whenmask.spark.packets import PACKETS, Packing, Unpacking
from whenmask.spark.pools import packed, unpacked
from whenmask.spark.tables import Table, named

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
METRICS = "whenmask"
ARRIVED = ("rows", "without_id", "without_time")
DECIDED = StructType(
    [StructField("packet", BinaryType())]
    + [StructField(name, LongType()) for name in (*ARRIVED, *(field.name for field in fields(Counts)))]
)
DURATION_HINT = "give a duration such as 10m, 24h or 7d"


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How a stream is handled.

    Attributes:
        buckets: How many buckets the series are spread over: a few per core that will ever work on them. Fixed for
            the life of a checkpoint.
        delay: How late a row may come, as "10m": rows wait so long behind the latest time seen, and are sorted.
            Without it rows go on as they come, sorted within a micro-batch only.
        idle: A series ends after so long without a row, as "7d": where the time of its next row, or the latest of
            the whole stream (less the `delay`), is later by more. Longer than any series may lag behind the
            others, and than many windows: values trade places only within a series.
        end: A column of booleans. Where it is true, the row is no reading: it ends its series.
        drop_invalid: Drop and count rows without id or time, rather than fail.
    """

    buckets: int = 64
    delay: str | None = None
    idle: str | None = None
    end: str | None = None
    drop_invalid: bool = False

    @property
    def sorts(self) -> bool:
        """Whether rows wait for earlier ones."""
        return self.delay is not None

    @property
    def mode(self) -> str:
        """What Spark calls the clock that state is kept by."""
        return "None" if self.delay is None and self.idle is None else "EventTime"


@dataclass(frozen=True)
class Work:
    """What a worker must know of a stream; it can be sent, and shows no key.

    Attributes:
        mechanism: The mechanism.
        carried: The key.
        run: The run id.
        columns: The roles of the columns.
        schema: The columns, the marker aside.
        end: The column that marks the end of a series.
        idle: After how many microseconds without a row a series ends.
        sorts: Whether rows wait for earlier ones.
        ticks: Microseconds per unit of time, None where nothing depends on how far the stream is.
    """

    mechanism: Temporal
    carried: Carried
    run: str
    columns: Columns
    schema: pa.Schema
    end: str | None
    idle: int | None
    sorts: bool
    ticks: int | None

    def flow(self) -> Flow:
        """Return the same for buckets."""
        idle = None if self.idle is None or self.ticks is None else self.idle // self.ticks
        key, sorts = self.carried.key, self.sorts
        return Flow(self.mechanism, key, self.run, self.columns, self.schema, self.end, sorts=sorts, idle=idle)

    def horizon(self, watermark: int) -> int | None:
        """Return a watermark in ms as a time; None before there is one."""
        return None if self.ticks is None or watermark <= 0 else watermark * 1000 // self.ticks

    def timer(self, due: int, watermark: int) -> int:
        """Return the watermark in ms at which a time has come: a later one than now."""
        return max(-(-due * (self.ticks or 1) // 1000), watermark + 1)


class Releasing(StatefulProcessor):
    """Releases the rows of buckets; Spark keeps a bucket's sealed state, and when it wants to be called again."""

    def __init__(self, work: Work) -> None:
        self._work = work

    @cached_property
    def _flow(self) -> Flow:
        return self._work.flow()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Ask for the state."""
        self._handle = handle
        self._state = handle.getValueState("bucket", "sealed BINARY, due LONG")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: "TimerValues",  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Release what the rows of a bucket decide."""
        with fit_to_show():
            packets = pd.concat(rows).sort_values(["part", "number"], kind="stable")
            arrived = {
                name: int(packets[name].fillna(0).sum()) for name in ("count", "without_id", "without_time")
            }
            arrived["rows"] = sum(arrived.values())
            del arrived["count"]
            contents = [bytes(rows) for rows in packets["rows"] if rows is not None]
            yield self._released(int(key[0]), contents, timerValues, arrived)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: "TimerValues",  # noqa: N803
        expiredTimerInfo: "ExpiredTimerInfo",  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Release what time has decided."""
        with fit_to_show():
            yield self._released(int(key[0]), [], timerValues, {}, expiredTimerInfo.getExpiryTimeInMs())

    def _released(
        self,
        number: int,
        contents: Iterable[bytes],
        clock: "TimerValues",
        arrived: dict[str, int],
        expired: int | None = None,
    ) -> pd.DataFrame:
        """Take up a bucket, hand it rows, keep its state, and return what it releases."""
        flow = self._flow
        sealed, due = self._state.get() or (None, None)
        bucket = Bucket(flow, number, None if sealed is None else bytes(sealed))
        batches = [unpacked(rows, flow.rows) for rows in contents]
        watermark = clock.getCurrentWatermarkInMs()
        released, counts = bucket.push(batches, horizon=self._work.horizon(watermark))
        wanted = None if bucket.due is None else self._work.timer(bucket.due, watermark)
        self._state.update((bucket.sealed(), wanted))
        if wanted != due:
            if due is not None and due != expired:
                self._handle.deleteTimer(due)
            if wanted is not None:
                self._handle.registerTimer(wanted)
        counted = {**dict.fromkeys(ARRIVED, 0), **arrived, **asdict(counts)}
        packet = packed(released) if released.num_rows else None
        return pd.DataFrame({"packet": pd.Series([packet], dtype=object), **{n: [c] for n, c in counted.items()}})

    def close(self) -> None:
        """Nothing is left to do."""


def release_stream(
    frame: DataFrame,
    mechanism: Temporal,
    /,
    *,
    key: Key,
    checkpoint: str,
    run: str | None = None,
    options: StreamOptions = StreamOptions(),
    **columns: Unpack[ColumnNames],
) -> "DataStreamWriter":
    """Release a stream, ready to be written: `release_stream(…).format("parquet").option("path", …).start()`.

    Rows leave when their slot is decided, in the order of their series. Values that wait are kept, sealed, in the
    checkpoint, to which the run id belongs: a restart goes on with the same release, exactly once where the sink
    can (files, tables). Rows whose series has taken a later one are dropped and counted, as are rows at a time at
    which there was one. All counts are in the metric `whenmask` of the progress of the query.

    Args:
        frame: A streaming data frame.
        mechanism: The mechanism.
        key: The secret; a restart needs it again.
        checkpoint: The folder for Spark's checkpoint, which the writer is given. Any file system that Spark knows.
        run: The run id of a fresh checkpoint; a fresh one by default.
        options: How rows that are late, doubled or missing are handled.
        **columns: The roles of the columns, as for `mechanism.release`; `by` and `time` must be given.

    Raises:
        ParameterError: The columns or options do not fit the table, or are others than those of the checkpoint.
        DataError: Ids or times are of types that cannot be.
        FileError: The checkpoint cannot be used.
    """
    table = _checked(frame, options, Columns.named(**columns))
    ticks = None if options.mode == "None" else _ticks(table)
    idle = None if options.idle is None else _nanoseconds("idle", options.idle) // 1000
    delay = 0 if options.delay is None else _nanoseconds("delay", options.delay) // 10**6
    if idle is not None and ticks is not None and idle < ticks:
        raise ParameterError("`idle` must be at least one step of the times", repr(options.idle), DURATION_HINT)
    session = frame.sparkSession
    run = Checkpoint(session, checkpoint).run(_terms(table, mechanism, options), key, run)
    schema = pa.schema([field.with_nullable(True) for field in table.arrow()])
    work = Work(
        mechanism, Carried(key), run, table.columns, schema, options.end, idle, sorts=options.sorts, ticks=ticks
    )
    flow = work.flow()
    packing = Packing(table.columns, flow.rows, options.buckets, ticks, options.drop_invalid)
    session.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    decided = _decided(table.mapped(frame, packing, PACKETS), work, options, delay)
    released = table.mapped(decided, Unpacking(schema), table.schema(once=flow.memory is None))
    return released.writeStream.outputMode("append").option("checkpointLocation", checkpoint)


def _checked(frame: DataFrame, options: StreamOptions, columns: Columns) -> Table:
    """Return the stream as a table, if it can be released."""
    table = Table(_without_marker(frame, options), columns)
    whole_number("buckets", options.buckets, least=1, hint="64 are plenty for a few cores")
    if not frame.isStreaming:
        hint = "use release for a table, or read it with spark.readStream"
        raise ParameterError("the data frame must be a stream", "a table", hint)
    if not table.columns.by:
        raise ParameterError("`by` must be given for a stream", "none", "name the columns that name the series")
    return table


def _terms(table: Table, mechanism: Temporal, options: StreamOptions) -> Terms:
    """Return what a restart must not change."""
    return Terms(
        mechanism=mechanism.identity,
        columns=table.columns,
        types=table.frame.schema.simpleString(),
        buckets=options.buckets,
        end=options.end,
        sorts=options.sorts,
        ends=options.idle is not None,
    )


def _decided(packets: DataFrame, work: Work, options: StreamOptions, delay: int) -> DataFrame:
    """Return what buckets release, with all that is counted observed."""
    if work.ticks is not None:
        # The clock tells Spark how far the stream is; without it in sight, Spark drops no packet as late.
        moments = packets.withColumn("clock", F.timestamp_micros("clock"))
        packets = moments.withWatermark("clock", f"{delay} milliseconds").drop("clock")
    with unwarned():
        decided = packets.groupBy("bucket").transformWithStateInPandas(
            Releasing(work), DECIDED, "Append", options.mode
        )
    found = [(F.max if name == "longest" else F.sum, name) for name in DECIDED.names[1:]]
    counts = [F.coalesce(total(name), F.lit(0)).alias(name) for total, name in found]
    return decided.observe(METRICS, *counts).select("packet")


def _without_marker(frame: DataFrame, options: StreamOptions) -> DataFrame:
    """Return the rows without the column that marks the end of a series."""
    if options.end is None or not isinstance(frame, DataFrame):
        return frame
    kind = dict(frame.dtypes).get(options.end)
    if kind != "boolean":
        hint = "it is true where a series ends"
        raise ParameterError(
            "`end` must name a column of booleans", f"end={options.end!r}, {kind or 'missing'}", hint
        )
    return frame.drop(named(options.end))


def _ticks(table: Table) -> int:
    """Return the microseconds per unit of time."""
    kind = table.arrow().field(table.time).type
    if pa.types.is_timestamp(kind):
        return 1
    if pa.types.is_date(kind):
        return 86_400 * 10**6
    hint = "leave them out, or make the time a timestamp"
    raise ParameterError("`delay` and `idle` need times that are dates or timestamps", f"type {kind}", hint)


def _nanoseconds(name: str, asked: str) -> int:
    """Return a duration."""
    try:
        _, duration = parsed_window(asked)
    except (WhenmaskError, AttributeError):
        duration = None
    if duration is None:
        raise ParameterError(f"`{name}` must be a duration", repr(asked)[:40], DURATION_HINT)
    return duration
