"""The ledger: it refuses what two releases would tell together, adds up what they spend, and tells nothing."""

import dataclasses
import datetime as dt
import multiprocessing
import sqlite3
import stat

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from whenmask import Key, RanSwitch
from whenmask.columns import Columns
from whenmask.errors import DataError, FileError
from whenmask.files import LEDGER, Job, open_inputs, release_files
from whenmask.files.fingerprint import Slots
from whenmask.ledger import Ledger, Run

RUN = Run("key", "run", "mechanism", "content", "slots", 4.0, 0.25, 10, 2, "out.csv")
COLUMNS = Columns(by=("id",), time="time")


def release(folder, values, key, columns=COLUMNS, *, run="a run", name="out.parquet", window=2):
    """Release these values; return the bytes of the output."""
    times = [dt.datetime(2024, 1, 1, hour) for hour in range(len(values))]
    table = pa.table(
        {"id": ["meter-4711"] * len(values), "time": times, "kwh": values, "note": ["x"] * len(values)}
    )
    pq.write_table(table, folder / "in.parquet")
    job = Job(folder / name, key=key, run=run, force=True, accept_risk=True)
    with open_inputs([folder / "in.parquet"], columns, output=folder / name) as inputs:
        release_files(inputs, RanSwitch(4, window=window), job)
    return (folder / name).read_bytes()


def test_the_same_run_may_be_repeated_and_spends_nothing(tmp_path) -> None:
    """Bit for bit the same, and counted once."""
    key = Key.fresh()
    assert release(tmp_path, [1.0, 2.0, 3.0], key) == release(tmp_path, [1.0, 2.0, 3.0], key)
    (spent,) = Ledger(tmp_path / LEDGER).spent()
    assert (spent.runs, spent.epsilon) == (1, RanSwitch(4, window=2).guarantee.epsilon)


@pytest.mark.parametrize("change", ["value", "row", "role"])
def test_other_rows_under_the_same_key_and_run_are_refused(tmp_path, change) -> None:
    """A value, a row or the role of a column: refused before there is anything to see, the old output stays."""
    key = Key.fresh()
    before = release(tmp_path, [1.0, 2.0, 3.0], key)
    values = {"value": [1.0, 2.0, 4.0], "row": [1.0, 2.0, 3.0, 4.0], "role": [1.0, 2.0, 3.0]}[change]
    columns = Columns(by=("id",), time="time", keep=("note",)) if change == "role" else COLUMNS
    with pytest.raises(DataError, match="other rows were released under the same key and run id"):
        release(tmp_path, values, key, columns)
    assert (tmp_path / "out.parquet").read_bytes() == before
    with pytest.raises(DataError, match="other rows"):
        release(tmp_path, values, key, columns, name="other.parquet")
    assert not (tmp_path / "other.parquet").exists()
    assert not list(tmp_path.glob(".whenmask*"))
    release(tmp_path, values, key, columns, run="another run")
    release(tmp_path, values, Key.fresh(), columns)


def test_releases_of_the_same_series_and_times_add_up(tmp_path) -> None:
    """By whatever run, key, mechanism and values; other times are counted apart."""
    release(tmp_path, [1.0, 2.0, 3.0], Key.fresh())
    release(tmp_path, [1.0, 2.0, 3.0], Key.fresh(), window=3)
    release(tmp_path, [7.0, 8.0, 9.0], Key.fresh())
    release(tmp_path, [1.0, 2.0], Key.fresh())
    most, other = Ledger(tmp_path / LEDGER).spent()
    guarantees = [RanSwitch(4, window=window).guarantee for window in (2, 3, 2)]
    assert (most.runs, other.runs) == (3, 1)
    assert most.epsilon == sum(guarantee.epsilon for guarantee in guarantees)
    assert most.delta == sum(guarantee.delta for guarantee in guarantees)


