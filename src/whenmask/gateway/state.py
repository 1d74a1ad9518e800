"""The state of a gateway in SQLite: what must survive a crash, changed in one transaction per batch.

    series       a name of each series, sealed, under a keyed fingerprint
    heads        how many readings came, and how many slots left
    checkpoints  where the walk of a series is, now and then, sealed
    readings     what later slots need, sealed
    outbox       what was released and not yet acknowledged, sealed
    counters     what happened so far, in numbers
    binding      what the state is of: version, mechanism, delay, run id, fingerprint of the key
    salts        of the starts so far (see `vault`)

WAL with synchronous=FULL: a commit is on the disk when it returns. One gateway at a time holds the lock.
"""

import fcntl
import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from whenmask.errors import FileError, SecretError
from whenmask.gateway.vault import OpenVault, SealedVault, Vault
from whenmask.keystream import Key, checked_run, fresh_run

VERSION = 1
# "WMSK": tells our files from other SQLite files.
APPLICATION = 0x574D534B
MEMORY = ":memory:"
NO_ROOM = {"SQLITE_FULL", "SQLITE_IOERR"}
SCHEMA = """
CREATE TABLE binding (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE salts (number INTEGER PRIMARY KEY, salt BLOB NOT NULL);
CREATE TABLE series (number INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL UNIQUE, content BLOB NOT NULL);
CREATE TABLE heads (number INTEGER PRIMARY KEY, episode INTEGER NOT NULL, arrived INTEGER NOT NULL,
                    shown INTEGER NOT NULL);
CREATE TABLE checkpoints (number INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE readings (series INTEGER, place INTEGER, content BLOB NOT NULL, PRIMARY KEY (series, place))
    WITHOUT ROWID;
CREATE TABLE outbox (number INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
RECOVERY = (
    "move the file away, with those beside it whose names begin like its own, and start again: the gateway then "
    "begins a new run, and what waited in the old file is lost unless `sqlite3 FILE .recover` saves it. Never put "
    "back an older copy: it would draw again what was drawn already, for other readings"
)


class NoRoomError(FileError):
    """The disk is full or does not take what is written: nothing changed, and it can be tried again."""


class StateError(FileError):
    """The state is damaged, of another gateway, or in use."""


@dataclass(frozen=True)
class Binding:
    """What a state belongs to, and cannot be used without.

    Attributes:
        mechanism: The mechanism's identity.
        delay: After how many further readings a slot leaves.
        key: The fingerprint of the key.
        encrypted: "yes" or "no".
    """

    mechanism: str
    delay: int
    key: str
    encrypted: str

    @classmethod
    def of(cls, mechanism: str, delay: int, key: Key, *, encrypt: bool) -> Self:
        """Return the binding to a mechanism, a delay and a key."""
        fingerprint = key.derive(b"gateway fingerprint").hex()[:16]
        return cls(mechanism, delay, fingerprint, "yes" if encrypt else "no")


class State:
    """An open state. Every change happens within `transaction`."""

    def __init__(self, path: str | os.PathLike[str], binding: Binding, key: Key, run: str | None = None) -> None:
        """Open the state, or begin one where there is no file.

        Args:
            path: The file; ":memory:" for a state that does not last.
            binding: What the state must belong to.
            key: The secret.
            run: The run id of a new state; a fresh one by default.

        Raises:
            StateError: It is damaged, of another gateway, in use, or open to others.
        """
        self._path = os.fspath(path)
        self._lock = None if self._path == MEMORY else _locked(self._path)
        self._outgoing = 0
        self._fingerprint_key = key.derive(b"gateway series")
        new = self._path == MEMORY or _made(self._path)
        try:
            self._connection = connect(self._path)
            with explained(self._path):
                if new:
                    # A fresh run, usually: the key may have served another state, whose readings were others.
                    self._begin(binding, checked_run(run))
                self._check(binding)
                self._vault = self._opened_vault(key, sealed=binding.encrypted == "yes")
                self._outgoing = int(self._one("SELECT max(number) FROM outbox") or 0)
        except BaseException:
            self.close()
            raise

    def _begin(self, binding: Binding, run: str) -> None:
        self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
        self._connection.execute("PRAGMA journal_mode = WAL")
        with self.transaction():
            for statement in SCHEMA.split(";"):
                self._connection.execute(statement)
            content = {"version": VERSION, "run": run, **asdict(binding)}
            self._connection.executemany("INSERT INTO binding VALUES (?, ?)", content.items())

    def _check(self, binding: Binding) -> None:
        self._connection.execute("PRAGMA synchronous = FULL")
        if self._one("PRAGMA application_id") != APPLICATION:
            raise StateError("the file is not the state of a gateway", hint="name another file")
        if self._one("PRAGMA quick_check") != "ok":
            raise damaged()
        found = dict(self._connection.execute("SELECT name, value FROM binding").fetchall())
        if found.get("version") != VERSION:
            hint = "start it with the version of whenmask that made it"
            raise StateError(f"the state must be of version {VERSION}", f"version {found.get('version')}", hint)
        for name, wanted in asdict(binding).items():
            if found.get(name) != wanted:
                hint = (
                    f"give it back the {name} that it was made with, or end its series with "
                    "`whenmask gateway end` and move the state away before you change it"
                )
                got = f"{found.get(name)} in the state and {wanted} in the configuration"
                raise StateError(f"the state was made with another {name}", None if name == "key" else got, hint)
        self.run = str(found["run"])

    def _opened_vault(self, key: Key, *, sealed: bool) -> Vault:
        if not sealed:
            return OpenVault()
        with self.transaction():
            self._connection.execute("INSERT INTO salts (salt) VALUES (?)", (fresh_run().encode(),))
        return SealedVault(key, dict(self._connection.execute("SELECT number, salt FROM salts").fetchall()))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Change everything within, or nothing.

        Raises:
            NoRoomError: There is no room; nothing changed.
            StateError: The file is damaged.
        """
        with explained(self._path):
            outgoing = self._outgoing
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._outgoing = outgoing
                with suppress(sqlite3.Error):  # SQLite rolls back by itself where there is no room
                    self._connection.execute("ROLLBACK")
                raise

    def find_series(self, encoded: bytes) -> tuple[int, int, int, int] | None:
        """Return number, episode, arrived and shown of the series of this name, if it is known."""
        found: tuple[int, int, int, int] | None = self._connection.execute(
            "SELECT number, episode, arrived, shown FROM series JOIN heads USING (number) WHERE fingerprint = ?",
            (self._fingerprint(encoded),),
        ).fetchone()
        return found

    def add_series(self, encoded: bytes) -> int:
        """Take on a series; return its number."""
        fingerprint = self._fingerprint(encoded)
        content = self._vault.seal(encoded, b"series" + fingerprint)
        number = self._connection.execute(
            "INSERT INTO series (fingerprint, content) VALUES (?, ?)", (fingerprint, content)
        ).lastrowid
        self._connection.execute("INSERT INTO heads VALUES (?, 0, 0, 0)", (number,))
        return int(number or 0)

    def _fingerprint(self, encoded: bytes) -> bytes:
        return hashlib.blake2b(encoded, key=self._fingerprint_key, digest_size=16).digest()

    def names(self) -> Iterator[bytes]:
        """Yield the names of all series, as they were added."""
        with explained(self._path):
            for fingerprint, content in self._connection.execute("SELECT fingerprint, content FROM series"):
                yield self._vault.unseal(content, b"series" + fingerprint)

    def save_heads(self, heads: Iterable[tuple[int, int, int, int]]) -> None:
        """Note episode, arrived and shown of series; their numbers come last."""
        self._connection.executemany(
            "UPDATE heads SET episode = ?, arrived = ?, shown = ? WHERE number = ?", heads
        )

    def checkpoint(self, series: int) -> bytes | None:
        """Return the last checkpoint of a series, if there is one."""
        sealed = self._one("SELECT content FROM checkpoints WHERE number = ?", series)
        return None if sealed is None else self._vault.unseal(sealed, b"checkpoint %d" % series)

    def save_checkpoint(self, series: int, content: bytes, needed: int) -> None:
        """Note where a series is, and forget the readings before the first that is needed."""
        sealed = self._vault.seal(content, b"checkpoint %d" % series)
        self._connection.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?)", (series, sealed))
        self._connection.execute("DELETE FROM readings WHERE series = ? AND place < ?", (series, needed))

    def add_readings(self, readings: dict[tuple[int, int], bytes]) -> None:
        """Keep readings by series and place."""
        seal = self._vault.seal
        rows = [(*place, seal(content, b"reading %d %d" % place)) for place, content in readings.items()]
        self._connection.executemany("INSERT INTO readings VALUES (?, ?, ?)", rows)

    def reading(self, series: int, place: int) -> bytes | None:
        """Return a reading, if it is kept."""
        sealed = self._one("SELECT content FROM readings WHERE series = ? AND place = ?", series, place)
        return None if sealed is None else self._vault.unseal(sealed, b"reading %d %d" % (series, place))

    def latest_readings(self, series: int, most: int) -> Iterator[bytes]:
        """Yield the last readings of a series, the last one first."""
        rows = self._connection.execute(
            "SELECT place, content FROM readings WHERE series = ? ORDER BY place DESC LIMIT ?", (series, most)
        )
        for place, sealed in rows:
            yield self._vault.unseal(sealed, b"reading %d %d" % (series, place))

    def add_outgoing(self, contents: Iterable[bytes]) -> int:
        """Put messages into the outbox, numbered on; return the number of the first."""
        seal, first = self._vault.seal, self._outgoing + 1
        rows = [(n, seal(content, b"outgoing %d" % n)) for n, content in enumerate(contents, first)]
        self._connection.executemany("INSERT INTO outbox VALUES (?, ?)", rows)
        self._outgoing += len(rows)
        return first

    @property
    def newest_outgoing(self) -> int:
        """The number of the last message that was put into the outbox."""
        return self._outgoing

    def outgoing(self, after: int, most: int) -> list[tuple[int, bytes]]:
        """Return the next messages of the outbox, with their numbers."""
        with explained(self._path):
            rows = self._connection.execute(
                "SELECT number, content FROM outbox WHERE number > ? ORDER BY number LIMIT ?", (after, most)
            ).fetchall()
            return [(number, self._vault.unseal(sealed, b"outgoing %d" % number)) for number, sealed in rows]

    def remove_outgoing(self, numbers: Iterable[int]) -> None:
        """Forget messages that were acknowledged."""
        self._connection.executemany("DELETE FROM outbox WHERE number = ?", ((number,) for number in numbers))

    def count(self, counts: Iterable[tuple[str, int]]) -> None:
        """Add to the counters."""
        self._connection.executemany(
            "INSERT INTO counters VALUES (?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value", counts
        )

    def totals(self) -> dict[str, int]:
        """Return how much there is, and what happened so far."""
        return read_totals(self._connection)

    def _one(self, query: str, *values: Any) -> Any:
        row = self._connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and give back the lock."""
        if hasattr(self, "_connection"):
            self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def connect(path: str, *, readonly: bool = False) -> sqlite3.Connection:
    """Open a SQLite file, without transactions of Python's own."""
    if path == MEMORY:
        return sqlite3.connect(path, isolation_level=None)
    mode = "ro" if readonly else "rw"
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)


