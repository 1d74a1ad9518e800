"""whenmask hides *when* and keeps *what*.

It releases time series whose values must stay exact and locally permutes their timestamps, so that nobody can
tell with confidence at which moment within a window a value occurred.
"""

from whenmask.audit import audit
from whenmask.choose import choose
from whenmask.errors import WhenmaskError
from whenmask.guarantee import Claim, Guarantee
from whenmask.keystream import Key
from whenmask.law import Law, UnitCosts, ideal_law
from whenmask.mechanisms import Backward, Forward, PureSwitch, RanSwitch, StaSwitch, Threshold
from whenmask.mechanisms.values import Gaussian, Laplace, Piecewise, RandomizedResponse
from whenmask.plan import Plan
from whenmask.stream import Stream

__version__ = "0.1.0"

__all__ = [
    "Backward",
    "Claim",
    "Forward",
    "Gaussian",
    "Guarantee",
    "Key",
    "Laplace",
    "Law",
    "Piecewise",
    "Plan",
    "PureSwitch",
    "RanSwitch",
    "RandomizedResponse",
    "StaSwitch",
    "Stream",
    "Threshold",
    "UnitCosts",
    "WhenmaskError",
    "audit",
    "choose",
    "ideal_law",
]
