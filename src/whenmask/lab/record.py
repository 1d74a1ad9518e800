"""What a run was made of: its effort and its data, kept beside the results so that they can be drawn again."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from whenmask.errors import FileError
from whenmask.lab.datasets import KNOWN, Data
from whenmask.lab.results import RESULTS_HINT

# In the order in which they are told.
EFFORTS = {
    "full": "full",
    "quick": "quick (fewer repeats, at most 1,200 trips and 12 households: run without --quick for more)",
    "tiny": "tiny, for tests",
}


class Source(msgspec.Struct, frozen=True):
    """A data set that was used: its name, where it comes from, and the SHA-256 of its file."""

    name: str
    origin: str
    real: bool
    digest: str

    @classmethod
    def of(cls, data: Data) -> "Source":
        """Return what is to be told of a data set."""
        return cls(data.name, data.origin, data.real, data.digest)

    @property
    def words(self) -> str:
        """Where it comes from, and whether it is the very file that the documentation speaks of."""
        known = KNOWN.get(self.digest)
        return f"{self.origin} ({known})" if known else self.origin


class Record(msgspec.Struct, frozen=True):
    """What was run, each experiment with its effort, on what data, with which version."""

    efforts: dict[str, str]
    sources: list[Source]
    version: str

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what a reader should know before the results."""
        for effort, words in EFFORTS.items():
            names = [name for name, used in self.efforts.items() if used == effort]
            if names:
                whole = len(names) == len(self.efforts)
                yield "Settings", words if whole else f"{words}: {', '.join(names)}"
        for source in self.sources:
            yield source.name, source.words

    def basis(self, experiment: str, data: Sequence[str]) -> str:
        """Return on which data and with which settings an experiment was measured."""
        origins = "; ".join(f"{source.name}: {source.words}" for source in self.sources if source.name in data)
        return f"{origins or 'no data needed'}. Settings: {self.efforts[experiment]}."

    def write(self, folder: Path) -> None:
        """Write run.json."""
        (folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2))

    @classmethod
    def read(cls, folder: Path) -> "Record":
        """Return what `write` wrote.

        Raises:
            FileError: It is not there, or damaged.
        """
        path = folder / "run.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError) as error:
            raise FileError("the record of the run cannot be read", type(error).__name__, RESULTS_HINT) from None
