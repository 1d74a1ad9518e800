"""Releasing files: sort, release, write, remember, and only then let it be seen."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whenmask.batches import release_batches
from whenmask.errors import DataError, FileError
from whenmask.files.account import Account, Written
from whenmask.files.fingerprint import Digest
from whenmask.files.inspection import Invalid, find_invalid
from whenmask.files.places import format_of, workplace
from whenmask.files.reading import Inputs
from whenmask.files.writing import Output, exists, place_file, written_error
from whenmask.keystream import Key, Keystream, Keystreams, Series, checked_run
from whenmask.ledger import Ledger
from whenmask.mechanisms import Temporal
from whenmask.receipt import Receipt, receipt_of
from whenmask.sampler import Draw, Walk, draw_whole

LEDGER = "whenmask.ledger"


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
        ledger: Where releases are remembered; by default beside the output.
    """

    output: Path
    key: Key = field(default_factory=Key.fresh)
    run: str = field(default_factory=lambda: checked_run(None))
    force: bool = False
    drop_invalid: bool = False
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


@dataclass
class Counted:
    """A mechanism that counts the series it draws for."""

    mechanism: Temporal
    series: int = 0

    @property
    def window(self) -> int:
        """The mechanism's own."""
        return self.mechanism.window

    @property
    def identity(self) -> str:
        """The mechanism's own."""
        return self.mechanism.identity

    def draw(self, words: Keystream) -> Draw:
        """Start a series."""
        self.series += 1
        return self.mechanism.draw(words)

    def draw_together(
        self, run: Keystreams, series: Sequence[Series], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Draw whole series."""
        self.series += len(series)
        return draw_whole(self.mechanism, run, series, lengths)

    def walk(self, words: Keystream) -> Walk:
        """Start a series, value by value."""
        return self.mechanism.walk(words)


def release_files(
    inputs: Inputs, mechanism: Temporal, job: Job, *, progress: Callable[[int], None] = ignore
) -> Receipt:
    """Release a table to a file; there is all of it, with its receipt, or nothing.

    The rows come out sorted by series and time. Nothing can be seen until it is complete, and the ledger has
    agreed: it remembers a release before it is there, so that a crash can count too much, and never too little.

    Args:
        inputs: The table.
        mechanism: The mechanism.
        job: Where to, and how.
        progress: Told how many more rows have been released.

    Raises:
        DataError: The rows cannot be released, or are not those that the run id stands for.
        FileError: A file cannot be read or written.
    """
    job.check(inputs.files)
    ledger = Ledger(job.ledger or job.output.parent / LEDGER)
    invalid = find_invalid(inputs) if job.drop_invalid else None
    content, counted = Digest(list(inputs.types)), Counted(mechanism)
    with workplace(job.output.parent) as place:
        try:
            with (
                Output(job.output, place, inputs.schema) as output,
                closing(_released(inputs, counted, job, content)) as batches,
            ):
                for batch in batches:
                    output.write(batch)
                    progress(batch.num_rows)
                output.finish()
            account = _account(inputs, counted, content, invalid)
            made = account.receipt(job.key, job.run, Written(job.output.name, output.size, output.sha256))
            part = place / "receipt"
            part.write_text(made.to_json(), encoding="utf-8")
            ledger.record(account.entry(made, job.key, ledger))
            if job.output.exists() and not job.force:
                raise exists(job.output)
            place_file(part, receipt_of(job.output), force=True)
            output.place(force=job.force)
        except OSError as error:
            raise written_error(error) from None
    return made


def _released(inputs: Inputs, mechanism: Counted, job: Job, content: Digest) -> Generator[pa.RecordBatch]:
    """Return the released batches as they are to be written, and take down what went in."""

    def taken() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            content.push(batch)
            yield batch

    try:
        with closing(inputs.batches(valid_only=job.drop_invalid)) as rows:
            released = release_batches(taken(), mechanism, inputs.columns, key=job.key, run=job.run)
            yield from inputs.written(released)
    except DataError:
        # Rows are counted here in the order of the files, and all of them.
        find_invalid(inputs).refuse()
        raise


def _account(inputs: Inputs, counted: Counted, content: Digest, invalid: Invalid | None) -> Account:
    """Return what was released."""
    dropped = None if invalid is None else invalid.counts
    return Account(
        mechanism=counted.mechanism,
        columns=inputs.asked,
        files=len(inputs.files),
        rows=inputs.rows - sum((dropped or {}).values()),
        series=counted.series,
        dropped=dropped,
        content=content.digest(list(inputs.types)),
        slots=content.digest(inputs.slots, named=False),
    )
