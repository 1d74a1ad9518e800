"""Releasing files: sort, release, write, remember, and only then let it be seen."""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from whenmask.batches import release_batches
from whenmask.errors import DataError, FileError
from whenmask.files.fingerprint import Digest
from whenmask.files.inspection import Invalid, find_invalid
from whenmask.files.places import format_of, workplace
from whenmask.files.reading import Inputs
from whenmask.files.writing import Output, exists, place_file, written_error
from whenmask.keystream import Key, Keystream, checked_run
from whenmask.ledger import Ledger, Run
from whenmask.mechanisms import Temporal
from whenmask.receipt import Receipt, fingerprint, receipt_of, versions
from whenmask.sampler import Draw, Walk

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
            made = _receipt(inputs, counted, job, output, content, invalid)
            part = place / "receipt"
            part.write_text(made.to_json(), encoding="utf-8")
            ledger.record(_run(inputs, made, job, content, ledger))
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


def _receipt(
    inputs: Inputs, counted: Counted, job: Job, output: Output, content: Digest, invalid: Invalid | None
) -> Receipt:
    mechanism = counted.mechanism
    dropped = None if invalid is None else invalid.counts
    claim, guarantee = mechanism.claim, mechanism.guarantee
    roles = {
        "by": inputs.asked.by,
        "time": inputs.asked.time,
        "values": inputs.asked.values,
        "keep": inputs.asked.keep,
    }
    return Receipt(
        mechanism={
            "name": type(mechanism).__name__,
            "identity": mechanism.identity,
            "window": mechanism.window,
            "parameters": mechanism.parameters,
        },
        guarantee=_known(asdict(guarantee)),
        claim=None if claim is None else {**asdict(claim), "basis": claim.basis},
        columns={role: list(names) if isinstance(names, tuple) else names for role, names in roles.items()},
        rows=inputs.rows - sum((dropped or {}).values()),
        series=counted.series,
        dropped=dropped,
        run=job.run,
        key=job.key.kind,
        input={
            "files": len(inputs.files),
            "fingerprint": fingerprint(job.key, b"input", _content(inputs, content)),
        },
        output={
            "name": job.output.name,
            "bytes": output.size,
            "sha256": output.sha256,
            "fingerprint": fingerprint(job.key, b"output", bytes.fromhex(output.sha256)),
        },
        versions=versions(),
    ).sealed(job.key)


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _content(inputs: Inputs, content: Digest) -> bytes:
    """Return what must not differ under one key and run: all rows, and which columns move."""
    columns = inputs.columns
    roles = json.dumps([columns.by, columns.time, columns.values, columns.keep])
    return content.digest(list(inputs.types)) + roles.encode()


def _run(inputs: Inputs, receipt: Receipt, job: Job, content: Digest, ledger: Ledger) -> Run:
    guarantee = receipt.guarantee or {}
    proved = guarantee.get("basis") == "proved"
    return Run(
        key=ledger.fingerprint(job.key.derive(b"name of the key")),
        run=job.run,
        mechanism=receipt.mechanism["identity"],
        content=ledger.fingerprint(_content(inputs, content)),
        slots=ledger.fingerprint(content.digest(inputs.slots, named=False)),
        epsilon=guarantee["epsilon"] if proved else None,
        delta=guarantee["delta"] if proved else None,
        rows=receipt.rows,
        series=receipt.series,
        output=job.output.name,
    )
