"""How the cost grows with values, window, number of series, and processes; slopes on logarithmic scales."""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from benchmarks.timing import Row, interleaved, peak_megabytes, slope
from whenmask import Key, PureSwitch, RanSwitch, StaSwitch
from whenmask.keystream import Keystreams
from whenmask.mechanisms.temporal import Temporal
from whenmask.sampler import draw_whole

KEY = Key.for_testing(1)
# 10^8 values take 800 MB: a small machine can ask for fewer.
LARGEST = int(os.environ.get("WHENMASK_BENCH_VALUES", "100000000"))
VALUES = tuple(10**e for e in range(4, 9) if 10**e <= LARGEST)
WINDOWS = (2, 10, 100, 1000, 10_000)
SERIES = tuple(10**e for e in range(7))
SHORT = 48


def mechanisms(window: int) -> list[Temporal]:
    """Return the switches at a window."""
    return [
        RanSwitch(4, window=window, calibrate="claim"),
        StaSwitch(4, window=window, calibrate="claim"),
        PureSwitch(4, window=window),
    ]


def measure() -> list[Row]:
    """Measure each growth and fit its slope."""
    return [*values(), *windows(), *series(), *processes(), *memory()]


def fitted(what: str, points: dict[str, list[tuple[float, float]]], unit: str) -> list[Row]:
    """Return the points as rows, each curve followed by the slope of its upper half."""
    rows = []
    for name, curve in points.items():
        for at, value in curve:
            rows.append(Row(f"{name}, {what} {at:,.0f}", value, unit, None, None, f"{name} by {what}", at))
        rows.append(Row(f"{name}: slope in {what}", slope(curve[len(curve) // 2 :]), "slope"))
    return rows


def values() -> list[Row]:
    """Seconds of a plan against its number of values: slope 1."""
    points: dict[str, list[tuple[float, float]]] = {}
    for count in VALUES:
        jobs = {type(m).__name__: partial(m.plan, count, key=KEY) for m in mechanisms(10)}
        for name, (best, _) in interleaved(jobs, rounds=3).items():
            points.setdefault(name, []).append((count, best))
    return fitted("values", points, "s")


def windows() -> list[Row]:
    """Nanoseconds per value against the window: slope 0."""
    points: dict[str, list[tuple[float, float]]] = {}
    for window in WINDOWS:
        jobs = {type(m).__name__: partial(m.plan, 1_000_000, key=KEY) for m in mechanisms(window)}
        for name, (best, _) in interleaved(jobs, rounds=3).items():
            points.setdefault(name, []).append((window, best * 1e3))
    return fitted("window", points, "ns/value")


def series() -> list[Row]:
    """Seconds for many series of 48 values, and what a series costs beyond its values."""
    points: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for mechanism in mechanisms(10):
        name = type(mechanism).__name__
        start = time.perf_counter()
        mechanism.plan(SHORT * 100_000, key=KEY)
        alone = (time.perf_counter() - start) / 100_000
        for count in SERIES:
            run = Keystreams(KEY, mechanism.identity, "bench")
            names, lengths = range(count), np.full(count, SHORT)
            start = time.perf_counter()
            draw_whole(mechanism, run, names, lengths)
            took = time.perf_counter() - start
            points.setdefault(name, []).append((count, took))
        extra = (took / count - alone) * 1e6
        rows.append(Row(f"{name}, {count:,} series: beyond the values", extra, "µs/series", 3.0))
    return [*fitted("series", points, "s"), *rows]


def work(_: int) -> int:
    """Draw plans in a process of its own."""
    return RanSwitch(4, window=10).plan(20_000_000, key=KEY).source.size


def processes() -> list[Row]:
    """Seconds of two plans, one after the other and side by side."""
    rows = []
    for count in (1, 2):
        with ProcessPoolExecutor(count) as pool:
            list(pool.map(work, range(count)))
            start = time.perf_counter()
            list(pool.map(work, range(2)))
            rows.append(Row(f"two plans of 2·10^7 values on {count} cores", time.perf_counter() - start, "s"))
    return rows


def memory() -> list[Row]:
    """Peak memory of a plan, over the bytes of its result."""
    base = "from whenmask import *\nm = PureSwitch(4, window=10)\nm.plan(10)\n"
    small, large = peak_megabytes(base), peak_megabytes(base + "p = m.plan(20_000_000)\n")
    return [Row("PureSwitch, peak memory of a plan / its bytes", (large - small) / 160, "ratio", 3.0)]
