"""Buckets: however the rows of many series come, each is released by its own plan, and sealed at rest."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables import KEY, RUN, Example, examples, moved, readings
from whenmask import Key, PureSwitch, RanSwitch, StaSwitch
from whenmask.columns import Columns
from whenmask.errors import DataError, SnapshotError
from whenmask.keystream import Series
from whenmask.mechanisms import Backward, Forward, Temporal, Threshold
from whenmask.stream import Stream

pytest.importorskip("pyspark", reason="Spark is not installed")

from whenmask.spark.buckets import Bucket, Counts
from whenmask.spark.courses import Flow
from whenmask.spark.keys import Carried
from whenmask.spark.packets import Packing, Unpacking, bucket_of
from whenmask.spark.pools import packed, unpacked
from whenmask.spark.streaming import Work

MECHANISM = RanSwitch.from_probabilities(q=0.15, window=4)
MECHANISMS = [
    MECHANISM,
    StaSwitch.from_probabilities(q=0.02, window=30),
    PureSwitch(4, window=5),
    Backward.from_probabilities(q=0.1, window=5),
    Forward.from_probabilities(q=0.1, window=5),
    Threshold(4, window=5, calibrate="claim"),
]
SCHEMA = readings(1, 1).schema
COLUMNS = Columns(by=("meter",), time="time").fitted(SCHEMA.names)
FLOW = Flow(MECHANISM, KEY, RUN, COLUMNS, SCHEMA, end="ended")


def rows(meters: Any, times: Any, values: Any = None, ended: Any = None) -> pa.RecordBatch:
    """Return rows as they come in."""
    count = len(times)
    meters = [meters] * count if isinstance(meters, int) else meters
    columns = [meters, times, values or [float(time) for time in times], ended or [False] * count]
    return pa.record_batch(
        [pa.array(column, kind) for column, kind in zip(columns, FLOW.rows.types, strict=True)], schema=FLOW.rows
    )


class Restarted:
    """A bucket that lives only while it is called: its state is sealed and opened each time."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.sealed: bytes | None = None
        self.released: list[pa.RecordBatch] = []
        self.due: int | None = None

    def push(self, *batches: pa.RecordBatch, horizon: int | None = None) -> Counts:
        """Hand rows to the bucket."""
        bucket = Bucket(self.flow, 3, self.sealed)
        released, counts = bucket.push(batches, horizon=horizon)
        self.released.append(released)
        self.sealed, self.due = bucket.sealed(), bucket.due
        return counts

    @property
    def table(self) -> pa.Table:
        """All that was released."""
        return pa.Table.from_batches(self.released)


def ends(flow: Flow, table: pa.Table) -> pa.RecordBatch:
    """Return a marker for every series of the table, at its last time."""
    slots = [*flow.columns.by, flow.columns.time]
    last = dict(
        zip(
            zip(*(table[name].to_pylist() for name in flow.columns.by), strict=True),
            range(len(table)),
            strict=True,
        )
    )
    marks = table.take(pa.array(list(last.values()))).select(slots)
    columns = [
        marks[name].combine_chunks() if name in slots else pa.nulls(len(marks), kind)
        for name, kind in zip(flow.schema.names, flow.schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*columns, pa.array([True] * len(marks))], schema=flow.rows)


