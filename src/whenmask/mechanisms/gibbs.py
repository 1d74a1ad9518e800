"""The Gibbs law behind PureSwitch: its weights, its eigenvalue, and the best parameters for a budget.

With x = e^(−2θ) and c = e^(−a) the step weights from height h are those of docs/guarantees.md, Eq. (3):

  T[h, h] = x^h·(1 + 2hc),   T[h, h+1] = x^(h+1)·c,   T[h, h−1] = x^(h−1)·h·(1 + (h−1)c),

and a choice of weight w that leads to height h' has probability w·ψ(h') / (λ·ψ(h)), with Tψ = λψ.

A release must be the same on every machine, so the integers must be too. Hence nothing here that decides an
integer calls a library whose last digit may differ (LAPACK, a sum in an unstated order, `exp` and `log` of the
C library): only +, −, ×, ÷ and √ on floats, which IEEE 754 fixes to the bit, and `decimal`, which is correctly
rounded by its specification. The recursions run from both ends towards the most likely height, where they are
stable, and what remains of λ's error is one residual, which is measured and goes into epsilon (heights.py).
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
from whenmask.guarantee import precise

# Heights at which x^h is smaller play no part at all; their squares must not underflow.
VANISHING = 1e-120
# The largest typical height, 1/(2θ), for which the tables are of a sane size (200 MB).
HIGHEST = 1 << 20
# The 2θ at which it is just below that.
LEAST_PER_SLOT = (1 + 2.0**-18) / HIGHEST
# Beyond this budget nothing is left to gain, and probabilities would fall below what the integers hold.
LARGEST_EPSILON = 50.0
# Below this budget a = 0 is best for every window; above it the other minimum is searched for.
SPARSE_EPSILON = 1.5
# A first move has a probability of about e^(−a−2θ), which the integers hold while a + 2θ is at most this.
RARITY = 55.0
# The 2θ that are chosen stay below this: more gains less than 0.2%, and second moves would be too rare.
STEEPEST = 7.0
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
    ratios: list[float] = []
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


def shrink(exponent: float) -> float:
    """Return e^(−exponent), correctly rounded on every machine."""
    with precise():
        return float((-Decimal(exponent)).exp())


def enough_heights(x: float) -> int:
    """Return a number of heights beyond which nothing happens: the typical height and many deviations more.

    Raises:
        ParameterError: It is beyond what tables hold.
    """
    if x >= 1 or 1 / (1 - x) > HIGHEST:
        hint = "ask for a larger epsilon or a smaller window: about window/epsilon values would wait at a time"
        raise ParameterError("the typical height would be beyond what tables hold", f"e^(−2θ)={x!r}", hint)
    typical = int(1 / (1 - x))
    return typical + 16 * math.isqrt(typical) + 64


@lru_cache(maxsize=256)
def choose_parameters(epsilon: float, window: int) -> tuple[float, float]:
    """Return the (θ, a) with the least expected displacement among those that guarantee `epsilon`.

    Along a + 2θ(window − 1) = ε the cost has up to two local minima: one at a = 0, where paths are many, and one
    near 2θ(window − 1) = 2, where most values stay. Both are tried; the second by bisection on a grid.
    """
    spread = min(epsilon, LARGEST_EPSILON)
    # Kept back for rounding: what `Table.epsilon` adds is less than this.
    spread -= (window + 1) * (2.0**-44 + 2.0**-49 * (1 + math.sqrt(window / spread))) + 2.0**-36
    least = LEAST_PER_SLOT * (window - 1)
    if spread < least:
        hint = f"at window={window}, {1.02 * least + 1e-9:.3g} works; below, too many values would wait at a time"
        raise ParameterError("`epsilon` is too small for the window", f"epsilon={epsilon:g}", hint)

    def parameters(slope: float) -> tuple[float, float]:
        return slope / (2 * (window - 1)), spread - slope

    @cache
    def cost(slope: float) -> float:
        theta, a = parameters(slope)
        x = shrink(2 * theta)
        return solve(Weights.of(x, shrink(a), enough_heights(x))).mean

    dense = min(spread, (window - 1) * min(STEEPEST, (RARITY - spread) / 2))
    if spread <= SPARSE_EPSILON:
        return parameters(dense)
    low, high = (round(bound / GRID) for bound in (SEARCHED[0], min(SEARCHED[1], dense)))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if cost(middle * GRID) <= cost((middle + 1) * GRID) else (middle + 1, high)
    return parameters(min(min(low * GRID, dense), dense, key=cost))
