"""`take`: rows where a plan says, in every container, and empty slots with what suits the type."""

import array
import collections
import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whenmask.errors import DataError
from whenmask.take import take

HOLES = np.array([0, -1, 0, 2])
FULL = np.array([3, 2, 1, 0])
# A float would not keep it.
BIG = 2**60 + 1
DAY = datetime.datetime(2020, 2, 29, 12)


def rows(values):
    """Return what a container holds as plain Python, null and NaN as None."""
    if isinstance(values, pa.Table | pa.RecordBatch):
        return [tuple(row.values()) for row in values.to_pylist()]
    if isinstance(values, pl.DataFrame):
        return values.rows()
    if isinstance(values, pd.DataFrame):
        return [tuple(None if pd.isna(cell) else cell for cell in row) for row in values.itertuples(index=False)]
    if isinstance(values, pd.Series):
        return [None if pd.isna(cell) else cell for cell in values]
    if hasattr(values, "to_pylist"):
        return values.to_pylist()
    return values.to_list() if isinstance(values, pl.Series) else list(values)


def table(kind, **columns):
    """Return columns as one of the kinds of table."""
    makers = {
        "arrow table": pa.table,
        "arrow chunked table": lambda c: pa.concat_tables([pa.table(c).slice(0, 1), pa.table(c).slice(1)]),
        "arrow batch": pa.RecordBatch.from_pydict,
        "pandas": lambda c: pd.DataFrame(c, index=list("wxyz")),
        "polars": pl.DataFrame,
    }
    return makers[kind](columns)


def column(kind, values):
    """Return values as one of the kinds of column."""
    makers = {
        "arrow": pa.array,
        "arrow chunked": lambda v: pa.chunked_array([pa.array(v[:1]), pa.array(v[1:])]),
        "pandas": lambda v: pd.Series(v, index=list("wxyz"), name="n"),
        "polars": lambda v: pl.Series("n", v),
    }
    return makers[kind](values)


COLUMNS = ["arrow", "arrow chunked", "pandas", "polars"]
TABLES = ["arrow table", "arrow chunked table", "arrow batch", "pandas", "polars"]
CELLS: dict[str, tuple[list, object]] = {
    "whole numbers": ([BIG, 2, 3, 4], 7),
    "floats": ([0.5, 1.5, 2.5, 3.5], -1.0),
    "texts": (["a", "b", "c", "d"], "none"),
    "truth values": ([True, False, True, True], False),
    "moments": ([DAY + datetime.timedelta(days=i) for i in range(4)], DAY),
}


# -------------------------------------------------------------------------------------------------------- frames


@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("kind", COLUMNS)
def test_columns(kind, cells):
    """A column keeps its values exactly, gets null by default and what is given otherwise."""
    values, blank = CELLS[cells]
    given_column = column(kind, values)
    whole = take(given_column, FULL)
    assert type(whole) is type(given_column)
    assert rows(whole) == values[::-1]
    assert rows(take(given_column, HOLES)) == [values[0], None, values[0], values[2]]
    assert rows(take(given_column, HOLES, None)) == [values[0], None, values[0], values[2]]
    filled = take(given_column, HOLES, blank)
    assert rows(filled) == [values[0], blank, values[0], values[2]]
    for taken in (whole, filled):
        name = "dtype" if hasattr(taken, "dtype") else "type"
        assert getattr(taken, name) == getattr(given_column, name)
    assert rows(given_column) == values


@pytest.mark.parametrize("kind", TABLES)
def test_tables(kind):
    """Rows of a table stay together; columns of every type get null, or the one value given."""
    columns = {name.replace(" ", "_"): values for name, (values, _) in CELLS.items()}
    given_table = table(kind, **columns)
    expected = list(zip(*columns.values(), strict=True))
    whole = take(given_table, FULL)
    assert type(whole) is type(given_table)
    assert rows(whole) == expected[::-1]
    assert rows(take(given_table, HOLES)) == [expected[0], (None,) * 5, expected[0], expected[2]]
    numbers = take(table(kind, a=[1, 2, 3, 4], b=[5, 6, 7, 8]), HOLES, -1)
    assert rows(numbers) == [(1, 5), (-1, -1), (1, 5), (3, 7)]
    with pytest.raises(DataError, match="cannot hold this `empty`"):
        take(given_table, HOLES, -1)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("blank", ["text", 1.5, [1], 2**70])
