"""Frames: the same type and schema come back, and every series has the plan that it has anywhere."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.tables import KEY, RUN, VALUES, Example, examples, moved, readings
from whenmask import Key, RanSwitch, StaSwitch
from whenmask.columns import Columns
from whenmask.errors import DataError, ParameterError
from whenmask.frames import release_frame

MECHANISM = RanSwitch.from_probabilities(q=0.15, window=4)
STATEFUL = StaSwitch.from_probabilities(q=0.15, window=4)


def release(frame: Any, example: Example) -> Any:
    """Release a table in whatever holds it."""
    return MECHANISM.release(frame, by=example.by, time=example.time, keep="note", key=KEY, run=RUN)


@given(examples())
@settings(max_examples=150)
def test_arrow_tables_come_back_as_planned(example: Example) -> None:
    """Slot columns stay, values move by the plan of their series, in the schema that was given."""
    sources = example.sources(MECHANISM)
    expected = moved(example.table, sources)
    released = release(example.table, example)
    assert released.schema.equals(example.table.schema, check_metadata=True)
    assert released.to_pydict() == expected
    assert sorted(sources) == list(range(len(sources)))
    for batch in example.table.combine_chunks().to_batches():
        assert release(batch, example).to_pydict() == expected


@given(examples())
@settings(max_examples=100)
def test_polars_frames_come_back_as_planned(example: Example) -> None:
    """Categories, zones and nested columns too, in eager and in lazy frames."""
    frame = pl.DataFrame(example.table)
    sources = example.sources(MECHANISM)
    expected = frame.with_columns(frame.select(VALUES)[sources])
    released = release(frame, example)
    assert released.schema == frame.schema
    pl.testing.assert_frame_equal(released, expected, categorical_as_str=True)
    lazy = release(frame.lazy(), example)
    assert isinstance(lazy, pl.LazyFrame)
    pl.testing.assert_frame_equal(lazy.collect(), expected, categorical_as_str=True)


@pytest.mark.parametrize("backed", [False, True], ids=["numpy", "arrow"])
@given(example=examples())
@settings(max_examples=75)
def test_pandas_frames_come_back_as_planned(backed: bool, example: Example) -> None:
    """With their index, repeated labels and all, types, attributes and categories."""
    frame = example.table.to_pandas(types_mapper=pd.ArrowDtype if backed else None)
    frame.index = pd.Index([f"label {row // 2}" for row in range(len(frame))], name="index")
    frame.attrs["made by"] = "test"
    sources = example.sources(MECHANISM)
    expected = frame.copy()
    expected[list(VALUES)] = frame[list(VALUES)].iloc[sources].set_axis(frame.index)
    before = frame.copy()
    released = release(frame, example)
    assert type(released) is pd.DataFrame
    assert released.attrs == frame.attrs
    pd.testing.assert_frame_equal(released, expected.astype(frame.dtypes))
    pd.testing.assert_frame_equal(frame, before)


def test_ids_of_many_types_mean_the_same_everywhere() -> None:
    """Widths, encodings and libraries make no difference to the plan of a series."""
    numbers, texts = [3, -4, 3, 3, -4, 3] * 20, ["b", "ä", "b", "b", "ä", "b"] * 20
    base = {"time": range(120), "x": range(120)}
    given = [pa.table({**base, "id": pa.array(numbers, kind)}) for kind in (pa.int8(), pa.int64(), pa.int16())] + [
        pd.DataFrame({**base, "id": np.array(numbers, np.int32)}),
        pl.DataFrame({**base, "id": numbers}),
    ]
    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
    named = [pa.table({**base, "id": pa.array(texts, kind)}) for kind in kinds]
    named += [
        pd.DataFrame({**base, "id": texts}),
        pd.DataFrame({**base, "id": pd.Categorical(texts, categories=["unused", "ä", "b"], ordered=True)}),
        pl.DataFrame({**base, "id": pl.Series(texts, dtype=pl.Categorical)}),
        pl.DataFrame({**base, "id": pl.Series(texts, dtype=pl.Enum(["b", "unused", "ä"]))}),
    ]
    for group in (given, named):
        released = [MECHANISM.release(one, by="id", time="time", key=KEY, run=RUN)["x"] for one in group]
        assert len({tuple(np.asarray(one).tolist()) for one in released}) == 1


def test_a_table_without_ids_is_one_series() -> None:
    """Without `by` the series is called what `series` says; without `time` the rows are the slots."""
    frame = pl.DataFrame({"time": [3, 1, 2, 0], "x": [30, 10, 20, 0]})
    released = MECHANISM.release(frame, time="time", series="meter 7", key=KEY, run=RUN)
    source = MECHANISM.plan(4, key=KEY, series="meter 7", run=RUN).source
    assert released.sort("time")["x"].to_list() == (source * 10).tolist()
    rows = MECHANISM.release(frame, key=KEY, series="meter 7", run=RUN)
    assert rows.equals(frame[source.tolist()])
    assert MECHANISM.release(frame, key=KEY).columns == ["time", "x"]
    with pytest.raises(ParameterError, match="`by` and `series` exclude each other"):
        MECHANISM.release(frame, by="x", series=1)


@pytest.mark.parametrize("mechanism", [MECHANISM, STATEFUL])
def test_many_series_in_any_order(mechanism) -> None:
    """More series than 16 bits can number, backwards in time and by turns."""
    table = readings(70_000, 3)
    whole = mechanism.release(table, by="meter", time="time", key=KEY, run=RUN)
    order = np.random.default_rng(1).permutation(len(table))
    shuffled = mechanism.release(table.take(order), by="meter", time="time", key=KEY, run=RUN)
    assert shuffled.equals(whole.take(order))
    for meter in (0, 7, 65_536, 69_999):
        source = mechanism.plan(3, key=KEY, series=meter, run=RUN).source
        assert whole["kwh"][3 * meter : 3 * meter + 3].to_pylist() == ((source + 3 * meter) / 8).tolist()


def test_schemas_keep_what_narwhals_does_not_know() -> None:
    """Metadata, and that a field may not be null."""
    fields = [pa.field("t", pa.int64(), False, {"unit": "h"}), pa.field("x", pa.int64(), False, {"unit": "W"})]
    schema = pa.schema(fields, {"origin": "test"})
    table = pa.table([[0, 1, 2], [5, 6, 7]], schema=schema)
    assert MECHANISM.release(table, time="t").schema.equals(schema, check_metadata=True)
    assert MECHANISM.release(table[:0], time="t").schema.equals(schema, check_metadata=True)


def test_chunks_with_different_dictionaries_are_one_column() -> None:
    """Ids and values may come in chunks that number their texts differently."""
    parts = [pa.array(words).dictionary_encode() for words in (["a", "b"] * 3, ["b", "c", "a"] * 2)]
    table = pa.table({"id": pa.chunked_array(parts), "t": range(12), "x": pa.chunked_array(parts)})
    released = MECHANISM.release(table, by="id", time="t", key=KEY)
    assert released["x"].to_pylist() == table["id"].to_pylist()
    assert released.schema == table.schema


NULLS = [
    ({"id": ["a", None, "a"], "t": [0, 1, 2]}, "every row must have a series id; got at least 1 row"),
    ({"id": [1.5, float("nan"), 1.5], "t": [0, 1, 2]}, "every row must have a series id; got at least 1 row"),
    ({"id": ["a", "a", "a"], "t": [0, None, None]}, "every row must have a time; got at least 2 rows"),
    ({"id": ["a", "a", "a"], "t": [0.5, float("nan"), 2]}, "every row must have a time; got at least 1 row"),
    ({"id": ["b", "a", "a"], "t": [5, 5, 5]}, "a time must occur only once within a series"),
]


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame, pl.LazyFrame])
@pytest.mark.parametrize(("columns", "problem"), NULLS)
def test_bad_rows_are_refused_by_number(make, columns, problem) -> None:
    """Null ids and times and repeated times are never mended in silence; the message names a row, not its data."""
    frame = make({**columns, "secret": [111, 222, 333]})
    with pytest.raises(DataError) as caught:
        MECHANISM.release(frame, by="id", time="t")
    assert problem in str(caught.value)
    assert f"row {2 if 'once' in problem else 1} (counted from 0)" in str(caught.value)
    assert "222" not in str(caught.value)


def test_nulls_of_a_date_and_a_dictionary_are_found() -> None:
    """NaT, and a null inside a dictionary, are null too."""
    frame = pd.DataFrame({"t": pd.Series([pd.Timestamp("2024-01-01"), pd.NaT]), "x": [1, 2]})
    with pytest.raises(DataError, match="every row must have a time"):
        MECHANISM.release(frame, time="t")
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array(["a", None]))
    with pytest.raises(DataError, match=r"series id; got at least 2 rows otherwise, for example row 1"):
        MECHANISM.release(pa.table({"id": ids, "x": [1, 2, 3]}), by="id")
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 2, 3]), pa.array(["a", None, "b", "a"]))
    table = pa.table({"id": unused, "x": [1, 2, 3]})
    plain = pa.table({"id": ["a", "b", "a"], "x": [1, 2, 3]})
    released = [MECHANISM.release(one, by="id", key=KEY, run=RUN)["x"].to_pylist() for one in (table, plain)]
    assert released[0] == released[1]


def test_zeros_of_either_sign_are_one_series() -> None:
    """−0.0 equals 0.0, so they are one series; 1.0 is another."""
    table = pa.table({"id": [0.0, -0.0, 0.0, 1.0], "t": [0, 0, 1, 2], "x": [1, 2, 3, 4]})
    with pytest.raises(DataError, match="only once within a series"):
        MECHANISM.release(table, by="id", time="t")


COLUMNS = [
    ({"by": "nothing"}, "`by` must name columns of the table; got by='nothing'"),
    ({"time": "nothing"}, "`time` must name columns of the table"),
    ({"values": ["nothing"]}, "`values` must name columns of the table"),
    ({"keep": "nothing"}, "`keep` must name columns of the table"),
    ({"time": ["t", "x"]}, "`time` must name one column; got 2 names"),
    ({"by": 5}, "`by` must name columns; got by of type int"),
    ({"by": "id", "keep": "id"}, "a column can have only one role; got 'id' more than once"),
    ({"by": ["id", "id"]}, "a column can have only one role"),
    ({"by": "id", "values": "x"}, "every other column must be in `by`, `time` or `keep`; got 1 column"),
    ({"by": "id", "time": "t", "keep": "x"}, "there must be at least one column of values"),
    ({"by": "id", "values": [], "keep": ["t", "x"]}, "there must be at least one column of values"),
]


@pytest.mark.parametrize(("roles", "problem"), COLUMNS)
def test_roles_that_do_not_fit_are_refused(roles, problem) -> None:
    """Each column has one role, and the columns that move are beyond doubt."""
    with pytest.raises(ParameterError) as caught:
        MECHANISM.release(pa.table({"id": ["a"], "t": [0], "x": [1]}), **roles)
    assert problem in str(caught.value)


def test_misspelt_roles_are_refused() -> None:
    """A role that is not understood is never left out in silence: without `by` all would be one series."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'bye'"):
        MECHANISM.release(pa.table({"id": ["a"], "x": [1]}), bye="id")  # type: ignore[call-arg]