def read_totals(connection: sqlite3.Connection) -> dict[str, int]:
    """Return how much there is, and what happened so far."""
    series, arrived, shown = connection.execute(
        "SELECT count(*), total(arrived), total(shown) FROM heads"
    ).fetchone()
    outbox = connection.execute("SELECT count(*) FROM outbox").fetchone()[0]
    totals = {"series": series, "pending": int(arrived - shown), "outbox": outbox}
    return totals | dict(connection.execute("SELECT name, value FROM counters ORDER BY name").fetchall())


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a state is of and how much is in it, without the key and while a gateway uses it.

    Raises:
        StateError: There is none, or it is damaged.
    """
    name = os.fspath(path)
    if not Path(name).exists():
        raise StateError("there is no state", hint="the gateway makes one when it starts")
    with explained(name):
        connection = connect(name, readonly=True)
        try:
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
                raise StateError("the file is not the state of a gateway", hint="name another file")
            binding = dict(connection.execute("SELECT name, value FROM binding").fetchall())
            return {"running": _in_use(name), "binding": binding, "totals": read_totals(connection)}
        finally:
            connection.close()


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn the errors of SQLite into ours."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(tuple(NO_ROOM)):
            hint = "make room; nothing is lost, and the gateway goes on by itself"
            raise NoRoomError("the state cannot be written", name, hint) from None
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise damaged() from None
        raise StateError(f"the state cannot be used: {Path(path).name}", name or str(error), RECOVERY) from None
    except SecretError as error:
        raise StateError(error.problem, hint=RECOVERY) from None


def damaged() -> StateError:
    """Return the error for a file that does not hold what it must."""
    return StateError("the state is damaged", hint=RECOVERY)


def _made(path: str) -> bool:
    """Make the file, open to its owner only; return whether it was not there."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
            raise StateError("the state must be open to its owner only", hint="run chmod 600 on it") from None
        # An empty file is what a crash leaves that came before the first transaction.
        return Path(path).stat().st_size == 0
    except OSError as error:
        raise StateError("the state cannot be made", error.strerror, "check its folder") from None
    return True


def _locked(path: str) -> int:
    """Take the lock of a state; return its descriptor."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StateError("the state cannot be locked", error.strerror, "check its folder") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        hint = "one gateway at a time: stop the other, or give this one a state of its own"
        raise StateError("the state is in use by another gateway", hint=hint) from None
    return lock


def _in_use(path: str) -> bool:
    """Return whether a gateway holds the lock."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(lock)
