"""The instrument that looks for randomness used twice: in two contexts, or later in the same series.

A repeat is damning only if it was unlikely. Suppose a stretch of a plan looks just like an earlier one that does
not overlap it. Given all that came before it, its probability to do so is that of its own steps; so the expected
number of repeats whose probability is below c is at most c times the number of pairs of stretches. The same holds
for whole plans of different contexts.
"""

import math

import numpy as np
from numpy.typing import NDArray

from whenmask.audit.losses import Design, Tally
from whenmask.audit.subject import Auditable, Rows, chunk_key

# The length of the series that are searched, and how many: each in a context of its own.
SLOTS, SERIES = 20_000, 3
# Stretches are long enough for a repeat to have this times the surprise that it needs, on average.
AMPLE = 3
# Repeats whose probability is worked out.
LOOKED_AT = 50
# An odd number with no pattern in its bits: the base of the hash of a stretch, modulo 2^64.
BASE = 0x9E3779B97F4A7C15


def plans_alike(tally: Tally, level: float) -> str | None:
    """Return what is wrong if unlikely plans were drawn twice, in different contexts."""
    order = np.lexsort((tally.logs, tally.digests))
    digests, logs = tally.digests[order], tally.logs[order]
    twice = np.flatnonzero(digests[1:] == digests[:-1])
    pairs = tally.trials * (tally.trials - 1) / 2
    worst = logs[1:][twice].min(initial=0.0)
    if math.log(max(pairs, 1.0)) + worst > math.log(level):
        return None
    return f"plans of probability down to e^{worst:.0f} came twice in {tally.trials:,} contexts"


def stretches_alike(subject: Auditable, design: Design, level: float) -> tuple[str | None, str]:
    """Return what is wrong if an unlikely stretch of a long plan came twice, and what was searched."""
    rows = subject.prefixes(SERIES, SLOTS, key=chunk_key(design.seed, (1 << 23) - 1))
    logs = subject.log_probabilities(rows)
    for one in range(SERIES):
        for other in range(one):
            if (rows[one] == rows[other]).all() and logs[one] < math.log(level):
                return f"two contexts got the same {SLOTS:,} slots", ""
    if design.view.undecided:
        return None, f"{SERIES} contexts of {SLOTS:,} slots; not within a series, where slots can be undecided"
    surprise = math.log((SERIES * SLOTS) ** 2 / 2 / level)
    length = math.ceil(AMPLE * surprise * SERIES * SLOTS / max(-float(logs.sum()), 1e-9))
    if length > SLOTS // 4 or not np.isfinite(logs).all():
        return None, f"{SERIES} contexts of {SLOTS:,} slots; not within a series, as the plans hardly vary"
    worst = _most_surprising(subject, rows, length)
    if worst > -surprise:
        return None, f"all stretches of {length} slots in {SERIES} contexts of {SLOTS:,}"
    return f"a stretch of {length} slots of probability e^{worst:.0f} came twice", ""


def _most_surprising(subject: Auditable, rows: Rows, length: int) -> float:
    """Return the smallest log-probability of a stretch that looks like an earlier one, 0 if there is none."""
    moved = rows - np.arange(rows.shape[1])
    hashes = np.concatenate([_hashed(row, length) for row in moved])
    starts = rows.shape[1] - length + 1
    order = np.argsort(hashes, kind="stable")
    later, earlier = order[1:], order[:-1]
    same = hashes[later] == hashes[earlier]
    # In one series they must not overlap.
    apart = (later // starts != earlier // starts) | (later - earlier >= length)
    found = later[same & apart]
    counts = np.cumsum(np.pad((moved != 0).astype(np.int64), ((0, 0), (1, 0))), axis=1)
    series, start = found // starts, found % starts
    lively = np.argsort(counts[series, start] - counts[series, start + length])[:LOOKED_AT]
    worst = 0.0
    for which, first in zip(series[lively], start[lively], strict=True):
        row = rows[which : which + 1]
        before = float(subject.log_probabilities(row[:, :first].copy())[0]) if first else 0.0
        worst = min(worst, float(subject.log_probabilities(row[:, : first + length].copy())[0]) - before)
    return worst


def _hashed(moved: NDArray[np.int64], length: int) -> NDArray[np.uint64]:
    """Return a hash of each stretch: Σ moved[s + i]·BASE^i modulo 2^64."""
    powers = np.full(moved.size, BASE, dtype=np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    inverse = np.full(moved.size, pow(BASE, -1, 1 << 64), dtype=np.uint64)
    inverse[0] = 1
    inverse = np.multiply.accumulate(inverse)
    sums = np.concatenate([np.zeros(1, np.uint64), np.add.accumulate(moved.astype(np.uint64) * powers)])
    stretch: NDArray[np.uint64] = (sums[length:] - sums[:-length]) * inverse[: moved.size - length + 1]
    return stretch
