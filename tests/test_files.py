"""Files: the same release as frames and batches make, whole or not at all, from anything that can be read."""

import contextlib
import csv
import datetime as dt
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tables import LONDON
from whenmask import Key, RanSwitch
from whenmask.batches import release_batches
from whenmask.cli import run
from whenmask.columns import Columns
from whenmask.errors import DataError, FileError, ParameterError
from whenmask.files import Job, Room, find_invalid, open_inputs, release_files, window_of
from whenmask.files.duration import Steps, parsed_window, spoken
from whenmask.files.fingerprint import Digest
from whenmask.receipt import Receipt

MECHANISM = RanSwitch(4, window=3)
KEY = Key.for_testing(7)
ROLES = Columns(by=("id",), time="time")
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def released(source, output, columns=ROLES, **options):
    """Release a file in the tests' way; return the receipt."""
    with open_inputs([source] if isinstance(source, Path) else source, columns, output=output) as inputs:
        job = Job(output, key=KEY, run=output.name, accept_risk=True, **options)
        return release_files(inputs, MECHANISM, job)


def readings(series=5, length=40, step=30):
    """Return a table of readings, no two of which are equal."""
    count = series * length
    return pa.table(
        {
            "id": [f"mètre {number // length}" for number in range(count)],
            "time": [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=step * (i % length)) for i in range(count)],
            "kwh": np.random.default_rng(5).permutation(count) / 8,
        }
    )


