"""The law of a mechanism as numbers: how far a value is displaced, how often, and what that costs.

A `Law` holds the marginal allocation probabilities P_d away from the ends of a series. `UnitCosts` says what a
step of displacement, a missing, a repeated and an empty value are worth; `Costs` counts them in one plan.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError, positive_number, whole_number

WINDOW_HINT = "it counts the timestamps that may trade places"


@dataclass(frozen=True)
class UnitCosts:
    """What each kind of damage costs; the defaults are those of the paper's experiments.

    Attributes:
        displacement: For each slot between a value's own timestamp and the one it is released at.
        missing: For each value that is never released; None means as much as the window.
        repeated: For each further time that a value is released; None means as much as the window.
        empty: For each slot without a value; None means as much as the window.
    """

    displacement: float = 1.0
    missing: float | None = None
    repeated: float | None = None
    empty: float | None = None

    def __post_init__(self) -> None:
        for name in ("displacement", "missing", "repeated", "empty"):
            value = getattr(self, name)
            if value is not None or name == "displacement":
                positive_number(name, value, hint="a unit cost is a finite number, zero or more", zero=True)

    def weigh(self, window: int, displacement: float, missing: float, repeated: float, empty: float) -> float:
        """Return the weighted sum of four amounts of damage."""
        lost = window if self.missing is None else self.missing
        again = window if self.repeated is None else self.repeated
        blank = window if self.empty is None else self.empty
        return self.displacement * displacement + lost * missing + again * repeated + blank * empty


@dataclass(frozen=True)
class Costs:
    """What one plan did to a series, counted exactly.

    Attributes:
        displacement: Slots between timestamp and release, added up over all released values.
        missing: Values that are never released.
        repeated: Releases of a value beyond its first.
        empty: Slots without a value.
        slots: The length of the series.
        window: The window of the mechanism that drew the plan.
    """

    displacement: int
    missing: int
    repeated: int
    empty: int
    slots: int
    window: int

    def total(self, units: UnitCosts | None = None) -> float:
        """Return the weighted sum D·displacement + M·missing + N·repeated + E·empty."""
        units = units or UnitCosts()
        return units.weigh(self.window, self.displacement, self.missing, self.repeated, self.empty)

    def per_slot(self, units: UnitCosts | None = None) -> float:
        """Return the total divided by the length of the series; 0 for an empty one."""
        return self.total(units) / self.slots if self.slots else 0.0


@dataclass(frozen=True)
class Latency:
    """How many further values arrive between a slot's own value and the slot's release, away from the ends.

    Attributes:
        mean: On average.
        p99: In 99 of 100 slots, at most.
        most: At most; None where there is no bound.
    """

    mean: float
    p99: int
    most: int | None

    @classmethod
    def fixed(cls, slots: int) -> "Latency":
        """Return a latency that is always the same."""
        return cls(slots, slots, slots)


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """The probabilities P_d with which a value is released d slots after its own timestamp.

    Attributes:
        displacements: The displacements d, in increasing order.
        probabilities: P_d for each of them, away from the ends of a series.
        window: The window of the mechanism.
        basis: How the numbers were got: "exact", or what they approximate.
        rest: The mass of the displacements that were cut off, less than 1e-12.
        missing: The probability that a value is never released.
        repeated: The expected number of releases of a value beyond its first.
        empty: The probability that a slot has no value.
    """

    displacements: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    window: int
    basis: str = "exact"
    rest: float = 0.0
    missing: float = 0.0
    repeated: float = 0.0
    empty: float = 0.0

    def __post_init__(self) -> None:
        self.displacements.flags.writeable = False
        self.probabilities.flags.writeable = False

    def __repr__(self) -> str:
        first, last = self.displacements[0], self.displacements[-1]
        lost = "".join(
            f", {getattr(self, name):.4g} {name}"
            for name in ("missing", "repeated", "empty")
            if getattr(self, name)
        )
        distance = f"mean distance {self.mean_distance:.4g}"
        return f"<Law: window {self.window}, displacements {first} … {last}, {distance}{lost}, {self.basis}>"

    def probability(self, displacement: int) -> float:
        """Return P_d for one displacement, 0 outside the support."""
        found = self.probabilities[self.displacements == displacement]
        return float(found[0]) if found.size else 0.0

    @property
    def mean_displacement(self) -> float:
        """The mean of d: 0 for mechanisms that move values both ways."""
        return float(self.displacements @ self.probabilities)

    @property
    def mean_distance(self) -> float:
        """The mean distance between timestamp and release: what displacement costs per value, at one per slot."""
        return float(np.abs(self.displacements) @ self.probabilities)

    def expected_cost(self, units: UnitCosts | None = None) -> float:
        """Return the expected cost per timestamp."""
        units = units or UnitCosts()
        return units.weigh(self.window, self.mean_distance, self.missing, self.repeated, self.empty)


def two_sided(probabilities: NDArray[np.float64], window: int, basis: str) -> Law:
    """Return the law on the displacements 1−window … window−1 with the given probabilities."""
    return Law(np.arange(1 - window, window), probabilities, window, basis)


def ideal_law(p0: float, window: int) -> Law:
    """Return the paper's ideal: P_0 given, the rest spread evenly over the other displacements in the window.

    No mechanism has this law; it shows how close one could come.

    Example:
        >>> round(ideal_law(0.24, 10).expected_cost(), 2)
        3.8
    """
    window = whole_number("window", window, least=2, hint=WINDOW_HINT)
    p0 = positive_number("p0", p0, hint="it is the probability that a value stays", zero=True)
    if p0 > 1:
        raise ParameterError("`p0` must be at most 1", f"p0={p0:g}", "it is the probability that a value stays")
    probabilities = np.full(2 * window - 1, (1 - p0) / (2 * window - 2))
    probabilities[window - 1] = p0
    return two_sided(probabilities, window, "ideal, reached by no mechanism")
