"""Experiment 6b: what the paper leaves to future work. Forecasting, pattern recognition and curve fitting."""

import numpy as np
from numpy.typing import NDArray

from whenmask.lab.datasets import meters, stock
from whenmask.lab.experiment import Experiment, Figure, Finding, Scope, Section, Table, Task, compared
from whenmask.lab.figures import Axes, Line, Panel, panels
from whenmask.lab.mechanisms import CARRIED, Contender, Draw, draws, label
from whenmask.lab.metrics import Indices, Numbers, recall, root_mean_square
from whenmask.lab.results import Measured, Results, Setting, mean_of
from whenmask.lab.words import figure, share, told

NAME = "future"
MECHANISMS = ("StaSwitch", "RanSwitch", CARRIED, "PureSwitch", "Piecewise", "Laplace")
EPSILONS = (1, 2, 4, 6, 8)
DAY, WEEK = 48, 7 * 48
# Eight weeks to learn from, and the day after them to forecast.
LEARNT = 8 * WEEK
LOAD_WINDOW, PRICE_WINDOWS = 12, (10, 40)
PATTERN, TOP, PATTERN_SLOTS = DAY, 3, 90 * DAY
FITTED = 2_000
# Movements faster than a month of 21 trading days are smoothed to less than half: 1/(1 + λω⁴) at ω = 2π/21.
MONTH = 21
SMOOTHING = (MONTH / (2 * np.pi)) ** 4

AUTOREGRESSION, SEASONAL = "forecast error, autoregression, Wh", "forecast error, seasonal, Wh"
MOTIFS, DISCORDS, CURVE = "recall of motifs", "recall of discords", "curve, RMSE, $"


def autoregression(history: Numbers, steps: int, order: int = DAY) -> Numbers:
    """Return a forecast by the last `order` values, fitted by least squares, fed back step by step.

    Example:
        >>> autoregression(np.tile([1.0, 2.0, 3.0], 9), 4, order=3).round(6).tolist()
        [1.0, 2.0, 3.0, 1.0]
    """
    lags = np.lib.stride_tricks.sliding_window_view(history, order)[:-1]
    design = np.column_stack([lags, np.ones(len(lags))])
    weights = np.linalg.lstsq(design, history[order:], rcond=None)[0]
    known = list(history[-order:])
    for _ in range(steps):
        known.append(float(weights[:-1] @ np.array(known[-order:]) + weights[-1]))
    return np.array(known[order:])


def seasonal(history: Numbers, steps: int, season: int = WEEK) -> Numbers:
    """Return the values of one season before.

    Example:
        >>> seasonal(np.array([5.0, 1.0, 2.0, 3.0]), 4, season=3).tolist()
        [1.0, 2.0, 3.0, 1.0]
    """
    return np.resize(history[-season:], steps)


def extremes(profile: Numbers, count: int, apart: int, *, largest: bool) -> Indices:
    """Return the places of the largest or smallest numbers, no two of them less than `apart` apart.

    Example:
        >>> extremes(np.array([0.0, 9.0, 8.0, 1.0, 7.0]), 2, 2, largest=True).tolist()
        [1, 4]
    """
    order = np.argsort(-profile if largest else profile, kind="stable")
    chosen: list[int] = []
    for place in order.tolist():
        if np.isfinite(profile[place]) and all(abs(place - other) >= apart for other in chosen):
            chosen.append(place)
        if len(chosen) == count:
            break
    return np.array(chosen, dtype=np.int64)


def measured_for(name: str, window: int, epsilon: float, metric: str, repeat: int, value: float) -> Measured:
    """Return a measurement of this experiment; `name` "original" is what the unreleased series gives."""
    if name == "original":
        return Measured(Setting(NAME, name, "", window, epsilon, metric), -1, value)
    return Measured(Contender(name, epsilon, window).setting(NAME, metric), repeat, value)


def complete(scope: Scope, count: int) -> list[NDArray[np.int64]]:
    """Return meters that missed nothing in the year and are never off for a day; the first ones."""
    whole = [meter.wh for meter in meters(scope.folder).values if meter.wh.size == 365 * DAY]
    return [wh for wh in whole if np.ptp(wh[:PATTERN_SLOTS].reshape(-1, DAY), axis=1).min() > 0][:count]


