"""`whenmask compare`: all mechanisms side by side."""

from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from whenmask.cli.show import console, number, print_json, promise
from whenmask.description import describe, mechanism_named
from whenmask.errors import ParameterError
from whenmask.mechanisms import MECHANISMS


def compare(
    *,
    window: int,
    epsilon: Annotated[tuple[float, ...], Parameter(consume_multiple=True, negative=())] = (1.0, 2.0, 4.0, 8.0),
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Show all mechanisms side by side: cost, what is guaranteed, what is claimed.

    Each is calibrated to its guarantee where one is proved, else to its paper's claim; the columns say what
    either amounts to.

    Example: `whenmask compare --window 10 --epsilon 1 2 4 8`

    Args:
        window: How many timestamps may trade places.
        epsilon: One or more privacy budgets.
        json: Print JSON instead of tables.
    """
    with Console(stderr=True).status("Measuring what is not proved …"):
        rows = [row(name, budget, window) for budget in epsilon for name in MECHANISMS]
    if json:
        print_json(rows)
        return
    table = Table(title=f"Mechanisms at window {window}", title_justify="left")
    for column in ("epsilon", "mechanism", "cost", "displacement", "missing + empty", "repeated", "latency"):
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    for column in ("guarantee", "claim"):
        table.add_column(column)
    for each in rows:
        if each["epsilon"] != (before := each["epsilon"]) or each["mechanism"] == next(iter(MECHANISMS)):
            table.add_section()
        if "refused" in each:
            table.add_row(number(before), each["mechanism"], "–", "", "", "", "", each["refused"], "")
            continue
        cost = each["cost"]
        lost = cost["missing"] + cost["empty"]
        figures = [number(part) for part in (cost["total"], cost["displacement"], lost, cost["repeated"])]
        table.add_row(
            number(before),
            each["mechanism"],
            *figures,
            number(each["latency"]["mean"]),
            promise(each["guarantee"]).partition(":")[0],
            promise(each["claim"]).partition(", claimed")[0],
        )
    shown = console()
    shown.print(table)
    shown.print(
        "cost: expected per timestamp, at 1 for each slot of displacement and the window for each missing,\n"
        "repeated or empty value. A claim is a figure of the mechanism's paper; an audited guarantee is evidence\n"
        "at a stated confidence, and no proof."
    )


def row(name: str, epsilon: float, window: int) -> dict[str, Any]:
    """Return one mechanism at one budget, or why it cannot be had."""
    try:
        described = describe(mechanism_named(name, epsilon, window), law=False)
    except ParameterError as error:
        return {"epsilon": epsilon, "mechanism": name, "refused": error.problem}
    return {"epsilon": epsilon, **described}
