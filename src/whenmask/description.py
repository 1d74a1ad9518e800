"""Everything there is to say about one mechanism, as plain data: for tables, for JSON, for receipts.

Claim and guarantee stand side by side under their own names, so that a reader sees both and cannot mix them up.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, cast

from whenmask.errors import ParameterError, whole_number
from whenmask.law import WINDOW_HINT, UnitCosts
from whenmask.mechanisms import MECHANISMS, PureSwitch, Temporal

PARTS = ("displacement", "missing", "repeated", "empty")


def mechanism_named(name: str, epsilon: float, window: int, *, calibrate: str | None = None) -> Temporal:
    """Return the mechanism with this name, in any case, calibrated to its guarantee where one can be proved.

    Args:
        name: One of `MECHANISMS`.
        epsilon: The privacy budget.
        window: The number of timestamps that may trade places.
        calibrate: "guarantee" or "claim"; by default the guarantee, or the claim where nothing is proved.

    Raises:
        ParameterError: There is no such mechanism, or a parameter is outside its range.
    """
    found = {known.lower(): make for known, make in MECHANISMS.items()}.get(name.lower())
    if found is None:
        raise ParameterError(
            "`mechanism` names no mechanism", repr(name[:40]), f"choose from {', '.join(MECHANISMS)}"
        )
    whole_number("window", window, least=2, hint=WINDOW_HINT)
    if found is PureSwitch:
        if calibrate == "claim":
            raise ParameterError(
                "PureSwitch has no published claim", 'calibrate="claim"', "its guarantee is proved"
            )
        return PureSwitch(epsilon, window=window)
    default = "guarantee" if found.provable else "claim"
    made: Temporal = cast(Any, found)(epsilon, window=window, calibrate=calibrate or default)
    return made


def cost_parts(expected_cost: Callable[[UnitCosts | None], float]) -> dict[str, float]:
    """Return the expected cost per timestamp at the paper's unit costs, by kind of damage and in all.

    Args:
        expected_cost: That of a mechanism, or of its law.
    """
    free = UnitCosts(displacement=0.0, missing=0.0, repeated=0.0, empty=0.0)
    usual = UnitCosts()
    priced = {part: replace(free, **{part: getattr(usual, part)}) for part in PARTS}
    parts = {part: expected_cost(units) for part, units in priced.items()}
    return {**parts, "total": expected_cost(None)}


def describe(mechanism: Temporal, *, law: bool = True) -> dict[str, Any]:
    """Return parameters, claim, guarantee, latency, expected cost and law of a mechanism.

    Args:
        mechanism: What to describe.
        law: Whether to list the law, displacement by displacement; None stands for one too wide to be listed.
    """
    claim, guarantee = mechanism.claim, mechanism.guarantee
    try:
        # PureSwitch knows its cost without its law, which may be too wide.
        allocation = None if isinstance(mechanism, PureSwitch) and not law else mechanism.law()
    except ParameterError:
        allocation = None
    described: dict[str, Any] = {
        "mechanism": type(mechanism).__name__,
        "identity": mechanism.identity,
        "window": mechanism.window,
        "parameters": mechanism.parameters,
        "guarantee": {key: value for key, value in asdict(guarantee).items() if value is not None},
        "least_delta": mechanism.least_delta,
        "claim": None if claim is None else {**asdict(claim), "basis": claim.basis},
        "latency": asdict(mechanism.latency),
        "cost": cost_parts((allocation or mechanism).expected_cost),
    }
    if law:
        described["law"] = allocation and {
            "basis": allocation.basis,
            "displacements": allocation.displacements.tolist(),
            "probabilities": allocation.probabilities.tolist(),
            "rest": allocation.rest,
            "missing": allocation.missing,
            "repeated": allocation.repeated,
            "empty": allocation.empty,
        }
    return described
