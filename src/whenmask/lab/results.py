"""What was measured, as tidy rows: one for each repeat, and from them means with their standard errors."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from whenmask.errors import FileError

RESULTS_HINT = "run `whenmask reproduce` without --redraw first, with the same --output"


@dataclass(frozen=True)
class Setting:
    """What a number was measured of.

    Attributes:
        experiment: The name of the experiment.
        mechanism: The name of the mechanism; "ideal" and "original" where there is none.
        basis: What epsilon bounds: the paper's "claim", or a "guarantee" between series with two timestamps
            exchanged, or between series that differ in one "value".
        window: The window in slots, 0 where a mechanism has none.
        epsilon: The privacy budget.
        metric: What was measured, with its unit if it has one.
        variant: What else was varied, such as "range 10, empty as zero".
    """

    experiment: str
    mechanism: str
    basis: str
    window: int
    epsilon: float
    metric: str
    variant: str = ""


@dataclass(frozen=True)
class Measured:
    """One measurement: a setting, the repeat, and the number."""

    setting: Setting
    repeat: int
    value: float


@dataclass(frozen=True)
class Mean:
    """The mean of the repeats.

    Attributes:
        mean: The arithmetic mean.
        error: Its standard error: the sample's standard deviation over the root of their number; NaN for one.
        repeats: How many there were; 0 for what is computed and not drawn, whose error is 0.
    """

    mean: float
    error: float
    repeats: int


def mean_of(values: list[float]) -> Mean:
    """Return mean and standard error.

    Example:
        >>> mean_of([1.0, 2.0, 3.0, 4.0, 5.0])
        Mean(mean=3.0, error=0.7071067811865476, repeats=5)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Mean(mean, math.nan, 1)
    return Mean(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count), count)


class Results:
    """All settings with their means, in the order in which they were measured."""

    def __init__(self, means: dict[Setting, Mean]) -> None:
        self.means = means

    @classmethod
    def gathered(cls, measurements: Iterable[Measured]) -> "Results":
        """Return the means over repeats. A repeat of −1 marks what was computed and not drawn."""
        values: dict[Setting, list[Measured]] = {}
        for each in measurements:
            values.setdefault(each.setting, []).append(each)
        means = {}
        for setting, every in values.items():
            computed = len(every) == 1 and every[0].repeat < 0
            means[setting] = Mean(every[0].value, 0.0, 0) if computed else mean_of([each.value for each in every])
        return cls(means)

    def where(self, **wanted: Any) -> "Results":
        """Return the settings that agree with what is wanted; a tuple wants any of its members."""

        def fits(setting: Setting) -> bool:
            for name, value in wanted.items():
                actual = getattr(setting, name)
                if actual not in value if isinstance(value, tuple) else actual != value:
                    return False
            return True

        return Results({setting: mean for setting, mean in self.means.items() if fits(setting)})

    def one(self, **wanted: Any) -> Mean | None:
        """Return the mean of the one setting that agrees, None if there is none."""
        found = list(self.where(**wanted).means.values())
        if len(found) > 1:
            raise LookupError(f"{len(found)} settings agree with {wanted}")
        return found[0] if found else None

    def values(self, name: str) -> list[Any]:
        """Return the different values of a field, in the order in which they come."""
        return list(dict.fromkeys(getattr(setting, name) for setting in self.means))

    def curve(self, **wanted: Any) -> list[tuple[float, Mean]]:
        """Return (epsilon, mean) in the order of epsilon."""
        found = self.where(**wanted).means.items()
        return sorted(((setting.epsilon, mean) for setting, mean in found), key=lambda point: point[0])

    def __iter__(self) -> Iterator[tuple[Setting, Mean]]:
        return iter(self.means.items())

    def __len__(self) -> int:
        return len(self.means)


def write_measurements(folder: Path, measurements: list[Measured], data: dict[str, str]) -> None:
    """Write a row for each repeat (measurements.parquet) and for each mean (results.csv, results.parquet).

    Args:
        folder: Where to.
        measurements: What to write.
        data: For each experiment, on which data it was measured, for a column of its own.
    """
    columns = {
        name: [getattr(each.setting, name) for each in measurements]
        for name in (field.name for field in fields(Setting))
    }
    rows = {
        **columns,
        "data": [data[each.setting.experiment] for each in measurements],
        "repeat": [each.repeat for each in measurements],
        "value": [each.value for each in measurements],
    }
    parquet.write_table(pa.table(rows), folder / "measurements.parquet")
    means = [
        {**asdict(setting), "data": data[setting.experiment], **asdict(mean)}
        for setting, mean in Results.gathered(measurements)
    ]
    table = pa.Table.from_pylist(means)
    parquet.write_table(table, folder / "results.parquet")
    csv.write_csv(table, folder / "results.csv")


def read_measurements(folder: Path) -> list[Measured]:
    """Return what `write_measurements` wrote.

    Raises:
        FileError: There is nothing to read, or it is damaged.
    """
    path = folder / "measurements.parquet"
    try:
        rows = parquet.read_table(path).to_pylist()
        names = [field.name for field in fields(Setting)]
        return [
            Measured(Setting(**{name: row[name] for name in names}), row["repeat"], row["value"]) for row in rows
        ]
    except FileNotFoundError:
        raise FileError("there are no measurements to draw from", str(path), RESULTS_HINT) from None
    except (pa.ArrowInvalid, KeyError, OSError) as error:
        raise FileError("the measurements cannot be read", type(error).__name__, RESULTS_HINT) from None
