"""The audit as a whole: what is held against what, by which instruments, on how many cores."""

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from whenmask.audit import ends, repeats
from whenmask.audit.exact import enumerated, exact_deltas
from whenmask.audit.intervals import empirical_bernstein, surprise
from whenmask.audit.losses import Design, Tally, added, designed, pair_results, spread_distances, tallied
from whenmask.audit.result import AuditResult, Check, PairResult
from whenmask.audit.subject import Auditable, Finite
from whenmask.errors import ParameterError, positive_number, whole_number
from whenmask.guarantee import Claim, Guarantee

Against: TypeAlias = Literal["guarantee", "claim"] | float
Progress: TypeAlias = Callable[[int, int], None]
Done = TypeVar("Done")

# Up to here every distance is measured; beyond, so many of them, spread evenly on a logarithmic scale.
DISTANCES = 64
# Half of the error level is for the intervals, half for these checks.
CHECKS = ("impossible", "fit", "sums", "balance", "exact", "repeats", "stretches", "ends", "counting")
# Rounding in log-probabilities may move a δ by so much.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Settings:
    """How an audit is made.

    Attributes:
        confidence: How sure it should be that nothing in the result is wrong, all taken together.
        distances: Which distances to measure; by default all, or 64 of them where there are more.
        workers: How many processes to use; by default as many as there are cores. The result is the same.
        progress: Called with the number of parts done, and of all; by default a bar on a terminal.
    """

    confidence: float = 1 - 1e-6
    distances: tuple[int, ...] | None = None
    workers: int | None = None
    progress: Progress | None = None


DEFAULTS = Settings()


@dataclass(frozen=True)
class _Promise:
    epsilon: float
    delta: float
    source: str


