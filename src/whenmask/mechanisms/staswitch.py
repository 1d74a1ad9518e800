"""StaSwitch: switching that remembers how long a value has waited [SS, Sec. IV]."""

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import positive_number
from whenmask.guarantee import Claim, precise, round_up
from whenmask.law import Law, two_sided
from whenmask.mechanisms.calibration import EPSILON_HINT, Calibration, refuse_guarantee
from whenmask.mechanisms.switch import ONE, Switch

# Up to here the exact law is worth its Bell(window) states.
EXACT_WINDOW = 8
# An iteration has settled when no probability moves by more than this, relatively to the largest.
SETTLED = 1e-15
# From here on an iteration that no longer improves has reached what floats can hold.
STALLED = 1e-10
# A float computation of the largest backward probability is off by less than this, relatively.
FLOAT_MARGIN = 1e-12


class StaSwitch(Switch):
    """Exchange each slot with a random one of the next, but let no value wait more than `window` − 1 slots.

    At slot i, whose content has waited b slots, choose an offset l: each of 1 … window−1−b with probability q,
    0 with the rest, p + b·q; exchange the contents of slots i and i + l; release slot i. No value is displaced by
    `window` slots or more; nothing is missing, repeated or empty. P_{−j} = q_j·Π_{l>j}(1 − q_l), where q_j is the
    mean probability of choosing offset j.

    Args:
        epsilon: The epsilon that the paper claims (its Theorem 3).
        window: The number of timestamps that may trade places, at least 2.
        calibrate: Must be "claim": no guarantee is proved for StaSwitch.

    Guarantee:
        None is proved. `guarantee` measures one, and it is far from the claim; `least_delta` is proved
        (docs/guarantees.md).

    Raises:
        ParameterError: A parameter is outside its range, or a proved guarantee was asked for.

    Example:
        >>> mechanism = StaSwitch(4, window=10, calibrate="claim")
        >>> round(mechanism.claim.epsilon, 6), round(mechanism.expected_cost(), 2)
        (4.0, 3.46)
    """

    def __init__(self, epsilon: float, *, window: int, calibrate: Calibration = "guarantee") -> None:
        epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
        refuse_guarantee("StaSwitch", calibrate)
        self._calibrate(epsilon, window, claimed_epsilon)

    provable = False

    @property
    def reach(self) -> int:
        """A value may wait until it is `window` − 1 slots late."""
        return self.window - 1

    @property
    def claim(self) -> Claim:
        """Theorem 3 of the paper, at the probabilities in use; its Eq. (staswitch_privacy_budget) at window 2."""
        backward = fixed_point(self.unit, self.window).backward()
        delta = min(1.0, float(backward.max()) * (1 + FLOAT_MARGIN))
        source = "[SS] Theorem 3" if self.window > 2 else "[SS] Eq. (staswitch_privacy_budget)"
        return Claim(claimed_epsilon(self.unit, self.window), delta, self.window, source)

    @property
    def least_delta(self) -> float:
        """The lower bound of docs/guarantees.md, Theorem 12, rounded down.

        A value seen too early to be its neighbour, or too late, tells the worlds apart. With k = window, at
        distance k−1: δ ≥ 1 − (1−A)(1−B), A = q·Σ_{m=1}^{k−1} (1−q)^m (1−2q)^{k−1−m}, B = (k−1)·q·(1−q)^{k−1}.
        """
        with precise():
            q, reach = Decimal(self.unit) / ONE, self.window - 1
            stay = 1 - q
            # The sum is geometric: ((1−q)^reach − (1−2q)^reach)·(1−q)/q.
            early = stay * (stay**reach - (1 - 2 * q) ** reach)
            late = reach * q * stay**reach
            return -round_up((1 - early) * (1 - late) - 1)

    def law(self, *, approximate: bool = False) -> Law:
        """Return P_d.

        Up to window 8 it is exact: the stationary law of the chain of delays in the window. Beyond, it is the
        paper's fixed point, which takes the choices of different slots for independent; they are not quite (a
        slot chooses only one other), which moves single P_d by less than 1% and the mean distance by about
        0.1% wherever it can be compared. With `approximate`, the paper's closed approximation is returned.
        """
        if approximate:
            return two_sided(self.states(approximate=True).allocations(), self.window, "the paper's approximation")
        if self.window <= EXACT_WINDOW:
            return two_sided(chain_law(self.unit, self.window), self.window, "exact")
        allocations = fixed_point(self.unit, self.window).allocations()
        return two_sided(allocations, self.window, "the paper's fixed point")

    def states(self, *, approximate: bool = False) -> "States":
        """Return the probabilities of delays and offsets that the law is made of.

        Args:
            approximate: P_b^0 ≈ 1/(2−p), P_b^j ≈ q/(2−p), q_j ≈ (q+(window−j−1)q²)/(2−p) in place of the fixed
                point.
        """
        if not approximate:
            return fixed_point(self.unit, self.window)
        p, q, k = self.p, self.q, self.window
        delays = np.full(k, q / (2 - p))
        delays[0] = 1 / (2 - p)
        choices = (q + (k - 1 - np.arange(k, dtype=np.float64)) * q * q) / (2 - p)
        choices[0] = 0.0
        return States(p, q, delays, choices)

    def largest_backward(self, *, approximate: bool = False) -> int:
        """Return the displacement −window < d < 0 of the largest backward probability.

        Args:
            approximate: By the paper's corollary, d = ⌈(√(q²−4p+8)−2)/(2q)⌉ − (window−1), not from the law. (The
                paper prints window+1, which does not follow from its own proof and is two slots off.)
        """
        if approximate:
            root = math.sqrt(self.q**2 - 4 * self.p + 8)
            return math.ceil((root - 2) / (2 * self.q)) - (self.window - 1)
        return int(self.states().backward().argmax()) + 1 - self.window


