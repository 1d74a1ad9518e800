"""PureSwitch: the Gibbs law of permutations, whose guarantee is proved and pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError, positive_number, whole_number
from whenmask.guarantee import Guarantee
from whenmask.kernels.kinds import FILL, MERGE, OPEN, STAY
from whenmask.keystream import SPARE, Context, Key, Keystream, Keystreams, Series
from whenmask.law import WINDOW_HINT, Latency, Law, UnitCosts
from whenmask.mechanisms import waiting
from whenmask.mechanisms.calibration import EPSILON_HINT
from whenmask.mechanisms.gibbs import choose_parameters
from whenmask.mechanisms.heights import Table, tabulate
from whenmask.mechanisms.paths import STEP_WORDS, PureDraw, PureWalk
from whenmask.mechanisms.temporal import Temporal
from whenmask.mechanisms.together import Way, draw_together

# What a partial plan holds at a slot whose source is not known yet.
UNKNOWN = -2
DELAY_HINT = "it counts the values that arrive before a slot is shown"
# Steps of partial plans that are drawn at a time.
REHEARSED = 1 << 17


@dataclass(frozen=True, init=False, repr=False)
class PureSwitch(Temporal):
    """Draw a permutation of all timestamps, the less likely the farther it moves values.

    The permutation π has probability proportional to e^(−θ·Σ|π(t) − t|)·e^(−a·(n − number of cycles of π)). It is
    drawn while the series goes on: a slot may be left open for a later value, a value may wait for a later slot,
    and each choice is made with exactly the probability that the law prescribes given those before it. Nothing is
    missing, repeated or empty, and no displacement is impossible, which is why the guarantee is pure.

    Args:
        epsilon: The privacy budget. θ and a are chosen for the least expected displacement within it.
        window: The number of timestamps that may trade places, at least 2.

    Guarantee:
        (a + 2θ·(window − 1), 0) but for rounding, which is bounded and included: epsilon stays within the budget,
        delta is about 1e-30 (docs/guarantees.md, Theorem 6). It covers what stands in the slots. An observer who
        also sees *when* a slot of a stream is released learns more, unless slots are shown with a fixed delay: see
        `timing_delta`.

    Raises:
        ParameterError: A parameter is outside its range, or so many values would wait that no table holds them
            (window/epsilon above about a million).

    Example:
        >>> mechanism = PureSwitch(6, window=10)
        >>> mechanism.guarantee.epsilon <= 6, round(mechanism.expected_cost(), 3)
        (True, 0.738)
    """

    window: int
    theta: float
    a: float

    def __init__(self, epsilon: float, *, window: int) -> None:
        epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
        window = whole_number("window", window, least=2, hint=WINDOW_HINT)
        self._set(*choose_parameters(epsilon, window), window)

    @classmethod
    def from_parameters(cls, *, theta: float, a: float, window: int) -> Self:
        """Make the mechanism from θ > 0, the price of a slot of displacement, and a ≥ 0, that of a cycle fewer."""
        theta = positive_number("theta", theta, hint="it is the price of each slot that a value is displaced")
        a = positive_number("a", a, hint="it is the price of each cycle fewer", zero=True)
        mechanism = cls.__new__(cls)
        mechanism._set(theta, a, whole_number("window", window, least=2, hint=WINDOW_HINT))
        return mechanism

    def _set(self, theta: float, a: float, window: int) -> None:
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "a", a)
        tabulate(theta, a, window)  # so that bad parameters are found here and not later

    @property
    def table(self) -> Table:
        """The integers in use."""
        return tabulate(self.theta, self.a, self.window)

    @property
    def identity(self) -> str:
        """The mechanism's name and exact parameters, which fix the integers in use on every machine."""
        return f"PureSwitch(window={self.window}, theta={self.theta.hex()}, a={self.a.hex()})"

    @property
    def parameters(self) -> dict[str, float]:
        """The prices in use: of a slot of displacement, and of a cycle fewer."""
        return {"theta": self.theta, "a": self.a}

    def __repr__(self) -> str:
        return f"PureSwitch.from_parameters(theta={self.theta!r}, a={self.a!r}, window={self.window})"

    def draw(self, words: Keystream) -> PureDraw:
        """Start a release for many values at a time (compiled)."""
        return PureDraw(self.table, words)

    def walk(self, words: Keystream) -> PureWalk:
        """Start a release for one value at a time (plain Python)."""
        return PureWalk(self.table, words)

    def draw_together(
        self, run: Keystreams, series: Sequence[Series], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Draw whole series at once; see `sampler.Together`."""
        from whenmask.kernels import pure  # numba, see `PureDraw`

        guide = self.table.guide

        def attempt(
            words: NDArray[np.uint64], columns: NDArray[np.int64], out: NDArray[np.int64]
        ) -> NDArray[np.bool_]:
            work = np.empty(int(columns[0].max()), dtype=np.int64)
            done: NDArray[np.bool_] = pure.pure_series(words, columns, guide, work, out)
            return done

        return draw_together(run, series, lengths, Way(self.draw, attempt, self.window, 1))

    @property
    def claim(self) -> None:
        """There is no paper that claims anything."""
        return None

    @property
    def guarantee(self) -> Guarantee:
        """Theorem 6 for the integers in use and runs of up to 2^48 steps."""
        table = self.table
        return Guarantee(table.epsilon(self.window), table.delta(self.window), self.window, "proved")

    def law(self) -> Law:
        """Return P_d, cut where less than 1e-12 is left.

        Raises:
            ParameterError: There are more than some 8 million likely displacements.
        """
        return waiting.displacement_law(self.table, self.window)

    def expected_cost(self, units: UnitCosts | None = None) -> float:
        """Return the expected cost per timestamp: twice the mean number of open slots is the mean distance."""
        return (units or UnitCosts()).weigh(self.window, 2 * self.table.mean, 0.0, 0.0, 0.0)

    @property
    def latency(self) -> Latency:
        """A slot is released when it and all slots before it are filled, which has no bound."""
        waits = waiting.slot_waits(self.table)
        return Latency(waits.mean, waits.quantile(0.99), None)

    def latency_quantile(self, probability: float) -> int:
        """Return the number of further values within which a slot is released with the given probability."""
        return waiting.slot_waits(self.table).quantile(probability)

    def timing_delta(self, delay: int) -> float:
        """Return what must be added to delta when an observer sees the clock (docs/guarantees.md, Theorem 7).

        Args:
            delay: Slot t is shown when value t + delay has arrived; later only if it or a slot before is not
                filled then. Without a delay the moment of release tells where a value came from, and no delta
                below 1 is proved.
        """
        return waiting.timing_delta(
            self.table, self.window, whole_number("delay", delay, least=0, hint=DELAY_HINT)
        )

    def safe_delay(self, delta: float) -> int:
        """Return the least delay with which an observer of the clock adds at most `delta`; see `timing_delta`."""
        delta = positive_number("delta", delta, hint="it is a probability such as 1e-9")
        return waiting.safe_delay(self.table, self.window, delta)

    def prefixes(self, trials: int, steps: int, *, key: Key) -> NDArray[np.int64]:
        """Draw the first steps of many independent plans, for an audit.

        Returns:
            An array of trials × steps: the source of each slot if it is known after `steps` steps, else −2.
        """
        from whenmask.kernels import pure  # numba, see `PureDraw`

        hint = "it is a count"
        trials = whole_number("trials", trials, least=0, hint=hint)
        steps = whole_number("steps", steps, least=1, hint=hint)
        words = Keystream(key, Context(self.identity, None, "prefixes"))
        plans = np.empty((trials, steps), dtype=np.int64)
        some = max(1, REHEARSED // steps)
        for start in range(0, trials, some):
            part = plans[start : start + some]
            unit = STEP_WORDS * steps
            drawn, spares = (words.words(place + unit * start, unit * len(part)) for place in (0, SPARE))
            pure.rehearse(drawn, spares, self.table.guide, part)
        plans[plans == OPEN] = UNKNOWN
        return plans

    def log_probabilities(self, prefixes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-probability of partial plans such as `prefixes` draws, −∞ for impossible ones.

        A partial plan determines the choices that made it: it is replayed, and the logarithms of the integers in
        use are added up.
        """
        from whenmask.kernels import pure  # numba, see `PureDraw`

        prefixes = np.ascontiguousarray(prefixes, dtype=np.int64)
        if prefixes.ndim != 2:
            raise ParameterError("`prefixes` must be an array of trials × steps", f"{prefixes.ndim} dimensions")
        probabilities = self.table.probabilities
        height = np.arange(probabilities.shape[1])
        ways = np.ones(probabilities.shape)
        ways[FILL:STAY] = np.maximum(height, 1)
        ways[MERGE] = np.maximum(height * (height - 1), 1)
        with np.errstate(divide="ignore"):
            logs = np.log(probabilities / ways)
        totals = np.empty(len(prefixes))
        pure.weigh_all(prefixes, logs, totals)
        totals[((prefixes < 0) & (prefixes != UNKNOWN)).any(axis=1)] = -np.inf  # no slot is ever empty
        return totals
