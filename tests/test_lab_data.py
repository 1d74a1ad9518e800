"""The data sets of the lab: every format read, damage refused, and twins that resemble what they stand for."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from whenmask.cli import run
from whenmask.errors import DataError, FileError
from whenmask.lab import datasets, twins
from whenmask.lab.datasets import POINTS, meters, rises, stock, synthetic, trajectories


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Forget what was read before: files change under one name here."""
    for load in (stock, trajectories, meters):
        load.cache_clear()


def write_prices(folder: Path, rows: list[str], name: str = "ge.us.csv") -> None:
    """Write a file of daily prices."""
    lines = ["Date,Open,High,Low,Close,Volume,OpenInt", *rows]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def prices(count: int = 200, close: str = "") -> list[str]:
    """Return rows of prices; `close` stands in the last but one."""
    days = np.datetime64("1990-01-01") + np.arange(count)
    rows = [f"{day},1,1,1,{1 + number % 7},5,0" for number, day in enumerate(days)]
    if close:
        rows[-2] = f"{days[-2]},1,1,1,{close},5,0"
    return rows


def write_trips(path: Path, lengths: list[int]) -> None:
    """Write trips with a POLYLINE as JSON, as in the taxi file of ECML/PKDD 2015."""
    rows = ["TRIP_ID,MISSING_DATA,POLYLINE"]
    for number, length in enumerate(lengths):
        line = json.dumps([[-8.6 + 0.0001 * step, 41.1 + 0.001 * number] for step in range(length)])
        rows.append(f'{number},False,"{line}"')
    text = "\n".join(rows) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")


def test_prices_are_read_and_their_rises_counted(tmp_path: Path) -> None:
    """Closes in the order of the days; a rise is a close above the one before."""
    write_prices(tmp_path, prices())
    data = stock(tmp_path)
    assert data.real
    assert data.values[:8].tolist() == [1, 2, 3, 4, 5, 6, 7, 1]
    assert rises(data).values[:7].tolist() == [True] * 6 + [False]
    assert "ge.us.csv, 200 days" in data.label


@pytest.mark.parametrize("close", ["", "0", "-3", "n/a", "nan"])
def test_a_damaged_price_is_refused_without_showing_it(tmp_path: Path, close: str) -> None:
    """No price, no positive one, or none at all."""
    rows = prices(close=close) if close else prices()[:50]
    write_prices(tmp_path, rows)
    with pytest.raises(DataError, match=r"the daily prices are damaged; got \d+ rows, [01] of them") as told:
        stock(tmp_path)
    assert "n/a" not in str(told.value)


