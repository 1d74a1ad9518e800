"""The only door to randomness: a keystream addressed by (secret, context, step).

A context names one series of one run of one mechanism with its exact parameters. HKDF-SHA256 turns the secret,
the mechanism and the run into two keys. Under the one, BLAKE2b turns the name of a series into a place, a number
of 128 bits; under the other, AES-256-CTR from the block of that number on is the keystream of the series: 64-bit
words, counted from zero, any range of which can be read on its own. So a retry, a restart or another engine that
is given the same secret and context reads the same words and releases the same thing, and nothing here has a state
to lose. And since all series of a run have one cipher, a million short ones are encrypted in a few calls.

Why the words are as good as random, and independent between series: names of different series are encoded
differently, so their places are independent and uniform as far as keyed BLAKE2b is a pseudorandom function. Two of
m series that read at most b blocks each meet with probability at most m²·b/2^128 (a million million series of a
million blocks: 2^-28; a million series of a thousand blocks: 2^-78). Where none meet, all blocks of a run are
encrypted once each, and n of them are told from random bits with probability at most n²/2^129, as far as AES is a
pseudorandom permutation. Different runs and mechanisms have keys of their own, independent as far as HKDF's are.

The price: one context must never serve two different inputs. Hence `fresh_run`: unless a run id is asked for,
every call gets a new one from the operating system, in forked and spawned workers too.
"""

import hashlib
import hmac
import os
import secrets
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, Self, TypeAlias

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from whenmask.errors import ParameterError, SecretError, whole_number

KEY_BYTES = 32
WORD_BYTES = 8
BLOCK_BYTES = 16
NONCE_BYTES = 12
# Bytes encrypted at a time: large enough to hide the call, small enough for the zeros to stay in the cache.
CHUNK_BYTES = 1 << 16
# The first of the words that are read only where a choice is still open after the usual ones: hardly ever.
SPARE = 1 << 62
SALT = b"whenmask keystream 2"
ZEROS = bytes(CHUNK_BYTES)
# The type and the length that an encoded value begins with.
HEAD = struct.Struct("<cQ")

KeyKind: TypeAlias = Literal["secure", "testing"]
Series: TypeAlias = bool | int | str | bytes | tuple["Series", ...] | None


class Key:
    """A secret of 32 bytes. It never shows itself: not in `repr`, not in a pickle, not in an error.

    Example:
        >>> Key.fresh()
        <Key: secure>
        >>> Key.for_testing(7)
        <Key: testing>
    """

    __slots__ = ("__extracted", "__kind", "__secret")

    def __init__(self, secret: bytes) -> None:
        """Take 32 secret bytes; `fresh` and `from_file` are usually what you want."""
        if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
            got = f"{len(secret)} bytes" if isinstance(secret, bytes) else f"a {type(secret).__name__}"
            raise SecretError(f"a key must be {KEY_BYTES} bytes", got, "make one with Key.fresh()")
        self.__secret = secret
        # The extract step of HKDF, done once per key rather than once per context.
        self.__extracted = hmac.digest(SALT, secret, "sha256")
        self.__kind: KeyKind = "secure"

    @classmethod
    def fresh(cls) -> Self:
        """Return a new key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a key from a file of 32 bytes, or of 64 hexadecimal digits, that only its owner may read.

        Raises:
            SecretError: The file cannot be read, is open to others, or does not hold a key.
        """
        try:
            with Path(path).open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read(4 * KEY_BYTES)
        except OSError as error:
            raise SecretError("the key file cannot be read", error.strerror, "check its path and owner") from None
        if os.name == "posix" and mode & 0o077:
            hint = "run chmod 600 on it; and make a new key, since others may have read this one"
            raise SecretError("the key file must be open to its owner only", f"mode {mode:04o}", hint)
        return cls(_decoded(content))

    @classmethod
    def for_testing(cls, number: int) -> Self:
        """Return a key that anybody can work out from a small number, for tests and repeatable experiments.

        Every plan, receipt and report made with it says so.
        """
        number = whole_number("number", number, least=0, hint="a testing key is made from a number such as 7")
        key = cls(hashlib.sha256(b"whenmask testing key %d" % number).digest())
        key.__kind = "testing"
        return key

    @property
    def kind(self) -> KeyKind:
        """Whether this is a "secure" or a "testing" key."""
        return self.__kind

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key, as hexadecimal digits, to a new file that only its owner may read."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            hint = "an existing file is never overwritten"
            raise SecretError("the key file cannot be written", error.strerror, hint) from None
        with os.fdopen(descriptor, "w") as file:
            file.write(self.__secret.hex() + "\n")

    def expose(self) -> bytes:
        """Return the secret itself, for handing it to another process over a channel you trust."""
        return self.__kind[0].encode() + self.__secret

    @classmethod
    def from_exposed(cls, exposed: bytes) -> Self:
        """Rebuild the key that `expose` gave away; a testing key stays a testing key."""
        key = cls(exposed[1:])
        if exposed[:1] == b"t":
            key.__kind = "testing"
        return key

    def derive(self, purpose: bytes) -> bytes:
        """Return 32 bytes that depend on the secret and the purpose, by HKDF-SHA256."""
        return HKDFExpand(SHA256(), KEY_BYTES, purpose).derive(self.__extracted)

    def seal(self, purpose: bytes, clear: bytes, header: bytes) -> bytes:
        """Encrypt and authenticate data at rest (AES-256-GCM), together with a header that stays in the clear."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + AESGCM(self.derive(b"seal " + purpose)).encrypt(nonce, clear, header)

    def unseal(self, purpose: bytes, sealed: bytes, header: bytes) -> bytes:
        """Return what `seal` was given.

        Raises:
            SecretError: The data or the header were truncated or altered, or sealed under another key.
        """
        nonce, hidden = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return AESGCM(self.derive(b"seal " + purpose)).decrypt(nonce, hidden, header)
        except (InvalidTag, ValueError):
            raise SecretError("sealed data are truncated, altered or under another key") from None

    def __repr__(self) -> str:
        return f"<Key: {self.__kind}>"

    def __reduce__(self) -> NoReturn:
        hint = "share a key file, or send key.expose() over a channel you trust and use Key.from_exposed"
        raise SecretError("a key cannot be pickled or copied", hint=hint)


def _decoded(content: bytes) -> bytes:
    """Return the 32 bytes in a key file's content."""
    if len(content) == KEY_BYTES:
        return content
    try:
        decoded = bytes.fromhex(content.decode("ascii"))
    except ValueError:
        decoded = b""
    if len(decoded) != KEY_BYTES:
        hint = "write one with Key.fresh().save(path)"
        raise SecretError("a key file must hold 32 bytes or 64 hexadecimal digits", f"{len(content)} bytes", hint)
    return decoded


