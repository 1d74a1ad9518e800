"""Experiment 5: clustering trajectories, before and after release.

The distance between two trips is the root mean square of the distances between their positions at the same
timestamp, in metres. That is the Euclidean distance of Park and Jun's paper. It pays for every position that is
released at another time, as somebody following a taxi would; a distance that warps time would forgive just what a
release does, and would cost 300² steps for each of 22 million pairs.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whenmask.lab import paper
from whenmask.lab.datasets import METRES_PER_DEGREE, trajectories
from whenmask.lab.experiment import EPSILONS, Experiment, Figure, Finding, Scope, Section, Table, Task, verdict
from whenmask.lab.figures import Axes, Line, Panel, panels
from whenmask.lab.mechanisms import CARRIED, CLAIM, GUARANTEE, Contender, Draw, label
from whenmask.lab.results import Measured, Results
from whenmask.lab.words import figure, listed, share, told

NAME = "clusters"
WINDOW, GROUPS = 10, 6
MECHANISMS = ("StaSwitch", "RanSwitch", CARRIED, "PureSwitch", "Piecewise")
ALTERNATING, FASTERPAM = "alternating", "FasterPAM"
# What the settings at equal guarantee are marked with.
EQUAL = ", equal guarantee"
BLOCK = 512
# Outside these parts of the positions lie glitches of the receivers.
BOUNDS = (0.1, 99.9)

Points = NDArray[np.float64]


def pairwise(trips: Points) -> NDArray[np.float32]:
    """Return the distances between all pairs of trips.

    Example:
        >>> one, other = np.zeros((2, 2)), np.array([[3.0, 4.0], [3.0, 4.0]])
        >>> pairwise(np.stack([one, other])).tolist()
        [[0.0, 5.0], [5.0, 0.0]]
    """
    flat = trips.reshape(len(trips), -1)
    squares = np.einsum("ij,ij->i", flat, flat)
    distances = np.empty((len(trips), len(trips)), dtype=np.float32)
    for start in range(0, len(trips), BLOCK):
        rows = slice(start, start + BLOCK)
        between = squares[rows, None] + squares[None, :] - 2 * (flat[rows] @ flat.T)
        distances[rows] = np.sqrt(np.maximum(between, 0.0) / trips.shape[1])
    np.fill_diagonal(distances, 0)
    return distances


def central_medoids(distances: NDArray[np.float32], groups: int) -> NDArray[np.int64]:
    """Return Park and Jun's initial medoids: the objects with the smallest Σ_i d_ij / Σ_l d_il.

    Example:
        >>> line = np.array([0.0, 1.0, 2.0, 3.0, 9.0], dtype=np.float32)
        >>> central_medoids(np.abs(line[:, None] - line[None, :]), 2).tolist()
        [2, 1]
    """
    totals = distances.sum(axis=1, dtype=np.float64)
    weights = (1.0 / np.maximum(totals, np.finfo(np.float64).tiny)) @ distances
    return np.argsort(weights, kind="stable")[:groups].astype(np.int64)


def clustered(trips: Points) -> dict[str, NDArray[np.int64]]:
    """Return the groups that both algorithms find, from the same initial medoids."""
    import kmedoids

    distances = pairwise(trips)
    medoids = central_medoids(distances, GROUPS).astype(np.uint64)
    found: dict[str, Any] = {
        ALTERNATING: kmedoids.alternating(distances, medoids, max_iter=100),
        FASTERPAM: kmedoids.fasterpam(distances, medoids, max_iter=100, n_cpu=1),
    }
    return {name: result.labels.astype(np.int64) for name, result in found.items()}


@lru_cache(maxsize=2)
def originals(folder: Path | None, count: int) -> tuple[Points, dict[str, NDArray[np.int64]]]:
    """Return trips in metres around the middle of the town, spread over the file, and their groups."""
    degrees = trajectories(folder).values
    chosen = degrees[np.linspace(0, len(degrees) - 1, min(count, len(degrees))).astype(int)]
    middle = np.median(chosen, axis=(0, 1))
    scale = np.array(METRES_PER_DEGREE)
    scale[0] *= np.cos(np.radians(middle[1]))
    trips = (chosen - middle) * scale
    return trips, clustered(trips)


def released_trips(contender: Contender, trips: Points, draw: Draw) -> Points:
    """Return all trips released, each with a plan of its own; PM spends half the budget on each coordinate."""
    if contender.changes_values:
        bounds = np.percentile(trips, BOUNDS, axis=(0, 1))
        each = replace(contender, epsilon=contender.epsilon / 2)
        moved = [
            each.release(trips[:, :, axis], replace(draw, series=axis), (bounds[0, axis], bounds[1, axis]))
            for axis in (0, 1)
        ]
        return np.stack(moved, axis=-1)
    return np.stack([contender.release(trip, replace(draw, series=number)) for number, trip in enumerate(trips)])


def measure(scope: Scope, name: str, epsilon: float, repeat: int, basis: str = CLAIM) -> list[Measured]:
    """Release all trips, cluster them, and compare with the groups of the originals."""
    from sklearn.metrics import normalized_mutual_info_score

    trips, truth = originals(scope.folder, scope.pick(1_000_000, 1_200, 150))
    contender = Contender(name, epsilon, WINDOW, basis)
    groups = clustered(released_trips(contender, trips, Draw(f"{NAME} {basis}", repeat)))
    equal = EQUAL if basis == GUARANTEE else ""
    return [
        Measured(
            contender.setting(NAME, "NMI", algorithm + equal),
            repeat,
            # The same groups are 1, and not 1 but for rounding.
            round(float(normalized_mutual_info_score(truth[algorithm], found)), 12),
        )
        for algorithm, found in groups.items()
    ]


def tasks(scope: Scope) -> list[Task]:
    """Return a task for each mechanism, epsilon and repeat, and those at equal guarantee."""
    epsilons = scope.pick(EPSILONS, (1, 2, 4, 8), (1, 8))
    repeats = range(scope.pick(3, 2, 2))
    every = [Task(measure, scope, (name, e, r)) for name in MECHANISMS for e in epsilons for r in repeats]
    equal = ("RanSwitch", "Piecewise")
    return every + [
        Task(measure, scope, (name, e, r, GUARANTEE))
        for name in equal
        for e in scope.pick((1, 2, 4, 6, 8), (1, 4, 8), ())
        for r in range(scope.pick(2, 2, 0))
    ]


def section(results: Results) -> Section:
    """Tell what came out."""
    return Section(
        "Clustering of trajectories",
        f"k-medoids in {GROUPS} groups on released trips, window {WINDOW}, compared with the groups of the "
        "originals by normalised mutual information (1: the same groups, 0: unrelated). Both algorithms start "
        "from Park and Jun's own initial medoids, the objects with the smallest Σ d_ij/Σ d_il.",
        findings(results),
        [_figure(results), _table(results), _equal(results)],
        [
            "The distance between two trips is the root mean square of the distances between positions at the "
            "same timestamp. The paper does not say which distance it took.",
            "k-medoids has several solutions of nearly the same loss, and small changes tip it from one into "
            "another: that is where the large standard errors come from. Differences within two of them say "
            "nothing.",
            "Empty slots of TM/ETM take the position before them: positions of 0 would lie in another part of "
            "the world.",
            "PM spends half of epsilon on each coordinate, within bounds that hold 99.8% of the positions. The "
            "paper does not say how it did.",
            "The paper's 6,307 trips are those of Porto with a point every 15 seconds; where others stand in "
            "for them, with a point a minute, a window of 10 means ten minutes instead of two and a half, so "
            "NMI is not comparable digit by digit, only its order.",
        ],
    )


def _value(results: Results, name: str, algorithm: str, epsilon: float) -> float | None:
    found = results.one(mechanism=name, metric="NMI", variant=algorithm, epsilon=epsilon)
    return found.mean if found else None


def _wins(results: Results, one: str, other: str) -> dict[tuple[str, float], bool]:
    wins = {}
    for algorithm in (ALTERNATING, FASTERPAM):
        for epsilon in sorted(results.values("epsilon")):
            a, b = (_value(results, name, algorithm, epsilon) for name in (one, other))
            if a is not None and b is not None:
                wins[algorithm, epsilon] = a > b
    return wins


def _order(said: str, results: Results, pairs: list[tuple[str, str]]) -> Finding:
    wins = [(one, other, _wins(results, one, other)) for one, other in pairs]
    lost = [
        f"{label(other)} above {label(one)} with {algorithm} at epsilon {epsilon:g}"
        for one, other, cases in wins
        for (algorithm, epsilon), won in cases.items()
        if not won
    ]
    cases = [won for _, _, every in wins for won in every.values()]
    return Finding(
        said, verdict(cases), f"in {share(cases)} comparisons" + (f"; {listed(lost, 4)}" if lost else "")
    )


def findings(results: Results) -> list[Finding]:
    """Compare the paper's statements."""
    worst = [mean.mean for setting, mean in results.where(mechanism="Piecewise", variant=(ALTERNATING, FASTERPAM))]
    least = [
        mean.mean for setting, mean in results.where(mechanism=MECHANISMS[:3], variant=(ALTERNATING, FASTERPAM))
    ]
    pure = _wins(results, "PureSwitch", "StaSwitch")
    return [
        Finding(
            "PM has a much smaller NMI than the temporal mechanisms",
            verdict(value < min(least) / 2 for value in worst),
            f"at most {figure(max(worst))} against at least {figure(min(least))}",
        ),
        _order(
            "StaSwitch always has the highest NMI (of the paper's four)",
            results,
            [("StaSwitch", other) for other in ("RanSwitch", CARRIED, "Piecewise")],
        ),
        _order("… followed by RanSwitch, above TM/ETM", results, [("RanSwitch", CARRIED)]),
        Finding(
            "PureSwitch at its proved guarantee against StaSwitch at its claim",
            "beyond the paper",
            f"a higher NMI in {share(list(pure.values()))} comparisons",
        ),
    ]


