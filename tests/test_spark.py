"""Tables on the real Spark: the same release, row for row, as anywhere else, whatever happens to a worker."""

import datetime as dt
import os
import pickle
import signal
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from tests.sparks import ROOT, collect, events, leaks, needs_spark, session
from tests.tables import KEY, RUN, Example, examples, readings
from whenmask import Key, PureSwitch, RanSwitch
from whenmask.errors import DataError, ParameterError, SecretError, WhenmaskError
from whenmask.mechanisms import Backward, Temporal, Threshold
from whenmask.sampler import Draw, Walk

pytest.importorskip("pyspark", reason="Spark is not installed")

from pyspark.sql import Observation

from whenmask.spark import key_from_environment, plain_errors, release
from whenmask.spark.keys import Carried

pytestmark = needs_spark()

LONDON = (
    Path(os.environ.get("WHENMASK_DATA", ROOT.parent / "shared" / "data")) / "smart_meters_london_2013.parquet"
)
MECHANISM = RanSwitch.from_probabilities(q=0.15, window=4)


@pytest.fixture(scope="module", autouse=True)
def _collected():
    """Leave nothing to other tests' garbage collection."""
    yield
    collect()


def rows_of(table: pa.Table, *names: str) -> list[dict[str, Any]]:
    """Return the rows in an order of their own."""
    return sorted(table.to_pylist(), key=lambda row: repr([row[name] for name in names]))


def framed(table: pa.Table) -> Any:
    """Return a table as Spark has it."""
    return session().createDataFrame(table)


def local(frame: Any, mechanism: Temporal, by: Any, **more: Any) -> pa.Table:
    """Return the release of the very rows that Spark has, by the local engine."""
    return mechanism.release(frame.toArrow(), by=by, time="time", key=KEY, run=RUN, **more)


@pytest.mark.parametrize(
    "mechanism", [MECHANISM, Backward.from_probabilities(q=0.1, window=5)], ids=["RanSwitch", "Backward"]
)
@given(example=examples())
@settings(max_examples=8)
def test_any_table_is_released_as_locally(mechanism: Temporal, example: Example) -> None:
    """Ids of one or two columns and of any type, nulls, nested values, zones: row for row the same."""
    unknown = [name for name in example.by if example.table[name].type == pa.uint64()]
    if not len(example.table) or unknown:
        return
    table = example.table
    if pa.types.is_unsigned_integer(table["time"].type):
        table = table.set_column(table.column_names.index("time"), "time", table["time"].cast(pa.int16()))
    table = pa.table(
        [
            column.combine_chunks().dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in table.columns
        ],
        names=table.column_names,
    )
    frame = framed(table).repartition(3)
    released = release(frame, mechanism, by=example.by, time="time", keep="note", key=KEY, run=RUN)
    assert released.dtypes == frame.dtypes
    found = released.toArrow()
    expected = local(frame, mechanism, example.by, keep="note")
    assert rows_of(found, *example.by, "time") == rows_of(expected, *example.by, "time")


def test_types_that_only_spark_has_and_odd_names_come_through() -> None:
    """Decimals, bytes, maps, nested arrays, both kinds of timestamp, names with dots; order within a series."""
    moment = dt.datetime(2024, 3, 31, 1, 30)
    query = """
        SELECT cast(id % 3 AS decimal(12, 3)) AS `meter.id`,
            timestamp_ntz'2024-03-31 00:00:00' + make_dt_interval(0, 0, id) AS time,
            cast(timestamp'2024-03-31 00:00:00 UTC' + make_dt_interval(0, 0, id) AS timestamp) AS seen,
            cast(cast(id AS string) AS binary) AS `by``tes`, map('n', id) AS counts,
            array(named_struct('x', id, 'y', array(id / 2))) AS track, cast(id AS decimal(38, 10)) AS exact,
            make_dt_interval(0, 0, 0, id) AS lasted, if(id % 5 = 0, null, cast(id AS smallint)) AS small, id AS row
        FROM range(200)
    """
    frame = session().sql(query)
    released = release(frame, PureSwitch(4, window=6), by="meter.id", time="time", key=KEY, run=RUN)
    assert [(f.name, f.dataType) for f in released.schema] == [(f.name, f.dataType) for f in frame.schema]
    found, expected = released.toArrow(), local(frame, PureSwitch(4, window=6), "meter.id")
    assert rows_of(found, "meter.id", "time") == rows_of(expected, "meter.id", "time")
    for meter in range(3):
        times = [row["time"] for row in found.to_pylist() if row["meter.id"] == Decimal(meter)]
        assert times == sorted(times)
        assert len(times) in (66, 67)
        assert times[0] < moment


