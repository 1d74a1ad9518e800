"""`whenmask report`: a page about a release that was made before."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whenmask.cli.options import Flag, Space, needed_key
from whenmask.cli.progress import interruptible
from whenmask.cli.show import console
from whenmask.files import found_files
from whenmask.report.released import check_page, report_again, write_page


def report(
    released: Path,
    sources: list[str],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    key_file: Path | None = None,
    testing_key: int | None = None,
    show: str | None = None,
    force: Annotated[bool, Flag] = False,
    space: Space = Space(),
    quiet: Annotated[bool, Flag] = False,
) -> None:
    """Write a page about a release: what is promised, how far values moved, and what statistics lose.

    The page is for whoever holds the original: its counts come from the secret plan. The release is drawn once
    more for it, which takes the key of its run. A run with a fresh key cannot be drawn again, so ask for its page
    when it is made: `whenmask release … --report report.html`.

    Example: `whenmask report released.parquet readings.parquet -o report.html --key-file secret.key`

    Args:
        released: The released file, with its receipt beside it.
        sources: What was released: files, folders, or globs in quotation marks.
        output: The page to write.
        key_file: The key of the run.
        testing_key: The number of the testing key of the run.
        show: A series to show before and after, by its id: raw data.
        force: Overwrite the page.
        space: The room that sorting may take.
        quiet: Print nothing.
    """
    key = needed_key(key_file, testing_key)
    check_page(output, [released, *found_files(sources)], force=force)
    with interruptible():
        data = report_again(released, sources, key, show=show, room=space.room())
        write_page(output, data)
    if not quiet:
        console().print(f"The report is in {output.name}. Keep it with the original data.")
