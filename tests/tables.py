"""Tables for tests, and what their release must be: grouped, sorted and moved in plain Python."""

import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from whenmask import Key
from whenmask.keystream import Series
from whenmask.mechanisms import Temporal

# Real readings, which are no part of the repository: tests that use them are skipped where they are absent.
SHARED = Path(os.environ.get("WHENMASK_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
LONDON = SHARED / "smart_meters_london_2013.parquet"
KEY = Key.for_testing(11)
RUN = "tables"
UTC = dt.UTC
VALUES = ("row", "reading", "kind", "seen", "track", "point")


def series_of(value: Any) -> Series:
    """Return the id that a value must have, one type at a time."""
    match value:
        case bool() | int() | str() | bytes():
            return value
        case float():
            return (f"float:{value}",)
        case Decimal():
            return (f"decimal:{value.normalize():f}",)
        case dt.datetime() if value.tzinfo:
            return (f"instant:{value.astimezone(UTC).replace(tzinfo=None).isoformat().rstrip('0')}Z",)
        case dt.datetime():
            return (f"timestamp:{value.isoformat().rstrip('0')}",)
        case dt.date():
            return (f"date:{value.isoformat()}",)
    raise AssertionError(type(value))


ZONE = "Europe/Zurich"
MOMENTS = st.integers(1, 10**9).map(
    lambda s: dt.datetime(2000, 1, 1, 0, 0, 1, 500_001) + dt.timedelta(hours=s % 10**5)
)
IDS = {
    pa.string(): st.text(max_size=5),
    pa.large_string(): st.sampled_from(["Zürich", "東京", "a", "", "\U0001f600", "null"]),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["north", "süd", "east"]),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=4),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    pa.date32(): st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("us", ZONE): MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    pa.decimal128(12, 3): st.integers(-(10**9), 10**9).map(lambda n: Decimal(n).scaleb(-3)),
}
START = dt.datetime(2024, 3, 30)
TIMES = {
    pa.int64(): lambda hour: hour - 20,
    pa.uint8(): lambda hour: hour,
    pa.float64(): lambda hour: hour / 4,
    pa.date32(): lambda hour: START.date() + dt.timedelta(days=hour),
    pa.timestamp("ns"): lambda hour: START + dt.timedelta(hours=hour),
    pa.timestamp("ms", ZONE): lambda hour: (START + dt.timedelta(hours=hour)).replace(tzinfo=UTC),
}


@dataclass(frozen=True)
class Example:
    """A table in any order of rows, and the names of its columns."""

    table: pa.Table
    by: tuple[str, ...]
    time: str = "time"

    def sources(self, mechanism: Temporal) -> list[int]:
        """Return for each row the row whose values it must get, by the plans of its series."""
        ids = [self.table[name].to_pylist() for name in self.by]
        times = self.table[self.time].to_pylist()
        groups: dict[Any, list[int]] = {}
        for row in range(len(times)):
            groups.setdefault(tuple(series_of(column[row]) for column in ids), []).append(row)
        sources = [-1] * len(times)
        for name, rows in groups.items():
            rows.sort(key=lambda row: times[row])
            series = None if not self.by else name[0] if len(self.by) == 1 else name
            plan = mechanism.plan(len(rows), key=KEY, series=series, run=RUN)
            for slot, source in zip(rows, plan.source.tolist(), strict=True):
                sources[slot] = rows[source] if source >= 0 else -1
        return sources

    def sorted(self) -> "Example":
        """Return the same table by series and time."""
        ids = [self.table[name].to_pylist() for name in (*self.by, self.time)]
        order = sorted(range(len(self.table)), key=lambda row: [column[row] for column in ids])
        return Example(self.table.take(pa.array(order, pa.int64())), self.by, self.time)


def moved(table: pa.Table, sources: Sequence[int]) -> dict[str, list[Any]]:
    """Return the columns with the values of each row replaced by those of its source, in plain Python."""
    columns = table.to_pydict()
    for name in VALUES:
        columns[name] = [None if source < 0 else columns[name][source] for source in sources]
    return columns


def values(rows: int) -> dict[str, pa.Array]:
    """Return value columns of several types, with nulls, and different in each row."""
    numbers = range(rows)
    kinds = pa.array([None if n % 5 == 3 else "abc"[n % 3] for n in numbers], pa.string()).dictionary_encode()
    moments = [None if n % 4 == 1 else START + dt.timedelta(minutes=n) for n in numbers]
    tracks = [None if n % 6 == 2 else [n] * (n % 3) for n in numbers]
    points = [None if n % 7 == 5 else {"x": n / 8, "name": str(n)} for n in numbers]
    return {
        "row": pa.array(numbers, pa.int32()),
        "reading": pa.array([None if n % 3 == 1 else n / 8 for n in numbers], pa.float64()),
        "kind": kinds,
        "seen": pa.array(moments, pa.timestamp("us")).cast(pa.timestamp("us", ZONE)),
        "track": pa.array(tracks, pa.list_(pa.int64())),
        "point": pa.array(points, pa.struct({"x": pa.float64(), "name": pa.string()})),
    }


@st.composite
def examples(draw: st.DrawFn) -> Example:
    """Draw tables: ids of one or two columns and of any type, series of any length, rows in any order."""
    kinds = draw(st.lists(st.sampled_from(list(IDS)), max_size=2))
    one = st.tuples(*(IDS[kind] for kind in kinds))
    ids = draw(st.lists(one, min_size=2, max_size=6, unique=True)) if kinds else [()]
    lengths = [draw(st.sampled_from([20, 9, 4, 1, 0])) for _ in ids]
    clock = draw(st.sampled_from(list(TIMES)))
    rows = [(name, hour) for name, length in zip(ids, lengths, strict=True) for hour in range(length)]
    rows = draw(st.permutations(rows))
    by = tuple(f"id {place}" for place in range(len(kinds)))
    columns = {
        name: pa.array([row[0][place] for row in rows], kind)
        for place, (name, kind) in enumerate(zip(by, kinds, strict=True))
    }
    time = {"time": pa.array([TIMES[clock](hour) for _, hour in rows], clock)}
    note = {"note": pa.array([f"row {row}" for row in range(len(rows))], pa.string())}
    return Example(pa.table(values(len(rows)) | time | columns | note), by)


def readings(series: int, length: int) -> pa.Table:
    """Return a plain sorted table of numbers."""
    rows = np.arange(series * length)
    return pa.table({"meter": rows // length, "time": rows % length, "kwh": rows / 8})