def test_zero_and_minus_zero_are_one_series_and_collations_do_not_join_two() -> None:
    """What names a series here names it everywhere."""
    frame = session().sql(
        "SELECT cast(if(id % 2 = 0, 0.0D, -0.0D) AS double) AS meter, id AS time, id AS v FROM range(100)"
    )
    found = release(frame, MECHANISM, by="meter", time="time", key=KEY, run=RUN).toArrow()
    expected = MECHANISM.plan(100, key=KEY, series=("float:0.0",), run=RUN).source.tolist()
    assert found.sort_by("time")["v"].to_pylist() == expected
    frame = session().sql(
        "SELECT collate(if(id % 2 = 0, 'a', 'A'), 'UTF8_LCASE') AS meter, id AS time, id AS v FROM range(100)"
    )
    found = release(frame, MECHANISM, by="meter", time="time", key=KEY, run=RUN).toArrow()
    assert rows_of(found, "meter", "time") == rows_of(local(frame, MECHANISM, "meter"), "meter", "time")


@pytest.mark.skipif(not LONDON.exists(), reason="the London table is not beside the repository")
def test_the_london_table() -> None:
    """A million half-hours of real meters, as the local engine releases them."""
    frame = session().read.parquet(str(LONDON))
    mechanism = PureSwitch(4, window=48)
    found = release(frame, mechanism, by="meter", time="time", key=KEY, run=RUN).toArrow()
    expected = local(frame, mechanism, "meter")
    order = [("meter", "ascending"), ("time", "ascending")]
    assert found.num_rows == pq.read_metadata(LONDON).num_rows
    assert found.sort_by(order).equals(expected.sort_by(order))


def test_a_series_of_many_batches() -> None:
    """A series ten times larger than a batch of Arrow, beside small ones."""
    frame = session().range(12_500).selectExpr("if(id < 12000, 0, id % 5) AS meter", "id AS time", "id / 8 AS kwh")
    released = release(frame, MECHANISM, by="meter", time="time", key=KEY, run=RUN).toArrow()
    order = [("meter", "ascending"), ("time", "ascending")]
    assert released.sort_by(order).equals(local(frame, MECHANISM, "meter").sort_by(order))


def test_evaluated_twice_it_is_the_same_release_and_anew_it_is_another() -> None:
    """Key and run id are fixed when release is called, not when rows are asked for."""
    frame = framed(readings(4, 100))
    released = release(frame, MECHANISM, by="meter", time="time")
    first = rows_of(released.toArrow(), "meter", "time")
    assert rows_of(released.toArrow(), "meter", "time") == first
    assert rows_of(released.repartition(5).toArrow(), "meter", "time") == first
    assert rows_of(release(frame, MECHANISM, by="meter", time="time").toArrow(), "meter", "time") != first


@dataclass(frozen=True)
class Struck:
    """A mechanism whose worker is struck once, in the middle of its work."""

    mechanism: Temporal
    place: Path
    how: str

    @property
    def window(self) -> int:
        """The mechanism's own."""
        return self.mechanism.window

    @property
    def identity(self) -> str:
        """The mechanism's own."""
        return self.mechanism.identity

    def draw(self, words: Any) -> Draw:
        """Start a series; at the third one of the process, strike once."""
        count = self.place / str(os.getpid())
        count.write_text(f"{int(count.read_text()) + 1 if count.exists() else 1}")
        if count.read_text() == "3":
            try:
                (self.place / "struck").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                if self.how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("a reading of 777")
        return self.mechanism.draw(words)

    def walk(self, words: Any) -> Walk:
        """The mechanism's own."""
        return self.mechanism.walk(words)


