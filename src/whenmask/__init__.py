"""whenmask hides *when* and keeps *what*.

It releases time series whose values must stay exact and locally permutes their timestamps, so that nobody can
tell with confidence at which moment within a window a value occurred.
"""

from whenmask.errors import WhenmaskError
from whenmask.guarantee import Claim, Guarantee
from whenmask.keystream import Key
from whenmask.law import Law, UnitCosts, ideal_law
from whenmask.mechanisms import Backward, Forward, RanSwitch, StaSwitch, Threshold
from whenmask.plan import Plan
from whenmask.stream import Stream

__version__ = "0.1.0"

__all__ = [
    "Backward",
    "Claim",
    "Forward",
    "Guarantee",
    "Key",
    "Law",
    "Plan",
    "RanSwitch",
    "StaSwitch",
    "Stream",
    "Threshold",
    "UnitCosts",
    "WhenmaskError",
    "ideal_law",
]
