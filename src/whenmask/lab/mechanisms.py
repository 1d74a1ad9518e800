"""The mechanisms that are compared, made for an epsilon, and how a series is released by each."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whenmask.description import mechanism_named
from whenmask.errors import ParameterError
from whenmask.lab.chance import KEY, laplaces
from whenmask.lab.metrics import carried_forward
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
SWITCHES = ("StaSwitch", "RanSwitch", "Threshold", "PureSwitch")
ALL_TEMPORAL = (*SWITCHES, "Backward", "Forward")
# The paper's budget of its claim; PureSwitch has no claim, so its epsilon is always that of its guarantee.
CLAIM, GUARANTEE, VALUE = "claim", "guarantee", "value"


def label(name: str) -> str:
    """Return the name that the paper uses."""
    return LABELS.get(name, name)


@dataclass(frozen=True)
class Draw:
    """Which draw of an experiment: its name and the repeat."""

    purpose: str
    repeat: int

    @property
    def run(self) -> str:
        """The run id: the same for a re-run, and no other's."""
        return f"lab {self.purpose} {self.repeat}"


@lru_cache(maxsize=512)
def temporal(name: str, epsilon: float, window: int, basis: str = CLAIM) -> Temporal:
    """Return a temporal mechanism whose claim (or guarantee, where that is wanted or there is no claim) is epsilon."""
    calibrate = None if name == "PureSwitch" else basis
    return mechanism_named(name.removesuffix(" carried"), epsilon, window, calibrate=calibrate)


def basis_of(name: str, basis: str = CLAIM) -> str:
    """Return what epsilon bounds for a mechanism."""
    if name in VALUE_MECHANISMS:
        return VALUE
    return GUARANTEE if name == "PureSwitch" else basis


def plan_of(mechanism: Temporal, count: int, draw: Draw, *, series: int = 0) -> Plan:
    """Return the plan of a draw."""
    return mechanism.plan(count, key=KEY, series=series, run=draw.run)


def released(plan: Plan, values: NDArray[Any], *, carry: bool) -> NDArray[Any]:
    """Return the values as released, with empty slots as 0 or taking the value before them."""
    if carry:
        kept: NDArray[Any] = values[carried_forward(plan.source)]
        return kept
    zeroed: NDArray[Any] = plan.apply(values, empty=values.dtype.type(0))
    return zeroed


def perturbed(
    name: str,
    epsilon: float,
    values: NDArray[np.float64],
    bounds: tuple[float, float],
    draw: Draw,
    *,
    series: int = 0,
) -> NDArray[np.float64]:
    """Return numbers perturbed with a budget for each.

    Laplace noise has the scale of `Laplace`, but is drawn from the lab's keystream: OpenDP, which draws it
    for releases, cannot draw the same twice.
    """
    if name == "Piecewise":
        piecewise = Piecewise(epsilon, lower=bounds[0], upper=bounds[1])
        moved: NDArray[np.float64] = piecewise.perturb(values, key=KEY, series=series, run=draw.run).values
        return moved
    if name == "Laplace":
        noise = Laplace(epsilon, lower=bounds[0], upper=bounds[1])
        purpose = f"{noise.identity} {draw.run}"
        drawn = laplaces(purpose, values.size, noise.scale, series=series).reshape(values.shape)
        return np.clip(values, *bounds) + drawn
    raise ParameterError("there is no such mechanism for numbers", name, "choose Piecewise or Laplace")


def released_by(
    name: str,
    epsilon: float,
    window: int,
    values: NDArray[Any],
    draw: Draw,
    *,
    basis: str = CLAIM,
    series: int = 0,
) -> NDArray[Any]:
    """Return a series of numbers as a mechanism of any kind releases it; bounds are the smallest and largest."""
    if name in VALUE_MECHANISMS:
        bounds = float(values.min()), float(values.max())
        return perturbed(name, epsilon, values.astype(np.float64), bounds, draw, series=series)
    plan = plan_of(temporal(name, epsilon, window, basis), len(values), draw, series=series)
    return released(plan, values, carry=name == CARRIED)


def answered(epsilon: float, bits: NDArray[np.bool_], draw: Draw) -> tuple[NDArray[np.bool_], float]:
    """Return bits by randomised response, and the probability that each was kept."""
    response = RandomizedResponse(epsilon)
    answers: NDArray[np.bool_] = response.perturb(bits, key=KEY, series=0, run=draw.run).values
    return answers, response.keep / 2**64
