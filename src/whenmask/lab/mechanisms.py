"""The mechanisms that are compared, made for an epsilon, and how a series is released by each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whenmask.description import mechanism_named
from whenmask.lab.chance import KEY, laplaces
from whenmask.lab.metrics import carried_forward
from whenmask.lab.results import Setting
from whenmask.mechanisms import Temporal
from whenmask.mechanisms.values import Laplace, Piecewise, RandomizedResponse
from whenmask.plan import Plan

# The paper's names where they differ from the package's.
LABELS = {
    "Threshold": "TM/ETM",
    "Threshold carried": "TM/ETM, carried forward",
    "Piecewise": "PM",
    "Backward": "BPM",
    "Forward": "FPM",
    "RandomizedResponse": "RR, corrected",
    "RandomizedResponse raw": "RR, raw",
}
# TM/ETM leaves slots empty: as 0, as the paper must have had them, or as a practitioner would fill them.
CARRIED = "Threshold carried"
VALUE_MECHANISMS = ("Piecewise", "Laplace", "RandomizedResponse", "RandomizedResponse raw")
ALL_TEMPORAL = ("StaSwitch", "RanSwitch", "Threshold", "PureSwitch", "Backward", "Forward")
# The paper's budget of its claim; PureSwitch has no claim, so its epsilon is always that of its guarantee.
CLAIM, GUARANTEE, VALUE = "claim", "guarantee", "value"


def label(name: str) -> str:
    """Return the name that the paper uses."""
    return LABELS.get(name, name)


@dataclass(frozen=True)
class Draw:
    """Which draw it is: what for, the repeat, and the series."""

    purpose: str
    repeat: int
    series: int = 0

    @property
    def run(self) -> str:
        """The run id: the same for a re-run, and no other's."""
        return f"lab {self.purpose} {self.repeat}"


@dataclass(frozen=True)
class Contender:
    """A mechanism in a comparison.

    Attributes:
        name: The name of its class, or of a way to use it.
        epsilon: What it has to promise.
        window: The window; value mechanisms have none, and are the same at any.
        basis: Whether epsilon bounds the paper's "claim", or the "guarantee" between series with two timestamps
            exchanged. PureSwitch has only a guarantee, value mechanisms one for each value.
    """

    name: str
    epsilon: float
    window: int
    basis: str = CLAIM

    @property
    def changes_values(self) -> bool:
        """Whether it changes values instead of timestamps."""
        return self.name in VALUE_MECHANISMS

    @property
    def promised(self) -> str:
        """What epsilon bounds in the end."""
        if self.basis == GUARANTEE or self.name == "PureSwitch":
            return GUARANTEE
        return VALUE if self.changes_values else self.basis

    @property
    def budget(self) -> float:
        """What there is to spend on each value: half where an exchange, which changes two, must cost epsilon."""
        return self.epsilon / 2 if self.basis == GUARANTEE else self.epsilon

    @property
    def mechanism(self) -> Temporal:
        """The temporal mechanism."""
        return _temporal(self)

    def setting(self, experiment: str, metric: str, variant: str = "") -> Setting:
        """Return what a measurement of it is of."""
        return Setting(experiment, self.name, self.promised, self.window, self.epsilon, metric, variant)

    def plan(self, count: int, draw: Draw) -> Plan:
        """Return the plan of a draw."""
        return self.mechanism.plan(count, key=KEY, series=draw.series, run=draw.run)

    def release(self, values: NDArray[Any], draw: Draw, bounds: tuple[float, float] | None = None) -> NDArray[Any]:
        """Return a series as it releases it; without bounds they are its smallest and largest number."""
        if self.changes_values:
            low, high = bounds or (float(values.min()), float(values.max()))
            return self._perturbed(values.astype(np.float64), low, high, draw)
        plan = self.plan(len(values), draw)
        kept: NDArray[Any] = (
            values[carried_forward(plan.source)]
            if self.name == CARRIED
            else plan.apply(values, empty=values.dtype.type(0))
        )
        return kept

    def _perturbed(self, values: NDArray[np.float64], low: float, high: float, draw: Draw) -> NDArray[np.float64]:
        """Return numbers perturbed one by one.

        Laplace noise has the scale of `Laplace`, but is drawn from the lab's keystream: OpenDP, which draws it
        for releases, cannot draw the same twice.
        """
        if self.name == "Piecewise":
            piecewise = Piecewise(self.budget, lower=low, upper=high)
            moved: NDArray[np.float64] = piecewise.perturb(
                values, key=KEY, series=draw.series, run=draw.run
            ).values
            return moved
        noise = Laplace(self.budget, lower=low, upper=high)
        drawn = laplaces(f"{noise.identity} {draw.run}", values.size, noise.scale, series=draw.series)
        return np.clip(values, low, high) + drawn.reshape(values.shape)

    def answer(self, bits: NDArray[np.bool_], draw: Draw) -> tuple[NDArray[np.bool_], float]:
        """Return bits by randomised response, and the probability that each was kept."""
        response = RandomizedResponse(self.budget)
        answers: NDArray[np.bool_] = response.perturb(bits, key=KEY, series=draw.series, run=draw.run).values
        return answers, response.keep / 2**64


def draws(
    names: Sequence[str], epsilon: float, window: int, purpose: str, repeats: int
) -> Iterator[tuple[Contender, Draw]]:
    """Yield each mechanism with each of its draws."""
    for name in names:
        for repeat in range(repeats):
            yield Contender(name, epsilon, window), Draw(purpose, repeat)


@lru_cache(maxsize=512)
def _temporal(contender: Contender) -> Temporal:
    name = contender.name.removesuffix(" carried")
    calibrate = None if name == "PureSwitch" else contender.basis
    return mechanism_named(name, contender.epsilon, contender.window, calibrate=calibrate)
