"""The sampled instrument: draw plans, replay each in the neighbouring world, and add up what the losses say.

A plan π drawn in world S releases what the plan σπ releases in world S', in which values i and j are exchanged
(σ exchanges the labels i and j). The loss of that release is ln P(π) − ln P(σπ), with no formula of the
mechanism. Which of the two worlds is drawn from makes no difference, since the law of plans does not know the
values: relabelling turns one direction into the other, and the loss has the same distribution.

δ(ε) is the mean of max(0, 1 − e^(ε − loss)), a number in [0, 1]. What is seen of a release up to some slot is a
function of the release, so lower ends hold however early one stops; upper ends need the two worlds to have become
one by then, so each loss is taken twice, and those that still changed towards the end count as infinite.

The same draws also test that plans are drawn from the law that is replayed: how often each next slot shows what,
against the probabilities of all that it could have shown; and how the balance between π and σπ stands.
"""

from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whenmask.audit.intervals import clopper_pearson, empirical_bernstein
from whenmask.audit.result import PairResult
from whenmask.audit.subject import (
    EMPTY_SLOT,
    UNDECIDED,
    Auditable,
    Floats,
    Rows,
    View,
    chunk_key,
    exchanged,
)

# δ(ε) is also bounded through how often max(0, 1 − e^(ε − loss)) reaches these; 1 is the infinite loss. The last
# is far above what rounding can do to it and far below what matters.
THRESHOLDS = (1.0, 0.1, 0.01, 1e-6)
# Losses that differ by less are the same.
SAME = 1e-9
# After so many windows a mechanism counts as steady. It need not be at its worst there: some are near the start.
STEADY = 3
# Windows drawn after the last value that is exchanged: at first, and at most.
AFTER, AFTER_MOST = 8, 512
# The part of the slots after that no loss should change in any more, as 1/PART.
PART = 4
# Plans drawn to find out how many slots that takes; chunks that the draws are made in.
PILOT, CHUNK = 256, 2000
# Numbers held in memory at a time.
NUMBERS = 4_000_000
# Slots whose next source is tested: in windows, and no further than FIT_MOST.
FIT_STEPS, FIT_MOST = (0.0, 0.3, 0.7, 1.0, 1.5, 2.0), 48
# Far above what adding up rounded probabilities can be off by.
WHOLE = 1e-9


