"""Writing a table so that there is all of it or nothing: to a hidden place first, then moved to its name.

Text is written by DuckDB, a column of finished lines per batch: no cell is quoted that need not be, so that text
comes out as it came in.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, Self

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from whenmask.errors import DataError, FileError
from whenmask.files.pipeline import Behind
from whenmask.files.places import format_of, packing_of
from whenmask.files.sql import listed, quoted, text, unused

SPACE_HINT = "nothing was left behind; make room or choose another folder, and run it again"


class Sink:
    """A file that knows the digest of what was written to it."""

    closed = False

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self._digest = hashlib.sha256()
        self._abandoned = False
        self.size = 0

    def write(self, content: Any) -> int:
        """Write bytes."""
        view = memoryview(content)
        if self._abandoned:
            return view.nbytes
        self._digest.update(view)
        self._file.write(view)
        self.size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.size

    def flush(self) -> None:
        """Write what is buffered."""
        self._file.flush()

    def close(self) -> None:
        """Bring everything to the disk."""
        if not self.closed:
            self.closed = True
            with self._file:
                self._file.flush()
                os.fsync(self._file.fileno())

    def abandon(self) -> None:
        """Close the file as it is, and take no notice of what writers still want to write as they end."""
        self._abandoned = self.closed = True
        with suppress(OSError):
            self._file.close()

    @property
    def sha256(self) -> str:
        """The SHA-256 of all that was written."""
        return self._digest.hexdigest()


class Writer(Protocol):
    """What writes batches in one format."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows."""

    def close(self) -> None:
        """Write what ends the file."""


class Lines:
    """Writes CSV or JSON lines."""

    def __init__(self, sink: pa.NativeFile, query: str, header: bytes) -> None:
        self._sink = sink
        self._query = query
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET TimeZone = 'UTC'")
        sink.write(header)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        self._connection.register("batch", pa.Table.from_batches([batch]))
        for lines in self._connection.sql(self._query).to_arrow_table().column(0).chunks:
            _, places, octets = lines.cast(pa.large_string()).buffers()
            ends = np.frombuffer(places, dtype=np.int64)[lines.offset : lines.offset + len(lines) + 1]
            self._sink.write(memoryview(octets)[int(ends[0]) : int(ends[-1])])

    def close(self) -> None:
        """End the file."""
        self._connection.close()
        self._sink.close()


class Output:
    """One file to be, in a place of work, until it is moved to its name.

    Attributes:
        size: The bytes written, once it is closed.
        sha256: Their digest.
    """

    def __init__(self, path: Path, workplace: Path, schema: pa.Schema) -> None:
        self._path = path
        self._part = workplace / "part"
        self._schema = schema
        self._sink = Sink(self._part)
        try:
            self._writer = self._opened()
        except BaseException:
            self._sink.abandon()
            raise
        self._writing = Behind(self._writer.write_batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writing.abandon()
        if not self._sink.closed:
            self._sink.abandon()
            with suppress(Exception):
                self._writer.close()

    def _opened(self) -> Writer:
        kind = format_of(self._path)
        if kind == "parquet":
            writer: Writer = pq.ParquetWriter(
                pa.PythonFile(self._sink, mode="w"), self._schema, compression="zstd"
            )
            return writer
        sink: Any = pa.PythonFile(self._sink, mode="w")
        packing = packing_of(self._path)
        if packing:
            sink = pa.CompressedOutputStream(sink, packing)
        if kind == "json":
            return Lines(sink, json_query(self._schema), b"")
        delimiter = "\t" if ".tsv" in self._path.suffixes else ","
        return Lines(sink, *csv_query(self._schema, delimiter))

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows."""
        with self._told():
            self._writing.push(batch)

    def finish(self) -> None:
        """End the file."""
        with self._told():
            self._writing.finish()
            self._writer.close()
        self._sink.close()
        self.size, self.sha256 = self._sink.size, self._sink.sha256

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            hint = "Parquet holds the most types; or leave out nested and unusual ones"
            raise DataError("a column cannot be written in this format", self._path.suffix, hint) from None

    def place(self, *, force: bool) -> None:
        """Move the file to its name; refuse to overwrite one that has come there meanwhile, unless forced."""
        place_file(self._part, self._path, force=force)


def place_file(part: Path, path: Path, *, force: bool) -> None:
    """Give a complete file its name, at once."""
    try:
        if force:
            part.replace(path)
        else:
            path.hardlink_to(part)  # unlike a rename, this never overwrites
            part.unlink()
    except FileExistsError:
        raise exists(path) from None
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def exists(path: Path) -> FileError:
    """Return the error about a file that is there already."""
    return FileError(
        "the output is there already", repr(path.name), "choose another name, or overwrite with --force"
    )


def written_error(error: OSError) -> FileError:
    """Return what to say of an error while writing."""
    return FileError("the output could not be written", error.strerror or type(error).__name__, SPACE_HINT)


def csv_query(schema: pa.Schema, delimiter: str) -> tuple[str, bytes]:
    """Return the query that makes lines of CSV from `batch`, and the header."""
    special = text(f'["\r\n{delimiter}]')
    cells = [
        f"CASE WHEN {cell} IS NULL THEN '' WHEN {cell} = '' OR regexp_matches({cell}, {special}) "
        f"""THEN '"' || replace({cell}, '"', '""') || '"' ELSE {cell} END"""
        for cell in (_cell(field) for field in schema)
    ]
    unusual = re.compile(f'["\r\n{delimiter}]|^$')
    names = ['"' + name.replace('"', '""') + '"' if unusual.search(name) else name for name in schema.names]
    joined = f", {text(delimiter)}, ".join(cells)
    return f"SELECT concat({joined}, chr(10)) FROM batch", (delimiter.join(names) + "\n").encode()


def _cell(field: pa.Field) -> str:
    """Return a column as the text of its cells: times in ISO form, what is nested as JSON."""
    name, kind = quoted(field.name), field.type
    if pa.types.is_nested(kind):
        return f"CAST(to_json({name}) AS VARCHAR)"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        raise DataError(
            "CSV cannot hold a column of bytes", repr(field.name), "write Parquet, or leave the column out"
        )
    return f"CAST({name} AS VARCHAR)"


def json_query(schema: pa.Schema) -> str:
    """Return the query that makes lines of JSON from `batch`, with times in ISO form."""
    columns = []
    for field in schema:
        name = quoted(field.name)
        if pa.types.is_timestamp(field.type):
            iso = f"replace(CAST({name} AS VARCHAR), ' ', 'T')"
            columns.append(f"regexp_replace({iso}, '\\+00$', 'Z') AS {name}")
        else:
            columns.append(name)
    line = quoted(unused("line", schema.names))
    return f"SELECT to_json({line}) || chr(10) FROM (SELECT {listed(columns)} FROM batch) AS {line}"