def cut(table: pa.Table, cuts: list[int]) -> Iterator[pa.RecordBatch]:
    """Cut a table into batches of these lengths, over and over."""
    batch, start, turn = table.combine_chunks().to_batches()[0], 0, 0
    while start < len(table):
        yield batch.slice(start, cuts[turn % len(cuts)])
        start, turn = start + cuts[turn % len(cuts)], turn + 1


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: type(one).__name__)
@given(example=examples(), cuts=st.lists(st.integers(1, 30), min_size=1, max_size=5))
@settings(max_examples=40)
def test_any_cut_with_restarts_is_released_as_planned(
    mechanism: Temporal, example: Example, cuts: list[int]
) -> None:
    """Any types, any cut of the series, a restart after each: every slot gets what the plan of its series says."""
    if not len(example.table) or not example.by:
        return
    by_time = Example(example.table.take(np.argsort(example.table["time"].to_pylist(), kind="stable")), example.by)
    table = by_time.table.cast(pa.schema([field.with_nullable(True) for field in example.table.schema]))
    table = pa.table(
        [
            column.combine_chunks().dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in table.columns
        ],
        names=table.column_names,
    )
    columns = Columns(by=example.by, time="time", keep=("note",)).fitted(table.column_names)
    flow = Flow(mechanism, KEY, RUN, columns, table.schema, end="ended")
    bucket = Restarted(flow)
    for batch in cut(table, cuts):
        bucket.push(batch.append_column("ended", pa.array([False] * len(batch))))
    counts = bucket.push(ends(flow, table))
    assert (counts.pending, counts.waiting, counts.series, counts.longest) == (0, 0, 0, 0)
    expected = pa.table(moved(table, by_time.sources(mechanism)), schema=table.schema)
    key = lambda row: repr([row[name] for name in (*example.by, "time")])  # noqa: E731
    assert sorted(bucket.table.to_pylist(), key=key) == sorted(expected.to_pylist(), key=key)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: type(one).__name__)
