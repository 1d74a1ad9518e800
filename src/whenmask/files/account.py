"""What a release leaves in writing, whichever engine made it: its receipt, and its entry in the ledger."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from whenmask.columns import Columns
from whenmask.finding import Finding
from whenmask.keystream import Key
from whenmask.ledger import Ledger, Run
from whenmask.mechanisms import Temporal
from whenmask.receipt import Receipt, fingerprint, versions


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        name: The name of the output.
        size: Its bytes.
        sha256: Their digest.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Account:
    """What was released, and how.

    Attributes:
        mechanism: The mechanism.
        columns: The roles of the columns, as they were asked for.
        files: How many files there were.
        rows: How many rows were released.
        series: How many series they were.
        dropped: How many rows were left out, by reason; None if none were to be.
        content: A digest of all rows.
        slots: A digest of the series and times.
        engine: The versions of what made it, beside the usual.
        left_out: The columns that nothing was read of.
        risks: What the check found that makes a release useless, if it was accepted.
    """

    mechanism: Temporal
    columns: Columns
    files: int
    rows: int
    series: int
    dropped: dict[str, int] | None
    content: bytes
    slots: bytes
    engine: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()
    risks: tuple[Finding, ...] = ()

    @property
    def _input(self) -> bytes:
        """What must not differ under one key and run: all rows, and which columns move."""
        columns = self.columns
        return self.content + json.dumps([columns.by, columns.time, columns.values, columns.keep]).encode()

    def receipt(self, key: Key, run: str, written: Written) -> Receipt:
        """Return the receipt, sealed."""
        mechanism, columns = self.mechanism, self.columns
        claim = mechanism.claim
        roles = {"by": columns.by, "time": columns.time, "values": columns.values, "keep": columns.keep}
        roles["left_out"] = self.left_out
        return Receipt(
            mechanism={
                "name": type(mechanism).__name__,
                "identity": mechanism.identity,
                "window": mechanism.window,
                "parameters": mechanism.parameters,
            },
            guarantee=_known(asdict(mechanism.guarantee)),
            claim=None if claim is None else {**asdict(claim), "basis": claim.basis},
            columns={role: list(names) if isinstance(names, tuple) else names for role, names in roles.items()},
            rows=self.rows,
            series=self.series,
            dropped=self.dropped,
            run=run,
            key=key.kind,
            input={"files": self.files, "fingerprint": fingerprint(key, b"input", self._input)},
            output={
                "name": written.name,
                "bytes": written.size,
                "sha256": written.sha256,
                "fingerprint": fingerprint(key, b"output", bytes.fromhex(written.sha256)),
            },
            versions={**versions(), **dict(self.engine)},
            risks=[{"kind": finding.kind, "column": finding.column} for finding in self.risks],
        ).sealed(key)

    def belongs_to(self, receipt: Receipt, key: Key) -> bool:
        """Return whether the receipt is about these very rows."""
        return receipt.input.get("fingerprint") == fingerprint(key, b"input", self._input)

    def entry(self, receipt: Receipt, key: Key, ledger: Ledger) -> Run:
        """Return what the ledger remembers."""
        guarantee = receipt.guarantee or {}
        proved = guarantee.get("basis") == "proved"
        return Run(
            key=ledger.fingerprint(key.derive(b"name of the key")),
            run=receipt.run,
            mechanism=receipt.mechanism["identity"],
            content=ledger.fingerprint(self._input),
            slots=ledger.fingerprint(self.slots),
            epsilon=guarantee["epsilon"] if proved else None,
            delta=guarantee["delta"] if proved else None,
            rows=receipt.rows,
            series=receipt.series,
            output=receipt.output["name"],
        )


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
