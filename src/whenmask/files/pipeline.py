"""Batches on their way through threads: read ahead of who uses them, and written behind.

DuckDB, Arrow and the hashes let go of the interpreter while they work, so that reading, releasing and writing go
on side by side. Nothing else is shared: every batch has one owner at a time.
"""

import queue
import threading
from collections.abc import Callable, Generator
from typing import Any

import duckdb
import pyarrow as pa

BATCH = 1 << 17
# Batches that may wait between two threads.
ROOM = 2


class Ahead:
    """Batches of a query, read ahead in a thread: an interruption need not wait until everything is sorted."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str) -> None:
        self._connection = connection
        self._query = query
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=ROOM)
        self._ended = threading.Event()
        # Held while the connection is in use: an interruption may come before the thread has begun.
        self._reading = threading.Lock()

    def __iter__(self) -> Generator[pa.RecordBatch]:
        try:
            threading.Thread(target=self._read, daemon=True).start()
            while (found := self._queue.get()) is not None:
                if isinstance(found, BaseException):
                    raise found
                yield found
        finally:
            self._ended.set()
            while not self._reading.acquire(timeout=0.05):
                self._connection.interrupt()
                self._drain()
            self._reading.release()

    def _drain(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()

    def _read(self) -> None:
        with self._reading:
            try:
                if self._ended.is_set():
                    return
                for batch in self._connection.sql(self._query).to_arrow_reader(BATCH):
                    if self._ended.is_set():
                        return
                    self._queue.put(batch)
                self._queue.put(None)
            except BaseException as error:  # noqa: BLE001 - raised again where the batches are used
                self._queue.put(error)


class Behind:
    """Work on batches, done in a thread in their order. What goes wrong there is raised at the next call here."""

    def __init__(self, work: Callable[[pa.RecordBatch], None]) -> None:
        self._work = work
        self._queue: queue.Queue[pa.RecordBatch | None] = queue.Queue(maxsize=ROOM)
        self._error: BaseException | None = None
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def push(self, batch: pa.RecordBatch) -> None:
        """Have a further batch worked on."""
        if self._error is not None:
            raise self._error
        self._queue.put(batch)

    def finish(self) -> None:
        """Wait until everything is done."""
        self._queue.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """End as soon as the batch at work is done, and forget the rest."""
        self._abandoned = True
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self._error = None  # its frames hold files and connections

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            if self._error is None and not self._abandoned:
                try:
                    self._work(batch)
                except BaseException as error:  # noqa: BLE001 - raised again where batches are pushed
                    self._error = error
