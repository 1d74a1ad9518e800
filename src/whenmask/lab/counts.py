"""Experiment 4: counting the days on which the price rose (Stock-B)."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whenmask.lab import paper
from whenmask.lab.datasets import rises, stock
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
from whenmask.lab.metrics import corrected_counts, paper_error, root_mean_square, running_counts
from whenmask.lab.results import Measured, Results
from whenmask.lab.words import figure, listed, percent, share, told

NAME = "counts"
WINDOWS = (10, 20, 40, 80)
RAW, CORRECTED = "RandomizedResponse raw", "RandomizedResponse"
MECHANISMS = ("StaSwitch", "RanSwitch", "Threshold", CARRIED, "PureSwitch", CORRECTED, RAW)
PAPER_ERROR, RMSE = "paper's error", "RMSE, days"


def counted(contender: Contender, ups: NDArray[np.bool_], draw: Draw) -> NDArray[Any]:
    """Return the running counts of what a mechanism releases."""
    if contender.changes_values:
        answers, keep = contender.answer(ups, draw)
        counts = running_counts(answers)
        return counts if contender.name == RAW else corrected_counts(counts, keep)
    return running_counts(contender.release(ups, draw))


def errors(contender: Contender, experiment: str, ups: NDArray[np.bool_], draw: Draw) -> list[Measured]:
    """Release rises, and return both errors of their running counts."""
    true, seen = running_counts(ups), counted(contender, ups, draw)
    return [
        Measured(contender.setting(experiment, metric), draw.repeat, error(true, seen))
        for metric, error in ((PAPER_ERROR, paper_error), (RMSE, root_mean_square))
    ]


def measure(scope: Scope, window: int, epsilon: int) -> list[Measured]:
    """Release the rises with each mechanism, and compare running counts."""
    ups = rises(stock(scope.folder)).values
    every = draws(MECHANISMS, epsilon, window, NAME, scope.pick(100, 20, 5))
    return [each for contender, draw in every for each in errors(contender, NAME, ups, draw)]


def tasks(scope: Scope) -> list[Task]:
    """Return a task for each window and epsilon."""
    return [Task(measure, scope, (window, epsilon)) for window in WINDOWS for epsilon in scope.epsilons]


def section(results: Results) -> Section:
    """Tell what came out."""
    return Section(
        "Frequency counting",
        "How many days have risen so far, at every day: a bit is up if the close is above the day before. The "
        "paper's metric is √(Σ(c − c′)²)/n. Randomised response is counted raw, as the answers come, and "
        "corrected for its known error.",
        findings(results),
        [_figure(results), _table(results, PAPER_ERROR), _table(results, RMSE)],
        [
            "Randomised response spends epsilon on each day's bit, and knows no window: its curve is the same "
            "in all panels.",
            "An empty slot counts as not up, as in the paper, or takes the bit before it.",
            "Where the paper's numbers are not met by the error that it prints, the square of that error comes "
            "nearer: its figures may show mean square errors without the root.",
            "The paper's figure is a plot without numbers, so its text is compared.",
        ],
    )


def _ratio(results: Results, one: str, other: str, metric: str = PAPER_ERROR) -> dict[tuple[int, float], float]:
    found = compared(
        results.where(metric=metric), {"mechanism": one}, {"mechanism": other}, among=("window", "epsilon")
    )
    return {(place[0], place[1]): a / b for place, a, b in found}


def findings(results: Results) -> list[Finding]:
    """Compare the paper's statements."""
    gain = {place: 1 - ratio for place, ratio in _ratio(results, "StaSwitch", "RanSwitch").items()}
    rivals = ("RanSwitch", "Threshold", CORRECTED, RAW)
    best = {other: [ratio < 1 for ratio in _ratio(results, "StaSwitch", other).values()] for other in rivals}
    second = {other: [ratio < 1 for ratio in _ratio(results, "RanSwitch", other).values()] for other in rivals[1:]}
    lost = [
        f"StaSwitch loses to {label(other)} at window {place[0]}, epsilon {place[1]:g}"
        for other in rivals
        for place, ratio in _ratio(results, "StaSwitch", other).items()
        if ratio >= 1
    ]
    at_80 = {epsilon: value for (window, epsilon), value in gain.items() if window == 80}
    means = {
        window: float(np.mean([value for (w, _), value in gain.items() if w == window]))
        for window in sorted({window for window, _ in gain})
    }
    ordered = list(means.values())
    squared = float(np.mean([1 - (1 - value) ** 2 for value in at_80.values()]))
    return [
        Finding(
            "StaSwitch performs the best among the four",
            verdict(case for cases in best.values() for case in cases),
            "; ".join(f"better than {label(other)} in {share(cases)}" for other, cases in best.items())
            + (f". {listed(lost, 3)}" if lost else ""),
        ),
        Finding(
            "… followed by RanSwitch",
            verdict(case for cases in second.values() for case in cases),
            "; ".join(f"better than {label(other)} in {share(cases)}" for other, cases in second.items()),
        ),
        Finding(
            "Their gap becomes more eminent as the window gets larger",
            verdict(a < b for a, b in pairwise(ordered)),
            "mean gain over all epsilon: "
            + ", ".join(f"{percent(value)} at window {window}" for window, value in means.items()),
        ),
        Finding(
            "The error is 25% less when k = 80 (the paper names RanSwitch; it must mean StaSwitch against it)",
            "holds" if 0.2 <= means.get(80, 0.0) <= 0.3 else "does not hold",
            f"{percent(means.get(80, 0.0))} on average, {percent(squared)} of squared errors; from "
            f"{percent(min(at_80.values()))} to {percent(max(at_80.values()))}",
        ),
        _against_answers(results),
        _times_worse(results),
    ]


