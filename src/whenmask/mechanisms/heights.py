"""The heights of PureSwitch as a table of integers: what words are compared with, and what that guarantees.

Probabilities are integers over 2^128, not 2^64: with a large epsilon the choices that move a value are rarer than
2^-64, and each must be precise relatively to itself, because the guarantee is about ratios.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError
from whenmask.guarantee import precise, round_up
from whenmask.kernels.guide import Guide
from whenmask.kernels.kinds import CLOSE, FILL, MERGE, NEW, STAY, TAKE
from whenmask.mechanisms.gibbs import (
    RARITY,
    Floats,
    Solution,
    Weights,
    ascend,
    descend,
    enough_heights,
    powers,
    shrink,
    solve,
)

# Heights are cut where (window − 1) times the stationary mass at the last one is below this.
NEGLIGIBLE = 1e-30
# ... and in any case before a new path would be rarer than this, so that its integer over 2^128 stays precise.
RAREST = 2.0**-80
# A stored probability is within this of its formula, relatively; docs/guarantees.md counts the roundings.
ROUNDING = 2.0**-46
# The guarantee holds for runs of up to this many steps, including those after the end of the series.
LIFETIME = 1 << 48


@dataclass(frozen=True, eq=False)
class Table:
    """The law in use: for each height the probabilities of the six kinds, as integers over 2^128.

    Attributes:
        x: e^(−2θ) as used, exactly.
        c: e^(−a) as used, exactly.
        eigenvalue: λ, the reference that the errors are measured against.
        probabilities: For each kind and height; what `stacked` holds, as floats.
        stacked: For each height and each kind but the last, the integers of the kinds up to it added up, as two
            words: the upper ones in `stacked[0]`, the lower ones in `stacked[1]`.
        error: An upper bound of |ln(stored probability / exact form)| over all kinds and heights.
        stationary: The stationary law of the stored chain on the heights 0 … H.
    """

    x: float
    c: float
    eigenvalue: float
    probabilities: Floats
    stacked: NDArray[np.uint64]
    error: float
    stationary: Floats

    @property
    def top(self) -> int:
        """The greatest height, H."""
        return self.stationary.size - 1

    @cached_property
    def rows(self) -> "Rows":
        """The upper words of `stacked`, for a walk."""
        return Rows(self.stacked[0])

    @cached_property
    def guide(self) -> Guide:
        """What words choose, for many steps at a time."""
        return Guide.of(self.stacked, self.stationary)

    @property
    def mean(self) -> float:
        """The mean height: half the expected displacement."""
        return float(self.stationary @ np.arange(self.top + 1))

    def epsilon(self, window: int) -> float:
        """Return a + 2θ(window − 1) with everything that rounding can add to it, rounded up (Theorem 6)."""
        choices = max(self.top, self.top * (self.top - 1))
        with precise():
            exact = -Decimal(self.c).ln() - (window - 1) * Decimal(self.x).ln()
            kinds = (window + 1) * 2 * Decimal(self.error)
            # N of the theorem is `LIFETIME` + window.
            indices = Decimal(LIFETIME + 2 * window + 1) * choices / ((1 << 128) - choices)
            return round_up(exact + kinds + indices)

    def delta(self, window: int) -> float:
        """Return (window − 1) times the stationary mass of the greatest height, rounded up (Theorem 6)."""
        # The float computation of the stationary law is off by less than 1e-6 of each entry.
        return (window - 1) * float(self.stationary[-1]) * (1 + 1e-6)


class Rows(dict[int, tuple[int, ...]]):
    """Stacked words of each height behind a −1, as plain numbers, made when a height is first reached."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, height: int) -> tuple[int, ...]:
        row = self[height] = (-1, *self._words[height].tolist())
        return row