def fresh_run() -> str:
    """Return a run id that no other call, process or fork will get."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Context:
    """What a keystream is for: two draws share words only where all three are the same.

    Attributes:
        mechanism: The mechanism's name and exact parameters.
        series: Which series: None, a number, text, bytes, or a tuple of them.
        run: The run id.
    """

    mechanism: str
    series: Series
    run: str

    def encode(self) -> bytes:
        """Return the context as bytes, differently for different contexts."""
        return _encoded(self.mechanism) + _encoded(self.run) + _encoded(self.series)


def _encoded(value: Series) -> bytes:
    """Encode a series id with its type and length, so that no two ids collide."""
    # Nearly all ids are texts or whole numbers, and there may be millions.
    if type(value) is str:
        body = value.encode("utf-8", "surrogatepass")
        return HEAD.pack(b"s", len(body)) + body
    if type(value) is int:
        body = b"%d" % value
        return HEAD.pack(b"i", len(body)) + body
    match value:
        case None:
            kind, body = b"n", b""
        case bool():
            kind, body = b"b", b"1" if value else b"0"
        case int():
            kind, body = b"i", b"%d" % value
        case str():
            kind, body = b"s", value.encode("utf-8", "surrogatepass")
        case bytes():
            kind, body = b"y", value
        case tuple():
            kind, body = b"t", b"".join(map(_encoded, value))
        case _:
            hint = "a series id is None, a whole number, text, bytes, or a tuple of them"
            raise ParameterError("`series` is of a type that cannot name a series", type(value).__name__, hint)
    return HEAD.pack(kind, len(body)) + body


def checked_key(key: Key | None) -> Key:
    """Return the key asked for, or a fresh one."""
    if key is None:
        return Key.fresh()
    if not isinstance(key, Key):
        hint = "make one with Key.fresh() or Key.from_file(path), or leave it out"
        raise SecretError("`key` must be a Key", f"a {type(key).__name__}", hint)
    return key


def checked_run(run: str | None) -> str:
    """Return the run id asked for, or a fresh one."""
    if run is None:
        return fresh_run()
    if not isinstance(run, str) or not run:
        hint = "leave it out to get a fresh one; give one only to repeat a run on the very same input"
        raise ParameterError("`run` must be a non-empty text", f"run of type {type(run).__name__}", hint)
    return run


def as_halves(words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the halves of words, the lower half of each first."""
    return words.astype("<u8", copy=False).view("<u4").astype(np.uint32, copy=False)


