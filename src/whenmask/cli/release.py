"""`whenmask release`: the private table of a table of readings."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from whenmask.cli.receipt import show_receipt
from whenmask.columns import Columns
from whenmask.description import mechanism_named
from whenmask.errors import ParameterError
from whenmask.files import Job, open_inputs, release_files, window_of
from whenmask.keystream import Key, checked_run
from whenmask.mechanisms import MECHANISMS

# The recommended one.
DEFAULT_MECHANISM = next(iter(MECHANISMS))
Flag = Parameter(negative=())


def release(
    sources: list[str],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    time: str,
    window: str,
    epsilon: float,
    by: Annotated[list[str] | None, Parameter(negative=())] = None,
    values: Annotated[list[str] | None, Parameter(negative=())] = None,
    keep: Annotated[list[str] | None, Parameter(negative=())] = None,
    mechanism: str = DEFAULT_MECHANISM,
    calibrate: Literal["guarantee", "claim"] | None = None,
    key_file: Path | None = None,
    run_id: str | None = None,
    testing_key: int | None = None,
    ledger: Path | None = None,
    drop_invalid: Annotated[bool, Flag] = False,
    force: Annotated[bool, Flag] = False,
    memory: str = "2GB",
    spill: Path | None = None,
    json: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Flag] = False,
) -> None:
    """Release files: values stay exact, and when they occurred is hidden.

    Reads CSV, Parquet and JSON lines, and writes any of them, by the endings of the names. The rows come out
    sorted by series and time. The output appears when it is complete, with its receipt beside it, or not at all.

    Example: `whenmask release in.parquet -o out.parquet --by meter --time time --window 24h --epsilon 4`

    Args:
        sources: Files, folders, or globs in quotation marks.
        output: The file to write.
        time: The column that orders a series: timestamps, dates or numbers.
        window: How many timestamps may trade places, or a duration such as 24h, for series with a regular step.
        epsilon: The privacy budget.
        by: The column that names the series; repeat it for several.
        values: A column that moves; repeat it for several. By default all that have no other part.
        keep: A further column that stays where it is, in the clear; repeat it for several.
        mechanism: PureSwitch, RanSwitch, StaSwitch, Threshold, Backward or Forward.
        calibrate: What epsilon bounds; by default the guarantee, or the claim where nothing is proved.
        key_file: A key to repeat runs with; by default a fresh one that is never kept.
        run_id: Repeats the run of this name, with --key-file, on the very same rows.
        testing_key: A number instead of a key, for trying things out: anybody can undo such a release.
        ledger: Where releases are remembered; by default whenmask.ledger beside the output.
        drop_invalid: Leave out rows without id or time, and all rows that share id and time; count them.
        force: Overwrite the output.
        memory: How much memory may be used in all.
        spill: A folder for what does not fit into memory; by default that of the output.
        json: Print the receipt as JSON.
        quiet: Print nothing.
    """
    columns = Columns.named(by=by, time=time, values=values, keep=keep)
    key, run = secrets(key_file, run_id, testing_key)
    # Refuses what it can before files are read.
    mechanism_named(mechanism, epsilon, 2, calibrate=calibrate)
    with interruptible(), open_inputs(sources, columns, output=output, memory=memory, spill=spill) as inputs:
        job = Job(output, key=key, run=run, force=force, drop_invalid=drop_invalid, ledger=ledger)
        job.check(inputs.files)
        chosen = mechanism_named(mechanism, epsilon, window_of(inputs, window), calibrate=calibrate)
        with progress(inputs.rows, quiet=quiet or json) as advance:
            receipt = release_files(inputs, chosen, job, progress=advance)
    if not quiet:
        show_receipt(receipt, json=json)


def secrets(key_file: Path | None, run_id: str | None, testing_key: int | None) -> tuple[Key, str]:
    """Return the key and the run id.

    Raises:
        ParameterError: They do not go together.
    """
    if key_file is not None and testing_key is not None:
        raise ParameterError(
            "`--key-file` and `--testing-key` exclude each other", "both", "leave one of them out"
        )
    if key_file is None and testing_key is None:
        if run_id is not None:
            hint = "make a key file with Key.fresh().save(path), and keep it as secret as the rows"
            raise ParameterError("`--run-id` needs `--key-file`: a fresh key never repeats a run", hint=hint)
        return Key.fresh(), checked_run(None)
    key = Key.from_file(key_file) if key_file is not None else Key.for_testing(testing_key or 0)
    return key, checked_run(run_id)


@contextmanager
def interruptible() -> Iterator[None]:
    """Clean up and say so when interrupted, by Ctrl-C or by a request to end."""

    def end(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False).print("[bold red]interrupted:[/] nothing was written")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def progress(rows: int, *, quiet: bool) -> Iterator[Any]:
    """Show rows released, rate and time left, on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("sorting", total=None)

        def advance(count: int) -> None:
            bar.update(task, description="releasing", total=rows)
            bar.advance(task, count)

        yield advance


class Rate(ProgressColumn):
    """Rows a second."""

    def render(self, task: Task) -> Text:
        """Return the rate."""
        return Text(f"{task.completed:,.0f} rows" + (f", {task.speed:,.0f}/s" if task.speed else ""))
