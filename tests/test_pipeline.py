"""Batches in threads: in order, one owner at a time, and nothing that hangs or hides an error."""

import threading
import time
from contextlib import closing

import duckdb
import pyarrow as pa
import pytest

from whenmask.files.pipeline import BATCH, ROOM, Ahead, Behind

BATCHES = [pa.record_batch({"n": [number]}) for number in range(20)]


def test_batches_come_in_order_and_not_too_far_ahead() -> None:
    """All rows of the query; and what nobody asks for is not read to the end."""
    with duckdb.connect() as connection:
        batches = list(Ahead(connection, "FROM range(300000) ORDER BY 1"))
        assert pa.Table.from_batches(batches)["range"].to_pylist() == list(range(300000))
        assert max(batch.num_rows for batch in batches) <= BATCH
        with closing(iter(Ahead(connection, "FROM range(100000000000)"))) as reading:
            assert next(reading).num_rows
        assert connection.sql("SELECT 1").fetchall() == [(1,)]


def test_errors_of_a_query_are_raised_where_it_is_used() -> None:
    """After what came before them, and the connection is free again."""
    with duckdb.connect() as connection:
        with pytest.raises(duckdb.Error):
            list(Ahead(connection, "SELECT nosuch"))
        assert connection.sql("SELECT 1").fetchall() == [(1,)]


def test_an_interruption_at_the_very_start_frees_the_connection(monkeypatch) -> None:
    """Even while the thread is only just beginning: it must not go on with a connection that is closed."""

    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            raise KeyboardInterrupt

    connection = duckdb.connect()
    with monkeypatch.context() as patched:
        patched.setattr(threading, "Thread", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(iter(Ahead(connection, "FROM range(1000000000) ORDER BY 1 DESC")))
    connection.close()


def test_work_is_done_in_order_and_waited_for() -> None:
    """Every batch once; at the end all of them are done, and no more waited than there was room for."""
    done: list[int] = []
    ahead: list[int] = []

    def work(batch: pa.RecordBatch) -> None:
        time.sleep(0.001)
        done.append(batch["n"][0].as_py())

    behind = Behind(work)
    for number, batch in enumerate(BATCHES):
        behind.push(batch)
        ahead.append(number + 1 - len(done))
    behind.finish()
    assert done == list(range(20))
    assert max(ahead) <= ROOM + 2  # those that wait, the one at work, and the one just pushed


def test_errors_of_work_are_raised_and_end_it() -> None:
    """At the next push or at the end; what comes after the error is not worked on."""
    done: list[int] = []

    def work(batch: pa.RecordBatch) -> None:
        if batch["n"][0].as_py() == 3:
            raise OSError("no room")
        done.append(batch["n"][0].as_py())

    behind = Behind(work)
    for batch in BATCHES[: 3 + ROOM]:
        behind.push(batch)
    with pytest.raises(OSError, match="no room"):
        behind.finish()
    with pytest.raises(OSError, match="no room"):
        behind.push(BATCHES[-1])
    behind.abandon()
    assert done == [0, 1, 2]


def test_abandoned_work_ends_soon_and_quietly() -> None:
    """The batch at work is finished, the rest is forgotten, and it can be abandoned twice."""
    done: list[int] = []
    begun, gate = threading.Event(), threading.Event()

    def work(batch: pa.RecordBatch) -> None:
        begun.set()
        gate.wait(10)
        done.append(batch["n"][0].as_py())

    behind = Behind(work)
    for batch in BATCHES[: 1 + ROOM]:
        behind.push(batch)
    begun.wait(10)
    threading.Timer(0.05, gate.set).start()
    behind.abandon()
    behind.abandon()
    assert done == [0]
