"""What was done to a file, for those who get it and for those who must answer for it.

A receipt holds no key, no value, no time and no id. The input is named by a fingerprint under the key, since
anybody could try out guesses of the rows against an unkeyed one; the output, which everybody may have, by its
SHA-256 as well. A repeated run makes the very same receipt, so there is no date in it.
"""

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from whenmask.errors import DataError, FileError, SecretError
from whenmask.keystream import Key, KeyKind

FORM = "whenmask receipt 1"
ENDING = ".receipt.json"
BLOCK = 1 << 20


@dataclass(frozen=True)
class Receipt:
    """What was done to a file.

    Attributes:
        mechanism: The mechanism's name, identity and parameters.
        guarantee: What is proved, None if nothing is.
        claim: What its paper says, which is no guarantee.
        columns: The roles of the columns.
        rows: How many rows were released.
        series: How many series they were.
        dropped: How many rows were left out, by reason; None if none were to be.
        run: The run id.
        key: Whether the key was "secure" or for "testing".
        input: How many files there were, and the fingerprint of their rows.
        output: Name, bytes, SHA-256 and fingerprint of the file.
        versions: What it was made with.
        seal: Ties all of this to the key, so that who has it can tell a forged receipt.
    """

    mechanism: dict[str, Any]
    guarantee: dict[str, Any] | None
    claim: dict[str, Any] | None
    columns: dict[str, Any]
    rows: int
    series: int
    dropped: dict[str, int] | None
    run: str
    key: KeyKind
    input: dict[str, Any]
    output: dict[str, Any]
    versions: dict[str, str]
    form: str = FORM
    seal: str = field(default="", compare=False)

    def sealed(self, key: Key) -> Self:
        """Return the receipt with a seal under the key."""
        return replace(self, seal=fingerprint(key, b"receipt", self._content()))

    def _content(self) -> bytes:
        return replace(self, seal="").to_json().encode()

    def to_json(self) -> str:
        """Return the receipt as text."""
        return json.dumps(asdict(self), indent=2, allow_nan=False) + "\n"

    @classmethod
    def read(cls, output: Path) -> Self:
        """Return the receipt of a file; the receipt itself may be named as well.

        Raises:
            FileError: There is none, or it is not one.
        """
        path = receipt_of(output)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            receipt = cls(**content)
        except OSError as error:
            hint = f"`whenmask release` writes it beside the output, with the ending {ENDING}"
            raise FileError("the receipt cannot be read", error.strerror, hint) from None
        except (ValueError, TypeError):
            raise FileError(
                "this is no receipt", repr(path.name), "it is damaged, or of another version"
            ) from None
        if receipt.form != FORM:
            raise FileError("this is no receipt of this version", repr(path.name), f"it must say {FORM!r}")
        return receipt

    def check(self, output: Path, key: Key | None = None) -> None:
        """Compare the receipt with the file, and with the key if there is one.

        Raises:
            DataError: The file is not the one that the receipt was written for.
            SecretError: The receipt was not made with this key, or was altered.
            FileError: The file cannot be read.
        """
        path = output.with_name(output.name.removesuffix(ENDING))
        size, digest = digest_of(path)
        if (size, digest) != (self.output.get("bytes"), self.output.get("sha256")):
            got = "another size" if size != self.output.get("bytes") else "other content of the same size"
            hint = "the file or the receipt was altered after the release, or they do not belong together"
            raise DataError("the file is not the one that the receipt was written for", got, hint)
        if key is not None and not hmac.compare_digest(fingerprint(key, b"receipt", self._content()), self.seal):
            hint = "use the key file of that run; a fresh key is never kept, so its receipts cannot be checked so"
            raise SecretError("the receipt was altered, or made with another key", hint=hint)


def receipt_of(output: Path) -> Path:
    """Return where the receipt of a file lies."""
    return output if output.name.endswith(ENDING) else output.with_name(output.name + ENDING)


def digest_of(path: Path) -> tuple[int, str]:
    """Return the size and SHA-256 of a file; of a folder, the sum of sizes, and that of its names and digests."""
    digest, size = hashlib.sha256(), 0
    try:
        if path.is_dir():
            for part in sorted(one for one in path.rglob("*") if one.is_file()):
                bytes_, found = digest_of(part)
                size += bytes_
                digest.update(
                    f"{found} {bytes_} {part.relative_to(path).as_posix()}\n".encode("utf-8", "surrogatepass")
                )
            return size, digest.hexdigest()
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise FileError("the output cannot be read", error.strerror, "name the released file") from None
    return size, digest.hexdigest()


def fingerprint(key: Key, purpose: bytes, digest: bytes) -> str:
    """Return a fingerprint that means nothing to whoever does not have the key."""
    return key.derive(b"fingerprint " + purpose + b" " + hashlib.sha256(digest).digest()).hex()


def versions() -> dict[str, str]:
    """Return what a release depends on."""
    return {name: version(name) for name in ("whenmask", "numpy", "pyarrow", "duckdb")}
