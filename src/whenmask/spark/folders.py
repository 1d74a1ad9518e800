"""Releasing Parquet files on Spark as files are released: all of it or nothing, with receipt and ledger."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation writes it

from whenmask.batches import Plans
from whenmask.columns import Columns
from whenmask.errors import DataError, FileError
from whenmask.files.account import Account, Written
from whenmask.files.duration import WINDOW_HINT, Steps, parsed_window
from whenmask.files.places import format_of, found_files, workplace
from whenmask.files.releasing import LEDGER, Job
from whenmask.files.writing import exists, place_file, written_error
from whenmask.ledger import Ledger
from whenmask.mechanisms import Temporal
from whenmask.receipt import Receipt, digest_of, receipt_of
from whenmask.spark.batch import sorted_rows
from whenmask.spark.faults import plain_errors
from whenmask.spark.keys import Carried
from whenmask.spark.tables import NO_ID, NO_TIME, REPEATED, Table, named
from whenmask.spark.tally import Secrets, Sum, Summing, Tallied

SHOWN = 6
REASONS = {NO_ID: "without an id", NO_TIME: "without a time", REPEATED: "at a repeated time"}


class Inputs:
    """Parquet files as one table.

    Attributes:
        files: The files.
        table: The table.
    """

    def __init__(self, session: SparkSession, sources: Sequence[str], columns: Columns) -> None:
        """Open files.

        Raises:
            FileError: A file is not there, or is not Parquet.
            ParameterError: The columns do not fit the table.
        """
        self.files = found_files(sources)
        for file in self.files:
            if format_of(file) != "parquet":
                hint = "Parquet says what its columns are, which text does not; convert it, or leave --engine out"
                raise FileError("on Spark the input must be Parquet", repr(file.name), hint)
        try:
            frame = session.read.parquet(*(file.as_uri() for file in self.files))
            self.table = Table(frame, columns)
        except (PySparkException, Py4JJavaError) as error:
            hint = "the files may be damaged, or their types may not go together"
            raise DataError("the input cannot be read", type(error).__name__, hint) from None

    def window(self, asked: str) -> int:
        """Return a window as a count of timestamps; a duration by the regular step of the series.

        Raises:
            ParameterError: The window is neither a count nor a duration.
            DataError: The steps are irregular, or differ between series.
        """
        count, duration = parsed_window(asked)
        return count if count is not None else self._steps().count(duration or 0)

    def _steps(self) -> Steps:
        """Find the differences between neighbouring times, within series and over all."""
        table = self.table
        kind = table.arrow().field(table.time).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise DataError("a duration needs times that are dates or timestamps", f"type {kind}", WINDOW_HINT)
        by = [table.key_of(name).alias(str(place)) for place, name in enumerate(table.columns.by)]
        ticks = F.unix_micros(named(table.time).cast("timestamp")).alias("ticks")
        valid = table.frame.where(~table.missing(table.slots)).select(*by, ticks)
        series = [named(str(place)) for place in range(len(by))]
        before = F.lag("ticks").over(Window.partitionBy(*series).orderBy("ticks"))
        steps = valid.withColumn("step", (F.col("ticks") - before) * 1000).where("step > 0")
        counted = steps.groupBy(*series, "step").agg(F.count(F.lit(1)).alias("times")).cache()
        try:
            return _found_steps(counted, series)
        finally:
            counted.unpersist()


def _found_steps(counted: DataFrame, series: list[Any]) -> Steps:
    """Return the steps from how often each occurs in each series."""
    totals = counted.groupBy("step").agg(F.sum("times").alias("times"))
    most = [(row["step"], row["times"]) for row in totals.orderBy(F.desc("times"), "step").limit(SHOWN).collect()]
    step = most[0][0] if most else 1
    larger = F.sum(F.when((F.col("step") > step) & (F.col("step") % step == 0), F.col("times")).otherwise(0))
    ((total, gaps),) = totals.agg(F.sum("times"), larger).collect()
    usual = counted.groupBy(*series).agg(F.max_by("step", "times").alias("step"), F.sum("times").alias("times"))
    each = usual.where("times > 1").groupBy("step").count().orderBy(F.desc("count"), "step").limit(SHOWN).collect()
    return Steps(tuple(most), total or 0, gaps or 0, tuple((row["step"], row["count"]) for row in each))


def release_folder(inputs: Inputs, mechanism: Temporal, job: Job) -> Receipt:
    """Release a table to a folder of Parquet files; there is all of it, with its receipt, or nothing.

    The folder must be on a file system that all executors share. Each of its files holds whole series, sorted by
    series and time.

    Raises:
        DataError: The rows cannot be released, or are not those that the run id stands for.
        FileError: A file cannot be read or written.
    """
    check_output(job, inputs.files)
    ledger = Ledger(job.ledger or job.output.parent / LEDGER)
    with workplace(job.output.parent) as place:
        try:
            account = _written(inputs, mechanism, job, place / "part", ledger)
            size, digest = digest_of(place / "part")
            made = account.receipt(job.key, job.run, Written(job.output.name, size, digest))
            (place / "receipt").write_text(made.to_json(), encoding="utf-8")
            ledger.record(account.entry(made, job.key, ledger))
            if job.output.exists():
                if not job.force:
                    raise exists(job.output)
                job.output.rename(place / "before")
            place_file(place / "receipt", receipt_of(job.output), force=True)
            (place / "part").rename(job.output)
        except OSError as error:
            raise written_error(error) from None
    return made


def check_output(job: Job, inputs: Sequence[Path]) -> None:
    """Refuse an output that cannot or must not be written, before any work is done.

    Raises:
        FileError: It is there already, or holds one of the inputs.
    """
    output = job.output
    if not output.parent.is_dir():
        hint = "make the folder first"
        raise FileError("the folder of the output is not there", repr(str(output.parent)), hint)
    place = output.resolve()
    if any(path == place or place in path.parents for path in inputs):
        hint = "the original would be lost, or be read as part of itself"
        raise FileError("the output must not be one of the inputs", repr(output.name), hint)
    if output.exists() and job.force and not receipt_of(output).exists():
        hint = "only what was released can be overwritten; delete it, or choose another name"
        raise FileError("the output is there already, and without a receipt", repr(output.name), hint)
    if not job.force:
        for path in (output, receipt_of(output)):
            if path.exists():
                raise exists(path)


def _tidy(part: Path) -> None:
    """Name the files by their order alone, so that a repeated run makes the very same folder."""
    for checksum in part.glob(".*.crc"):
        checksum.unlink()
    for number, file in enumerate(sorted(part.glob("*.parquet"))):
        file.rename(part / f"part-{number:05}.parquet")


def _written(inputs: Inputs, mechanism: Temporal, job: Job, part: Path, ledger: Ledger) -> Account:
    """Write the released rows; return the account of them."""
    table, session = inputs.table, inputs.table.frame.sparkSession
    once = Plans(mechanism, key=job.key, run=job.run).once
    secrets = Secrets(job.key.derive(b"rows on spark"), bytes.fromhex(ledger.fingerprint(b"rows on spark")))
    total = session.sparkContext.accumulator(Sum(), Summing())
    task = Tallied(mechanism, table.columns, Carried(job.key), job.run, once, secrets, total)
    seen = Observation("rows") if job.drop_invalid else None
    rows = sorted_rows(table, drop_invalid=job.drop_invalid, observation=seen)
    released = table.mapped(rows, task, table.schema(once=once))
    with plain_errors():
        options = {"compression": "zstd", "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
        released.write.options(**options).parquet(part.resolve().as_uri())
    _tidy(part)
    counts: Sum = total.value
    dropped = None if seen is None else {told: int(seen.get[reason]) for reason, told in REASONS.items()}
    return Account(
        mechanism=mechanism,
        columns=table.columns,
        files=len(inputs.files),
        rows=counts.rows,
        series=counts.series,
        dropped=dropped,
        content=counts.content.to_bytes(32, "little"),
        slots=counts.slots.to_bytes(32, "little"),
        engine=(("pyspark", pyspark.__version__),),
    )
