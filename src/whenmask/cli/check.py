"""`whenmask check`: what would make a release useless, before it is made."""

from contextlib import closing
from dataclasses import asdict
from typing import Annotated

from rich.console import Console

from whenmask.check import Check, useless, worst_first
from whenmask.cli.options import Flag, Roles, Space
from whenmask.cli.progress import interruptible, progress
from whenmask.cli.show import print_json
from whenmask.files import find_invalid, open_inputs, window_of
from whenmask.finding import Finding

COLORS = {"useless": "bold red", "warning": "yellow", "note": "cyan"}


def check(
    sources: list[str],
    /,
    *,
    roles: Roles,
    window: str | None = None,
    space: Space = Space(),
    json: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Flag] = False,
) -> None:
    """Find what would make a release of a table useless, before it is made.

    Looks for columns that tell the time by themselves (counters, row numbers, timestamps, what is the same in
    every series), for rows that cannot be released, for series that are too short, and for values that are mostly
    equal. What is found is printed, the worst first, and does not change the exit code: it is `whenmask release`
    that refuses a useless release.

    Example: `whenmask check readings.parquet --by meter --time time --window 24h`

    Args:
        sources: Files, folders, or globs in quotation marks.
        roles: The roles of the columns.
        window: How many timestamps may trade places, or a duration such as 24h; without it, series' lengths and
            trends are not looked at.
        space: The room that sorting may take.
        json: Print one JSON object, for machines.
        quiet: Print nothing.
    """
    opened = open_inputs(sources, roles.columns(), room=space.room(), leave_out=roles.leave_out or ())
    with interruptible(), opened as inputs:
        look = Check(inputs.columns, window=None if window is None else window_of(inputs, window))
        invalid = find_invalid(inputs)
        with (
            progress(inputs.rows, "checking", quiet=quiet or json) as advance,
            closing(inputs.batches(valid_only=bool(invalid.total))) as batches,
        ):
            for batch in batches:
                look.push(batch)
                advance(batch.num_rows)
    findings = worst_first([*look.findings(), *invalid.findings()])
    if json:
        print_json({"rows": look.rows, "series": look.series, "findings": [asdict(one) for one in findings]})
    elif not quiet:
        show(look, findings)


def show(look: Check, findings: list[Finding]) -> None:
    """Print what was found."""
    console = Console(highlight=False, markup=False)
    for finding in findings:
        subject = "the table" if finding.column is None else f"column {finding.column!r}"
        console.print(f"{finding.severity}: {finding.kind}, {subject}", style=COLORS[finding.severity])
        console.print(f"  Found: {finding.what_found}.")
        console.print(f"  Means: {finding.meaning}")
        console.print(f"  To do: {finding.advice}\n")
    bad = len(useless(findings))
    verdict = (
        f"{bad} of {len(findings)} findings make a release useless."
        if bad
        else "Nothing found that makes a release useless."
    )
    console.print(f"{look.rows:,} rows in {look.series:,} series. {verdict}")
