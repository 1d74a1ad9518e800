"""The check before a release: each finding where it belongs, and not where it does not."""

import datetime
import decimal
import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import LONDON
from whenmask import WhenmaskError, check
from whenmask.check import check_batches, check_frame, refuse_useless
from whenmask.cli import run
from whenmask.clues import Column, Direction, Others
from whenmask.columns import Columns
from whenmask.errors import DataError, ParameterError
from whenmask.finding import Finding

ROLES = Columns(by=("meter",), time="time")
WINDOW = 24
METERS = 5
LENGTH = 400
START = datetime.datetime(2024, 3, 1)
RNG = np.random.default_rng(20240301)
KWH = RNG.gamma(1.2, 0.4, (METERS, LENGTH))
HOURS = np.tile(np.arange(LENGTH), (METERS, 1))


def times() -> pa.Array:
    """Return hourly times for every meter."""
    return pa.array([START + datetime.timedelta(hours=int(hour)) for hour in HOURS.ravel()], pa.timestamp("us"))


def table(column, window: int | None = WINDOW, by=("meter",)) -> list[Finding]:
    """Return the findings about one column of values in a table of hourly readings."""
    values = pa.array(column.ravel() if isinstance(column, np.ndarray) else column)
    meters = pa.array(np.repeat([f"m{number}" for number in range(METERS)], LENGTH))
    batch = pa.record_batch({"meter": meters, "time": times(), "x": values})
    return check_batches([batch], Columns(by=by, time="time"), window=window)


def kinds(found: list[Finding]) -> list[tuple[str, str]]:
    """Return what was found, in short."""
    return [(one.kind, one.severity) for one in found]


def texts(form: str) -> list[str]:
    """Return the times as text."""
    return [(START + datetime.timedelta(hours=int(hour))).strftime(form) for hour in HOURS.ravel()]


def test_readings_that_go_up_and_down_are_not_found_fault_with() -> None:
    """Ordinary readings have no finding at all, with a window and without."""
    assert table(KWH) == []
    assert table(KWH, window=None) == []
    assert table((1000 * KWH).astype(np.int64)) == []


def test_a_meter_that_adds_up_is_a_counter_and_its_differences_are_not() -> None:
    """A cumulative reading is useless to release; the readings it adds up are fine."""
    (found,) = table(KWH.cumsum(axis=1))
    assert (found.kind, found.column, found.severity) == ("counter", "x", "useless")
    assert "differences" in found.advice
    assert f"{METERS * (LENGTH - 1):,} changes (100%)" in found.what_found


