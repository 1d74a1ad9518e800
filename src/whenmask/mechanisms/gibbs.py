"""The chain of heights behind PureSwitch: its eigenvalue, its probabilities as integers, the best parameters.

With x = e^(−2θ) and c = e^(−a) the step weights from height h are those of docs/guarantees.md, Eq. (3):

  T[h, h] = x^h·(1 + 2hc),   T[h, h+1] = x^(h+1)·c,   T[h, h−1] = x^(h−1)·h·(1 + (h−1)c),

and a choice of weight w that leads to height h' has probability w·ψ(h') / (λ·ψ(h)), with Tψ = λψ.

A release must be the same on every machine, so the integers must be too. Hence nothing here that decides an
integer calls a library whose last digit may differ (LAPACK, a sum in an unstated order, `exp` and `log` of the
C library): only +, −, ×, ÷ and √ on floats, which IEEE 754 fixes to the bit, and `decimal`, which is correctly
rounded by its specification. The recursions run from both ends towards the most likely height, where they are
stable, and what remains of λ's error is one residual, which is measured and goes into epsilon.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from itertools import accumulate, repeat
from operator import mul

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError
from whenmask.guarantee import precise, round_up
from whenmask.kernels.kinds import CLOSE, FILL, MERGE, NEW, STAY, TAKE

# Heights are cut where (window − 1) times the stationary mass at the last one is below this.
NEGLIGIBLE = 1e-30
# ... and in any case before a new path would be rarer than this, so that its integer over 2^128 stays precise.
RAREST = 2.0**-80
# Heights at which x^h is smaller play no part at all; their squares must not underflow.
VANISHING = 1e-120
# The largest typical height, 1/(2θ), for which the tables are of a sane size (200 MB).
HIGHEST = 1 << 20
# A stored probability is within this of its formula, relatively; docs/guarantees.md counts the roundings.
ROUNDING = 2.0**-46
# The guarantee holds for runs of up to this many steps, including those after the end of the series.
LIFETIME = 1 << 48
# Beyond this budget nothing is left to gain, and probabilities would fall below what the integers hold.
LARGEST_EPSILON = 50.0
# Below this budget a = 0 is best for every window; above it the other minimum is searched for.
SPARSE_EPSILON = 1.5
# 2θ stays below both of these: steeper gains less than 0.2%, and makes choices too rare for the integers.
STEEPEST = 7.0
RARITY = 55.0
# The search runs over 2θ(window − 1) in these steps, between these bounds.
GRID = 1 / 64
SEARCHED = (0.5, 4.0)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Weights:
    """The step weights T on the heights 0 … size − 1, as floats that IEEE arithmetic fixes.

    Attributes:
        x: e^(−2θ), a float that is taken as exact.
        c: e^(−a), likewise.
        same: T[h, h].
        up: T[h, h+1].
        down: T[h, h−1]; 0 at h = 0.
    """

    x: float
    c: float
    same: Floats
    up: Floats
    down: Floats

    @classmethod
    def of(cls, x: float, c: float, size: int) -> "Weights":
        """Return the weights on `size` heights, or on fewer where those beyond have vanished."""
        power = powers(x, size + 1)
        power = power[: int(np.count_nonzero(power > VANISHING))]
        h = np.arange(power.size - 1, dtype=np.float64)
        below = np.concatenate([[0.0], power[:-2]])
        return cls(x, c, power[:-1] * (1 + 2 * h * c), power[1:] * c, below * (h * (1 + (h - 1) * c)))

    @property
    def peak(self) -> int:
        """A height at which the stationary law is not small: where the weights of a step are largest."""
        together = self.same.copy()
        together[:-1] += 2 * np.sqrt(self.up[:-1] * self.down[1:])
        return int(together.argmax())


def powers(x: float, size: int) -> Floats:
    """Return x^0 … x^(size−1), each within three roundings."""
    stride = math.isqrt(size) + 1
    with precise():
        base = Decimal(x)
        fine = [float(power) for power in _progression(base, stride)]
        coarse = [float(power) for power in _progression(base**stride, stride)]
    return np.outer(coarse, fine).ravel()[:size]


def _progression(base: Decimal, size: int) -> Iterator[Decimal]:
    return accumulate(repeat(base, size - 1), mul, initial=Decimal(1))


@dataclass(frozen=True)
class Side:
    """What a recursion towards the peak found on one side of it.

    Attributes:
        ratio: ψ beside the peak over ψ at the peak; −1 if the eigenvalue tried is too small.
        mass: The stationary mass on this side, over that of the peak.
        moment: The same, weighted with the distance from the peak.
    """

    ratio: float
    mass: float
    moment: float


def descend(eigenvalue: float, weights: Weights, peak: int, top: int) -> tuple[Side, list[float]]:
    """Run the recursion from height `top` down to the peak; return also ψ(h)/ψ(h−1), highest h first."""
    here, back = slice(peak + 1, top + 1), slice(peak, top)
    same, down = weights.same[here][::-1].tolist(), weights.down[here][::-1].tolist()
    return _approach(eigenvalue, same, weights.up[here][::-1].tolist(), down, weights.up[back][::-1].tolist())


def ascend(eigenvalue: float, weights: Weights, bottom: int, peak: int) -> tuple[Side, list[float]]:
    """Run the recursion from height `bottom` up to the peak; return also ψ(h)/ψ(h+1), lowest h first."""
    here, back = slice(bottom, peak), slice(bottom + 1, peak + 1)
    same, up = weights.same[here].tolist(), weights.up[here].tolist()
    return _approach(eigenvalue, same, weights.down[here].tolist(), up, weights.down[back].tolist())


def _approach(
    eigenvalue: float, same: list[float], away: list[float], near: list[float], back: list[float]
) -> tuple[Side, list[float]]:
    """Solve the rows of Tψ = λψ one after the other, each for the next ψ nearer to the peak.

    A row reads λ = same + away·(ψ farther / ψ here) + near·(ψ nearer / ψ here). `back` is the weight from the
    next nearer height to here: by reversibility π(here)/π(nearer) = (ψ(here)/ψ(nearer))²·back/near.
    """
    ratio = mass = moment = 0.0
    ratios = []
    for stay, leave, come, fetch in zip(same, away, near, back, strict=True):
        gap = eigenvalue - stay - leave * ratio
        if gap <= 0.0:
            return Side(-1.0, 0.0, 0.0), ratios
        ratio = come / gap
        ratios.append(ratio)
        share = ratio * fetch / gap
        moment = share * (1.0 + mass + moment)
        mass = share * (1.0 + mass)
    return Side(ratio, mass, moment), ratios


@dataclass(frozen=True)
class Solution:
    """The largest eigenvalue of the weights, from the heights that carry the stationary mass.

    Attributes:
        eigenvalue: λ.
        mean: The mean height.
        peak: The height that the recursions run to.
        mass: The stationary mass in units of that of the peak.
    """

    eigenvalue: float
    mean: float
    peak: int
    mass: float


def solve(weights: Weights) -> Solution:
    """Find λ by Newton's iteration on the row of the peak, inside a bracket."""
    peak = weights.peak
    reach = 16 * math.isqrt(peak) + 64
    bottom, top = max(0, peak - reach), min(weights.same.size - 1, peak + reach)
    beside = np.sqrt(weights.up[:-1] * weights.down[1:])
    total = weights.same.copy()
    total[:-1] += beside
    total[1:] += beside
    low, high = float(weights.same.max()), float(total.max())
    same, up, down = (float(part[peak]) for part in (weights.same, weights.up, weights.down))
    eigenvalue = high
    while True:
        above, _ = descend(eigenvalue, weights, peak, top)
        below, _ = ascend(eigenvalue, weights, bottom, peak)
        mass = 1.0 + above.mass + below.mass
        if min(above.ratio, below.ratio) < 0:
            low = following = eigenvalue
        else:
            step = (eigenvalue - same - up * above.ratio - down * below.ratio) / mass
            following = eigenvalue - step
            low, high = (low, eigenvalue) if step > 0 else (eigenvalue, high)
            if abs(step) <= 2.0**-51 * eigenvalue:
                return Solution(eigenvalue, peak + (above.moment - below.moment) / mass, peak, mass)
        eigenvalue = following if low < following < high else (low + high) / 2


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
        return self.probabilities.shape[1] - 1

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
            indices = Decimal(LIFETIME + window + 1) * choices / ((1 << 128) - choices)
            return round_up(exact + kinds + indices)

    def delta(self, window: int) -> float:
        """Return (window − 1) times the stationary mass of the greatest height, rounded up (Theorem 6)."""
        # The float computation of the stationary law is off by less than 1e-6 of each entry.
        return (window - 1) * float(self.stationary[-1]) * (1 + 1e-6)