def left(folder):
    """Return what a run left in a folder beside ledger and inputs."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith((".whenmask", "out")))


IDS = {
    "text": st.text(max_size=4),
    "number": st.integers(-3, 3),
    "category": st.sampled_from("xyz"),
    "moment": st.datetimes(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)),
}
ID_TYPES = {
    "text": pa.string(),
    "number": pa.int16(),
    "category": pa.dictionary(pa.int8(), pa.string()),
    "moment": pa.timestamp("us", "Europe/London"),
}
VALUES = {
    "float": (pa.float64(), st.floats(allow_nan=False) | st.none()),
    "half": (pa.float32(), st.floats(width=32, allow_nan=False) | st.none()),
    "text": (pa.large_string(), st.text(max_size=5) | st.none()),
    "bytes": (pa.binary(), st.binary(max_size=5) | st.none()),
    "bool": (pa.bool_(), st.booleans() | st.none()),
    "list": (pa.list_(pa.int32()), st.lists(st.integers(0, 9) | st.none(), max_size=3) | st.none()),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.text(max_size=2)}),
    ),
    "decimal": (pa.decimal128(12, 2), st.decimals(-1000, 1000, places=2) | st.none()),
    "zoned": (pa.timestamp("ms", "Asia/Tokyo"), st.integers(0, 10**12) | st.none()),
    "category": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b", None])),
    "lasting": (pa.duration("s"), st.integers(0, 9) | st.none()),
}


@st.composite
def tables(draw):
    """Return a table with unique times, in any order, of many types."""
    kind = draw(st.sampled_from(sorted(IDS)))
    slots = draw(st.lists(st.tuples(IDS[kind], st.integers(0, 60)), max_size=30, unique=True))
    columns = {
        "id": pa.array([one for one, _ in slots], pa.string() if kind == "category" else ID_TYPES[kind]).cast(
            ID_TYPES[kind]
        ),
        "time": pa.array([when for _, when in slots], pa.timestamp("s")),
    }
    for name in draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4, unique=True)):
        type_, values = VALUES[name]
        columns[name] = pa.array(draw(st.lists(values, min_size=len(slots), max_size=len(slots))), type_)
    return pa.table(columns)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables())
def test_a_file_is_released_as_a_frame_and_as_batches(tmp_path, table) -> None:
    """Parquet of any types: types, slots and the draw are those of the table in memory, row by row."""
    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, source)
    table = pq.read_table(source)  # Parquet has no seconds
    (tmp_path / "whenmask.ledger").unlink(missing_ok=True)
    receipt = released(source, output, force=True)
    got = pq.read_table(output)
    assert got.schema.types == table.schema.types
    frame = MECHANISM.release(table, by="id", time="time", key=KEY, run=output.name)

    def rows(of):
        return {(str(row["id"]), row["time"]): row for row in of.to_pylist()}

    assert rows(got) == rows(frame)
    assert (receipt.rows, receipt.series) == (len(table), len(set(table["id"].to_pylist())))
    batches = list(
        release_batches(
            got.select(["id", "time"])
            .append_column("n", pa.array(range(len(got))))
            .combine_chunks()
            .to_batches(7),
            MECHANISM,
            ROLES,
            key=KEY,
            run="r",
        )
    )
    assert sum(batch.num_rows for batch in batches) == len(table)  # sorted, as batches must be


@pytest.mark.parametrize("first", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("second", ["csv", "parquet", "jsonl", "csv.gz", "jsonl.zst", "tsv"])
def test_any_format_becomes_any_other(tmp_path, first, second) -> None:
    """The released rows are the same, whatever the formats, and types survive where the format has them."""
    table = (
        readings()
        .append_column("n", pa.array(range(200), pa.int64()))
        .append_column("why", pa.array(['a,"b"\n', None] * 100))
    )
    pq.write_table(table, tmp_path / "given.parquet")
    given_file = tmp_path / f"in.{first}"
    copy(tmp_path / "given.parquet", given_file)
    output = tmp_path / f"out.{second}"
    receipt = released(given_file, output)
    copy(output, tmp_path / "seen.parquet")
    got = pq.read_table(tmp_path / "seen.parquet")
    wanted = MECHANISM.release(table, by="id", time="time", key=KEY, run=output.name)
    assert got.to_pylist() == wanted.to_pylist()
    receipt.check(output, KEY)
    assert receipt == Receipt.read(output)


def copy(source: Path, output: Path) -> None:
    """Write a table in another format, by rows that nobody moves: every series is of one value."""
    import duckdb

    connection = duckdb.connect()
    reader = (
        "read_json" if ".json" in source.name else "read_csv" if "parquet" not in source.name else "read_parquet"
    )
    options = ", allow_quoted_nulls = false, nullstr = ''" if reader == "read_csv" else ""
    packed = "zstd" if output.suffix == ".zst" else "gzip" if output.suffix == ".gz" else None
    kind = "JSON" if "json" in output.name else "CSV" if "parquet" not in output.name else "PARQUET"
    extra = f", COMPRESSION {packed}" if packed else ""
    connection.execute(f"COPY (FROM {reader}('{source}'{options})) TO '{output}' (FORMAT {kind}{extra})")


def test_csv_that_stays_csv_keeps_every_digit(tmp_path) -> None:
    """Ids, numbers and times come out in the letters they came in; nothing and empty text stay apart."""
    lines = ["meter,time,kwh,code,note", "007,2024-01-01 00:30,1.10,007,", "007,2024-01-01 00:00,1e3,1," + '""']
    lines += ['7,2024-01-01T00:00:00.5,12345678901234567890.123,0,"a ""b"", c"']
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    released(tmp_path / "in.csv", tmp_path / "out.csv", Columns(by=("meter",), time="time"))
    got = (tmp_path / "out.csv").read_text().splitlines()
    assert got[0] == lines[0]
    assert [line.split(",")[:2] for line in got[1:]] == [
        ["007", "2024-01-01 00:00"],
        ["007", "2024-01-01 00:30"],
        ["7", "2024-01-01T00:00:00.5"],
    ]
    assert sorted(line.split(",", 2)[2] for line in got[1:]) == sorted(line.split(",", 2)[2] for line in lines[1:])


def test_csv_is_typed_only_where_every_cell_is(tmp_path) -> None:
    """In Parquet, leading zeros and stray words leave a column text."""
    head = "id,time,whole,part,code,flag,day,mixed,big\n"
    rows = [
        "a,2024-01-01 00:00:00Z,1,1.5,007,true,2024-01-01,1,9223372036854775808",
        "a,2024-01-01 00:00:00+01:00,-2,2e3,7,false,2024-02-01,x,1",
    ]
    (tmp_path / "in.csv").write_text(head + "\n".join(rows))
    released(tmp_path / "in.csv", tmp_path / "out.parquet")
    types = dict(zip(head.strip().split(","), pq.read_schema(tmp_path / "out.parquet").types, strict=True))
    assert types["whole"] == pa.int64()
    assert types["part"] == pa.float64()
    assert types["flag"] == pa.bool_()
    assert types["day"] == pa.date32()
    assert types["time"] == pa.timestamp("us", "UTC")
    assert {types["code"], types["mixed"]} == {pa.string()}


def test_names_and_paths_are_never_sql(tmp_path) -> None:
    """Quotes, commas, spaces, globs and unicode, in names of columns and files, mean nothing."""
    folder = tmp_path / 'it\'s "here" [1] *'
    folder.mkdir()
    names = ['i"d', "the time; DROP", "k'wh, ü", "line", "batch", "series", "row"]
    table = readings().rename_columns(names[:3])
    for name in names[3:]:
        table = table.append_column(name, table["k'wh, ü"])
    columns = Columns(by=(names[0],), time=names[1])
    pq.write_table(table, folder / "a?'.parquet")
    for number, (first, second) in enumerate(
        [("a?'.parquet", "b'\".csv"), ("b'\".csv", "c';.csv"), ("c';.csv", "d.jsonl"), ("d.jsonl", "e%.parquet")]
    ):
        receipt = released(folder / first, folder / second, columns)
        assert receipt.rows == 200, number
    got = pq.read_table(folder / "e%.parquet")
    assert got.column_names == names
    assert sorted(got["line"].to_pylist()) == sorted(table["line"].to_pylist())


def test_folders_and_globs_of_mixed_formats_are_one_table(tmp_path) -> None:
    """Files of a folder in any format, and globs, are read together; hidden ones and others are not."""
    folder = tmp_path / "parts"
    (folder / "deep").mkdir(parents=True)
    whole = readings(series=6)
    pq.write_table(whole.slice(0, 80), folder / "a.parquet")
    pq.write_table(whole.slice(80, 80), tmp_path / "b.parquet")
    copy(tmp_path / "b.parquet", folder / "deep" / "b.csv")
    pq.write_table(whole.slice(160), tmp_path / "c.parquet")
    copy(tmp_path / "c.parquet", folder / "c.jsonl")
    (folder / "notes.txt").write_text("not a table")
    (folder / ".hidden.csv").write_text("x\n1\n")
    one = released(folder, tmp_path / "out.parquet")
    assert (one.rows, one.series, one.input["files"]) == (240, 6, 3)
    got = pq.read_table(tmp_path / "out.parquet")
    assert sorted(got["kwh"].to_pylist()) == sorted(whole["kwh"].to_pylist())
    two = released([str(tmp_path / "[bc].parquet"), tmp_path / "b.parquet"], tmp_path / "out2.csv")
    assert (two.rows, two.input["files"]) == (160, 2)


def test_the_order_and_the_cut_of_the_input_make_no_difference(tmp_path) -> None:
    """Shuffled rows in two files give the very same file, and the same fingerprint."""
    whole = readings()
    pq.write_table(whole, tmp_path / "a.parquet")
    shuffled = whole.take(np.random.default_rng(1).permutation(len(whole)))
    pq.write_table(shuffled.slice(0, 70), tmp_path / "b.parquet")
    pq.write_table(shuffled.slice(70), tmp_path / "c.parquet")
    first = released(tmp_path / "a.parquet", tmp_path / "out.csv")
    content = (tmp_path / "out.csv").read_bytes()
    second = released([tmp_path / "b.parquet", tmp_path / "c.parquet"], tmp_path / "out.csv", force=True)
    assert (tmp_path / "out.csv").read_bytes() == content
    assert first.input["fingerprint"] == second.input["fingerprint"]


@settings(max_examples=40)
@given(tables(), st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_a_digest_does_not_see_cuts_but_every_change(table, lengths) -> None:
    """Whatever the types: any cut gives one digest, and a row less another."""
    whole, cut, less = (Digest(table.column_names) for _ in range(3))
    batch = table.combine_chunks().to_batches()[0] if len(table) else table.schema.empty_table().to_batches()
    if not len(table):
        return
    whole.push(batch)
    start = 0
    while start < batch.num_rows:
        length = lengths[start % len(lengths)]
        cut.push(batch.slice(start, length))
        start += length
    assert whole.digest(table.column_names) == cut.digest(table.column_names)
    less.push(batch.slice(1))
    assert whole.digest(table.column_names) != less.digest(table.column_names)


def test_a_digest_tells_values_nulls_lengths_and_names_apart() -> None:
    """What a sloppy digest would mix up."""
    seen = set()
    for name, values in [
        ("a", ["x", "yz"]),
        ("a", ["xy", "z"]),
        ("b", ["x", "yz"]),
        ("a", ["x", None]),
        ("a", [None, "x"]),
        ("a", ["x", ""]),
    ]:
        digest = Digest([name])
        digest.push(pa.record_batch({name: pa.array(values, pa.string())}))
        seen.add(digest.digest([name]))
    lists = [[[1], [2, 3]], [[1, 2], [3]], [[1], None, [2, 3]], [[1], [], [2, 3]], [[1], [2, None]]]
    for values in lists:
        digest = Digest(["a"])
        digest.push(pa.record_batch({"a": pa.array(values, pa.list_(pa.int64()))}))
        seen.add(digest.digest(["a"]))
    assert len(seen) == 6 + len(lists)


# ---------------------------------------------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("48", (48, None)),
        (" 7d ", (None, 7 * 86_400 * 10**9)),
        ("1d12h", (None, 36 * 3600 * 10**9)),
        ("1.5 h", (None, 5400 * 10**9)),
        ("90M", (None, 5400 * 10**9)),
        ("500ms", (None, 5 * 10**8)),
    ],
)
def test_windows_are_counts_or_durations(text, meaning) -> None:
    """A window is read as people write it."""
    assert parsed_window(text) == meaning


@pytest.mark.parametrize("text", ["", "day", "0h", "5x", "-3h", "3h x", "h3", "1e3"])
def test_other_windows_are_refused(text) -> None:
    """What is neither a count nor a duration gets a hint."""
    with pytest.raises(ParameterError, match="neither a count nor a duration"):
        parsed_window(text)


def steps_of(tmp_path, moments, ids=None, window="24h"):
    """Return the window of series at these minutes."""
    ids = ids or ["a"] * len(moments)
    times = [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=minute) for minute in moments]
    pq.write_table(pa.table({"id": ids, "time": times, "v": range(len(ids))}), tmp_path / "steps.parquet")
    with open_inputs([tmp_path / "steps.parquet"], ROLES, output=tmp_path / "out.csv") as inputs:
        return window_of(inputs, window)


def test_a_duration_is_a_count_of_regular_steps(tmp_path) -> None:
    """Rounded up, so that no stretch of the duration holds more; gaps change nothing."""
    assert steps_of(tmp_path, range(0, 3000, 30)) == 48
    assert steps_of(tmp_path, range(0, 3000, 30), window="100m") == 4
    assert steps_of(tmp_path, [m for m in range(0, 9000, 30) if m not in (60, 90, 600)]) == 48
    shuffled = list(range(3000, 0, -30))
    assert steps_of(tmp_path, shuffled + shuffled, ["a"] * 100 + ["b"] * 100) == 48


def test_irregular_steps_are_reported(tmp_path) -> None:
    """Which steps there are, and how often; and that a count would do."""
    with pytest.raises(DataError, match=r"irregular.*30 min \(60.0%\), 45 min \(40.0%\).*count") as caught:
        steps_of(tmp_path, np.cumsum([0, *[30, 45, 30, 45, 30] * 20]).tolist())
    assert "2024" not in str(caught.value)


def test_series_of_different_steps_are_reported(tmp_path) -> None:
    """Even where one step is a multiple of the other, and rare."""
    moments = [*range(0, 30_000, 30), *range(0, 1200, 60)]
    with pytest.raises(DataError, match="30 min in 1 series, 1 h in 1 series"):
        steps_of(tmp_path, moments, ["a"] * 1000 + ["b"] * 20)


def test_durations_need_times_and_two_steps(tmp_path) -> None:
    """Plain numbers have no hours, one value has no step, and a window of one slot hides nothing."""
    pq.write_table(pa.table({"id": [1], "time": [1], "v": [1]}), tmp_path / "in.parquet")
    with open_inputs([tmp_path / "in.parquet"], ROLES, output=tmp_path / "out.csv") as inputs:
        with pytest.raises(DataError, match="dates or timestamps; got type int64"):
            window_of(inputs, "24h")
        assert window_of(inputs, "24") == 24
    with pytest.raises(DataError, match="two values or more"):
        steps_of(tmp_path, [5])
    with pytest.raises(ParameterError, match="at least two steps"):
        steps_of(tmp_path, range(0, 300, 30), window="30m")
    assert Steps((), 0, 0, ()).step is None
    assert spoken(7) == "7 ns"


# ------------------------------------------------------------------------------------------------ invalid rows


def broken_table():
    """Return readings with three rows at one time, one without an id, two without a time."""
    return pa.table(
        {
            "id": ["a", "a", None, "b", "a", "b", "a", "a", "b"],
            "time": [3, 1, 1, None, 2, 1, 1, 1, None],
            "v": range(9),
        }
    )


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_invalid_rows_are_refused_with_counts_and_a_row(tmp_path, ending) -> None:
    """One problem at a time, how many rows have it, and the first of them in the file's own order."""
    pq.write_table(broken_table(), tmp_path / "whole.parquet")
    source = tmp_path / f"in.{ending}"
    copy(tmp_path / "whole.parquet", source)
    with pytest.raises(DataError, match=r"must have a series id; got at least 1 row otherwise, for example row 2"):
        released(source, tmp_path / "out.csv")
    assert left(tmp_path) == []
    with open_inputs([source], ROLES, output=tmp_path / "out.csv") as inputs:
        invalid = find_invalid(inputs)
    assert (invalid.ids, invalid.times, invalid.repeated) == ((1, 2), (2, 3), (3, 1))