def test_columns_refuse_what_they_cannot_hold(kind, blank):
    """An `empty` that whole numbers cannot hold is refused, never rounded, and never changes the column's type."""
    with pytest.raises(DataError, match="cannot hold this `empty`; got a (str|float|list|int) for"):
        take(column(kind, [1, 2, 3, 4]), HOLES, blank)


def test_pandas_keeps_index_name_and_kinds():
    """The index names the slots; whole numbers turn nullable only where there are empty slots."""
    frame = pd.DataFrame(
        {
            "u": np.array([1, 2, 3, 255], "u1"),
            "c": pd.Categorical(list("abca")),
            "t": pd.to_datetime(["2020-01-01"] * 4).tz_localize("UTC"),
            "n": pd.array([1, None, 3, 4], dtype="Int32"),
            "o": [[1], None, {}, 4],
        },
        index=pd.MultiIndex.from_tuples([(1, "a"), (1, "a"), (2, "a"), (2, "b")]),
    )
    whole, holed = take(frame, FULL), take(frame, HOLES)
    assert list(whole.index) == list(holed.index) == list(frame.index)
    assert whole.dtypes.tolist() == frame.dtypes.tolist()
    assert [str(dtype) for dtype in holed.dtypes] == [
        "UInt8",
        "category",
        str(frame["t"].dtype),
        "Int32",
        "object",
    ]
    assert holed.iloc[1].isna().all()
    assert holed["u"].iloc[3] == 3
    assert take(pd.Series([1, 2], name="n"), np.array([1, -1])).name == "n"
    twice = take(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), np.array([1, -1]))
    assert rows(twice) == [(3, 4), (None, None)]
    assert take(pd.Series(list("abca"), dtype="category"), HOLES, "b").tolist() == ["a", "b", "a", "c"]
    with pytest.raises(DataError, match="cannot hold this `empty`"):
        take(pd.Series(list("abca"), dtype="category"), HOLES, "z")
    with pytest.raises(DataError, match="cannot hold this `empty`"):
        take(pd.Series([1, 2], dtype="int8"), np.array([1, -1]), 300)


def test_subclasses_of_frames_stay_what_they_are():
    """A subclass of a library's frame, from another module, is taken as such."""

    class Frame(pd.DataFrame):
        @property
        def _constructor(self):
            return Frame

    assert isinstance(take(Frame({"a": [1, 2, 3, 4]}), HOLES), Frame)


def test_arrow_keeps_types():
    """Dictionaries, lists, structs, extension metadata and schemas stay; small types refuse large numbers."""
    words = pa.array(list("abca")).dictionary_encode()
    assert take(words, HOLES).to_pylist() == ["a", None, "a", "c"]
    assert take(words, HOLES, "z").to_pylist() == ["a", "z", "a", "c"]
    chunked = pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()])
    assert take(chunked, np.array([1, -1])).to_pylist() == ["b", None]
    lists = pa.array([[1], [2], None, [4, 5]])
    assert take(lists, np.array([3, -1, 2, 0])).to_pylist() == [[4, 5], None, None, [1]]
    assert take(lists, np.array([3, -1, 2, 0]), [9]).to_pylist() == [[4, 5], [9], None, [1]]
    structs = pa.array([{"a": 1}, {"a": 2}])
    assert take(structs, np.array([1, -1]), {"a": 9}).to_pylist() == [{"a": 2}, {"a": 9}]
    schema = pa.schema([pa.field("a", pa.int8(), metadata={"k": "v"})], metadata={"t": "x"})
    for kept in (pa.table({"a": [1, 2]}, schema=schema), pa.record_batch({"a": [1, 2]}, schema=schema)):
        for taken in (take(kept, np.array([1, -1])), take(kept, np.array([1, -1]), 0)):
            assert taken.schema.equals(schema, check_metadata=True)
        with pytest.raises(DataError, match="a int for int8"):
            take(kept, np.array([1, -1]), 300)


