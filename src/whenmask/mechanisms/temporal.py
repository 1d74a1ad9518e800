"""What all temporal mechanisms have in common: plan, stream, release and expected cost, made of two samplers."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from whenmask.audit import measured_guarantee
from whenmask.guarantee import Claim, Guarantee
from whenmask.keystream import Key, Keystream, Series
from whenmask.law import Latency, Law, UnitCosts
from whenmask.plan import Plan, draw_plan
from whenmask.sampler import Draw, Walk
from whenmask.stream import Stream
from whenmask.take import EMPTY


class Temporal(ABC):
    """A mechanism that permutes timestamps and never looks at values.

    A new mechanism is a frozen dataclass that says what it is (`window`, `identity`), how it draws (`draw`,
    `walk`), what its law and published claim are, and what an audit needs (`prefixes`, `log_probabilities`); the
    rest is here.
    """

    # A frozen dataclass field or a property in each mechanism.
    window: int

    # Whether `calibrate="guarantee"` is possible; where it is not, epsilon calibrates the paper's claim.
    provable: ClassVar[bool] = True

    @property
    @abstractmethod
    def identity(self) -> str:
        """The mechanism's name and exact parameters: different for different laws."""

    @abstractmethod
    def draw(self, words: Keystream) -> Draw:
        """Start a release for many values at a time (compiled)."""

    @abstractmethod
    def walk(self, words: Keystream) -> Walk:
        """Start a release for one value at a time (plain Python)."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The probabilities and other parameters in use, by name."""

    @property
    @abstractmethod
    def latency(self) -> Latency:
        """How many further values come before a slot is released."""

    @abstractmethod
    def law(self) -> Law:
        """Return how far values are displaced, and how often."""

    @property
    @abstractmethod
    def claim(self) -> Claim:
        """What the mechanism's paper says of it. Not a guarantee."""

    @abstractmethod
    def prefixes(self, trials: int, steps: int, *, key: Key) -> NDArray[np.int64]:
        """Return the first slots of independent plans, a row each, for an audit (see `audit.Auditable`)."""

    @abstractmethod
    def log_probabilities(self, prefixes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-probability of each such row, −∞ where it cannot be drawn."""

    @property
    def guarantee(self) -> Guarantee:
        """What holds in the standard reading of differential privacy.

        Where nothing is proved, as here, it is measured at the epsilon that the paper claims, the first time it
        is asked for, which takes seconds; its basis then says "audited". That is evidence and no proof. A
        mechanism with a proof states that instead.
        """
        return measured_guarantee(self, self.claim.epsilon)

    @property
    def least_delta(self) -> float:
        """A proved lower bound: no delta below it holds, at any epsilon. 0 where none is known."""
        return 0.0

    def plan(self, n: int, *, key: Key | None = None, series: Series = None, run: str | None = None) -> Plan:
        """Draw a plan for a series of `n` values.

        Args:
            n: The length of the series.
            key: The secret; a fresh one by default.
            series: What the series is called; each series of a run gets a plan of its own.
            run: Only to repeat a run on the very same input; a fresh run id by default.
        """
        return draw_plan(self, n, key=key, series=series, run=run)

    def stream(
        self,
        *,
        key: Key | None = None,
        series: Series = None,
        run: str | None = None,
        empty: Any = None,
    ) -> Stream:
        """Start a release value by value; arguments as for `plan`. Empty slots come out as `empty`."""
        return Stream(self, key=key, series=series, run=run, empty=empty)

    def release(
        self,
        values: Any,
        *,
        key: Key | None = None,
        series: Series = None,
        run: str | None = None,
        empty: Any = EMPTY,
    ) -> Any:
        """Return one series released: `plan(len(values), …).apply(values)`."""
        return self.plan(len(values), key=key, series=series, run=run).apply(values, empty)

    def expected_cost(self, units: UnitCosts | None = None) -> float:
        """Return the expected cost per timestamp, from the law."""
        return self.law().expected_cost(units)
