"""Figures as inline SVG: a few shapes, drawn so that they read on any screen, on paper, and without colour.

Colours, fonts and line styles are classes of the page's style sheet. Every figure has a title and a description
for those who cannot see it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]

WIDTH = 760


@dataclass(frozen=True)
class Scale:
    """A straight map from data to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return where a value is drawn."""
        span = self.high - self.low
        return self.start + (self.end - self.start) * ((value - self.low) / span if span else 0.5)


@dataclass(frozen=True)
class Frame:
    """The area that a chart is drawn in."""

    x: Scale
    y: Scale

    def axes(self, xs: Sequence[tuple[float, str]], ys: Sequence[tuple[float, str]]) -> str:
        """Return grid lines and labels at the given ticks."""
        left, right, bottom = self.x.start, self.x.end, self.y.start
        parts = []
        for value, label in ys:
            at = self.y(value)
            parts.append(f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
            parts.append(
                f'<text class="tick" x="{left - 8:.1f}" y="{at + 4:.1f}" text-anchor="end">{label}</text>'
            )
        parts.append(f'<line class="axis" x1="{left:.1f}" x2="{right:.1f}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>')
        for value, label in xs:
            at = self.x(value)
            parts.append(
                f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom:.1f}" y2="{bottom + 5:.1f}"/>'
                f'<text class="tick" x="{at:.1f}" y="{bottom + 19:.1f}" text-anchor="middle">'
                f"{escape(label)}</text>"
            )
        return "".join(parts)

    def names(self, x: str, y: str) -> str:
        """Return the names of the two axes."""
        middle = (self.x.start + self.x.end) / 2
        return (
            f'<text class="name" x="{middle:.1f}" y="{self.y.start + 39:.1f}" text-anchor="middle">'
            f"{escape(x)}</text>"
            f'<text class="name" x="{self.x.start:.1f}" y="{self.y.end - 12:.1f}" text-anchor="start"'
            f' dx="-44">{escape(y)}</text>'
        )


def svg(height: float, title: str, description: str, *shapes: str) -> str:
    """Return a figure of full width."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" preserveAspectRatio="xMidYMid meet">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{''.join(shapes)}</svg>"
    )


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers that divide a range in about so many parts."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= rough * 0.999)
    return [step * number for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def plain(value: float) -> str:
    """Return a number in three significant digits, as people write it."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{value:.{max(0, digits)}f}" if digits < 9 else f"{value:.2e}"
    text = text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{plain(100 * share)}%"


def histogram(displacements: Numbers, law: Numbers, counted: Numbers | None, sizes: tuple[int, int]) -> str:
    """Return shares by displacement: bars for what was counted, a line of dots for the law.

    Where far more values stay than move by any one distance, the bar at 0 is cut and says how tall it is.

    Args:
        displacements: The displacements, or the middle ones of as many as a bar stands for.
        law: The share of values that the law gives each.
        counted: The share of values counted, if they were.
        sizes: The window, and how many displacements a bar stands for; 0 always stands alone.
    """
    window, step = sizes
    shares = law if counted is None else counted
    zero = int(np.argmin(np.abs(displacements)))
    others = np.delete(np.maximum(law, shares), zero)
    tallest = float(max(law[zero], shares[zero]))
    rest = float(others.max(initial=0.0)) or tallest or 1.0
    cut = tallest > 2.5 * rest
    top = 1.3 * rest if cut else 1.08 * max(rest, tallest)
    frame = Frame(
        Scale(float(displacements[0]) - 0.7, float(displacements[-1]) + 0.7, 64, WIDTH - 12),
        Scale(0, top, 262, 40),
    )
    xs = [(value, plain(value)) for value in ticks(float(displacements[0]), float(displacements[-1]), 9)]
    shapes = [frame.axes(xs, [(value, percent(value)) for value in ticks(0, top)])]
    for edge in (-window + 0.5, window - 0.5):
        if frame.x.low < edge < frame.x.high:
            at = frame.x(edge)
            shapes.append(f'<line class="edge" x1="{at:.1f}" x2="{at:.1f}" y1="40" y2="262"/>')
    if counted is not None:
        shapes.append(_bars(frame, displacements, np.minimum(counted, top), step))
    shapes.append(_dotted(frame, displacements, np.minimum(law, top)))
    if cut:
        shapes.append(_broken(frame, law[zero], None if counted is None else counted[zero]))
    shapes.append(
        frame.names("slots between timestamp and release (left: earlier, right: later)", "share of values")
    )
    return svg(310, "How far values moved", "Shares of values by displacement", *shapes)


def _bars(frame: Frame, places: Numbers, heights: Numbers, step: int) -> str:
    slot = frame.x(1) - frame.x(0)
    wide = step * slot if step > 1 else 0.78 * slot
    parts = []
    for place, height in zip(places.tolist(), heights.tolist(), strict=True):
        if height > 0:
            at = frame.y(height)
            kind, size = ("bar", wide) if place else ("bar still", max(2.0, min(wide, slot)))
            parts.append(
                f'<rect class="{kind}" x="{frame.x(place) - size / 2:.2f}" y="{at:.2f}" width="{size:.2f}"'
                f' height="{frame.y.start - at:.2f}"/>'
            )
    return "".join(parts)


def _dotted(frame: Frame, places: Numbers, heights: Numbers) -> str:
    size = min(3.2, max(1.1, 0.3 * (frame.x(1) - frame.x(0))))
    dots = (
        f'<circle class="law" cx="{frame.x(place):.2f}" cy="{frame.y(height):.2f}" r="{size:.1f}"/>'
        for place, height in zip(places.tolist(), heights.tolist(), strict=True)
        if place
    )
    return "".join(dots)


def _broken(frame: Frame, law: float, counted: float | None) -> str:
    at, top = frame.x(0), frame.y.end
    told = f"stay: law {percent(law)}" if counted is None else f"stay: {percent(counted)} (law: {percent(law)})"
    return (
        f'<path class="break" d="M{at - 11:.1f} {top + 18:.1f} l7 -6 l8 6 l7 -6"/>'
        f'<text class="note" x="{at + 14:.1f}" y="{top + 12:.1f}">{told}</text>'
    )


def curves(
    rows: Sequence[int], lines: Sequence[tuple[str, Sequence[float]]], window: int, names: tuple[str, str]
) -> str:
    """Return one line per column against the length of the range, on a scale of doublings."""
    top = 1.1 * max((value for _, values in lines for value in values), default=0) or 1.0
    low, high = math.log2(rows[0]), math.log2(rows[-1])
    frame = Frame(Scale(low - 0.15, high + 0.15, 64, WIDTH - 132), Scale(0, top, 222, 40))
    xs = [(math.log2(count), f"{count:,}") for count in rows]
    percents = names[1].endswith("%")
    ys = [(value, plain(value) + ("%" if percents else "")) for value in ticks(0, top, 4)]
    shapes = [frame.axes(xs, ys)]
    at = frame.x(math.log2(window))
    if frame.x.low <= math.log2(window) <= frame.x.high:
        shapes.append(f'<line class="edge" x1="{at:.1f}" x2="{at:.1f}" y1="40" y2="222"/>')
        shapes.append(f'<text class="note" x="{at + 6:.1f}" y="50">the window</text>')
    places = _spread([frame.y(values[-1]) for _, values in lines], 15, frame.y.start)
    for number, ((name, values), label) in enumerate(zip(lines, places, strict=True)):
        kind = number % 4
        points = [(frame.x(math.log2(count)), frame.y(value)) for count, value in zip(rows, values, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        shapes.append(f'<polyline class="line c{kind}" points="{path}"/>')
        shapes += [f'<circle class="dot c{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in points]
        short = name if len(name) <= 16 else name[:15] + "…"
        shapes.append(
            f'<text class="label c{kind}" x="{points[-1][0] + 12:.1f}" y="{label + 4:.1f}">{escape(short)}</text>'
        )
    shapes.append(frame.names("rows in the range", names[0]))
    return svg(270, names[0], "One line per column, by the length of the range", *shapes)


def _spread(places: list[float], apart: float, lowest: float) -> list[float]:
    """Return places moved so that no two are nearer than `apart`, and none is below the lowest."""
    moved = list(places)
    order = sorted(range(len(places)), key=places.__getitem__)
    last = -math.inf
    for number in order:
        moved[number] = last = max(places[number], last + apart)
    last = lowest + apart
    for number in reversed(order):
        moved[number] = last = min(moved[number], last - apart)
    return moved


def strip(values: Numbers, other: Numbers, times: Sequence[str], names: tuple[str, str], window: int) -> str:
    """Return one panel of a series: steps on a scale that holds both this and the other panel's values."""
    finite = np.concatenate([values, other])
    finite = finite[np.isfinite(finite)]
    low, high = (min(0.0, finite.min()), finite.max()) if finite.size else (0.0, 1.0)
    high = high if high > low else low + 1.0
    frame = Frame(Scale(0, len(values), 64, WIDTH - 12), Scale(low, low + 1.06 * (high - low), 172, 34))
    shapes = [
        frame.axes(_time_ticks(times, len(values)), [(value, plain(value)) for value in ticks(low, high, 4)])
    ]
    wide = frame.x(1) - frame.x(0)
    base = frame.y(max(low, 0.0))
    for slot, value in enumerate(values.tolist()):
        if math.isfinite(value):
            at = frame.y(value)
            shapes.append(
                f'<rect class="{names[1]}" x="{frame.x(slot):.2f}" y="{min(at, base):.2f}"'
                f' width="{wide + 0.2:.2f}" height="{abs(base - at):.2f}"/>'
            )
    start, end = frame.x.start, frame.x(min(window, len(values)))
    shapes.append(
        f'<path class="bracket" d="M{start:.1f} 21 v8 M{start:.1f} 25 H{end:.1f} M{end:.1f} 21 v8"/>'
        f'<text class="note" x="{end + 6:.1f}" y="29">one window: {window:,} slots</text>'
        f'<text class="name" x="20" y="12">{escape(names[0])}</text>'
    )
    return svg(212, names[0], "The values of one series, slot by slot", *shapes)


def _time_ticks(times: Sequence[str], count: int) -> list[tuple[float, str]]:
    """Return up to four places on an axis of slots, named by their time if there is one."""
    places = sorted({part * count // 4 for part in range(4)}) if count else []
    cut = 3 if times and all(time.endswith(":00") and time.count(":") == 2 for time in times) else 0
    return [
        (place + 0.5, times[place][: len(times[place]) - cut] if place < len(times) else f"slot {place}")
        for place in places
    ]
