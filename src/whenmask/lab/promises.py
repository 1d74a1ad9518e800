"""Experiment 6a: the same comparisons at equal guarantee instead of equal claim.

The neighbours are the paper's: two series that differ by exchanging two timestamps less than a window apart. An
exchange changes two values, so a mechanism that changes values one by one gets half of epsilon for each.
"""

from whenmask.choice import least_epsilon
from whenmask.lab import averages, counts
from whenmask.lab.datasets import rises, stock
from whenmask.lab.experiment import Experiment, Figure, Finding, Scope, Section, Table, Task, compared, computed
from whenmask.lab.figures import Axes, Line, Panel, panels
from whenmask.lab.mechanisms import CLAIM, GUARANTEE, Contender, Draw, label
from whenmask.lab.results import Measured, Results
from whenmask.lab.words import figure, listed
from whenmask.mechanisms import PureSwitch, RanSwitch

NAME = "guarantees"
WINDOWS, WINDOW, RANGES = (10, 40), 10, (10, 40)
# What has a proof: of delta 0, or of a delta that is shown beside it.
PROVED = ("PureSwitch", "RanSwitch", "Backward")
CLAIMED = ("StaSwitch", "RanSwitch", "Threshold", "Backward", "Forward")
NUMBERS, BITS = (
    ("PureSwitch", "RanSwitch", "Piecewise", "Laplace"),
    ("PureSwitch", "RanSwitch", "RandomizedResponse"),
)
DELTAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)


def promised(_: Scope, window: int, epsilon: int) -> list[Measured]:
    """Compute cost and delta where epsilon is guaranteed."""
    measured = []
    for name in PROVED:
        contender = Contender(name, epsilon, window, GUARANTEE)
        mechanism = contender.mechanism
        measured.append(computed(contender.setting(NAME, "expected cost"), mechanism.expected_cost()))
        measured.append(computed(contender.setting(NAME, "delta"), mechanism.guarantee.delta))
    return measured


def held(_: Scope, name: str, epsilon: int) -> list[Measured]:
    """Compute or audit the delta that really holds where epsilon is claimed."""
    contender = Contender(name, epsilon, WINDOW)
    mechanism = contender.mechanism
    found = [("claimed delta", mechanism.claim.delta if mechanism.claim else 0.0)]
    if name in ("RanSwitch", "Backward"):
        found.append(("delta, proved", mechanism.guarantee.delta_at(epsilon)))
    else:
        found.append(("delta, proved lower bound", mechanism.least_delta))
    if name == "StaSwitch":
        interval = mechanism.guarantee.interval or (0.0, 1.0)
        found += [("delta, audited from", interval[0]), ("delta, audited to", interval[1])]
    return [computed(contender.setting(NAME, metric), value) for metric, value in found]


def at_delta(_: Scope, window: int) -> list[Measured]:
    """Compute the smallest epsilon at which RanSwitch reaches a delta, its cost, and that of PureSwitch there."""
    measured = []
    for delta in DELTAS:
        epsilon = least_epsilon(delta, window)
        if epsilon is None:
            continue
        costs = {
            "RanSwitch": RanSwitch(epsilon, window=window).expected_cost(),
            "PureSwitch": PureSwitch(epsilon, window=window).expected_cost(),
        }
        for name, cost in costs.items():
            place = Contender(name, epsilon, window, GUARANTEE).setting(NAME, "cost at delta", f"{delta:g}")
            measured.append(computed(place, cost))
    return measured


def used(scope: Scope, epsilon: int) -> list[Measured]:
    """Measure moving averages and counts at equal guarantee."""
    prices = stock(scope.folder).values
    ups = rises(stock(scope.folder)).values
    measured = []
    for repeat in range(scope.pick(50, 10, 3)):
        draw = Draw(NAME, repeat)
        for name in NUMBERS:
            measured += averages.errors(Contender(name, epsilon, WINDOW, GUARANTEE), NAME, prices, draw, RANGES)
        for name in BITS:
            measured += counts.errors(Contender(name, epsilon, WINDOW, GUARANTEE), NAME, ups, draw)
    return measured