def test_arrow_fields_that_are_not_null():
    """A field declared without null takes an `empty`, and never gets a null."""
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    strict = pa.table({"a": [1, 2]}, schema=schema)
    for blank in ((), (None,)):
        with pytest.raises(DataError, match="no empty value; .* Hint: say what an empty slot holds"):
            take(strict, np.array([1, -1]), *blank)
    assert take(strict, np.array([1, -1]), 0).to_pylist() == [{"a": 2}, {"a": 0}]
    assert take(strict, np.array([1, 0])).to_pylist() == [{"a": 2}, {"a": 1}]


def test_polars_kinds():
    """Small, nested and object columns keep their type."""
    small = pl.Series([1, 2], dtype=pl.Int8)
    assert take(small, np.array([1, -1]), 7).dtype == pl.Int8
    with pytest.raises(DataError, match="cannot hold"):
        take(small, np.array([1, -1]), 300)
    assert take(pl.Series([1.5, 2], dtype=pl.Float32), np.array([1, -1]), 0.5).dtype == pl.Float32
    assert take(pl.Series([[1], [2]]), np.array([1, -1]), [3]).to_list() == [[2], [3]]
    things = [object(), object()]
    assert take(pl.Series(things, dtype=pl.Object), np.array([1, -1])).to_list() == [things[1], None]


# -------------------------------------------------------------------------------------------------- plain arrays


@pytest.mark.parametrize(
    ("values", "blank"),
    [
        (np.arange(4.0), np.nan),
        (np.arange(4, dtype="f4"), np.nan),
        (np.arange(4) * 1j, np.nan),
        (np.arange("2020-01", "2020-05", dtype="M8[M]"), np.datetime64("NaT", "M")),
        (np.arange(4).astype("m8[s]"), np.timedelta64("NaT", "s")),
        (np.array([1, "a", None, {}], object), None),
    ],
)
def test_arrays_with_an_empty_value(values, blank):
    """Types that have an empty value get it, in every dimension, and stay the type they are."""
    for given_array in (values, np.stack([values, values], axis=1), np.asfortranarray(np.stack([values] * 3, 1))):
        before = given_array.copy()
        taken = take(given_array, HOLES)
        assert taken.dtype == given_array.dtype
        assert taken.shape == given_array.shape
        for slot, source in enumerate(HOLES):
            if source < 0:
                assert all(str(cell) == str(np.array(blank, values.dtype)) for cell in np.ravel(taken[slot]))
            else:
                assert np.array_equal(taken[slot], given_array[source])
        assert np.array_equal(take(given_array, FULL), given_array[::-1])
        assert given_array.tobytes() == before.tobytes()


@pytest.mark.parametrize(
    ("values", "blank"),
    [
        (np.arange(4), -1),
        (np.arange(4, dtype="u1"), 255),
        (np.array([True] * 4), False),
        (np.array(list("abcd")), "z"),
        (np.array(list("abcd"), "S1"), b"z"),
        (np.arange(4.0), 7),
        (np.array(["2020-01-01"] * 4, "M8[D]"), np.datetime64("1999-01-01")),
        (np.array([1, "a", None, {}], object), [1, 2]),
        (np.zeros(4, "i4,f8"), (1, 2.0)),
    ],
)
def test_arrays_with_a_given_value(values, blank):
    """What is given fills empty slots, in the array's own type."""
    taken = take(values, HOLES, blank)
    assert taken.dtype == values.dtype
    assert taken[1] == (blank if values.dtype.kind in "OSU" else np.array(blank, values.dtype)[()])
    assert [taken[0], taken[2], taken[3]] == [values[0], values[0], values[2]]


@pytest.mark.parametrize(
    "values", [np.arange(4), np.array([True] * 4), np.array(list("abcd")), np.zeros(4, "i4,f8")]
)
def test_arrays_without_an_empty_value(values):
    """Types without an empty value need one where there are empty slots, and only there."""
    with pytest.raises(DataError, match=r"no empty value; got dtype .* Hint: .*empty=-1"):
        take(values, HOLES)
    assert np.array_equal(take(values, FULL), values[::-1])


