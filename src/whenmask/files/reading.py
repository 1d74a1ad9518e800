"""Reading tables larger than memory: DuckDB sorts them, within a limit, and spills what does not fit."""

import re
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from whenmask.columns import Columns, series_ids, time_numbers
from whenmask.errors import FileError, ParameterError
from whenmask.files.pipeline import Ahead
from whenmask.files.places import Format, format_of, found_files, workplace
from whenmask.files.sources import Source, bad_line, kinds_of, parquet_schema, sources_of, typed
from whenmask.files.sql import listed, quoted, unused

# What Python, the kernels and the writer take beside DuckDB, and the least that DuckDB can sort in.
ASIDE = 600 << 20
LEAST = 200 << 20
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
MEMORY_HINT = "give 1GB or more, such as 2GB; 0.6 GB of it are used beside the sort"
ROOM_HINT = "give more --memory, or a --spill folder with room for as much as the input takes uncompressed"


@dataclass(frozen=True)
class Room:
    """The room that sorting may take.

    Attributes:
        memory: How much may be used in all, such as "2GB".
        spill: A folder for rows that do not fit into memory, in the clear until the run ends.
    """

    memory: str = "2GB"
    spill: Path | None = None


class Inputs:
    """Files as one table, sorted by series and time.

    Attributes:
        asked: The roles of the columns as they were asked for, every column with one.
        files: The files, in the order in which rows are counted.
        columns: The roles of the columns of the batches, some of which may be there only to sort by.
        names: The columns of the table itself.
        types: The types of the columns, as DuckDB gives them.
        rows: How many rows there are.
        left_out: The columns that nothing is read of.
    """

    def __init__(
        self,
        sources: Sequence[str | Path],
        columns: Columns,
        room: Room,
        *,
        like: Format,
        leave_out: Sequence[str] = (),
    ) -> None:
        """Open files.

        Args:
            sources: Files, globs and folders.
            columns: The roles of the columns.
            room: The room that sorting may take.
            like: The format that is to be written. CSV that becomes CSV is not interpreted: 1.10 stays 1.10.
            leave_out: Columns to read nothing of.
        """
        self.files = found_files(sources)
        self.left_out = tuple(leave_out)
        self.connection = connected(room)
        with self.told():
            found = sources_of(self.files)
            verbatim = like == "csv" and all(source.format == "csv" for source in found)
            self._union(found, verbatim=verbatim)
            raw = self.connection.sql("FROM raw LIMIT 0")
            self.names = list(raw.columns)
            self.asked = columns.fitted(self.names)
            selection = self._typed(
                self.asked, dict(zip(self.names, map(str, raw.types), strict=True)), verbatim, like
            )
            self.connection.execute(f"CREATE TEMP VIEW rows_typed AS SELECT {listed(selection)} FROM raw")
            ((self.rows,),) = self.connection.sql("SELECT count(*) FROM raw").fetchall()
            schema = self.connection.sql("FROM rows_typed LIMIT 0").to_arrow_table().schema
            self.types = dict(zip(schema.names, schema.types, strict=True))
            self._restored = self._types_to_restore(found) if like == "parquet" else {}
            if self.rows:  # no row of text has no type
                self._check_types()

    def _union(self, sources: Sequence[Source], *, verbatim: bool) -> None:
        """Make the view of all rows, with CSV interpreted if it becomes another format."""
        queries = [source.query(self.connection) for source in sources if source.format != "csv"]
        written = [source.query(self.connection) for source in sources if source.format == "csv"]
        if written:
            rows = together(written)
            if not verbatim:
                names = self.connection.sql(f"FROM ({rows}) LIMIT 0").columns
                kinds = kinds_of(self.connection, rows, names)
                cells = [f"{typed(name, kind)} AS {quoted(name)}" for name, kind in kinds.items()]
                rows = f"SELECT {listed(cells)} FROM ({rows})"
            queries.append(rows)
        rows = f"SELECT * FROM ({together(queries)})"
        if self.left_out:
            found = self.connection.sql(f"FROM ({rows}) LIMIT 0").columns
            wrong = next((name for name in self.left_out if name not in found), None)
            if wrong is not None:
                hint = "names are case sensitive"
                raise ParameterError("`leave_out` must name columns of the table", repr(wrong), hint)
            rows = rows.replace("*", f"* EXCLUDE ({listed(map(quoted, dict.fromkeys(self.left_out)))})", 1)
        self.connection.execute(f"CREATE TEMP VIEW raw AS {rows}")

    def _typed(self, asked: Columns, types: dict[str, str], verbatim: bool, like: Format) -> list[str]:
        """Return what to select, and set the roles: ids and times that are text may have to be read as more."""
        slots = [*asked.by, *([] if asked.time is None else [asked.time])]
        textual = [name for name in slots if types[name] == "VARCHAR" and (verbatim or name == asked.time)]
        kinds = kinds_of(self.connection, "FROM raw", textual) if textual else {}
        selection = {name: quoted(name) for name in self.names}
        renamed: dict[str, str] = {}
        for name, kind in kinds.items():
            # Text that is no time becomes a null time, which is refused with its row, or dropped and counted.
            value = typed(name, kind, partly=name == asked.time)
            if value == selection[name]:
                continue
            if like == "parquet":
                selection[name] = f"{value} AS {quoted(name)}"
            else:  # what is written stays as it stood
                renamed[name] = unused(f"{name} to sort by", [*self.names, *renamed.values()])
                selection[renamed[name]] = f"{value} AS {quoted(renamed[name])}"
        self.columns = replace(
            asked,
            by=tuple(renamed.get(name, name) for name in asked.by),
            time=None if asked.time is None else renamed.get(asked.time, asked.time),
            keep=(*asked.keep, *renamed),
        )
        return list(selection.values())

    def _types_to_restore(self, sources: Sequence[Source]) -> dict[str, pa.DataType]:
        """Return the Arrow types that DuckDB does not have, where all files agree on them."""
        if any(source.format != "parquet" for source in sources):
            return {}
        schemas = [parquet_schema(file) for file in self.files]
        restored = {}
        for name, found in self.types.items():
            kinds = {schema.field(name).type for schema in schemas if name in schema.names}
            if len(kinds) == 1 and (kind := kinds.pop()) != found:
                try:
                    pa.array([], found).cast(kind)
                except pa.ArrowException:
                    continue
                restored[name] = kind
        return restored

    @property
    def schema(self) -> pa.Schema:
        """The schema of what is written."""
        return pa.schema([(name, self._restored.get(name, self.types[name])) for name in self.names])

    def _check_types(self) -> None:
        """Refuse ids and times of types that cannot be, before hours go by."""
        for name in self.columns.by:
            series_ids(pa.array([], self.types[name]))
        if self.columns.time is not None:
            time_numbers(pa.array([], self.types[self.columns.time]))

    @property
    def slots(self) -> tuple[str, ...]:
        """The columns to sort by."""
        return (*self.columns.by, *([] if self.columns.time is None else [self.columns.time]))

    def batches(self, *, valid_only: bool = False) -> Generator[pa.RecordBatch]:
        """Return all rows in order, or those that can be released."""
        rows = self.valid() if valid_only else "FROM rows_typed"
        query = f"FROM ({rows}) ORDER BY {listed(map(quoted, self.slots))}"
        plain = {name: kind for name, kind in self._restored.items() if not pa.types.is_dictionary(kind)}
        with self.told():
            for batch in Ahead(self.connection, query):
                yield cast(batch, plain)

    def written(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return batches as they are to be written."""
        for batch in batches:
            yield cast(batch.select(self.names), self._restored)

    def missing(self, names: Sequence[str]) -> str:
        """Return SQL that tells whether one of these columns has no value."""
        floats = {name for name in names if pa.types.is_floating(self.types[name])}
        tests = [f"{quoted(name)} IS NULL" for name in names]
        tests += [f"isnan({quoted(name)})" for name in names if name in floats]
        return " OR ".join(tests) or "false"

    def valid(self) -> str:
        """Return SQL for the rows that can be released: with id and time, and no other at that time."""
        alone = f"count(*) OVER (PARTITION BY {listed(map(quoted, self.slots))}) = 1"
        return f"FROM rows_typed WHERE NOT ({self.missing(self.slots)}) QUALIFY {alone}"

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say what went wrong in our own words: those of DuckDB and Arrow may show what is in the files."""
        try:
            yield
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except duckdb.OutOfMemoryException:
            raise FileError("there is not enough room to sort the input", hint=ROOM_HINT) from None
        except (duckdb.Error, pa.ArrowException, UnicodeError) as error:
            if "No space left" in str(error):
                raise FileError("there is not enough room to sort the input", "a full disk", ROOM_HINT) from None
            raise bad_line(self.files) from None
        except OSError as error:
            raise FileError("the input cannot be read", error.strerror, "check that it may be read") from None


def connected(room: Room) -> duckdb.DuckDBPyConnection:
    """Return a connection that keeps to the memory, to the files and to itself.

    Raises:
        ParameterError: The size cannot be read, or is too small.
    """
    match = SIZE.fullmatch(room.memory.strip())
    if match is None:
        raise ParameterError("`memory` must be a size", repr(room.memory[:40]), MEMORY_HINT)
    number, unit, binary = match.groups()
    size = float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " ")
    if size < ASIDE + LEAST:
        raise ParameterError("`memory` is too little", room.memory.strip(), MEMORY_HINT)
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{int(size - ASIDE) >> 20}MiB",
        "temp_directory": str((room.spill or Path()) / "spill"),
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": "false",
    }
    connection = duckdb.connect(config=settings)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def together(queries: Sequence[str]) -> str:
    """Return queries as one."""
    return " UNION ALL BY NAME ".join(f"({query})" for query in queries) if len(queries) > 1 else queries[0]


