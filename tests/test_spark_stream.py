"""Streams on the real Spark: exactly once through crashes, and nothing in the checkpoint that could be read."""

import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sparks import ROOT, SHORT, collect, events, leaks, needs_spark, session
from whenmask import Key, PureSwitch, RanSwitch
from whenmask.errors import DataError, FileError, ParameterError, WhenmaskError
from whenmask.mechanisms import Temporal

pytest.importorskip("pyspark", reason="Spark is not installed")

from whenmask.spark import StreamOptions, plain_errors, release_stream

pytestmark = needs_spark()

KEY = Key.for_testing(11)
MECHANISM = RanSwitch.from_probabilities(q=0.15, window=4)
START = dt.datetime(2024, 3, 30, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("meter", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("kwh", pa.int32()),
        ("track", pa.list_(pa.float64())),
    ]
)
ORDER = [("meter", "ascending"), ("time", "ascending")]


@pytest.fixture(scope="module", autouse=True)
def _collected():
    """Leave nothing to other tests' garbage collection."""
    yield
    collect()


def readings(hours: range, meters: int = 20) -> pa.Table:
    """Return readings by time, with nulls."""
    rows = [(meter, hour) for hour in hours for meter in range(meters)]
    columns = [
        [f"meter {meter}" for meter, _ in rows],
        [START + dt.timedelta(hours=hour) for _, hour in rows],
        [None if hour % 7 == 3 else 1_000_000 * meter + hour for meter, hour in rows],
        [None if hour % 5 == 2 else [hour / 4] * (hour % 3) for _, hour in rows],
    ]
    return pa.table(columns, schema=SCHEMA)


