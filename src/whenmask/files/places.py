"""Where tables come from and go to: names, globs and folders, formats by their endings, and a place to work in."""

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from whenmask.errors import FileError, ParameterError

try:
    import fcntl
except ImportError:  # not on Windows: what a killed run leaves there is left for its owner to delete
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

Format: TypeAlias = Literal["parquet", "csv", "json"]

FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
}
PACKED = {".gz": "gzip", ".zst": "zstd"}
FORMAT_HINT = "name it .parquet, .csv, .tsv or .jsonl; text may end in .gz or .zst as well"
WORK = ".whenmask-"


def format_of(path: Path) -> Format:
    """Return the format that the name of a file stands for.

    Raises:
        FileError: The name has no ending that says so.
    """
    packed = path.suffix.lower() in PACKED
    ending = Path(path.stem).suffix if packed else path.suffix
    found = FORMATS.get(ending.lower())
    if found is None or (packed and found == "parquet"):
        raise FileError("the name of a file must say its format", repr(path.name), FORMAT_HINT)
    return found


def packing_of(path: Path) -> str | None:
    """Return how a file of text is compressed, if it is."""
    return PACKED.get(path.suffix.lower())


def found_files(sources: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that names, globs and folders stand for, in order, each once.

    In folders, at any depth, files of a known format are found; hidden ones are not.

    Raises:
        FileError: Something is not there, or there is nothing to read in it.
    """
    found: dict[Path, None] = {}
    for source in [os.fspath(one) for one in sources]:
        path = Path(source)
        if path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if _readable(file.relative_to(path), file)]
            hint = "a folder is searched for .parquet, .csv, .tsv, .jsonl and .ndjson"
        elif path.exists():
            files, hint = [path], ""
        else:
            files = [Path(name) for name in sorted(glob.glob(source, recursive=True)) if Path(name).is_file()]  # noqa: PTH207
            hint = "check the path; a glob in quotation marks, such as 'data/*.csv', is resolved here"
        if not files:
            raise FileError("there is no such file, or none of a known format", repr(source), hint)
        found.update(dict.fromkeys(file.resolve() for file in files))
    if not found:
        raise ParameterError("there must be something to read", "no file", "name files, globs or folders")
    for path in found:
        format_of(path)
        if not path.stat().st_size:
            raise FileError("the file is empty", repr(path.name), "leave it out, or write it again")
    return list(found)


def _readable(inside: Path, file: Path) -> bool:
    """Return whether a file in a folder is one to read."""
    if any(part.startswith(".") for part in inside.parts) or not file.is_file():
        return False
    try:
        format_of(file)
    except FileError:
        return False
    return True


@contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """Give a hidden folder that only its owner may read, and remove it whatever happens.

    It holds what must not outlive a run: rows that did not fit into memory, and output that is not complete. A
    run that is killed cannot clean up; the next one in the same folder does, since only a living run holds
    its lock.

    Raises:
        FileError: The folder cannot be made.
    """
    try:
        _sweep(folder)
        place = Path(tempfile.mkdtemp(prefix=WORK, dir=folder))
    except OSError as error:
        hint = "check that the folder is there, and may be written to"
        raise FileError("a folder to work in cannot be made", error.strerror, hint) from None
    lock = os.open(place / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _sweep(folder: Path) -> None:
    """Remove what killed runs have left."""
    for lock in folder.glob(f"{WORK}*/lock") if fcntl is not None else ():
        try:
            descriptor = os.open(lock, os.O_RDWR)
        except OSError:
            continue  # gone by now, or somebody else's
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            pass  # its run is alive
        finally:
            os.close(descriptor)
