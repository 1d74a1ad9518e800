"""Experiment 6c: the introduction's smart meter. What is billed, what is planned with, and what is hidden."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from whenmask.lab.datasets import Meter, meters
from whenmask.lab.experiment import Experiment, Figure, Finding, Scope, Section, Table, Task
from whenmask.lab.figures import Axes, Line, Panel, panels
from whenmask.lab.mechanisms import CARRIED, Contender, Draw, label
from whenmask.lab.results import Measured, Results
from whenmask.lab.words import figure, percent, told

NAME = "meters"
WINDOWS, EPSILONS = (6, 12, 24, 48), (1, 2, 4, 6, 8)
DAY = 48
MECHANISMS = ("StaSwitch", "RanSwitch", CARRIED, "PureSwitch", "Laplace")
TOTAL, EXACT = "error of a month's total, %", "months exact, share"
TOTAL_APART, EXACT_APART = (
    "error of a month's total, each month by itself, %",
    "months exact, each by itself, share",
)
PROFILE, PEAK, DAILY = "error of the load profile, %", "peak hour kept, share", "daily peak within an hour, share"


def monthly(wh: NDArray[np.float64], month: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the total of each month, in the order of the months.

    Example:
        >>> monthly(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 2])).tolist()
        [3.0, 4.0]
    """
    totals: NDArray[np.float64] = np.bincount(month, weights=wh).astype(np.float64)
    return totals[np.unique(month)]


