"""The exception tree.

Every message has one form: what is wrong; what was got; a hint. Messages never carry data, timestamps or
secrets, so they may be logged and printed as they are.
"""

import math
import operator


class WhenmaskError(Exception):
    """Base of everything that whenmask raises on purpose.

    Args:
        problem: What is wrong, as a phrase without a full stop.
        got: What was got instead. Never data, timestamps or secrets.
        hint: What to do about it.

    Example:
        >>> print(WhenmaskError("`window` must be at least 2", got="window=1"))
        `window` must be at least 2; got window=1.
    """

    def __init__(self, problem: str, got: str | None = None, hint: str | None = None) -> None:
        super().__init__(problem, got, hint)
        self.problem = problem
        self.got = got
        self.hint = hint

    def __str__(self) -> str:
        text = self.problem if self.got is None else f"{self.problem}; got {self.got}"
        text = text if text.endswith(".") else text + "."
        return text if self.hint is None else f"{text} Hint: {self.hint}"


class ParameterError(WhenmaskError, ValueError):
    """A parameter is outside its range, or parameters do not go together."""


class SecretError(WhenmaskError):
    """A key is of the wrong size, lies in an unsafe file, or was about to leak."""


class SnapshotError(WhenmaskError, ValueError):
    """A snapshot is damaged, of another mechanism, or sealed under another key."""


class FileError(WhenmaskError):
    """A file cannot be found, read or written."""


class DataError(WhenmaskError, ValueError):
    """The data do not fit the plan, or cannot hold what the release puts there."""


class DependencyError(WhenmaskError, ImportError):
    """An optional package is needed that is not installed."""


def whole_number(name: str, value: object, *, least: int, hint: str) -> int:
    """Return `value` as an int of at least `least`, or say what is wrong with it."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ParameterError(f"`{name}` must be a whole number", f"{name} of type {type(value).__name__}", hint)
    number = operator.index(value)
    if number < least:
        raise ParameterError(f"`{name}` must be at least {least}", f"{name}={number}", hint)
    return number


def positive_number(name: str, value: object, *, hint: str, zero: bool = False) -> float:
    """Return `value` as a finite float above zero (or at least zero), or say what is wrong with it."""
    if isinstance(value, bool | str | bytes):
        raise ParameterError(f"`{name}` must be a number", f"{name} of type {type(value).__name__}", hint)
    try:
        number = float(value)  # type: ignore[arg-type]  # what it cannot take, it says
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"`{name}` must be a number", f"{name} of type {type(value).__name__}", hint
        ) from None
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        wanted = "at least zero" if zero else "above zero"
        raise ParameterError(f"`{name}` must be finite and {wanted}", f"{name}={number:g}", hint)
    return number
