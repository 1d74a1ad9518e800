"""Releasing on Spark, beside the same jobs with an identity in place of the mechanism, on two cores, in one run.

Targets: a table of 10^7 rows in 10^4 series in at most 1.5 times the time of its job with an identity function; a
stream in at most twice the time of a stateful job that keeps a count and lets rows through: once as one writes it
with Spark alone, through pandas, and once with the packets of whenmask.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.timing import Row, interleaved
from whenmask import Key, PureSwitch, RanSwitch
from whenmask.spark import release, release_stream, streaming
from whenmask.spark.pools import packed, unpacked
from whenmask.spark.streaming import DECIDED, Releasing

KEY = Key.for_testing(1)
SERIES = int(os.environ.get("WHENMASK_BENCH_SERIES", "10000"))
LENGTH = 1_000
# Each micro-batch brings so many rows of so many series.
STREAMED = int(os.environ.get("WHENMASK_BENCH_STREAMED", "50000"))
PER_SERIES = 5
BATCHES = 4
MECHANISMS = {"RanSwitch": RanSwitch(4, window=48), "PureSwitch": PureSwitch(4, window=48)}


def session() -> SparkSession:
    """Return a session on two cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 4)
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    made = builder.config("spark.driver.memory", "4g").getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def measure() -> list[Row]:
    """Compare tables and streams with identities."""
    spark = session()
    try:
        return [*tables(spark), *streams(spark)]
    finally:
        spark.stop()


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Let rows through."""
    yield from batches


def tables(spark: SparkSession) -> list[Row]:
    """Read, spread, sort, release and count 10^7 rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/readings.parquet"
        row = F.col("id")
        readings = spark.range(SERIES * LENGTH).select(
            (row % SERIES).alias("meter"),
            F.timestamp_seconds(1_700_000_000 + F.floor(row / SERIES) * 1800).alias("time"),
            (F.hash(row) / 1000).alias("kwh"),
        )
        readings.write.parquet(path)
        frame = spark.read.parquet(path)
        spread = frame.repartition("meter").sortWithinPartitions("meter", "time")
        jobs: dict[str, Callable[[], object]] = {
            "identity": lambda: written(spread.mapInArrow(same, frame.schema)),
        }
        for name, mechanism in MECHANISMS.items():
            released = release(frame, mechanism, by="meter", time="time", key=KEY)
            jobs[name] = lambda released=released: written(released)
        times = interleaved(jobs, rounds=3)
    base = times.pop("identity")
    rows = [Row(f"table, {SERIES * LENGTH:,} rows: identity", base[0], "s", None, base[1])]
    for name, (best, median) in times.items():
        rows.append(Row(f"table, {name} / identity", best / base[0], "ratio", 1.5, median / base[1]))
    return rows


def written(frame: DataFrame) -> None:
    """Make all rows, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


class Through(StatefulProcessor):
    """Counts the rows of a bucket, and lets them through."""

    def init(self, handle: Any) -> None:
        """Ask for the state."""
        self._state = handle.getValueState("count", "count LONG")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        """Count and pass on."""
        (count,) = self._state.get() or (0,)
        for frame in rows:
            count += len(frame)
            yield frame
        self._state.update((count,))

    def close(self) -> None:
        """Nothing is left to do."""


class Counting(Releasing):
    """Does all that a release does, but for the release: opens packets, keeps a count, and packs rows again."""

    def init(self, handle: Any) -> None:
        """Ask for the state."""
        self._state = handle.getValueState("bucket", "sealed BINARY, due LONG")

    def _released(self, _number: int, contents: Any, *_: Any) -> pd.DataFrame:
        """Let rows through."""
        _, count = self._state.get() or (None, 0)
        rows = pa.concat_batches([unpacked(content, self._work.schema) for content in contents])
        self._state.update((b"", count + rows.num_rows))
        counts = {name: [0] for name in DECIDED.names[1:]}
        return pd.DataFrame({"packet": pd.Series([packed(rows)], dtype=object), **counts})


def streams(spark: SparkSession) -> list[Row]:
    """Time the micro-batches of a stream."""
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "in")
        schema = spark.read.parquet(str(folder / "in")).schema
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        bucketed = frame.withColumn("bucket", F.pmod(F.xxhash64("meter"), F.lit(64)).cast("int"))
        through = bucketed.groupBy("bucket").transformWithStateInPandas(Through(), schema, "Append", "None")
        plain = through.writeStream.outputMode("append").option("checkpointLocation", str(folder / "plain"))
        found = {"identity": micro_batches(plain)}
        for kind, mechanism in MECHANISMS.items():
            checkpoint = str(folder / f"checkpoint of {kind}")
            writer = release_stream(
                frame,
                mechanism,
                by="meter",
                time="time",
                key=KEY,
                checkpoint=checkpoint,
            )
            found[kind] = micro_batches(writer)
        with replaced(Counting):
            checkpoint = str(folder / "checkpoint of packets")
            writer = release_stream(
                frame, MECHANISMS["RanSwitch"], by="meter", time="time", key=KEY, checkpoint=checkpoint
            )
        packets = micro_batches(writer)
    base = found.pop("identity")
    count = STREAMED * PER_SERIES
    rows = [Row(f"stream, {count:,} rows a micro-batch: identity", base[0], "s", None, base[1])]
    for kind, (best, median) in found.items():
        rows.append(Row(f"stream, {kind} / identity", best / base[0], "ratio", 2.0, median / base[1]))
        rows.append(
            Row(f"stream, {kind} / identity in packets", best / packets[0], "ratio", 2.0, median / packets[1])
        )
    return rows


@contextmanager
def replaced(processor: type[Releasing]) -> Iterator[None]:
    """Let streams be made with another processor."""
    before = streaming.Releasing
    streaming.Releasing = processor  # type: ignore[misc]
    try:
        yield
    finally:
        streaming.Releasing = before  # type: ignore[misc]


def fill(folder: Path) -> None:
    """Write the files of a stream, one for each micro-batch."""
    folder.mkdir()
    generator = np.random.default_rng(1)
    for batch in range(BATCHES):
        slots = np.repeat(np.arange(PER_SERIES) + batch * PER_SERIES, STREAMED)
        times = np.datetime64("2024-01-01", "us") + slots * np.timedelta64(30, "m")
        meters = np.tile(np.arange(STREAMED), PER_SERIES)
        table = pa.table(
            {
                "meter": meters,
                "time": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "kwh": generator.random(slots.size),
            }
        )
        path = folder / f"{batch}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + batch,) * 2)


def micro_batches(writer: Any) -> tuple[float, float]:
    """Run a stream; return the best and median seconds of its micro-batches but the first."""
    query = writer.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = [
        progress.durationMs["addBatch"] / 1000 for progress in query.recentProgress if progress.numInputRows
    ][1:]
    return min(seconds), statistics.median(seconds)
