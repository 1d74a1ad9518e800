"""What `perturb` returns, and the one loop that sends values through a noisy channel.

A mechanism that we draw ourselves maps values to whole numbers, the whole numbers through its channel, and the
result back. The value at position t of the flattened array reads its own fixed range of keystream words, so a
retry with the same key, series and run gives the same output, in whatever chunks it is drawn.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import DataError
from whenmask.keystream import Context, Key, KeyKind, Keystream, Series, checked_key, checked_run

# Values drawn at a time: the words and whole numbers of a chunk stay in the second-level cache.
CHUNK = 1 << 14
ARRAY_HINT = "give an array or a list of numbers or categories, without missing values"


@dataclass(frozen=True, eq=False, repr=False)
class Perturbed:
    """One series with perturbed values.

    Attributes:
        values: What may be released.
        clipped: How many values lay outside the bounds and were moved to the nearer one. For you, not for
            release: it is counted on the original values.
        mechanism: The mechanism's name and exact parameters.
        series: The series id.
        run: The run id; the same key, mechanism, series and run perturb the same values in the same way again.
            None where OpenDP drew, from the operating system: that cannot be repeated.
        key_kind: "secure" or "testing".

    Example:
        >>> from whenmask import Key
        >>> from whenmask.mechanisms.values import Piecewise
        >>> Piecewise(1.0, lower=0, upper=10).perturb([1.5, 2.5, 11], key=Key.for_testing(7))
        <Perturbed: 3 values, Piecewise, testing key>
    """

    values: NDArray[Any]
    clipped: int
    mechanism: str
    series: Series
    run: str | None
    key_kind: KeyKind

    def __repr__(self) -> str:
        # Neither the values nor the number clipped: a repr ends up in logs.
        name = self.mechanism.partition("(")[0]
        return f"<Perturbed: {self.values.size} values, {name}, {self.key_kind} key>"


class Channel(Protocol):
    """A law from whole numbers to whole numbers, drawn with a fixed number of words for each."""

    @property
    def identity(self) -> str:
        """The mechanism's name and exact parameters."""
        ...

    @property
    def words_per_value(self) -> int:
        """How many keystream words one value takes."""
        ...

    def transmit(self, codes: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return what comes out for each code, from `words_per_value` words each."""
        ...


def transmitted(
    channel: Channel, codes: NDArray[np.int64], *, key: Key | None, series: Series, run: str | None
) -> tuple[NDArray[np.int64], str, KeyKind]:
    """Send the codes through the channel; return what comes out, the run id and the kind of key."""
    key = checked_key(key)
    context = Context(channel.identity, series, checked_run(run))
    stream = Keystream(key, context)
    width = channel.words_per_value
    out = np.empty_like(codes)
    for start in range(0, codes.size, CHUNK):
        piece = codes[start : start + CHUNK]
        words = stream.words(start * width, piece.size * width)
        out[start : start + CHUNK] = channel.transmit(piece, words)
    return out, context.run, key.kind


def as_array(values: Any) -> NDArray[Any]:
    """Return the values, or those of a `Perturbed`, as an array."""
    if isinstance(values, Perturbed):
        return values.values
    if isinstance(values, np.ma.MaskedArray):
        raise DataError("the values must not be masked", "a masked array", ARRAY_HINT)
    try:
        return np.asarray(values)
    except ValueError:  # numpy's word for rows of different lengths
        raise DataError("the values do not form an array", f"a {type(values).__name__}", ARRAY_HINT) from None
