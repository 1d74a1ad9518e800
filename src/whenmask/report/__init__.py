"""One page about a release: what is promised, what was done, and what it cost.

The page is a single file of HTML that loads nothing, works offline, on paper, and in light and dark. It is made
for whoever holds the original data: displacements, costs and comparisons come from the secret plan.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, Unpack

from whenmask.columns import ColumnNames, Columns
from whenmask.frames import sorted_table
from whenmask.guarantee import Claim, Guarantee
from whenmask.law import Law
from whenmask.losses import Comparison, compare_batches
from whenmask.report.data import ReportData
from whenmask.report.page import page
from whenmask.watch import Watched


class Described(Protocol):
    """A mechanism as the report sees it."""

    @property
    def window(self) -> int:
        """The number of timestamps that may trade places."""
        ...

    @property
    def identity(self) -> str:
        """The mechanism's name and exact parameters."""
        ...

    @property
    def claim(self) -> Claim | None:
        """What the mechanism's paper says of it, if anything."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What holds, and how it is known."""
        ...

    @property
    def least_delta(self) -> float:
        """A proved lower bound of delta, 0 where none is known."""
        ...

    def law(self) -> Law:
        """Return how far values are displaced, and how often."""
        ...


def describe(mechanism: Described, comparison: Comparison, *, plans: Watched | None = None) -> ReportData:
    """Return what is to be reported of a release that has been watched.

    Use `dataclasses.replace` to add the findings of the check, the run, the kind of key and the version.

    Args:
        mechanism: The mechanism.
        comparison: The rows before and after.
        plans: The mechanism as it was watched; without it, the page has no counts of displacements and costs.
    """
    data = ReportData(
        mechanism=mechanism.identity,
        law=mechanism.law(),
        rows=comparison.rows,
        series=comparison.series,
        guarantee=mechanism.guarantee,
        least_delta=mechanism.least_delta,
        claim=mechanism.claim,
        losses=comparison.losses(),
        asked=comparison.show,
        example=comparison.example(),
    )
    if plans is None:
        return data
    displacements, counts = plans.displacements()
    return replace(data, displacements=displacements, counts=counts, costs=plans.costs())


def report_frame(
    before: Any,
    after: Any,
    mechanism: Described,
    *,
    plans: Watched | None = None,
    show: str | None = None,
    **columns: Unpack[ColumnNames],
) -> ReportData:
    """Return what is to be reported of a table that has been released.

    Args:
        before: The table, as a pandas or Polars frame, or an Arrow table.
        after: The table as released.
        mechanism: The mechanism.
        plans: The mechanism as it was watched; without it, the page has no counts of displacements and costs.
        show: The one series to show before and after, by its id as text. Raw data!
        **columns: The roles of the columns, as for `release`.

    Example:
        >>> import pyarrow as pa
        >>> from whenmask import Key, RanSwitch
        >>> table = pa.table({"hour": range(48), "kwh": [0.5 * (hour % 7) for hour in range(48)]})
        >>> mechanism = RanSwitch(4, window=12)
        >>> released = mechanism.release(table, time="hour", key=Key.for_testing(7))
        >>> report_frame(table, released, mechanism, time="hour").rows
        48
    """
    roles = Columns.named(**columns)
    earlier, later = (sorted_table(frame, roles).to_batches() for frame in (before, after))
    comparison = compare_batches(earlier, later, Comparison(roles, window=mechanism.window, show=show))
    return describe(mechanism, comparison, plans=plans)


def write_report(path: str | Path, data: ReportData) -> None:
    """Write the page; what was there is replaced only when the new page is complete."""
    target = Path(path)
    part = target.with_name(target.name + ".part")
    part.write_text(page(data), encoding="utf-8")
    part.replace(target)


__all__ = ["Described", "ReportData", "describe", "report_frame", "write_report"]
