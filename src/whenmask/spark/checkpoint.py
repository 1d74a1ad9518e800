"""What must stay the same for the life of a checkpoint, in a small file inside it.

The run id belongs to the checkpoint: whoever restarts from it goes on with the same plans, and a fresh checkpoint
gets a fresh run id, since plans must never be drawn again for other rows. The file holds no key, only a name for
it that says nothing to those who do not have it.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from whenmask.columns import Columns
from whenmask.errors import DataError, FileError, ParameterError
from whenmask.keystream import Key, checked_run

FORM = "whenmask stream 1"
PLACE = "whenmask/stream.json"
HINT = "restart with what it was started with, or start anew with a fresh checkpoint and a fresh output"


@dataclass(frozen=True)
class Terms:
    """What a stream is started with and must be restarted with.

    Attributes:
        mechanism: The mechanism's exact identity.
        columns: The roles of the columns.
        types: Their types.
        buckets: How many buckets there are.
        end: The column that marks the end of a series.
        sorts: Whether rows wait for earlier ones (`delay`).
        ends: Whether series end when they are idle.
    """

    mechanism: str
    columns: Columns
    types: str
    buckets: int
    end: str | None
    sorts: bool
    ends: bool

    def told(self) -> dict[str, Any]:
        """Return the terms as they are written down."""
        told: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return told


class Checkpoint:
    """A folder on any file system that Spark knows."""

    def __init__(self, session: SparkSession, path: str) -> None:
        self._jvm: Any = session._jvm
        self._path = path
        java: Any = session._jsparkSession
        self._configuration = java.sessionState().newHadoopConf()

    def run(self, terms: Terms, key: Key, asked: str | None) -> str:
        """Return the run id of the checkpoint; give it one if it is new.

        Raises:
            ParameterError: It was started with other terms.
            DataError: It belongs to another stream.
            FileError: It cannot be read or written.
        """
        try:
            found = self._read()
            if found is None:
                run = checked_run(asked)
                self._write(
                    json.dumps({"form": FORM, "run": run, "key": _name(key, run), **terms.told()}, indent=2)
                )
                return run
        except Py4JJavaError as error:
            got = error.java_exception.getClass().getSimpleName()
            raise FileError("the checkpoint cannot be used", got, "check that it may be written to") from None
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise FileError("the checkpoint is damaged", PLACE, HINT) from None
        return _checked(found, terms, key, asked)

    def _at(self, place: str) -> tuple[Any, Any]:
        """Return a place in the checkpoint, and its file system."""
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._path.rstrip('/')}/{place}")
        return path, path.getFileSystem(self._configuration)

    def _read(self) -> dict[str, Any] | None:
        path, system = self._at(PLACE)
        if not system.exists(path):
            offsets, _ = self._at("offsets")
            if system.exists(offsets):
                hint = "name a fresh one"
                raise DataError("the checkpoint belongs to a stream without whenmask", hint=hint)
            return None
        stream = system.open(path)
        try:
            found: dict[str, Any] = json.loads(bytes(stream.readAllBytes()))
        finally:
            stream.close()
        return found

    def _write(self, text: str) -> None:
        path, system = self._at(PLACE)
        part, _ = self._at(f"{PLACE}.part")
        stream = system.create(part, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        if not system.rename(part, path):
            raise FileError("the checkpoint cannot be used", "a file that cannot be renamed", HINT)


def _checked(found: dict[str, Any], terms: Terms, key: Key, asked: str | None) -> str:
    """Return the run id if all else is as it was."""
    if found.get("form") != FORM:
        raise FileError("the checkpoint is of another version", repr(found.get("form"))[:40], HINT)
    run = str(found.get("run"))
    if found.get("key") != _name(key, run):
        raise ParameterError("a stream must be restarted with its own key", "another key", HINT)
    changed = [name for name, value in terms.told().items() if found.get(name) != value]
    if asked is not None and asked != run:
        changed.append("run")
    if changed:
        got = f"other {', '.join(changed)}"
        raise ParameterError("a stream must be restarted on the terms of its checkpoint", got, HINT)
    return run


def _name(key: Key, run: str) -> str:
    return key.derive(b"name of the checkpoint " + run.encode()).hex()