@dataclass(frozen=True)
class Design:
    """What is drawn and measured: all that a worker needs besides the mechanism.

    Attributes:
        epsilon: The losses are held against this.
        pairs: The timestamps that are exchanged: from the start of the series to where it has become steady.
        steps: How far each plan is drawn.
        settled: From here on a loss should not change any more.
        seed: Chunks are drawn with testing keys made from it.
        view: How the mechanism's rows are to be read.
        fit: The steps whose outcome is held against the law.
    """

    epsilon: float
    pairs: tuple[tuple[int, int], ...]
    steps: int
    settled: int
    seed: int
    view: View
    fit: tuple[int, ...]

    @property
    def chunk(self) -> int:
        """The number of plans drawn at a time."""
        return max(16, min(CHUNK, NUMBERS // self.steps))

    def chunks(self, trials: int) -> list[int]:
        """Return the sizes of the chunks that make up so many trials."""
        full, rest = divmod(trials, self.chunk)
        return [self.chunk] * full + ([rest] if rest else [])


def designed(subject: Auditable, epsilon: float, distances: tuple[int, ...], seed: int) -> Design:
    """Return a design in which the losses of a few hundred pilot plans have settled, if they ever do."""
    window = subject.window
    view = View.of(subject)
    firsts = sorted({0, window // 2, window - 1, window, 2 * window, STEADY * window})
    pairs = tuple((first, first + distance) for distance in distances for first in firsts)
    after = AFTER * window
    fit = tuple(sorted({min(round(part * window), FIT_MOST) for part in FIT_STEPS}))
    while True:
        steps = STEADY * window + max(distances) + after
        design = Design(epsilon, pairs, steps, steps - after // PART, seed, view, fit)
        pilot = Design(**{**vars(design), "fit": ()})
        # Chunk numbers from the far end are never those of the draws that count.
        size = max(16, min(PILOT, NUMBERS // steps))
        if after >= AFTER_MOST * window or not tallied(subject, pilot, (1 << 23) + after, size).unsettled.any():
            return design
        after *= 2


@dataclass(frozen=True)
class Tally:
    """What chunks of draws add up to. One entry for each pair, unless it says otherwise.

    Attributes:
        trials: How many plans were drawn.
        impossible: How many of them the law calls impossible.
        reached: How often max(0, 1 − e^(ε − loss)) reached each of the thresholds.
        total: The sum of these numbers.
        squares: The sum of their squares.
        unsettled: How many losses still changed at the end.
        balance: The sum of ±1/(1 + e^loss), + if value i comes out first, − if j does; its mean is 0.
        balance_squares: The sum of its squares.
        observed: How often the next slot showed what; an entry for each kind of outcome.
        expected: How often it should have.
        variance: The variance of that.
        gaps: How many of these next slots had probabilities that do not add up to 1.
        digests: Of the plans: an entry for each.
        logs: Their log-probabilities: an entry for each.
    """

    trials: int
    impossible: int
    reached: NDArray[np.int64]
    total: Floats
    squares: Floats
    unsettled: NDArray[np.int64]
    balance: Floats
    balance_squares: Floats
    observed: Floats
    expected: Floats
    variance: Floats
    gaps: int
    digests: NDArray[np.uint64]
    logs: Floats


def added(tallies: list[Tally]) -> Tally:
    """Return the tally of all draws; always in the same order, so that sums of floats are the same, too."""
    joined: dict[str, Any] = {}
    for field in fields(Tally):
        parts = [getattr(tally, field.name) for tally in tallies]
        joined[field.name] = np.concatenate(parts) if field.name in ("digests", "logs") else sum(parts)
    return Tally(**joined)


def tallied(subject: Auditable, design: Design, chunk: int, size: int) -> Tally:
    """Draw one chunk of plans and tally them."""
    rows = subject.prefixes(size, design.steps, key=chunk_key(design.seed, chunk))
    logs = subject.log_probabilities(rows)
    digests = np.array([_digest(row) for row in rows], dtype=np.uint64)
    possible = logs > -np.inf
    fit = _fitted(subject, design, rows[possible])
    rows, own = rows[possible], logs[possible]
    early = subject.log_probabilities(design.view.begun(rows, design.settled))
    columns = []
    for pair in design.pairs:
        other = exchanged(rows, *pair)
        loss = own - subject.log_probabilities(other)
        before = early - subject.log_probabilities(design.view.begun(other, design.settled))
        columns.append(_measured(design.epsilon, loss, before, _order(rows, *pair)))
    measures, reached = np.array(columns).T, len(THRESHOLDS)
    total, squares, unsettled, balance, balance_squares = measures[reached:]
    return Tally(
        trials=size,
        impossible=size - rows.shape[0],
        reached=measures[:reached].astype(np.int64),
        total=total,
        squares=squares,
        unsettled=unsettled.astype(np.int64),
        balance=balance,
        balance_squares=balance_squares,
        observed=fit[0],
        expected=fit[1],
        variance=fit[2],
        gaps=fit[3],
        digests=digests,
        logs=logs,
    )


def _digest(row: Rows) -> int:
    return int.from_bytes(blake2b(row.tobytes(), digest_size=8).digest(), "little")


def _measured(epsilon: float, loss: Floats, before: Floats, order: Floats) -> list[float]:
    """Return what the losses of one pair add to a tally: thresholds, sums, unsettled, balance."""
    with np.errstate(over="ignore", invalid="ignore"):
        excess = np.maximum(0.0, -np.expm1(epsilon - loss))
        balance = order / (1 + np.exp(loss))
        settled = (loss == before) | (np.abs(loss - before) <= SAME)
    return [
        *(int((excess >= threshold).sum()) for threshold in THRESHOLDS),
        float(excess.sum()),
        float((excess**2).sum()),
        int((~settled).sum()),
        float(balance.sum()),
        float((balance**2).sum()),
    ]


def _order(rows: Rows, i: int, j: int) -> Floats:
    """Return 1 where value i comes out before value j, −1 where after, 0 where neither comes out."""
    slots: list[NDArray[np.int64]] = []
    for value in (i, j):
        here = rows == value
        slots.append(np.where(here.any(axis=1), here.argmax(axis=1), rows.shape[1]))
    order: Floats = np.sign(slots[1] - slots[0]).astype(np.float64)
    return order


def _fitted(subject: Auditable, design: Design, rows: Rows) -> tuple[Floats, Floats, Floats, int]:
    """Hold the next step of each plan, one of several steps, against the probabilities of all it could be."""
    window, view = subject.window, design.view
    observed, expected, variance = np.zeros((3, 8 * window + 3))
    gaps = 0
    for turn, step in enumerate(design.fit):
        mine = rows[turn :: len(design.fit)]
        now, then = (view.begun(mine, steps) for steps in (step, step + 1))
        most = max(1, int((np.cumsum(view.branches(now)) * then.shape[1] <= NUMBERS).sum()))
        now, then = now[:most], then[:most]
        longer, parent = view.continued(now)
        so_far = subject.log_probabilities(now) if step else np.zeros(now.shape[0])
        chances = np.exp(subject.log_probabilities(longer) - so_far[parent])
        whole = np.bincount(parent, chances, minlength=now.shape[0])
        gaps += int((np.abs(whole - 1) > WHOLE).sum())
        for outcome in (_shown, _moved) if view.undecided else (_shown,):
            each = np.zeros((now.shape[0], observed.size))
            np.add.at(each, (parent, outcome(now[parent], longer, step, window)), chances)
            observed += np.bincount(outcome(now, then, step, window), minlength=observed.size)
            expected += each.sum(axis=0)
            variance += (each * np.clip(1 - each, 0, None)).sum(axis=0)
    return observed, expected, variance, gaps


def _shown(_now: Rows, then: Rows, step: int, window: int) -> NDArray[np.int64]:
    """Return what slot `step` shows, as a number: a displacement, or empty, or undecided."""
    source, far = then[:, step], 2 * window
    shown = np.clip(source - step, -far, far - 1) + far
    return np.where(source == EMPTY_SLOT, 2 * far, np.where(source == UNDECIDED, 2 * far + 1, shown))


def _moved(now: Rows, then: Rows, step: int, window: int) -> NDArray[np.int64]:
    """Return which other slot got a value, as a number: its distance, or none."""
    far = 2 * window
    changed = np.pad(now, ((0, 0), (0, 1)), constant_values=UNDECIDED) != then
    changed[:, step] = False
    distance = np.clip(changed.argmax(axis=1) - step, -far + 1, far - 1) + far
    return 2 * far + 2 + np.where(changed.any(axis=1), distance, 0)


def spread_distances(window: int, most: int) -> tuple[int, ...]:
    """Return all distances up to window − 1, or about `most` of them, evenly spread on a logarithmic scale."""
    if window - 1 <= most:
        return tuple(range(1, window))
    return tuple(sorted({round(distance) for distance in np.geomspace(1, window - 1, most)}))


def pair_results(tally: Tally, design: Design, level: float) -> tuple[PairResult, ...]:
    """Return an interval for each pair; together they are wrong with probability `level` at most.

    δ(ε) is bounded by the mean itself, and through how often a threshold is reached: δ(ε) ≥ y·Pr[excess ≥ y],
    and δ(ε) ≤ Pr[excess ≥ y] + y. The second is sharper where losses above ε are rare.
    """
    trials = tally.trials
    each = level / len(design.pairs) / (len(THRESHOLDS) + 2)
    results = []
    for at, (i, j) in enumerate(design.pairs):
        mean = float(tally.total[at]) / trials
        variance = max(0.0, (float(tally.squares[at]) - trials * mean**2) / (trials - 1))
        low, high = empirical_bernstein(mean, variance, trials, each)
        reached = [clopper_pearson(int(tally.reached[y, at]), trials, each) for y in range(len(THRESHOLDS))]
        lows = [threshold * bounds[0] for threshold, bounds in zip(THRESHOLDS, reached, strict=True)]
        # A plan that the law calls impossible may do whatever harm it can.
        waiting = int(tally.unsettled[at]) + tally.impossible
        open_end = clopper_pearson(waiting, trials, each)[1] if waiting else 0.0
        upper = min(high, reached[-1][1] + THRESHOLDS[-1]) + open_end
        infinite = (reached[0][0], min(1.0, reached[0][1] + open_end))
        results.append(PairResult(i, j, infinite, (max(low, *lows), min(1.0, upper)), waiting / trials))
    return tuple(results)
