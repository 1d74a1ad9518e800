"""Options that several commands have, and what they stand for."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from whenmask.errors import ParameterError
from whenmask.keystream import Key, checked_run

if TYPE_CHECKING:
    from whenmask.columns import Columns
    from whenmask.files import Room

# Options that are given or not, and lists that cannot be emptied: there is no --no-force, no --empty-by.
Flag = Parameter(negative=())
Listed = Parameter(negative=())
KEY_HINT = "make a key file with `whenmask key`, and keep it as secret as the rows"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Roles:
    """The roles of a table's columns."""

    time: str
    "The column that orders a series: timestamps, dates or numbers."
    by: Annotated[list[str] | None, Listed] = None
    "The column that names the series; repeat it for several."
    values: Annotated[list[str] | None, Listed] = None
    "A column that moves; repeat it for several. By default all that have no other part."
    keep: Annotated[list[str] | None, Listed] = None
    "A further column that stays where it is, in the clear; repeat it for several."
    leave_out: Annotated[list[str] | None, Listed] = None
    "A column that nothing is read of, such as a counter; repeat it for several."

    def columns(self) -> "Columns":
        """Return the roles as the engines know them."""
        from whenmask.columns import Columns  # Arrow, which streams on small machines do without

        return Columns.named(by=self.by, time=self.time, values=self.values, keep=self.keep)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Secrets:
    """The key and the run."""

    key_file: Path | None = None
    "A key to repeat runs with; by default a fresh one that is never kept. `whenmask key` makes one."
    run_id: str | None = None
    "Repeats the run of this name, with --key-file, on the very same rows."
    testing_key: int | None = None
    "A number instead of a key, for trying things out: anybody can undo such a release."

    def opened(self) -> tuple[Key, str]:
        """Return the key and the run id.

        Raises:
            ParameterError: They do not go together.
        """
        key = opened_key(self.key_file, self.testing_key)
        if key is None and self.run_id is not None:
            raise ParameterError("`--run-id` needs `--key-file`: a fresh key never repeats a run", hint=KEY_HINT)
        return key or Key.fresh(), checked_run(self.run_id)

    def opened_for(self, state: Path | None) -> tuple[Key, str | None]:
        """Return the key and the run id of a stream, whose run its state may hold.

        Raises:
            ParameterError: They do not go together.
        """
        if state is None:
            return self.opened()
        if self.run_id is not None:
            raise ParameterError(
                "`--run-id` and `--state` exclude each other", hint="a state has a run of its own"
            )
        key = opened_key(self.key_file, self.testing_key)
        if key is None:
            raise ParameterError("`--state` needs `--key-file`: a fresh key cannot go on", hint=KEY_HINT)
        return key, None


def opened_key(key_file: Path | None, testing_key: int | None) -> Key | None:
    """Return the key that is named, if one is.

    Raises:
        ParameterError: Two are.
    """
    if key_file is not None and testing_key is not None:
        hint = "leave one of them out"
        raise ParameterError("`--key-file` and `--testing-key` exclude each other", "both", hint)
    if key_file is not None:
        return Key.from_file(key_file)
    return None if testing_key is None else Key.for_testing(testing_key)


def needed_key(key_file: Path | None, testing_key: int | None) -> Key:
    """Return the key that is named.

    Raises:
        ParameterError: None is, or two are.
    """
    key = opened_key(key_file, testing_key)
    if key is None:
        hint = "name it with `--key-file`; a run with a fresh key, which is never kept, cannot be drawn again"
        raise ParameterError("the key of the run is needed", "none", hint)
    return key


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Space:
    """The room that sorting may take."""

    memory: str = "2GB"
    "How much memory may be used in all."
    spill: Path | None = None
    "A folder for what does not fit into memory, in the clear until the run ends; by default that of the output."

    def room(self) -> "Room":
        """Return the room as the engine knows it."""
        from whenmask.files import Room  # DuckDB, likewise

        return Room(self.memory, self.spill)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What does the work."""

    engine: Literal["duckdb", "spark"] = "duckdb"
    "DuckDB, on this machine, or Spark: Parquet files in, and a folder of such files out."
    master: str = "local[*]"
    "Where Spark runs: local[*] for all cores of this machine, or the address of a cluster that shares its files."