BAD = [
    (pa.table({"id": [[1]], "t": [0], "x": [1]}), "cannot name series; got type list"),
    (pa.table({"id": [{"a": 1}], "t": [0], "x": [1]}), "cannot name series; got type struct"),
    (pa.table({"id": [1], "t": ["2024"], "x": [1]}), "cannot be the time; got type string"),
    (pl.DataFrame({"id": [object()], "t": [0], "x": [1]}), "must be of a type that Arrow knows"),
    (pl.DataFrame({"id": pl.Series([1], dtype=pl.Int128), "t": [0], "x": [1]}), "of a type that Arrow knows"),
    (pd.DataFrame({"id": [1, "a"], "t": [0, 1], "x": [1, 2]}), "must be of a type that Arrow knows"),
    (pa.table({"id": [1], "t": [1], "x": pa.array(["a"], pa.string_view())}), "of a type that Arrow cannot move"),
    (pd.DataFrame([[1, 2, 3, 4]], columns=["id", "t", "x", "x"]), "must have different names"),
    (pa.table([[1], [2], [3], [4]], names=["id", "t", "x", "x"]), "must have different names"),
]


@pytest.mark.parametrize(("frame", "problem"), BAD)
def test_types_that_cannot_serve_are_refused(frame, problem) -> None:
    """What cannot be an id or a time says so, and shows no value."""
    with pytest.raises(DataError) as caught:
        MECHANISM.release(frame, by="id", time="t")
    assert problem in str(caught.value)
    assert "2024" not in str(caught.value)