def _figure(results: Results) -> Figure:
    drawn = [
        Panel(
            algorithm,
            [Line(name, results.curve(mechanism=name, metric="NMI", variant=algorithm)) for name in MECHANISMS],
        )
        for algorithm in (ALTERNATING, FASTERPAM)
    ]
    axes = Axes("epsilon", "NMI with the groups of the originals", shared=True)
    return Figure(panels("Clustering of trajectories", drawn, axes), "Mean and standard error over repeats.")


def _table(results: Results) -> Table:
    epsilons = sorted(results.where(variant=(ALTERNATING, FASTERPAM)).values("epsilon"))
    rows = []
    for name in MECHANISMS:
        printed = paper.NMI.get(name.removesuffix(" carried"))
        if printed:
            rows.append((f"{label(name)}, paper", *(f"{printed[int(e) - 1]:.3f}" for e in epsilons)))
        for algorithm in (ALTERNATING, FASTERPAM):
            cells = (told(results.one(mechanism=name, variant=algorithm, epsilon=e)) for e in epsilons)
            rows.append((f"{label(name)}, ours, {algorithm}", *cells))
    return Table("NMI, by epsilon", ("", *(f"{e:g}" for e in epsilons)), rows)


def _equal(results: Results) -> Table:
    """Return the table at equal guarantee, for the experiment on guarantees beside it."""
    epsilons = sorted(results.where(basis=GUARANTEE).values("epsilon"))
    rows = []
    for name in ("PureSwitch", "RanSwitch", "Piecewise"):
        for algorithm in (ALTERNATING, FASTERPAM):
            variant = algorithm if name == "PureSwitch" else algorithm + EQUAL
            cells = [told(results.one(mechanism=name, variant=variant, epsilon=e)) for e in epsilons]
            rows.append((f"{label(name)}, {algorithm}", *cells))
    caption = (
        "NMI at equal guarantee, by guaranteed epsilon: PureSwitch with delta 0, RanSwitch with the delta of "
        "section “At equal guarantee”, PM with half of epsilon for each value"
    )
    return Table(caption, ("", *(f"{e:g}" for e in epsilons)), rows)


EXPERIMENT = Experiment(
    NAME, "k-medoids clustering of trajectories", ("Trajectory",), tasks, section, needs=("kmedoids", "sklearn")
)