class Flow:
    """A folder in which files come in, and are released."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.options = StreamOptions(buckets=4, **options)
        self.files = 0
        (folder / "in").mkdir()

    def add(self, *tables: pa.Table) -> None:
        """Let files come in, one after the other."""
        for table in tables:
            path = self.folder / "in" / f"{self.files:03}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_700_000_000 + self.files,) * 2)
            self.files += 1

    def start(self, mechanism: Temporal = MECHANISM, key: Key = KEY, **more: Any) -> Any:
        """Return a writer that takes one file at a time."""
        schema = session().read.parquet(str(self.folder / "in" / "000.parquet")).schema
        frame = (
            session().readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        )
        given = {"by": "meter", "time": "time", "options": self.options, **more}
        return release_stream(frame, mechanism, key=key, checkpoint=str(self.folder / "checkpoint"), **given)

    def run(self, **more: Any) -> list[dict[str, int]]:
        """Release all that is there; return what was counted in each micro-batch."""
        writer = self.start(**more).format("parquet").option("path", str(self.folder / "out"))
        query = writer.trigger(availableNow=True).start()
        with plain_errors():
            query.awaitTermination()
        return [progress.observedMetrics["whenmask"].asDict() for progress in query.recentProgress]

    @property
    def released(self) -> pa.Table:
        """What the sink has committed, sorted."""
        return committed(self.folder / "out").sort_by(ORDER)

    @property
    def run_id(self) -> str:
        """The run id of the checkpoint."""
        text = (self.folder / "checkpoint" / "whenmask" / "stream.json").read_text()
        found: str = json.loads(text)["run"]
        return found


def committed(folder: Path) -> pa.Table:
    """Return the rows of a file sink as its readers see them: only files that its log names."""
    names: list[str] = []
    log = folder / "_spark_metadata"
    numbered = sorted(
        (path for path in log.iterdir() if path.name.split(".")[0].isdigit()),
        key=lambda path: int(path.name.split(".")[0]),
    )
    compact = [path for path in numbered if path.suffix == ".compact"]
    for path in numbered[numbered.index(compact[-1]) if compact else 0 :]:
        names += [json.loads(line)["path"].rpartition("/")[2] for line in path.read_text().splitlines()[1:]]
    assert len(names) == len(set(names))
    return pa.concat_tables(pq.read_table(folder / name) for name in names)


def marked(table: pa.Table, ended: bool = False) -> pa.Table:
    """Return a table with the column that marks the end of a series."""
    return table.append_column("ended", pa.array([ended] * len(table)))


def total(counts: list[dict[str, int]], name: str) -> int:
    """Return the sum over micro-batches."""
    return sum(count[name] for count in counts)


def test_a_stream_is_released_as_a_table(tmp_path: Path) -> None:
    """File after file, with a restart in between, and an end: row for row what the local engine releases."""
    mechanism = PureSwitch(4, window=6)
    flow = Flow(tmp_path, end="ended")
    table = readings(range(40))
    flow.add(*(marked(table.slice(start, 200)) for start in (0, 200)))
    counts = flow.run(mechanism=mechanism)
    assert [count["rows"] for count in counts if count["rows"]] == [200, 200]
    assert total(counts, "released") + counts[-1]["pending"] == 400
    assert counts[-1]["series"] == 20
    assert counts[-1]["longest"] >= counts[-1]["pending"] / 20
    run = flow.run_id
    again = marked(table.slice(380, 20))
    flow.add(marked(table.slice(400, 200)), again, marked(table.slice(600)), marked(table.slice(780), ended=True))
    counts = flow.run(mechanism=mechanism)
    assert flow.run_id == run
    assert total(counts, "late") == 20
    assert total(counts, "ended") == 20
    assert counts[-1]["pending"] == 0
    expected = mechanism.release(table, by="meter", time="time", key=KEY, run=run).sort_by(ORDER)
    assert flow.released.schema.names == expected.schema.names
    assert flow.released.to_pydict() == expected.to_pydict()


def test_rows_wait_for_earlier_ones_and_idle_series_end(tmp_path: Path) -> None:
    """With a delay, what comes in any order is released in the order of its times; silence ends a series."""
    flow = Flow(tmp_path, delay="12h", idle="4d", drop_invalid=True)
    table = readings(range(48))
    order = np.argsort(np.repeat(np.arange(48), 20) + np.random.default_rng(1).uniform(0, 11, 960), kind="stable")
    shuffled = table.take(order)
    broken = pa.table([[None, "meter 1"], [START, None], [1, 2], [None, None]], schema=SCHEMA)
    flow.add(shuffled.slice(0, 500), pa.concat_tables([shuffled.slice(500), shuffled.slice(900, 30), broken]))
    flow.add(readings(range(500, 501), meters=1))
    counts = flow.run()
    assert (total(counts, "without_id"), total(counts, "without_time")) == (1, 1)
    assert (total(counts, "late"), total(counts, "repeated")) == (0, 30)
    assert total(counts, "rows") == 960 + 30 + 2 + 1
    assert total(counts, "ended") == 20
    assert counts[-1]["waiting"] == 1
    expected = MECHANISM.release(table, by="meter", time="time", key=KEY, run=flow.run_id).sort_by(ORDER)
    assert flow.released.to_pydict() == expected.to_pydict()


POINTS = {
    "before the checkpoint knew": ["checkpoint/commits/{0}"],
    "before the sink knew": ["checkpoint/commits/{0}", "out/_spark_metadata/{0}"],
    "before anything was known": ["checkpoint/commits/{0}", "out/_spark_metadata/{0}", "checkpoint/offsets/{0}"],
}


def test_after_a_crash_the_sink_is_as_without(tmp_path: Path) -> None:
    """At whichever point of a micro-batch a driver dies: the same rows, nothing twice, nothing drawn again.

    A driver that died is one whose last entries in its logs are missing.
    """
    table = readings(range(30))
    flow = Flow(tmp_path, end="ended")
    for number, lost in enumerate(POINTS.values()):
        flow.add(marked(table.slice(200 * number, 200)))
        flow.run()
        files = {path.name for path in (tmp_path / "out").glob("*.parquet")}
        for name in lost:
            path = tmp_path / name.format(number)
            path.unlink()
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        flow.run()
        redone = {path.name for path in (tmp_path / "out").glob("*.parquet")} - files
        assert bool(redone) == (len(lost) > 1)
    flow.add(marked(table.slice(580), ended=True))
    flow.run()
    expected = MECHANISM.release(table, by="meter", time="time", key=KEY, run=flow.run_id).sort_by(ORDER)
    assert flow.released.to_pydict() == expected.to_pydict()


def test_a_killed_driver_goes_on_where_it_was(tmp_path: Path) -> None:
    """`kill -9` in the middle of micro-batches, with the program of the examples; and no key in what it leaves."""
    key = Key.fresh()
    table = readings(range(40), meters=10).select(["meter", "time", "kwh"])
    meters = [int(name.split()[1]) for name in table["meter"].to_pylist()]
    kinds = [("meter", pa.int64()), ("time", SCHEMA.field("time").type), ("kwh", pa.float64())]
    table = table.set_column(0, "meter", pa.array(meters)).cast(pa.schema(kinds))
    flow = Flow(tmp_path)
    flow.add(*(marked(table.slice(start, 100)) for start in range(0, 400, 100)))
    flow.add(
        marked(table.slice(390), ended=True),
        marked(table.slice(390).set_column(1, "time", pa.array([START + dt.timedelta(days=9)] * 10))),
    )
    # Killed while batch 1 is under way, and when the sink has batch 2, but the checkpoint perhaps not.
    for mark in ("checkpoint/offsets/1", "out/_spark_metadata/2", None):
        example(tmp_path, key, mark)
    mechanism = PureSwitch(4, window=48)
    expected = mechanism.release(table, by="meter", time="time", key=key, run=flow.run_id).sort_by(ORDER)
    assert flow.released.to_pydict() == expected.to_pydict()
    assert leaks(key, tmp_path / "checkpoint", tmp_path / "events", tmp_path / "logs") == []
    assert any((tmp_path / "events").rglob("*"))


def example(folder: Path, key: Key, until: str | None) -> None:
    """Run the example until a file is there, and kill it then; to its end if there is none to wait for."""
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "events").mkdir(exist_ok=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": SHORT,
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    submit = " ".join(f"--conf '{name}={value}'" for name, value in settings.items())
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "WHENMASK_KEY": key.expose()[1:].hex(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": f"{submit} pyspark-shell",
    }
    command = [
        sys.executable,
        str(ROOT / "examples" / "spark_streaming.py"),
        *(str(folder / name) for name in ("in", "out", "checkpoint")),
        "--once",
    ]
    with (folder / "logs" / f"{len(list((folder / 'logs').iterdir()))}").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            limit = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < limit:
                if until is not None and (folder / until).exists():
                    break
                time.sleep(0.002)
            else:
                assert until is None
                assert process.returncode == 0, Path(log.name).read_text()[-2000:]
        finally:
            # The driver, its Java and its workers are one group of processes.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_nothing_in_a_checkpoint_can_be_read(tmp_path: Path) -> None:
    """Neither the key, nor an id, nor a value that waits."""
    key = Key.fresh()
    flow = Flow(tmp_path)
    table = readings(range(10), meters=3)
    notes = pa.array([f"a secret note {number}" for number in range(30)])
    flow.add(table.append_column("note", notes))
    counts = flow.run(mechanism=PureSwitch(1, window=20), key=key)
    assert counts[-1]["pending"] > 0
    assert leaks(key, tmp_path / "checkpoint", events()) == []
    seen = b"".join(path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file())
    assert b"whenmask bucket" in seen  # the state is there
    assert b"secret note" not in seen
    assert b"meter 1" not in seen


def test_a_checkpoint_is_restarted_on_its_own_terms(tmp_path: Path) -> None:
    """Another key, mechanism, number of buckets, run or roles is refused, with what differs."""
    flow = Flow(tmp_path)
    flow.add(readings(range(2)))
    flow.start(run="winter")
    assert flow.run_id == "winter"
    flow.start()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"key": Key.for_testing(9)}, "its own key"),
        ({"mechanism": PureSwitch(4, window=3)}, "got other mechanism"),
        ({"options": StreamOptions(buckets=5)}, "got other buckets"),
        ({"options": StreamOptions(buckets=4, delay="1h")}, "got other sorts"),
        ({"run": "summer"}, "got other run"),
        ({"values": "kwh", "keep": "track"}, "got other columns"),
    ]
    for given, problem in wrong:
        with pytest.raises(ParameterError, match=problem):
            flow.start(**given)
    place = tmp_path / "checkpoint" / "whenmask" / "stream.json"
    (place.parent / ".stream.json.crc").unlink(missing_ok=True)
    place.write_text("{")
    with pytest.raises(FileError, match="the checkpoint is damaged"):
        flow.start()
    shutil.rmtree(place.parent)
    (tmp_path / "checkpoint" / "offsets").mkdir()
    with pytest.raises(DataError, match="belongs to a stream without whenmask"):
        flow.start()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "buckets": ({"options": StreamOptions(buckets=0)}, "`buckets` must be at least 1"),
    "delay": ({"options": StreamOptions(delay="soon")}, "`delay` must be a duration; got 'soon'"),
    "count": ({"options": StreamOptions(idle="48")}, "`idle` must be a duration"),
    "short": (
        {"time": "day", "options": StreamOptions(idle="1h")},
        "`idle` must be at least one step of the times",
    ),
    "end": ({"options": StreamOptions(end="kwh")}, "`end` must name a column of booleans"),
    "no end": ({"options": StreamOptions(end="gone")}, "`end` must name a column of booleans"),
    "no id": ({"by": None}, "`by` must be given"),
    "numbers": ({"time": "kwh", "options": StreamOptions(delay="1h")}, "`delay` and `idle` need times"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_options_that_cannot_be_are_refused(kind: str, tmp_path: Path) -> None:
    """Before anything is written."""
    given, problem = REFUSED[kind]
    flow = Flow(tmp_path)
    flow.add(readings(range(2)).append_column("day", pa.array([dt.date(2024, 1, 1)] * 40)))
    with pytest.raises(WhenmaskError, match=problem):
        flow.start(**given)
    assert not (tmp_path / "checkpoint").exists()


def test_tables_are_no_streams(tmp_path: Path) -> None:
    """What is read at once is released at once."""
    frame = session().createDataFrame(readings(range(2)))
    with pytest.raises(ParameterError, match="must be a stream"):
        release_stream(frame, MECHANISM, by="meter", time="time", key=KEY, checkpoint=str(tmp_path))


def test_bad_rows_stop_a_stream_in_a_few_words(tmp_path: Path) -> None:
    """Unless they are to be dropped: our own error, without traces and without data."""
    flow = Flow(tmp_path)
    flow.add(pa.table([[None, "a"], [START, START], [777_777, 1], [None, None]], schema=SCHEMA))
    with pytest.raises(DataError, match="every row must have a series id; got at least 1 row") as caught:
        flow.run()
    assert "777" not in str(caught.value)
    assert len(str(caught.value)) < 300
