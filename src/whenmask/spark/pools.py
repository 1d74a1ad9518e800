"""Rows that are held, each by its name: a series and a number therein, in one integer."""

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]

# A name is the number of a series times 2^SHIFT, and the number of the row.
SHIFT = 40


class Pool:
    """Rows that are held, each by its name."""

    def __init__(self, names: Numbers, rows: pa.RecordBatch) -> None:
        self.names = names
        self.rows = rows

    def joined(self, names: Numbers, rows: pa.RecordBatch) -> "Pool":
        """Return the pool with further rows."""
        if not names.size:
            return self
        if not self.names.size:
            return Pool(names, rows)
        return Pool(np.concatenate([self.names, names]), pa.concat_batches([self.rows, rows]))

    def find(self, names: Numbers) -> Numbers:
        """Return where the rows with these names are; there must be such rows."""
        order = np.argsort(self.names, kind="stable")
        found: Numbers = order[np.searchsorted(self.names, names, sorter=order)]
        return found

    def kept(self, mask: NDArray[np.bool_]) -> "Pool":
        """Return the pool with the rows of the mask only."""
        return self if mask.all() else Pool(self.names[mask], self.rows.filter(pa.array(mask)))

    def content(self) -> tuple[bytes, bytes]:
        """Return what `opened` needs."""
        return self.names.tobytes(), packed(self.rows)

    @classmethod
    def opened(cls, content: tuple[bytes, bytes], schema: pa.Schema) -> "Pool":
        """Return a pool from its content."""
        names, rows = content
        return cls(np.frombuffer(names, dtype=np.int64), unpacked(rows, schema))


def packed(rows: pa.RecordBatch) -> bytes:
    """Return rows as bytes, without their schema."""
    octets: bytes = rows.serialize().to_pybytes()
    return octets


def unpacked(octets: bytes | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows from bytes."""
    return pa.ipc.read_record_batch(octets, schema)


def nothing(schema: pa.Schema) -> pa.RecordBatch:
    """Return no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
