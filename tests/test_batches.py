"""Batches: however a table is cut, it is released as a whole would be, in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.tables import KEY, RUN, Example, examples, moved, readings
from whenmask import RanSwitch, StaSwitch
from whenmask.batches import Plans, Transit, release_batches
from whenmask.columns import Columns
from whenmask.errors import DataError, ParameterError
from whenmask.keystream import Context, Keystream
from whenmask.mechanisms import Backward, Forward, Temporal, Threshold

MECHANISM = RanSwitch.from_probabilities(q=0.15, window=4)
STATEFUL = StaSwitch.from_probabilities(q=0.02, window=30)
DISPATCH = [
    Backward.from_probabilities(q=0.1, window=5),
    Forward.from_probabilities(q=0.1, window=5),
    Threshold(4, window=5, calibrate="claim"),
]
COLUMNS = Columns(by=("meter",), time="time")


def cut(table: pa.Table, cuts: list[int]) -> Iterator[pa.RecordBatch]:
    """Cut a table into batches of these lengths, over and over, empty ones too."""
    batch = table.combine_chunks().to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], table.schema)
    start = turn = 0
    while start < len(table):
        length = cuts[turn % len(cuts)]
        yield batch.slice(start, length)
        start, turn = start + length, turn + 1
    yield batch.slice(len(table))


def release(batches, mechanism, columns: Columns = COLUMNS) -> pa.Table:
    """Release batches into one table."""
    return pa.Table.from_batches(release_batches(batches, mechanism, columns, key=KEY, run=RUN))


@pytest.mark.parametrize("mechanism", [MECHANISM, *DISPATCH], ids=lambda mechanism: type(mechanism).__name__)
@given(example=examples(), cuts=st.lists(st.integers(0, 30), min_size=1, max_size=5).filter(any))
@settings(max_examples=100)
def test_any_cut_is_released_as_planned(mechanism: Temporal, example: Example, cuts: list[int]) -> None:
    """Batches of any length, cut within or between series, give every row what the plan of its series says."""
    example = example.sorted()
    if not len(example.table):
        return
    columns = Columns(by=example.by, time=example.time, keep=("note",))
    released = release(cut(example.table, cuts), mechanism, columns)
    assert released.schema.equals(example.table.schema, check_metadata=True)
    assert released.to_pydict() == moved(example.table, example.sources(mechanism))
    frame = mechanism.release(example.table, by=example.by, time=example.time, keep="note", key=KEY, run=RUN)
    assert frame.to_pydict() == released.to_pydict()


@pytest.mark.parametrize("mechanism", [MECHANISM, STATEFUL, *DISPATCH], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("size", [1, 7, 1_000, 40_000, 10**6])
def test_long_series_span_batches(mechanism, size: int) -> None:
    """Series longer than what is drawn at a time, in batches from single rows to the whole."""
    table = readings(3, 2_000 if size < 100 else 50_000)
    whole = mechanism.release(table, by="meter", time="time", key=KEY, run=RUN)
    assert release(cut(table, [size]), mechanism).equals(whole)


def test_memory_depends_on_window_and_batch_only() -> None:
    """In a series of 1.2 million rows, no more than a batch and a few windows are ever held."""
    size, batches = 1_000, 1_200
    table = readings(1, size * batches)
    held = read = written = 0
    transit = Transit(table.schema, COLUMNS, Plans(STATEFUL, key=KEY, run=RUN))
    for batch in table.to_batches(max_chunksize=size):
        read += batch.num_rows
        written += sum(out.num_rows for out in transit.push(batch))
        held = max(held, transit.held)
        assert read - written <= STATEFUL.window
        assert sum(part.nbytes for part in (*transit._slots, *transit._values)) < 30 * 100
    assert held <= 2 * STATEFUL.window
    assert written + sum(out.num_rows for out in transit.finish()) == size * batches
    assert transit.held == 0


def test_batches_come_out_as_they_go_in() -> None:
    """Nothing is read ahead: each batch is released, up to the window, before the next is asked for."""
    table = readings(1, 5_000)
    asked = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal asked
        for batch in table.to_batches(max_chunksize=500):
            asked += 1
            yield batch

    for number, out in enumerate(release_batches(batches(), MECHANISM, COLUMNS), start=1):
        assert asked == min(number, 10)
        assert out.schema == table.schema


def test_no_batches_and_empty_batches() -> None:
    """Nothing in, nothing out."""
    assert list(release_batches([], MECHANISM, COLUMNS)) == []
    empty = pa.RecordBatch.from_pylist([], readings(1, 1).schema)
    assert list(release_batches([empty, empty], MECHANISM, COLUMNS)) == []


def test_rows_may_be_the_slots() -> None:
    """Without a time the rows are the slots as they stand; without ids all are one series with the name given."""
    table = readings(1, 50)
    released = release(cut(table, [7]), MECHANISM, Columns(keep=("meter", "time"), series="all"))
    source = MECHANISM.plan(50, key=KEY, series="all", run=RUN).source
    assert released["kwh"].to_pylist() == (source / 8).tolist()
    released = release(cut(table, [7]), MECHANISM, Columns(by=("meter",), keep=("time",)))
    source = MECHANISM.plan(50, key=KEY, series=0, run=RUN).source
    assert released["kwh"].to_pylist() == (source / 8).tolist()


def test_dictionaries_may_change_between_batches() -> None:
    """Ids and values are what their dictionaries say, not the numbers in them."""
    words = ["a"] * 5 + ["b"] * 5
    first = pa.record_batch({"id": pa.array(words[:7]).dictionary_encode(), "x": pa.array(list("tuvwxyz"))})
    second = pa.record_batch({"id": pa.array(words[7:]).dictionary_encode(), "x": pa.array(list("klm"))})
    batches = [batch.set_column(1, "x", batch["x"].dictionary_encode()) for batch in (first, second)]
    released = release(batches, MECHANISM, Columns(by=("id",)))
    plain = pa.table({"id": words, "x": list("tuvwxyzklm")})
    assert released.to_pydict() == MECHANISM.release(plain, by="id", key=KEY, run=RUN).to_pydict()
    assert released.schema == batches[0].schema


BAD = [
    ([0, 0, 0, 0], [0, 2, 1, 3], "time must not go back within a series; got at least 1 row", 2),
    ([0, 0, 0, 0], [0, 1, 1, 2], "a time must occur only once within a series; got at least 1 row", 2),
    ([0, 0, 1, 0], [0, 1, 0, 2], "the rows of a series must stand together; got at least 1 row", 3),
    ([0, None, 1, 1], [0, 1, 0, 2], "every row must have a series id; got at least 1 row", 1),
    ([0, 0, 1, 1], [0, None, 0, 2], "every row must have a time; got at least 1 row", 1),
]


@pytest.mark.parametrize(("meters", "times", "problem", "row"), BAD)
def test_bad_rows_are_refused_by_number(meters, times, problem, row) -> None:
    """The number counts through all batches, and no value is shown."""
    good = [-1] * 6
    table = pa.table({"meter": good + meters, "time": [*range(6), *times], "kwh": [777.25] * 10})
    for size in (10, 6):
        with pytest.raises(DataError) as caught:
            release(cut(table, [size]), MECHANISM)
        assert problem in str(caught.value)
        assert f"row {6 + row} (counted from 0)" in str(caught.value)
        assert "777" not in str(caught.value)


def test_times_are_compared_across_batches() -> None:
    """The last row of a batch and the first of the next are neighbours, if they are of one series."""
    for times, fine in (([0, 1, 2], True), ([0, 2, 2], False), ([0, 2, 1], False)):
        table = pa.table({"meter": [5, 5, 5], "time": times, "kwh": [1, 2, 3]})
        if fine:
            assert len(release(cut(table, [1]), MECHANISM)) == 3
        else:
            with pytest.raises(DataError, match=r"row 2 \(counted from 0\)"):
                release(cut(table, [1]), MECHANISM)
    table = pa.table({"meter": [5, 6], "time": [3, 3], "kwh": [1, 2]})
    assert release(cut(table, [1]), MECHANISM).equals(table)


def test_batches_must_agree() -> None:
    """One schema from first to last, and columns that are there."""
    one, other = (pa.record_batch({"meter": [1], "time": [1], name: [1]}) for name in ("kwh", "kW"))
    with pytest.raises(DataError, match="all batches must have the same schema"):
        release([one, other], MECHANISM)
    with pytest.raises(ParameterError, match="`by` must name columns of the table"):
        release([one], MECHANISM, Columns(by=("house",)))
    with pytest.raises(ParameterError, match="`run` must be"):
        release_batches([one], MECHANISM, COLUMNS, run="")


def test_types_that_arrow_cannot_move_say_so() -> None:
    """A clear error, not Arrow's own."""
    batch = pa.record_batch({"t": [0, 1], "x": pa.array(["a", "b"], pa.string_view())})
    with pytest.raises(DataError, match="of a type that Arrow cannot move"):
        release([batch], MECHANISM, Columns(time="t"))


