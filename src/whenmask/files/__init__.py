r"""Releasing files: CSV, Parquet and JSON lines, larger than memory, through DuckDB.

DuckDB reads and sorts; `batches` releases; and what is written is there as a whole or not at all.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from whenmask import Key, RanSwitch
    >>> from whenmask.columns import Columns
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     path = folder / "readings.csv"
    ...     _ = path.write_text("meter,hour,kwh\na,0,0.10\na,1,0.20\n")
    ...     with open_inputs([path], Columns(by=("meter",), time="hour"), output=folder / "out.csv") as inputs:
    ...         job = Job(folder / "out.csv", key=Key.for_testing(7), run="example")
    ...         receipt = release_files(inputs, RanSwitch(4, window=2), job)
    ...     sorted((folder / "out.csv").read_text().split())
    ['a,0,0.10', 'a,1,0.20', 'meter,hour,kwh']
"""

from whenmask.files.inspection import find_invalid, window_of
from whenmask.files.places import found_files
from whenmask.files.reading import Inputs, Room, open_inputs
from whenmask.files.releasing import LEDGER, Job, Onlooker, account_of, release_files

__all__ = [
    "LEDGER",
    "Inputs",
    "Job",
    "Onlooker",
    "Room",
    "account_of",
    "find_invalid",
    "found_files",
    "open_inputs",
    "release_files",
    "window_of",
]