def test_days_out_of_order_are_refused(tmp_path: Path) -> None:
    """A moving average of shuffled days would mean nothing."""
    write_prices(tmp_path, prices()[::-1])
    with pytest.raises(DataError, match="not in order"):
        stock(tmp_path)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    """A missing column, a folder that is not there, bytes that are no Parquet."""
    (tmp_path / "ge.us.csv").write_text("Date,Price\n2000-01-01,5\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"a data file cannot be read; got ge\.us\.csv, Binder error"):
        stock(tmp_path)
    with pytest.raises(FileError, match="the folder of the data cannot be found"):
        stock(tmp_path / "nowhere")
    (tmp_path / "taxi_sf.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(FileError, match="cannot be read"):
        trajectories(tmp_path)
    (tmp_path / "smart_meters.csv").write_text("meter,time\nm,2013-01-01\n", encoding="utf-8")
    with pytest.raises(FileError, match="cannot be read"):
        meters(tmp_path)


@pytest.mark.parametrize("name", ["train.csv", "train.csv.gz"])
def test_polylines_are_read_and_short_trips_left_out(tmp_path: Path, name: str) -> None:
    """Trips of 300 points and more stay, with their first 300."""
    write_trips(tmp_path / name, [POINTS - 1, *[POINTS + extra for extra in range(13)]])
    trips = trajectories(tmp_path).values
    assert trips.shape == (13, POINTS, 2)
    assert trips[0, 1].tolist() == pytest.approx([-8.5999, 41.101])


def test_other_tables_of_trips_give_the_same(tmp_path: Path) -> None:
    """A long table and one of lists hold the same trips as the polylines."""
    write_trips(tmp_path / "train.csv", [POINTS] * 12)
    expected = trajectories(tmp_path).values
    (tmp_path / "train.csv").unlink()
    x, y = (expected[:, :, axis] for axis in (0, 1))
    table = {"lon_e6": np.round(x * 1e6).astype(int).tolist(), "lat_e6": np.round(y * 1e6).astype(int).tolist()}
    parquet.write_table(pa.table({"trip_id": list("abcdefghijkl"), **table}), tmp_path / "taxi_sf.parquet")
    trajectories.cache_clear()
    assert trajectories(tmp_path).values == pytest.approx(expected, abs=1e-6)
    (tmp_path / "taxi_sf.parquet").unlink()
    lines = ["id,time,lon,lat"]
    lines += [
        f"trip {trip:02d},{step},{x[trip, step]},{y[trip, step]}"
        for step in reversed(range(POINTS))
        for trip in range(12)
    ]
    (tmp_path / "my_trajectories.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    trajectories.cache_clear()
    assert trajectories(tmp_path).values == pytest.approx(expected)


def test_damaged_trips_are_refused(tmp_path: Path) -> None:
    """A polyline cut short, too few trips, no columns of trips."""
    write_trips(tmp_path / "train.csv", [POINTS] * 12)
    text = (tmp_path / "train.csv").read_text(encoding="utf-8")
    (tmp_path / "train.csv").write_text(text[:-30] + '"\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"a POLYLINE is damaged; got 1 rows"):
        trajectories(tmp_path)
    trajectories.cache_clear()
    write_trips(tmp_path / "train.csv", [POINTS] * 3)
    with pytest.raises(DataError, match="too few trips"):
        trajectories(tmp_path)
    trajectories.cache_clear()
    (tmp_path / "train.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="no columns of trips"):
        trajectories(tmp_path)


def test_meters_of_a_whole_year_are_kept(tmp_path: Path) -> None:
    """Readings become whole Wh in the order of time, with the month and half hour of each."""
    times = np.datetime64("2013-01-01T00:00") + 30 * np.arange(17_520)
    rows = {
        "meter": ["whole"] * times.size + ["short"] * 99,
        "time": pa.array(np.concatenate([times[::-1], times[:99]]).astype("datetime64[us]")),
        "kwh": np.concatenate([np.arange(17_520)[::-1] % 48 / 1000, np.ones(99)]),
    }
    parquet.write_table(pa.table(rows), tmp_path / "smart_meters.parquet")
    (meter,) = meters(tmp_path).values
    assert meter.wh.tolist() == list(range(48)) * 365
    assert meter.half_hour.tolist() == list(range(48)) * 365
    days = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    assert np.bincount(meter.month)[1:].tolist() == [48 * length for length in days]


def test_damaged_readings_are_refused(tmp_path: Path) -> None:
    """A reading that is no number, or meters that were read for less than a year."""
    lines = ["meter,time,kwh", "m,2013-01-01 00:00:00,0.1", "m,2013-01-01 00:30:00,broken"]
    path = tmp_path / "smart_meters.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="missing or no numbers"):
        meters(tmp_path)
    meters.cache_clear()
    path.write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="no meter was read for a whole year"):
        meters(tmp_path)


def test_the_price_walk_resembles_the_real_prices() -> None:
    """Length, first and last price, volatility, and how often nothing moves, as measured on the real series."""
    walk = stock(None).values
    moves = np.diff(np.log(walk))
    assert walk.size == 14_058
    assert walk[[0, -1]] == pytest.approx([0.6201, 20.49], rel=0.004)
    assert moves.std() == pytest.approx(0.01625, rel=0.03)
    assert np.mean(moves == 0) == pytest.approx(0.153, abs=0.02)
    assert np.mean(moves > 0) == pytest.approx(0.425, abs=0.02)
    assert (walk == twins.price_walk()).all()


def test_the_twin_of_trips_drives_on_a_grid() -> None:
    """One block a step or none, along a street; some halts; no two trips the same."""
    trips = twins.street_trips(50)
    steps = np.diff(trips, axis=1)
    lengths = np.abs(steps).sum(axis=2)
    assert trips.shape == (50, POINTS, 2)
    assert set(np.unique(lengths.round(1))) == {0.0, 120.0}
    assert (np.abs(steps).min(axis=2) == 0).all()
    assert 0.1 < np.mean(lengths == 0) < 0.4
    assert len(np.unique(trips.reshape(50, -1), axis=0)) == 50


def test_the_twin_of_households_has_a_daily_shape() -> None:
    """More is used in the evening than at night, in whole Wh."""
    for wh in twins.households(3):
        day = wh.reshape(-1, 48).mean(axis=0)
        assert wh.dtype == np.int64
        assert wh.min() >= 0
        assert day[34:44].mean() > 2 * day[2:8].mean()


def test_the_synthetic_series_is_uniform() -> None:
    """Each of 101 numbers as often as any other: chi-square below 182, its 1 − 10⁻⁶ quantile; and it has power."""
    drawn = synthetic(200_000).values
    counts = np.bincount(drawn, minlength=101)
    expected = 200_000 / 101

    def statistic(seen: np.ndarray) -> float:
        return float(((seen - expected) ** 2 / expected).sum())

    assert counts.size == 101
    assert statistic(counts) < 182
    tilted = counts * np.linspace(0.9, 1.1, 101)
    assert statistic(tilted) > 182


def test_the_command_says_what_is_there(tmp_path: Path, capsys) -> None:
    """A measured file with its digest beside generated twins; damage ends with exit code 2."""
    write_prices(tmp_path, prices())
    assert run(["data", "--data", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "ge.us.csv, 200 days" in shown
    assert "generated twin, 2,000 trips" in shown
    stock.cache_clear()
    write_prices(tmp_path, prices(close="n/a"))
    assert run(["data", "--data", str(tmp_path)]) == 2
    refused = capsys.readouterr().err
    assert "damaged" in refused
    assert "Traceback" not in refused


def test_every_refusal_has_a_hint(tmp_path: Path) -> None:
    """What is wrong with data comes with what to do."""
    for name, load in datasets.LOADERS.items():
        if name != "SyntheticTS":
            with pytest.raises(FileError) as told:
                load(tmp_path / "nowhere")
            assert told.value.hint
