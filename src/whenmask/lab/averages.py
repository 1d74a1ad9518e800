"""Experiment 3: simple moving averages of daily prices (Stock-N)."""

import math
from collections.abc import Sequence

import numpy as np

from whenmask.lab.datasets import stock
from whenmask.lab.experiment import (
    Experiment,
    Figure,
    Finding,
    Scope,
    Section,
    Table,
    Task,
    compared,
    verdict,
)
from whenmask.lab.figures import Axes, Line, Panel, panels
from whenmask.lab.mechanisms import CARRIED, Contender, Draw, draws, label
from whenmask.lab.metrics import Numbers, moving_averages, paper_error, root_mean_square
from whenmask.lab.results import Measured, Results
from whenmask.lab.words import figure, listed, percent, share, told

NAME = "averages"
WINDOWS, RANGES, PAPER_RANGES = (10, 40), (10, 20, 30, 40), (10, 40)
MECHANISMS = ("StaSwitch", "RanSwitch", "Threshold", CARRIED, "PureSwitch", "Piecewise", "Laplace")
PAPER_ERROR, RMSE = "paper's error", "RMSE, $"


def errors(
    contender: Contender, experiment: str, prices: Numbers, draw: Draw, ranges: Sequence[int]
) -> list[Measured]:
    """Release prices, and return both errors of their moving averages, for each range."""
    released = contender.release(prices, draw)
    measured = []
    for length in ranges:
        true, seen = moving_averages(prices, length), moving_averages(released, length)
        for metric, value in ((PAPER_ERROR, paper_error(true, seen)), (RMSE, root_mean_square(true, seen))):
            place = contender.setting(experiment, metric, f"range {length}")
            measured.append(Measured(place, draw.repeat, value))
    return measured


def measure(scope: Scope, window: int, epsilon: int) -> list[Measured]:
    """Release the prices with each mechanism, and compare moving averages."""
    prices = stock(scope.folder).values
    every = draws(MECHANISMS, epsilon, window, NAME, scope.pick(50, 10, 4))
    return [each for contender, draw in every for each in errors(contender, NAME, prices, draw, RANGES)]


def tasks(scope: Scope) -> list[Task]:
    """Return a task for each window and epsilon."""
    return [Task(measure, scope, (window, epsilon)) for window in WINDOWS for epsilon in scope.epsilons]


def section(results: Results) -> Section:
    """Tell what came out."""
    return Section(
        "Simple moving average",
        "Daily closing prices, released day by day; the error of their moving averages. The paper's metric is "
        "√(Σ(m − m′)²)/n, with the root inside and 1/n outside, so it is 1/√n of the ordinary RMSE beside it.",
        findings(results),
        [
            _figure(results, PAPER_ERROR, PAPER_RANGES),
            _figure(results, RMSE, (20, 30)),
            _table(results, PAPER_ERROR),
            _table(results, RMSE),
        ],
        [
            "PM and Laplace spend epsilon on each day's price and need bounds: the smallest and the largest "
            "price of the series. That the bounds come from the data is in their favour, and not covered by "
            "their guarantee.",
            "TM/ETM leaves slots empty, at the start and, at small epsilon, throughout. They count as 0, as "
            "they must have in the paper, or take the last price before them, as a practitioner would.",
            "The paper's figure is a plot without numbers, so its text is compared. Where that is not met, "
            "squared errors come nearer (gains grow, orders of magnitude double): its figure may show mean "
            "square errors without the root. PM's error also grows in proportion to the width of its bounds, "
            "which the paper does not state.",
        ],
    )


def _wins(results: Results, one: str, other: str) -> list[tuple[str, float, float]]:
    """Return (setting in words, error of the one, error of the other) by the paper's metric."""
    among = ("window", "epsilon", "variant")
    found = compared(results.where(metric=PAPER_ERROR), {"mechanism": one}, {"mechanism": other}, among=among)
    return [(f"window {p[0]}, epsilon {p[1]:g}, {p[2]}", a, b) for p, a, b in found]


def _orders_of_magnitude(results: Results) -> Finding:
    """Compare how far PM lies above the others, rounded to whole orders of magnitude."""
    texts, cases = [], []
    for other, low, high in (("Threshold", 1, 3), ("RanSwitch", 3, 5), ("StaSwitch", 3, 5)):
        orders = [math.log10(pm / rest) for _, pm, rest in _wins(results, "Piecewise", other)]
        met = [low <= round(order) <= high for order in orders]
        cases += met
        span = f"{figure(min(orders), 2)} to {figure(max(orders), 2)}"
        texts.append(f"{span} above {label(other)}, as said in {share(met)}")
    said = "PM lies 1 to 3 orders of magnitude above TM/ETM, 3 to 5 above RanSwitch and StaSwitch"
    twice = "; of squared errors twice as many"
    return Finding(said, verdict(cases), "orders of magnitude: " + "; ".join(texts) + twice)