def _against_answers(results: Results) -> Finding:
    """Check where TM/ETM no longer outperforms randomised response."""
    texts, cases = [], []
    for other in (CORRECTED, RAW):
        ratio = _ratio(results, "Threshold", other)
        said = [value >= 1 for (window, epsilon), value in ratio.items() if epsilon <= 3 or window == 80]
        wins = [f"window {w}, epsilon {e:g}" for (w, e), value in ratio.items() if value < 1]
        cases += said
        texts.append(
            f"against {label(other)}: worse in {share(said)} of these settings, better at "
            f"{listed(wins, 4) or 'none'}"
        )
    return Finding("TM/ETM no longer outperforms RR for epsilon ≤ 3 or k = 80", verdict(cases), "; ".join(texts))


def _times_worse(results: Results) -> Finding:
    """Look for the introduction's ratio at window 10 and epsilon 1."""
    found = {
        (name, other): _ratio(results, name, other).get((10, 1))
        for name in ("Threshold", CARRIED)
        for other in (CORRECTED, RAW)
    }
    texts = [
        f"{label(name)} over {label(other)}: {figure(ratio)} times, squared {figure(ratio**2)}"
        for (name, other), ratio in found.items()
        if ratio
    ]
    squared = (found["Threshold", CORRECTED] or 0.0) ** 2
    close = paper.TIMES_WORSE / 2 <= squared <= paper.TIMES_WORSE * 2
    return Finding(
        f"TM's counts are {paper.TIMES_WORSE} times worse than randomised response's (window 10, epsilon 1)",
        "holds in part" if close else "does not hold",
        "; ".join(texts) + (". As a ratio of squared errors it is of that order" if close else ""),
    )


def _figure(results: Results) -> Figure:
    drawn = [
        Panel(
            f"window {window}",
            [Line(name, results.curve(mechanism=name, window=window, metric=PAPER_ERROR)) for name in MECHANISMS],
        )
        for window in sorted(results.values("window"))
    ]
    axes = Axes("epsilon", "error as the paper has it, days", log=True, shared=True)
    drawing = panels("Frequency counting", drawn, axes)
    caption = (
        "Mean and standard error over repeats. Epsilon: per value for randomised response, claimed for TM/ETM, "
    )
    return Figure(drawing, caption + "RanSwitch and StaSwitch, guaranteed for PureSwitch.")


def _table(results: Results, metric: str) -> Table:
    shown = [epsilon for epsilon in sorted(results.values("epsilon")) if epsilon in (1, 2, 3, 4, 6, 8)]
    rows = []
    for window in sorted(results.values("window")):
        for name in MECHANISMS:
            curve = dict(results.curve(mechanism=name, window=window, metric=metric))
            rows.append((f"window {window}, {label(name)}", *(told(curve.get(epsilon)) for epsilon in shown)))
    return Table(f"Counts, {metric}, by epsilon", ("", *(f"{e:g}" for e in shown)), rows)


EXPERIMENT = Experiment(NAME, "Frequency counting on Stock-B", ("Stock-B",), tasks, section)
