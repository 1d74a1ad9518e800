"""Threshold: values wait in random empty slots, and none is lost once enough slots are filled (TM, ETM) [BVP]."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError, positive_number, whole_number
from whenmask.guarantee import Claim, Guarantee, precise, round_up
from whenmask.keystream import Key, Keystream
from whenmask.law import Law
from whenmask.mechanisms.calibration import EPSILON_HINT, Calibration, refuse_guarantee
from whenmask.mechanisms.dispatch import Dispatch, DispatchDraw, DispatchWalk
from whenmask.mechanisms.switch import ONE

# The kernel's choice among empty slots is a product of two numbers below this and at most this.
WIDEST = 1 << 32


@dataclass(frozen=True, init=False, repr=False)
class Threshold(Dispatch):
    """Write each value to a random empty slot of the window ahead, or to its own while that is still empty.

    At step i let c be the number of empty slots among i … i+window−1. If c is above the threshold, or slot i is
    filled, write value i to a uniformly random empty one of them; else write it to slot i with probability ρ, and
    lose it with 1 − ρ, which leaves slot i empty. Release slot i. The first steps leave window − threshold slots
    empty; then c is the threshold for ever, and in each step a value is missing and a slot empty with probability
    (1−ρ)·P. Here P = {window−1, threshold−1} / {window, threshold}, in Stirling numbers of the second kind, is the
    probability that slot i is empty at step i. P_0 = ρ·P, P_d = Σ_m C(d−1, m)·{window−2−m, threshold−1} /
    {window, threshold} for 1 ≤ d < window, and the mean delay is window − threshold whatever ρ.

    A slot is decided when its own value comes, so the latency is 0. A step costs a constant time, whatever the
    window: the empty slots stand in a list, in which the slot that enters the window takes over the entry of the
    one that leaves it or has just been filled, so nothing is ever searched or moved. A choice among them
    is the product of their number and a word of 64 bits: its bias is below window/2^64.

    Args:
        epsilon: The epsilon that the paper claims. It takes the largest threshold with ρ = 1 that fits; where
            none does, the smallest threshold with P_(window−1) ≤ e^(ε/2)·P_1, and the ρ with P_0 = e^(ε/2)·P_1.
        window: The number of slots that a value may be written to, at least 3.
        threshold: In place of `epsilon`: how many slots stay empty, 2 … window−1, and ρ = 1.
        calibrate: Can only be "claim": a threshold has no other epsilon.

    Guarantee:
        None: delta is 1 at every epsilon, since a value is never released before its own slot and the first one is
        always released (docs/guarantees.md, Theorems 10 and 11). The claim is for comparison.

    Raises:
        ParameterError: A parameter is outside its range, or a proved guarantee was asked for.

    Example:
        >>> mechanism = Threshold(4, window=10)
        >>> mechanism.threshold, round(mechanism.claim.epsilon, 3), round(mechanism.expected_cost(), 6)
        (6, 3.78, 4.0)
    """

    provable = False

    window: int
    threshold: int
    unit: int

    def __init__(
        self,
        epsilon: float | None = None,
        *,
        window: int,
        threshold: int | None = None,
        calibrate: Calibration = "claim",
    ) -> None:
        if (epsilon is None) == (threshold is None):
            got = "neither" if epsilon is None else "both"
            hint = "an epsilon chooses the threshold; a threshold stands for itself"
            raise ParameterError("give one of `epsilon` and `threshold`", got, hint)
        unit = ONE
        if threshold is None:
            epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
            refuse_guarantee("Threshold", calibrate)
            threshold, unit = fitting(epsilon, checked_window(window))
        self._set(threshold, unit, window)

    @classmethod
    def from_units(cls, unit: int, *, threshold: int, window: int) -> Self:
        """Make the mechanism from its threshold and ρ in units of 2^-64, exactly."""
        mechanism = cls.__new__(cls)
        mechanism._set(threshold, unit, window)
        return mechanism

    @classmethod
    def from_probabilities(cls, *, rho: float | Fraction | Decimal, threshold: int, window: int) -> Self:
        """Make the mechanism from its threshold and the probability ρ of keeping a value, 0 < ρ ≤ 1."""
        hint = "it is the probability of keeping a value: above 0 and at most 1"
        if positive_number("rho", rho, hint=hint) > 1:
            raise ParameterError("`rho` must be at most 1", f"rho={float(rho):g}", hint)
        return cls.from_units(max(round(Fraction(rho) * ONE), 1), threshold=threshold, window=window)

    def _set(self, threshold: int, unit: int, window: int) -> None:
        window = checked_window(window)
        hint = f"at window={window} it is between 2 and {window - 1}: how many of the window's slots stay empty"
        threshold = whole_number("threshold", threshold, least=2, hint=hint)
        if threshold >= window:
            raise ParameterError("`threshold` must be below `window`", f"threshold={threshold}", hint)
        unit = whole_number("unit", unit, least=1, hint="it is ρ in units of 2^-64")
        if unit > ONE:
            raise ParameterError("`unit` must be at most 2^64", f"unit={unit}", "it is ρ in units of 2^-64")
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "unit", unit)

    @property
    def rho(self) -> float:
        """The probability that a value is kept whose slot is still empty: 1 for TM, less for ETM."""
        return self.unit / ONE

    @property
    def parameters(self) -> dict[str, float]:
        """The threshold and the probability of keeping a value."""
        return {"threshold": self.threshold, "rho": self.rho}

    @property
    def identity(self) -> str:
        """The mechanism's name and exact parameters."""
        return f"Threshold(window={self.window}, threshold={self.threshold}, unit={self.unit})"

    def __repr__(self) -> str:
        return f"Threshold.from_units({self.unit}, threshold={self.threshold}, window={self.window})"

    @property
    def claim(self) -> Claim:
        """What the paper states: 2·ln of the ratio of the largest to the smallest P_d."""
        return Claim(claimed_epsilon(self.threshold, self.unit, self.window), 0.0, self.window, "[BVP]")

    @property
    def guarantee(self) -> Guarantee:
        """Nothing is protected, whatever ρ, which is proved: delta is 1 (docs/guarantees.md, Theorems 10, 11)."""
        return Guarantee(self.claim.epsilon, 1.0, self.window, "proved")

    @property
    def least_delta(self) -> float:
        """The delta of the guarantee: no smaller one holds, at any epsilon."""
        return 1.0

    def law(self) -> Law:
        """Return P_d in the steady state, exact: fractions of integers, rounded once.

        ρ does not change how the windows follow each other, since slot i leaves written or not. The time grows
        with the third power of the window, as that of choosing a threshold does: milliseconds at window 200, a
        second or so at 1500, twenty or so at 4000. Plans and streams of a given threshold need none of it.
        """
        weights = dispatches(self.window, self.threshold)
        total = ONE * sum(weights)
        kept = (self.unit, *(ONE for _ in weights[1:]))
        probabilities = np.array([chance * weight / total for chance, weight in zip(kept, weights, strict=True)])
        lost = (ONE - self.unit) * weights[0] / total
        return Law(np.arange(self.window), probabilities, self.window, missing=lost, empty=lost)

    def draw(self, words: Keystream) -> "ThresholdDraw":
        """Start a release for many values at a time (compiled)."""
        return ThresholdDraw(self, words)

    def walk(self, words: Keystream) -> "ThresholdWalk":
        """Start a release for one value at a time (plain Python)."""
        return ThresholdWalk(self, words)

    def prefixes(self, trials: int, steps: int, *, key: Key) -> NDArray[np.int64]:
        """Return what `steps` steps decide in each of `trials` independent series, a row each.

        The first `steps` columns are the sources of the slots released, −1 for an empty one; the `window` − 1
        after them the sources of the slots to come, −2 for those that nobody has written to yet. The rows are for
        an audit: they are no releases, and are the same whenever the key is.
        """
        rows = self._rows(trials, steps, key)
        waiting = rows[:, steps:]
        waiting[waiting == -1] = -2
        return rows

    def log_probabilities(self, prefixes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each row of `prefixes`, −∞ where it cannot be drawn."""
        from whenmask.kernels import dispatch

        lose = math.log((ONE - self.unit) / ONE) if self.unit < ONE else -math.inf
        rows = np.ascontiguousarray(prefixes, dtype=np.int64)
        keep = math.log(self.unit / ONE)
        logs: NDArray[np.float64] = dispatch.log_threshold(rows, self.window, self.threshold, keep, lose)
        return logs


def checked_window(window: object) -> int:
    """Return the window, or say what is wrong with it."""
    hint = "it counts the slots that a value may be written to; the threshold is between 2 and one less"
    window = whole_number("window", window, least=3, hint=hint)
    if window > WIDEST:
        raise ParameterError("`window` must be at most 2^32", f"window={window}", hint)
    return window


class ThresholdDraw(DispatchDraw):
    """The compiled form."""

    def __init__(self, mechanism: Threshold, words: Keystream) -> None:
        # Here, not above: only a batch is worth numba's 0.4 s.
        from whenmask.kernels import dispatch

        super().__init__(words, mechanism.window)
        self._kernel = dispatch.threshold
        self._floor = mechanism.threshold
        self._limit = np.uint64(mechanism.unit - 1)
        self._empties = np.arange(mechanism.window)

    def _decide(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        sources: NDArray[np.int64]
        sources, self._empties = self._kernel(
            words, self._slot, self._ring, self._empties, self._floor, self._limit
        )
        return sources


class ThresholdWalk(DispatchWalk):
    """The plain form."""

    def __init__(self, mechanism: Threshold, words: Keystream) -> None:
        super().__init__(words, mechanism.window)
        self._floor = mechanism.threshold
        self._unit = mechanism.unit
        self._empties = list(range(mechanism.window))

    def _decide(self, slot: int, word: int) -> int:
        # See the kernel for what the list of empty slots holds, and in which order.
        ring, empties = self._ring, self._empties
        place = slot % len(ring)
        source = ring[place]
        if source >= 0 or len(empties) > self._floor:
            chosen = word * len(empties) >> 64
            written = empties[chosen]
            ring[written] = slot
            if source >= 0:
                empties[chosen] = place
            elif written == place:
                source = slot
            else:
                empties[chosen] = empties[-1]
                empties.pop()
        elif word < self._unit:
            source = slot
        ring[place] = -1
        return source

    def state(self) -> Any:
        """Return what `restore` needs."""
        return super().state(), list(self._empties)

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        inner, empties = state
        super().restore(inner)
        self._empties = list(empties)


def fitting(epsilon: float, window: int) -> tuple[int, int]:
    """Return the threshold and the units of ρ that claim at most `epsilon`, losing as little as can be."""
    for threshold in range(window - 1, 1, -1):
        if claimed_epsilon(threshold, ONE, window) <= epsilon:
            return threshold, ONE
    lower, upper = last_stirling_rows(window)
    with precise():
        odds = (Decimal(epsilon) / 2).exp()
        # At window − 1 the two numbers are equal, so there is always a threshold.
        threshold = next(c for c in range(2, window) if upper[c] <= odds * lower[c - 1])
        unit = max(1, math.floor(odds * lower[threshold - 1] * ONE / upper[threshold - 1]))
    least = claimed_epsilon(threshold, unit, window)
    if least > epsilon:
        hint = f"the least that a ρ of 64 bits can give at this window is epsilon={least!r}"
        raise ParameterError("`epsilon` is too small for the window", f"epsilon={epsilon:g}", hint)
    return threshold, unit


@lru_cache(maxsize=256)
def claimed_epsilon(threshold: int, unit: int, window: int) -> float:
    """Return 2·ln(max P_d / min P_d), rounded up.

    P_d does not fall from d = 1 on: exchanging an empty slot with a filled one after it does not lower a window's
    weight, since the filled slot then has one more empty slot behind it. So three of the P_d decide.
    """
    lower, upper = last_stirling_rows(window)
    own, first, last = unit * upper[threshold - 1], ONE * lower[threshold - 1], ONE * upper[threshold]
    with precise():
        return max(0.0, round_up(2 * (Decimal(max(own, last)) / min(own, first)).ln()))


@lru_cache(maxsize=64)
def dispatches(window: int, threshold: int) -> tuple[int, ...]:
    """Return integers in proportion to the P_d of TM, d = 0 … window−1; their sum is {window, threshold}.

    The stationary weight of a window is the product, over its filled slots, of the number of empty slots after
    each. Let N(n, d) be the weight, over the threshold, of the windows of n slots with slot 0 filled and slot d
    empty. Then N(n, 1) = {n−2, threshold−1}, and N(n, d+1) = N(n, d) + N(n−1, d): moving a filled slot from d + 1
    to d, before the empty one, adds one to its factor, which leaves the weight of the window without it. So each
    n takes one running sum over the one before.
    """
    moves: list[int] = []
    for size, row in enumerate(islice(stirling_rows(), window - 1)):
        moves = list(accumulate(moves, initial=row[threshold - 1] if threshold - 1 <= size else 0))
    _, upper = last_stirling_rows(window)
    return upper[threshold - 1], *moves


@lru_cache(maxsize=16)
def last_stirling_rows(window: int) -> tuple[list[int], list[int]]:
    """Return the Stirling numbers {window−2, m} and {window−1, m} for all m: all that a claim depends on."""
    lower, upper = islice(stirling_rows(), window - 2, window)
    return lower, upper


def stirling_rows() -> Iterator[list[int]]:
    """Yield the Stirling numbers of the second kind {n, 0} … {n, n} in turn, from n = 0 on."""
    row = [1]
    while True:
        yield row
        row = [m * above + left for m, (above, left) in enumerate(zip([*row, 0], [0, *row], strict=True))]
