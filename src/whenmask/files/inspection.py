"""Looking at a table before it is released: rows that cannot be, and the steps between times."""

from dataclasses import dataclass

import pyarrow as pa

from whenmask.columns import otherwise
from whenmask.errors import DataError
from whenmask.files.duration import WINDOW_HINT, Steps, parsed_window
from whenmask.files.reading import Inputs
from whenmask.files.sql import listed, quoted, unused
from whenmask.finding import Finding

SHOWN = 6
DROP_HINT = "mend these rows, or leave them out with --drop-invalid, which counts them"
REFUSED = "A release refuses a table with such rows rather than guess what they should be."


@dataclass(frozen=True)
class Invalid:
    """Rows that cannot be released: how many of each kind, and the number of the first, counted from 0.

    Attributes:
        ids: Rows without a series.
        times: Rows of a series without a time.
        repeated: Rows at a time at which their series has another: all of them, since nothing says which is
            right.
    """

    ids: tuple[int, int | None]
    times: tuple[int, int | None]
    repeated: tuple[int, int | None]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        return {
            "without an id": self.ids[0],
            "without a time": self.times[0],
            "at a repeated time": self.repeated[0],
        }

    @property
    def total(self) -> int:
        """How many there are in all."""
        return sum(self.counts.values())

    def findings(self) -> list[Finding]:
        """Return what a check says of them."""
        first = (self.ids[1], self.times[1], self.repeated[1])
        return [
            Finding(
                "invalid",
                None,
                "warning",
                f"{count:,} rows {kind}, for example row {row} (counted from 0)",
                REFUSED,
                f"{DROP_HINT[0].upper()}{DROP_HINT[1:]}.",
            )
            for (kind, count), row in zip(self.counts.items(), first, strict=True)
            if count
        ]

    def refuse(self) -> None:
        """Raise an error if there are any."""
        problems = {
            "every row must have a series id": self.ids,
            "every row must have a time": self.times,
            "a time must occur only once within a series": self.repeated,
        }
        for problem, (count, row) in problems.items():
            if count:
                raise otherwise(count, row or 0, problem, DROP_HINT)


def find_invalid(inputs: Inputs) -> Invalid:
    """Count the rows that cannot be released."""
    columns, slots = inputs.columns, listed(map(quoted, inputs.slots))
    row, alone = (quoted(unused(name, inputs.names)) for name in ("row", "alone"))
    no_id = f"({inputs.missing(columns.by)})"
    no_time = f"NOT {no_id} AND ({inputs.missing([columns.time] if columns.time else [])})"
    tests = (no_id, no_time, f"NOT {no_id} AND NOT ({no_time}) AND NOT {alone}")
    found = [f"count(*) FILTER ({test}), min({row}) FILTER ({test})" for test in tests]
    numbered = f"SELECT {slots}, row_number() OVER () - 1 AS {row} FROM rows_typed"
    counted = f"SELECT *, count(*) OVER (PARTITION BY {slots}) = 1 AS {alone} FROM ({numbered})"
    with inputs.told():
        (numbers,) = inputs.connection.sql(f"SELECT {listed(found)} FROM ({counted})").fetchall()
    return Invalid(numbers[0:2], numbers[2:4], numbers[4:6])


def find_steps(inputs: Inputs) -> Steps:
    """Find the differences between neighbouring times, within series and over all.

    Raises:
        DataError: The times are plain numbers, or there are none, so that no duration fits.
    """
    by, time = inputs.columns.by, inputs.columns.time
    kind = None if time is None else inputs.types[time]
    if time is None or not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        got = "no time" if kind is None else f"type {kind}"
        raise DataError("a duration needs times that are dates or timestamps", got, WINDOW_HINT)
    ticks = f"epoch_ns(CAST({quoted(time)} AS TIMESTAMP_NS))"
    series = f"hash({listed(map(quoted, by))})" if by else "0"
    rows = f"FROM rows_typed WHERE NOT ({inputs.missing(inputs.slots)})"
    valid = f"SELECT {series} AS series, {ticks} AS ticks FROM ({rows})"
    steps = f"SELECT series, ticks - lag(ticks) OVER (PARTITION BY series ORDER BY ticks) AS step FROM ({valid})"
    counted = f"SELECT series, step, count(*) AS times FROM ({steps}) WHERE step > 0 GROUP BY ALL"
    with inputs.told():
        connection = inputs.connection
        connection.execute(f"CREATE OR REPLACE TEMP TABLE steps AS {counted}")
        commonest = "SELECT step, sum(times)::BIGINT FROM steps GROUP BY step ORDER BY 2 DESC, 1 LIMIT ?"
        most = connection.execute(commonest, [SHOWN]).fetchall()
        step = most[0][0] if most else 1
        gaps = "sum(times) FILTER (step > ? AND step % ? = 0)"
        totals = f"SELECT sum(times)::BIGINT, {gaps}::BIGINT FROM steps"
        ((total, larger),) = connection.execute(totals, [step, step]).fetchall()
        usual = "SELECT arg_max(step, times) AS step FROM steps GROUP BY series HAVING sum(times) > 1"
        each = connection.execute(
            f"SELECT step, count(*) FROM ({usual}) GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 6"
        ).fetchall()
    return Steps(tuple(most), total or 0, larger or 0, tuple(each))


def window_of(inputs: Inputs, window: str) -> int:
    """Return a window as a count of timestamps; a duration by the regular step of the series.

    Raises:
        ParameterError: The window is neither a count nor a duration.
        DataError: The steps are irregular, or differ between series.
    """
    count, duration = parsed_window(window)
    return count if count is not None else find_steps(inputs).count(duration or 0)