@dataclass(frozen=True, eq=False, repr=False)
class States:
    """How long values wait, and which offsets are chosen.

    Attributes:
        p: The probability of offset 0.
        q: The probability of each other offset.
        delays: P_b: the probability that a slot's content has waited 0 … window−1 slots.
        choices: q_j: the mean probability of choosing offset j; 0 at j = 0.
    """

    p: float
    q: float
    delays: NDArray[np.float64]
    choices: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"<States: window {self.delays.size}, p={self.p:.4g}, q={self.q:.4g}, P_0={self.delays[0]:.4g}>"

    def backward(self) -> NDArray[np.float64]:
        """Return P_d for d = 1−window … −1 [SS, Eq. (staswitch_dispatching_p), first line]."""
        far_first = self.choices[:0:-1]
        unchosen = np.concatenate([[1.0], np.cumprod(1 - far_first)])
        backward: NDArray[np.float64] = far_first * unchosen[:-1]
        return backward

    def allocations(self) -> NDArray[np.float64]:
        """Return P_d for d = 1−window … window−1 [SS, Eq. (staswitch_dispatching_p)]."""
        k = self.choices.size
        spared = np.cumprod(1 - self.choices)  # not chosen from 1, 2, … slots before
        here = self.p * spared[-1]
        forward = np.empty(k - 1)
        chosen = self.choices / spared
        # waits[i] = Σ_l P_b^l · spared[i + j−1−l]: shifted by one slot for each further j.
        waits = np.zeros(k)
        for j in range(1, k):
            waits = self.delays[j - 1] * spared + np.append(waits[1:], 0.0)
            stays = (self.p + j * self.q) * waits[0]
            leaves = chosen[1 : k - j] @ waits[1 : k - j]
            forward[j - 1] = self.q * (stays + leaves)
        return np.concatenate([self.backward(), [here], forward])


