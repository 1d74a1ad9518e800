"""How readings and names lie on disk: sealed with AES-256-GCM, each bound to its place.

Every start of the gateway derives a key of its own from a fresh salt, and counts its nonces, so that no nonce is
ever used twice: not after a crash that undid a transaction whose bytes may still lie on the disk, and not after
more messages than random nonces would bear. The salts lie beside what they seal.
"""

import struct
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from whenmask.errors import SecretError
from whenmask.keystream import Key

PURPOSE = b"gateway at rest "
# Which salt, and the count; together the nonce.
NONCE = struct.Struct("<IQ")


class Vault(Protocol):
    """What hides bytes at rest."""

    def seal(self, clear: bytes, place: bytes) -> bytes:
        """Return bytes that only `unseal` makes sense of, at the same place."""
        ...

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """Return what was sealed."""
        ...


class OpenVault:
    """Hides nothing, where the operator chose so."""

    def seal(self, clear: bytes, place: bytes) -> bytes:  # noqa: ARG002 - the form of a vault
        """Return the bytes as they are."""
        return clear

    def unseal(self, sealed: bytes, place: bytes) -> bytes:  # noqa: ARG002 - the form of a vault
        """Return the bytes as they are."""
        return sealed


class SealedVault:
    """Hides everything under the gateway's key."""

    def __init__(self, key: Key, salts: dict[int, bytes]) -> None:
        """Take the salts of all starts by number, the one of this start last."""
        self._ciphers = {number: AESGCM(key.derive(PURPOSE + salt)) for number, salt in salts.items()}
        self._number = max(salts)
        self._current = self._ciphers[self._number]
        self._count = 0

    def seal(self, clear: bytes, place: bytes) -> bytes:
        """Encrypt and authenticate."""
        nonce = NONCE.pack(self._number, self._count)
        self._count += 1
        return nonce + self._current.encrypt(nonce, clear, place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """Return what was sealed at this place.

        Raises:
            SecretError: It was altered, moved from elsewhere, or sealed under another key.
        """
        nonce = sealed[: NONCE.size]
        try:
            cipher = self._ciphers[NONCE.unpack(nonce)[0]]
            return cipher.decrypt(nonce, sealed[NONCE.size :], place)
        except (InvalidTag, KeyError, ValueError, struct.error):
            raise SecretError("the state holds something that was altered or sealed under another key") from None
