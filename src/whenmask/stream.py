"""A release value by value: push one, get the ones that are due.

A stream keeps the values that wait, a walk says which of them is due. What waits is bounded by the window, any
Python object can be a value, and nothing here imports numba. A snapshot is sealed (AES-256-GCM) under a key
derived from the stream's own, so that values at rest are neither in the clear nor open to tampering; that is
also why it may be unpickled safely.
"""

import pickle
from collections.abc import Iterable
from typing import Any, NoReturn, Self

from whenmask.errors import DataError, SecretError, SnapshotError
from whenmask.keystream import Context, Key, KeyKind, Keystream, Series, checked_key, checked_run
from whenmask.sampler import Sampler

MAGIC = b"whenmask snapshot\n"
VERSION = 1
PURPOSE = b"snapshot"


class Stream:
    """One series under way, from the first value to `flush`.

    Example:
        >>> from whenmask import Key, RanSwitch
        >>> stream = RanSwitch.from_probabilities(q=0.2, window=3).stream(key=Key.for_testing(7))
        >>> released = [value for letter in "abcde" for value in stream.push(letter)]
        >>> sorted(released + stream.flush())
        ['a', 'b', 'c', 'd', 'e']
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        key: Key | None = None,
        series: Series = None,
        run: str | None = None,
        empty: Any = None,
    ) -> None:
        """Start a series; `empty` is what comes out for a slot without a value."""
        self._sampler = sampler
        self._key = checked_key(key)
        self._empty = empty
        self._start(Context(sampler.identity, series, checked_run(run)))

    def _start(self, context: Context) -> None:
        self._context = context
        self._walk = self._sampler.walk(Keystream(self._key, context))
        self._due = self._walk.push
        self._once = self._walk.memory is None
        self._held: dict[int, Any] = {}
        self._arrived = 0
        self._ended = False

    @property
    def pending(self) -> int:
        """How many values wait for their slot, or may have one where values are lost or repeated."""
        return len(self._held)

    @property
    def run(self) -> str:
        """The run id: the same key, mechanism, series and run release the same again."""
        return self._context.run

    @property
    def key_kind(self) -> KeyKind:
        """Whether the key is "secure" or a "testing" one."""
        return self._key.kind

    def push(self, value: Any) -> list[Any]:
        """Take one value; return the values that are released now, in the order of their slots."""
        sources = self._due()  # once the series has ended, an error
        held, arrived = self._held, self._arrived
        held[arrived] = value
        self._arrived = arrived + 1
        if self._once and len(sources) == 1:  # the usual case, without a comprehension
            return [held.pop(sources[0])]
        return self._released(sources)

    def push_many(self, values: Iterable[Any]) -> list[Any]:
        """Take values one after the other; return all that are released meanwhile."""
        released: list[Any] = []
        for value in values:
            released += self.push(value)
        return released

    def flush(self) -> list[Any]:
        """End the series; return all that waited. Nothing can be pushed afterwards."""
        if self._ended:
            return []
        self._ended = True
        self._due = _refuse
        released = self._released(self._walk.finish())
        self._held.clear()
        return released

    def _released(self, sources: Iterable[int]) -> list[Any]:
        """Return the values of the given sources and forget those that cannot come again."""
        held, memory = self._held, self._walk.memory
        if memory is None:
            return [held.pop(source) for source in sources]
        released = [self._empty if source < 0 else held[source] for source in sources]
        held.pop(self._arrived - 1 - memory, None)
        return released

    def snapshot(self) -> bytes:
        """Return the whole state, sealed under the stream's key; it holds no key and shows no value.

        Raises:
            SnapshotError: A waiting value cannot be pickled.
        """
        context, state = self._context, self._walk.state()
        content = (context.series, context.run, self._arrived, self._ended, self._held, state)
        try:
            clear = pickle.dumps(content, protocol=5)
        except Exception as error:  # noqa: BLE001 - whatever a value's own __reduce__ raises
            hint = "push values that can be pickled, such as numbers, text, tuples and arrays"
            raise SnapshotError("a waiting value cannot be pickled", type(error).__name__, hint) from None
        header = self._header()
        return header + self._key.seal(PURPOSE, clear, header)

    def restore(self, snapshot: bytes) -> Self:
        """Go on where a snapshot of the same mechanism, under the same key, was made.

        Nothing changes unless the whole snapshot is sound. Values pushed after the snapshot was made must be
        pushed again, the same ones in the same order: other values would be released with a plan that an
        observer has already seen at work.

        Raises:
            SnapshotError: The snapshot is damaged, of another mechanism or version, or under another key.
        """
        content = _opened(snapshot, self._header(), self._key)
        series, run, arrived, ended, held, state = content
        self._start(Context(self._sampler.identity, series, run))
        self._walk.restore(state)
        self._arrived, self._ended, self._held = arrived, ended, held
        if ended:
            self._due = _refuse
        return self

    def __reduce__(self) -> NoReturn:
        # Two streams that go on from one state would release two inputs with one plan.
        hint = "keep stream.snapshot() instead; a stream that restores it goes on in place of this one"
        raise SecretError("a stream cannot be pickled or copied", hint=hint)

    def _header(self) -> bytes:
        return MAGIC + b"%d %s\n" % (VERSION, self._sampler.identity.encode())

    def __repr__(self) -> str:
        return f"<Stream: {self._sampler.identity}, {self.pending} pending, {self.key_kind} key>"


def _refuse() -> NoReturn:
    raise DataError("the series has ended", hint="start a new stream for the next series")


def _opened(snapshot: bytes, header: bytes, key: Key) -> tuple[Any, ...]:
    """Return the content of a sealed snapshot, or say what is wrong with it."""
    hint = "restore the one that was made last, with the mechanism and key that made it"
    if not isinstance(snapshot, bytes) or not snapshot.startswith(MAGIC):
        raise SnapshotError("this is not a snapshot of a stream", f"a {type(snapshot).__name__}", hint)
    found, newline, sealed = snapshot[len(MAGIC) :].partition(b"\n")
    version, _, identity = found.partition(b" ")
    if newline and version.isdigit() and int(version) != VERSION:
        raise SnapshotError(f"a snapshot must be of version {VERSION}", f"version {int(version)}", hint)
    if newline and not snapshot.startswith(header):
        got = identity.decode("utf-8", "replace")[:100]
        raise SnapshotError("the snapshot is of another mechanism or damaged", got, hint)
    try:
        clear = key.unseal(PURPOSE, sealed, header)
    except SecretError:
        raise SnapshotError("the snapshot is truncated, altered or under another key", hint=hint) from None
    content: tuple[Any, ...] = pickle.loads(clear)  # noqa: S301 - authenticated: made by a holder of the key
    return content