@dataclass(frozen=True)
class Lagging:
    """A made-up mechanism that repeats, loses and leaves empty: slot t takes value t − 3·(word mod 3), if any."""

    window: int = 7
    fault: int = 0

    @property
    def identity(self) -> str:
        """Name and parameters."""
        return "Lagging"

    def draw(self, words: Keystream) -> "LaggingDraw":
        """Start a series."""
        return LaggingDraw(words, self.fault)

    def walk(self, words: Keystream) -> Any:
        """One form serves as both, for there is nothing to compile."""
        return self.draw(words)


class LaggingDraw:
    """Decides every slot when its own value comes."""

    memory = 6

    def __init__(self, words: Keystream, fault: int) -> None:
        self._words = words
        self._fault = fault
        self._arrived = 0

    def push(self, count: int) -> NDArray[np.int64]:
        """Return one source for each value."""
        slots = np.arange(self._arrived, self._arrived + count)
        self._arrived += count
        sources = slots - 3 * (self._words.words(int(slots[0]), count) % 3).astype(np.int64)
        return np.maximum(sources, -1) - self._fault * (slots == 30) * 10

    def finish(self) -> NDArray[np.int64]:
        """Nothing waits."""
        return np.empty(0, dtype=np.int64)


@pytest.mark.parametrize("size", [1, 3, 10, 1_000])
def test_mechanisms_may_lose_repeat_and_leave_empty(size: int) -> None:
    """Empty slots are null, values come again, and only as many are held as can still come."""
    table = readings(4, 40).slice(0, 130)
    expected = []
    for meter, length in enumerate([40, 40, 40, 10]):
        draw = LaggingDraw(Keystream(KEY, Context("Lagging", meter, RUN)), 0)
        expected += [None if s < 0 else (s + 40 * meter) / 8 for s in draw.push(length).tolist()]
    released = release(cut(table, [size]), Lagging())
    assert released["kwh"].to_pylist() == expected
    assert None in expected
    assert len(set(expected)) < len(expected)
    transit = Transit(table.schema, COLUMNS, Plans(Lagging(), key=KEY, run=RUN))
    for batch in cut(table, [size]):
        if batch.num_rows:
            transit.push(batch)
            assert transit.held <= LaggingDraw.memory


