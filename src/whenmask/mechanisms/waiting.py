"""How long slots and values of PureSwitch wait: its law of displacement and its latency.

Tag a slot that is open at height h. A step that fills an open slot picks each with the same probability, so the
tag goes with probability g(h) = Pr[fill, merge or close | h] / h, and the height moves on. The kernel K of the
height while the tag is there is tridiagonal and reversible for m(h) = h·π(h), and the heights at which a slot is
left open in the first place are distributed as m·g. So the probability that a slot waits d steps is a mixture,

  P_(−d) = ⟨m·g, K^(d−1)·g⟩ = Σ_i w_i·μ_i^(d−1)  with all w_i ≥ 0,

over the eigenvalues μ_i of K, free of cancellation at any d. A permutation and its inverse have the same weight,
so P_d = P_(−d).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError
from whenmask.kernels.kinds import CLOSE, FILL, MERGE, NEW, STAY, TAKE
from whenmask.law import Law
from whenmask.mechanisms.heights import Table

# Heights with less stationary mass than this, relatively, are left out here (not in the sampler).
IGNORED = 1e-20
# The law is cut where less than this is left, on both sides together.
REST = 1e-12
# The widest law that is worth its memory, in displacements on one side.
WIDEST = 1 << 22
# So many of the largest eigenvalues matter for long waits.
SLOWEST = 16
# A part of the mixture smaller than this is dropped from a series.
SPENT = 1e-24
# Up to this greatest height the latency is computed exactly.
EXACT_HEIGHT = 128
# The tail of the latency is computed down to this.
TAIL = 1e-7
# Points at which the tail is computed where it is not exact.
POINTS = 1 << 12

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Modes:
    """The mixture of geometric laws that a slot's wait is.

    Attributes:
        weights: w_i.
        rates: μ_i.
    """

    weights: Floats
    rates: Floats

    def lasting(self, wait: float, order: int = 1) -> float:
        """Return Σ_(d > wait) P_(−d): that a slot waits longer; at order 2, how many slots do at any moment."""
        return float((self.weights * self.rates**wait / (1 - self.rates) ** order).sum())

    def beyond(self, rest: float, order: int = 1) -> int:
        """Return the least wait that is outlasted by less than `rest`."""
        low, high = 0, 1
        while self.lasting(high, order) >= rest:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.lasting(middle, order) >= rest else (low, middle)
        return high

    def series(self, size: int) -> Floats:
        """Return P_(−1) … P_(−size), a block at a time."""
        weights, rates, block = self.weights, self.rates, 1024
        pieces, powers = [], np.empty((0, block))
        for _ in range(0, size, block):
            alive = weights > SPENT
            weights, rates = weights[alive], rates[alive]
            powers = rates[:, None] ** np.arange(block) if len(powers) != rates.size else powers
            pieces.append(weights @ powers)
            weights = weights * rates**block
        return np.concatenate(pieces)[:size]


def modes(table: Table, most: int | None = None) -> Modes:
    """Return the mixture of a table's law, or the part of it with the largest eigenvalues."""
    from scipy.linalg import eigh_tridiagonal  # slow to import, and streams do not need it

    h, weight, stays, up, down = _tagged(table)
    fills = table.probabilities[[FILL, MERGE, CLOSE]].sum(axis=0)[h] / h
    least = 0 if most is None else max(0, h.size - most)
    beside = np.sqrt(up[:-1] * down[1:])
    rates, vectors = eigh_tridiagonal(stays, beside, select="i", select_range=(least, h.size - 1))
    return Modes((np.sqrt(weight) * fills @ vectors) ** 2, rates.astype(np.float64))


def _tagged(table: Table) -> tuple[NDArray[np.int64], Floats, Floats, Floats, Floats]:
    """Return the heights in play, h·π(h), and the probabilities to stay and move while a tagged slot is open."""
    mass = table.stationary[1:]
    h = 1 + np.flatnonzero(mass > IGNORED * mass.max())
    kinds = table.probabilities[:, h]
    down = kinds[CLOSE] + kinds[MERGE]
    stays = kinds[STAY] + kinds[TAKE] + kinds[FILL] * (h - 1) / h
    return h, h * table.stationary[h], stays, kinds[NEW], down * (h - 1) / h


def displacement_law(table: Table, window: int) -> Law:
    """Return P_d, cut where less than 1e-12 is left.

    Raises:
        ParameterError: So many displacements are likely that the law would not fit in memory.
    """
    size = modes(table, SLOWEST).beyond(REST / 2)
    if size > WIDEST:
        hint = "expected_cost() and latency need no such table"
        raise ParameterError("the law has too many displacements to be listed", f"{2 * size + 1}", hint)
    waits = modes(table)
    aside = waits.series(size)
    here = float(table.stationary @ table.probabilities[STAY])
    probabilities = np.concatenate([aside[::-1], [here], aside])
    basis = "exact up to 1e-12"
    return Law(np.arange(-size, size + 1), probabilities, window, basis, rest=2 * waits.lasting(size))


