"""Files as queries: what DuckDB is told of each format, and what a text may be taken for.

Nothing is guessed from a sample. Parquet says its types. In CSV all is text, and a column is numbers or times only
if every cell of every file is; numbers with a leading zero, a dash for none, or times in another form leave the
column text. In JSON text stays text, but for the time. The first lines are not skipped, nor short ones filled.
"""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from whenmask.errors import DataError
from whenmask.files.places import Format, format_of
from whenmask.files.sql import listed, quoted, text

DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
CLOCK = "[0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,6})?)?"
# Each SQL type that a text may be taken for, and how its text looks; the first that fits all cells is taken.
KINDS = {
    "BIGINT": "0|-?[1-9][0-9]{0,18}",
    "DOUBLE": "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?",
    "BOOLEAN": "true|false|True|False|TRUE|FALSE",
    "DATE": DAY,
    "TIMESTAMP": f"{DAY}[ T]{CLOCK}",
    "TIMESTAMP_NS": f"{DAY}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}\\.[0-9]{{1,9}}",
    "TIMESTAMPTZ": f"{DAY}[ T]{CLOCK} ?(Z|[-+][0-9]{{2}}(:?[0-9]{{2}})?)",
}
DELIMITERS = ",;\t|"
NAMES_HINT = "rename columns so that every one has a name, and no two differ in case only"
LINE_HINT = "mend or remove that line"


@dataclass(frozen=True)
class Source:
    """Files of one form.

    Attributes:
        files: The files.
        format: Their format.
        names: The columns, in CSV.
        delimiter: What separates cells, in CSV.
    """

    files: tuple[Path, ...]
    format: Format
    names: tuple[str, ...] = ()
    delimiter: str = ""

    def query(self, connection: duckdb.DuckDBPyConnection) -> str:
        """Return SQL that reads the files as they stand."""
        files = "[" + listed(text(escape(str(file))) for file in self.files) + "]"
        if self.format == "parquet":
            return f"SELECT * FROM read_parquet({files}, union_by_name = true)"
        if self.format == "json":
            shape = "format = 'newline_delimited', records = 'true'"
            how = "auto_detect = true, sample_size = -1, union_by_name = true, maximum_depth = -1"
            found = connection.sql(f"SELECT * FROM read_json({files}, {shape}, {how})")
            refuse_names(found.columns)
            types = _types({name: _textual(kind) for name, kind in zip(found.columns, found.types, strict=True)})
            return f"SELECT * FROM read_json({files}, {shape}, auto_detect = false, columns = {{{types}}})"
        how = f"delim = {text(self.delimiter)}, quote = '\"', escape = '\"', header = true, nullstr = ''"
        strict = "auto_detect = false, strict_mode = true, allow_quoted_nulls = false"
        types = _types(dict.fromkeys(self.names, "VARCHAR"))
        return f"SELECT * FROM read_csv({files}, {how}, {strict}, columns = {{{types}}})"


def _types(columns: dict[str, str]) -> str:
    return listed(f"{text(name)}: {text(kind)}" for name, kind in columns.items())


def _textual(kind: Any) -> str:
    """Return a type found in JSON, with text where DuckDB saw times or the like in text."""
    match kind.id:
        case "struct":
            return f"STRUCT({listed(f'{quoted(name)} {_textual(inner)}' for name, inner in kind.children)})"
        case "list":
            return f"{_textual(kind.child)}[]"
        case "map":
            (_, key), (_, value) = kind.children
            return f"MAP({_textual(key)}, {_textual(value)})"
        case "boolean" | "bigint" | "ubigint" | "hugeint" | "uhugeint" | "double" | "json":
            return str(kind)
        case _:
            return "VARCHAR"


def sources_of(files: Sequence[Path]) -> list[Source]:
    """Return the files in groups of one form, in order."""
    groups: dict[tuple[Any, ...], list[Path]] = {}
    for file in files:
        kind = format_of(file)
        form: tuple[Any, ...] = (kind, *header(file)) if kind == "csv" else (kind,)
        if kind == "parquet":
            refuse_names(parquet_schema(file).names)
        groups.setdefault(form, []).append(file)
    return [Source(tuple(members), *form) for form, members in groups.items()]