def test_frames_of_such_mechanisms_have_nulls() -> None:
    """As in batches, in any order of rows; or what `empty` says."""
    from whenmask.frames import release_frame

    table = readings(4, 40)
    batches = release(cut(table, [50]), Lagging())
    order = np.random.default_rng(3).permutation(160)
    frame = release_frame(table.take(order), Lagging(), COLUMNS, key=KEY, run=RUN)
    assert frame.equals(batches.take(order))
    filled = release_frame(table, Lagging(), COLUMNS, key=KEY, run=RUN, empty=-1.0)
    assert filled["kwh"].to_pylist() == [-1.0 if x is None else x for x in batches["kwh"].to_pylist()]


def test_empty_slots_need_columns_that_may_be_null() -> None:
    """A field that may not be null cannot hold an empty slot."""
    fields = [pa.field("meter", pa.int64()), pa.field("time", pa.int64()), pa.field("kwh", pa.float64(), False)]
    table = readings(1, 40).cast(pa.schema(fields))
    with pytest.raises(DataError, match="may not be null cannot hold an empty slot"):
        release(cut(table, [40]), Lagging())


def test_unsound_mechanisms_are_stopped() -> None:
    """A value that is gone, or a plan of the wrong length, would put values to other series' slots."""
    with pytest.raises(DataError, match="the mechanism drew no sound plan; got a value that it had already"):
        release(cut(readings(1, 60), [5]), Lagging(fault=1))

    class Short(Lagging):
        """Leaves the last slot out."""

        def draw(self, words: Keystream) -> "LaggingDraw":
            """Draw all but one."""
            draw = LaggingDraw(words, 0)
            push = draw.push
            draw.push = lambda count: push(count)[:-1]  # type: ignore[method-assign]
            return draw

    with pytest.raises(DataError, match="fewer or more slots than values"):
        release(cut(readings(2, 5), [5]), Short())
