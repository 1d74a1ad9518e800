"""A guarantee by measurement, for mechanisms without a proof: evidence, at a stated confidence, and no proof.

It is what `mechanism.guarantee` falls back on, so it has to be there within seconds. Wide windows cost more slots
and more distances; they get fewer trials and fewer distances, the interval says so by its width, and the
guarantee says which distances were measured, each at several places from the start of the series on, since
mechanisms can be at their worst before they are steady. The draws are made with fixed testing keys, so that the
same mechanism always gets the same figures.
"""

import math
from dataclasses import replace
from functools import lru_cache

from whenmask.audit.losses import added, designed, pair_results, spread_distances, tallied
from whenmask.audit.subject import Auditable
from whenmask.guarantee import Guarantee

CONFIDENCE = 1 - 1e-6
# Apart from the seeds that people choose, so that an audit never repeats the very draws it is to check.
SEED = 1 << 40
# Slots replayed in all: a few seconds. Trials where that allows more.
REPLAYED = 600_000_000
TRIALS_MOST, TRIALS_LEAST = 20_000, 100
# Distances, and slots replayed for each of them in a trial, in windows: six places, twice, of some twelve windows.
DISTANCES_MOST, DISTANCES_LEAST = 16, 4
EACH = 150


@lru_cache(maxsize=256)
def measured_guarantee(mechanism: Auditable, epsilon: float) -> Guarantee:
    """Return (epsilon, upper end of the interval for the largest δ(epsilon) of the distances measured).

    Args:
        mechanism: What to measure; results are kept, so it must be hashable and never change.
        epsilon: Where to measure.
    """
    most = REPLAYED // (TRIALS_LEAST * EACH * mechanism.window)
    distances = spread_distances(mechanism.window, min(DISTANCES_MOST, max(DISTANCES_LEAST, most)))
    design = replace(designed(mechanism, epsilon, distances, SEED), fit=())
    affordable = REPLAYED // (2 * design.steps * (len(design.pairs) + 1))
    trials = min(TRIALS_MOST, max(TRIALS_LEAST, affordable))
    tally = added([tallied(mechanism, design, i, size) for i, size in enumerate(design.chunks(trials))])
    pairs = pair_results(tally, design, 1 - CONFIDENCE)
    low, high = max(pair.delta[0] for pair in pairs), max(pair.delta[1] for pair in pairs)
    high = min(1.0, math.nextafter(high, math.inf))
    return Guarantee(epsilon, high, mechanism.window, "audited", trials, CONFIDENCE, (low, high), distances)