def forecast(scope: Scope, name: str, epsilon: float) -> list[Measured]:
    """Learn from released histories, and compare the forecast of the next day with what was."""
    households = complete(scope, scope.pick(20, 6, 2))
    origins = LEARNT + 4 * WEEK * np.arange(scope.pick(10, 4, 2))
    repeats = 1 if name == "original" else scope.pick(3, 2, 2)
    measured = []
    for repeat in range(repeats):
        gaps: dict[str, list[float]] = {AUTOREGRESSION: [], SEASONAL: []}
        for number, wh in enumerate(households):
            for origin in origins.tolist():
                history = wh[origin - LEARNT : origin].astype(np.float64)
                if name != "original":
                    draw = Draw(f"{NAME} forecast {origin}", repeat, number)
                    history = Contender(name, epsilon, LOAD_WINDOW).release(history, draw)
                truth = wh[origin : origin + DAY]
                gaps[AUTOREGRESSION].append(float(np.abs(autoregression(history, DAY) - truth).mean()))
                gaps[SEASONAL].append(float(np.abs(seasonal(history, DAY) - truth).mean()))
        for metric, every in gaps.items():
            mean = mean_of(every).mean
            measured.append(measured_for(name, LOAD_WINDOW, epsilon, metric, repeat, mean))
    return measured


