"""Backward and Forward: each slot takes, or each value goes, on its own [BVP]."""

from abc import abstractmethod
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import positive_number
from whenmask.guarantee import Claim, Guarantee, precise, round_up
from whenmask.keystream import Key, Keystream
from whenmask.law import Law
from whenmask.mechanisms.calibration import EPSILON_HINT, Calibration, check_calibration, refuse_guarantee
from whenmask.mechanisms.dispatch import Dispatch, DispatchDraw, DispatchWalk
from whenmask.mechanisms.ranswitch import guaranteed_epsilon
from whenmask.mechanisms.switch import ONE, Offsets

Promise: TypeAlias = Callable[[int, int], float]


class OneWay(Offsets, Dispatch):
    """A mechanism that chooses an offset for each slot, 0 with probability p, each other one with q."""

    def __init__(self, epsilon: float, *, window: int, calibrate: Calibration = "guarantee") -> None:
        epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
        self._calibrate(epsilon, window, self._promise(calibrate))

    @staticmethod
    @abstractmethod
    def _promise(calibrate: Calibration) -> Promise:
        """Return the function of unit and window that `epsilon` bounds."""

    @property
    def claim(self) -> Claim:
        """What the paper states: 2·ln(p/q), the odds being e^(ε/2)."""
        return Claim(claimed_epsilon(self.unit, self.window), 0.0, self.window, "[BVP]")

    def prefixes(self, trials: int, steps: int, *, key: Key) -> NDArray[np.int64]:
        """Return the sources of the first `steps` slots of each of `trials` independent series, a row each.

        A slot that is empty has source −1. The rows are for an audit: they are no releases, and are the same
        whenever the key is.
        """
        return self._rows(trials, steps, key)[:, :steps]

    @abstractmethod
    def log_probabilities(self, prefixes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each row of sources, −∞ where it cannot be drawn."""


class Backward(OneWay):
    """Release in each slot its own value, or one of the `window` − 1 before it (BPM).

    At slot i choose an offset l: 0 with probability p, each of 1 … window−1 with probability q; release the value
    at i − l, and nothing where there is none. Values are repeated or missing: a value is missing with probability
    (1−p)(1−q)^(window−1), and is repeated as often on average. P_0 = p, and P_d = q for 1 ≤ d < window. A slot is
    decided when its own value comes, so the latency is 0.

    Args:
        epsilon: The privacy budget.
        window: The number of timestamps that a slot may take its value from, at least 2.
        calibrate: What `epsilon` bounds: the proved guarantee (default), or the paper's published claim.

    Guarantee:
        (ln(p/q), 1 − (1−p)(1−q)^(2·window−3)), and no smaller delta at that epsilon (docs/guarantees.md): delta
        is above p, so it is of little use.

    Raises:
        ParameterError: A parameter is outside its range.

    Example:
        >>> mechanism = Backward(4, window=10, calibrate="claim")
        >>> round(mechanism.claim.epsilon, 6), round(mechanism.law().missing, 3)
        (4.0, 0.312)
    """

    @staticmethod
    def _promise(calibrate: Calibration) -> Promise:
        check_calibration(calibrate)
        return guaranteed_epsilon if calibrate == "guarantee" else claimed_epsilon

    @property
    def guarantee(self) -> Guarantee:
        """The exact privacy loss between neighbours, worst over all pairs in the window."""
        with precise():
            p, q = Decimal(self.stay) / ONE, Decimal(self.unit) / ONE
            delta = round_up(1 - (1 - p) * (1 - q) ** (2 * self.window - 3))
        return Guarantee(guaranteed_epsilon(self.unit, self.window), delta, self.window, "proved")

    @property
    def least_delta(self) -> float:
        """The delta of the guarantee: no smaller one holds, at any epsilon above the guaranteed."""
        return self.guarantee.delta

    def law(self) -> Law:
        """Return P_d: how often, on average, a value is released d slots late; exact."""
        probabilities = np.full(self.window, self.q)
        probabilities[0] = self.p
        missing = (1 - self.p) * (1 - self.q) ** (self.window - 1)
        return Law(np.arange(self.window), probabilities, self.window, missing=missing, repeated=missing)

    def draw(self, words: Keystream) -> "BackwardDraw":
        """Start a release for many values at a time (compiled)."""
        return BackwardDraw(self, words)

    def walk(self, words: Keystream) -> "BackwardWalk":
        """Start a release for one value at a time (plain Python)."""
        return BackwardWalk(self, words)

    def log_probabilities(self, prefixes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each row of sources, −∞ where it cannot be drawn."""
        slots = np.arange(prefixes.shape[1])
        offsets = slots - prefixes
        chances = np.where(offsets == 0, self.p, self.q)
        chances[(offsets < 0) | (offsets >= self.window)] = 0.0
        before = np.clip(self.window - 1 - slots, 0, None) * self.q  # offsets to before the series
        chances = np.where(prefixes < 0, np.where(prefixes == -1, before, 0.0), chances)
        with np.errstate(divide="ignore"):
            logs: NDArray[np.float64] = np.log(chances).sum(axis=1)
        return logs


class Forward(OneWay):
    """Write each value to its own slot, or to one of the `window` − 1 after it, over what stands there (FPM).

    At step i choose an offset l: 0 with probability p, each of 1 … window−1 with probability q; write value i to
    slot i + l; release slot i. Values that are written over are missing, slots that nobody writes to are empty.
    P_0 = p, and P_d = q(1−p)(1−q)^(d−1) for 1 ≤ d < window. A slot is decided when its own value comes, so the
    latency is 0.

    Args:
        epsilon: The epsilon that the paper claims.
        window: The number of slots that a value may be written to, at least 2.
        calibrate: Must be "claim": no guarantee is proved for Forward.

    Guarantee:
        None is proved, and delta is above p at every epsilon (docs/guarantees.md).

    Raises:
        ParameterError: A parameter is outside its range, or a proved guarantee was asked for.

    Example:
        >>> mechanism = Forward(4, window=10, calibrate="claim")
        >>> round(mechanism.claim.epsilon, 6), round(mechanism.law().empty, 3)
        (4.0, 0.312)
    """

    provable = False

    @staticmethod
    def _promise(calibrate: Calibration) -> Promise:
        refuse_guarantee("Forward", calibrate)
        return claimed_epsilon

    @property
    def least_delta(self) -> float:
        """The lower bound of docs/guarantees.md, Theorem 9, at distance window − 1, rounded down."""
        with precise():
            p, q, reach = Decimal(self.stay) / ONE, Decimal(self.unit) / ONE, self.window - 1
            early = 1 - (1 - p) * (1 - q) ** (reach - 1)
            late = (1 - p) * (1 - (1 - q) ** reach)
            return -round_up((1 - early) * (1 - late) - 1)

    def law(self) -> Law:
        """Return P_d: the chance to be written d slots late, and not to be written over until then; exact."""
        kept = (1 - self.p) * (1 - self.q) ** np.arange(self.window)
        probabilities = np.concatenate([[self.p], self.q * kept[:-1]])
        lost = float(kept[-1])
        return Law(np.arange(self.window), probabilities, self.window, missing=lost, empty=lost)

    def draw(self, words: Keystream) -> "ForwardDraw":
        """Start a release for many values at a time (compiled)."""
        return ForwardDraw(self, words)

    def walk(self, words: Keystream) -> "ForwardWalk":
        """Start a release for one value at a time (plain Python)."""
        return ForwardWalk(self, words)

    def log_probabilities(self, prefixes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each row of sources, −∞ where it cannot be drawn."""
        from whenmask.kernels import dispatch

        rows = np.ascontiguousarray(prefixes, dtype=np.int64)
        logs: NDArray[np.float64] = dispatch.log_forward(rows, self.window, self.p, self.q)
        return logs


class OffsetsDraw(DispatchDraw):
    """The compiled form of both: words to offsets."""

    def __init__(self, mechanism: OneWay, words: Keystream) -> None:
        # Here, not above: only a batch is worth numba's 0.4 s.
        from whenmask.kernels import dispatch, switch

        super().__init__(words, mechanism.window)
        self._forward = dispatch.forward
        self._kernel = switch.offsets
        self._stay = np.uint64(mechanism.stay)
        self._unit = np.uint64(mechanism.unit)

    def _offsets(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        offsets: NDArray[np.int64] = self._kernel(words, self._stay, self._unit)
        return offsets


class BackwardDraw(OffsetsDraw):
    """The compiled form of Backward."""

    def _decide(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        sources: NDArray[np.int64] = np.arange(self._slot, self._slot + words.size) - self._offsets(words)
        return sources.clip(min=-1, out=sources)


class ForwardDraw(OffsetsDraw):
    """The compiled form of Forward."""

    def _decide(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        sources: NDArray[np.int64] = self._forward(self._offsets(words), self._slot, self._ring)
        return sources


class OffsetsWalk(DispatchWalk):
    """The plain form of both: a word to an offset."""

    def __init__(self, mechanism: OneWay, words: Keystream) -> None:
        super().__init__(words, mechanism.window)
        self._stay = mechanism.stay
        self._unit = mechanism.unit

    def _offset(self, word: int) -> int:
        return 0 if word < self._stay else 1 + (word - self._stay) // self._unit


class BackwardWalk(OffsetsWalk):
    """The plain form of Backward."""

    def _decide(self, slot: int, word: int) -> int:
        return max(slot - self._offset(word), -1)


class ForwardWalk(OffsetsWalk):
    """The plain form of Forward."""

    def _decide(self, slot: int, word: int) -> int:
        ring = self._ring
        ring[(slot + self._offset(word)) % len(ring)] = slot
        place = slot % len(ring)
        source, ring[place] = ring[place], -1
        return source


def claimed_epsilon(unit: int, window: int) -> float:
    """Return 2·ln(p/q), rounded up."""
    with precise():
        return max(0.0, round_up(2 * (Decimal(ONE - (window - 1) * unit) / unit).ln()))
