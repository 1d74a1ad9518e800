"""Tables and JSON for the commands that describe mechanisms."""

import json
import math
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from whenmask.guarantee import rounded_up

# Displacements listed one by one; wider laws are gathered into as many groups.
LINES = 25
BAR = 40
EIGHTHS = " ▏▎▍▌▋▊▉█"


def print_json(content: Any) -> None:
    """Print plain data as JSON."""
    sys.stdout.write(json.dumps(content, indent=2, allow_nan=False) + "\n")


def number(value: float | int | None) -> str:
    """Return a number in a few digits."""
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def bound(value: float | int | None) -> str:
    """Return a figure of privacy in a few digits, and never as less than it is."""
    return number(None if value is None else rounded_up(value))


def promise(content: dict[str, Any] | None) -> str:
    """Return a claim or guarantee in a few words."""
    if content is None:
        return "none published"
    text = f"ε = {bound(content['epsilon'])}, δ = {bound(content['delta'])}, {content['basis']}"
    if "source" in content:
        return f"{text} ({content['source']})"
    if "trials" in content:
        low, high = content.get("interval") or (0.0, content["delta"])
        return f"{text}: δ in {number(low)} … {bound(high)}, {content['trials']:,} trials; evidence, not a proof"
    return text


def bar(share: float) -> str:
    """Return a bar of a share of the full width, in eighths of a character."""
    full, rest = divmod(round(max(0.0, min(1.0, share)) * BAR * 8), 8)
    return "█" * full + (EIGHTHS[rest] if rest else "")


def law_table(law: dict[str, Any], window: int) -> Table:
    """Return the law as a small bar chart; wide laws in groups, with the mean probability of each member."""
    listed = list(zip(law["displacements"], law["probabilities"], strict=True))
    shown = [(d, p) for d, p in listed if abs(d) <= 2 * (window - 1)]
    width = math.ceil(len(shown) / LINES)
    groups: dict[int, list[tuple[int, float]]] = {}
    for displacement, probability in shown:
        # The own slot is never gathered with others.
        place = math.ceil(abs(displacement) / width)
        groups.setdefault(place if displacement > 0 else -place, []).append((displacement, probability))
    title = "probability" if width == 1 else "probability of each"
    table = Table("displacement", title, "", title=f"Law ({law['basis']})", title_justify="left")
    table.columns[0].justify = table.columns[1].justify = "right"
    largest = max(probability for _, probability in shown)
    for members in groups.values():
        (low, _), (high, _) = members[0], members[-1]
        label = f"{low:+d} … {high:+d}" if low != high else f"{low:+d}" if low else "0"
        mean = sum(probability for _, probability in members) / len(members)
        table.add_row(label, f"{mean:.4g}", bar(mean / largest))
    further = sum(probability for _, probability in listed) - sum(probability for _, probability in shown)
    if further > 1e-6:
        table.add_row("all further", f"{further:.4g}", "")
    for name in ("missing", "repeated", "empty"):
        if law[name]:
            table.add_row(name, f"{law[name]:.4g}", bar(law[name] / largest))
    return table


def console() -> Console:
    """Return a console for tables; wide when it is not a terminal, so that nothing is cut."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=140)
