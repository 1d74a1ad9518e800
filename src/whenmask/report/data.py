"""What the page about a release shows, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whenmask.finding import Finding
from whenmask.guarantee import Claim, Guarantee
from whenmask.law import Costs, Law
from whenmask.losses import Example, Loss


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportData:
    """All that the page shows, as plain data.

    Attributes:
        mechanism: The mechanism's name and exact parameters.
        law: What it does on average.
        rows: How many rows were released.
        series: How many series they are.
        guarantee: What is proved or audited.
        least_delta: A proved lower bound of delta, 0 where none is known.
        claim: What the mechanism's paper says, if anything.
        displacements: The displacements of the plans, if they were watched.
        counts: How often each of them occurred.
        costs: What the plans did, counted, if they were watched.
        losses: What statistics lost.
        asked: The one series that was asked to be shown.
        example: Its beginning, before and after, if it was found.
        findings: What the check found about the table.
        run: The run id.
        key_kind: "secure" or "testing".
        version: The version of whenmask.
    """

    mechanism: str
    law: Law
    rows: int
    series: int
    guarantee: Guarantee
    least_delta: float = 0.0
    claim: Claim | None = None
    displacements: NDArray[np.int64] | None = None
    counts: NDArray[np.int64] | None = None
    costs: Costs | None = None
    losses: Sequence[Loss] = ()
    asked: str | None = None
    example: Example | None = None
    findings: Sequence[Finding] = ()
    run: str | None = None
    key_kind: str | None = None
    version: str | None = None
