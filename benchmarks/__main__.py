"""Run all measurements, or those named: `python -m benchmarks switch`; with --record, write them to the docs."""

import importlib
import pkgutil
import sys

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks import page
from benchmarks.timing import Row


def main(names: list[str]) -> None:
    """Print a table for each module of this package that has something to measure."""
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
    record, where = "--record" in names, page.environment()
    for name in [name for name in names if name != "--record"] or found:
        module = importlib.import_module(f"benchmarks.{name}")
        if hasattr(module, "measure") and (rows := module.measure()):
            show(name, rows)
            if record:
                page.record({name: rows}, where)


def show(name: str, rows: list[Row]) -> None:
    """Print rows beside their targets, and as a multiple of the first."""
    table = Table(title=f"{name}, best of the rounds", title_justify="left")
    for column in ("what", "best", "median", "unit", "target", "best / target", "best / first"):
        table.add_column(column, justify="left" if column in ("what", "unit") else "right", no_wrap=True)
    first = rows[0]
    for row in rows:
        cells = [row.name, f"{row.value:.3g}", "" if row.median is None else f"{row.median:.3g}", row.unit]
        cells += ["", ""] if row.target is None else [f"{row.target:g}", f"{row.value / row.target:.2f}"]
        cells.append(f"{row.value / first.value:.2f}" if row.unit == first.unit else "")
        missed = row.target is not None and row.value > row.target
        table.add_row(*cells, style="bold red" if missed else None)
    console = Console(width=max(Console().width, 120))
    console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
