"""Choosing a mechanism: the least expected cost among those that *prove* what was asked for.

A claim and an audit never qualify. What was rejected is listed with its reason, so that the choice can be argued
with.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from whenmask.errors import ParameterError, positive_number, whole_number
from whenmask.guarantee import precise, rounded_up
from whenmask.law import WINDOW_HINT
from whenmask.mechanisms import Backward, PureSwitch, RanSwitch, Temporal
from whenmask.mechanisms.switch import ONE

UNPROVED = {
    "StaSwitch": "no guarantee is proved for it, and its delta is audited to be far above the claim",
    "Threshold": "its delta is proved to be 1 at every epsilon",
    "Forward": "no guarantee is proved for it, and its delta is proved to be large",
}


@dataclass(frozen=True)
class Candidate:
    """A mechanism that was considered.

    Attributes:
        name: What it is called.
        mechanism: The mechanism at the parameters considered; None where there is none to consider.
        cost: Its expected cost per timestamp at the paper's unit costs.
        rejected: Why it was not chosen; None for the one that was.
    """

    name: str
    mechanism: Temporal | None
    cost: float | None
    rejected: str | None


@dataclass(frozen=True)
class Choice:
    """The mechanism that was chosen, and all that were considered.

    Attributes:
        mechanism: The one to use.
        candidates: All, the chosen one first.
    """

    mechanism: Temporal
    candidates: tuple[Candidate, ...]


def choose(epsilon: float, *, window: int, delta: float = 0.0, max_latency: int | None = None) -> Choice:
    """Return the mechanism with the least expected cost that guarantees (epsilon, delta) and keeps the latency.

    Args:
        epsilon: The privacy budget.
        window: The number of timestamps that may trade places.
        delta: What may be left over beyond epsilon, 0 for a pure guarantee.
        max_latency: How many further values 99 of 100 slots may wait for before they are released, at most.

    Raises:
        ParameterError: A parameter is outside its range, or nothing fits; the hint says what would.

    Example:
        >>> choice = choose(4, window=48)
        >>> type(choice.mechanism).__name__, choice.mechanism.guarantee.basis
        ('PureSwitch', 'proved')
    """
    epsilon = positive_number("epsilon", epsilon, hint="it is the privacy budget")
    window = whole_number("window", window, least=2, hint=WINDOW_HINT)
    delta = positive_number("delta", delta, hint="it is a probability", zero=True)
    if delta > 1:
        raise ParameterError("`delta` must be at most 1", f"delta={delta:g}", "it is a probability such as 1e-9")
    if max_latency is not None:
        whole_number("max_latency", max_latency, least=0, hint="it counts values that arrive meanwhile")
    considered = [
        _considered("PureSwitch", lambda: PureSwitch(epsilon, window=window), delta, max_latency),
        _considered("RanSwitch", lambda: RanSwitch(epsilon, window=window), delta, max_latency),
        _considered("Backward", lambda: Backward(epsilon, window=window), delta, max_latency),
    ]
    fitting = sorted((each for each in considered if each.rejected is None), key=lambda each: each.cost or 0.0)
    rejected = [each for each in considered if each.rejected is not None]
    rejected += [Candidate(name, None, None, reason) for name, reason in UNPROVED.items()]
    if not fitting or fitting[0].mechanism is None:
        reasons = "; ".join(f"{each.name}: {each.rejected}" for each in rejected if each.name not in UNPROVED)
        raise ParameterError("no mechanism guarantees this", f"epsilon={epsilon:g}, delta={delta:g}", reasons)
    dearer = [Candidate(each.name, each.mechanism, each.cost, "it costs more") for each in fitting[1:]]
    return Choice(fitting[0].mechanism, (fitting[0], *dearer, *rejected))


def _considered(name: str, make: Callable[[], Temporal], delta: float, max_latency: int | None) -> Candidate:
    """Return a candidate, with what speaks against it."""
    try:
        mechanism = make()
    except ParameterError as error:
        return Candidate(name, None, None, f"{error.problem} ({error.hint})")
    return Candidate(name, mechanism, mechanism.expected_cost(), _objection(mechanism, delta, max_latency))


def _objection(mechanism: Temporal, delta: float, max_latency: int | None) -> str | None:
    """Return why a mechanism does not do, if it does not."""
    guarantee = mechanism.guarantee
    # PureSwitch's tables are cut where what lies beyond is less likely than any computer error.
    if guarantee.delta > max(delta, 1e-20):
        reason = f"its delta is {rounded_up(guarantee.delta):g}"
        if isinstance(mechanism, RanSwitch):
            least = least_epsilon(delta, mechanism.window)
            reason += (
                f"; the smallest epsilon that reaches delta={delta:g} is {rounded_up(least):g}" if least else ""
            )
        return reason
    if max_latency is not None and mechanism.latency.p99 > max_latency:
        return f"1 in 100 slots waits for {mechanism.latency.p99} values or more"
    return None


def least_epsilon(delta: float, window: int) -> float | None:
    """Return the smallest epsilon at which RanSwitch reaches a delta; None for delta 0, which it never reaches."""
    if delta <= 0:
        return None
    if delta >= 1:
        return 0.0
    with precise():
        unit = int((1 - (1 - Decimal(delta)) ** (Decimal(1) / (window - 1))) * ONE)
    if not unit:
        return None
    mechanism = RanSwitch.from_units(min(unit, ONE // window), window=window)
    return math.nextafter(mechanism.guarantee.epsilon, math.inf)
