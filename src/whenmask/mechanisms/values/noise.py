"""Laplace and Gaussian noise, from OpenDP.

OpenDP (0.16) samples discrete noise exactly, with whole numbers only, and its privacy map is proved and rounded
up. Both are used as they are, on the steps of a grid (`grid.py`) as 64-bit whole numbers. Its randomness comes
from the operating system and cannot be addressed by a key, so a second call is a second draw: `key` and `run` are
refused rather than ignored.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from whenmask.errors import DependencyError, ParameterError, positive_number
from whenmask.guarantee import ValueGuarantee
from whenmask.keystream import Key, Series
from whenmask.mechanisms.calibration import EPSILON_HINT, smallest
from whenmask.mechanisms.values.grid import STEPS, Grid, checked_grid, mean_of
from whenmask.mechanisms.values.perturbed import Perturbed, as_array

if TYPE_CHECKING:
    from opendp.mod import Measurement

# In steps: noise beyond 64-bit numbers, where OpenDP would cut it off, has then a probability below e^-60.
LARGEST_SCALE = 1 << 57
DELTA_HINT = "it is the probability with which the guarantee may fail: above 0 and below 1, such as 1e-9"


@dataclass(frozen=True)
class Noise(ABC):
    """A mechanism that adds noise drawn by OpenDP.

    Attributes:
        grid: The range of the values and its steps.
        scale_in_steps: The scale of the noise, the smallest whole number of steps that gives the guarantee.
    """

    grid: Grid
    scale_in_steps: int

    @property
    def scale(self) -> float:
        """The scale of the noise, in the unit of the values."""
        return self.scale_in_steps * self.granularity

    @property
    def granularity(self) -> float:
        """The difference between two neighbouring inputs, or outputs."""
        return self.grid.span / self.grid.steps

    @property
    def identity(self) -> str:
        """The mechanism's name and exact parameters."""
        return f"{type(self).__name__}({self.grid.parameters}, scale={self.scale_in_steps})"

    @property
    @abstractmethod
    def guarantee(self) -> ValueGuarantee:
        """What OpenDP's privacy map says of values that differ by the whole range, at one timestamp."""

    @abstractmethod
    def measurement(self) -> "Measurement":
        """Return OpenDP's measurement, from lists of steps to lists of steps."""

    def perturb(
        self, values: Any, *, key: Key | None = None, series: Series = None, run: str | None = None
    ) -> Perturbed:
        """Return the values perturbed, in an array of the same shape; float32 stays so, all else becomes float64.

        Every call draws anew. Perturb a series once and keep what comes out: two draws on the same values cost
        twice the epsilon.

        Args:
            values: An array (or list) of numbers.
            key: Must be left out: OpenDP draws from the operating system.
            series: What the series is called; kept with the result.
            run: Must be left out.

        Raises:
            DataError: The values are not real numbers, or NaN is among them.
            ParameterError: A key or a run was given.
        """
        for name, given in (("key", key), ("run", run)):
            if given is not None:
                hint = "leave it out, and keep what comes out; Piecewise and RandomizedResponse can repeat a draw"
                raise ParameterError(f"`{name}` cannot repeat what OpenDP draws", f"a {name}", hint)
        array = as_array(values)
        codes, clipped = self.grid.codes(array)
        noisy = np.array(self.measurement()(codes), dtype=np.float64)
        released = self.grid.numbers(noisy - self.grid.steps / 2, self.granularity, array)
        return Perturbed(released, clipped, self.identity, series, None, "secure")

    def estimate_mean(self, released: Any) -> float:
        """Return an unbiased estimate of the mean of the (clipped) values: the mean of what was released."""
        return mean_of(released)


@dataclass(frozen=True, init=False)
class Laplace(Noise):
    """Add Laplace noise of scale (upper − lower)/epsilon, by OpenDP's `make_laplace`.

    Values become whole steps, 2^32 of them between the bounds; the noise z, in steps, has probability
    proportional to exp(−|z|/scale).

    Args:
        epsilon: The privacy budget, spent at each timestamp.
        lower: The smallest value there can be. Values outside are clipped and counted.
        upper: The largest value there can be.

    Guarantee:
        (epsilon, 0) for the value at one timestamp, by OpenDP's privacy map.

    Raises:
        ParameterError: A parameter is outside its range, or bounds are missing or reversed.
        DependencyError: OpenDP is not installed.

    Example:
        >>> Laplace(0.5, lower=0, upper=10).scale
        20.0
    """

    def __init__(self, epsilon: float, *, lower: float | None = None, upper: float | None = None) -> None:
        epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
        grid = checked_grid(lower, upper, STEPS)
        super().__init__(grid, _smallest_scale(epsilon, None))

    @property
    def guarantee(self) -> ValueGuarantee:
        """What OpenDP's privacy map says of values that differ by the whole range, at one timestamp."""
        epsilon = self.measurement().map(STEPS)  # type: ignore[no-untyped-call]
        return ValueGuarantee(epsilon, 0.0, "proved")

    def measurement(self) -> "Measurement":
        """Return OpenDP's measurement, from lists of steps to lists of steps."""
        return _laplace(self.scale_in_steps)