def findings(results: Results) -> list[Finding]:
    """Compare the paper's statements."""
    rivals = ("Threshold", "RanSwitch", "StaSwitch")
    worst = [pm > rest for other in rivals for _, pm, rest in _wins(results, "Piecewise", other)]
    better = [
        f"{label(other)} at {place}"
        for other in rivals
        for place, pm, rest in _wins(results, "Piecewise", other)
        if pm <= rest
    ]
    beats = [a < b for one in ("RanSwitch", "StaSwitch") for _, a, b in _wins(results, one, "Threshold")]
    lost = [
        f"{label(one)} at {place}"
        for one in ("RanSwitch", "StaSwitch")
        for place, a, b in _wins(results, one, "Threshold")
        if a >= b
    ]
    carried = [a < b for one in ("RanSwitch", "StaSwitch") for _, a, b in _wins(results, one, CARRIED)]
    gains = [1 - sta / ran for _, sta, ran in _wins(results, "StaSwitch", "RanSwitch")]
    return [
        Finding(
            "PM always has the highest error",
            verdict(worst),
            f"in {share(worst)} comparisons; not above {listed(better, 4)}" if better else "always",
        ),
        _orders_of_magnitude(results),
        Finding(
            "RanSwitch and StaSwitch outperform TM/ETM",
            verdict(beats),
            f"in {share(beats)} comparisons with empty slots as 0{'; not: ' + listed(lost, 3) if lost else ''}; "
            f"in {share(carried)} with the last value carried forward",
        ),
        _more_eminent(results),
        Finding(
            "StaSwitch consistently outperforms RanSwitch in all cases",
            verdict(gain > 0 for gain in gains),
            f"in {share([gain > 0 for gain in gains])} settings",
        ),
        Finding(
            "The average gain of StaSwitch over RanSwitch exceeds 20%",
            verdict([float(np.mean(gains)) > 0.2]),
            f"{percent(float(np.mean(gains)))} on average, from {percent(min(gains))} to {percent(max(gains))}; "
            f"{percent(float(np.mean([1 - (1 - gain) ** 2 for gain in gains])))} on average of squared errors",
        ),
        _longer_ranges(results),
        _own(results),
    ]


def _more_eminent(results: Results) -> Finding:
    """Compare the gain over TM/ETM at small and large epsilon."""
    cases, shown = [], []
    among = ("window", "epsilon", "variant")
    found = compared(
        results.where(metric=PAPER_ERROR), {"mechanism": "Threshold"}, {"mechanism": "StaSwitch"}, among=among
    )
    ratio = {place: threshold / sta for place, threshold, sta in found}
    epsilons = sorted({place[1] for place in ratio})
    for window, _, variant in [place for place in ratio if place[1] == epsilons[0]]:
        small, large = ratio[window, epsilons[0], variant], ratio[window, epsilons[-1], variant]
        cases.append(small > large)
        shown.append(f"window {window}, {variant}: {figure(small, 2)} and {figure(large, 2)} times")
    told_as = (
        f"TM/ETM's error over StaSwitch's at epsilon {epsilons[0]:g} and {epsilons[-1]:g}: {listed(shown, 4)}"
    )
    return Finding("The gain over TM/ETM is more eminent when epsilon is small", verdict(cases), told_as)


def _longer_ranges(results: Results) -> Finding:
    cases, lost = [], []
    for name in ("Piecewise", "Threshold", "RanSwitch", "StaSwitch"):
        short = results.where(metric=PAPER_ERROR, mechanism=name)
        found = compared(short, {"variant": "range 10"}, {"variant": "range 40"}, among=("window", "epsilon"))
        cases += [at_40 < at_10 for _, at_10, at_40 in found]
        lost += [f"{label(name)} at window {place[0]}, epsilon {place[1]:g}" for place, a, b in found if b >= a]
    text = f"in {share(cases)} settings" + (f"; not {listed(lost, 3)}" if lost else "")
    return Finding("From range 10 to range 40 all four become more accurate", verdict(cases), text)


def _own(results: Results) -> Finding:
    found = _wins(results, "PureSwitch", "StaSwitch")
    better = [place for place, pure, sta in found if pure < sta]
    text = f"its error is smaller in {share([pure < sta for _, pure, sta in found])} settings"
    if better:
        text += f", such as {better[0]}"
    return Finding("PureSwitch at its proved guarantee against StaSwitch at its claim", "beyond the paper", text)


def _figure(results: Results, metric: str, ranges: Sequence[int]) -> Figure:
    drawn = [
        Panel(
            f"window {window}, range {length}",
            [
                Line(name, results.curve(mechanism=name, window=window, variant=f"range {length}", metric=metric))
                for name in MECHANISMS
            ],
        )
        for window in sorted(results.values("window"))
        for length in ranges
    ]
    y_name = "error as the paper has it, $" if metric == PAPER_ERROR else "RMSE, $"
    drawing = panels("Simple moving average", drawn, Axes("epsilon", y_name, log=True, shared=True))
    caption = "Mean and standard error over repeats. Epsilon: per value for PM and Laplace, claimed for TM/ETM, "
    return Figure(drawing, caption + "RanSwitch and StaSwitch, guaranteed for PureSwitch.")


def _table(results: Results, metric: str) -> Table:
    epsilons = sorted(results.values("epsilon"))
    shown = [epsilon for epsilon in epsilons if epsilon in (1, 2, 4, 8)]
    rows = []
    for window in sorted(results.values("window")):
        for length in RANGES:
            for name in MECHANISMS:
                curve = dict(
                    results.curve(mechanism=name, window=window, variant=f"range {length}", metric=metric)
                )
                cells = (told(curve.get(epsilon)) for epsilon in shown)
                rows.append((f"window {window}, range {length}, {label(name)}", *cells))
    return Table(f"Moving averages, {metric}, by epsilon", ("", *(f"{e:g}" for e in shown)), rows)


EXPERIMENT = Experiment(NAME, "Simple moving average on Stock-N", ("Stock-N",), tasks, section, needs=("opendp",))