def test_rows_that_wait_are_sorted(mechanism: Temporal) -> None:
    """Within the delay rows may come in any order; what is released does not depend on it."""
    table = readings(5, 60)
    flow = replace(FLOW, mechanism=mechanism, sorts=True)
    generator = np.random.default_rng(5)
    bucket = Restarted(flow)
    for start in range(0, 60, 7):
        times = np.repeat(np.arange(start, min(start + 7, 60)), 5)
        meters = np.tile(np.arange(5), times.size // 5)
        order = generator.permutation(times.size)
        values = (meters * 60 + times) / 8
        counts = bucket.push(
            rows(meters[order].tolist(), times[order].tolist(), values[order].tolist()), horizon=start - 1
        )
        assert counts.waiting == times.size
        assert (counts.late, counts.repeated) == (0, 0)
    assert bucket.due == 56
    bucket.push(rows(list(range(5)), [60] * 5, ended=[True] * 5), horizon=60)
    released = bucket.table.sort_by([("meter", "ascending"), ("time", "ascending")])
    assert released.equals(mechanism.release(table, by="meter", time="time", key=KEY, run=RUN))


@pytest.mark.parametrize("sorts", [False, True])
def test_late_and_repeated_rows_are_dropped_and_counted(sorts: bool) -> None:
    """The first that came at a time is kept; a row before the last one that went on is late."""
    bucket = Restarted(replace(FLOW, sorts=sorts))
    counts = bucket.push(rows(1, [3, 5, 5, 4, 3], [3.0, 5.0, -5.0, 4.0, -3.0]), horizon=100)
    assert (counts.late, counts.repeated) == (0, 2)
    counts = bucket.push(rows([1, 1, 1, 2], [2, 5, 6, 2], [-2.0, -5.0, 6.0, 0.0]), horizon=100)
    assert (counts.late, counts.repeated) == (1, 1)
    bucket.push(rows([1, 2], [7, 7], ended=[True, True]), horizon=100)
    assert sorted(bucket.table["kwh"].to_pylist()) == [0.0, 3.0, 4.0, 5.0, 6.0]


def test_rows_behind_the_horizon_go_on_where_their_series_has_no_later_one() -> None:
    """Nothing is dropped that could still stand in order."""
    bucket = Restarted(replace(FLOW, sorts=True))
    assert bucket.push(rows(1, [50]), horizon=100).late == 0
    assert bucket.push(rows(1, [60]), horizon=100).late == 0
    assert bucket.push(rows(1, [55]), horizon=100).late == 1


def test_a_series_that_comes_back_reads_words_of_its_own() -> None:
    """After its end a series is drawn as another part; it never goes back in time, and never repeats a draw."""
    bucket = Restarted(FLOW)
    bucket.push(rows(1, range(20)))
    counts = bucket.push(rows(1, [20, *range(21, 41)], ended=[True] + [False] * 20), rows(1, [41], ended=[True]))
    assert (counts.ended, counts.pending) == (2, 0)
    counts = bucket.push(rows(1, [15, 41, 42, 50], ended=[False, False, False, True]))
    assert (counts.late, counts.repeated, counts.released) == (1, 1, 1)
    first = MECHANISM.plan(20, key=KEY, series=1, run=RUN).apply([float(n) for n in range(20)])
    second = MECHANISM.plan(20, key=KEY, series=1, run=f"{RUN}, part 2").apply([float(n) for n in range(21, 41)])
    assert bucket.table["kwh"].to_pylist() == [*first, *second, 42.0]
    assert bucket.table["time"].to_pylist() == [*range(20), *range(21, 41), 42]


def test_idle_series_end_by_the_time_of_the_stream() -> None:
    """A gap ends a series, whether its next row or the horizon shows it."""
    flow = replace(FLOW, idle=10)
    bucket = Restarted(flow)
    bucket.push(rows([1] * 12 + [2], [*range(12), 5]), horizon=11)
    assert bucket.due == 16
    counts = bucket.push(horizon=15)
    assert (counts.ended, counts.series) == (0, 2)
    counts = bucket.push(horizon=16)
    assert (counts.ended, counts.series, counts.released) == (1, 1, 1)
    counts = bucket.push(rows(1, [21, 40]), horizon=20)
    assert (counts.ended, counts.series, counts.pending) == (1, 1, 1)
    assert counts.released == 4
    assert bucket.due == 51
    assert bucket.push(horizon=51).pending == 0
    assert len(bucket.table) == 15


def test_timers_wake_a_bucket_when_something_is_due_and_not_before() -> None:
    """A watermark counts whole milliseconds; a timer always lies ahead of it."""
    work = Work(MECHANISM, Carried(KEY), RUN, COLUMNS, SCHEMA, None, 3_000_000, sorts=True, ticks=1)
    for due in (1, 999, 1_000, 1_001, 10**15 + 1):
        timer = work.timer(due, 0)
        horizon, before = work.horizon(timer), work.horizon(timer - 1)
        assert horizon is not None
        assert before is None or before < due <= horizon
    assert work.timer(5_000, 9) == 10
    assert work.timer(-(10**9), 0) == 1
    assert work.horizon(0) is None
    days = replace(work, ticks=86_400 * 10**6)
    assert days.horizon(days.timer(19_000, 0)) == 19_000
    assert days.flow().idle == 0


def test_a_series_and_its_snapshots_are_those_of_a_stream() -> None:
    """What comes out, and when, is what a stream gives."""
    stream = Stream(MECHANISM, key=KEY, series=7, run=RUN)
    bucket = Restarted(FLOW)
    for time in range(50):
        bucket.push(rows(7, [time]))
        assert bucket.released[-1]["kwh"].to_pylist() == stream.push(float(time))
    bucket.push(rows(7, [50], ended=[True]))
    assert bucket.released[-1]["kwh"].to_pylist() == stream.flush()


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: type(one).__name__)
def test_state_is_bounded_by_the_window(mechanism: Temporal) -> None:
    """A long series needs no more room than a short one."""
    bucket = Restarted(replace(FLOW, mechanism=mechanism))
    sizes = []
    for start in range(0, 40_000, 1_000):
        bucket.push(rows(1, range(start, start + 1_000)))
        sizes.append(len(bucket.sealed or b""))
    assert max(sizes[20:]) < 1.5 * max(sizes[:20])
    assert max(sizes) < 40_000


