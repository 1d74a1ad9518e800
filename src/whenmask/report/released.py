"""The page about a release of files: made while it is released, or later, by whoever has its key."""

from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from whenmask.batches import release_batches
from whenmask.columns import Columns
from whenmask.description import mechanism_of
from whenmask.errors import DataError, FileError
from whenmask.files import Onlooker, Room, account_of, open_inputs
from whenmask.keystream import Key
from whenmask.mechanisms import Temporal
from whenmask.receipt import Receipt
from whenmask.report import ReportData, describe, write_report

PAGE_HINT = "nothing else is harmed; choose another name or folder for the page"


def report_release(receipt: Receipt, mechanism: Temporal, onlooker: Onlooker) -> ReportData:
    """Return what is to be reported of a release that was looked on at."""
    if onlooker.comparison is None:
        raise ValueError("nobody looked on for a report")
    return replace(
        describe(mechanism, onlooker.comparison, plans=onlooker.plans),
        findings=onlooker.check.findings(),
        run=receipt.run,
        key_kind=receipt.key,
        version=receipt.versions.get("whenmask"),
    )


def report_again(
    released: Path,
    sources: Sequence[str | Path],
    key: Key,
    *,
    show: str | None = None,
    room: Room = Room(),
) -> ReportData:
    """Return what is to be reported of a release that was made before, by drawing it once more.

    Args:
        released: The released file, with its receipt beside it.
        sources: What was released: files, globs and folders.
        key: The key of that run.
        show: The one series to show before and after, by its id as text. Raw data!
        room: The room that sorting may take.

    Raises:
        FileError: A file or the receipt cannot be read.
        DataError: The file is not that of the receipt, or other rows were released.
        SecretError: The key is not that of the receipt.
    """
    receipt = Receipt.read(released)
    receipt.check(released, key)
    mechanism = mechanism_of(receipt.mechanism["identity"])
    roles = {role: names for role, names in receipt.columns.items() if role != "left_out"}
    left_out = receipt.columns.get("left_out", [])
    opened = open_inputs(sources, Columns.named(**roles), output=released, room=room, leave_out=left_out)
    with opened as inputs:
        onlooker = Onlooker(inputs, mechanism, report=True, show=show)
        with closing(inputs.batches(valid_only=receipt.dropped is not None)) as rows:
            before = onlooker.before(rows)
            sampler = onlooker.plans or mechanism
            drawn = release_batches(before, sampler, inputs.columns, key=key, run=receipt.run)
            deque(onlooker.after(drawn), maxlen=0)
        if not account_of(inputs, mechanism, onlooker).belongs_to(receipt, key):
            hint = "name the very files that were released"
            raise DataError("these are not the rows that were released", hint=hint)
    return report_release(receipt, mechanism, onlooker)


def check_page(page: Path, taken: Sequence[Path], *, force: bool) -> None:
    """Refuse a page that cannot or must not be written, before any work is done.

    Raises:
        FileError: Its folder is not there, or it would overwrite something.
    """
    if page.suffix.lower() not in (".html", ".htm"):
        raise FileError("the name of the report must say that it is a page", repr(page.name), "name it .html")
    if not page.parent.is_dir() or page.is_dir():
        raise FileError("the report cannot be written", repr(page.name), "name a file in a folder that is there")
    if page.resolve() in [path.resolve() for path in taken]:
        raise FileError("the report must not be one of the other files", repr(page.name), PAGE_HINT)
    if page.exists() and not force:
        hint = "choose another name, or overwrite with --force"
        raise FileError("the report is there already", repr(page.name), hint)


def write_page(page: Path, data: ReportData) -> None:
    """Write the page.

    Raises:
        FileError: It cannot be written; the release is not harmed.
    """
    try:
        write_report(page, data)
    except OSError as error:
        page.with_name(page.name + ".part").unlink(missing_ok=True)
        raise FileError("the report could not be written", error.strerror, PAGE_HINT) from None
