"""A digest of a table's content, the same however the table is cut into batches.

Cut makes no difference because nothing is hashed by batch: every column, and every level of a nested one, has
hashes of its own for values, lengths and nulls, and these are joined at the end. What lies under a null is not
content and is left out. The digest never leaves the process as it is: it is keyed first, since whoever knows an
unkeyed digest can try out guesses of the rows.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whenmask.columns import Columns, Runs

BYTES = 32
SHORT = 16


class Digest:
    """The digest of a table that comes in batches.

    Example:
        >>> whole, cut = Digest(["a"]), Digest(["a"])
        >>> batch = pa.record_batch({"a": [1, None, 3]})
        >>> whole.push(batch)
        >>> cut.push(batch.slice(0, 1)), cut.push(batch.slice(1))
        (None, None)
        >>> whole.digest(["a"]) == cut.digest(["a"])
        True
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._columns = {name: Level() for name in names}

    def push(self, batch: pa.RecordBatch) -> None:
        """Take further rows."""
        for name, level in self._columns.items():
            level.push(batch.column(name))

    def digest(self, names: Sequence[str], *, named: bool = True) -> bytes:
        """Return the digest of these columns, with or without their names."""
        whole = hashlib.blake2b(digest_size=BYTES)
        for name in names:
            label = name.encode("utf-8", "surrogatepass") if named else b""
            whole.update(len(label).to_bytes(8, "little") + label + self._columns[name].digest())
        return whole.digest()


class Slots:
    """A digest of the id and the times of each series of a sorted table, however it is cut."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._runs = Runs(columns)
        self._open = hashlib.blake2b(digest_size=SHORT)
        self._closed = bytearray()

    def push(self, batch: pa.RecordBatch) -> None:
        """Take further rows."""
        before = self._runs.series
        runs, series = self._runs.extend(batch)
        if not series:
            return
        starts = np.append(0, np.flatnonzero(np.diff(runs)) + 1)
        ends = np.append(starts[1:], batch.num_rows)
        times = memoryview(b"")
        width = 0
        if self._columns.time is not None:
            column, _ = _plain(batch.column(self._columns.time))
            width = column.type.bit_width // 8
            times = _content(column, width)
        for number, (one, start, end) in enumerate(zip(series, starts.tolist(), ends.tolist(), strict=True)):
            if number or before == 0 or int(runs[0]) >= before:
                self._closed += self._open.digest()
                self._open = hashlib.blake2b(digest_size=SHORT)
                self._open.update(repr(one).encode("utf-8", "surrogatepass"))
            self._open.update(times[start * width : end * width])

    def digests(self) -> list[bytes]:
        """Return the digests of all series."""
        whole = (bytes(self._closed) + self._open.digest())[SHORT:]  # the first one was opened before any series
        return [whole[start : start + SHORT] for start in range(0, len(whole), SHORT)]


class Level:
    """The digest of a column, or of one level of a nested column."""

    def __init__(self) -> None:
        self._kind = ""
        self._rows = 0
        self._values = hashlib.blake2b(digest_size=BYTES)
        self._lengths = hashlib.blake2b(digest_size=BYTES)
        self._nulls = hashlib.blake2b(digest_size=BYTES)
        self._children: list[Level] = []

    def push(self, array: pa.Array) -> None:
        """Take further values."""
        array, self._kind = _plain(array)
        first, self._rows = self._rows, self._rows + len(array)
        if array.null_count:
            places = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)) + first
            self._nulls.update(places.astype("<i8").tobytes())
            array = array.drop_null()
        self._add(array)

    def _add(self, array: pa.Array) -> None:
        """Take values that are not null."""
        kind, types = array.type, pa.types
        if types.is_null(kind):
            pass
        elif types.is_boolean(kind):
            array = array.cast(pa.uint8())
            self._values.update(_content(array, 1))
        elif types.is_primitive(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind):
            self._values.update(_content(array, kind.bit_width // 8))
        elif types.is_struct(kind):
            self._descend(array.flatten())
        elif types.is_nested(kind):
            if not types.is_fixed_size_list(kind):
                self._lengths.update(pc.list_value_length(array).cast(pa.int64()).to_numpy().tobytes())
            self._descend([array.flatten()])
        else:
            self._text(array)

    def _text(self, array: pa.Array) -> None:
        """Take text or bytes."""
        array = array.cast(pa.large_binary())
        self._lengths.update(pc.binary_length(array).to_numpy().tobytes())
        _, offsets, octets = array.buffers()
        places = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
        if places.size and octets is not None:
            self._values.update(memoryview(octets)[int(places[0]) : int(places[-1])])

    def _descend(self, arrays: list[pa.Array]) -> None:
        self._children = self._children or [Level() for _ in arrays]
        for child, array in zip(self._children, arrays, strict=True):
            child.push(array)

    def digest(self) -> bytes:
        """Return the digest."""
        whole = hashlib.blake2b(digest_size=BYTES)
        whole.update(f"{self._kind} {self._rows}\n".encode())
        for part in (self._values, self._lengths, self._nulls):
            whole.update(part.digest())
        for child in self._children:
            whole.update(child.digest())
        return whole.digest()


def _plain(array: pa.Array) -> tuple[pa.Array, str]:
    """Return an array in the one type that stands for all that differ in storage only, and that type's name."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind, types = array.type, pa.types
    if types.is_integer(kind):
        return (array, "uint64") if kind == pa.uint64() else (array.cast(pa.int64()), "integer")
    if types.is_timestamp(kind):
        zone = "instant" if kind.tz else "timestamp"
        return (array, f"{zone} ns") if kind.unit == "ns" else (array.cast(pa.timestamp("us", kind.tz)), zone)
    if types.is_string(kind) or types.is_large_string(kind):
        return array, "text"
    if types.is_nested(kind):
        return array, "struct" if types.is_struct(kind) else "list"
    return array, str(kind)


def _content(array: pa.Array, width: int) -> memoryview:
    """Return the bytes of fixed-width values."""
    content = array.buffers()[1]
    whole = memoryview(b"" if content is None else content)
    return whole[array.offset * width : (array.offset + len(array)) * width]
