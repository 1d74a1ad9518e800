"""What an epsilon bounds: the guarantee that is proved, or the claim that was published."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from whenmask.errors import ParameterError

Calibration: TypeAlias = Literal["guarantee", "claim"]
EPSILON_HINT = "it is the privacy budget: the smaller, the less can be learnt"


def check_calibration(calibrate: object) -> None:
    """Accept the two calibrations there are."""
    if calibrate not in ("guarantee", "claim"):
        hint = 'choose "guarantee" (proved) or "claim" (published)'
        raise ParameterError("`calibrate` names no calibration", f"calibrate={calibrate!r}", hint)


def refuse_guarantee(name: str, calibrate: object) -> None:
    """Accept only the claim, for a mechanism without a proved guarantee."""
    check_calibration(calibrate)
    if calibrate == "guarantee":
        hint = 'PureSwitch(epsilon, window=window) is proved; or accept the paper\'s claim: calibrate="claim"'
        raise ParameterError(f"no guarantee is proved for {name}", 'calibrate="guarantee"', hint)


def smallest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the smallest number that fits, or `high` if none does; all from some number on fit."""
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low
