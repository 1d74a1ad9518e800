"""What a guarantee costs: the expected displacement of each mechanism, beside the least that any could have.

Let P_d be how often a value is displaced by d, on average over a long series in which no value is lost. Exchange
two values that are less than a window apart: "slot s holds this value" had probability P_d and has P_{d′} now,
with |d − d′| < window. So (ε, δ) implies P_d ≤ e^ε·P_{d′} + δ for all such pairs, whatever the mechanism, and the
least mean of |d| under these constraints is a lower bound of its cost. It says nothing of what can be reached:
only single slots are compared, while a guarantee is about whole releases.

The constraints are cut to |d| ≤ D, and all mass beyond is one variable that costs D + 1. Every law fulfils what is
left, at no greater cost, so the cut can only lower the bound: it stays one. Averages of laws fulfil the
constraints too, so the law need not be the same at all timestamps, and may be taken to be symmetric. The solver
keeps each constraint to 1e-7; against the closed form at window 2 that moves the bound by some 1e-6 of it.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from benchmarks.timing import Row
from whenmask import PureSwitch, RanSwitch, StaSwitch
from whenmask.errors import WhenmaskError
from whenmask.mechanisms.oneway import Backward, Forward
from whenmask.mechanisms.temporal import Temporal
from whenmask.mechanisms.threshold import Threshold

WINDOWS = (10, 40, 160)
EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0)
# The bounds of RanSwitch's own guarantee are worked out up to this window: at 160 each takes a minute.
WIDEST_WITH_DELTA = 40
PROVED: dict[str, Callable[[float, int], Temporal]] = {
    "PureSwitch": lambda e, k: PureSwitch(e, window=k),
    "RanSwitch": lambda e, k: RanSwitch(e, window=k),
    "Backward": lambda e, k: Backward(e, window=k),
}
CLAIMED: dict[str, Callable[[float, int], Temporal]] = {
    "RanSwitch": lambda e, k: RanSwitch(e, window=k, calibrate="claim"),
    "StaSwitch": lambda e, k: StaSwitch(e, window=k, calibrate="claim"),
    "Threshold": lambda e, k: Threshold(e, window=k, calibrate="claim"),
    "Backward": lambda e, k: Backward(e, window=k, calibrate="claim"),
    "Forward": lambda e, k: Forward(e, window=k, calibrate="claim"),
}


def spans(reach: int, window: int) -> Iterator[tuple[int, int]]:
    """Yield the least and the greatest distance in each window of displacements, of symmetric laws."""
    for start in range(-reach, reach - window + 2):
        stop = start + window - 1
        least = 0 if start <= 0 <= stop else min(abs(start), abs(stop))
        yield least, max(abs(start), abs(stop))


def lower_bound(epsilon: float, window: int, *, delta: float = 0.0, reach: int | None = None) -> float:
    """Return the least mean distance under the constraints, up to the distance `reach` (D).

    Variables are the probabilities p_0 … p_D of each single displacement of a distance, the mass beyond, and for
    runs of 2^j distances bounds from above and from below, so that a window needs a few rows and not its square.
    """
    reach = reach or math.ceil(window * (1 + 10 / epsilon))
    size = reach + 1
    levels = max(1, window.bit_length())
    most = np.full((levels, size), -1)
    least = np.full((levels, size), -1)
    most[0] = least[0] = np.arange(size)
    rows: list[list[tuple[int, float]]] = []
    bounds: list[float] = []
    count = size + 1  # the mass beyond is variable `size`
    for level in range(1, levels):
        half = 1 << (level - 1)
        for start in range(size - 2 * half + 1):
            most[level, start], least[level, start] = count, count + 1
            for part in (start, start + half):
                rows.append([(int(most[level - 1, part]), 1.0), (count, -1.0)])
                rows.append([(count + 1, 1.0), (int(least[level - 1, part]), -1.0)])
                bounds += [0.0, 0.0]
            count += 2
    factor = math.exp(-epsilon)
    for first, last in set(spans(reach, window)):
        level = (last - first + 1).bit_length() - 1
        starts = (first, last + 1 - (1 << level))
        for up in starts:
            for down in starts:
                rows.append([(int(most[level, up]), factor), (int(least[level, down]), -1.0)])
                bounds.append(delta * factor)
    entries = [(i, j, value) for i, row in enumerate(rows) for j, value in row]
    i, j, value = zip(*entries, strict=True)
    matrix: Any = coo_array((value, (i, j)), shape=(len(rows), count)).tocsr()
    distances = np.arange(size)
    both = np.where(distances, 2.0, 1.0)
    cost, total = np.zeros(count), np.zeros(count)
    cost[:size], total[:size] = both * distances, both
    cost[size], total[size] = size, 1.0
    found: Any = linprog(cost, A_ub=matrix, b_ub=bounds, A_eq=total[None], b_eq=[1.0], method="highs")
    if not found.success:
        raise RuntimeError(found.message)
    return float(cost @ found.x)


def made(make: Callable[[float, int], Temporal], epsilon: float, window: int) -> Temporal | None:
    """Return the mechanism, or None where it does not exist."""
    try:
        return make(epsilon, window)
    except WhenmaskError:
        return None


def measure() -> list[Row]:
    """Compare the cost per value of each guarantee, and of each claim, with the bound of the pure guarantee."""
    rows = []
    for window in WINDOWS:
        for epsilon in EPSILONS:
            bound = lower_bound(epsilon, window)
            where = f"window {window}, epsilon {epsilon:g}"
            rows.append(Row(f"{where}: any mechanism, at least", bound, "slots", curve="lower bound", at=epsilon))
            for name, make in PROVED.items():
                mechanism = made(make, epsilon, window)
                if mechanism is None:
                    continue
                delta = mechanism.guarantee.delta
                line = f"{name}, proved" + (f", delta {delta:.2g}" if delta > 1e-9 else "")
                curve = f"{name}, with a delta" if delta > 1e-9 else name
                rows.append(
                    Row(f"{where}: {line}", mechanism.expected_cost(), "slots", None, None, curve, epsilon)
                )
                if name == "RanSwitch" and window <= WIDEST_WITH_DELTA:
                    least = lower_bound(epsilon, window, delta=delta)
                    rows.append(Row(f"{where}: any mechanism with that delta, at least", least, "slots"))
            for name, make in CLAIMED.items():
                mechanism = made(make, epsilon, window)
                if mechanism is not None:
                    cost = mechanism.expected_cost()
                    rows.append(
                        Row(f"{where}: {name}, claim", cost, "slots", None, None, f"{name}, claim", epsilon)
                    )
    return rows
