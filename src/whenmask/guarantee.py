"""What a release promises, and what only its paper claims.

The two have types of their own, so that neither code nor a reader can take one for the other: a `Claim` is a
figure quoted from a publication, a `Guarantee` is what holds in the standard reading of differential privacy.
Both are computed from the integers that the sampler uses, with many digits, and rounded against us.
"""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from typing import Any, Literal, TypeAlias

from whenmask.errors import DependencyError, ParameterError, positive_number, whole_number

# Enough to hold 1 − q exactly, for q in units of 2^-64.
DIGITS = 80
# Multiplied by this, the smallest positive float is above 1.
BEYOND = Decimal(10) ** 330
# Privacy-loss distributions round each loss up to a multiple of this,
GRID = 1e-4
# or finer, so that the largest loss spans at least so many multiples.
GRID_LEAST = 1e4
# More than what their float arithmetic can be off by.
ROUNDING = 1e-10


def rounded_up(value: float, digits: int = 4) -> float:
    """Return the least number of so many digits that is not below: no figure of privacy is shown as less.

    Example:
        >>> rounded_up(0.13161), rounded_up(4.0)
        (0.1317, 4.0)
    """
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(value))


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
        trials: Audited only: how many plans were drawn.
        confidence: Audited only: how sure it is that `interval` holds the true delta of the distances measured.
        interval: Audited only: the two ends between which delta lies; `delta` is the upper one.
        distances: Audited only: the distances between exchanged timestamps that were measured. Nothing is said
            about others.

    Example:
        >>> once = Guarantee(1.0, 0.01, 10, "proved")
        >>> twice = once.compose(once)
        >>> twice.epsilon, twice.delta
        (2.0, 0.02)
    """

    epsilon: float
    delta: float
    window: int
    basis: Basis
    trials: int | None = None
    confidence: float | None = None
    interval: tuple[float, float] | None = None
    distances: tuple[int, ...] | None = None

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

    def compose(
        self, *others: "Guarantee", epsilon: float | None = None, delta: float | None = None
    ) -> "Guarantee":
        """Return what holds when several releases, drawn independently, are seen together.

        Epsilons add and deltas add. That is what it costs to release the same series twice with fresh secrets,
        or several series of one person, each on its own, when one event shows in all of them. Releasing the
        columns of one table *jointly* costs nothing more: one plan moves whole rows, so there is one release.
        So does repeating a run with the same secret and context, since it releases the same thing.

        Adding is the worst that can be. Ask for the best `epsilon` at a `delta`, or the best `delta` at an
        `epsilon`, and the losses are composed as a whole instead, through Google's privacy-loss distributions
        (`pip install whenmask[accounting]`); they are rounded towards larger losses.

        Args:
            others: The guarantees of the other releases.
            epsilon: Return the smallest delta found at this epsilon.
            delta: Return the smallest epsilon found at this delta, which must be above 1 − Π(1 − deltas).

        Raises:
            ParameterError: Both are asked for, or no epsilon reaches `delta`.
            DependencyError: dp-accounting is needed and not installed.

        Example:
            >>> meter = Guarantee(2.0, 0.01, 10, "proved")
            >>> heart = Guarantee(0.5, 0.0, 48, "proved")
            >>> meter.compose(meter).epsilon  # the same series, released twice: adds
            4.0
            >>> meter.compose(heart).epsilon  # two series of one person, each on its own: adds
            2.5
            >>> meter.compose().epsilon  # all columns of one table, released jointly: one release
            2.0
            >>> heart.compose(*[heart] * 29).epsilon, round(heart.compose(*[heart] * 29, delta=1e-3).epsilon, 2)
            (15.0, 10.79)
        """
        every = (self, *others)
        if strangers := [type(each).__name__ for each in others if not isinstance(each, Guarantee)]:
            hint = "give the guarantees of the other releases, each with the basis it has"
            raise ParameterError("only guarantees compose", f"a {strangers[0]}", hint)
        if epsilon is not None and delta is not None:
            raise ParameterError("`compose` takes `epsilon` or `delta`", "both", "it works out the other one")
        if epsilon is not None:
            return _together(every, epsilon, _delta_together(every, epsilon))
        if delta is not None:
            return _together(every, _epsilon_together(every, delta), delta)
        return _together(every, *_added(every))

    def for_group(self, size: int) -> "Guarantee":
        """Return what holds when an event takes `size` exchanges instead of one.

        Exchanging two separate blocks of `size` timestamps each, less than a window apart, takes `size`
        exchanges. Moving a block of m timestamps by d takes m + d − gcd(m, d), as docs/guarantees.md shows. The
        epsilon is size·ε, the delta is δ·(e^(size·ε) − 1)/(e^ε − 1), at most 1.

        Example:
            >>> Guarantee(0.5, 0.0, 48, "proved").for_group(4).epsilon  # an event of four readings
            2.0
        """
        size = whole_number("size", size, least=1, hint="it counts the exchanges that an event takes")
        with precise():
            one, many = Decimal(self.epsilon), size * Decimal(self.epsilon)
            # Not from a quotient of exponentials, which loses its digits near epsilon 0.
            factor = Decimal(size) if one == 0 else _powers(one, size)
            delta = min(1.0, round_up(Decimal(self.delta) * factor)) if self.delta else 0.0
            return replace(self, epsilon=round_up(many), delta=delta, interval=None)


def _powers(epsilon: Decimal, size: int) -> Decimal:
    """Return 1 + e^ε + … + e^((size−1)·ε), or the first partial sum that makes any float delta reach 1."""
    factor, power, step = Decimal(0), Decimal(1), epsilon.exp()
    for _ in range(size):
        factor, power = factor + power, power * step
        if factor > BEYOND:
            break
    return factor


def _together(every: tuple[Guarantee, ...], epsilon: float, delta: float) -> Guarantee:
    """Return a joint guarantee: as wide as the narrowest window, as sure as all audits together."""
    audited = [each for each in every if each.basis == "audited"]
    window = min(each.window for each in every)
    if not audited:
        return Guarantee(epsilon, delta, window, "proved")
    doubts = sum(1 - each.confidence for each in audited if each.confidence is not None)
    measured = [set(each.distances) for each in audited if each.distances is not None]
    shared = tuple(sorted(d for d in set.intersection(*measured) if d < window)) if measured else None
    trials = min((each.trials for each in audited if each.trials is not None), default=None)
    confidence = math.nextafter(max(0.0, 1 - doubts), 0.0)
    return Guarantee(epsilon, delta, window, "audited", trials, confidence, None, shared)


def _added(every: tuple[Guarantee, ...]) -> tuple[float, float]:
    """Return the sums of the epsilons and of the deltas, rounded up."""
    with precise():
        epsilon = sum((Decimal(each.epsilon) for each in every), Decimal(0))
        delta = sum((Decimal(each.delta) for each in every), Decimal(0))
        return round_up(epsilon), min(1.0, round_up(delta))


def _delta_together(every: tuple[Guarantee, ...], epsilon: float) -> float:
    """Return the smallest delta found at an epsilon."""
    epsilon = positive_number("epsilon", epsilon, hint="it is a privacy budget", zero=True)
    total, share = _added(every)
    if any(each.delta >= 1 for each in every):
        return 1.0
    found = min(1.0, float(_losses(every).get_delta_for_epsilon(epsilon)) + ROUNDING)
    return min(found, share) if epsilon >= total else found


def _epsilon_together(every: tuple[Guarantee, ...], delta: float) -> float:
    """Return the smallest epsilon found at a delta."""
    delta = positive_number("delta", delta, hint="it is a probability", zero=True)
    if delta >= 1:
        return 0.0
    total, share = _added(every)
    hopeless = any(each.delta >= 1 for each in every)
    wanted = max(0.0, delta - ROUNDING)
    found = math.inf if hopeless else float(_losses(every).get_epsilon_for_delta(wanted)) * (1 + ROUNDING)
    if delta >= share:
        return min(found, total)
    if not math.isfinite(found):
        least = 1 - math.prod(1 - each.delta for each in every)
        hint = f"the losses are infinite with probability {least:.6g}, whatever the epsilon"
        raise ParameterError("no epsilon reaches this `delta`", f"delta={delta:g}", hint)
    return found


def _losses(every: tuple[Guarantee, ...]) -> Any:
    """Return the privacy-loss distribution of all releases together, rounded towards larger losses."""
    try:
        from dp_accounting.pld import common, privacy_loss_distribution
    except ImportError:
        hint = "pip install whenmask[accounting]"
        raise DependencyError("composing losses as a whole needs dp-accounting", hint=hint) from None
    largest = max(each.epsilon for each in every)
    interval = min(GRID, largest / GRID_LEAST) if largest else GRID
    losses = None
    for each in every:
        figures = common.DifferentialPrivacyParameters(each.epsilon, each.delta)
        one = privacy_loss_distribution.from_privacy_parameters(figures, interval)
        losses = one if losses is None else losses.compose(one)
    return losses


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
