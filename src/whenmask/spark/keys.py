"""Keys on their way from the driver to the executors: in the tasks themselves, and nowhere else.

A task is sent as bytes that Spark keeps in memory. Plans, event logs, the UI, metrics and checkpoints hold the
names of functions, never what these close over; and what carries the key here shows nothing of it if it is
printed.
"""

import os
from typing import Any

from whenmask.errors import SecretError
from whenmask.keystream import KEY_BYTES, Key

VARIABLE = "WHENMASK_KEY"


class Carried:
    """A key that can be sent to executors.

    Example:
        >>> Carried(Key.for_testing(7))
        <Carried: testing key>
    """

    __slots__ = ("__key",)

    def __init__(self, key: Key) -> None:
        self.__key = key

    @property
    def key(self) -> Key:
        """The key."""
        return self.__key

    @classmethod
    def arrived(cls, exposed: bytes) -> "Carried":
        """Take the key out of what was sent."""
        return cls(Key.from_exposed(exposed))

    def __reduce__(self) -> tuple[Any, ...]:
        return Carried.arrived, (self.__key.expose(),)

    def __repr__(self) -> str:
        return f"<Carried: {self.__key.kind} key>"


def key_from_environment(name: str = VARIABLE) -> Key:
    """Return the key that a variable of the driver's environment holds, as 64 hexadecimal digits.

    The content of a key file is such a text. Set it for the driver only: what is configured for executors, as
    `spark.executorEnv.…`, is shown in the UI and written to event logs.

    Raises:
        SecretError: There is no such variable, or it holds no key.
    """
    digits = os.environ.get(name)
    if digits is None:
        hint = "set it where the driver starts, for example from a secret store; or use Key.from_file"
        raise SecretError("there is no key in the environment", f"no variable {name}", hint)
    try:
        secret = bytes.fromhex(digits)
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        hint = "`whenmask key` writes such digits to a file"
        got = f"{len(digits)} characters"
        raise SecretError(f"a key must be {2 * KEY_BYTES} hexadecimal digits", got, hint)
    return Key(secret)
