"""`whenmask audit`: try to prove a mechanism wrong."""

from typing import Annotated, Literal

from cyclopts import Parameter

from whenmask.audit import audit as audited
from whenmask.cli.show import console, print_json
from whenmask.description import mechanism_named


def audit(
    *,
    epsilon: float,
    window: int,
    mechanism: str = "PureSwitch",
    calibrate: Literal["guarantee", "claim"] | None = None,
    against: Literal["guarantee", "claim"] = "guarantee",
    trials: int = 100_000,
    seed: int = 0,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Measure what a mechanism gives away, and hold it against what it states.

    A violation is proved at the confidence shown; finding none is evidence and no proof.

    Example: `whenmask audit --mechanism StaSwitch --epsilon 4 --window 10 --against claim`

    Args:
        epsilon: The privacy budget that the mechanism is calibrated to.
        window: How many timestamps may trade places.
        mechanism: PureSwitch, RanSwitch, StaSwitch, Threshold, Backward or Forward.
        calibrate: What epsilon bounds; by default the guarantee, or the claim where nothing is proved.
        against: Hold it against its guarantee, or against its paper's claim.
        trials: How many plans to draw.
        seed: The draws are made with testing keys: the same seed gives the same result.
        json: Print JSON instead of a table.
    """
    subject = mechanism_named(mechanism, epsilon, window, calibrate=calibrate)
    result = audited(subject, against=against, trials=trials, seed=seed)
    if json:
        print_json(result.to_dict())
    else:
        console().print(str(result), markup=False)
