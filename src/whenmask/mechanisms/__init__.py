"""The mechanisms, one file each: laws over plans, with their samplers, costs, claims and guarantees."""

from whenmask.mechanisms.oneway import Backward, Forward
from whenmask.mechanisms.pureswitch import PureSwitch
from whenmask.mechanisms.ranswitch import RanSwitch
from whenmask.mechanisms.staswitch import StaSwitch
from whenmask.mechanisms.temporal import Temporal
from whenmask.mechanisms.threshold import Threshold

# The temporal mechanisms by name, the recommended first.
MECHANISMS: dict[str, type[Temporal]] = {
    make.__name__: make for make in (PureSwitch, RanSwitch, StaSwitch, Threshold, Backward, Forward)
}

__all__ = ["MECHANISMS", "Backward", "Forward", "PureSwitch", "RanSwitch", "StaSwitch", "Temporal", "Threshold"]
