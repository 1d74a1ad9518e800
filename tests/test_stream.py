"""Streams: any value, any chunking, snapshots that are refused unless they are whole."""

import copy
import math
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whenmask import Key, RanSwitch, StaSwitch
from whenmask.errors import DataError, SecretError, SnapshotError

KEY = Key.for_testing(5)
MECHANISM = StaSwitch(2, window=6, calibrate="claim")
ANYTHING = st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.tuples(st.text(), st.integers())


@given(values=st.lists(ANYTHING, max_size=40), cut=st.integers(0, 40))
def test_no_value_is_lost_or_repeated(values: list, cut: int) -> None:
    """The same objects come out, each once, through a snapshot in the middle as well."""
    stream = MECHANISM.stream(key=KEY)
    released = stream.push_many(values[:cut])
    stream = MECHANISM.stream(key=KEY).restore(stream.snapshot())
    released += stream.push_many(values[cut:])
    released += stream.flush()
    assert Counter(map(repr, released)) == Counter(map(repr, values))


def test_a_value_leaves_when_its_slot_is_decided() -> None:
    """One value in, one out, `window` − 1 values late: when a value leaves says nothing about which it is."""
    stream = MECHANISM.stream(key=KEY)
    assert [len(stream.push(i)) for i in range(20)] == [0] * 5 + [1] * 15
    assert stream.pending == 5
    assert len(stream.flush()) == 5
    assert stream.pending == 0
    assert stream.flush() == []
    with pytest.raises(DataError, match="the series has ended. Hint: start a new stream"):
        stream.push(1)


def test_mutable_values_are_passed_on_untouched() -> None:
    """A stream hands over the very object that was pushed."""
    value = {"kwh": [1.5]}
    stream = MECHANISM.stream()
    assert (stream.push(value) + stream.flush())[0] is value


@pytest.fixture
def snapshot() -> bytes:
    """A snapshot with values waiting."""
    stream = MECHANISM.stream(key=KEY, series="Jane Doe")
    stream.push_many(["secret reading"] * 3)
    return stream.snapshot()


def test_snapshots_show_neither_values_nor_series_nor_key(snapshot: bytes) -> None:
    """At rest everything is sealed; what is in the clear is the mechanism."""
    for hidden in (b"secret", b"Jane", KEY.expose()[1:], KEY.expose()[1:].hex().encode()):
        assert hidden not in snapshot
    assert MECHANISM.identity.encode() in snapshot


def test_damaged_snapshots_are_refused_whole(snapshot: bytes) -> None:
    """Any truncation or altered byte is refused, and the stream goes on as if nothing had happened."""
    stream = MECHANISM.stream(key=KEY, run="untouched")
    stream.push_many("ab")
    spoilt = [snapshot[:size] for size in range(len(snapshot))]
    spoilt += [snapshot[:i] + bytes([snapshot[i] ^ 1]) + snapshot[i + 1 :] for i in range(len(snapshot))]
    for damaged in [*spoilt, snapshot + b"x", b"", None, 7, "text"]:
        with pytest.raises(SnapshotError):
            stream.restore(damaged)  # type: ignore[arg-type]
    untouched = MECHANISM.stream(key=KEY, run="untouched")
    assert stream.run == "untouched"
    assert stream.push_many("cdefgh") + stream.flush() == untouched.push_many("abcdefgh") + untouched.flush()


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (RanSwitch.from_units(MECHANISM.unit, window=6).stream(key=KEY), "of another mechanism"),
        (StaSwitch.from_units(MECHANISM.unit, window=7).stream(key=KEY), "of another mechanism"),
        (MECHANISM.stream(key=Key.for_testing(6)), "truncated, altered or under another key"),
        (MECHANISM.stream(), "truncated, altered or under another key"),
    ],
)
def test_foreign_snapshots_are_refused(snapshot: bytes, stream, message: str) -> None:
    """A snapshot belongs to one mechanism and one key."""
    with pytest.raises(SnapshotError, match=message):
        stream.restore(snapshot)


def test_snapshots_of_another_version_are_refused(snapshot: bytes) -> None:
    """The version comes first, so that a newer format is not taken for damage."""
    newer = snapshot.replace(b"snapshot\n1 ", b"snapshot\n2 ", 1)
    with pytest.raises(SnapshotError, match="must be of version 1; got version 2"):
        MECHANISM.stream(key=KEY).restore(newer)


def test_restoring_takes_over_the_run() -> None:
    """A restored stream goes on with the run of the snapshot, so that it draws what was due."""
    stream = MECHANISM.stream(key=KEY, series=1, run="first")
    stream.push_many(range(9))
    restored = MECHANISM.stream(key=KEY).restore(stream.snapshot())
    assert restored.run == "first"
    assert restored.push_many(range(9, 20)) == stream.push_many(range(9, 20))
    assert "pending, testing key" in repr(stream)


def test_values_that_cannot_be_pickled_are_named_so() -> None:
    """A snapshot needs values that can be stored; streaming itself does not."""
    stream = MECHANISM.stream()
    stream.push(lambda: None)
    with pytest.raises(SnapshotError, match="a waiting value cannot be pickled"):
        stream.snapshot()


def test_streams_and_help_never_import_numba() -> None:
    """Devices pay neither numba's memory nor its time."""
    code = (
        "import sys; from whenmask import *; from whenmask.cli import run\n"
        "stream = StaSwitch(2, window=6, calibrate='claim').stream()\n"
        "stream.push_many(range(999)), stream.flush(), run(['--help'])\n"
        "heavy = {'numba', 'scipy', 'pyarrow', 'narwhals', 'pandas', 'polars', 'duckdb'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_many_values_keep_memory_bounded() -> None:
    """After a hundred thousand values a stream holds no more than its window, and its snapshot stays small."""
    stream = RanSwitch(2, window=50).stream(key=KEY)
    stream.push_many(range(1000))
    early = len(stream.snapshot())
    released = stream.push_many(np.arange(100_000).tolist())
    assert len(released) == 100_000
    assert stream.pending == 49
    assert len(stream.snapshot()) < 2 * early
    assert math.isclose(np.mean(released), 49_999.5, rel_tol=0.01)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_has_no_double(again) -> None:
    """Two streams from one state would serve two inputs with one plan, and a pickle would hold the key."""
    stream = RanSwitch(2, window=3).stream()
    stream.push_many(range(5))
    with pytest.raises(SecretError, match="a stream cannot be pickled or copied") as error:
        again(stream)
    assert "snapshot" in str(error.value)
