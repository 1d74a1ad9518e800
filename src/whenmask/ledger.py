"""What has been released: a small file that remembers, since no single release can know of the others.

Two things go wrong only between releases. Different rows under the same key and run move alike, so that where they
agree and where they differ tells the plan: that is refused. And the same rows released again, by another run, show
a second draw: what both give away adds up, and the ledger says to how much. Rows and keys are remembered by
fingerprints under a secret of the ledger's own; there are no values, times or ids in it.
"""

import datetime
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields
from hashlib import blake2b
from pathlib import Path

from whenmask.errors import DataError, FileError
from whenmask.keystream import Key

PATIENCE = 60.0
SHORT = 16
TABLES = (
    "CREATE TABLE IF NOT EXISTS secret (only INTEGER PRIMARY KEY CHECK (only = 1), key BLOB NOT NULL)",
    """CREATE TABLE IF NOT EXISTS runs (
    key TEXT NOT NULL, run TEXT NOT NULL, mechanism TEXT NOT NULL, content TEXT NOT NULL, slots TEXT NOT NULL,
    epsilon REAL, delta REAL, rows INTEGER NOT NULL, series INTEGER NOT NULL, output TEXT NOT NULL,
    date TEXT NOT NULL, PRIMARY KEY (key, run, mechanism))""",
    "CREATE TABLE IF NOT EXISTS spent (slots BLOB NOT NULL, run INTEGER NOT NULL, series INTEGER NOT NULL)",
)
# What the runs of one series have in common, and what they add up to; NULL where a part is unknown.
SPENT = """
SELECT sum(series), runs, epsilon, delta FROM (
    SELECT max(spent.series) AS series, count(*) AS runs,
        CASE WHEN count(epsilon) = count(*) THEN sum(epsilon) END AS epsilon,
        CASE WHEN count(delta) = count(*) THEN sum(delta) END AS delta
    FROM spent JOIN runs ON runs.rowid = spent.run GROUP BY spent.slots)
GROUP BY runs, epsilon, delta ORDER BY runs DESC, epsilon DESC"""


@dataclass(frozen=True)
class Run:
    """One release.

    Attributes:
        key: A fingerprint of the key.
        run: The run id.
        mechanism: The mechanism's exact identity.
        content: A fingerprint of all rows, and of the roles of their columns.
        slots: A fingerprint of the series and times alone: releases of the same ones add up.
        epsilon: What the mechanism guarantees, None if nothing is proved.
        delta: The same.
        rows: How many rows were released.
        series: How many series they were.
        output: The name of the file.
        date: The day, for the reader; nothing depends on it.
    """

    key: str
    run: str
    mechanism: str
    content: str
    slots: str
    epsilon: float | None
    delta: float | None
    rows: int
    series: int
    output: str
    date: str = ""


@dataclass(frozen=True)
class Spent:
    """What the releases of some series add up to, in all files that they were part of.

    Attributes:
        series: How many series have been released like this, at the same times again and again.
        runs: How many different runs each was part of; a repeated run shows nothing new.
        epsilon: The sum of their epsilons, None if nothing is proved for one of them.
        delta: The sum of their deltas, the same.
    """

    series: int
    runs: int
    epsilon: float | None
    delta: float | None


class Ledger:
    """The releases that were made beside each other, in an SQLite file that only its owner may read."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        """Open a ledger, or start one.

        Raises:
            FileError: It cannot be opened, or is not a ledger.
        """
        self._path = path
        try:
            if create:
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            elif not path.is_file():
                raise FileError(
                    "there is no ledger", repr(path.name), "`whenmask release` starts one beside its output"
                )
        except OSError as error:
            raise FileError(
                "the ledger cannot be written", error.strerror, "name another one with --ledger"
            ) from None
        with self._connected() as connection:
            for table in TABLES:
                connection.execute(table)
            connection.execute("INSERT OR IGNORE INTO secret VALUES (1, ?)", [Key.fresh().expose()])
            (secret,) = connection.execute("SELECT key FROM secret").fetchone()
            self._secret = Key.from_exposed(secret)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Give a connection, with one transaction that no other process can come between."""
        try:
            with closing(sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            hint = "another run may be using it, or it may be damaged; name another one with --ledger"
            raise FileError("the ledger cannot be used", type(error).__name__, hint) from None

    def fingerprint(self, digest: bytes) -> str:
        """Return a digest as this ledger remembers it."""
        return self._secret.derive(b"ledger " + digest).hex()

    def record(self, run: Run, series: Iterable[bytes] = ()) -> bool:
        """Remember a run before its output is seen; return whether it repeats one that is known.

        Args:
            run: The run.
            series: A digest of the id and the times of each series, so that what a series spends adds up whatever
                files it is part of; without them, it adds up for the same series and times all together.

        Raises:
            DataError: Other rows were released under the same key and run id.
        """
        with self._connected() as connection:
            known = connection.execute(
                "SELECT content FROM runs WHERE key = ? AND run = ? AND mechanism = ?",
                [run.key, run.run, run.mechanism],
            ).fetchone()
            if known is None:
                today = datetime.datetime.now(datetime.UTC).date().isoformat()
                values = [*astuple(run)[:-1], run.date or today]
                inserted = f"INSERT INTO runs VALUES ({', '.join('?' * len(values))})"  # noqa: S608
                number = connection.execute(inserted, values).lastrowid
                secret = self._secret.derive(b"series")
                slots = [(blake2b(one, key=secret, digest_size=SHORT).digest(), number, 1) for one in series]
                whole = [(run.slots.encode(), number, run.series)]
                connection.executemany("INSERT INTO spent VALUES (?, ?, ?)", slots or whole)
        if known is not None and known[0] != run.content:
            hint = "the two releases together would show where rows were moved; take another --run-id, or none"
            raise DataError("other rows were released under the same key and run id", hint=hint)
        return known is not None

    def runs(self) -> list[Run]:
        """Return all runs, in order."""
        names = ", ".join(field.name for field in fields(Run))
        with self._connected() as connection:
            return [Run(*row) for row in connection.execute(f"SELECT {names} FROM runs ORDER BY rowid")]  # noqa: S608

    def spent(self) -> list[Spent]:
        """Return what the series have spent, those that were released most often first."""
        with self._connected() as connection:
            return [Spent(*row) for row in connection.execute(SPENT)]