def test_state_is_sealed() -> None:
    """Neither values nor ids nor times can be seen; another key, bucket or mechanism cannot open it."""
    text = pa.schema([("meter", pa.string()), ("time", pa.int64()), ("note", pa.string())])
    flow = Flow(PureSwitch(1, window=20), KEY, RUN, Columns(by=("meter",), time="time").fitted(text.names), text)
    bucket = Bucket(flow, 3)
    notes = [f"a secret note {number}" for number in range(40)]
    bucket.push([pa.record_batch([["meter of a person"] * 40, list(range(40)), notes], schema=text)])
    sealed = bucket.sealed()
    assert b"secret note" not in sealed
    assert b"person" not in sealed
    assert Bucket(flow, 3, sealed).sealed() != sealed
    wrong = [(replace(flow, key=Key.for_testing(9)), 3), (flow, 4), (replace(flow, mechanism=MECHANISM), 3)]
    for other, number in wrong:
        with pytest.raises(SnapshotError, match="of another stream, or damaged"):
            Bucket(other, number, sealed)
    with pytest.raises(SnapshotError):
        Bucket(flow, 3, sealed[:-1])


def test_packets_hold_rows_by_bucket_in_order() -> None:
    """Packed and unpacked, every row is there, in the bucket of its series, in the order in which it came."""
    table = readings(30, 50).append_column("ended", pa.array([False] * 1_500))
    table = table.take(np.random.default_rng(1).permutation(1_500))
    packing = Packing(COLUMNS, FLOW.rows, 8, 10, False)
    packets = pa.Table.from_batches(packing(iter(table.to_batches(max_chunksize=99))))
    assert packets["number"].to_pylist() == [0] * 8
    assert set(packets["clock"].to_pylist()) == {490}
    for bucket, octets, count in zip(
        *(packets[name].to_pylist() for name in ("bucket", "rows", "count")), strict=True
    ):
        mine = [bucket_of(meter, 8) == bucket for meter in table["meter"].to_pylist()]
        assert unpacked(octets, FLOW.rows).equals(table.filter(pa.array(mine)).combine_chunks().to_batches()[0])
        assert count == sum(mine)


def test_released_packets_are_rows_again() -> None:
    """Packets without rows are passed over."""
    batch = readings(2, 3).to_batches()[0]
    packets = pa.record_batch({"packet": pa.array([packed(batch), None, packed(batch)], pa.binary())})
    assert list(Unpacking(SCHEMA)(iter([packets]))) == [batch, batch]


def test_invalid_rows_are_refused_or_dropped_and_counted() -> None:
    """Null ids and times stop the stream with an error that shows none, or are counted."""
    batch = rows([1, None, 2, None], [1, 2, None, None], [1.0, 2.0, 3.0, 4.0])
    packing = Packing(COLUMNS, FLOW.rows, 8, None, False)
    with pytest.raises(DataError, match="every row must have a series id; got at least 2 rows"):
        list(packing(iter([batch])))
    packets = pa.Table.from_batches(replace(packing, drop_invalid=True)(iter([batch])))
    counts = {
        name: sum(filter(None, packets[name].to_pylist())) for name in ("count", "without_id", "without_time")
    }
    assert counts == {"count": 1, "without_id": 2, "without_time": 1}
    nothing = pa.Table.from_batches(replace(packing, drop_invalid=True)(iter([batch.slice(1)])))
    assert nothing["rows"].to_pylist() == [None]


def test_buckets_of_series_never_change() -> None:
    """A checkpoint outlives versions: these numbers must stay."""
    series: list[Series] = ["meter 7", 7, b"7", True, ("date:2024-02-29",), ("a", 7), "", "Zürich"]
    assert [bucket_of(one, 1 << 32) for one in series] == [
        387797137,
        2610822295,
        3157491071,
        2317263445,
        2340767573,
        2183435295,
        51421088,
        2445601200,
    ]
    counts = np.bincount([bucket_of(number, 16) for number in range(16_000)])
    assert counts.min() > 800
    assert counts.max() < 1200