@dataclass(frozen=True, eq=False)
class Waits:
    """How many further values arrive before a slot is released, away from the ends of a series.

    A slot is released when it and all slots before it are filled.

    Attributes:
        waits: Numbers of values, in increasing order, from 0 on.
        tail: For each of them the probability that a slot waits longer.
        mean: The mean wait.
        basis: How the numbers were got.
    """

    waits: Floats
    tail: Floats
    mean: float
    basis: str

    def quantile(self, probability: float) -> int:
        """Return the least wait that is not outlasted with more than 1 − `probability`."""
        if not 0 <= probability <= 1 - TAIL:
            hint = "ask for a probability such as 0.99"
            raise ParameterError("`probability` must be from 0 to 1 − 1e-7", f"{probability!r}", hint)
        return math.ceil(float(self.waits[int(np.argmax(self.tail <= 1 - probability))]))


@lru_cache(maxsize=32)
def slot_waits(table: Table) -> Waits:
    """Return how long slots wait for their release.

    Up to height 128 it is exact, from the chain of the height and the number of slots that were open when the
    slot's turn came. Above, the number of those still open after a while is taken as a Poisson number with its
    exact mean, which moves mean and quantiles by less than 1%.
    """
    if table.top <= EXACT_HEIGHT:
        tail = _exact_tail(table)
        return Waits(np.arange(tail.size, dtype=np.float64), tail, float(tail.sum()), "exact")
    waits = modes(table, SLOWEST)
    grid = np.linspace(0, waits.beyond(TAIL / 2, 2), POINTS)
    tail = np.array([-math.expm1(-waits.lasting(wait, 2)) for wait in grid])
    # A sum over whole waits is the integral and half of the first term (Euler and Maclaurin).
    mean = float(np.trapezoid(tail, grid) + tail[0] / 2)
    return Waits(grid, tail, mean, "approximate, off by less than 1%")


def _exact_tail(table: Table) -> Floats:
    """Return Pr[wait > l] for l = 0, 1, … from the law of (height, slots still open of those that were)."""
    new, fill, take, stay = (table.probabilities[kind] for kind in (NEW, FILL, TAKE, STAY))
    both = table.probabilities[MERGE] + table.probabilities[CLOSE]
    h = np.arange(table.top + 1)
    m = h[:, None]
    hit = np.divide(m, h, out=np.zeros((h.size, h.size)), where=h > 0)
    hit[m > h] = 0.0
    # law[m, h]: m of the old slots are open at height h.
    law = np.diag(table.stationary)
    law[0] = 0.0
    tail = [law.sum()]
    while tail[-1] > TAIL:
        filled = law * hit * fill
        closed = law * hit * both
        after = law * (stay + take + (1 - hit) * fill)
        after[:-1] += filled[1:]
        after[:, 1:] += (law * new)[:, :-1]
        after[:, :-1] += (law * (1 - hit) * both)[:, 1:]
        after[:-1, :-1] += closed[1:, 1:]
        after[0] = 0.0
        law = after
        tail.append(law.sum())
    return np.array(tail)


def early_tails(table: Table) -> Iterator[float]:
    """Return bounds of sup_v Pr[value v is released more than x slots early], for x = 0, 1, 2 and so on.

    That happens when step v fills a slot that was open x + 1 steps before. From height h this has probability
    F_x(h) = h·(K^x·g)(h). The height at any step has a density against π that decreases (the chain is monotone and
    starts at 0), so it is a mixture of the laws of π given h ≤ m, and the mean of F_x is at most the largest of
    its means under those.
    """
    h = np.arange(1, table.top + 1)
    kinds = table.probabilities[:, 1:]
    both = kinds[CLOSE] + kinds[MERGE]
    stays = kinds[STAY] + kinds[TAKE] + kinds[FILL] * (h - 1) / h
    tagged = (kinds[FILL] + both) / h
    down = (both * (h - 1) / h)[1:]
    up = kinds[NEW][:-1]
    below = np.cumsum(table.stationary)[1:]
    counted = below > 1e-250
    while True:
        chance = h * tagged
        means = np.cumsum(table.stationary[1:] * chance)[counted] / below[counted]
        yield min(1.0, (1 + 1e-6) * float(max(means.max(), chance[~counted].max(initial=0.0))))
        after = stays * tagged
        after[:-1] += up * tagged[1:]
        after[1:] += down * tagged[:-1]
        tagged = after


def timing_delta(table: Table, window: int, delay: int) -> float:
    """Return what watching the clock adds to delta when slots are shown `delay` values later (Theorem 7)."""
    if delay < window - 1:
        return 1.0
    tails = list(islice(early_tails(table), delay + 1))
    return min(1.0, tails[delay - (window - 1)] + tails[delay])


def safe_delay(table: Table, window: int, delta: float) -> int:
    """Return the least delay with which watching the clock adds at most `delta`."""
    tails: list[float] = []
    for tail in early_tails(table):
        tails.append(tail)
        if len(tails) >= window and tails[-window] + tail <= delta:
            break
    return len(tails) - 1