def test_invalid_rows_are_dropped_and_counted_when_asked(tmp_path) -> None:
    """All rows at a repeated time go, since nothing says which is right."""
    pq.write_table(broken_table(), tmp_path / "in.parquet")
    receipt = released(tmp_path / "in.parquet", tmp_path / "out.jsonl", drop_invalid=True)
    assert receipt.dropped == {"without an id": 1, "without a time": 2, "at a repeated time": 3}
    got = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["id"], row["time"]) for row in got] == [("a", 2), ("a", 3), ("b", 1)]
    assert sorted(row["v"] for row in got) == [0, 4, 5]
    assert receipt.rows == 3


def test_text_that_is_no_time_is_a_row_without_one(tmp_path) -> None:
    """A stray cell is refused by its row; a column of none is refused as a type."""
    (tmp_path / "in.csv").write_text("id,time,v\na,2024-01-01,1\na,SECRET,2\na,2024-01-03,3\n")
    with pytest.raises(
        DataError, match="must have a time; got at least 1 row otherwise, for example row 1"
    ) as caught:
        released(tmp_path / "in.csv", tmp_path / "out.csv")
    assert "SECRET" not in str(caught.value)
    assert released(tmp_path / "in.csv", tmp_path / "out.csv", drop_invalid=True).rows == 2
    (tmp_path / "no.csv").write_text("id,time,v\na,SECRET,1\n")
    with pytest.raises(DataError, match="cannot be the time"):
        released(tmp_path / "no.csv", tmp_path / "out2.csv")


