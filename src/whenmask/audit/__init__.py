"""Instruments that try to prove a mechanism wrong.

They know a mechanism only as something that draws plans and says how likely a plan is (`Auditable`): no formula
of its own, no class of this package. So anybody can audit anything, their own mechanism too. What an audit finds
is proved at its confidence; what it does not find is evidence and no proof.

`losses` draws plans and replays them in neighbouring worlds; `exact` enumerates small cases; `ends` looks at
finite series and counts; `repeats` looks for randomness used twice; `auditor` holds them together.
"""

from whenmask.audit.auditor import Settings, audit
from whenmask.audit.evidence import measured_guarantee
from whenmask.audit.exact import exact_deltas
from whenmask.audit.result import AuditResult, Check, PairResult
from whenmask.audit.subject import Auditable

__all__ = [
    "AuditResult",
    "Auditable",
    "Check",
    "PairResult",
    "Settings",
    "audit",
    "exact_deltas",
    "measured_guarantee",
]
