"""The figures: panels of lines with error bars, and of bars, as SVG that reads in light, dark, print and grey.

Each mechanism has its own colour, dash and marker everywhere; colours stand in the page's style sheet.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from whenmask.lab.mechanisms import label
from whenmask.lab.results import Mean
from whenmask.report.charts import WIDTH, Frame, Scale, plain, svg, ticks

# Half the size of a marker.
SIZE = 4.2
COLUMNS = 2
ROW, TOP, LEGEND_ROW = 252, 16, 20
LEFT, GAP = 58, 74
MARKERS = {
    "StaSwitch": "circle",
    "RanSwitch": "square",
    "Threshold": "triangle",
    "PureSwitch": "diamond",
    "Piecewise": "cross",
    "Laplace": "plus",
    "RandomizedResponse": "cross",
    "RandomizedResponse raw": "plus",
    "Backward": "down",
    "Forward": "ring",
    "original": "ring",
}
SHAPES: dict[str, str] = {
    "square": "M{l} {t}H{r}V{b}H{l}Z",
    "triangle": "M{x} {t}L{r} {b}H{l}Z",
    "down": "M{x} {b}L{r} {t}H{l}Z",
    "diamond": "M{x} {tt}L{rr} {y}L{x} {bb}L{ll} {y}Z",
    "cross": "M{l} {t}L{r} {b}M{r} {t}L{l} {b}",
    "plus": "M{x} {tt}V{bb}M{ll} {y}H{rr}",
}


@dataclass(frozen=True)
class Line:
    """One curve: the mechanism whose style it has, and its points.

    Attributes:
        mechanism: The name that the style goes by.
        points: (x, mean) with the standard error in the mean.
        name: What the legend says; by default the mechanism's name in the paper.
    """

    mechanism: str
    points: Sequence[tuple[float, Mean]]
    name: str = ""

    @property
    def legend(self) -> str:
        """What the legend says."""
        return self.name or label(self.mechanism)


@dataclass(frozen=True)
class Panel:
    """One drawing of several: a title, its curves, and the name of its upright axis if it has one of its own."""

    title: str
    lines: Sequence[Line]
    y: str = ""


@dataclass(frozen=True)
class Axes:
    """What the axes say, and whether the upright one is logarithmic and the same in all panels."""

    x: str
    y: str
    log: bool = False
    shared: bool = False
    x_ticks: Sequence[tuple[float, str]] = ()


def slug(name: str) -> str:
    """Return the class of a mechanism in the style sheet."""
    return "m-" + name.lower().replace(" ", "-")


def marker(mechanism: str, x: float, y: float) -> str:
    """Return the marker of a mechanism."""
    shape = MARKERS.get(mechanism, "circle")
    if shape in ("circle", "ring"):
        hollow = " hollow" if shape == "ring" else ""
        return f'<circle class="mark{hollow} {slug(mechanism)}" cx="{x:.1f}" cy="{y:.1f}" r="{SIZE}"/>'
    places = {
        "x": x, "y": y, "l": x - SIZE, "r": x + SIZE, "t": y - SIZE, "b": y + SIZE,
        "ll": x - 1.35 * SIZE, "rr": x + 1.35 * SIZE, "tt": y - 1.35 * SIZE, "bb": y + 1.35 * SIZE,
    }  # fmt: skip
    path = SHAPES[shape].format(**{name: f"{value:.1f}" for name, value in places.items()})
    hollow = " hollow" if shape in ("cross", "plus") else ""
    return f'<path class="mark{hollow} {slug(mechanism)}" d="{path}"/>'


def legend(lines: Sequence[Line]) -> tuple[str, float]:
    """Return the legend, one entry for each name, and its height."""
    entries = {line.legend: line.mechanism for line in lines}
    parts, x, y = [], float(LEFT - 30), float(TOP)
    for name, mechanism in entries.items():
        wide = 58 + 6.6 * len(name)
        if x + wide > WIDTH:
            x, y = float(LEFT - 30), y + LEGEND_ROW
        parts.append(f'<line class="curve {slug(mechanism)}" x1="{x}" x2="{x + 28}" y1="{y}" y2="{y}"/>')
        parts.append(marker(mechanism, x + 14, y))
        parts.append(f'<text class="entry" x="{x + 35}" y="{y + 4}">{escape(name)}</text>')
        x += wide
    return "".join(parts), y + 14


def panels(title: str, drawn: Sequence[Panel], axes: Axes) -> str:
    """Return panels side by side, two in a row, under one legend."""
    top_part, start = legend([line for panel in drawn for line in panel.lines])
    everything = [line for panel in drawn for line in panel.lines]
    parts = [top_part]
    wide = (WIDTH - LEFT - 14 - GAP) / COLUMNS
    for number, panel in enumerate(drawn):
        left = LEFT + (number % COLUMNS) * (wide + GAP)
        top = start + (number // COLUMNS) * ROW
        limits = _limits(everything if axes.shared else panel.lines, log=axes.log)
        parts.append(_panel(panel, axes, limits, (left, left + wide, top + 42, top + ROW - 50)))
    rows = math.ceil(len(drawn) / COLUMNS)
    names = ", ".join(panel.title for panel in drawn)
    return svg(start + rows * ROW + 4, title, f"{axes.y} against {axes.x}; panels: {names}", *parts)


def _limits(lines: Sequence[Line], *, log: bool) -> tuple[float, float]:
    """Return the ends of the upright axis; logarithms to base 10 on a logarithmic one."""
    means = [mean for line in lines for _, mean in line.points]
    tops = [mean.mean + (mean.error if math.isfinite(mean.error) else 0.0) for mean in means]
    if not log:
        low = min([0.0, *(mean.mean for mean in means)])
        return low, max([*tops, 0.0]) * 1.06 or 1.0
    above = [mean.mean for mean in means if mean.mean > 0]
    if not above:
        return 0.0, 1.0
    low, high = math.log10(min(above)), math.log10(max(tops))
    margin = max(0.06 * (high - low), 0.05)
    return low - margin, high + margin


def _panel(panel: Panel, axes: Axes, limits: tuple[float, float], place: tuple[float, float, float, float]) -> str:
    left, right, top, bottom = place
    xs = [x for line in panel.lines for x, _ in line.points] or [0.0, 1.0]
    margin = 0.04 * (max(xs) - min(xs)) or 0.5
    frame = Frame(Scale(min(xs) - margin, max(xs) + margin, left, right), Scale(*limits, bottom, top))
    upright: Callable[[float], float] = math.log10 if axes.log else float
    x_ticks = list(axes.x_ticks) or [(value, plain(value)) for value in ticks(min(xs), max(xs), 8)]
    y_ticks = _log_ticks(*limits) if axes.log else [(value, plain(value)) for value in ticks(*limits, 4)]
    parts = [frame.axes(x_ticks, y_ticks)]
    for line in panel.lines:
        parts.append(_curve(line, frame, upright))
    middle = (left + right) / 2
    parts.append(f'<text class="name" x="{left - 40}" y="{top - 26}">{escape(panel.title)}</text>')
    parts.append(f'<text class="axis-name" x="{left - 40}" y="{top - 10}">{escape(panel.y or axes.y)}</text>')
    parts.append(
        f'<text class="axis-name" x="{middle:.1f}" y="{bottom + 36}" text-anchor="middle">{escape(axes.x)}</text>'
    )
    return "".join(parts)


def _log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return decades, and their halves where there are few."""
    factors = (1,) if high - low > 2.5 else (1, 3) if high - low > 1.2 else (1, 2, 5)
    step = max(1, round((high - low) / 6))
    found = []
    for exponent in range(math.floor(low), math.ceil(high) + 1):
        for factor in factors:
            at = exponent + math.log10(factor)
            if low <= at <= high and exponent % step == 0:
                found.append((at, _log_label(factor, exponent)))
    return found