# ------------------------------------------------------------------------------------------------- bad input

BAD = {
    "cells.csv": b"id,time,v\na,1,2\na,2,SECRET,4\n",
    "quote.csv": b'id,time,v\na,1,"SECRET\n',
    "bytes.csv": b"id,time,v\na,1,SECRET\xff\xfe\n",
    "twice.csv": b"id,time,time\na,1,2\n",
    "case.csv": b"id,time,v,V\na,1,2,3\n",
    "unnamed.csv": b"id,time,\na,1,2\n",
    "missing.csv": b"id,when,v\na,1,2\n",
    "empty.csv": b"",
    "blank.csv": b"\n\n",
    "object.jsonl": b'{"id": "a", "time": 1, "v": 2}\n{"id": SECRET\n',
    "array.jsonl": b'{"id": "a", "time": 1, "v": 2}\n[SECRET]\n',
    "text.jsonl": b"SECRET\n",
    "empty.jsonl": b"",
    "no.parquet": b"SECRET",
    "packed.csv.gz": b"id,time,v\na,1,SECRET\n",
    "list.jsonl": b'{"id": [1], "time": 1, "v": 2}\n',
    "flag.jsonl": b'{"id": 1, "time": true, "v": 2}\n',
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_malformed_files_are_refused_without_showing_them(tmp_path, capsys, name) -> None:
    """Exit code 2, one line that names the problem, no traceback, nothing of the data, nothing left."""
    source = tmp_path / name
    source.write_bytes(BAD[name])
    code = run(
        [
            "release",
            str(source),
            "-o",
            str(tmp_path / "out.csv"),
            "--by",
            "id",
            "--time",
            "time",
            "--window",
            "3",
            "--epsilon",
            "4",
        ]
    )
    shown = capsys.readouterr()
    assert code == 2, shown
    assert shown.err.startswith("error: ")
    assert "SECRET" not in shown.err + shown.out
    assert left(tmp_path) == []
    if name in ("cells.csv", "quote.csv", "object.jsonl", "array.jsonl"):
        assert "line " in shown.err


def test_the_line_that_is_malformed_is_named(tmp_path) -> None:
    """The number is that of an editor, in any format of text, however far down."""
    (tmp_path / "in.csv").write_text("id,time,v\n" + "".join(f"a,{i},1\n" for i in range(60_000)) + "a,1\n")
    with pytest.raises(DataError, match="line 60002 of 'in.csv'"):
        released(tmp_path / "in.csv", tmp_path / "out.csv")
    (tmp_path / "in.jsonl").write_text("".join(f'{{"id":1,"time":{i},"v":1}}\n' for i in range(60_000)) + "{\n")
    with pytest.raises(DataError, match="line 60001 of 'in.jsonl'"):
        released(tmp_path / "in.jsonl", tmp_path / "out.csv")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_truncated_parquet_is_refused(tmp_path, keep) -> None:
    """However little is missing."""
    pq.write_table(readings(), tmp_path / "whole.parquet")
    content = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "in.parquet").write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(DataError, match="not a complete Parquet file"):
        released(tmp_path / "in.parquet", tmp_path / "out.parquet")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_fuzzed_files_never_give_a_traceback(tmp_path, capsys, data) -> None:
    """Any bytes, and real files with bytes changed, end in a release or in a message."""
    ending = data.draw(st.sampled_from(["csv", "jsonl", "parquet"]))
    source = tmp_path / f"in.{ending}"
    good = tmp_path / f"good.{ending}"
    if not good.exists():
        pq.write_table(readings(2, 9), tmp_path / "good.parquet")
        if ending != "parquet":
            copy(tmp_path / "good.parquet", good)
    content = bytearray(good.read_bytes())
    if data.draw(st.booleans()):
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    else:
        head = (
            data.draw(st.sampled_from([b"", b"id,time,kwh\n", b'{"id":1,"time":1,"kwh":']))
            if ending != "parquet"
            else b"PAR1"
        )
        content = head + data.draw(st.binary(max_size=60))
    source.write_bytes(content)
    code = run(
        [
            "release",
            str(source),
            "-o",
            str(tmp_path / "out.parquet"),
            "--force",
            "--by",
            "id",
            "--time",
            "time",
            "--window",
            "3",
            "--epsilon",
            "4",
            "--quiet",
        ]
    )
    shown = capsys.readouterr().err
    assert code in (0, 2)
    assert "Traceback" not in shown
    assert (code == 2) == shown.startswith("error: ")
    assert run(["check", str(source), "--by", "id", "--time", "time", "--window", "3", "--quiet"]) in (0, 2)
    assert "Traceback" not in capsys.readouterr().err


