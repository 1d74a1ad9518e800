"""Release a stream on Spark: files of readings come into a folder, files of released readings come out.

    export WHENMASK_KEY=$(cat secret.key)          # made by `whenmask key secret.key`
    python examples/spark_streaming.py readings released checkpoint

The readings are Parquet files with the columns meter, time and kwh; `ended` is true in a row that only says that
its meter has been taken down. Stop the program as you like, even with `kill -9`: started again, it goes on where
it was, and the files in `released` are the same as if it had never stopped.
"""

import argparse
import json
import os
import sys

from pyspark.sql import SparkSession

from whenmask import PureSwitch
from whenmask.spark import StreamOptions, key_from_environment, plain_errors, release_stream

SCHEMA = "meter long, time timestamp, kwh double, ended boolean"


def main() -> None:
    parser = argparse.ArgumentParser(description="Release a stream of meter readings.")
    for name in ("readings", "released", "checkpoint"):
        parser.add_argument(name)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--once", action="store_true", help="end when all files that are there have been taken")
    asked = parser.parse_args()

    # On one machine the workers run in this Python; on a cluster, name the one that has whenmask.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master(asked.master)
        .appName("release meter readings")
        .config("spark.sql.shuffle.partitions", 2)  # as many as cores; the buckets are spread over them
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    readings = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(asked.readings)
    options = StreamOptions(
        buckets=8,
        delay="2h",  # a reading may come two hours late: it is sorted in
        idle="7d",  # a meter that has been silent for a week has ended
        end="ended",
        drop_invalid=True,  # counted, as all that happens
    )
    writer = release_stream(
        readings,
        PureSwitch(4, window=48),
        by="meter",
        time="time",
        key=key_from_environment(),
        checkpoint=asked.checkpoint,
        options=options,
    )
    query = writer.format("parquet").option("path", asked.released)
    query = query.trigger(availableNow=True) if asked.once else query.trigger(processingTime="10 seconds")
    with plain_errors():
        running = query.start()
        while not running.awaitTermination(5):
            show(running.lastProgress)
        show(running.lastProgress)


def show(progress: object) -> None:
    """Print what happened in the last micro-batch."""
    if progress:
        counts = progress.observedMetrics.get("whenmask")
        print(progress.batchId, json.dumps(counts.asDict()) if counts else "nothing", flush=True)


if __name__ == "__main__":
    main()
