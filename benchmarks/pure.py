"""PureSwitch: plans, streams, the choice of parameters, and the two methods of an audit."""

from functools import partial

from benchmarks.timing import Row, interleaved
from whenmask import Key
from whenmask.mechanisms.gibbs import choose_parameters
from whenmask.mechanisms.heights import tabulate
from whenmask.mechanisms.pureswitch import PureSwitch

VALUES = 10_000_000
PUSHES = 300_000
TRIALS, STEPS = 100_000, 60
# epsilon, window: a small window, one where most values stay, and wide ones.
SIZES = ((2, 10), (8, 10), (2, 100), (1, 10_000))
KEY = Key.for_testing(1)


def measure() -> list[Row]:
    """Time plans of 10^7 values, single pushes, calibration, and partial plans with their probabilities."""
    jobs = {
        f"plan, epsilon {e}, window {k}": partial(PureSwitch(e, window=k).plan, VALUES, key=KEY) for e, k in SIZES
    }
    rows = [
        Row(name, best / VALUES * 1e9, "ns/value", 25.0, median / VALUES * 1e9)
        for name, (best, median) in interleaved(jobs).items()
    ]
    return rows + pushes() + calibrations() + audits()


def pushes() -> list[Row]:
    """Time single pushes of Python objects."""
    values = [str(i) for i in range(PUSHES)]

    def job(mechanism: PureSwitch) -> None:
        push = mechanism.stream(key=KEY).push
        for value in values:
            push(value)

    jobs = {f"stream.push, epsilon {e}, window {k}": partial(job, PureSwitch(e, window=k)) for e, k in SIZES}
    times = interleaved(jobs)
    return [Row(name, b / PUSHES * 1e6, "µs/value", 1.0, m / PUSHES * 1e6) for name, (b, m) in times.items()]


def calibrations() -> list[Row]:
    """Time the choice of θ and a with the making of the table, from nothing."""

    def job(epsilon: float, window: int) -> None:
        choose_parameters.cache_clear()
        tabulate.cache_clear()
        PureSwitch(epsilon, window=window)

    targets = {(2, 10): 0.05, (7.5, 100): 0.05, (0.01, 100): 0.05, (1, 10_000): 3.0, (0.01, 10_000): None}
    jobs = {f"calibration, epsilon {e}, window {k}": partial(job, e, k) for e, k in targets}
    times = interleaved(jobs, rounds=3).items()
    rows = zip(times, targets.values(), strict=True)
    return [Row(name, best, "s", target, median) for (name, (best, median)), target in rows]


def audits() -> list[Row]:
    """Time 100,000 partial plans of 60 steps, and their log-probabilities."""
    mechanism = PureSwitch(2, window=10)
    plans = mechanism.prefixes(TRIALS, STEPS, key=KEY)
    jobs = {
        "100,000 partial plans of 60 steps": lambda: mechanism.prefixes(TRIALS, STEPS, key=KEY),
        "their log-probabilities": lambda: mechanism.log_probabilities(plans),
    }
    return [Row(name, best, "s", 2.0, median) for name, (best, median) in interleaved(jobs).items()]
