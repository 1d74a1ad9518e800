"""`whenmask release`: the private table of a table of readings."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from whenmask.cli.options import Cluster, Flag, Roles, Room, Secrets
from whenmask.cli.progress import interruptible, progress
from whenmask.cli.receipt import show_receipt
from whenmask.description import mechanism_named
from whenmask.files import Job, open_inputs, release_files, window_of
from whenmask.mechanisms import MECHANISMS, Temporal

# The recommended one.
DEFAULT_MECHANISM = next(iter(MECHANISMS))


def release(
    sources: list[str],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    roles: Roles,
    window: str,
    epsilon: float,
    mechanism: str = DEFAULT_MECHANISM,
    calibrate: Literal["guarantee", "claim"] | None = None,
    secrets: Secrets = Secrets(),
    ledger: Path | None = None,
    drop_invalid: Annotated[bool, Flag] = False,
    force: Annotated[bool, Flag] = False,
    room: Room = Room(),
    cluster: Cluster = Cluster(),
    json: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Flag] = False,
) -> None:
    """Release files: values stay exact, and when they occurred is hidden.

    Reads CSV, Parquet and JSON lines, and writes any of them, by the endings of the names. The rows come out
    sorted by series and time. The output appears when it is complete, with its receipt beside it, or not at all.

    On Spark (`--engine spark`) the output is a folder of Parquet files, each with whole series.

    Example: `whenmask release in.parquet -o out.parquet --by meter --time time --window 24h --epsilon 4`

    Args:
        sources: Files, folders, or globs in quotation marks.
        output: The file to write.
        roles: The roles of the columns.
        window: How many timestamps may trade places, or a duration such as 24h, for series with a regular step.
        epsilon: The privacy budget.
        mechanism: PureSwitch, RanSwitch, StaSwitch, Threshold, Backward or Forward.
        calibrate: What epsilon bounds; by default the guarantee, or the claim where nothing is proved.
        secrets: The key and the run.
        ledger: Where releases are remembered; by default whenmask.ledger beside the output.
        drop_invalid: Leave out rows without id or time, and all rows that share id and time; count them.
        force: Overwrite the output.
        room: The room that sorting may take.
        cluster: What does the work.
        json: Print the receipt as JSON.
        quiet: Print nothing.
    """
    columns = roles.columns()
    key, run = secrets.opened()
    job = Job(output, key=key, run=run, force=force, drop_invalid=drop_invalid, ledger=ledger)

    def chosen(count: int) -> Temporal:
        return mechanism_named(mechanism, epsilon, count, calibrate=calibrate)

    chosen(2)  # refuses what it can before files are read
    if cluster.engine == "spark":
        from whenmask.cli.cluster import release_on_spark

        with interruptible():
            receipt = release_on_spark(sources, columns, job, master=cluster.master, window=window, chosen=chosen)
    else:
        opened = open_inputs(sources, columns, output=output, memory=room.memory, spill=room.spill)
        with interruptible(), opened as inputs:
            job.check(inputs.files)
            found = chosen(window_of(inputs, window))
            with progress(inputs.rows, quiet=quiet or json) as advance:
                receipt = release_files(inputs, found, job, progress=advance)
    if not quiet:
        show_receipt(receipt, json=json)