def test_what_is_no_table_has_no_columns() -> None:
    """Naming columns of a series is a mistake; so is a table of a kind that cannot be collected here."""
    import duckdb

    for series in ([1, 2], np.arange(2), pl.Series([1, 2]), pd.Series([1, 2])):
        with pytest.raises(ParameterError, match="columns can be named only in a table; got by with a"):
            MECHANISM.release(series, by="id")
    with pytest.raises(DataError, match="values must have a length"):
        MECHANISM.release(iter([1, 2]))
    with pytest.raises(DataError, match="this is not a table; got a list"):
        release_frame([1, 2], MECHANISM, Columns())
    with pytest.raises(DataError, match="a lazy frame of this kind cannot be released"):
        MECHANISM.release(duckdb.sql("select 1 as x"))


def test_series_are_released_in_their_own_type() -> None:
    """A column on its own is one series."""
    source = MECHANISM.plan(9, key=KEY, run=RUN).source
    for make in (np.array, list, tuple, pa.array, pl.Series, pd.Series):
        values = make([float(i) for i in range(9)])
        released = MECHANISM.release(values, key=KEY, run=RUN)
        assert type(released) is type(values)
        assert np.array_equal(np.asarray(released), source)


def test_runs_are_fresh_unless_asked_for() -> None:
    """Two releases under one key differ, and so do two under two keys."""
    table = readings(1, 400)
    same = [MECHANISM.release(table, by="meter", time="time", key=KEY, run=RUN) for _ in range(2)]
    others = [
        MECHANISM.release(table, by="meter", time="time", key=KEY),
        MECHANISM.release(table, by="meter", time="time", key=KEY),
        MECHANISM.release(table, by="meter", time="time", key=Key.for_testing(12), run=RUN),
        MECHANISM.release(table, by="meter", time="time"),
    ]
    assert same[0].equals(same[1])
    assert len({tuple(one["kwh"].to_pylist()) for one in [same[0], *others]}) == 5


def test_streams_need_no_table_library() -> None:
    """A device that pushes values, or releases an array, never imports Arrow or narwhals."""
    code = (
        "import sys; from whenmask import RanSwitch; m = RanSwitch(4, window=3); m.stream().push(1)\n"
        "m.release([1, 2, 3]); print({'pyarrow', 'narwhals', 'pandas', 'polars'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
