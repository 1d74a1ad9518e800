"""What a person sees and can do while a long command runs: a bar on a terminal, and a clean end on Ctrl-C."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


@contextmanager
def interruptible() -> Iterator[None]:
    """Clean up and say so when interrupted, by Ctrl-C or by a request to end."""

    def end(*_: object) -> NoReturn:
        for sent in before:
            signal.signal(sent, signal.SIG_IGN)  # cleaning up is soon done, and must not be cut short
        raise KeyboardInterrupt

    before = {sent: signal.signal(sent, end) for sent in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False).print("[bold red]interrupted:[/] nothing was written")
        raise
    finally:
        for sent, handler in before.items():
            signal.signal(sent, handler)


@contextmanager
def progress(rows: int, doing: str, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show rows done, rate and time left, on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("sorting", total=None)

        def advance(count: int) -> None:
            bar.update(task, description=doing, total=rows)
            bar.advance(task, count)

        yield advance


class Rate(ProgressColumn):
    """Rows a second."""

    def render(self, task: Task) -> Text:
        """Return the rate."""
        return Text(f"{task.completed:,.0f} rows" + (f", {task.speed:,.0f}/s" if task.speed else ""))