@pytest.mark.parametrize("how", ["killed", "failed"])
def test_a_task_that_is_tried_again_releases_the_same(how: str, tmp_path: Path) -> None:
    """A killed worker and a failed attempt leave no trace: nothing is drawn again."""
    frame = framed(readings(20, 100))
    struck: Any = Struck(MECHANISM, tmp_path, how)
    found = release(frame, struck, by="meter", time="time", key=KEY, run=RUN).toArrow()
    assert (tmp_path / "struck").exists()
    assert rows_of(found, "meter", "time") == rows_of(local(frame, MECHANISM, "meter"), "meter", "time")


def bad(**columns: list[Any]) -> Any:
    """Return a table of one good series and the rows given."""
    good: dict[str, list[Any]] = {"meter": [9] * 30, "time": list(range(30)), "kwh": [0.5] * 30}
    return framed(pa.table({name: good[name] + columns[name] for name in good}))


BAD: dict[str, tuple[dict[str, list[Any]], str]] = {
    "id": ({"meter": [None, 1], "time": [1, 1], "kwh": [777.25, 1.0]}, "every row must have a series id"),
    "time": ({"meter": [1, 1], "time": [None, 1], "kwh": [777.25, 1.0]}, "every row must have a time"),
    "repeat": (
        {"meter": [1, 1, 1], "time": [1, 1, 2], "kwh": [777.25, 1.0, 3.0]},
        "a time must occur only once",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_are_refused_in_a_few_words(kind: str) -> None:
    """Our own error, with a hint, without traces and without data."""
    columns, problem = BAD[kind]
    with pytest.raises(DataError) as caught, plain_errors():
        release(bad(**columns), MECHANISM, by="meter", time="time").toArrow()
    message = str(caught.value)
    assert problem in message
    assert "Hint: " in message
    assert "partition" in message
    assert "777" not in message
    assert len(message) < 300
    assert caught.value.__cause__ is None


def test_bad_rows_are_dropped_and_counted_if_asked() -> None:
    """Rows without id or time, and all at a repeated time; the others as if those had never been."""
    columns: dict[str, list[Any]] = {
        "meter": [None, 1, 1, 1, 1],
        "time": [1, None, 5, 5, 6],
        "kwh": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
    seen = Observation("rows")
    frame = release(
        bad(**columns), MECHANISM, by="meter", time="time", key=KEY, run=RUN, drop_invalid=True, observation=seen
    )
    found = frame.toArrow()
    assert seen.get == {"rows": 35, "without_id": 1, "without_time": 1, "repeated_time": 2, "released": 31}
    good = bad(meter=[1], time=[6], kwh=[5.0])
    assert rows_of(found, "meter", "time") == rows_of(local(good, MECHANISM, "meter"), "meter", "time")
    floats = session().sql(
        "SELECT * FROM VALUES (1, double('nan'), 1), (1, 0.5D, 2), (1, 1.5D, 3) AS t(meter, time, v)"
    )
    seen = Observation("nan")
    assert release(floats, MECHANISM, by="meter", time="time", drop_invalid=True, observation=seen).count() == 2
    assert seen.get["without_time"] == 1
    seen = Observation("all")
    release(floats.limit(0), MECHANISM, by="meter", time="time", observation=seen).count()
    assert seen.get == {"rows": 0, "released": 0}


def test_faults_of_workers_show_no_data(tmp_path: Path) -> None:
    """Whatever is raised in a worker, only its kind comes out."""

    class Faulty(Struck):
        """Fails at every series."""

        def draw(self, words: Any) -> Draw:  # noqa: ARG002
            """Fail."""
            raise ValueError("a reading of 777")

    faulty: Any = Faulty(MECHANISM, tmp_path, "failed")
    with (
        pytest.raises(DataError, match="the rows could not be released; got ValueError") as caught,
        plain_errors(),
    ):
        release(framed(readings(2, 10)), faulty, by="meter", time="time").toArrow()
    assert "777" not in str(caught.value)
    with pytest.raises(ZeroDivisionError), plain_errors():
        1 / 0  # noqa: B018


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no time": ({"by": "meter"}, "`time` must be given"),
    "no column": ({"by": "house", "time": "time"}, "`by` must name columns of the table"),
    "no id": ({"by": "track", "time": "time", "values": "kwh", "keep": ["meter", "text"]}, "cannot name series"),
    "no clock": (
        {"by": "meter", "time": "text", "values": "kwh", "keep": ["track", "time"]},
        "cannot be the time",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_is_refused_before_a_job_runs(kind: str) -> None:
    """Columns and types are checked at once."""
    roles, problem = REFUSED[kind]
    frame = session().sql(
        "SELECT id AS meter, id AS time, array(id) AS track, 'x' AS text, id AS kwh FROM range(3)"
    )
    with pytest.raises(WhenmaskError, match=problem):
        release(frame, MECHANISM, **roles)


def test_other_things_are_refused() -> None:
    """Tables of other libraries, and names that differ in case only."""
    with pytest.raises(ParameterError, match="must be a data frame of Spark; got a Table"):
        release(readings(1, 2), MECHANISM, by="meter", time="time")
    frame = session().sql("SELECT 1 AS meter, 2 AS time, 3 AS Time")
    with pytest.raises(DataError, match="must have different names"):
        release(frame, MECHANISM, by="meter", time="time")


def test_a_series_without_ids_and_mechanisms_that_leave_slots_empty() -> None:
    """One series in all; a column that may not be null may be so in the release."""
    frame = session().range(50).selectExpr("id AS time", "id AS v")
    assert not frame.schema["v"].nullable
    mechanism = Threshold(4, window=5, calibrate="claim")
    released = release(frame, mechanism, time="time", key=KEY, run=RUN)
    assert released.schema["v"].nullable
    assert not released.schema["time"].nullable
    expected = mechanism.release(pa.table({"time": range(50), "v": range(50)}), time="time", key=KEY, run=RUN)
    assert released.toArrow()["v"].to_pylist() == expected["v"].to_pylist()


def test_the_key_is_in_no_event_log(tmp_path: Path) -> None:
    """A job that works, and one that fails: plans, logs and errors know nothing of the key, in any form."""
    key = Key.fresh()
    secret = key.expose()[1:]
    frame = framed(readings(3, 50))
    released = release(frame, MECHANISM, by="meter", time="time", key=key)
    released.write.parquet(str(tmp_path / "out"))
    failing = release(frame.union(frame), MECHANISM, by="meter", time="time", key=key)
    with pytest.raises(Exception, match="a time must occur only once") as caught:
        failing.toArrow()
    plan = released._jdf.queryExecution().toString()
    told = [str(caught.value), repr(caught.value), plan, repr(Carried(key))]
    (tmp_path / "told").write_text("\n".join(told))
    assert leaks(key, tmp_path, events()) == []
    log = b"".join(path.read_bytes() for path in events().rglob("*") if path.is_file())
    assert b"MapInArrow" in log  # the search looked where plans are
    (tmp_path / "planted").write_text(repr(secret) + secret.hex())
    assert {leak.split()[0] for leak in leaks(key, tmp_path)} >= {"hex", "repr"}


def test_carried_keys_arrive() -> None:
    """Pickled for a worker and back, a key is itself; printed it is hidden."""
    carried = pickle.loads(pickle.dumps(Carried(KEY)))  # noqa: S301
    assert carried.key.expose() == KEY.expose()
    assert repr(carried) == "<Carried: testing key>"


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The content of a key file, in a variable of the driver; what is wrong is said without showing it."""
    key = Key.fresh()
    monkeypatch.setenv("WHENMASK_KEY", key.expose()[1:].hex() + "\n")
    assert key_from_environment().expose() == key.expose()
    for wrong in ("c0ffee", "no digits"):
        monkeypatch.setenv("OTHER", wrong)
        with pytest.raises(SecretError, match="64 hexadecimal digits") as caught:
            key_from_environment("OTHER")
        assert wrong not in str(caught.value)
    with pytest.raises(SecretError, match="no key in the environment; got no variable NONE"):
        key_from_environment("NONE")