@dataclass(frozen=True, init=False)
class Gaussian(Noise):
    """Add Gaussian noise, by OpenDP's `make_gaussian`.

    Values become whole steps, 2^32 of them between the bounds; the noise z, in steps, has probability
    proportional to exp(−z²/(2·scale²)). The scale is the smallest whole number of steps for which OpenDP's
    privacy map, by way of zero-concentrated privacy, stays within epsilon and delta.

    Args:
        epsilon: The privacy budget, spent at each timestamp.
        delta: The probability with which the guarantee may fail, at each timestamp.
        lower: The smallest value there can be. Values outside are clipped and counted.
        upper: The largest value there can be.

    Guarantee:
        (epsilon, delta) for the value at one timestamp, by OpenDP's privacy map.

    Raises:
        ParameterError: A parameter is outside its range, or bounds are missing or reversed.
        DependencyError: OpenDP is not installed.

    Example:
        >>> round(Gaussian(0.5, 1e-9, lower=0, upper=10).scale, 1)
        112.5
    """

    delta: float

    def __init__(
        self, epsilon: float, delta: float, *, lower: float | None = None, upper: float | None = None
    ) -> None:
        epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
        delta = positive_number("delta", delta, hint=DELTA_HINT)
        if delta >= 1:
            raise ParameterError("`delta` must be below 1", f"delta={delta:g}", DELTA_HINT)
        grid = checked_grid(lower, upper, STEPS)
        super().__init__(grid, _smallest_scale(epsilon, delta))
        object.__setattr__(self, "delta", delta)

    @property
    def guarantee(self) -> ValueGuarantee:
        """What OpenDP's privacy map says of values that differ by the whole range, at one timestamp."""
        fixed = _with_delta(self.measurement(), self.delta)
        epsilon, delta = fixed.map(float(STEPS))  # type: ignore[no-untyped-call]
        return ValueGuarantee(epsilon, delta, "proved")

    def measurement(self) -> "Measurement":
        """Return OpenDP's measurement, from lists of steps to lists of steps."""
        return _gaussian(self.scale_in_steps)


def _opendp() -> Any:
    """Return OpenDP, ready to use."""
    try:
        import opendp.prelude as dp
    except ImportError:
        hint = "run pip install 'whenmask[values]'"
        raise DependencyError(
            "Laplace and Gaussian noise need OpenDP, which is not installed", hint=hint
        ) from None
    # Both measurements stand behind this switch, which is OpenDP's and global.
    dp.enable_features("contrib")
    return dp


def _laplace(scale: int) -> "Measurement":
    dp = _opendp()
    steps = dp.vector_domain(dp.atom_domain(T=dp.i64))
    measurement: Measurement = dp.m.make_laplace(steps, dp.l1_distance(T=dp.i64), scale=float(scale))
    return measurement


def _gaussian(scale: int) -> "Measurement":
    dp = _opendp()
    steps = dp.vector_domain(dp.atom_domain(T=dp.i64))
    measurement: Measurement = dp.m.make_gaussian(steps, dp.l2_distance(T=dp.f64), scale=float(scale))
    return measurement


def _with_delta(measurement: "Measurement", delta: float) -> "Measurement":
    """Return a measurement whose map gives the epsilon that holds with this delta."""
    dp = _opendp()
    fixed: Measurement = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(measurement), delta)
    return fixed


@lru_cache(maxsize=256)
def _smallest_scale(epsilon: float, delta: float | None) -> int:
    """Return the smallest scale, in whole steps, for which OpenDP's map stays within the budget."""
    dp = _opendp()

    def fits(scale: int) -> bool:
        try:
            if delta is None:
                return _laplace(scale).check(STEPS, epsilon)
            return _with_delta(_gaussian(scale), delta).check(float(STEPS), (epsilon, delta))
        except dp.OpenDPException:  # a scale so small that epsilon is not even a float
            return False

    if not fits(LARGEST_SCALE):
        least = STEPS / LARGEST_SCALE
        hint = f"at such a scale noise would not fit 64 bits; {2 * least:.1g} works with Laplace"
        raise ParameterError("`epsilon` is too small for 64-bit noise", f"epsilon={epsilon:g}", hint)
    return smallest(1, LARGEST_SCALE, fits)
