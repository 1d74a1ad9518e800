"""What workers count of the rows they release, added up on the driver: for receipts and ledgers.

The digest of a table must not depend on how Spark spread its rows. Each series has one, it is put under a key, and
what comes out is added up: a sum knows no order, and says nothing to those without the key. Spark adds what a task
tells once for each that has finished, so that retries and copies of tasks count nothing twice.
"""

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

import numpy as np
import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam

from whenmask.batches import release_batches
from whenmask.columns import Columns, Runs
from whenmask.files.fingerprint import BYTES, Digest
from whenmask.spark.batch import Task

WHOLE = 1 << (8 * BYTES)


@dataclass(frozen=True)
class Sum:
    """What was counted so far.

    Attributes:
        rows: Rows.
        series: Series.
        content: The sum of the digests of the series.
        slots: The same of their ids and times alone.
    """

    rows: int = 0
    series: int = 0
    content: int = 0
    slots: int = 0

    def __add__(self, other: "Sum") -> "Sum":
        rows, series, content, slots = (one + two for one, two in zip(astuple(self), astuple(other), strict=True))
        return Sum(rows, series, content % WHOLE, slots % WHOLE)


class Summing(AccumulatorParam["Sum"]):
    """Tells Spark how to add up."""

    def zero(self, value: Sum) -> Sum:  # noqa: ARG002
        """Return where to begin."""
        return Sum()

    def addInPlace(self, value1: Sum, value2: Sum) -> Sum:  # noqa: N802 - Spark's name
        """Return the sum."""
        return value1 + value2


@dataclass(frozen=True)
class Secrets:
    """What digests are put under: only who has these can tell whether a guess of the rows is right."""

    content: bytes
    slots: bytes

    def __repr__(self) -> str:
        return "<Secrets>"


@dataclass(frozen=True)
class Tallied(Task):
    """A task that counts the rows it is given.

    Attributes:
        secrets: What digests are put under.
        total: Where to add the counts.
    """

    secrets: Secrets
    total: Accumulator[Sum]

    def released(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Release sorted batches, and tell what they were when all are through."""
        tally = Tally(self.columns, self.secrets)
        counted = tally.through(batches)
        yield from release_batches(counted, self.mechanism, self.columns, key=self.carried.key, run=self.run)
        self.total.add(tally.sum)


class Tally:
    """Counts sorted rows as they go through."""

    def __init__(self, columns: Columns, secrets: Secrets) -> None:
        self._columns = columns
        self._secrets = secrets
        self._runs = Runs(columns)
        self._digest: Digest | None = None
        self._names: list[str] = []
        self.sum = Sum()

    def through(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows, counted."""
        for batch in batches:
            self._push(batch)
            yield batch
        self._close()

    def _push(self, batch: pa.RecordBatch) -> None:
        self._names = list(batch.schema.names)
        before = self._runs.series
        runs, _ = self._runs.extend(batch)
        starts = np.append(0, np.flatnonzero(np.diff(runs)) + 1).tolist() if runs.size else []
        for start, stop in zip(starts, [*starts[1:], runs.size], strict=True):
            if self._digest is None or runs[start] >= before:
                self._close()
                self._digest = Digest(self._names)
            self._digest.push(batch.slice(start, stop - start))
        self.sum += Sum(rows=batch.num_rows)

    def _close(self) -> None:
        """Add the digest of the series that is through."""
        if self._digest is not None:
            slots = [*self._columns.by, *([] if self._columns.time is None else [self._columns.time])]
            content = _hidden(self._secrets.content, self._digest.digest(self._names))
            self.sum += Sum(0, 1, content, _hidden(self._secrets.slots, self._digest.digest(slots, named=False)))
            self._digest = None


def _hidden(secret: bytes, digest: bytes) -> int:
    return int.from_bytes(hmac.digest(secret, digest, hashlib.sha256), "little")
