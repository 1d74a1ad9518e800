"""The command line: parse, call, print. No arithmetic here.

Each command lives in a module of its own, which is imported only when the command is called, so that help and
errors come at once. Whatever goes wrong on purpose is printed in one form and ends with exit code 2; there is
never a traceback for bad input.
"""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from rich.console import Console

from whenmask import WhenmaskError, __version__

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

app = App(
    name="whenmask",
    help="Hide when, keep what: release time series with exact values and locally permuted timestamps.",
    version=__version__,
    help_format="plaintext",
    result_action="return_value",
)
COMMANDS = {
    "check": "Find what would make a release useless.",
    "demo": "Release one made-up day of meter readings.",
    "explain": "Show a mechanism's law, cost, claim, guarantee and latency.",
    "compare": "Show all mechanisms side by side.",
    "choose": "Choose the cheapest mechanism that proves what is asked for.",
    "audit": "Try to prove a mechanism wrong.",
    "release": "Release files: CSV, Parquet and JSON lines, larger than memory.",
    "report": "Write a page about a release that was made before.",
    "stream": "Release JSON lines from standard input, one by one.",
    "gateway": "Take readings from an MQTT broker, and release them value by value.",
    "receipt": "Show and check the receipt of a released file.",
    "ledger": "Show what was released, and what it adds up to.",
    "key": "Make a key file, for runs that are to be repeated.",
    "reproduce": "Measure every table and figure of the paper again.",
    "data": "Show which data sets of the evaluation are there.",
}
EXAMPLES = {
    "check": "whenmask check readings.parquet --by meter --time time --window 24h",
    "demo": "whenmask demo",
    "explain": "whenmask explain --mechanism StaSwitch --epsilon 4 --window 10",
    "compare": "whenmask compare --window 10 --epsilon 1 2 4 8",
    "choose": "whenmask choose --epsilon 4 --window 48",
    "audit": "whenmask audit --mechanism StaSwitch --epsilon 4 --window 10 --against claim",
    "release": "whenmask release in.parquet -o out.parquet --by meter --time time --window 24h --epsilon 4",
    "report": "whenmask report released.parquet readings.parquet -o report.html --key-file secret.key",
    "stream": "whenmask stream --time time --by meter --values kwh --epsilon 4 --window 48 < in.jsonl",
    "gateway": "whenmask gateway --config gateway.toml --check",
    "receipt": "whenmask receipt released.parquet",
    "ledger": "whenmask ledger released/whenmask.ledger",
    "key": "whenmask key secret.key",
    "reproduce": "whenmask reproduce --data data --quick",
    "data": "whenmask data --data data",
}
for command, purpose in COMMANDS.items():
    example = f"Example: {EXAMPLES[command]}" if command in EXAMPLES else None
    app.command(f"whenmask.cli.{command}:{command}", name=command, help=purpose, help_epilogue=example)
app.register_install_completion_command()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run one command; return the exit code."""
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except WhenmaskError as error:
        return refuse(str(error))
    except CycloptsError as error:
        return refuse(f"{str(error).rstrip('.')}. Hint: whenmask --help lists the commands and their options.")
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away, as in `whenmask … | head`
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def refuse(message: str) -> int:
    """Print what is wrong; return the exit code for bad input."""
    Console(stderr=True, highlight=False, soft_wrap=True).print("[bold red]error:[/]", end=" ")
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(message)
    return EXIT_BAD_INPUT
