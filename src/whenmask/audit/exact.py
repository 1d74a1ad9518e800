"""The exact instrument: every plan of the first few slots with its probability, every pair, both directions.

It finds the plans by asking for the probability of every way in which a possible one could go on, so it needs
neither draws nor a formula of the mechanism, and it notices a law whose probabilities do not add up to 1. The
number of plans grows like window^slots: for small windows it reaches the pairs that matter, for larger ones only
those near the start of a series.
"""

from dataclasses import dataclass

import numpy as np

from whenmask.audit.losses import NUMBERS
from whenmask.audit.subject import UNDECIDED, Auditable, Floats, Rows, View, exchanged

# Plans kept; their probabilities are worth a second or two.
PLANS = 100_000


@dataclass(frozen=True, eq=False)
class Enumeration:
    """All plans of a few slots.

    Attributes:
        rows: The plans.
        logs: Their log-probabilities.
        gap: How far the probabilities are from adding up to 1, at worst over all numbers of slots.
    """

    rows: Rows
    logs: Floats
    gap: float

    def delta(self, other: Floats, epsilon: float) -> tuple[float, float]:
        """Return δ(ε) of a neighbour in which these releases have log-probabilities `other`, in both directions.

        The second counts what only the neighbour can release through what is missing from its sum.
        """
        here, there = np.exp(self.logs), np.exp(other)
        grown = np.exp(epsilon)
        forward = np.maximum(0.0, here - grown * there).sum()
        backward = np.maximum(0.0, there - grown * here).sum() + max(0.0, here.sum() - there.sum())
        return float(forward), float(backward)


def enumerated(subject: Auditable, steps: int | None = None) -> Enumeration:
    """Return all plans of `steps` slots, or of as many slots as keep them below 100,000."""
    view = View.of(subject)
    rows = np.full((1, view.ahead), UNDECIDED, dtype=np.int64)
    logs = np.zeros(1)
    gap, growth, made = 0.0, 1.0, 0
    while made != steps:
        size = rows.shape[0] * (made + 2 * subject.window + 1) * (rows.shape[1] + 1)
        if steps is None and made and (rows.shape[0] * growth > PLANS or size > 4 * NUMBERS):
            break
        longer, _ = view.continued(rows)
        chances = subject.log_probabilities(longer)
        possible = chances > -np.inf
        growth, made = possible.sum() / rows.shape[0], made + 1
        rows, logs = longer[possible], chances[possible]
        gap = max(gap, abs(float(np.exp(logs).sum()) - 1))
    return Enumeration(rows, logs, gap)


def exact_deltas(
    subject: Auditable, epsilon: float, *, plans: Enumeration | None = None
) -> dict[tuple[int, int], tuple[float, float]]:
    """Return δ(ε) of what the first few slots show, for each pair of timestamps among them and both directions.

    Args:
        subject: The mechanism.
        epsilon: Where to take δ(ε).
        plans: All plans of these slots; by default as many slots as can be enumerated.
    """
    plans = plans or enumerated(subject)
    slots = plans.rows.shape[1]
    return {
        (i, j): plans.delta(subject.log_probabilities(exchanged(plans.rows, i, j)), epsilon)
        for i in range(slots)
        for j in range(i + 1, min(i + subject.window, slots))
    }
