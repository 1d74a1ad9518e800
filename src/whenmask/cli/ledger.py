"""`whenmask ledger`: what has been released, and what it adds up to."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from whenmask.cli.options import Flag
from whenmask.cli.show import console, number, print_json
from whenmask.ledger import Ledger


def ledger(
    path: Annotated[Path, Parameter(name=["PATH"])] = Path("whenmask.ledger"),
    /,
    *,
    json: Annotated[bool, Flag] = False,
) -> None:
    """Show the releases that a ledger remembers, and the budget they have spent.

    Epsilons and deltas of releases of the same series and times add up. A run repeated bit for bit costs nothing.
    Releases of some of the same rows among others are not recognised: add those up yourself.

    Example: `whenmask ledger released/whenmask.ledger`

    Args:
        path: The ledger.
        json: Print JSON.
    """
    kept = Ledger(path, create=False)
    runs, spent = kept.runs(), kept.spent()
    if json:
        print_json({"runs": [asdict(run) for run in runs], "spent": [asdict(one) for one in spent]})
        return
    shown = console()
    table = Table("date", "output", "rows", "series", "epsilon", "delta", "same rows as", box=None)
    for run in runs:
        epsilon, delta = number(run.epsilon), number(run.delta)
        table.add_row(run.date, run.output, f"{run.rows:,}", f"{run.series:,}", epsilon, delta, run.slots[:8])
    shown.print(table)
    for one in spent:
        if one.runs > 1:
            total = f"epsilon {number(one.epsilon)}, delta {number(one.delta)}"
            if one.epsilon is None:
                total = "unknown, as nothing is proved of one of them"
            shown.print(f"{one.slots[:8]} was released {one.runs} times; each of its series has spent {total}")
