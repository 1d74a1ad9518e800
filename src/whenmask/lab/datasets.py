"""The data sets of the evaluation: real where their files are there, a generated twin where not.

| data set | file, in the folder that is given | what is read |
| --- | --- | --- |
| Stock-N, Stock-B | `ge.us.csv` or another `*.us.csv` | `Date`, `Close`, one row a trading day |
| Trajectory | a CSV with `POLYLINE` (ECML/PKDD 2015), plain or `.gz`; or a Parquet or CSV | points of each trip |
| Meters | `smart_meters*.parquet` or `.csv` | `meter`, `time`, `kwh`, half-hourly |

A table of trips is long (`id` or `trip_id`, `time`, `lon`, `lat`) or has a list of points in each row (`trip_id`,
`lon_e6`, `lat_e6` in millionths of a degree). Trips of fewer than 300 points are left out, and of longer ones the
first 300 points are kept. SyntheticTS is always generated.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from whenmask.errors import DataError, FileError
from whenmask.lab import twins
from whenmask.lab.chance import uniforms

POINTS = 300
METRES_PER_DEGREE = (111_320.0, 110_540.0)
SYNTHETIC = 1_000_000
# A year of half hours, but for a few hours that a meter may have missed.
YEAR = 17_000
# Enough trips for a figure where there is no file.
TWIN_TRIPS = 2_000
DATA_HINT = "see `whenmask data --help` for the formats; without --data a generated twin is used"
# The files that the published figures of docs/reproduction.md were computed on.
KNOWN = {
    "11f0b278c1199dd6922e70e472ef8972b52e0fa32142f3c6d2dedaa45a913339": "the paper's series: GE, 1962 to 2017",
    "29e8e11783cb27ccb9fd412c47cfcea87a05674449c61e1fbb80bb1248586bae": "San Francisco taxis, 6,646 trips",
    "4ff623e0678facbc815d8be31bfa25c83e384da5e071e841b1dbd9f0d7c7d1d2": "the first 7,733 trips of the paper's "
    "file",
    "f7f3b21a1f9ac3cb8ff62dcafb7d5fe8bab726f32a8b750f96a615b9690638e1": "33 long trips of the paper's file",
    "79fef8b53163aaf90bc71980ec564a4cf16e8fdc29c969a1d1b02232ce8772cb": "60 London households, 2013",
}


@dataclass(frozen=True, eq=False)
class Data:
    """A data set.

    Attributes:
        name: What the paper calls it.
        origin: Where it comes from, as shown beside each result: a file, or "generated twin".
        real: Whether it was measured in the world.
        values: Its values; what they are depends on the data set.
        digest: The SHA-256 of the file; empty for what is generated.
    """

    name: str
    origin: str
    real: bool
    values: Any
    digest: str = ""

    @property
    def label(self) -> str:
        """The name and where it comes from."""
        return f"{self.name}: {self.origin}"


@lru_cache(maxsize=4)
def stock(folder: Path | None) -> Data:
    """Return the daily closes (Stock-N)."""
    path = _found(folder, "ge.us.csv", "*.us.csv")
    if path is None:
        return Data("Stock-N", f"generated twin, a price walk of {twins.PRICES:,} days", False, twins.price_walk())
    rows = _rows(path, f"SELECT {_as('DATE', 'Date')} AS day, {_as('DOUBLE', 'Close')} AS close FROM {{file}}")
    closes = np.ma.filled(rows["close"].astype(np.float64), np.nan)
    if closes.size < 100 or not np.isfinite(closes).all() or (closes <= 0).any():
        got = (
            f"{closes.size:,} rows, {int((~(closes > 0)).sum())} of them without a positive price, in {path.name}"
        )
        raise DataError("the daily prices are damaged", got, "each row needs a `Date` and a positive `Close`")
    if np.ma.getmaskarray(rows["day"]).any() or not (rows["day"][1:] > rows["day"][:-1]).all():
        raise DataError("the days of the prices are not in order", path.name, "each day once, the earliest first")
    return Data("Stock-N", f"{path.name}, {closes.size:,} days", True, closes, _digest(path))


def rises(prices: Data) -> Data:
    """Return whether each close is above the one before (Stock-B)."""
    ups = np.diff(prices.values) > 0
    return Data("Stock-B", f"rises of {prices.origin}", prices.real, ups, prices.digest)


@lru_cache(maxsize=2)
def trajectories(folder: Path | None) -> Data:
    """Return trips in degrees or, for the twin, in metres turned to degrees: (trips, 300, 2), longitude first."""
    names = ("train.csv", "train.csv.gz", "taxi_sf*.parquet", "*traject*", "taxi*.parquet", "taxi*.csv*")
    path = _found(folder, *names)
    if path is None:
        trips = twins.street_trips(TWIN_TRIPS) / np.array(METRES_PER_DEGREE)
        return Data("Trajectory", f"generated twin, {TWIN_TRIPS:,} trips on a street grid", False, trips)
    trips = _trips(path)
    if len(trips) < 12:
        got = f"{len(trips)} in {path.name}"
        raise DataError(f"too few trips of {POINTS} points or more", got, "6 groups need at least 12 trips")
    if not np.isfinite(trips).all():
        raise DataError("a trip has a point without a position", path.name, DATA_HINT)
    origin = f"{path.name}, {len(trips):,} trips of {POINTS} points"
    return Data("Trajectory", origin, True, trips, _digest(path))


@dataclass(frozen=True, eq=False)
class Meter:
    """A household: half-hourly consumption in Wh, with the month (1 … 12) and half hour of the day of each."""

    wh: NDArray[np.int64]
    month: NDArray[np.int64]
    half_hour: NDArray[np.int64]


@lru_cache(maxsize=2)
def meters(folder: Path | None) -> Data:
    """Return the households that were measured for a whole year, but for a few hours."""
    path = _found(folder, "smart_meters*.parquet", "smart_meters*.csv")
    if path is None:
        months = np.repeat(np.arange(1, 13), [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
        months = np.repeat(months, twins.HALF_HOURS)
        clock = np.tile(np.arange(twins.HALF_HOURS), twins.DAYS)
        made = [Meter(wh, months, clock) for wh in twins.households()]
        return Data("Meters", f"generated twin, {len(made)} households", False, made)
    rows = _rows(
        path,
        "SELECT meter, month(taken) AS month, hour(taken) * 2 + minute(taken) // 30 AS clock, wh FROM ("
        f"SELECT meter, {_as('TIMESTAMP', 'time')} AS taken,"
        f" TRY_CAST(round({_as('DOUBLE', 'kwh')} * 1000) AS BIGINT) AS wh FROM {{file}}) ORDER BY meter, taken",
    )
    if any(np.ma.getmaskarray(column).any() for column in rows.values()):
        raise DataError("readings are missing or no numbers", path.name, "each row: `meter`, `time`, `kwh`")
    starts = np.flatnonzero(rows["meter"][1:] != rows["meter"][:-1]) + 1
    parts = zip(*(np.split(rows[name].astype(np.int64), starts) for name in ("wh", "month", "clock")), strict=True)
    whole = [Meter(*part) for part in parts if part[0].size >= YEAR]
    if not whole:
        raise DataError("no meter was read for a whole year", path.name, f"{YEAR:,} half hours or more are needed")
    return Data("Meters", f"{path.name}, {len(whole)} households with a whole year", True, whole, _digest(path))


@lru_cache(maxsize=1)
def synthetic(count: int = SYNTHETIC) -> Data:
    """Return whole numbers from 0 to 100, each as likely as any other (SyntheticTS)."""
    drawn = np.floor(101 * uniforms("SyntheticTS", count)).astype(np.int64)
    return Data("SyntheticTS", f"generated, as in the paper: {count:,} whole numbers in [0, 100]", False, drawn)


LOADERS: dict[str, Callable[[Path | None], Data]] = {
    "Stock-N": stock,
    "Stock-B": lambda folder: rises(stock(folder)),
    "Trajectory": trajectories,
    "Meters": meters,
    "SyntheticTS": lambda _: synthetic(),
}


def _found(folder: Path | None, *patterns: str) -> Path | None:
    """Return the first file in the folder that a pattern names, None if there is none."""
    if folder is None:
        return None
    if not folder.is_dir():
        raise FileError("the folder of the data cannot be found", str(folder), DATA_HINT)
    return next((path for pattern in patterns for path in sorted(folder.glob(pattern))), None)


def _trips(path: Path) -> NDArray[np.float64]:
    """Return the first points of all trips that are long enough."""
    columns = {name.lower() for name in _columns(path)}
    if "polyline" in columns:
        lists = _as("DOUBLE[][]", "POLYLINE")
        broken = _rows(path, f"SELECT count(*) AS bad FROM {{file}} WHERE {lists} IS NULL")
        if broken["bad"][0]:
            got = f"{int(broken['bad'][0]):,} rows in {path.name}"
            raise DataError("a POLYLINE is damaged", got, "each is a list of [longitude, latitude], as JSON")
        query = f"SELECT [p[1] for p in {lists}] AS lon, [p[2] for p in {lists}] AS lat"
        query += " FROM {file}"
    elif {"lon_e6", "lat_e6"} <= columns:
        query = "SELECT [x / 1e6 for x in lon_e6] AS lon, [y / 1e6 for y in lat_e6] AS lat FROM {file}"
    elif "points" in columns:
        query = "SELECT [p[1] for p in points] AS lon, [p[2] for p in points] AS lat FROM {file}"
    elif {"time", "lon", "lat"} <= columns and columns & {"id", "trip_id"}:
        trip = "trip_id" if "trip_id" in columns else "id"
        # Times are timestamps or numbers; in a CSV all is text until it is cast.
        order = f"{_as('TIMESTAMP', 'time')}, {_as('DOUBLE', 'time')}"
        lists = ", ".join(f"list({_as('DOUBLE', name)} ORDER BY {order}) AS {name}" for name in ("lon", "lat"))
        query = f"SELECT {lists} FROM {{file}} GROUP BY {trip} ORDER BY {trip}"
    else:
        wanted = "POLYLINE; or trip_id, lon_e6, lat_e6; or id, time, lon, lat"
        raise DataError("the file has no columns of trips", f"{path.name}", f"needed: {wanted}")
    first = f"SELECT lon[1:{POINTS}] AS lon, lat[1:{POINTS}] AS lat FROM ({query})"
    rows = _rows(path, f"{first} WHERE len(lon) >= {POINTS} AND len(lat) >= {POINTS}")
    if not len(rows["lon"]):
        return np.empty((0, POINTS, 2))
    return np.stack([np.stack(rows["lon"]), np.stack(rows["lat"])], axis=-1).astype(np.float64)


def _as(kind: str, column: str) -> str:
    """Return a column as a type, null where it is none.

    Not a bare TRY_CAST: DuckDB moves that into its reader of CSV, which then refuses the whole file.
    """
    return f"TRY_CAST(trim(CAST({column} AS VARCHAR)) AS {kind})"


def _columns(path: Path) -> list[str]:
    return _relation(path, "SELECT * FROM {file} LIMIT 0").columns


def _rows(path: Path, query: str) -> dict[str, Any]:
    try:
        return _relation(path, query).fetchnumpy()
    except duckdb.Error as error:
        raise _damaged(path, error) from None


def _relation(path: Path, query: str) -> duckdb.DuckDBPyRelation:
    """Return what a query says of a file; DuckDB knows Parquet and CSV, compressed or not."""
    name = str(path).replace("'", "''")
    file = (
        f"read_parquet('{name}')"
        if path.suffix == ".parquet"
        else f"read_csv('{name}', header=true, all_varchar=true)"
    )
    try:
        return duckdb.connect().sql(query.format(file=file))
    except duckdb.Error as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: duckdb.Error) -> FileError:
    """Return what is wrong with a file, without a word of what is in it."""
    kind = type(error).__name__.removesuffix("Exception")
    return FileError("a data file cannot be read", f"{path.name}, {kind} error", DATA_HINT)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
