"""Numbers as a reader wants them: few digits, the error behind a ±, and no more of them than are sure."""

import math

from whenmask.lab.results import Mean


def figure(value: float, digits: int = 3) -> str:
    """Return a number in so many significant digits.

    Example:
        >>> figure(0.0012345), figure(3.14159), figure(12345.6), figure(-0.5), figure(0)
        ('1.23e−3', '3.14', '12,346', '−0.500', '0')
    """
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -2 or size >= 6:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        text = f"{mantissa}e{int(exponent)}"
    elif size >= digits:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{max(0, digits - 1 - size)}f}"
    return text.replace("-", "−")


def told(mean: Mean | None, digits: int = 3) -> str:
    """Return a mean with its standard error.

    Example:
        >>> told(Mean(1.2345, 0.0123, 10)), told(Mean(4.63, 0.0, 0)), told(None)
        ('1.23 ± 0.012', '4.63', '–')
    """
    if mean is None:
        return "–"
    if mean.repeats == 0 or not math.isfinite(mean.error) or mean.error == 0:
        return figure(mean.mean, digits)
    return f"{figure(mean.mean, digits)} ± {figure(mean.error, 2)}"


def percent(share: float) -> str:
    """Return a share as a percentage.

    Example:
        >>> percent(0.2149), percent(-0.003)
        ('21%', '−0.3%')
    """
    value = 100 * share
    return f"{value:.0f}%".replace("-", "−") if abs(value) >= 10 else f"{value:.1f}%".replace("-", "−")


def share(cases: list[bool]) -> str:
    """Return in how many cases something holds.

    Example:
        >>> share([True, True, False])
        '2 of 3'
    """
    return f"{sum(cases)} of {len(cases)}"


def listed(items: list[str], most: int = 6) -> str:
    """Return items in a row, cut where there are too many.

    Example:
        >>> listed(["a", "b", "c"], most=2)
        'a; b; and 1 more'
    """
    shown = "; ".join(items[:most])
    return shown if len(items) <= most else f"{shown}; and {len(items) - most} more"