def test_a_series_spends_in_every_file_that_it_is_part_of(tmp_path) -> None:
    """Released with others and alone, in another format and order: the sum is its own."""
    slots = [dt.datetime(2024, 1, 1, hour) for hour in range(20)]
    table = pa.table(
        {
            "id": ["a"] * 20 + ["b"] * 20 + ["c"] * 20,
            "time": slots * 3,
            "kwh": [(7 * n) % 60 / 4 for n in range(60)],
        }
    )
    mechanism = RanSwitch(4, window=2)
    pq.write_table(table, tmp_path / "all.parquet")
    pa.csv.write_csv(table.slice(20).take(list(range(39, -1, -1))), tmp_path / "some.csv")
    pq.write_table(table.slice(40, 19), tmp_path / "less.parquet")
    for number, name in enumerate(["all.parquet", "some.csv", "less.parquet"]):
        output = tmp_path / f"out{number}.csv"
        with open_inputs([tmp_path / name], COLUMNS, output=output) as inputs:
            release_files(inputs, mechanism, Job(output, accept_risk=True))
    epsilon = mechanism.guarantee.epsilon
    found = [(one.series, one.runs, one.epsilon) for one in Ledger(tmp_path / LEDGER).spent()]
    assert found == [(2, 2, 2 * epsilon), (2, 1, epsilon)]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_the_slots_of_a_series_are_the_same_however_cut(size) -> None:
    """One digest for each series, in any batches; other times and other ids have others."""
    table = pa.table({"id": [1] * 5 + [2] * 5 + [3] * 4, "time": [*range(5), *range(5), *range(4)]})
    slots = Slots(Columns(by=("id",), time="time"))
    for batch in table.to_batches(size):
        slots.push(batch)
    whole = Slots(Columns(by=("id",), time="time"))
    whole.push(table.combine_chunks().to_batches()[0])
    assert slots.digests() == whole.digests()
    assert len(set(whole.digests())) == 3


def test_what_is_not_proved_does_not_add_up(tmp_path) -> None:
    """A sum with an unknown part is unknown."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.record(RUN)
    ledger.record(dataclasses.replace(RUN, run="other", epsilon=None, delta=None))
    (spent,) = ledger.spent()
    assert (spent.runs, spent.epsilon, spent.delta) == (2, None, None)


def test_a_ledger_is_its_owners_and_tells_nothing(tmp_path) -> None:
    """Mode 0600, and neither ids nor values nor keys in it."""
    key = Key.fresh()
    release(tmp_path, [31.4159, 2.0], key)
    path = tmp_path / LEDGER
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    for secret in (b"meter-4711", b"31.4159", key.expose()[1:], key.expose()[1:].hex().encode(), b"2024-01-01"):
        assert secret not in content


def test_a_ledger_remembers_under_a_secret_of_its_own(tmp_path) -> None:
    """Two ledgers know the same rows under different names."""
    first, second = Ledger(tmp_path / "a"), Ledger(tmp_path / "b")
    assert first.fingerprint(b"x") == Ledger(tmp_path / "a").fingerprint(b"x") != second.fingerprint(b"x")


def test_what_is_no_ledger_is_refused(tmp_path) -> None:
    """Another file, none, or one in a folder that is not there."""
    (tmp_path / "text").write_text("this is not a database, but it is long enough to be one")
    with pytest.raises(FileError, match="cannot be used"):
        Ledger(tmp_path / "text")
    with pytest.raises(FileError, match="no ledger"):
        Ledger(tmp_path / "none", create=False)
    with pytest.raises(FileError, match="cannot be written"):
        Ledger(tmp_path / "nowhere" / "ledger")
    with sqlite3.connect(tmp_path / "other") as connection:
        connection.execute("CREATE TABLE runs (x)")
    connection.close()
    with pytest.raises(FileError, match="cannot be used"):
        Ledger(tmp_path / "other").record(RUN)


def record(path, number):
    """Record two runs from a process of its own: one that all record, and one of its own."""
    ledger = Ledger(path)
    try:
        return ledger.record(dataclasses.replace(RUN, content=f"content {number}")), ledger.record(
            dataclasses.replace(RUN, run=f"run {number}")
        )
    except DataError:
        return None


def test_of_processes_at_once_one_is_first(tmp_path) -> None:
    """Eight processes claim one run for different rows: one gets it, seven are refused, nothing is lost."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = pool.starmap(record, [(tmp_path / "ledger", number) for number in range(8)])
    assert sorted(found, key=str) == [(False, False)] + [None] * 7
    assert len(Ledger(tmp_path / "ledger").runs()) == 2
