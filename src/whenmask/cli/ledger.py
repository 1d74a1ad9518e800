"""`whenmask ledger`: what has been released, and what it adds up to."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from whenmask.cli.options import Flag
from whenmask.cli.show import bound, console, print_json
from whenmask.ledger import Ledger


def ledger(
    path: Annotated[Path, Parameter(name=["PATH"])] = Path("whenmask.ledger"),
    /,
    *,
    json: Annotated[bool, Flag] = False,
) -> None:
    """Show the releases that a ledger remembers, and the budget they have spent.

    Epsilons and deltas add up for each series that was released again at the same times, whatever files it was in.
    A run repeated bit for bit costs nothing. A series of which only some times are the same is not recognised: add
    those up yourself.

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
        epsilon, delta = bound(run.epsilon), bound(run.delta)
        table.add_row(run.date, run.output, f"{run.rows:,}", f"{run.series:,}", epsilon, delta, run.slots[:8])
    shown.print(table)
    for one in spent:
        total = f"epsilon {bound(one.epsilon)}, delta {bound(one.delta)}"
        if one.epsilon is None:
            total = "an unknown budget, as nothing is proved of a run"
        times = "once" if one.runs == 1 else f"{one.runs} times"
        shown.print(f"{one.series:,} series were released {times}: each has spent {total}.")