# ------------------------------------------------------------------------------- all of it, or nothing


def command(source, output, *more):
    """Return the command line of a release, as a process of its own."""
    options = ["--by", "id", "--time", "time", "--window", "3", "--epsilon", "4", *more]
    return [sys.executable, "-m", "whenmask", "release", str(source), "-o", str(output), *options]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file that takes a moment to release."""
    path = tmp_path_factory.mktemp("large") / "in.parquet"
    pq.write_table(readings(600, 500), path)
    return path


def wait_for_part(folder, size, running) -> None:
    """Wait until so much of the output is written, or the run has ended."""
    while running.poll() is None:
        with contextlib.suppress(FileNotFoundError):  # it has its name by now
            if any(part.stat().st_size >= size for part in folder.glob(".whenmask-*/part")):
                return
        time.sleep(0.002)


def test_a_killed_run_leaves_all_or_nothing(tmp_path, large) -> None:
    """Kill −9 at any moment of the writing: no output or a complete one, and the next run clears away the rest."""
    output = tmp_path / "out.csv"
    subprocess.run(command(large, output), check=True, capture_output=True)
    complete = (output.stat().st_size, Receipt.read(output).rows)
    outcomes = []
    for share, delay in [(0, 0), (0.2, 0), (0.5, 0), (0.8, 0), (1, 0), (1, 0.02), (1, 0.2)]:
        output.unlink(missing_ok=True)
        with subprocess.Popen(command(large, output, "--force"), stdout=subprocess.DEVNULL) as running:
            wait_for_part(tmp_path, share * complete[0], running)
            time.sleep(delay)
            running.kill()
        outcomes.append(output.exists())
        if output.exists():
            receipt = Receipt.read(output)
            receipt.check(output)
            assert (output.stat().st_size, receipt.rows) == complete
    assert False in outcomes[:4]
    output.unlink(missing_ok=True)
    subprocess.run(command(large, output, "--force"), check=True, capture_output=True)
    assert left(tmp_path) == ["out.csv", "out.csv.receipt.json"]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_an_interrupted_run_cleans_up_and_says_so(tmp_path, large, sent, code) -> None:
    """Ctrl-C, or a request to end, at work: nothing is left, and that is said."""
    output = tmp_path / "out.jsonl"
    with subprocess.Popen(command(large, output), stderr=subprocess.PIPE, text=True) as running:
        for _ in range(400):
            time.sleep(0.02)
            if any((place / "part").exists() for place in tmp_path.glob(".whenmask-*")):
                break
        running.send_signal(sent)
        running.send_signal(sent)  # impatience must not cut the cleaning short
        _, error = running.communicate()
    assert running.returncode == code, error
    assert "nothing was written" in error
    assert "Traceback" not in error
    assert left(tmp_path) == []


def test_a_limit_on_the_size_of_files_leaves_nothing(tmp_path, large) -> None:
    """Where the system refuses to write on, that is said, and nothing is left."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    ran = subprocess.run(
        command(large, tmp_path / "out.csv"), capture_output=True, text=True, check=False, preexec_fn=limit
    )
    assert ran.returncode == 2, ran.stderr
    assert "could not be written" in ran.stderr
    assert "File too large" in ran.stderr
    assert left(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 400 kB."""
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("mounting a small disk needs the rights of root")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.jsonl.gz"])
def test_a_full_disk_leaves_nothing(small_disk, large, name) -> None:
    """A full disk is named, whatever was being written, and nothing is left."""
    ran = subprocess.run(command(large, small_disk / name), capture_output=True, text=True, check=False)
    assert ran.returncode == 2, ran.stderr
    assert "No space left" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "leaked" not in ran.stderr
    assert left(small_disk) == []


def test_an_output_is_not_overwritten(tmp_path) -> None:
    """Nor is an input ever, nor a folder; and what cannot be written is said before anything is read."""
    pq.write_table(readings(), tmp_path / "in.parquet")
    output = tmp_path / "out.csv"
    output.write_text("mine")
    with pytest.raises(FileError, match="there already"):
        released(tmp_path / "in.parquet", output)
    assert output.read_text() == "mine"
    assert released(tmp_path / "in.parquet", output, force=True).rows == 200
    with pytest.raises(FileError, match="one of the inputs"):
        released(tmp_path / "in.parquet", tmp_path / "in.parquet", force=True)
    (tmp_path / "link.parquet").symlink_to(tmp_path / "in.parquet")
    with pytest.raises(FileError, match="one of the inputs"):
        released(tmp_path / "in.parquet", tmp_path / "link.parquet", force=True)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="must be a file"):
        released(tmp_path / "in.parquet", tmp_path / "folder.csv")
    with pytest.raises(FileError, match="must say its format"):
        released(tmp_path / "in.parquet", tmp_path / "out.xlsx")
    with pytest.raises(FileError, match="cannot be made"):
        released(tmp_path / "in.parquet", tmp_path / "nowhere" / "out.csv")


@pytest.mark.parametrize("memory", ["", "2", "lots", "100MB", "-2GB"])
def test_memory_is_a_size(tmp_path, memory) -> None:
    """What is no size, or too little, is refused with a hint."""
    pq.write_table(readings(), tmp_path / "in.parquet")
    with (
        pytest.raises(ParameterError, match="`memory`"),
        open_inputs([tmp_path / "in.parquet"], ROLES, output=tmp_path / "out.csv", room=Room(memory)),
    ):
        pass


def test_sources_must_be_there(tmp_path) -> None:
    """A file, a glob or a folder with nothing in it is named."""
    for source in ("no.csv", "*.csv", "."):
        with pytest.raises(FileError, match="no such file"):
            released([str(tmp_path / source)], tmp_path / "out.csv")


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_table_without_rows_stays_one(tmp_path, ending) -> None:
    """Columns, and no rows, come out."""
    pq.write_table(readings().slice(0, 0), tmp_path / "in.parquet")
    receipt = released(tmp_path / "in.parquet", tmp_path / f"out.{ending}")
    assert (receipt.rows, receipt.series) == (0, 0)
    (tmp_path / "head.csv").write_text("id,time,v\n")
    assert released(tmp_path / "head.csv", tmp_path / f"out2.{ending}").rows == 0


def test_unusual_types_are_written_or_refused(tmp_path) -> None:
    """CSV has no bytes; nested columns become JSON in it."""
    table = readings().append_column("b", pa.array([b"x"] * 200))
    pq.write_table(table, tmp_path / "bytes.parquet")
    with pytest.raises(DataError, match="CSV cannot hold"):
        released(tmp_path / "bytes.parquet", tmp_path / "out.csv")
    pq.write_table(readings().append_column("b", pa.array([[1, 2]] * 200)), tmp_path / "lists.parquet")
    released(tmp_path / "lists.parquet", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert {row["b"] for row in csv.DictReader(file)} == {"[1,2]"}


def test_reading_stops_when_nobody_reads_on(tmp_path, large) -> None:
    """Batches that are not asked for are not waited for."""
    with open_inputs([large], ROLES, output=tmp_path / "out.csv") as inputs, closing(inputs.batches()) as batches:
        assert next(batches).num_rows


@pytest.mark.skipif(not LONDON.exists(), reason="the London table is not here: see tests/tables.py")
def test_the_london_table(tmp_path) -> None:
    """A real table: its step is found through its gaps, every meter keeps its readings, no slot changes."""
    columns = Columns(by=("meter",), time="time")
    with open_inputs([LONDON], columns, output=tmp_path / "out.parquet") as inputs:
        assert window_of(inputs, "24h") == 48
        receipt = release_files(
            inputs, RanSwitch(4, window=48), Job(tmp_path / "out.parquet", key=KEY, run="london")
        )
    before = pq.read_table(LONDON).sort_by([("meter", "ascending"), ("time", "ascending")])
    after = pq.read_table(tmp_path / "out.parquet")
    assert after.schema.types == before.schema.types
    assert after.select(["meter", "time"]).equals(before.select(["meter", "time"]))
    kept = [("meter", "ascending"), ("kwh", "ascending")]
    assert after.sort_by(kept).select(["meter", "kwh"]).equals(before.sort_by(kept).select(["meter", "kwh"]))
    moved = np.mean(after["kwh"].to_numpy() != before["kwh"].to_numpy())
    assert moved > 0.3
    assert (receipt.rows, receipt.series) == (len(before), 60)
