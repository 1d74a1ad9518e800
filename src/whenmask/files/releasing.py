"""Releasing files: sort, release, write, remember, and only then let it be seen."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from whenmask.batches import release_batches
from whenmask.check import Check, refuse_useless, useless
from whenmask.errors import DataError, FileError
from whenmask.files.account import Account, Written
from whenmask.files.fingerprint import Digest, Slots
from whenmask.files.inspection import Invalid, find_invalid
from whenmask.files.places import format_of, workplace
from whenmask.files.reading import Inputs
from whenmask.files.writing import Output, exists, place_file, written_error
from whenmask.keystream import Key, checked_run
from whenmask.ledger import Ledger
from whenmask.losses import Comparison
from whenmask.mechanisms import Temporal
from whenmask.receipt import Receipt, receipt_of
from whenmask.watch import Watched

LEDGER = "whenmask.ledger"
# After so many rows a useless release is refused, before hours go by.
FIRST_LOOK = 1 << 20


def ignore(rows: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Job:
    """What becomes of a table.

    Attributes:
        output: The file to write.
        key: The secret.
        run: The run id.
        force: Whether an output that is there may be overwritten.
        drop_invalid: Whether rows that cannot be released are left out and counted, rather than refused.
        accept_risk: Whether a release that hides little or nothing is made all the same.
        ledger: Where releases are remembered; by default beside the output.
    """

    output: Path
    key: Key = field(default_factory=Key.fresh)
    run: str = field(default_factory=lambda: checked_run(None))
    force: bool = False
    drop_invalid: bool = False
    accept_risk: bool = False
    ledger: Path | None = None

    def check(self, inputs: list[Path]) -> None:
        """Refuse an output that cannot or must not be written, before any work is done.

        Raises:
            FileError: It is of no known format, there already, a folder, or one of the inputs.
        """
        format_of(self.output)
        if not self.output.parent.is_dir():
            hint = "make the folder first"
            raise FileError("the folder of the output is not there", repr(str(self.output.parent)), hint)
        if self.output.is_dir():
            raise FileError("the output must be a file", "a folder", "add a name, such as released.parquet")
        if self.output.resolve() in inputs:
            hint = "the original would be lost, or be read as part of itself"
            raise FileError("the output must not be one of the inputs", repr(self.output.name), hint)
        if not self.force:
            for path in (self.output, receipt_of(self.output)):
                if path.exists():
                    raise exists(path)


class Onlooker:
    """What looks on while a table passes: for the receipt and, if there is to be one, for the report.

    Args:
        inputs: The table.
        mechanism: The mechanism.
        report: Whether there is to be a report.
        show: The one series that the report shows.

    Attributes:
        content: The digest of what goes in.
        slots: The digests of the times of each series.
        check: What tells the order by itself.
        plans: The mechanism, watched for the report.
        comparison: The rows before and after, for the report.
    """

    def __init__(
        self, inputs: Inputs, mechanism: Temporal, *, report: bool = False, show: str | None = None
    ) -> None:
        columns, window = inputs.columns, mechanism.window
        self.content = Digest(list(inputs.types))
        self.slots = Slots(columns)
        self.check = Check(columns, window=window)
        self.plans = Watched(mechanism) if report else None
        self.comparison = Comparison(columns, window=window, show=show) if report else None

    def before(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand the input through, and look at it."""
        for batch in batches:
            self.content.push(batch)
            self.slots.push(batch)
            self.check.push(batch)
            if self.comparison is not None:
                self.comparison.push_before(batch)
            yield batch

    def after(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand the release through, and look at it."""
        return batches if self.comparison is None else self.comparison.watch_after(batches)


def release_files(
    inputs: Inputs,
    mechanism: Temporal,
    job: Job,
    *,
    onlooker: Onlooker | None = None,
    progress: Callable[[int], None] = ignore,
) -> Receipt:
    """Release a table to a file; there is all of it, with its receipt, or nothing.

    The rows come out sorted by series and time. Nothing can be seen until it is complete, and the ledger has
    agreed: it remembers a release before it is there, so that a crash can count too much, and never too little.

    Args:
        inputs: The table.
        mechanism: The mechanism.
        job: Where to, and how.
        onlooker: What looks on, if a report is to follow.
        progress: Told how many more rows have been released.

    Raises:
        DataError: The rows cannot be released, are not those that the run id stands for, or tell the order by
            themselves.
        FileError: A file cannot be read or written.
    """
    job.check(inputs.files)
    ledger = Ledger(job.ledger or job.output.parent / LEDGER)
    invalid = find_invalid(inputs) if job.drop_invalid else None
    onlooker = onlooker or Onlooker(inputs, mechanism)
    with workplace(job.output.parent) as place:
        try:
            with (
                Output(job.output, place, inputs.schema) as output,
                closing(_released(inputs, mechanism, job, onlooker)) as batches,
            ):
                for batch in batches if job.accept_risk else _useful(batches, onlooker.check):
                    output.write(batch)
                    progress(batch.num_rows)
                output.finish()
            account = account_of(inputs, mechanism, onlooker, invalid)
            made = account.receipt(job.key, job.run, Written(job.output.name, output.size, output.sha256))
            part = place / "receipt"
            part.write_text(made.to_json(), encoding="utf-8")
            ledger.record(account.entry(made, job.key, ledger), onlooker.slots.digests())
            if job.output.exists() and not job.force:
                raise exists(job.output)
            place_file(part, receipt_of(job.output), force=True)
            output.place(force=job.force)
        except OSError as error:
            raise written_error(error) from None
    return made


def _released(inputs: Inputs, mechanism: Temporal, job: Job, onlooker: Onlooker) -> Generator[pa.RecordBatch]:
    """Return the released batches as they are to be written."""
    sampler = onlooker.plans or mechanism
    try:
        with closing(inputs.batches(valid_only=job.drop_invalid)) as rows:
            released = release_batches(onlooker.before(rows), sampler, inputs.columns, key=job.key, run=job.run)
            yield from inputs.written(onlooker.after(released))
    except DataError:
        # Rows are counted here in the order of the files, and all of them.
        find_invalid(inputs).refuse()
        raise


def _useful(batches: Iterable[pa.RecordBatch], check: Check) -> Iterator[pa.RecordBatch]:
    """Hand batches through; refuse a table that tells the order by itself, soon if it can be seen soon."""
    looked = False
    for batch in batches:
        if not looked and check.rows >= FIRST_LOOK:
            refuse_useless(check.findings())
            looked = True
        yield batch
    refuse_useless(check.findings())


def account_of(inputs: Inputs, mechanism: Temporal, onlooker: Onlooker, invalid: Invalid | None = None) -> Account:
    """Return what was released, once it has passed."""
    dropped = None if invalid is None else invalid.counts
    return Account(
        mechanism=mechanism,
        columns=inputs.asked,
        files=len(inputs.files),
        rows=inputs.rows - sum((dropped or {}).values()),
        series=onlooker.check.series,
        dropped=dropped,
        content=onlooker.content.digest(list(inputs.types)),
        slots=onlooker.content.digest(inputs.slots, named=False),
        left_out=inputs.left_out,
        risks=tuple(useless(onlooker.check.findings())),
    )
