"""The instruments for finite series: are their ends made as they should be, and what do bare counts prove?

Both look at finished plans only. The first holds `plan(n)` against long plans that are cut down to n values in one
of the two ways that keep a guarantee, because they are functions of the release: closing up (drop what lies
beyond the n values) for mechanisms that release every value once, cutting after n slots for others. The second
counts the plans of a tiny series. It picks, on one half of the draws, the set of releases that tells the two
worlds apart best, and bounds on the other half how likely that set is in each; it needs no stated probability.
"""

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from whenmask.audit.intervals import clopper_pearson, imbalance
from whenmask.audit.losses import NUMBERS, Design
from whenmask.audit.subject import Auditable, Finite, Rows, chunk_key, exchanged, released_once
from whenmask.keystream import Key

# The length of the tiny series: few enough plans to count them all.
TINY = 5
# Plans drawn, and drawn at a time; the slots at the end of a longer series whose sources are compared.
PLANS, CHUNK = 40_000, 2000
LAST = 3
# A longer series goes a little beyond two windows.
LONG_MOST = 200
# A share of long plans that may lack a value without being noticed in a comparison.
RARE = 1e-4


@dataclass(frozen=True)
class Ending:
    """How finite plans are compared.

    Attributes:
        once: Whether the mechanism releases every value once: then ends are closed up, else cut.
        lengths: Of the tiny series and the longer one.
        beyond: Slots drawn beyond the longer one, so that all its values are out.
    """

    once: bool
    lengths: tuple[int, int]
    beyond: int

    def shortened(self, rows: Rows, n: int) -> Rows:
        """Return long plans cut down to `n` values; those that lack a value are left out."""
        if not self.once:
            return rows[:, :n]
        mine = (rows >= 0) & (rows < n)
        full = mine.sum(axis=1) == n
        closed: Rows = rows[full][mine[full]].reshape(-1, n)
        return closed


@dataclass(frozen=True)
class Count:
    """What chunks of finite plans add up to.

    Attributes:
        broken: Plans that are of the wrong length, hold a wrong index, or do not release every value once.
        tiny: How often each plan of the tiny series was drawn: in even chunks, in odd chunks.
        shortened: How often each came of a long plan.
        last: What the last slots of the longer series showed, and so did its middle slot.
        last_shortened: The same of shortened plans.
    """

    broken: int
    tiny: NDArray[np.int64]
    shortened: NDArray[np.int64]
    last: NDArray[np.int64]
    last_shortened: NDArray[np.int64]

    def __add__(self, other: "Count") -> "Count":
        return Count(*(mine + its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True)))


def ending(subject: Auditable, design: Design) -> Ending | None:
    """Return how to compare finite plans, or None if long plans cannot be cut down to them."""
    lengths = (TINY, min(2 * subject.window + 1, LONG_MOST))
    most = max(lengths)
    beyond = design.steps
    while True:
        steps = most + beyond
        size = max(16, min(CHUNK, NUMBERS // steps))
        rows = subject.prefixes(size, steps, key=chunk_key(design.seed, (1 << 23) + steps))
        once = released_once(rows)
        plan = Ending(once, lengths, beyond if once else 0)
        if not once:
            cut = rows[:, :most]
            return plan if all(((cut[:, :n] >= -1) & (cut[:, :n] < n)).all() for n in lengths) else None
        if plan.shortened(rows, most).shape[0] >= size * (1 - RARE):
            return plan
        beyond *= 4
        if beyond > NUMBERS:
            return None


def counted(subject: Finite, design: Design, how: Ending, chunk: int, size: int) -> Count:
    """Draw one chunk of finite plans, and as many long ones, and count them."""
    key = chunk_key(design.seed, (1 << 22) + chunk)
    tiny, longer = how.lengths
    broken, samples = 0, []
    for n in how.lengths:
        plans = [_planned(subject, n, key, trial) for trial in range(size)]
        good = [plan for plan in plans if plan.shape == (n,) and _sound(plan, how.once)]
        broken += size - len(good)
        samples.append(np.array(good, dtype=np.int64).reshape(-1, n))
    long = subject.prefixes(size, longer + how.beyond, key=chunk_key(design.seed, (1 << 22) + (1 << 21) + chunk))
    halves = np.zeros((2, (tiny + 1) ** tiny), dtype=np.int64)
    halves[chunk % 2] = _census(samples[0])
    return Count(
        broken,
        halves,
        _census(how.shortened(long, tiny)),
        _ends(samples[1]),
        _ends(how.shortened(long, longer)),
    )


def _planned(subject: Finite, n: int, key: Key, trial: int) -> NDArray[np.int64]:
    """Return a finite plan, or an empty one where the mechanism cannot even make one."""
    try:
        source: NDArray[np.int64] = np.asarray(subject.plan(n, key=key, series=(n, trial), run="audit").source)
    except (ValueError, IndexError):
        return np.empty(0, dtype=np.int64)
    return source


def summed(counts: list[Count]) -> Count:
    """Return the count of all chunks."""
    return reduce(lambda one, other: one + other, counts)


def _sound(plan: NDArray[np.int64], once: bool) -> bool:
    if once:
        return bool((np.sort(plan) == np.arange(plan.size)).all())
    return bool(((plan >= -1) & (plan < plan.size)).all())


def _census(plans: Rows) -> NDArray[np.int64]:
    """Return how often each plan is there, each known by a number."""
    n = TINY
    return np.bincount((plans + 1) @ (n + 1) ** np.arange(n), minlength=(n + 1) ** n)


def _ends(plans: Rows) -> NDArray[np.int64]:
    """Return how often the last few slots, and the middle one, show each value."""
    n = plans.shape[1]
    slots = [*range(n - LAST, n), n // 2]
    return np.concatenate([np.bincount(plans[:, slot] + 1, minlength=n + 1) for slot in slots])


def end_rule(count: Count, how: Ending, level: float) -> str | None:
    """Return what is wrong with the ends of finite series."""
    if count.broken:
        wrong = "do not release every value once" if how.once else "are of a wrong length or hold a wrong index"
        return f"{count.broken:,} finite plans {wrong}"
    chance = 2 * min(
        imbalance(count.tiny.sum(axis=0), count.shortened), imbalance(count.last, count.last_shortened)
    )
    if chance > level:
        return None
    rule = "closed up" if how.once else "cut"
    return (
        f"plans of {how.lengths[0]} or {how.lengths[1]} values differ from longer ones {rule} (p ≤ {chance:.1g})"
    )


def counting(count: Count, window: int, epsilon: float, level: float) -> tuple[float, tuple[int, int]]:
    """Return a lower end for δ(ε) of a tiny series that uses nothing but counts, and the pair it was found at."""
    codes = np.array(np.unravel_index(np.arange((TINY + 1) ** TINY), (TINY + 1,) * TINY)[::-1]).T - 1
    pairs = [(i, j) for i in range(TINY) for j in range(i + 1, min(i + window, TINY))]
    chosen_on, proved_on = count.tiny
    total = int(proved_on.sum())
    best = (0.0, pairs[0])
    for i, j in pairs:
        other = (exchanged(codes, i, j) + 1) @ (TINY + 1) ** np.arange(TINY)
        telling = chosen_on > math.exp(min(epsilon, 700.0)) * chosen_on[other]
        low, _ = clopper_pearson(int(proved_on[telling].sum()), total, level / len(pairs))
        _, high = clopper_pearson(int(proved_on[other[telling]].sum()), total, level / len(pairs))
        best = max(best, (low - math.exp(min(epsilon, 700.0)) * high, (i, j)))
    return best
