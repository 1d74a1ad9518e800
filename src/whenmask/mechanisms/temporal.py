"""What all temporal mechanisms have in common: plan, stream, release and expected cost, made of two samplers."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from whenmask.guarantee import Claim
from whenmask.keystream import Key, Keystream, Series
from whenmask.law import Latency, Law, UnitCosts
from whenmask.plan import Plan, draw_plan
from whenmask.sampler import Draw, Walk
from whenmask.stream import Stream
from whenmask.take import EMPTY


class Temporal(ABC):
    """A mechanism that permutes timestamps and never looks at values.

    A new mechanism is a frozen dataclass that says what it is (`window`, `identity`), how it draws (`draw`,
    `walk`) and what its law and published claim are; the rest is here.
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
