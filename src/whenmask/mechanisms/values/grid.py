"""The grid that numbers are put on before they are perturbed.

Noise added to floats gives the floats away: which outputs are possible at all depends on the input's last bits
(Mironov, "On significance of the least significant bits for differential privacy", CCS 2012). So a number first
becomes a whole number of steps between declared bounds, by rounding; the law works on whole numbers, where each
output is possible for each input; and only what comes out becomes a float again, by one formula that knows no
input. Rounding moves a value by at most half a step: with the default 2^32 steps, by 1.2e-10 of the range.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import DataError, ParameterError, whole_number
from whenmask.mechanisms.values.perturbed import as_array

STEPS = 1 << 32
# Noise is at most some 2^31 ranges, which must still be a float …
LARGEST_BOUND = 1e290
# … and a 32-bit one where the values are.
LARGEST_SINGLE = 1e28
BOUNDS_HINT = "say from common knowledge where values can lie; bounds taken from the data would give some away"
NUMBERS_HINT = "give an array of whole numbers or floats; bits and categories go to RandomizedResponse"


@dataclass(frozen=True)
class Grid:
    """A range of numbers cut into equal steps.

    Attributes:
        lower: The smallest number.
        upper: The largest.
        steps: The number of steps between them.
    """

    lower: float
    upper: float
    steps: int

    @property
    def span(self) -> float:
        """The width of the range."""
        return self.upper - self.lower

    @property
    def parameters(self) -> str:
        """The grid's part of a mechanism's identity."""
        return f"lower={self.lower!r}, upper={self.upper!r}, steps={self.steps}"

    def codes(self, values: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
        """Return the nearest step for each value, flattened, and how many values were clipped to the range."""
        if values.dtype.kind not in "iuf":
            raise DataError("the values must be real numbers", f"dtype {values.dtype}", NUMBERS_HINT)
        numbers = values.ravel().astype(np.float64, copy=False)
        if np.isnan(numbers).any():
            hint = "drop or fill them first: that a value is missing would show, whatever the noise"
            raise DataError("the values must not be NaN", hint=hint)
        inside = numbers.clip(self.lower, self.upper)
        clipped = int(np.count_nonzero(inside != numbers))
        inside = (inside - self.lower) / self.span
        return np.rint(inside * self.steps).astype(np.int64), clipped

    def numbers(self, centred: NDArray[np.floating], unit: float, like: NDArray[Any]) -> NDArray[Any]:
        """Return numbers `centred` · `unit` off the middle of the range, in the shape and float type of `like`."""
        numbers = (self.lower + self.span / 2) + centred * unit
        single = like.dtype == np.float32 and max(abs(self.lower), abs(self.upper)) <= LARGEST_SINGLE
        return numbers.astype(np.float32 if single else np.float64, copy=False).reshape(like.shape)


def checked_grid(lower: float | None, upper: float | None, steps: int) -> Grid:
    """Return the grid, or say what is wrong with its bounds."""
    steps = whole_number("steps", steps, least=1, hint="it is the number of steps the range is cut into")
    if steps > STEPS:
        hint = "more steps than 2^32 would not fit the words they are drawn from"
        raise ParameterError("`steps` must be at most 2^32", f"steps={steps}", hint)
    low, high = _checked_bound("lower", lower), _checked_bound("upper", upper)
    if low >= high:
        raise ParameterError("`lower` must be below `upper`", f"lower={low:g}, upper={high:g}", BOUNDS_HINT)
    return Grid(low, high, steps)


def _checked_bound(name: str, value: object) -> float:
    """Return a bound as a float, or say what is wrong with it."""
    if value is None:
        raise ParameterError(f"`{name}` is needed", "none", BOUNDS_HINT)
    if isinstance(value, bool | str | bytes):
        raise ParameterError(f"`{name}` must be a number", f"{name} of type {type(value).__name__}", BOUNDS_HINT)
    try:
        bound = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        kind = type(value).__name__
        raise ParameterError(f"`{name}` must be a number", f"{name} of type {kind}", BOUNDS_HINT) from None
    if not math.isfinite(bound) or abs(bound) > LARGEST_BOUND:
        raise ParameterError(f"`{name}` must lie within ±{LARGEST_BOUND:g}", f"{name}={bound:g}", BOUNDS_HINT)
    return bound


def mean_of(released: Any) -> float:
    """Return the mean of released numbers: unbiased where each of them is."""
    numbers = as_array(released)
    if numbers.dtype.kind not in "iuf":
        raise DataError("the released values must be real numbers", f"dtype {numbers.dtype}", NUMBERS_HINT)
    if not numbers.size:
        raise DataError("there is no mean of no values", "an empty array", "give at least one released value")
    return float(numbers.mean(dtype=np.float64))
