"""What a release promises, and what only its paper claims.

The two have types of their own, so that neither code nor a reader can take one for the other: a `Claim` is a
figure quoted from a publication, a `Guarantee` is what holds in the standard reading of differential privacy.
Both are computed from the integers that the sampler uses, with many digits, and rounded against us.
"""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from typing import Literal, TypeAlias

from whenmask.errors import positive_number

DIGITS = 60


@dataclass(frozen=True)
class Claim:
    """What a mechanism's paper says of it: shown for comparison, never as a guarantee.

    Attributes:
        epsilon: The published epsilon at the parameters in use, rounded up.
        delta: The published delta, rounded up.
        window: The number of timestamps that may trade places.
        source: Where it is published.
    """

    epsilon: float
    delta: float
    window: int
    source: str

    basis = "claimed by its paper"


def precise() -> AbstractContextManager[Context]:
    """Return a context in which decimals carry `DIGITS` digits, enough for every claim and guarantee."""
    return localcontext(Context(prec=DIGITS))


def round_up(number: Decimal) -> float:
    """Return the smallest float that is not below `number`.

    Example:
        >>> round_up(Decimal("0.1")) >= Decimal("0.1")
        True
    """
    nearest = float(number)
    return nearest if Decimal(nearest) >= number else math.nextafter(nearest, math.inf)


Basis: TypeAlias = Literal["proved", "audited"]


@dataclass(frozen=True)
class Guarantee:
    """What holds for all neighbours and all sets of outputs: Pr[A(S) ∈ O] ≤ e^epsilon·Pr[A(S') ∈ O] + delta.

    Neighbours differ by exchanging the values of two timestamps less than `window` apart.

    Attributes:
        epsilon: Rounded up.
        delta: Rounded up; 0 for a pure guarantee.
        window: The number of timestamps that may trade places.
        basis: "proved", or "audited": measured with a stated confidence, which is evidence and not a proof.
    """

    epsilon: float
    delta: float
    window: int
    basis: Basis

    def delta_at(self, epsilon: float) -> float:
        """Return a delta that holds at another epsilon.

        Every (ε, δ) guarantee is dominated by one loss: ∞ with probability δ, else ε or −ε with odds e^ε.
        RanSwitch's loss is exactly that, so for it no smaller delta will do at any epsilon.
        """
        epsilon = positive_number("epsilon", epsilon, hint="it is a privacy budget", zero=True)
        if epsilon >= self.epsilon:
            return self.delta
        with precise():
            wanted, have, rest = Decimal(epsilon), Decimal(self.epsilon), 1 - Decimal(self.delta)
            return round_up(1 - rest * (1 - (1 - (wanted - have).exp()) / (1 + (-have).exp())))


@dataclass(frozen=True)
class ValueGuarantee:
    """What a mechanism that changes values gives: Pr[A(x) ∈ O] ≤ e^epsilon·Pr[A(x') ∈ O] + delta.

    A type of its own, because the neighbours are others: series that differ in the value at *one* timestamp, by
    any amount within the bounds or categories declared. Exchanging two timestamps changes two values, so it costs
    2·epsilon and 2·delta at any distance; a whole series of n values costs n·epsilon.

    Attributes:
        epsilon: Rounded up.
        delta: Rounded up; 0 for a pure guarantee.
        basis: "proved", here or by OpenDP.
    """

    epsilon: float
    delta: float
    basis: Basis
