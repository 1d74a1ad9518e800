"""RanSwitch: the paper's baseline, memoryless switching [SS, Sec. III]."""

import math
from decimal import Decimal

import numpy as np

from whenmask.errors import positive_number
from whenmask.guarantee import Claim, Guarantee, precise, round_up
from whenmask.law import Law
from whenmask.mechanisms.calibration import EPSILON_HINT, Calibration, check_calibration
from whenmask.mechanisms.switch import ONE, Switch

# The law is cut where less than this is left.
NEGLIGIBLE = 1e-12


class RanSwitch(Switch):
    """Exchange each slot with a random one of the next `window` slots, and release it.

    At slot i choose an offset l: 0 with probability p, each of 1 … window−1 with probability q; exchange the
    contents of slots i and i + l; release slot i. Nothing is missing, repeated or empty, but a value can be put
    off again and again: P_d = q(1−q)^(window−1+d) for −window < d < window, d ≠ 0, with a tail beyond.

    Args:
        epsilon: The privacy budget.
        window: The number of timestamps that may trade places, at least 2.
        calibrate: What `epsilon` bounds: the proved guarantee (default), or the paper's published claim.

    Guarantee:
        (ln(p/q), 1 − (1−q)^(window−1)), and no smaller delta at any epsilon (docs/guarantees.md).

    Raises:
        ParameterError: A parameter is outside its range.

    Example:
        >>> mechanism = RanSwitch(4, window=10, calibrate="claim")
        >>> round(mechanism.claim.epsilon, 6), round(mechanism.expected_cost(), 2)
        (4.0, 4.08)
    """

    def __init__(self, epsilon: float, *, window: int, calibrate: Calibration = "guarantee") -> None:
        epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
        check_calibration(calibrate)
        promised = guaranteed_epsilon if calibrate == "guarantee" else claimed_epsilon
        self._calibrate(epsilon, window, promised)

    @property
    def reach(self) -> int:
        """A value may wait for any number of slots."""
        return -1

    @property
    def claim(self) -> Claim:
        """Theorem 2 of the paper, at the probabilities in use."""
        epsilon = claimed_epsilon(self.unit, self.window)
        return Claim(epsilon, round_up(Decimal(self.unit) / ONE), self.window, "[SS] Theorem 2")

    @property
    def guarantee(self) -> Guarantee:
        """The exact privacy loss between neighbours, worst over all pairs in the window."""
        with precise():
            keep = (1 - Decimal(self.unit) / ONE) ** (self.window - 1)
            delta = round_up(1 - keep)
        return Guarantee(guaranteed_epsilon(self.unit, self.window), delta, self.window, "proved")

    def law(self) -> Law:
        """Return P_d, with the tail beyond the window cut where less than 1e-12 is left.

        Within the window P_d is the paper's Theorem 1. Beyond it, let u_d be the probability that a value is at
        the head of slot d: u_d = q·Σ u_{d−m}(1−q)^{m−1}, m = 1 … window−1, and P_d = p·u_d + q·(alive − u_d).
        """
        p, q, k = self.p, self.q, self.window
        late = math.exp((k - 1) * math.log1p(-q))  # never chosen by an earlier slot
        backward = q * np.exp(np.arange(k - 1) * np.log1p(-q))
        forward = []
        heads = [1.0]
        alive, weighed = 1.0 - p, 1.0
        while late * alive >= NEGLIGIBLE:
            head = q * weighed
            released = p * head + q * (alive - head)
            forward.append(late * released)
            alive -= released
            heads.append(head)
            weighed = (1 - q) * weighed + head
            if len(heads) >= k:
                weighed -= late * heads[len(heads) - k]
        probabilities = np.concatenate([backward, [late * p], forward])
        rest = max(0.0, late * alive)  # the last subtraction may leave a rounding error below zero
        return Law(np.arange(1 - k, len(forward) + 1), probabilities, k, rest=rest)


def guaranteed_epsilon(unit: int, window: int) -> float:
    """Return ln(p/q), rounded up."""
    with precise():
        return max(0.0, round_up((Decimal(ONE - (window - 1) * unit) / unit).ln()))


def claimed_epsilon(unit: int, window: int) -> float:
    """Return the epsilon of Theorem 2, rounded up; 0 where the paper asks for none."""
    with precise():
        q = Decimal(unit) / ONE
        p = 1 - (window - 1) * q
        late = (1 - q) ** (2 * (window - 1))
        excess = p * p * late - q
        return max(0.0, round_up((excess / (q * q * late)).ln())) if excess > 0 else 0.0