class Keystreams:
    """The keystreams of all series of one run of a mechanism.

    Example:
        >>> run = Keystreams(Key.for_testing(7), "example", "run 1")
        >>> run.of("a").words(0, 2).tolist() == run.first_blocks(run.places(["a"]), np.array([1])).tolist()
        True
    """

    __slots__ = ("_cipher_key", "_hash")

    def __init__(self, key: Key, mechanism: str, run: str) -> None:
        purpose = _encoded(mechanism) + _encoded(run)
        self._cipher_key = algorithms.AES(key.derive(b"draw " + purpose))
        self._hash = hashlib.blake2b(key=key.derive(b"place " + purpose), digest_size=BLOCK_BYTES)

    def place(self, series: Series) -> bytes:
        """Return the place of a series among the blocks, as 16 bytes, the greatest first."""
        hashed = self._hash.copy()
        hashed.update(_encoded(series))
        return hashed.digest()

    def of(self, series: Series) -> "Keystream":
        """Return the keystream of a series."""
        return Keystream._at(self._cipher_key, self.place(series))

    def places(self, series: Iterable[Series]) -> NDArray[np.uint64]:
        """Return a row for each series: the upper and the lower word of its place."""
        digests = []
        begin = self._hash.copy
        for one in series:
            hashed = begin()
            hashed.update(_encoded(one))
            digests.append(hashed.digest())
        return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64).reshape(-1, 2)

    def first_blocks(self, places: NDArray[np.uint64], blocks: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the words of the first blocks of each series, two a block, one series after another."""
        ends = np.cumsum(blocks)
        index = np.arange(blocks.sum()).astype(np.uint64)
        index -= np.repeat((ends - blocks).astype(np.uint64), blocks)
        lower = np.repeat(places[:, 1], blocks) + index
        counters = np.empty((index.size, 2), dtype=">u8")
        counters[:, 0] = np.repeat(places[:, 0], blocks) + (lower < index)
        counters[:, 1] = lower
        buffer = np.empty(counters.nbytes + BLOCK_BYTES, dtype=np.uint8)
        # What CTR does: the cipher of the number of each block.
        encryptor = Cipher(self._cipher_key, modes.ECB()).encryptor()  # noqa: S305 - no block comes twice
        encryptor.update_into(counters.view(np.uint8).data, buffer.data)
        return buffer[: counters.nbytes].view(np.dtype("<u8")).astype(np.uint64, copy=False)

    def __repr__(self) -> str:
        return "<Keystreams>"

    def __reduce__(self) -> NoReturn:
        raise SecretError("keystreams cannot be pickled or copied", hint="make them again from key and run")


class Keystream:
    """The 64-bit words of one context, from word 0 on, any range of them.

    Example:
        >>> stream = Keystream(Key.for_testing(7), Context("example", None, "run 1"))
        >>> stream.words(3, 2).tolist() == stream.words(0, 5).tolist()[3:]
        True
    """

    __slots__ = ("_cipher_key", "_place")

    def __init__(self, key: Key, context: Context) -> None:
        run = Keystreams(key, context.mechanism, context.run)
        self._set(run._cipher_key, run.place(context.series))

    def _set(self, cipher_key: algorithms.AES, place: bytes) -> None:
        self._cipher_key = cipher_key
        self._place = int.from_bytes(place, "big")

    @classmethod
    def _at(cls, cipher_key: algorithms.AES, place: bytes) -> Self:
        """Return the keystream from a place on."""
        stream = cls.__new__(cls)
        stream._set(cipher_key, place)
        return stream

    def words(self, first: int, count: int) -> NDArray[np.uint64]:
        """Return `count` words from word `first` on, as an array."""
        skipped = (first * WORD_BYTES) % BLOCK_BYTES
        size = skipped + count * WORD_BYTES
        # update_into wants room for one more block than it writes.
        buffer = np.empty(size + BLOCK_BYTES, dtype=np.uint8)
        self._fill(buffer.data, first * WORD_BYTES // BLOCK_BYTES, size)
        return buffer[skipped:size].view(np.dtype("<u8")).astype(np.uint64, copy=False)

    def halves(self, first: int, count: int) -> NDArray[np.uint32]:
        """Return `count` halves of words from half `first` on; word t has the halves 2t, the lower, and 2t + 1."""
        word = first // 2
        words = self.words(word, (first + count + 1) // 2 - word)
        return as_halves(words)[first % 2 :][:count]

    def _fill(self, buffer: memoryview, block: int, size: int) -> None:
        """Write `size` bytes of keystream, from the given 16-byte block on, into the buffer."""
        counter = modes.CTR(((self._place + block) % (1 << 128)).to_bytes(BLOCK_BYTES, "big"))
        encryptor = Cipher(self._cipher_key, counter).encryptor()
        zeros = memoryview(ZEROS)
        for start in range(0, size, CHUNK_BYTES):
            stop = min(start + CHUNK_BYTES, size)
            encryptor.update_into(zeros[: stop - start], buffer[start:])

    def __repr__(self) -> str:
        return "<Keystream>"

    def __reduce__(self) -> NoReturn:
        raise SecretError("a keystream cannot be pickled or copied", hint="make it again from its key and context")