@lru_cache(maxsize=32)
def tabulate(theta: float, a: float, window: int) -> Table:
    """Return the integers of the chain with the given parameters.

    Raises:
        ParameterError: The parameters ask for heights beyond `HIGHEST`, or for moves rarer than `RAREST`.
    """
    x, c = shrink(2 * theta), shrink(a)
    weights = Weights.of(x, c, _enough(x))
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


def shrink(exponent: float) -> float:
    """Return e^(−exponent), correctly rounded on every machine."""
    with precise():
        return float((-Decimal(exponent)).exp())


def _enough(x: float) -> int:
    """Return a number of heights beyond which nothing happens: the typical height and many deviations more."""
    if x >= 1 or 1 / (1 - x) > HIGHEST:
        hint = "ask for a larger epsilon or a smaller window: about window/epsilon values would wait at a time"
        raise ParameterError("the typical height would be beyond what tables hold", f"e^(−2θ)={x!r}", hint)
    typical = int(1 / (1 - x))
    return typical + 16 * math.isqrt(typical) + 64


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
    if height == 0:
        hint = "make theta or a smaller"
        raise ParameterError("with these parameters no value would ever move", f"top height {height}", hint)
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


@lru_cache(maxsize=256)
def choose_parameters(epsilon: float, window: int) -> tuple[float, float]:
    """Return the (θ, a) with the least expected displacement among those that guarantee `epsilon`.

    Along a + 2θ(window − 1) = ε the cost has up to two local minima: one at a = 0, where paths are many, and one
    near 2θ(window − 1) = 2, where most values stay. Both are tried; the second by bisection on a grid.
    """
    spread = min(epsilon, LARGEST_EPSILON)
    # Kept back for rounding: what `Table.epsilon` adds is less than this.
    spread -= (window + 1) * (2.0**-44 + 2.0**-49 * (1 + math.sqrt(window / spread))) + 2.0**-36
    if spread <= 0:
        hint = "ask for a larger epsilon or a smaller window"
        raise ParameterError("`epsilon` is below what rounding alone takes", f"epsilon={epsilon:g}", hint)

    def parameters(slope: float) -> tuple[float, float]:
        return slope / (2 * (window - 1)), spread - slope

    @cache
    def cost(slope: float) -> float:
        theta, a = parameters(slope)
        x = shrink(2 * theta)
        return solve(Weights.of(x, shrink(a), _enough(x))).mean

    dense = min(spread, (window - 1) * min(STEEPEST, (RARITY - spread) / 2))
    if spread <= SPARSE_EPSILON:
        return parameters(dense)
    low, high = (round(bound / GRID) for bound in (SEARCHED[0], min(SEARCHED[1], dense)))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if cost(middle * GRID) <= cost((middle + 1) * GRID) else (middle + 1, high)
    return parameters(min(min(low * GRID, dense), dense, key=cost))
