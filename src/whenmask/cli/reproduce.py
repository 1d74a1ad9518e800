"""`whenmask reproduce`: every table and figure of the paper."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from whenmask import __version__
from whenmask.cli.options import Flag, Listed
from whenmask.cli.progress import interruptible
from whenmask.cli.show import console
from whenmask.errors import ParameterError

if TYPE_CHECKING:
    from whenmask.lab.experiment import Section

# Longer tables are on the page and in results.csv.
LONGEST = 16
COLOURS = {"holds": "green", "holds in part": "yellow", "does not hold": "red", "beyond the paper": "blue"}


def reproduce(
    *,
    data: Path | None = None,
    output: Path = Path("reproduction"),
    only: Annotated[list[str] | None, Listed] = None,
    quick: Annotated[bool, Flag] = False,
    workers: int | None = None,
    redraw: Annotated[bool, Flag] = False,
) -> None:
    """Measure every table and figure of the paper again, and print each result beside the paper's.

    All draws come from a testing key: a re-run prints the same. Needs `pip install 'whenmask[lab]'`.

    Example: `whenmask reproduce --data data --quick`

    Args:
        data: The folder of the data files; see `whenmask data`. What is not there is made up, and says so.
        output: The folder to write to: index.html (the page), reproduction.md, results.csv and .parquet (means
            with standard errors), measurements.parquet (a row for each repeat).
        only: An experiment to run: allocation, cost, averages, counts, clusters, guarantees, future or meters;
            repeat it for several. By default all. Results of others in the output folder are kept if they were
            measured on the same data.
        quick: Fewer repeats and less data: two or three minutes on two cores.
        workers: How many processes; by default one for each core.
        redraw: Measure nothing: draw the page again from the results in the output folder.
    """
    from whenmask import lab

    if redraw:
        if data or only or quick or workers:
            raise ParameterError("`--redraw` measures nothing", "further options", "give it --output only")
        sections = lab.redraw(output)
    else:
        with interruptible(), bar() as progress:
            scope = lab.Scope(data, "quick" if quick else "full")
            sections = lab.reproduce(
                scope, output, only=only, workers=workers, version=__version__, progress=progress
            )
    show(sections)
    console().print(f"The page: {output / 'index.html'}")


@contextmanager
def bar() -> Iterator[Callable[[int], Callable[[], None]]]:
    """Show how many tasks are done and how long the rest may take, on a terminal only."""
    on = Console(stderr=True)
    columns = (
        TextColumn("measuring"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=on, transient=True, disable=not on.is_terminal) as shown:

        def begin(count: int) -> Callable[[], None]:
            task = shown.add_task("", total=count)
            return lambda: shown.advance(task)

        yield begin


def show(sections: Sequence[tuple[str, "Section"]]) -> None:
    """Print what was found, and the tables that fit."""
    from whenmask.lab.experiment import Table as Rows

    out = console()
    for _, section in sections:
        out.print(f"\n[bold]{section.title}[/]")
        out.print(f"  Data: {section.basis}", markup=False)
        for found in section.findings:
            colour = COLOURS[found.verdict]
            out.print(f"  [{colour}]{found.verdict}[/]: {found.said}", highlight=False)
            out.print(f"      {found.found}", markup=False)
        for block in section.blocks:
            if isinstance(block, Rows) and len(block.rows) <= LONGEST:
                drawn = Table(*block.columns, title=block.caption, title_justify="left", box=None, padding=(0, 1))
                for number in range(1, len(block.columns)):
                    drawn.columns[number].justify = "right"
                for row in block.rows:
                    drawn.add_row(*row)
                out.print(drawn)