def _log_label(factor: int, exponent: int) -> str:
    if -3 < exponent < 4:
        return plain(factor * 10.0**exponent)
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if factor == 1 else f"{factor}·10{raised}"


def _curve(line: Line, frame: Frame, upright: Callable[[float], float]) -> str:
    """Return a curve with its error bars; what a logarithmic axis cannot show is left out."""
    places = []
    parts = []
    for x, mean in line.points:
        try:
            at = frame.y(upright(mean.mean))
        except ValueError:
            continue
        across = frame.x(x)
        places.append((across, at))
        if mean.error > 0:
            high = frame.y(upright(mean.mean + mean.error))
            try:
                low = min(frame.y(upright(mean.mean - mean.error)), frame.y.start)
            except ValueError:
                low = frame.y.start
            parts.append(
                f'<path class="error {slug(line.mechanism)}" d="M{across:.1f} {high:.1f}V{low:.1f}'
                f'M{across - 3:.1f} {high:.1f}h6M{across - 3:.1f} {low:.1f}h6"/>'
            )
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts.insert(0, f'<polyline class="curve {slug(line.mechanism)}" points="{path}"/>')
    parts += [marker(line.mechanism, x, y) for x, y in places]
    return "".join(parts)


@dataclass(frozen=True)
class Bars:
    """One panel of bars: a title, (x, height with its error), and a second series drawn as dots."""

    title: str
    mechanism: str
    heights: Sequence[tuple[int, Mean]]
    dots: Sequence[tuple[int, float]] = ()