@lru_cache(maxsize=16)
def tabulate(theta: float, a: float, window: int) -> Table:
    """Return the integers of the chain with the given parameters.

    Raises:
        ParameterError: The parameters ask for heights beyond `HIGHEST`, or for moves too rare for the integers.
    """
    if a + 2 * theta > RARITY:
        hint = f"make a + 2θ at most {RARITY:g}; then a value moves about once in e^{RARITY:g} steps"
        raise ParameterError("with these parameters no value would ever move", f"theta={theta:g}, a={a:g}", hint)
    x, c = shrink(2 * theta), shrink(a)
    weights = Weights.of(x, c, enough_heights(x))
    solution = solve(weights)
    top = _top(weights, solution, window)
    up = _ratios(weights, solution, top)
    power = powers(x, top + 2)
    h = np.arange(top + 1, dtype=np.float64)
    here = power[:-1] / solution.eigenvalue
    fewer = np.zeros(top + 1)  # of one choice that leads one down, but for c
    fewer[1:] = power[:-2] / up / solution.eigenvalue
    terms = np.zeros((6, top + 1))
    terms[STAY] = here
    terms[FILL] = terms[TAKE] = h * c * here
    terms[NEW, :-1] = power[1:-1] * c * up / solution.eigenvalue
    terms[CLOSE] = h * fewer
    terms[MERGE] = h * (h - 1) * c * fewer
    return _stored(x, c, solution.eigenvalue, terms)


def _top(weights: Weights, solution: Solution, window: int) -> int:
    """Return the first height at which the stationary mass is negligible, or a step further up too rare."""
    last = weights.same.size - 1
    _, ratios = descend(solution.eigenvalue, weights, solution.peak, last)
    mass, height = 1.0 / solution.mass, solution.peak
    while height < last and (window - 1) * mass > NEGLIGIBLE:
        ratio = ratios[last - height - 1]
        up, down = float(weights.up[height]), float(weights.down[height + 1])
        if up * ratio < RAREST * solution.eigenvalue:
            break
        mass *= ratio * ratio * up / down
        height += 1
    return height


def _ratios(weights: Weights, solution: Solution, top: int) -> Floats:
    """Return ψ(h+1)/ψ(h) for h = 0 … top − 1."""
    _, above = descend(solution.eigenvalue, weights, solution.peak, top)
    _, below = ascend(solution.eigenvalue, weights, 0, solution.peak)
    return np.concatenate([1 / np.array(below), above[::-1]])


def _stored(x: float, c: float, eigenvalue: float, terms: Floats) -> Table:
    """Turn the terms of the rows, which add up to one but for rounding, into integers that do so exactly.

    The likeliest kind of each row takes what the others leave. A term carries at most 7 roundings and each sum of
    six terms 5 more, so a quotient is off by at most 8·2^-53 and the difference of the row's sum from one; the
    likeliest kind, with at least a sixth of the whole, by at most 120·2^-53 and the same difference.
    """
    total = terms[0] + terms[1] + terms[2] + terms[3] + terms[4] + terms[5]
    shares = terms / total
    likeliest = shares.argmax(axis=0)[None]
    others = shares.copy()
    np.put_along_axis(others, likeliest, 0.0, axis=0)
    scaled = others * 2.0**64
    upper = scaled.astype(np.uint64)
    lower = ((scaled - upper) * 2.0**64).astype(np.uint64)
    left, right = _added(upper, lower)
    np.put_along_axis(lower, likeliest, -right[-1:], axis=0)
    np.put_along_axis(upper, likeliest, ~left[-1:] + (right[-1:] == 0), axis=0)
    smallest = float(shares[shares > 0].min())
    error = float(np.abs(total - 1).max()) + ROUNDING + 2.0**-128 / smallest
    if not (upper | lower)[shares > 0].all():
        raise ParameterError("with these parameters a choice would be too rare for the integers in use")
    stacked = np.stack(_added(upper[:STAY], lower[:STAY]))
    stacked = np.ascontiguousarray(stacked.transpose(0, 2, 1))
    probabilities = upper * 2.0**-64 + lower * 2.0**-128
    return Table(x, c, eigenvalue, probabilities, stacked, error, _stationary(probabilities))


def _added(upper: NDArray[np.uint64], lower: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the running sums, along the first axis, of integers of two words each."""
    high, low = upper.copy(), lower.copy()
    for i in range(1, len(high)):
        low[i] += low[i - 1]
        high[i] += high[i - 1] + (low[i] < low[i - 1])
    return high, low


def _stationary(probabilities: Floats) -> Floats:
    """Return the stationary law of the chain of heights, by detailed balance from its peak to both sides."""
    up = probabilities[NEW, :-1]
    down = (probabilities[CLOSE] + probabilities[MERGE])[1:]
    peak = int(np.count_nonzero(np.logical_and.accumulate(up > down)))
    above = np.cumprod(up[peak:] / down[peak:])
    below = np.cumprod(down[:peak][::-1] / up[:peak][::-1])[::-1]
    masses = np.concatenate([below, [1.0], above])
    stationary: Floats = masses / masses.sum()
    return stationary
