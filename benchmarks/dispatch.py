"""Threshold, Backward and Forward: plans and streams, at a small and a large window."""

from functools import partial

from benchmarks.timing import Row, interleaved
from whenmask import Key
from whenmask.mechanisms.oneway import Backward, Forward
from whenmask.mechanisms.temporal import Temporal
from whenmask.mechanisms.threshold import Threshold

VALUES = 10_000_000
PUSHES = 300_000
WINDOWS = (10, 200)
# ns per value, at every window: the cost of a step must not depend on it.
TARGET = 15.0
KEY = Key.for_testing(1)


def measure() -> list[Row]:
    """Time plans of 10^7 values and pushes of single ones, at claimed epsilons with and without lost values."""
    mechanisms: dict[str, Temporal] = {}
    for window in WINDOWS:
        mechanisms[f"ETM, epsilon 2, window {window}"] = Threshold(2, window=window, calibrate="claim")
        mechanisms[f"TM, threshold {window // 2}, window {window}"] = Threshold(
            window=window, threshold=window // 2
        )
    for make in (Backward, Forward):
        mechanisms[f"{make.__name__}, epsilon 2, window 10"] = make(2, window=10, calibrate="claim")
    plans = interleaved({f"{name}: plan": partial(m.plan, VALUES, key=KEY) for name, m in mechanisms.items()})
    rows = []
    for name, (best, median) in plans.items():
        target = TARGET if "TM" in name else None
        rows.append(Row(name, best / VALUES * 1e9, "ns/value", target, median / VALUES * 1e9))
    streams = interleaved({f"{name}: stream.push": partial(pushed, m) for name, m in mechanisms.items()})
    for name, (best, median) in streams.items():
        rows.append(Row(name, best / PUSHES * 1e6, "µs/value", None, median / PUSHES * 1e6))
    return rows


def pushed(mechanism: Temporal) -> None:
    """Push values one by one."""
    push = mechanism.stream(key=KEY).push
    for value in range(PUSHES):
        push(value)
