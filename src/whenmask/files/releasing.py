"""Releasing files: sort, release, write, remember, and only then let it be seen."""

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from whenmask.batches import release_batches
from whenmask.check import Check, refuse_useless, useless
from whenmask.errors import DataError, FileError
from whenmask.files.fingerprint import Digest
from whenmask.files.inspection import Invalid, find_invalid
from whenmask.files.places import format_of, workplace
from whenmask.files.reading import Inputs
from whenmask.files.writing import Output, exists, place_file, written_error
from whenmask.keystream import Key, checked_run
from whenmask.ledger import Ledger, Run
from whenmask.losses import Comparison
from whenmask.mechanisms import Temporal
from whenmask.receipt import Receipt, fingerprint, receipt_of, versions
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
        check: What tells the order by itself.
        plans: The mechanism, watched for the report.
        comparison: The rows before and after, for the report.
    """

    def __init__(
        self, inputs: Inputs, mechanism: Temporal, *, report: bool = False, show: str | None = None
    ) -> None:
        columns, window = inputs.columns, mechanism.window
        self.content = Digest(list(inputs.types))
        self.check = Check(columns, window=window)
        self.plans = Watched(mechanism) if report else None
        self.comparison = Comparison(columns, window=window, show=show) if report else None

    def before(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand the input through, and look at it."""
        for batch in batches:
            self.content.push(batch)
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
            made = _receipt(inputs, mechanism, job, output, onlooker, invalid)
            part = place / "receipt"
            part.write_text(made.to_json(), encoding="utf-8")
            ledger.record(_run(inputs, made, job, onlooker.content, ledger))
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


def _receipt(
    inputs: Inputs,
    mechanism: Temporal,
    job: Job,
    output: Output,
    onlooker: Onlooker,
    invalid: Invalid | None,
) -> Receipt:
    dropped = None if invalid is None else invalid.counts
    claim, guarantee = mechanism.claim, mechanism.guarantee
    roles = {
        "by": inputs.asked.by,
        "time": inputs.asked.time,
        "values": inputs.asked.values,
        "keep": inputs.asked.keep,
        "left_out": inputs.left_out,
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
        series=onlooker.check.series,
        dropped=dropped,
        run=job.run,
        key=job.key.kind,
        input={
            "files": len(inputs.files),
            "fingerprint": fingerprint(job.key, b"input", _content(inputs, onlooker.content)),
        },
        output={
            "name": job.output.name,
            "bytes": output.size,
            "sha256": output.sha256,
            "fingerprint": fingerprint(job.key, b"output", bytes.fromhex(output.sha256)),
        },
        versions=versions(),
        risks=[{"kind": finding.kind, "column": finding.column} for finding in useless(onlooker.check.findings())],
    ).sealed(job.key)


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def belongs(receipt: Receipt, inputs: Inputs, content: Digest, key: Key) -> bool:
    """Return whether these are the rows that the receipt is about."""
    return receipt.input.get("fingerprint") == fingerprint(key, b"input", _content(inputs, content))


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
