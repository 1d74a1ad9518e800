"""`whenmask gateway`: a private stream between MQTT brokers, and how it is."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from whenmask.cli.options import Flag
from whenmask.cli.show import bound, console, print_json, promise
from whenmask.description import describe
from whenmask.gateway.loading import load_configuration
from whenmask.gateway.service import Law, check_surroundings, end_series, run_gateway
from whenmask.gateway.state import inspect


def gateway(
    action: Literal["run", "status", "end"] = "run",
    /,
    *,
    config: Annotated[Path, Parameter(name=["--config", "-c"])] = Path("gateway.toml"),
    check: Annotated[bool, Flag] = False,
    json: Annotated[bool, Flag] = False,
) -> None:
    """Take readings from an MQTT broker, and release them value by value, through crashes.

    `status` says how the gateway is, while it runs or not. `end` ends all series of a gateway that is stopped, so
    that the next start releases all that waits: before devices or the mechanism are changed.

    Example: `whenmask gateway --config gateway.toml --check`

    Args:
        action: Run the gateway, say how it is, or end its series.
        config: The TOML file with all settings.
        check: Check the file, say what it gives, and do nothing else.
        json: Print what is said as JSON.
    """
    settings = load_configuration(config)
    law = Law.of(settings.privacy)
    if check:
        check_surroundings(settings)
        show(describe_law(law), json=json)
    elif action == "status":
        found = inspect(settings.state.file)
        show({"running": found["running"], **describe_law(law), **found["totals"]}, json=json)
    elif action == "end":
        left = end_series(settings, law)
        console().print("All series are ended; the next start sends what they released.")
        if left:
            console().print(
                f"{left:,} series belong to no stream of the configuration, and were left as they are."
            )
    else:
        run_gateway(settings, law)


def describe_law(law: Law) -> dict[str, Any]:
    """Return what a gateway promises, in words."""
    described = describe(law.mechanism, law=False)
    delay, delta = law.timing.delay, law.timing.delta
    watched = f"adds {bound(delta)} to δ" if delta else "tells nothing"
    return {
        "mechanism": f"{described['mechanism']}, window {law.mechanism.window}",
        "guarantee": promise(described["guarantee"]),
        "claim": promise(described["claim"]),
        "delay": f"a slot leaves {delay:,} readings later, one for each reading that comes",
        "watching the clock": watched,
    }


def show(content: dict[str, Any], *, json: bool) -> None:
    """Print names and what they stand for."""
    if json:
        print_json(content)
        return
    table = Table("", "", show_header=False)
    for name, value in content.items():
        table.add_row(name, {True: "yes", False: "no"}[value] if isinstance(value, bool) else _shown(value))
    console().print(table)


def _shown(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value
