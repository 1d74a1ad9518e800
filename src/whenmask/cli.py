"""The command line: parse, call, print. No arithmetic here."""


def main() -> None:
    """Run the command line."""
