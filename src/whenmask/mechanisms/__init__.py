"""The mechanisms, one file each: laws over plans, with their samplers, costs, claims and guarantees."""

from whenmask.mechanisms.ranswitch import RanSwitch
from whenmask.mechanisms.staswitch import StaSwitch
from whenmask.mechanisms.temporal import Temporal

__all__ = ["RanSwitch", "StaSwitch", "Temporal"]