def patterns(scope: Scope, name: str, number: int) -> list[Measured]:
    """Look for the most alike and the most unusual days of a household, before and after release."""
    import stumpy

    slots = scope.pick(PATTERN_SLOTS, 30 * DAY, 14 * DAY)
    households = complete(scope, number + 1)
    if number >= len(households):  # fewer of them are complete
        return []
    wh = households[number][:slots].astype(np.float64)

    def found(series: Numbers) -> tuple[Indices, Indices]:
        profile = stumpy.stump(series, PATTERN)[:, 0].astype(np.float64)
        return (
            extremes(profile, TOP, PATTERN, largest=False),
            extremes(profile, TOP, PATTERN, largest=True),
        )

    true_motifs, true_discords = found(wh)
    measured = []
    for epsilon in scope.pick(EPSILONS, (1, 4, 8), (8,)):
        for repeat in range(scope.pick(3, 1, 1)):
            draw = Draw(f"{NAME} patterns", repeat, number)
            motifs, discords = found(Contender(name, epsilon, LOAD_WINDOW).release(wh, draw))
            # Each household counts as a repeat of its own.
            place = number * 10 + repeat
            for metric, seen, wanted in ((MOTIFS, motifs, true_motifs), (DISCORDS, discords, true_discords)):
                value = recall(seen, wanted, PATTERN // 2)
                measured.append(measured_for(name, LOAD_WINDOW, epsilon, metric, place, value))
    return measured


def curves(scope: Scope, window: int, epsilon: float) -> list[Measured]:
    """Fit a smoothing spline to released prices, and compare it with the one through the originals."""
    from scipy.interpolate import make_smoothing_spline

    prices = stock(scope.folder).values[-scope.pick(FITTED, FITTED, 300) :]
    days = np.arange(prices.size, dtype=np.float64)

    def fit(series: Numbers) -> Numbers:
        fitted: Numbers = make_smoothing_spline(days, series, lam=SMOOTHING)(days)
        return fitted

    true = fit(prices)
    every = draws(MECHANISMS, epsilon, window, f"{NAME} curve", scope.pick(30, 10, 3))
    return [
        Measured(
            contender.setting(NAME, CURVE),
            draw.repeat,
            root_mean_square(fit(contender.release(prices, draw)), true),
        )
        for contender, draw in every
    ]


def tasks(scope: Scope) -> list[Task]:
    """Return the tasks; the longest first."""
    epsilons = scope.pick(EPSILONS, EPSILONS, (1, 8))
    homes = range(scope.pick(12, 4, 1))
    tested = scope.pick(MECHANISMS, MECHANISMS, ("StaSwitch", "Piecewise"))
    return [
        *(Task(forecast, scope, (name, epsilon)) for name in tested for epsilon in epsilons),
        Task(forecast, scope, ("original", 0)),
        *(Task(patterns, scope, (name, number)) for number in homes for name in tested),
        *(Task(curves, scope, (window, epsilon)) for window in PRICE_WINDOWS for epsilon in epsilons),
    ]


def section(results: Results) -> Section:
    """Tell what came out."""
    return Section(
        "Future work of the paper: forecasting, patterns, curves",
        f"Households: learn from eight released weeks (window {LOAD_WINDOW} half hours), forecast the next day, "
        f"and compare with what was measured then; by an autoregression of order {DAY} and by the same half hour "
        f"a week before. Patterns: of the {TOP} most alike and the {TOP} most unusual days of a household "
        "(matrix profile, 48 half hours), how many are found again within half a day. Curves: a smoothing "
        "spline through released prices against the one through the originals.",
        _findings(results),
        [*_figures(results), _table(results)],
        [
            "The forecast's history ends where the day to forecast begins, and is released as a series of its "
            "own: nothing of that day can slip into it.",
            "In the recall, households and repeats are averaged together; its standard error takes them as "
            "independent.",
            "Three places hit by chance would give a recall of about "
            f"{figure(TOP * (PATTERN + 1) / PATTERN_SLOTS, 2)}.",
            f"The spline's penalty is fixed, so that movements faster than {MONTH} trading days are smoothed to "
            "less than half: chosen by cross-validation it would follow each day of a price.",
        ],
    )


def _findings(results: Results) -> list[Finding]:
    base = {
        metric: mean.mean
        for metric in (AUTOREGRESSION, SEASONAL)
        if (mean := results.one(mechanism="original", metric=metric))
    }
    texts = []
    for metric, words in ((AUTOREGRESSION, "autoregression"), (SEASONAL, "seasonal")):
        parts = []
        for name in MECHANISMS:
            curve = dict(results.curve(mechanism=name, metric=metric))
            if 4 in curve and metric in base:
                parts.append(f"{label(name)} {figure(curve[4].mean / base[metric], 3)}")
        if parts:
            texts.append(f"{words}: " + ", ".join(parts))
    sta = [
        a < b
        for metric in results.values("metric")
        for _, a, b in compared(
            results.where(metric=metric),
            {"mechanism": "StaSwitch"},
            {"mechanism": "RanSwitch"},
            among=("window", "epsilon"),
        )
        if metric not in (MOTIFS, DISCORDS)
    ]
    return [
        Finding(
            "Forecasts: error relative to learning from the original, at epsilon 4",
            "beyond the paper",
            "; ".join(texts) or "–",
        ),
        Finding(
            "StaSwitch better than RanSwitch, as in the paper's own tasks (forecasts and curves)",
            "beyond the paper",
            f"in {share(sta)} settings",
        ),
        _recalled(results),
    ]


def _recalled(results: Results) -> Finding:
    parts = []
    for metric in (MOTIFS, DISCORDS):
        every = [
            f"{label(name)} {figure(curve[-1][1].mean, 2)}"
            for name in MECHANISMS
            if (curve := results.curve(mechanism=name, metric=metric))
        ]
        parts.append(f"{metric}: " + ", ".join(every))
    return Finding("Patterns found again at the largest epsilon", "beyond the paper", "; ".join(parts))


def _figures(results: Results) -> list[Figure]:
    drawn = []
    for metrics, words, title, log in (
        ((AUTOREGRESSION, SEASONAL), "mean absolute error, Wh", "Forecasts of the next day", True),
        ((MOTIFS, DISCORDS), "recall", "Patterns found again", False),
    ):
        parts = []
        for metric in metrics:
            lines = [Line(name, results.curve(mechanism=name, metric=metric)) for name in MECHANISMS]
            base = results.one(mechanism="original", metric=metric)
            if base:
                ends = [min(results.values("epsilon")[:1] or [1]), 8]
                lines.append(
                    Line("original", [(max(1.0, float(e)), base) for e in ends], "learnt from the original")
                )
            parts.append(Panel(metric.removesuffix(", Wh"), [line for line in lines if line.points]))
        drawn.append(
            Figure(
                panels(title, parts, Axes("epsilon", words, log=log)),
                "Mean and standard error. Epsilon: per value for PM and Laplace, claimed for TM/ETM, RanSwitch "
                "and StaSwitch, guaranteed for PureSwitch.",
            )
        )
    parts = [
        Panel(
            f"window {window}",
            [Line(name, results.curve(mechanism=name, metric=CURVE, window=window)) for name in MECHANISMS],
        )
        for window in PRICE_WINDOWS
    ]
    drawing = panels("Curve fitting", parts, Axes("epsilon", "RMSE between curves, $", log=True, shared=True))
    return [*drawn, Figure(drawing, f"Smoothing splines through the last {FITTED:,} closing prices.")]


def _table(results: Results) -> Table:
    epsilons = [e for e in sorted(results.values("epsilon")) if e > 0]
    rows = []
    for metric in (AUTOREGRESSION, SEASONAL, MOTIFS, DISCORDS, CURVE):
        for window in sorted(results.where(metric=metric).values("window")):
            base = results.one(mechanism="original", metric=metric)
            if base:
                rows.append((f"{metric}: original", told(base), *("" for _ in epsilons[1:])))
            for name in MECHANISMS:
                curve = dict(results.curve(mechanism=name, metric=metric, window=window))
                place = f", window {window}" if metric == CURVE else ""
                rows.append((f"{metric}{place}: {label(name)}", *(told(curve.get(e)) for e in epsilons)))
    return Table("Forecasting, patterns and curves, by epsilon", ("", *(f"{e:g}" for e in epsilons)), rows)


EXPERIMENT = Experiment(
    NAME,
    "Forecasting, pattern recognition and curve fitting on released data",
    ("Meters", "Stock-N"),
    tasks,
    section,
    needs=("opendp", "stumpy"),
)
