"""`whenmask explain`: one mechanism in numbers."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from whenmask.cli.show import console, law_table, number, print_json, promise
from whenmask.description import describe, mechanism_named


def explain(
    *,
    epsilon: float,
    window: int,
    mechanism: str = "PureSwitch",
    calibrate: Literal["guarantee", "claim"] | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Show a mechanism's probabilities, law, expected cost, claim, guarantee and latency.

    Example: `whenmask explain --mechanism StaSwitch --epsilon 4 --window 10`

    Args:
        epsilon: The privacy budget.
        window: How many timestamps may trade places.
        mechanism: PureSwitch, RanSwitch, StaSwitch, Threshold, Backward or Forward.
        calibrate: What epsilon bounds; by default the guarantee, or the claim where nothing is proved.
        json: Print JSON instead of tables.
    """
    described = describe(mechanism_named(mechanism, epsilon, window, calibrate=calibrate))
    if json:
        print_json(described)
        return
    table = Table(
        "", "", title=f"{described['mechanism']}, window {window}", show_header=False, title_justify="left"
    )
    for name, value in described["parameters"].items():
        table.add_row(name, number(value))
    table.add_section()
    table.add_row("guarantee", promise(described["guarantee"]))
    if described["least_delta"]:
        table.add_row("", f"at no ε does a δ below {number(described['least_delta'])} hold: proved")
    table.add_row("claim", promise(described["claim"]))
    table.add_section()
    for name, value in described["cost"].items():
        table.add_row("expected cost per timestamp" if name == "total" else f"  {name}", number(value))
    table.add_section()
    table.add_row("latency in slots", latency(described["latency"]))
    shown = console()
    shown.print(table)
    shown.print(law_table(described["law"], window) if described["law"] else "Its law is too wide to be listed.")


def latency(content: dict[str, Any]) -> str:
    """Return a latency in words."""
    if content["most"] is not None and content["mean"] == content["most"]:
        return f"always {content['most']}"
    bound = "no bound" if content["most"] is None else f"at most {content['most']}"
    return f"mean {number(content['mean'])}, 99 in 100 within {content['p99']}, {bound}"
