"""A plan: which input value is released at each slot, drawn without looking at any value.

Releasing is `take`: the same plan serves numbers, text, rows of many columns and points on a map. Everything
about privacy and cost is a property of the law that plans are drawn from.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import whole_number
from whenmask.keystream import Context, Key, KeyKind, Keystream, Series, checked_key, checked_run
from whenmask.law import Costs
from whenmask.sampler import InPlace, Sampler
from whenmask.take import EMPTY, take

# Values drawn at a time: to start reading words costs as much as some thousands of them.
CHUNK = 1 << 17


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """One draw from the law of a mechanism.

    Attributes:
        source: For each slot the index of the value released there, −1 for an empty slot. Read-only.
        window: The window of the mechanism.
        mechanism: The mechanism's name and exact parameters.
        series: The series id that the plan was drawn for.
        run: The run id; the same key, mechanism, series and run give the same plan again.
        key_kind: "secure" or "testing".

    Example:
        >>> from whenmask import Key, RanSwitch
        >>> plan = RanSwitch.from_probabilities(q=0.2, window=3).plan(5, key=Key.for_testing(7), run="example")
        >>> sorted(plan.apply(["a", "b", "c", "d", "e"]))
        ['a', 'b', 'c', 'd', 'e']
    """

    source: NDArray[np.int64]
    window: int
    mechanism: str
    series: Series
    run: str
    key_kind: KeyKind

    def __post_init__(self) -> None:
        self.source.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy cannot be written to either.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def __len__(self) -> int:
        return self.source.size

    def __repr__(self) -> str:
        return f"<Plan: {self.source.size} slots, {self.mechanism}, {self.key_kind} key>"

    def apply(self, values: Any, empty: Any = EMPTY) -> Any:
        """Return the values as released, in a container of the same type.

        Args:
            values: A numpy array of any type and dimension (moved along axis 0), a list, an Arrow array or
                table, a pandas or Polars series or frame, as long as the plan.
            empty: What empty slots hold; by default NaN, NaT, None or null, as suits the type.

        Raises:
            DataError: The lengths differ, or the type is unknown or cannot hold an empty value.
        """
        return take(values, self.source, empty)

    def costs(self) -> Costs:
        """Count displacement, missing, repeated and empty values exactly."""
        filled = np.flatnonzero(self.source >= 0)
        sources = self.source[filled]
        released = np.zeros(len(self), dtype=bool)
        released[sources] = True
        distinct = int(np.count_nonzero(released))
        return Costs(
            displacement=int(np.abs(filled - sources).sum()),
            missing=len(self) - distinct,
            repeated=sources.size - distinct,
            empty=len(self) - sources.size,
            slots=len(self),
            window=self.window,
        )


def draw_plan(
    sampler: Sampler, n: int, *, key: Key | None = None, series: Series = None, run: str | None = None
) -> Plan:
    """Draw a plan for a series of `n` values from the law of a mechanism."""
    n = whole_number("n", n, least=0, hint="it is the length of the series")
    key = checked_key(key)
    context = Context(sampler.identity, series, checked_run(run))
    draw = sampler.draw(Keystream(key, context))
    in_place = draw if isinstance(draw, InPlace) else None
    source = np.empty(n, dtype=np.int64)
    filled = 0
    for start in range(0, n, CHUNK):
        count = min(CHUNK, n - start)
        if in_place:
            filled += in_place.push_into(count, source[filled:]).size
        else:
            piece = draw.push(count)
            source[filled : filled + piece.size] = piece
            filled += piece.size
    source[filled:] = draw.finish()
    return Plan(source, sampler.window, sampler.identity, series, context.run, key.kind)
