"""`whenmask check`: what would make a release useless, before it is made."""

import json as jsonlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import duckdb
import pyarrow as pa
from cyclopts import Parameter
from rich.console import Console

from whenmask.check import Check
from whenmask.clues import Finding
from whenmask.columns import Columns
from whenmask.errors import DataError, ParameterError

READERS = {
    ".parquet": "read_parquet",
    ".csv": "read_csv_auto",
    ".jsonl": "read_json_auto",
    ".json": "read_json_auto",
}
COLORS = {"useless": "bold red", "warning": "yellow", "note": "cyan"}


@Parameter(name="*")
@dataclass(frozen=True)
class Roles:
    """The roles of a table's columns, as options."""

    by: Annotated[list[str], Parameter(negative="")] = field(default_factory=list)
    "A column that names the series; repeat it for several."
    time: str | None = None
    "The column that orders the slots of a series."
    values: Annotated[list[str] | None, Parameter(negative="")] = None
    "A column that moves; repeat it for several. All that have no other role, if left out."
    keep: Annotated[list[str], Parameter(negative="")] = field(default_factory=list)
    "A column that stays with its slot; repeat it for several."

    def columns(self) -> Columns:
        """Return the roles as the engines know them."""
        return Columns.named(by=self.by, time=self.time, values=self.values, keep=self.keep)


def check(
    source: Path,
    /,
    *,
    roles: Roles = Roles(),
    window: int | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Find what would make a release of a table useless, before it is made.

    Looks for columns that tell the time by themselves (counters, row numbers, timestamps, what is the same in
    every series), for series that are too short, and for values that are mostly equal. What is found is printed,
    the worst first, and does not change the exit code: it is `whenmask release` that refuses a useless release.

    Example: `whenmask check readings.parquet --by meter --time time --window 48`

    Args:
        source: A Parquet, CSV or JSON lines file.
        roles: The roles of the columns.
        window: The number of timestamps that may trade places; without it, series' lengths and trends are not
            looked at.
        json: Print one JSON object, for machines.
    """
    look = Check(roles.columns(), window=window)
    for batch in sorted_batches(source, roles.by, roles.time):
        look.push(batch)
    findings = look.findings()
    if json:
        document = {"rows": look.rows, "series": look.series, "findings": [asdict(one) for one in findings]}
        Console(highlight=False, markup=False, soft_wrap=True).print(jsonlib.dumps(document, ensure_ascii=False))
    else:
        show(look, findings)


def show(look: Check, findings: list[Finding]) -> None:
    """Print what was found."""
    console = Console(highlight=False, markup=False)
    for finding in findings:
        subject = "the table" if finding.column is None else f"column {finding.column!r}"
        console.print(f"{finding.severity}: {finding.kind}, {subject}", style=COLORS[finding.severity])
        console.print(f"  Found: {finding.what_found}.")
        console.print(f"  Means: {finding.meaning}")
        console.print(f"  To do: {finding.advice}\n")
    useless = sum(finding.severity == "useless" for finding in findings)
    verdict = (
        f"{useless} of {len(findings)} findings make a release useless."
        if useless
        else "Nothing found that makes a release useless."
    )
    console.print(f"{look.rows:,} rows in {look.series:,} series. {verdict}")


def sorted_batches(path: Path, by: list[str], time: str | None) -> Iterator[pa.RecordBatch]:
    """Read a file in batches, sorted by series and then by time.

    Raises:
        ParameterError: There is no such file, or its suffix is unknown.
        DataError: The file cannot be read, or a column is missing.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        hint = f"give a file that ends in {', '.join(READERS)}"
        raise ParameterError("the kind of a file is known by its suffix", path.suffix or "none", hint)
    if not path.is_file():
        raise ParameterError("there is no such file", str(path))
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in [*by, *([] if time is None else [time])])
    order = f" ORDER BY {names}" if names else ""
    try:
        with duckdb.connect() as connection:
            relation = connection.sql(f"SELECT * FROM {reader}(?){order}", params=[str(path)])  # noqa: S608 - quoted
            yield from relation.to_arrow_reader()
    except duckdb.Error as error:
        # DuckDB's messages quote the line that is wrong, which may be data.
        hint = "is it complete, and are the columns named as in the file?"
        raise DataError("the file cannot be read", type(error).__name__, hint) from None
