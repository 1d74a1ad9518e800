"""The piecewise mechanism of Wang et al. (ICDE 2019), on a grid and exact."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError, positive_number
from whenmask.guarantee import ValueGuarantee, precise, round_up
from whenmask.keystream import Key, Series
from whenmask.mechanisms.calibration import EPSILON_HINT
from whenmask.mechanisms.switch import ONE
from whenmask.mechanisms.values.grid import STEPS, Grid, checked_grid, mean_of
from whenmask.mechanisms.values.perturbed import Perturbed, as_array, transmitted

# With thresholds of 64 bits and positions of 64 bits no probabilities are further apart than e^88.7.
LARGEST_EPSILON = 90.0


@dataclass(frozen=True, init=False)
class Piecewise:
    """Release a number near the true one with high probability, and any other number in a wider range else.

    The range is cut into M steps, so an input is one of i = 0 … M. There are M + W outputs j, W = M·e^{−ε/2}
    rounded: with probability h one of the W outputs i … i+W−1, else one of the M others, evenly. Output j stands
    for the number (upper+lower)/2 + (upper−lower)·(j − (M+W−1)/2)/(M·(h − (1−h)·W/M)), so the mean of what is
    released for step i is step i itself: unbiased on the grid, and the published law on [−C, C] as M grows.

    Written by hand: OpenDP (0.16) has no such mechanism. Values are rounded to the nearest step first, and nothing
    is a float again before the output is decided, so no last bits give an input away. h is a whole number over
    2^64; a place among m is the high half of m times a word, so each place has ⌊2^64/m⌋ or ⌈2^64/m⌉ words.

    Args:
        epsilon: The privacy budget, spent at each timestamp.
        lower: The smallest value there can be. Values outside are clipped and counted.
        upper: The largest value there can be.
        steps: M, by default 2^32: the error by rounding is at most 1.2e-10 of the range.

    Guarantee:
        (ε, 0) for the value at one timestamp, at most epsilon: e^ε is the largest ratio of the probabilities of an
        output under two inputs, h·⌈2^64/W⌉ / ((2^64−h)·⌊2^64/M⌋) with h in words (docs/guarantees.md, Theorem 19).

    Raises:
        ParameterError: A parameter is outside its range, or bounds are missing or reversed.

    Example:
        >>> from whenmask import Key
        >>> mechanism = Piecewise(2.0, lower=0, upper=100)
        >>> released = mechanism.perturb([20.5] * 10_000, key=Key.for_testing(7), run="example")
        >>> abs(mechanism.estimate_mean(released) - 20.5) < 2, released.clipped
        (True, 0)
    """

    grid: Grid
    width: int
    high: int

    words_per_value: ClassVar[int] = 2

    def __init__(
        self, epsilon: float, *, lower: float | None = None, upper: float | None = None, steps: int = STEPS
    ) -> None:
        epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
        grid = checked_grid(lower, upper, steps)
        width = max(1, round(grid.steps * math.exp(-epsilon / 2)))
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "high", _largest_high(min(epsilon, LARGEST_EPSILON), grid.steps, width))
        if self._pull <= 0 or self.guarantee.epsilon > epsilon:
            hint = f"at {grid.steps} steps, {(grid.steps + 1) / (ONE >> 2):.1g} works; fewer steps need less"
            raise ParameterError("`epsilon` is too small for any probabilities", f"epsilon={epsilon:g}", hint)

    @property
    def identity(self) -> str:
        """The mechanism's name and exact parameters."""
        return f"Piecewise({self.grid.parameters}, width={self.width}, high={self.high})"

    @property
    def guarantee(self) -> ValueGuarantee:
        """The logarithm of the largest ratio of probabilities of an output, rounded up."""
        steps, width, near, far = self.grid.steps, self.width, self.high, ONE - self.high
        largest = max(near * -(-ONE // width), far * -(-ONE // steps))
        smallest = min(near * (ONE // width), far * (ONE // steps))
        with precise():
            return ValueGuarantee(max(0.0, round_up((Decimal(largest) / smallest).ln())), 0.0, "proved")

    @property
    def granularity(self) -> float:
        """The difference between two neighbouring outputs; inputs are `(upper − lower)/steps` apart."""
        return self.grid.span / float(self.grid.steps * self._pull)

    @property
    def released_range(self) -> tuple[float, float]:
        """The smallest and the largest number that can be released."""
        low, high = self._numbers(np.array([0, self.grid.steps + self.width - 1]), np.empty(2))
        return float(low), float(high)

    @property
    def _pull(self) -> Fraction:
        """How far the mean output moves when the input moves by one step, in outputs."""
        far = Fraction(ONE - self.high, ONE)
        return 1 - far - far * self.width / self.grid.steps

    def perturb(
        self, values: Any, *, key: Key | None = None, series: Series = None, run: str | None = None
    ) -> Perturbed:
        """Return the values perturbed, in an array of the same shape; float32 stays so, all else becomes float64.

        Args:
            values: An array (or list) of numbers.
            key: The secret; a fresh one by default.
            series: What the series is called; each series of a run is perturbed in its own way.
            run: Only to repeat a run on the very same values; a fresh run id by default.

        Raises:
            DataError: The values are not real numbers, or NaN is among them.
        """
        array = as_array(values)
        codes, clipped = self.grid.codes(array)
        released, run, kind = transmitted(self, codes, key=key, series=series, run=run)
        return Perturbed(self._numbers(released, array), clipped, self.identity, series, run, kind)

    def transmit(self, codes: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return an output for each input: the first of two words chooses near or far, the second the place."""
        # Here, not above: only a batch is worth numba's 0.4 s.
        from whenmask.kernels import values as kernels

        high, width, steps = np.uint64(self.high), np.uint64(self.width), np.uint64(self.grid.steps)
        return kernels.piecewise(words, codes, high, width, steps)

    def estimate_mean(self, released: Any) -> float:
        """Return an unbiased estimate of the mean of the (clipped) values: the mean of what was released."""
        return mean_of(released)

    def _numbers(self, outputs: NDArray[np.int64], like: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers that the outputs stand for."""
        middle = (self.grid.steps + self.width - 1) / 2
        return self.grid.numbers(outputs - middle, self.granularity, like)


def _largest_high(epsilon: float, steps: int, width: int) -> int:
    """Return the largest h with h·⌈2^64/W⌉ ≤ e^ε·(2^64−h)·⌊2^64/M⌋, that is the best that epsilon allows."""
    with precise():
        far = Decimal(epsilon).exp() * (ONE // steps)
        return min(int(far * ONE / (-(-ONE // width) + far)), ONE - 1)
