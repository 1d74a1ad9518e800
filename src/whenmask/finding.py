"""What is worth knowing about a table before it is released."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["useless", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing about a table to know before releasing it.

    Attributes:
        kind: What was found, as one word: "counter", "sequence", "timestamp", "clock text", "row id", "trend",
            "shared", "equal", "short", "single", "empty", "unread" or "invalid".
        column: The column it is about, None for the table as a whole.
        severity: "useless" if the release would hide little or nothing, "warning" if it may, else "note".
        what_found: The evidence, in counts and shares.
        meaning: What that does to a release.
        advice: What to do about it.
    """

    kind: str
    column: str | None
    severity: Severity
    what_found: str
    meaning: str
    advice: str

    def __str__(self) -> str:
        subject = "the table" if self.column is None else f"column {self.column!r}"
        return f"{subject}: {self.what_found}. {self.meaning} {self.advice}"