def bar_panels(title: str, drawn: Sequence[Bars], axes: Axes, dots_name: str) -> str:
    """Return panels of bars side by side, two in a row, on one scale."""
    wide = (WIDTH - LEFT - 14 - GAP) / COLUMNS
    heights = [mean.mean for bars in drawn for _, mean in bars.heights]
    top_value = 1.08 * max([*heights, *(y for bars in drawn for _, y in bars.dots)])
    xs = [x for bars in drawn for x, _ in bars.heights]
    parts = [
        f'<circle class="ideal" cx="{LEFT - 20}" cy="{TOP}" r="2.6"/>'
        f'<text class="entry" x="{LEFT - 8}" y="{TOP + 4}">{escape(dots_name)}</text>'
    ]
    for number, bars in enumerate(drawn):
        left = LEFT + (number % COLUMNS) * (wide + GAP)
        top = TOP + 14 + (number // COLUMNS) * ROW
        frame = Frame(
            Scale(min(xs) - 0.7, max(xs) + 0.7, left, left + wide), Scale(0, top_value, top + ROW - 50, top + 42)
        )
        x_ticks = [(value, plain(value)) for value in ticks(min(xs), max(xs), 8)]
        parts.append(frame.axes(x_ticks, [(value, plain(value)) for value in ticks(0, top_value, 4)]))
        size = 0.72 * (frame.x(1) - frame.x(0))
        for x, mean in bars.heights:
            at = frame.y(mean.mean)
            parts.append(
                f'<rect class="column {slug(bars.mechanism)}" x="{frame.x(x) - size / 2:.2f}" y="{at:.2f}"'
                f' width="{size:.2f}" height="{frame.y.start - at:.2f}"/>'
            )
        for x, y in bars.dots:
            parts.append(f'<circle class="ideal" cx="{frame.x(x):.2f}" cy="{frame.y(y):.2f}" r="2.6"/>')
        parts.append(f'<text class="name" x="{left - 40}" y="{top + 16}">{escape(bars.title)}</text>')
        parts.append(f'<text class="axis-name" x="{left - 40}" y="{top + 32}">{escape(axes.y)}</text>')
        parts.append(
            f'<text class="axis-name" x="{left + wide / 2:.1f}" y="{top + ROW - 14}" text-anchor="middle">'
            f"{escape(axes.x)}</text>"
        )
    height = TOP + 18 + math.ceil(len(drawn) / COLUMNS) * ROW
    return svg(height, title, f"{axes.y} against {axes.x}", *parts)