@pytest.mark.parametrize(
    ("values", "blank"),
    [
        (np.arange(4), 1.5),
        (np.arange(4), np.nan),
        (np.arange(4), None),
        (np.arange(4), "7"),
        (np.arange(4, dtype="i1"), 300),
        (np.arange(4, dtype="u8"), -1),
        (np.array([True] * 4), 2),
        (np.array(list("abcd")), "none"),
        (np.array(list("abcd")), 7),
        (np.arange(4.0), "text"),
        (np.array(["2020-01-01"] * 4, "M8[D]"), 7),
        (np.zeros((4, 2)), [1, 2, 3]),
    ],
)
def test_arrays_refuse_what_they_cannot_hold(values, blank):
    """An `empty` that the type would change is refused: not rounded, wrapped around or cut short."""
    with pytest.raises(DataError, match="cannot hold this `empty`"):
        take(values, HOLES, blank)


def test_rows_of_arrays():
    """A whole row may be given for arrays of two dimensions."""
    taken = take(np.arange(8).reshape(4, 2), HOLES, [-1, -2])
    assert taken.tolist() == [[0, 1], [-1, -2], [0, 1], [4, 5]]


def test_sequences():
    """Lists and tuples stay what they are and hold any object; other sequences become lists."""
    things = ["a", None, {1: 2}, object()]
    assert take(things, HOLES) == ["a", None, "a", things[2]]
    assert take(things, HOLES, "nothing") == ["a", "nothing", "a", things[2]]
    assert take(tuple(things), FULL) == tuple(things[::-1])
    assert take(tuple(things), HOLES)[1] is None
    assert take(range(4), FULL) == [3, 2, 1, 0]
    assert take(collections.deque("abcd"), HOLES) == ["a", None, "a", "c"]
    assert take(array.array("i", [1, 2, 3, 4]), FULL) == [4, 3, 2, 1]
    assert take([], np.array([], np.int64)) == []


@pytest.mark.parametrize(
    "values",
    [
        "abcd",
        b"abcd",
        {"a": 1, "b": 2, "c": 3, "d": 4},
        {1, 2, 3, 4},
        pd.Index([1, 2, 3, 4]),
        pa.schema([]),
        4,
        None,
    ],
)
def test_what_cannot_be_released(values):
    """Text, sets, mappings, indexes, schemas and numbers are no series."""
    length = len(values) if hasattr(values, "__len__") else 4
    with pytest.raises(DataError, match="Hint: give an array, a list, Arrow data"):
        take(values, np.arange(length))


@pytest.mark.parametrize("values", [np.arange(3), [1, 2, 3], pa.array([1, 2, 3]), pd.Series([1]), pl.Series([1])])
def test_lengths_must_agree(values):
    """A plan serves series of its own length only; the error gives the two lengths and no value."""
    with pytest.raises(DataError, match=f"differ in length; got 4 and {len(values)}"):
        take(values, FULL)


@pytest.mark.parametrize("kind", COLUMNS)
def test_nothing_of_nothing(kind):
    """An empty series gives an empty series of the same type."""
    none = column(kind, ["a"] * 4)[:0]
    taken = take(none, np.array([], np.int64))
    assert type(taken) is type(none)
    assert len(taken) == 0


@given(st.lists(st.integers(-1, 11), min_size=12, max_size=12))
def test_all_containers_agree(sources):
    """Whatever the plan, every container gets the rows that a list gets."""
    source = np.array(sources)
    values = [i * i + BIG for i in range(12)]
    expected = take(values, source)
    objects = np.array(values, object)
    for container in (objects, pa.array(values), pd.Series(values), pl.Series(values)):
        assert rows(take(container, source)) == expected
    frame = pl.DataFrame({"a": values, "b": list("abcdefghijkl")})
    letters = take(list("abcdefghijkl"), source)
    for whole in (frame, frame.to_arrow(), frame.to_pandas()):
        assert rows(take(whole, source)) == list(zip(expected, letters, strict=True))
