"""`whenmask receipt`: what was done to a file, and whether it still is that file."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.markup import escape
from rich.table import Table

from whenmask.cli.options import Flag, opened_key
from whenmask.cli.show import console, print_json, promise
from whenmask.receipt import Receipt


def receipt(
    output: Path,
    /,
    *,
    key_file: Path | None = None,
    testing_key: int | None = None,
    json: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Flag] = False,
) -> None:
    """Show the receipt of a released file, and check that they belong together.

    Without a key, size and SHA-256 of the file are compared. With the key of the run, it is also checked that
    the receipt itself was not altered.

    Example: `whenmask receipt released.parquet`

    Args:
        output: The released file, or its receipt.
        key_file: The key of the run.
        testing_key: The number of the testing key of the run.
        json: Print JSON.
        quiet: Print nothing; the exit code tells.
    """
    found = Receipt.read(output)
    key = opened_key(key_file, testing_key)
    found.check(output, key)
    if not quiet:
        show_receipt(found, json=json)
        if not json:
            console().print(
                "The file is the one that was released"
                + ("." if key is None else ", and the receipt was made with this key.")
            )


def show_receipt(found: Receipt, *, json: bool) -> None:
    """Print a receipt."""
    if json:
        print_json(asdict(found))
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("released", f"{found.rows:,} rows of {found.series:,} series to {found.output['name']}")
    if found.dropped is not None:
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in found.dropped.items())
        table.add_row("left out", f"rows: {dropped}")
    table.add_row("mechanism", found.mechanism["identity"])
    table.add_row("guarantee", promise(found.guarantee))
    table.add_row("claim", promise(found.claim))
    table.add_row("run", found.run)
    for risk in found.risks:
        subject = "the table" if risk["column"] is None else f"column {risk['column']!r}"
        table.add_row("[bold red]accepted[/]", escape(f"{subject} ({risk['kind']}) tells the order by itself"))
    if found.key == "testing":
        table.add_row("[bold red]key[/]", "[bold red]testing: anybody can undo this release[/]")
    console().print(table)
