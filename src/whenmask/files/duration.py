"""Windows as people say them: a count of timestamps, or a duration that the step of the series turns into one."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from whenmask.errors import DataError, ParameterError, WhenmaskError

UNITS = {"ms": 10**6, "s": 10**9, "min": 60 * 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}
UNITS["w"] = 7 * UNITS["d"]
PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|w)")
WINDOW_HINT = "give a count of timestamps, such as 48, or a duration, such as 90m, 24h, 7d or 1d12h"
COUNT_HINT = "give the window as a count of timestamps, or make the steps equal first; the smallest step fits most"
# A series with fewer equal steps than this is not regular with gaps, but irregular.
REGULAR = 0.95


@dataclass(frozen=True)
class Steps:
    """The differences between the times of a series, over all series.

    Attributes:
        commonest: The commonest steps in nanoseconds, and how often each occurs.
        total: How many steps there are in all.
        gaps: How many steps are a larger multiple of the commonest.
        series: The commonest steps within a series, and in how many series each is it.
    """

    commonest: tuple[tuple[int, int], ...]
    total: int
    gaps: int
    series: tuple[tuple[int, int], ...]

    @property
    def step(self) -> int | None:
        """The regular step, None if there is none."""
        if not self.commonest or len(self.series) != 1:
            return None
        step, count = self.commonest[0]
        return step if count + self.gaps == self.total and count >= REGULAR * self.total else None

    def count(self, duration: int) -> int:
        """Return how many timestamps the duration spans: never fewer than any stretch of it holds.

        Raises:
            DataError: The steps are irregular, or differ between series.
        """
        if not self.commonest:
            hint = "give the window as a count of timestamps"
            raise DataError("a duration needs series of two values or more, to find their step", hint=hint)
        if self.step is None:
            raise self._irregular()
        count = math.ceil(Fraction(duration, self.step))
        if count < 2:
            got = f"a window of {spoken(duration)} and a step of {spoken(self.step)}"
            raise ParameterError("`window` must span at least two steps of the series", got, WINDOW_HINT)
        return count

    def _irregular(self) -> WhenmaskError:
        if len(self.series) > 1:
            found = ", ".join(f"{spoken(step)} in {count} series" for step, count in self.series)
            return DataError("the series have different steps, so a duration is no one count", found, COUNT_HINT)
        shares = ", ".join(f"{spoken(step)} ({count / self.total:.1%})" for step, count in self.commonest)
        return DataError(
            "the steps of the series are irregular, so a duration is no one count", shares, COUNT_HINT
        )


def parsed_window(window: str) -> tuple[int | None, int | None]:
    """Return the window as a count, or as a duration in nanoseconds; the other is None.

    Example:
        >>> parsed_window("48"), parsed_window("1d12h")
        ((48, None), (None, 129600000000000))
    """
    asked = window.strip().lower()
    if re.fullmatch(r"[-+]?\d{1,18}", asked):
        return int(asked), None
    parts = PART.findall(asked)
    rest = PART.sub("", asked).strip()
    duration = sum((Fraction(number) * UNITS[unit] for number, unit in parts), Fraction(0))
    if rest or not parts or not duration:
        raise ParameterError("`window` is neither a count nor a duration", repr(window[:40]), WINDOW_HINT)
    return None, math.ceil(duration)


def spoken(nanoseconds: int) -> str:
    """Return a duration in the largest unit that fits.

    Example:
        >>> spoken(1_800_000_000_000), spoken(86_400_000_000_000)
        ('30 min', '1 d')
    """
    for unit in ("w", "d", "h", "min", "s", "ms"):
        if nanoseconds % UNITS[unit] == 0 and nanoseconds:
            return f"{nanoseconds // UNITS[unit]} {unit}"
    return f"{nanoseconds} ns"