def tasks(scope: Scope) -> list[Task]:
    """Return the tasks; audits first, which take longest."""
    audited = scope.pick(scope.epsilons, (2, 4, 8), ())
    return [
        *(Task(held, scope, ("StaSwitch", epsilon)) for epsilon in audited),
        *(Task(held, scope, (name, epsilon)) for name in CLAIMED[1:] for epsilon in scope.epsilons),
        *(Task(promised, scope, (window, epsilon)) for window in WINDOWS for epsilon in scope.epsilons),
        *(Task(at_delta, scope, (window,)) for window in WINDOWS),
        *(Task(used, scope, (epsilon,)) for epsilon in scope.epsilons),
    ]


def section(results: Results) -> Section:
    """Tell what came out."""
    return Section(
        "At equal guarantee",
        "The figures above give each mechanism the epsilon that its paper claims. Here epsilon is what is "
        "guaranteed, in the standard reading of differential privacy, for an exchange of two timestamps less "
        "than a window apart; what is left over is delta: the probability with which a release may simply tell.",
        _findings(results),
        [_promises(results), _equal_delta(results), *_figures(results), _truth(results)],
        [
            "RanSwitch's delta is exact: no smaller one holds. It is the price of its lower cost at the same "
            "epsilon.",
            "StaSwitch, TM/ETM and FPM have no proved guarantee, so they cannot appear here. The last table "
            "shows what is known of their delta at the epsilon they claim: proved lower bounds, and for "
            "StaSwitch an audit, which is evidence and not a proof.",
            "PM, Laplace and randomised response guarantee epsilon with delta 0 for an exchange at any "
            "distance, when half of it is spent on each value. They protect against more than an exchange: "
            "values are hidden too.",
            "Clustering at equal guarantee stands with the trajectories.",
        ],
    )


def _findings(results: Results) -> list[Finding]:
    costs = results.where(basis=GUARANTEE, metric="expected cost")
    both = compared(costs, {"mechanism": "PureSwitch"}, {"mechanism": "RanSwitch"}, among=("window", "epsilon"))
    dearer = [pure / ran for _, pure, ran in both]
    left = [
        f"{figure(mean.mean, 2)} at epsilon {epsilon:g}"
        for epsilon, mean in results.curve(mechanism="RanSwitch", window=WINDOW, metric="delta")
        if epsilon in (1, 4, 8)
    ]
    pairs = compared(
        results.where(metric="cost at delta"),
        {"mechanism": "PureSwitch"},
        {"mechanism": "RanSwitch"},
        among=("window", "epsilon", "variant"),
    )
    at_delta_too = [pure / ran for _, pure, ran in pairs]
    broken = [
        f"{label(setting.mechanism)} {figure(mean.mean, 2)} against {figure(claim.mean, 2)}"
        for setting, mean in results.where(metric=("delta, proved", "delta, proved lower bound"), epsilon=4)
        if (claim := results.one(mechanism=setting.mechanism, epsilon=4, metric="claimed delta"))
        and mean.mean > claim.mean
    ]
    numbers = compared(
        results.where(metric=averages.PAPER_ERROR),
        {"mechanism": "Piecewise"},
        {"mechanism": "PureSwitch"},
        among=("epsilon", "variant"),
    )
    times = [pm / pure for _, pm, pure in numbers]
    return [
        Finding(
            "Which delta really holds at the claimed epsilon 4, window 10",
            "beyond the paper",
            "at least, proved, against the claimed: " + listed(broken)
            if broken
            else "the claims were not exceeded",
        ),
        Finding(
            "PureSwitch (delta 0) against RanSwitch at the same guaranteed epsilon",
            "beyond the paper",
            f"it costs {figure(min(dearer), 2)} to {figure(max(dearer), 2)} times as much as RanSwitch, which "
            f"leaves a delta of {listed(left, 3)} (window {WINDOW})",
        ),
        Finding(
            "PureSwitch against RanSwitch where RanSwitch reaches a given delta",
            "beyond the paper",
            f"it costs {figure(min(at_delta_too), 2)} to {figure(max(at_delta_too), 2)} times as much: the price "
            "of delta 0",
        ),
        Finding(
            "Temporal against value perturbation, at equal guarantee for an exchange",
            "beyond the paper",
            f"PM's moving averages have {figure(min(times), 2)} to {figure(max(times), 2)} times PureSwitch's "
            "error",
        ),
    ]