def test_a_counter_that_starts_again_every_day_is_one_and_a_saw_of_halves_is_not() -> None:
    """One fall in 48 changes gives the order away; as many falls as rises do not."""
    daily = np.tile(np.arange(48.0), METERS * LENGTH // 48 + 1)[: METERS * LENGTH]
    assert kinds(table(daily + 0.3 * KWH.ravel() / KWH.max(), window=None)) == [("counter", "useless")]
    saw = np.tile([0.0, 1.0, 2.0, 1.0], METERS * LENGTH // 4)
    assert kinds(table(saw + 0.1 * KWH.ravel() / KWH.max())) == []


def test_a_counter_that_falls_is_one() -> None:
    """A meter that counts down tells as much as one that counts up."""
    (found,) = table(-KWH.cumsum(axis=1))
    assert found.kind == "counter"
    assert found.what_found.startswith("it falls")


def test_a_counter_that_hardly_ever_moves_is_a_warning() -> None:
    """A version that rises every 100 rows tells apart only few of the pairs in a window."""
    assert kinds(table(HOURS // 100))[0] == ("counter", "warning")
    assert kinds(table(HOURS // 12))[0] == ("counter", "useless")


def test_a_drift_in_most_changes_is_a_warning() -> None:
    """Nine rises to one fall are a warning, six to four are nothing."""
    steps = np.where(np.arange(METERS * LENGTH) % 10 == 0, -1.0, 1.0) * (1 + KWH.ravel())
    assert kinds(table(steps.reshape(METERS, LENGTH).cumsum(axis=1), window=None)) == [("counter", "warning")]
    even = np.where(np.isin(np.arange(METERS * LENGTH) % 10, (0, 2, 5, 7)), -1.2, 1.0) * (1 + KWH.ravel())
    assert kinds(table(even.reshape(METERS, LENGTH).cumsum(axis=1), window=None)) == []


def test_too_few_rows_to_be_sure_are_a_warning() -> None:
    """Nine rises without a fall may be chance; seven are not worth a word."""
    for rows, expected in ((10, [("counter", "warning")]), (8, [])):
        batch = pa.record_batch({"x": np.sort(RNG.random(rows))})
        assert kinds(check_batches([batch], Columns())) == expected


@pytest.mark.parametrize("step", [1, -3, 3600.0])
def test_row_numbers_are_a_sequence_and_shuffled_ones_are_not(step) -> None:
    """The same step from row to row is a sequence, of numbers and of instants in seconds."""
    assert kinds(table(step * HOURS)) == [("sequence", "useless")]
    assert kinds(table(np.arange(METERS * LENGTH))) == [("sequence", "useless")]
    assert kinds(table(RNG.permutation(METERS * LENGTH) * step)) == []


def test_padded_row_numbers_in_text_are_found() -> None:
    """Text that sorts with time is a counter; the same texts in any order are not."""
    padded = [f"row-{number:06d}" for number in range(METERS * LENGTH)]
    assert kinds(table(padded)) == [("counter", "useless")]
    assert kinds(table(RNG.permutation(padded).tolist())) == []


def test_numbers_kept_as_text_are_judged_as_numbers() -> None:
    """9.5 comes before 10, as text too; a word or an empty cell here and there changes nothing."""
    total = [f"{value:.1f}" for value in (30 * KWH).cumsum(axis=1).ravel()]
    assert kinds(table(total)) == [("counter", "useless")]
    total[::50] = ["", "n/a"] * (len(total) // 100)
    assert kinds(table(total))[0] == ("counter", "useless")
    assert kinds(table([f"{value:.3f}" for value in KWH.ravel()])) == []
    late = [None] * 700 + [f"{number}" for number in range(METERS * LENGTH - 700)]
    words = [None] * 700 + [f"row {number:05d}" for number in range(METERS * LENGTH - 700)]
    assert kinds(table(late))[0] == ("sequence", "useless")
    assert kinds(table(words))[0] == ("counter", "useless")


def test_a_timestamp_is_found_and_a_date_of_installation_is_not() -> None:
    """A time that changes from row to row tells the row's time; one that is the same all along does not."""
    assert kinds(table(times())) == [("timestamp", "useless")]
    assert kinds(table(times().cast(pa.date32())))[0] == ("timestamp", "useless")
    installed = [datetime.date(2020, 1, 1 + meter) for meter in range(METERS) for _ in range(LENGTH)]
    assert ("timestamp", "useless") not in kinds(table(installed))
    assert {one.kind for one in table(installed)} == {"equal"}


def test_a_time_that_seldom_changes_is_a_warning() -> None:
    """The date of the last service moves once: it tells before from after, and no more."""
    serviced = [datetime.date(2024, 1, 1 + (hour > 200)) for hour in HOURS.ravel()]
    assert ("timestamp", "warning") in kinds(table(serviced))


def test_durations_are_numbers() -> None:
    """How long something took is no moment."""
    assert kinds(table(pa.array((1e6 * KWH).astype(np.int64).ravel(), pa.duration("us")))) == []


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%d %H:%M:%S+01:00",
        "%d/%m/%Y %H:%M",
        "%m/%d/%y",
        "%Y%m%dT%H%M%S",
        "%Y%m%d",
        "%H:%M",
        "%I:%M %p",
        "%d %b %Y %H:%M",
        "%B %d, %Y",
        "%a, %d %b %Y %H:%M:%S UTC",
    ],
)
def test_text_that_is_a_time_is_found(form: str) -> None:
    """Dates and times in the usual ways to write them are times."""
    assert kinds(table(texts(form)))[0] == ("clock text", "useless")


@pytest.mark.parametrize(
    "words",
    [
        ["1.2.3", "1.10.4", "2.0.1"],
        ["10.0.0.1", "192.168.1.20", "172.16.0.9"],
        ["A-17", "B-2024", "12"],
        ["3/4", "1/2", "7/8"],
        ["20249931", "19007712", "20251301"],
        ["2024", "2025", "1999"],
    ],
)
def test_text_that_only_looks_a_little_like_a_time_is_not(words: list[str]) -> None:
    """Versions, addresses, fractions, codes and years are not taken for times."""
    assert kinds(table([words[number] for number in RNG.integers(0, 3, METERS * LENGTH)])) == []


def test_unique_row_ids_are_found_and_a_devices_own_id_is_not() -> None:
    """A UUID per row can be looked up; one per series says no more than the series."""
    each = [str(uuid.UUID(int=int(number))) for number in RNG.integers(0, 2**63, METERS * LENGTH)]
    assert kinds(table(each)) == [("row id", "useless")]
    same = [each[meter] for meter in range(METERS) for _ in range(LENGTH)]
    assert {one.kind for one in table(same)} == {"equal"}


def test_a_trend_over_a_window_is_found_and_a_daily_curve_is_not() -> None:
    """A slow rise under noise tells first from last in a window; a curve that comes back does not."""
    noise = RNG.normal(size=(METERS, LENGTH))
    assert kinds(table(HOURS + 6 * noise)) == [("trend", "useless")]
    assert kinds(table(np.sin(2 * np.pi * HOURS / 24 + HOURS[:, :1]) + noise)) == []
    assert kinds(table(HOURS + 6 * noise, window=None)) == []
    short = pa.record_batch({"x": HOURS[0, :60] + 6 * noise[0, :60]})  # three windows may rise by chance
    assert kinds(check_batches([short], Columns(), window=WINDOW)) == []


def test_what_is_the_same_everywhere_is_found_and_what_is_alike_is_not() -> None:
    """The weather at a time tells the time; readings of the same kind, each its own, do not."""
    weather = np.tile(np.round(10 + 5 * RNG.normal(size=LENGTH), 1), (METERS, 1))
    (found,) = table(weather)
    assert (found.kind, found.severity) == ("shared", "useless")
    assert "keep" in found.advice
    tariff = np.tile(HOURS[0] // 8 % 3, (METERS, 1))
    assert kinds(table(tariff))[0] == ("shared", "warning")
    alike = np.round(10 + 5 * RNG.normal(size=(METERS, LENGTH)), 1)
    assert kinds(table(alike)) == []


def test_flags_that_are_mostly_equal_are_not_taken_for_shared() -> None:
    """Two series that agree because both are nearly always 0 share nothing that tells the time."""
    flags = (RNG.random((METERS, LENGTH)) < 0.01).astype(np.int64)
    assert {one.kind for one in table(flags)} == {"equal"}


def test_equal_neighbours_are_counted() -> None:
    """From half of the neighbours on, that they are equal is said, with the longest run."""
    (found,) = table(np.repeat(RNG.random((METERS, LENGTH // 4)), 4, axis=1))
    assert (found.kind, found.severity) == ("equal", "note")
    assert "run of equal ones has 4 rows" in found.what_found
    assert "; 0 rows are in runs of at least the window" in found.what_found
    mixed = RNG.random((METERS, LENGTH))
    mixed[:, ::5] = mixed[:, 1::5]
    assert kinds(table(mixed)) == []


def test_runs_longer_than_the_window_are_a_warning() -> None:
    """Where a whole window is equal, nothing is hidden; a row less than a window is only a note."""
    for rows, severity in ((WINDOW, "warning"), (WINDOW - 4, "note")):
        runs = np.repeat(RNG.random((METERS, LENGTH)), rows, axis=1)[:, :LENGTH]
        assert ("equal", severity) in kinds(table(runs))


@pytest.mark.parametrize(
    ("lengths", "expected"), [([24, 30], []), ([23, 30, 30], ["note"]), ([23, 30], ["warning"])]
)
def test_series_shorter_than_the_window_are_counted(lengths: list[int], expected: list[str]) -> None:
    """A series of exactly a window is long enough; one row less is not."""
    meters = np.repeat(np.arange(len(lengths)), lengths)
    batch = pa.record_batch({"meter": meters, "x": RNG.random(meters.size)})
    found = check_batches([batch], Columns(by=("meter",)), window=24)
    assert [one.severity for one in found] == expected
    assert all(one.kind == "short" and one.what_found.startswith("1 of ") for one in found)


def test_series_of_one_row_are_useless_unless_there_are_longer_ones() -> None:
    """Where every series has one row, the columns that name them are wrong."""
    batch = pa.record_batch({"meter": np.arange(9), "x": RNG.random(9)})
    assert kinds(check_batches([batch], Columns(by=("meter",)))) == [("single", "useless")]
    batch = pa.record_batch({"meter": [*range(8), 7], "x": RNG.random(9)})
    assert kinds(check_batches([batch], Columns(by=("meter",)))) == []


def test_an_empty_table_is_said_to_be_empty() -> None:
    """No batch, and a batch without rows, are no error; a row is not nothing."""
    empty = pa.record_batch({"x": pa.array([], pa.float64())})
    assert kinds(check_batches([], Columns())) == [("empty", "note")]
    assert kinds(check_batches([empty], Columns())) == [("empty", "note")]
    assert kinds(check_frame(pd.DataFrame({"x": []}))) == [("empty", "note")]
    assert kinds(check_frame(pa.table({"x": [1.0]}))) == [("single", "useless")]


def test_columns_without_an_order_are_said_to_be_unread() -> None:
    """What is nested is not looked into, and that is said; decimals and bytes are."""
    assert kinds(table([[number] for number in range(METERS * LENGTH)])) == [("unread", "note")]
    ordered = [decimal.Decimal(number).scaleb(-2) for number in range(METERS * LENGTH)]
    assert kinds(table(ordered)) == [("sequence", "useless")]
    assert kinds(table([number.to_bytes(4, "big") for number in range(METERS * LENGTH)])) == [
        ("counter", "useless")
    ]


def test_nulls_between_values_hide_no_counter() -> None:
    """Pairs with a null are left out; what is left is judged."""
    counter = [None if number % 3 == 0 else number for number in range(METERS * LENGTH)]
    assert kinds(table(counter))[0] == ("counter", "useless")
    assert kinds(table([None] * (METERS * LENGTH))) == []
    assert kinds(table([float("nan")] * (METERS * LENGTH))) == []


def test_the_worst_comes_first_and_nothing_shows_a_value() -> None:
    """Findings are sorted by severity, and their text holds names of columns and numbers only."""
    word = "zyzzyva"
    batch = pa.record_batch(
        {
            "meter": [word] * 100,
            "flag": [word] * 100,
            "nested": [[word]] * 100,
            "total": np.arange(100) + 987654321,
        }
    )
    found = check_batches([batch], Columns(by=("meter",)), window=200)
    assert kinds(found) == [("sequence", "useless"), ("short", "warning"), ("equal", "note"), ("unread", "note")]
    assert all(word not in str(one) and "98765" not in str(one) for one in found)


def ups_and_downs(values: list, runs: list[int], apart: int) -> tuple[int, int, int]:
    """Return ups, downs and ties, counted one by one."""
    counts = [0, 0, 0]
    for now in range(apart, len(values)):
        first, last = values[now - apart], values[now]
        if runs[now] == runs[now - apart] and first is not None and last is not None:
            counts[0 if last > first else 1 if last < first else 2] += 1
    return counts[0], counts[1], counts[2]


def stretches(values: list, runs: list[int]) -> list[int]:
    """Return the lengths of runs of equal values, counted one by one."""
    lengths: list[int] = []
    for now in range(len(values)):
        if now and values[now] == values[now - 1] and runs[now] == runs[now - 1]:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


@given(seed=st.integers(0, 2**32), window=st.integers(2, 9), text=st.booleans())
def test_counts_are_right_however_the_table_is_cut(seed: int, window: int, text: bool) -> None:
    """Ups, downs, ties, even steps and runs equal the slow count, for numbers and text, wherever batches end."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(12, 60))
    runs = np.cumsum(rng.random(rows) < 0.05).tolist()
    drawn = rng.integers(0, rng.integers(2, 6), rows).tolist()
    gaps = rng.random(rows) < 0.1
    values: list[Any] = [
        None if gap else "abcdef"[value] if text else value for gap, value in zip(gaps, drawn, strict=True)
    ]
    array = pa.array(values, pa.string() if text else pa.int64())
    column = Column("x", array.type, window)
    edges = [0, *np.unique(rng.integers(1, rows, rng.integers(0, 6))).tolist(), rows]
    for start, end in itertools.pairwise(edges):
        column.extend(array.slice(start, end - start), np.array(runs[start:end]), Others())
    for direction, apart in ((column.near, 1), (column.far, window - 1)):
        if apart > 1 or direction is column.near:
            assert (direction.ups, direction.downs, direction.ties) == ups_and_downs(values, runs, apart)
    lengths = stretches(values, runs)
    assert max(column.longest, column.streak) == max(lengths)
    assert column.frozen == sum(length for length in lengths[:-1] if length >= window)
    if not text:
        triples = [
            (values[now] - values[now - 1], values[now - 1] - values[now - 2])
            for now in range(2, len(values))
            if runs[now] == runs[now - 2] and None not in values[now - 2 : now + 1]
        ]
        assert column.steps == len(triples)
        assert column.even_steps == sum(one == other != 0 for one, other in triples)


def test_a_table_looked_at_in_many_parts_has_the_same_findings(monkeypatch) -> None:
    """What is found does not depend on how many rows are looked at together."""
    columns = {
        "meter": np.repeat([f"m{number}" for number in range(METERS)], LENGTH),
        "time": times(),
        "kwh": KWH.ravel(),
        "total": KWH.cumsum(axis=1).ravel(),
        "text": texts("%Y-%m-%d %H:%M"),
        "steady": np.repeat(KWH.ravel()[::8], 8),
    }
    batches = pa.table(columns).to_batches(max_chunksize=37)
    whole = check_batches(batches, ROLES, window=7)
    monkeypatch.setattr(check, "STRETCH", 50)
    parts = check_batches(batches, ROLES, window=7)
    assert parts == whole
    late = pa.table({"x": [None] * 200 + [f"row {number:05d}" for number in range(200)]}).to_batches(
        max_chunksize=37
    )
    assert kinds(check_batches(late, Columns(), window=7)) == [("counter", "useless")]
    assert kinds(whole) == [("counter", "useless"), ("clock text", "useless"), ("equal", "warning")]


def test_batches_pass_through_unchanged() -> None:
    """A release can be checked while it is made."""
    batches = pa.table({"x": RNG.random(100)}).to_batches(max_chunksize=30)
    look = check.Check(Columns(), window=5)
    assert [passed is batch for passed, batch in zip(look.watch(batches), batches, strict=True)] == [True] * 4
    assert (look.rows, look.series) == (100, 1)


def test_what_is_useless_is_refused_and_what_is_not_passes() -> None:
    """A release is refused with the columns to blame; warnings and notes do not stop it."""
    with pytest.raises(
        DataError, match=r"would hide little or nothing; got 'x' \(counter\). Hint: .*--accept-risk"
    ):
        refuse_useless(table(KWH.cumsum(axis=1)))
    warned = table(HOURS // 100)
    assert {one.severity for one in warned} == {"warning"}
    refuse_useless(warned)


def test_frames_of_any_library_and_order_have_the_findings_of_their_batches() -> None:
    """pandas, Polars (eager, lazy) and Arrow, shuffled, are sorted before they are looked at."""
    meters = np.repeat([f"m{number}" for number in range(METERS)], LENGTH)
    ordered = pa.table({"meter": meters, "time": times(), "kwh": KWH.ravel(), "total": KWH.cumsum(axis=1).ravel()})
    expected = check_batches(ordered.to_batches(), ROLES, window=WINDOW)
    assert kinds(expected) == [("counter", "useless")]
    shuffled = ordered.take(pa.array(RNG.permutation(len(ordered))))
    frames = (
        shuffled,
        shuffled.combine_chunks().to_batches()[0],
        shuffled.to_pandas(),
        pl.DataFrame(shuffled),
        pl.DataFrame(shuffled).lazy(),
    )
    for frame in frames:
        assert check_frame(frame, by="meter", time="time", window=WINDOW) == expected


def test_objects_that_arrow_does_not_know_are_unread() -> None:
    """A column of anything is released, so it must be possible to check its table."""
    frame = pd.DataFrame({"x": [object(), 1, "a"]})
    assert ("unread", "note") in kinds(check_frame(frame))


CELLS = st.sampled_from(
    [
        (pa.int8(), st.integers(-128, 127)),
        (pa.uint64(), st.integers(0, 2**64 - 1)),
        (pa.float16(), st.just(1.5)),
        (pa.float64(), st.floats()),
        (pa.bool_(), st.booleans()),
        (pa.string(), st.text(max_size=12)),
        (pa.string_view(), st.text(max_size=12)),
        (pa.large_binary(), st.binary(max_size=5)),
        (pa.binary(3), st.binary(min_size=3, max_size=3)),
        (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
        (pa.decimal256(50, 2), st.decimals(-9999, 9999, places=2)),
        (pa.date32(), st.dates()),
        (pa.time64("us"), st.times()),
        (pa.timestamp("us"), st.datetimes()),
        (pa.timestamp("us", "Europe/Berlin"), st.datetimes(timezones=st.just(datetime.UTC))),
        (pa.duration("us"), st.timedeltas(datetime.timedelta(0), datetime.timedelta(9))),
        (pa.null(), st.none()),
        (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"])),
        (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=3)),
        (pa.struct([("a", pa.int64())]), st.fixed_dictionaries({"a": st.integers(0, 9)})),
        (pa.map_(pa.string(), pa.int64()), st.just([("a", 1)])),
        (pa.month_day_nano_interval(), st.just(pa.MonthDayNano([1, 2, 3]))),
    ]
)


@st.composite
def tables(draw) -> pa.Table:
    """Return tables of columns of any type, with nulls and without rows."""
    rows = draw(st.integers(0, 12))
    columns = {}
    for number in range(draw(st.integers(1, 4))):
        kind, cells = draw(CELLS)
        columns[f"c{number}"] = pa.array(draw(st.lists(st.none() | cells, min_size=rows, max_size=rows)), kind)
    return pa.table(columns)


@given(frame=tables(), by=st.booleans(), time=st.booleans(), window=st.none() | st.integers(2, 5))
def test_any_table_has_findings_or_an_error_that_says_why(frame: pa.Table, by, time, window) -> None:
    """Whatever is in a table, the check ends with findings or with one of the errors that are meant."""
    names = frame.column_names
    roles = {"by": names[0] if by else None, "time": names[-1] if time else None}
    try:
        found = check_frame(frame, window=window, **roles)
    except WhenmaskError:
        assert by or time
        return
    assert all(one.column is None or one.column in names for one in found)


def test_chance_is_not_taken_for_an_order() -> None:
    """Error level 1e-6: of 300 tables of independent values none is useless; of 300 that lean to 70% all are sure.

    Powers: in 600 changes a lean of 70% is told from fair ups and downs.
    """
    for seed in range(300):
        rng = np.random.default_rng(seed)
        batch = pa.record_batch({"meter": np.repeat(np.arange(30), 21), "x": rng.random(630)})
        assert kinds(check_batches([batch], Columns(by=("meter",)), window=10)) == []
        ups = int((rng.random(600) < 0.7).sum())
        assert Direction(ups, 600 - ups).sure()


def test_bad_input_is_refused() -> None:
    """Windows, columns and batches that do not fit get their error."""
    batch = pa.record_batch({"meter": ["a", None], "x": [1, 2]})
    with pytest.raises(ParameterError, match="`window` must be at least 2; got window=1"):
        check_batches([batch], Columns(), window=1)
    with pytest.raises(ParameterError, match="must name columns of the table"):
        check_batches([batch], Columns(by=("nosuch",)))
    with pytest.raises(DataError, match="every row must have a series id"):
        check_batches([batch], Columns(by=("meter",)))
    with pytest.raises(DataError, match="same schema"):
        check_batches([batch, batch.rename_columns(["meter", "y"])], Columns())


@pytest.mark.skipif(not LONDON.exists(), reason="the London table is not beside the repository")
def test_real_meters_pass_and_their_running_total_does_not() -> None:
    """A million half-hourly readings have no finding; added up they are a counter."""
    london = pq.read_table(LONDON).sort_by([("meter", "ascending"), ("time", "ascending")])
    assert check_batches(london.to_batches(), ROLES, window=48) == []
    total = london.set_column(2, "total", pc.cumulative_sum(london["kwh"]))
    assert kinds(check_batches(total.to_batches(), ROLES, window=48)) == [("counter", "useless")]


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    """Return a CSV file of readings and their running total, in no order."""
    meters = np.repeat(["a", "b"], LENGTH)
    total = KWH[:2].cumsum(axis=1).ravel()
    frame = pl.DataFrame({"meter": meters, "time": texts("%Y-%m-%d %H:%M:%S")[: 2 * LENGTH], "total": total})
    path = tmp_path / "readings.csv"
    frame.sample(fraction=1, shuffle=True, seed=1).write_csv(path)
    return path


def test_the_command_prints_findings_and_exits_with_zero(readings: Path, capsys) -> None:
    """What is found is said in words or as JSON; it is the release that refuses."""
    arguments = ["check", str(readings), "--by", "meter", "--time", "time", "--window", "24"]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "useless: counter, column 'total'" in shown
    assert "800 rows in 2 series. 1 of 1 findings make a release useless." in shown.replace("\n", " ")
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["rows"], document["series"]) == (800, 2)
    assert [one["kind"] for one in document["findings"]] == ["counter"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nosuch.csv", None, "no such file"),
        ("table.xlsx", "a", "must say its format"),
        ("broken.parquet", "PAR1 nothing", "not a complete Parquet file"),
        ("other.csv", "a,b\n1,2\n3,4\n", "must name columns of the table"),
    ],
)
def test_files_that_cannot_be_checked_exit_with_two(name, content, message, tmp_path: Path, capsys) -> None:
    """A missing, unknown, damaged or unfitting file is refused without a traceback or a line of data."""
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert run(["check", str(path), "--by", "meter", "--time", "time"]) == 2
    assert message in capsys.readouterr().err