def audit(
    mechanism: Auditable,
    *,
    epsilon: float | None = None,
    against: Against = "guarantee",
    trials: int = 100_000,
    seed: int = 0,
    settings: Settings = DEFAULTS,
) -> AuditResult:
    """Try to prove a mechanism wrong.

    It draws plans, replays each in neighbouring worlds, and compares what it measures with what the mechanism
    states; and it tests that the plans follow the law that is replayed. It uses no formula of the mechanism,
    only two methods of it (`Auditable`). See docs/auditing.md for how to read the result.

    Args:
        mechanism: What to audit.
        epsilon: Where to measure δ(ε); by default the epsilon of the guarantee or claim.
        against: What to hold it against: the mechanism's "guarantee", its published "claim", or a delta.
        trials: How many plans to draw. A violation rarer than about 20/trials goes unseen.
        seed: The draws are made with testing keys, so the same seed gives the same result.
        settings: Confidence, distances, processes and progress.

    Raises:
        ParameterError: There is nothing to hold the mechanism against, or an argument is out of range.

    Example:
        >>> from whenmask import RanSwitch
        >>> result = audit(RanSwitch(2, window=3), trials=2000, settings=Settings(workers=1))
        >>> result.violates, result.verdict[:18]
        (False, 'no violation found')
    """
    trials = whole_number("trials", trials, least=2, hint="it counts plans; 100,000 is a good number")
    seed = whole_number("seed", seed, least=0, hint="it is a number such as 7")
    if not 0 < settings.confidence < 1:
        raise ParameterError("`confidence` must lie between 0 and 1", f"confidence={settings.confidence:g}")
    promise = _promised(mechanism, epsilon, against)
    design = designed(mechanism, promise.epsilon, _distances(mechanism.window, settings.distances), seed)
    finite = mechanism if isinstance(mechanism, Finite) else None
    how = ends.ending(finite, design) if finite else None
    level = (1 - settings.confidence) / 2
    sizes = design.chunks(trials)
    plans = min(trials, ends.PLANS) if how else 0
    few = max(1, min(ends.CHUNK, plans // 2))
    parts: list[Callable[[], Any]] = [partial(tallied, mechanism, design, i, size) for i, size in enumerate(sizes)]
    if finite and how:
        parts += [partial(ends.counted, finite, design, how, i, few) for i in range(plans // few)]
    done = _gathered(mechanism, parts, settings)
    tally = added(done[: len(sizes)])
    pairs = pair_results(tally, design, level)
    each = level / len(CHECKS)
    checks = [
        *_law_checks(mechanism, design, tally, promise, each),
        *_repeat_checks(mechanism, design, tally, each),
    ]
    count = ends.summed(done[len(sizes) :]) if how else None
    checks += _end_checks(mechanism, how, count, promise, each)
    return AuditResult(
        getattr(mechanism, "identity", None) or type(mechanism).__name__,
        mechanism.window,
        promise.epsilon,
        promise.delta,
        promise.source,
        settings.confidence,
        trials,
        design.steps,
        seed,
        pairs,
        tuple(checks),
        _findings(pairs, checks, promise),
    )


def _promised(mechanism: Any, epsilon: float | None, against: Against) -> _Promise:
    """Return what to hold the mechanism against."""
    if epsilon is not None:
        epsilon = positive_number("epsilon", epsilon, hint="it is a privacy budget", zero=True)
    if not isinstance(against, str):
        delta = positive_number("against", against, hint="it is a delta, or where to take it from", zero=True)
        if epsilon is None:
            raise ParameterError("`epsilon` is needed with a delta to hold against", "none", "delta depends on it")
        return _Promise(epsilon, delta, "as asked")
    stated: Guarantee | Claim | None = (
        getattr(mechanism, against, None) if against in ("guarantee", "claim") else None
    )
    if stated is None:
        hint = "say what to hold it against, as in audit(mechanism, epsilon=2, against=0.01)"
        raise ParameterError("the mechanism does not state this", f"against={against!r}", hint)
    if isinstance(stated, Guarantee):
        at = stated.epsilon if epsilon is None else epsilon
        return _Promise(at, stated.delta_at(at), f"its guarantee, {stated.basis}")
    if epsilon is not None and epsilon < stated.epsilon:
        hint = f"take {stated.epsilon:g} or more"
        raise ParameterError("the claim says nothing at this `epsilon`", f"epsilon={epsilon:g}", hint)
    return _Promise(stated.epsilon if epsilon is None else epsilon, stated.delta, f"claim of {stated.source}")


def _distances(window: int, wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the distances to measure."""
    if wanted is None:
        return spread_distances(window, DISTANCES)
    hint = "neighbours exchange two timestamps less than a window apart"
    if not wanted or not all(isinstance(d, int) and 1 <= d < window for d in wanted):
        raise ParameterError("`distances` must be whole numbers from 1 to window − 1", f"{wanted}", hint)
    return tuple(sorted(set(wanted)))


def _law_checks(
    mechanism: Auditable, design: Design, tally: Tally, promise: _Promise, level: float
) -> list[Check]:
    """Return whether the draws follow the law, and the exact instrument."""
    impossible = f"{tally.impossible:,} of {tally.trials:,} plans drawn have probability 0 by the law"
    cells = tally.observed + tally.expected > 0
    chance = surprise(tally.observed[cells], tally.expected[cells], tally.variance[cells])
    kinds = f"{int(cells.sum())} kinds of next slot (p ≤ {chance:.1g})"
    sums = f"{tally.gaps:,} next slots had probabilities that do not add up to 1"
    skewed = _skewed(tally, design, level)
    plans = enumerated(mechanism)
    deltas = exact_deltas(mechanism, promise.epsilon, plans=plans)
    worst, pair = max(((max(both), pair) for pair, both in deltas.items()), default=(0.0, (0, 0)))
    size = f"{plans.rows.shape[0]:,} plans of {plans.rows.shape[1]} slots"
    exact = f"{size}: δ(ε) = {worst:.6g} at timestamps {pair}"
    if plans.gap > ROUNDING:
        exact = f"the probabilities of {size} miss 1 by {plans.gap:.2g}"
    return [
        Check("impossible", not tally.impossible, impossible),
        Check("fit", chance > level, kinds),
        Check("sums", not tally.gaps, sums),
        Check("balance", not skewed, skewed or "values come out in either order as often as they should"),
        Check("exact", plans.gap <= ROUNDING and worst <= promise.delta + ROUNDING, exact),
    ]


def _skewed(tally: Tally, design: Design, level: float) -> str | None:
    """Return what is wrong with the order in which two values come out."""
    trials, sides = tally.trials, len(tally.balance)
    for side in range(sides):
        # From [−1, 1] to [0, 1].
        mean = (1 + tally.balance[side] / trials) / 2
        variance = max(0.0, (tally.balance_squares[side] / trials - (tally.balance[side] / trials) ** 2) / 4)
        low, high = empirical_bernstein(mean, variance * trials / (trials - 1), trials, level / sides)
        if not low <= 0.5 <= high:
            return f"timestamps {design.pairs[side]}: the later value comes out first too often or too seldom"
    return None


def _repeat_checks(mechanism: Auditable, design: Design, tally: Tally, level: float) -> list[Check]:
    """Return whether randomness was used twice."""
    alike = repeats.plans_alike(tally, level)
    stretch, searched = repeats.stretches_alike(mechanism, design, level)
    return [
        Check("repeats", alike is None, alike or f"{tally.trials:,} contexts"),
        Check("stretches", stretch is None, stretch or searched),
    ]


def _end_checks(
    mechanism: Auditable, how: ends.Ending | None, count: ends.Count | None, promise: _Promise, level: float
) -> list[Check]:
    """Return whether finite series end as they should, and what bare counts prove."""
    if how is None or count is None:
        finite = isinstance(mechanism, Finite)
        why = "long plans cannot be cut down to finite ones" if finite else "the mechanism has no plan(n)"
        return [Check("ends", None, why), Check("counting", None, why)]
    wrong = ends.end_rule(count, how, level)
    low, pair = ends.counting(count, mechanism.window, promise.epsilon, level)
    rule = "closed up" if how.once else "cut"
    return [
        Check("ends", wrong is None, wrong or f"plans of {how.lengths} values, as longer ones {rule}"),
        Check("counting", low <= promise.delta, f"{ends.TINY} values: δ(ε) ≥ {max(0.0, low):.6g} at {pair}"),
    ]


def _findings(pairs: tuple[PairResult, ...], checks: list[Check], promise: _Promise) -> tuple[str, ...]:
    """Return what is wrong, the worst pair first."""
    worst = max(pairs, key=lambda pair: pair.delta[0])
    found = [f"{check.name}: {check.detail}" for check in checks if check.passed is False]
    if worst.delta[0] > promise.delta:
        lower = f"δ({promise.epsilon:.6g}) ≥ {worst.delta[0]:.6g} at timestamps {worst.i} and {worst.j}"
        found.insert(0, f"{lower}, above {promise.delta:.6g} ({promise.source})")
    return tuple(found)


# --- all cores ---


def _gathered(mechanism: Auditable, parts: list[Callable[[], Any]], settings: Settings) -> list[Any]:
    """Return what each part returns, in order, from as many processes as are asked for."""
    workers = settings.workers or _cores()
    with _shown(settings.progress, len(parts)) as show, _pool(mechanism, min(workers, len(parts))) as pool:
        results = []
        for result in pool.map(_called, parts) if pool else map(_called, parts):
            results.append(result)
            show(len(results), len(parts))
        return results


def _called(part: Callable[[], Done]) -> Done:
    return part()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _pool(mechanism: Auditable, workers: int) -> Iterator[Executor | None]:
    """Give processes, or None where one is enough or the mechanism cannot be sent to others."""
    try:
        pickle.dumps(mechanism)
    except (pickle.PicklingError, AttributeError, TypeError):
        workers = 1
    if workers == 1:
        yield None
        return
    with ProcessPoolExecutor(workers) as pool:
        yield pool


@contextmanager
def _shown(progress: Progress | None, total: int) -> Iterator[Progress]:
    """Give what to call after each part: what was asked for, or a bar where there is a terminal to show it on."""
    if progress is not None or not sys.stderr.isatty():
        yield progress or (lambda _done, _all: None)
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("auditing", total=total)
        yield lambda done, _all: bar.update(task, completed=done)
