"""Columns: what names a series, and what a time is, whatever Arrow type holds it."""

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from whenmask.columns import Columns, number_series, series_ids, time_numbers
from whenmask.errors import DataError, ParameterError
from whenmask.keystream import Context

MOMENT = dt.datetime(2024, 2, 29, 12, 30)
NAME = uuid.UUID(int=7)
IDS = [
    ([7, -7], [pa.int8(), pa.int64()], [7, -7]),
    ([7, 250], [pa.uint8(), pa.uint64(), pa.int32()], [7, 250]),
    (["a", "ü"], [pa.string(), pa.large_string(), pa.string_view()], ["a", "ü"]),
    ([b"a", b"\xff"], [pa.binary(), pa.large_binary(), pa.binary(1), pa.binary_view()], [b"a", b"\xff"]),
    ([True, False], [pa.bool_()], [True, False]),
    (
        [1.5, -0.0, 2.0],
        [pa.float16(), pa.float32(), pa.float64()],
        [("float:1.5",), ("float:0.0",), ("float:2.0",)],
    ),
    (
        [Decimal("1.50"), Decimal("-100"), Decimal("0")],
        [pa.decimal32(9, 2), pa.decimal64(12, 3), pa.decimal128(38, 4), pa.decimal256(60, 5)],
        [("decimal:1.5",), ("decimal:-100",), ("decimal:0",)],
    ),
    ([MOMENT.date()], [pa.date32(), pa.date64()], [("date:2024-02-29",)]),
    ([MOMENT], [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")], [("timestamp:2024-02-29T12:30:00",)]),
    (
        [MOMENT.replace(tzinfo=dt.UTC)],
        [pa.timestamp("s", "UTC"), pa.timestamp("ns", "Asia/Tokyo")],
        [("instant:2024-02-29T12:30:00Z",)],
    ),
    (
        [dt.time(0, 0, 1), dt.time(1)],
        [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
        [("time:1000000000",), ("time:3600000000000",)],
    ),
    (
        [dt.timedelta(seconds=-1)],
        [pa.duration(unit) for unit in ("s", "ms", "us", "ns")],
        [("duration:-1000000000",)],
    ),
    ([NAME.bytes], [pa.uuid()], [NAME.bytes]),
]
CASES = [(given, kind, wanted) for given, kinds, wanted in IDS for kind in kinds]


@pytest.mark.parametrize(("given", "kind", "wanted"), CASES, ids=lambda case: str(case)[:20])
def test_ids_do_not_depend_on_width_unit_or_scale(given, kind, wanted) -> None:
    """One value has one id, which a context can hold; nulls have none; and rows are numbered by it."""
    if isinstance(kind, pa.BaseExtensionType):
        column = pa.ExtensionArray.from_storage(kind, pa.array([*given, None], kind.storage_type))
    else:
        column = pa.array([*given, None], kind)
    ids = series_ids(column)
    assert ids == [*wanted, None]
    assert [type(one) for one in ids[:-1]] == [type(one) for one in wanted]
    assert len({Context("m", one, "r").encode() for one in ids}) == len(ids)
    numbers, series = number_series([column[:-1]], len(given))
    assert [series[number] for number in numbers.tolist()] == wanted


def test_fractions_of_seconds_are_kept() -> None:
    """Down to the nanosecond, before the epoch too, and without trailing zeros."""
    column = pa.array([1, -1, 1_500_000_000], pa.int64()).view(pa.timestamp("ns"))
    assert series_ids(column) == [
        ("timestamp:1970-01-01T00:00:00.000000001",),
        ("timestamp:1969-12-31T23:59:59.999999999",),
        ("timestamp:1970-01-01T00:00:01.5",),
    ]


def test_moments_that_python_cannot_hold_are_ids_too() -> None:
    """Arrow's years go further than Python's."""
    dates = pa.array([-(10**9), 10**9], pa.int32()).view(pa.date32())
    assert series_ids(dates) == [("date:-2735938-12-29",), ("date:2739877-01-03",)]


def test_no_text_is_taken_for_another_type() -> None:
    """A text that reads like the id of a date is another series than the date."""
    text = series_ids(pa.array(["date:2024-02-29"]))[0]
    date = series_ids(pa.array([MOMENT.date()]))[0]
    assert Context("m", text, "r").encode() != Context("m", date, "r").encode()


def test_several_columns_make_a_tuple() -> None:
    """In the order in which they are named; equal pairs have equal numbers."""
    first, second = pa.array(["a", "b", "a", "a"]), pa.array([1, 1, 2, 1])
    third = pa.array([True, True, True, True])
    numbers, series = number_series([first, second, third], 4)
    assert [series[number] for number in numbers] == [
        ("a", 1, True),
        ("b", 1, True),
        ("a", 2, True),
        ("a", 1, True),
    ]
    assert number_series([], 3, alone="only")[1] == ["only"]
    assert number_series([], 3)[0].tolist() == [0, 0, 0]
    assert number_series([pa.chunked_array([["a"], ["b", "a"]])], 3)[0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.month_day_nano_interval(), pa.struct({"a": pa.int8()})])
def test_other_types_cannot_name_series(kind) -> None:
    """With the type named, and what would do."""
    for name in (lambda: series_ids(pa.array([None], kind)), lambda: number_series([pa.array([], kind)], 0)):
        with pytest.raises(DataError, match="a column of this type cannot name series; got type"):
            name()


TIMES = [
    (pa.array([3, 1], pa.int16()), [3, 1]),
    (pa.array([2**64 - 1, 0], pa.uint64()), [2**64 - 1, 0]),
    (pa.array([0.5, -1.0], pa.float32()), [0.5, -1.0]),
    (pa.array([dt.date(1970, 1, 2)]), [1]),
    (pa.array([dt.date(1970, 1, 2)], pa.date64()), [86_400_000]),
    (pa.array([dt.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("ms", "Asia/Tokyo")), [1000]),
    (pa.array([dt.time(0, 0, 2)], pa.time32("s")), [2]),
    (pa.array([dt.timedelta(seconds=3)], pa.duration("ns")), [3 * 10**9]),
    (pa.array([5, 4, 5]).dictionary_encode(), [5, 4, 5]),
    (pa.array([], pa.null()), []),
]


@pytest.mark.parametrize(("column", "numbers"), TIMES, ids=lambda case: str(getattr(case, "type", "")))
def test_times_become_numbers(column, numbers) -> None:
    """All that has an order in time, exactly."""
    assert time_numbers(column).tolist() == numbers


def test_slices_are_read_where_they_begin() -> None:
    """Arrow arrays that start within their buffers, as batches cut from a table do."""
    moments = pa.array([dt.datetime(2024, 1, day) for day in range(1, 9)])
    assert np.array_equal(time_numbers(moments[3:]), time_numbers(moments)[3:])
    assert series_ids(moments[3:5]) == [("timestamp:2024-01-04T00:00:00",), ("timestamp:2024-01-05T00:00:00",)]
    words = pa.array(["a", "b", "c", "b"]).dictionary_encode()[1:]
    numbers, series = number_series([words], 3)
    assert [series[number] for number in numbers] == ["b", "c", "b"]


@pytest.mark.parametrize("kind", [pa.string(), pa.decimal128(5, 2), pa.bool_(), pa.month_day_nano_interval()])
def test_other_types_cannot_be_times(kind) -> None:
    """Text sorts as text: "10" before "9"."""
    with pytest.raises(DataError, match="a column of this type cannot be the time; got type"):
        time_numbers(pa.array([None], kind))


def test_roles_are_taken_as_one_name_or_several() -> None:
    """Single names need no brackets."""
    columns = Columns.named(by="meter", time="time", values=["kwh"], keep=("tariff",))
    assert columns == Columns(("meter",), "time", ("kwh",), ("tariff",))
    assert columns.fitted(["tariff", "kwh", "time", "meter"]) == columns
    assert Columns.named(7).fitted(["x", "y"]).moving == ("x", "y")
    with pytest.raises(ParameterError, match="`by` must name columns of the table"):
        Columns.named(by="METER").fitted(["meter"])
    with pytest.raises(DataError, match="must have different names"):
        Columns.named().fitted(["x", "x"])