def header(file: Path) -> tuple[tuple[str, ...], str]:
    """Return the names in the first line of a CSV file, and the delimiter that gives most of them.

    Raises:
        DataError: There is no such line, or a name is missing or there twice.
    """
    found: list[tuple[list[str], str]] = []
    for delimiter in DELIMITERS:
        try:
            with opened(file) as lines:
                found.append((next(csv.reader(lines, delimiter=delimiter, strict=True), []), delimiter))
        except (csv.Error, UnicodeDecodeError, OSError, pa.ArrowException):
            continue
    if not found:
        hint = "CSV is read as UTF-8, with names in its first line"
        raise DataError("the first line of a CSV file must hold the names of its columns", repr(file.name), hint)
    names, delimiter = max(found, key=lambda one: len(one[0]))
    refuse_names(names)
    return tuple(names), delimiter


def refuse_names(names: Sequence[str]) -> None:
    """Refuse names of columns that SQL cannot tell apart."""
    if not names or not all(names) or len({name.lower() for name in names}) < len(names):
        raise DataError("the columns of a table must have different names", hint=NAMES_HINT)


def opened(file: Path) -> io.TextIOWrapper:
    """Return a file of text, unpacked if it is packed."""
    return io.TextIOWrapper(pa.input_stream(str(file)), encoding="utf-8-sig", newline="")


def parquet_schema(file: Path) -> pa.Schema:
    """Return the schema of a Parquet file."""
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError):
        hint = "it may be truncated; write or copy it again"
        raise DataError("this is not a complete Parquet file", repr(file.name), hint) from None


def kinds_of(
    connection: duckdb.DuckDBPyConnection, rows: str, names: Sequence[str]
) -> dict[str, tuple[str, bool]]:
    """Return the type that each column of text is best taken for, and whether every cell of it fits.

    Args:
        connection: Where to ask.
        rows: A query that gives the rows.
        names: Columns of text.
    """
    counts = [f"count({quoted(name)})" for name in names]
    counts += [f"count({_fitting(name, kind)})" for name in names for kind in KINDS]
    (found,) = connection.sql(f"SELECT {listed(counts)} FROM ({rows})").fetchall()
    kinds: dict[str, tuple[str, bool]] = {}
    for number, name in enumerate(names):
        first = len(names) + number * len(KINDS)
        fitting = dict(zip(KINDS, found[first : first + len(KINDS)], strict=True))
        best = max(KINDS, key=lambda kind: fitting[kind])
        kinds[name] = (
            (best, found[number] > 0 and fitting[best] == found[number]) if fitting[best] else ("", False)
        )
    return kinds


def _fitting(name: str, kind: str) -> str:
    """Return SQL for a column's text as another type, null where it does not look so."""
    return f"CASE WHEN regexp_full_match({quoted(name)}, {text(KINDS[kind])}) THEN {_cast(name, kind)} END"


def _cast(name: str, kind: str) -> str:
    return f"TRY_CAST({quoted(name)} AS {kind})"


def typed(name: str, kind: tuple[str, bool], *, partly: bool = False) -> str:
    """Return SQL for a column of text as what it is taken for; if only partly so, null elsewhere or still text."""
    best, whole = kind
    if best and whole:
        return _cast(name, best)
    return _fitting(name, best) if best and partly else quoted(name)


def bad_line(files: Sequence[Path]) -> DataError:
    """Return an error that names the first line of text that cannot be read, without showing it."""
    for file in files:
        kind = format_of(file)
        number = None
        try:
            if kind == "csv":
                number = _bad_record(file)
            elif kind == "json":
                number = _bad_object(file)
        except (UnicodeDecodeError, OSError, pa.ArrowException):
            hint = "text is read as UTF-8; packed files must be complete"
            return DataError("a file of text cannot be read", repr(file.name), hint)
        if number is not None:
            what = "cells for every column" if kind == "csv" else "one object of JSON"
            return DataError(f"every line must hold {what}", f"line {number} of {file.name!r}", LINE_HINT)
    names = ", ".join(repr(file.name) for file in files[:3]) + (", …" if len(files) > 3 else "")
    return DataError(
        "the input cannot be read", names, "the files may be damaged, or their types may not go together"
    )


def _bad_record(file: Path) -> int | None:
    names, delimiter = header(file)
    with opened(file) as lines:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            for record in reader:
                if record and len(record) != len(names):
                    return reader.line_num
        except csv.Error:
            return reader.line_num
    return None


def _bad_object(file: Path) -> int | None:
    with opened(file) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip() and not isinstance(json.loads(line), dict):
                    return number
            except ValueError:
                return number
    return None