def profile(wh: NDArray[np.float64], half_hour: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean of each half hour of the day."""
    counts = np.bincount(half_hour, minlength=DAY)
    means: NDArray[np.float64] = np.bincount(half_hour, weights=wh, minlength=DAY) / np.maximum(counts, 1)
    return means


def peak_hour(mean_day: NDArray[np.float64]) -> int:
    """Return the hour in which most is used.

    Example:
        >>> peak_hour(np.array([0.0, 5.0, 3.0, 3.0]))
        1
    """
    return int(mean_day.reshape(-1, 2).sum(axis=1).argmax())


def daily_peaks(wh: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the half hour in which most is used, on each day of 48."""
    days = wh[: wh.size // DAY * DAY].reshape(-1, DAY)
    peaks: NDArray[np.int64] = days.argmax(axis=1).astype(np.int64)
    return peaks


def month_by_month(contender: Contender, meter: Meter, draw: Draw) -> NDArray[np.float64]:
    """Return the series with each month released as a series of its own."""
    edges = [0, *(np.flatnonzero(np.diff(meter.month)) + 1).tolist(), meter.month.size]
    values = meter.wh.astype(np.float64)
    parts = [
        contender.release(values[start:end], replace(draw, series=draw.series + place + 1))
        for place, (start, end) in enumerate(pairwise(edges))
    ]
    return np.concatenate(parts)


def compared_meter(
    meter: Meter, whole: NDArray[np.float64], apart: NDArray[np.float64]
) -> Iterator[tuple[str, float]]:
    """Yield what became of a household: in one series for the year, and month by month."""
    true = meter.wh.astype(np.float64)
    totals = monthly(true, meter.month)
    for metric, exact, seen in ((TOTAL, EXACT, whole), (TOTAL_APART, EXACT_APART, apart)):
        gaps = np.abs(monthly(seen, meter.month) - totals)
        used = totals > 0
        yield metric, float(100 * (gaps[used] / totals[used]).mean()) if used.any() else 0.0
        # Whole Wh add up exactly in floats, so exact means exact.
        yield exact, float((gaps == 0).mean())
    mean_day, seen_day = (profile(wh, meter.half_hour) for wh in (true, whole))
    yield PROFILE, float(100 * np.abs(mean_day - seen_day).mean() / max(mean_day.mean(), 1e-9))
    yield PEAK, float(peak_hour(mean_day) == peak_hour(seen_day))
    yield DAILY, float((np.abs(daily_peaks(true) - daily_peaks(whole)) <= 1).mean())


def measure(scope: Scope, window: int, epsilon: float) -> list[Measured]:
    """Release all households with each mechanism; a repeat is the mean over households."""
    households = meters(scope.folder).values[: scope.pick(1000, 12, 3)]
    measured = []
    for name in MECHANISMS:
        contender = Contender(name, epsilon, window)
        for repeat in range(scope.pick(3, 2, 2)):
            seen: dict[str, list[float]] = {}
            for number, meter in enumerate(households):
                # The months have the numbers after that of the year.
                draw = Draw(f"{NAME} {name}", repeat, 100 * number)
                whole = contender.release(meter.wh.astype(np.float64), draw)
                for metric, value in compared_meter(meter, whole, month_by_month(contender, meter, draw)):
                    seen.setdefault(metric, []).append(value)
            measured += [
                Measured(contender.setting(NAME, metric), repeat, float(np.mean(every)))
                for metric, every in seen.items()
            ]
    return measured


def tasks(scope: Scope) -> list[Task]:
    """Return a task for each window and epsilon."""
    windows, epsilons = scope.pick(WINDOWS, WINDOWS, (6, 48)), scope.pick(EPSILONS, EPSILONS, (1, 8))
    return [Task(measure, scope, (window, epsilon)) for window in windows for epsilon in epsilons]


def section(results: Results) -> Section:
    """Tell what came out."""
    return Section(
        "The smart meter of the introduction",
        "Half-hourly readings of households for a year, in Wh. What a bill needs: the total of each month. What "
        "a network planner needs: the mean load of each half hour of the day and its peak hour. What should be "
        "hidden: when on a given day most was used. Windows of 6, 12, 24 and 48 half hours: from three hours to "
        "a day.",
        _findings(results),
        [*_figures(results), _table(results)],
        [
            "A year released as one series changes a month's total only by what crosses its two ends. Released "
            "month by month, switching keeps it exactly, to the last Wh; TM/ETM does not, since it loses "
            "values, and noise does not.",
            "“Daily peak within an hour” is the share of days on which the largest reading stands at most one "
            "half hour from where it was: the lower, the better it is hidden. Guessing a fixed time is right "
            "more often than never.",
            "TM/ETM's empty slots take the last value before them.",
        ],
    )


def _mean(results: Results, name: str, metric: str, window: int, epsilon: float) -> float | None:
    found = results.one(mechanism=name, metric=metric, window=window, epsilon=epsilon)
    return found.mean if found else None


def _findings(results: Results) -> list[Finding]:
    switches = ("StaSwitch", "RanSwitch", "PureSwitch")
    kept = [mean.mean == 1.0 for _, mean in results.where(mechanism=switches, metric=EXACT_APART)]
    worst = max((mean.mean for _, mean in results.where(mechanism=switches, metric=TOTAL)), default=0.0)
    lost = max((mean.mean for _, mean in results.where(mechanism=CARRIED, metric=TOTAL_APART)), default=0.0)
    noise = max((mean.mean for _, mean in results.where(mechanism="Laplace", metric=TOTAL_APART)), default=0.0)
    texts = []
    for window in sorted(results.values("window")):
        values = [_mean(results, "PureSwitch", metric, window, 4) for metric in (PROFILE, PEAK, DAILY)]
        if None not in values:
            error, peak, daily = (value or 0.0 for value in values)
            texts.append(
                f"window {window}: profile off by {figure(error, 2)}%, peak hour kept for {percent(peak)} of "
                f"households, daily peak left in place on {percent(daily)} of days"
            )
    return [
        Finding(
            "Readings must be accurately reflected in the bills",
            "holds" if all(kept) else "does not hold",
            "month by month every total is exact with every switch mechanism; in one series for the year totals "
            f"are off by {figure(worst, 2)}% on average in the worst setting. Month by month, TM/ETM is off by "
            f"up to {figure(lost, 2)}%, Laplace by up to {figure(noise, 2)}%",
        ),
        Finding("What PureSwitch at epsilon 4 keeps and hides", "beyond the paper", "; ".join(texts) or "–"),
    ]


def _figures(results: Results) -> list[Figure]:
    drawn = []
    windows = sorted(results.values("window"))
    for metric, y_name, log, names in (
        (PROFILE, "error of the load profile, %", True, MECHANISMS),
        (DAILY, "daily peak in place, share", False, MECHANISMS),
    ):
        parts = [
            Panel(
                f"window {window / 2:g} hours",
                [Line(name, results.curve(mechanism=name, metric=metric, window=window)) for name in names],
            )
            for window in windows
        ]
        axes = Axes("epsilon", y_name, log=log, shared=True)
        caption = "Mean over households, and standard error over repeats."
        drawn.append(Figure(panels(y_name.capitalize(), parts, axes), caption))
    return drawn


def _table(results: Results) -> Table:
    epsilons = sorted(results.values("epsilon"))
    rows = []
    for metric in (TOTAL, TOTAL_APART, EXACT_APART, PROFILE, PEAK, DAILY):
        for window in sorted(results.values("window")):
            for name in MECHANISMS:
                curve = dict(results.curve(mechanism=name, metric=metric, window=window))
                rows.append((f"{metric}, window {window}: {label(name)}", *(told(curve.get(e)) for e in epsilons)))
    return Table("The smart meter, by epsilon", ("", *(f"{e:g}" for e in epsilons)), rows)


EXPERIMENT = Experiment(
    NAME, "The smart meter: bills, load profiles and peaks", ("Meters",), tasks, section, needs=("opendp",)
)
