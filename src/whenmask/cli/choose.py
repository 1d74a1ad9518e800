"""`whenmask choose`: the cheapest mechanism that proves what is asked for."""

from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from whenmask.choose import Candidate
from whenmask.choose import choose as chosen
from whenmask.cli.show import console, number, print_json, promise
from whenmask.description import describe


def choose(
    *,
    epsilon: float,
    window: int,
    delta: float = 0.0,
    max_latency: int | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Choose the mechanism with the least expected cost that guarantees epsilon and delta.

    Example: `whenmask choose --epsilon 4 --window 48`

    Args:
        epsilon: The privacy budget.
        window: How many timestamps may trade places.
        delta: What may be left over beyond epsilon.
        max_latency: How many further values 99 of 100 slots may wait for, at most.
        json: Print JSON instead of a table.
    """
    choice = chosen(epsilon, window=window, delta=delta, max_latency=max_latency)
    if json:
        print_json([plain(candidate) for candidate in choice.candidates])
        return
    table = Table("mechanism", "cost", "guarantee", "verdict", title=f"Window {window}", title_justify="left")
    for candidate in choice.candidates:
        content = plain(candidate)
        table.add_row(
            candidate.name,
            number(candidate.cost),
            promise(content["guarantee"]) if content.get("guarantee") else "–",
            candidate.rejected or "[bold]chosen[/]",
        )
    console().print(table)


def plain(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as plain data."""
    content = {"mechanism": candidate.name, "cost": candidate.cost, "rejected": candidate.rejected}
    if candidate.mechanism is None:
        return {**content, "guarantee": None}
    described = describe(candidate.mechanism, law=False)
    return {**content, **{name: described[name] for name in ("identity", "parameters", "guarantee", "latency")}}