def _promises(results: Results) -> Table:
    epsilons = sorted(results.where(metric="expected cost").values("epsilon"))
    rows = []
    for window in sorted(results.where(metric="expected cost").values("window")):
        for name in PROVED:
            for metric, words in (("expected cost", "cost"), ("delta", "delta")):
                curve = dict(results.curve(mechanism=name, window=window, metric=metric))
                cells = ["0" if curve[e].mean < 1e-20 else figure(curve[e].mean) for e in epsilons]
                rows.append((f"window {window}, {label(name)}: {words}", *cells))
    return Table("Cost per timestamp and delta, by guaranteed epsilon", ("", *(f"{e:g}" for e in epsilons)), rows)


def _equal_delta(results: Results) -> Table:
    rows = []
    for setting_, mean in results.where(metric="cost at delta", mechanism="RanSwitch"):
        pure = results.one(
            metric="cost at delta",
            mechanism="PureSwitch",
            window=setting_.window,
            variant=setting_.variant,
            epsilon=setting_.epsilon,
        )
        if pure:
            place = f"window {setting_.window}, delta {setting_.variant}"
            rows.append((place, figure(setting_.epsilon, 4), figure(mean.mean), figure(pure.mean)))
    columns = ("RanSwitch reaches", "at epsilon", "RanSwitch's cost", "PureSwitch's cost there, delta 0")
    return Table("Cost at equal epsilon and delta", columns, rows)


def _figures(results: Results) -> list[Figure]:
    windows = sorted(results.where(metric="expected cost").values("window"))
    cost_panels = [
        Panel(
            f"window {window}",
            [Line(name, results.curve(mechanism=name, window=window, metric="expected cost")) for name in PROVED],
        )
        for window in windows
    ]
    use_panels = [
        Panel(
            f"moving averages, range {length}",
            [
                Line(name, results.curve(mechanism=name, metric=averages.RMSE, variant=f"range {length}"))
                for name in NUMBERS
            ],
        )
        for length in RANGES
    ]
    count_panels = [
        Panel(
            "counts",
            [Line(name, results.curve(mechanism=name, metric=counts.RMSE)) for name in BITS],
            "RMSE, days",
        ),
        Panel(
            "what RanSwitch and BPM leave over",
            [Line(name, results.curve(mechanism=name, metric="delta", window=WINDOW)) for name in PROVED[1:]],
            "delta",
        ),
    ]
    return [
        Figure(
            panels(
                "Cost at equal guarantee", cost_panels, Axes("guaranteed epsilon", "cost per timestamp", log=True)
            ),
            "Expected cost; PureSwitch with delta 0, the others with the delta of the table.",
        ),
        Figure(
            panels(
                "Use at equal guarantee", use_panels, Axes("guaranteed epsilon", "RMSE, $", log=True, shared=True)
            ),
            f"Stock-N, window {WINDOW}. PM and Laplace spend half of epsilon on each value.",
        ),
        Figure(
            panels("Counts and delta", count_panels, Axes("guaranteed epsilon", "", log=True)),
            f"Stock-B, window {WINDOW}, on the left; on the right the delta at that window. PureSwitch has none.",
        ),
    ]


def _truth(results: Results) -> Table:
    epsilons = sorted(results.where(metric="claimed delta").values("epsilon"))
    rows = []
    for name in CLAIMED:
        for metric in results.where(mechanism=name, basis=CLAIM).values("metric"):
            curve = dict(results.curve(mechanism=name, basis=CLAIM, metric=metric))
            rows.append(
                (f"{label(name)}: {metric}", *(figure(curve[e].mean) if e in curve else "–" for e in epsilons))
            )
    return Table(
        f"What delta is at the claimed epsilon, window {WINDOW}", ("", *(f"{e:g}" for e in epsilons)), rows
    )


EXPERIMENT = Experiment(
    NAME,
    "The same comparisons at equal guarantee",
    ("Stock-N", "Stock-B"),
    tasks,
    section,
    needs=("opendp",),
)