def cast(batch: pa.RecordBatch, kinds: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Return a batch with some columns in other types."""
    if not kinds:
        return batch
    arrays = {
        name: column.cast(kinds[name]) if name in kinds else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict(arrays)


@contextmanager
def open_inputs(
    sources: Sequence[str | Path],
    columns: Columns,
    *,
    output: Path | None = None,
    room: Room = Room(),
    leave_out: Sequence[str] = (),
) -> Iterator[Inputs]:
    """Open files as one table, for as long as it is used.

    Args:
        sources: Files, globs and folders.
        columns: The roles of the columns.
        output: The file to be written, whose format decides what text is taken for; None if the table is only
            looked at, and text taken for all that it can be.
        room: The room that sorting may take; by default 2 GB, and the folder of the output, or the system's for
            temporary files.
        leave_out: Columns to read nothing of.

    Raises:
        FileError: A file cannot be found or read, or its name does not say its format.
        ParameterError: The columns do not fit the table, or the memory is too little.
        DataError: The files are malformed, or do not go together.
    """
    like: Format = "parquet" if output is None else format_of(output)
    usual = Path(tempfile.gettempdir()) if output is None else output.parent
    with workplace(room.spill or usual) as place:
        inputs = Inputs(sources, columns, replace(room, spill=place), like=like, leave_out=leave_out)
        try:
            yield inputs
        finally:
            inputs.connection.close()
