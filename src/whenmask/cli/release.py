"""`whenmask release`: the private table of a table of readings."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from whenmask.cli.options import Cluster, Flag, Roles, Secrets, Space
from whenmask.cli.progress import interruptible, progress
from whenmask.cli.receipt import show_receipt
from whenmask.description import mechanism_named
from whenmask.errors import ParameterError
from whenmask.files import Job, Onlooker, open_inputs, release_files, window_of
from whenmask.mechanisms import MECHANISMS, Temporal
from whenmask.report.released import check_page, report_release, write_page

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
    report: Path | None = None,
    show: str | None = None,
    drop_invalid: Annotated[bool, Flag] = False,
    accept_risk: Annotated[bool, Flag] = False,
    force: Annotated[bool, Flag] = False,
    space: Space = Space(),
    cluster: Cluster = Cluster(),
    json: Annotated[bool, Flag] = False,
    quiet: Annotated[bool, Flag] = False,
) -> None:
    """Release files: values stay exact, and when they occurred is hidden.

    Reads CSV, Parquet and JSON lines, and writes any of them, by the endings of the names. The rows come out
    sorted by series and time. The output appears when it is complete, with its receipt beside it, or not at all.
    A table with columns that tell the order by themselves, such as counters, is refused: see `whenmask check`.

    On Spark (`--engine spark`) the output is a folder of Parquet files, each with whole series; there columns are
    not looked into, so check the table first.

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
        report: Where to write a page about this release, for whoever holds the original.
        show: A series to show before and after on that page, by its id: raw data.
        drop_invalid: Leave out rows without id or time, and all rows that share id and time; count them.
        accept_risk: Release columns that tell the order by themselves all the same; the receipt says so.
        force: Overwrite the output, and the report.
        space: The room that sorting may take.
        cluster: What does the work.
        json: Print the receipt as JSON.
        quiet: Print nothing.
    """
    columns = roles.columns()
    key, run = secrets.opened()
    job = Job(output, key, run, force, drop_invalid, accept_risk, ledger)

    def chosen(count: int) -> Temporal:
        return mechanism_named(mechanism, epsilon, count, calibrate=calibrate)

    chosen(2)  # refuses what it can before files are read
    if cluster.engine == "spark":
        from whenmask.cli.cluster import release_on_spark

        refuse_on_spark({"--report": report, "--show": show, "--leave-out": roles.leave_out})
        with interruptible():
            receipt = release_on_spark(sources, columns, job, master=cluster.master, window=window, chosen=chosen)
        if not quiet:
            show_receipt(receipt, json=json)
        return
    opened = open_inputs(sources, columns, output=output, room=space.room(), leave_out=roles.leave_out or ())
    with interruptible(), opened as inputs:
        job.check(inputs.files)
        if report is not None:
            check_page(report, [output, *inputs.files], force=force)
        found = chosen(window_of(inputs, window))
        onlooker = Onlooker(inputs, found, report=report is not None, show=show)
        with progress(inputs.rows, "releasing", quiet=quiet or json) as advance:
            receipt = release_files(inputs, found, job, onlooker=onlooker, progress=advance)
    if report is not None:
        write_page(report, report_release(receipt, found, onlooker))
    if not quiet:
        show_receipt(receipt, json=json)


def refuse_on_spark(options: dict[str, object]) -> None:
    """Refuse options that only DuckDB knows.

    Raises:
        ParameterError: One is given.
    """
    given = [name for name, value in options.items() if value]
    if given:
        hint = "leave them out, or let DuckDB do the work, which is the default"
        raise ParameterError("some options are not there on Spark", ", ".join(given), hint)