@lru_cache(maxsize=64)
def fixed_point(unit: int, window: int) -> States:
    """Solve Eqs. (limit_pro) and (empty_pro) of the paper by iteration.

    With c_m = Π_{l≤m}(1 − q_l) the latter says P_b^i = q·P_b^0·D_{i−1}, where D(z) = C(z) / (1 − q·z·C(z)): a
    quotient of power series with coefficients of order one, so that Fourier transforms keep them precise.
    """
    q = unit / ONE
    choices = np.full(window, q)
    choices[0] = 0.0
    change = math.inf
    while True:
        spared = np.cumprod(1 - choices)
        denominator = np.append(1.0, -q * spared[: window - 2])[: window - 1]
        quotient = _multiplied(spared[: window - 1], _inverted(denominator))
        delays = spared[-1] * np.append(1.0, q * quotient)
        updated = q * np.cumsum(delays)[::-1]
        updated[0] = 0.0
        before, change = change, float(np.abs(updated - choices).max()) / q
        choices = updated
        if change <= SETTLED or (change >= before and change < STALLED):
            return States((ONE - (window - 1) * unit) / ONE, q, delays, choices)


def _multiplied(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the product of two power series, to the order of the first."""
    size = left.size + right.size
    product: NDArray[np.float64] = np.fft.irfft(np.fft.rfft(left, size) * np.fft.rfft(right, size), size)
    return product[: left.size]


def _inverted(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of a power series that starts with 1, by Newton's iteration."""
    inverse = np.ones(1)
    while inverse.size < series.size:
        wider = np.pad(inverse, (0, min(inverse.size, series.size - inverse.size)))
        error = -_multiplied(series[: wider.size], wider)
        error[0] += 2.0
        inverse = _multiplied(wider, error)
    return inverse


@lru_cache(maxsize=64)
def chain_law(unit: int, window: int) -> NDArray[np.float64]:
    """Return the exact P_d from the chain whose state is the delays of the contents of the next slots."""
    probabilities = np.full(window, unit / ONE)
    probabilities[0] = (ONE - (window - 1) * unit) / ONE
    numbers: dict[tuple[int, ...], int] = {}
    states = [(0,) * (window - 1)]
    numbers[states[0]] = 0
    following, displaced = [], []
    for delays in states:  # grows while new states are found
        targets = []
        for offset in range(window):
            taken = offset if offset + delays[0] < window else 0
            contents = [*delays, 0]
            displaced.append(contents[taken] - taken)
            contents[taken] = taken + delays[0]
            reached = tuple(contents[1:])
            if reached not in numbers:
                numbers[reached] = len(states)
                states.append(reached)
            targets.append(numbers[reached])
        following.append(targets)
    edges = np.array(following).ravel()
    weights = np.zeros(len(states))
    weights[0] = 1.0
    while True:
        flow = (weights[:, None] * probabilities).ravel()
        moved = np.bincount(edges, flow, minlength=len(states)).astype(np.float64)
        if np.abs(moved - weights).max() <= SETTLED:
            law = np.bincount(np.array(displaced) + window - 1, flow, minlength=2 * window - 1)
            return law.astype(np.float64)
        weights = moved


def claimed_epsilon(unit: int, window: int) -> float:
    """Return the epsilon of Theorem 3, rounded up; 0 where its argument is not above 1."""
    with precise():
        q = Decimal(unit) / ONE
        p = 1 - (window - 1) * q
        odds = _claimed_odds(p, q, window) if window > 2 else (p * p - q * (1 + q)) / (q * q)
        return max(0.0, round_up(odds.ln())) if odds > 0 else 0.0


def _claimed_odds(p: Decimal, q: Decimal, k: int) -> Decimal:
    """Return e^ε of Theorem 3, where `spread` is the paper's σ."""
    spread = ((1 - p) * (1 + p + q) * (2 - p) - q) / (2 * (k - 2) * (1 + q) * (2 - p))
    spread += (k - 3) * q * q * (1 - q) ** (k - 1) / 2
    below = q * (1 + q - k * (1 - p) * q / (2 * (1 + q)) - q / (2 - p))
    return (p * p / spread - (p * p - p + 2)) / below
