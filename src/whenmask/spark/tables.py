"""Spark's tables as the engine sees them: roles, types, and the rows that cannot be released."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation writes it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, FloatType, StringType, StructField, StructType

from whenmask.columns import Columns, series_ids, time_numbers
from whenmask.errors import DataError, DependencyError, ParameterError
from whenmask.files.sql import unused
from whenmask.spark.faults import unwarned

Batches: TypeAlias = Iterator[pa.RecordBatch]

# Why rows cannot be released.
NO_ID, NO_TIME, REPEATED = "without_id", "without_time", "repeated_time"


@dataclass(frozen=True)
class Named:
    """A worker's task that sees its columns by name: Spark cannot send columns with dots in their names."""

    task: Callable[[Batches], Batches]
    names: tuple[str, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Do the task."""
        return self.task(batch.rename_columns(self.names) for batch in batches)


class Table:
    """A data frame and the roles of its columns.

    Attributes:
        frame: The data frame.
        columns: The roles; every column has one.
    """

    def __init__(self, frame: DataFrame, columns: Columns) -> None:
        """Check what can be checked before a job runs.

        Raises:
            ParameterError: The columns do not fit the table.
            DataError: Ids or times are of types that cannot be.
        """
        if not isinstance(frame, DataFrame):
            hint = "give a data frame of Spark; other tables go to mechanism.release"
            raise ParameterError("there must be a data frame of Spark", f"a {type(frame).__name__}", hint)
        if not hasattr(frame, "_jdf"):
            hint = "start a classic session: SparkSession.builder.master(…)"
            raise DependencyError("whenmask needs a classic session of Spark", "Spark Connect", hint)
        if columns.time is None:
            hint = "rows have no order on Spark: name the column that orders them"
            raise ParameterError("`time` must be given", "none", hint)
        if not _sensitive(frame.sparkSession) and len({name.lower() for name in frame.columns}) < len(
            frame.columns
        ):
            hint = "rename one of them, or set spark.sql.caseSensitive"
            raise DataError("the columns of a table must have different names", "names that differ in case", hint)
        self.frame = frame
        self.columns = columns.fitted(frame.columns)
        schema = self.arrow()
        for name in self.columns.by:
            series_ids(pa.array([], schema.field(name).type))
        time_numbers(pa.array([], schema.field(columns.time).type))

    @property
    def time(self) -> str:
        """The column that orders the slots of a series."""
        return self.columns.time or ""

    @property
    def slots(self) -> tuple[str, ...]:
        """The columns that name a slot."""
        return (*self.columns.by, self.time)

    def arrow(self) -> pa.Schema:
        """Return the schema as workers see it."""
        try:
            return to_arrow_schema(self.frame.schema, timezone="UTC")
        except PySparkException:
            hint = "leave it out, or cast it to a type that Arrow has"
            raise DataError("a column is of a type that cannot be sent to workers", hint=hint) from None

    def schema(self, *, once: bool) -> StructType:
        """Return the schema of the released rows: slots of mechanisms that leave some empty may be null."""
        fields = self.frame.schema.fields
        return StructType([field if once else self._opened(field) for field in fields])

    def _opened(self, field: StructField) -> StructField:
        nullable = field.nullable or field.name in self.columns.moving
        return StructField(field.name, field.dataType, nullable, field.metadata)

    def key_of(self, name: str) -> Column:
        """Return an id so that one series is one value, as 0.0 and −0.0, and two are two in any collation."""
        kind, column = self.frame.schema[name].dataType, named(name)
        if isinstance(kind, FloatType | DoubleType):
            return column + F.lit(0.0).cast(kind)
        if isinstance(kind, StringType) and not kind.isUTF8BinaryCollation():
            return column.cast("binary")
        return column

    def missing(self, names: Sequence[str]) -> Column:
        """Return whether one of these columns has no value."""
        found = F.lit(False)
        for name in names:
            found = found | named(name).isNull()
            if isinstance(self.frame.schema[name].dataType, FloatType | DoubleType):
                found = found | F.isnan(named(name))
        return found

    def sorted(self, spread: DataFrame | None = None) -> DataFrame:
        """Return the rows with each series in one partition, sorted by series and time."""
        frame = self.spread() if spread is None else spread
        return frame.sortWithinPartitions(*map(self.key_of, self.columns.by), named(self.time))

    def spread(self) -> DataFrame:
        """Return the rows with each series in one partition."""
        if not self.columns.by:
            return self.frame.repartition(1)
        return self.frame.repartition(*map(self.key_of, self.columns.by))

    def reasons(self) -> DataFrame:
        """Return the rows in partitions by series, each with the reason why it cannot be released, or null."""
        slots = Window.partitionBy(*map(self.key_of, self.columns.by), named(self.time))
        reason = (
            F.when(self.missing(self.columns.by), F.lit(NO_ID))
            .when(self.missing([self.time]), F.lit(NO_TIME))
            .when(F.count(F.lit(1)).over(slots) > 1, F.lit(REPEATED))
        )
        return self.spread().withColumn(self.reason, reason)

    def mapped(self, rows: DataFrame, task: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
        """Return rows, with the columns of this table, as workers make them; see `Named`."""
        names = tuple(rows.columns)
        with unwarned():
            return rows.toDF(*map(str, range(len(names)))).mapInArrow(Named(task, names), schema)

    @property
    def reason(self) -> str:
        """A name for a further column."""
        return unused("reason", self.frame.columns)


def named(name: str) -> Column:
    """Return a column by its exact name, dots and all."""
    return F.col("`" + name.replace("`", "``") + "`")


def _sensitive(session: SparkSession) -> bool:
    return str(session.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
