"""Timing that means something: warm, interleaved, the best and the median of several rounds."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """One measurement beside its target.

    Attributes:
        name: What was measured.
        value: The best of the rounds.
        unit: What it is measured in, such as "ns/value".
        target: What it should be at most, in the same unit; None where there is nothing to reach.
        median: The median of the rounds.
        curve: The line of a figure that this is a point of, and where it is on it.
        at: See `curve`.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    median: float | None = None
    curve: str | None = None
    at: float | None = None


def interleaved(jobs: dict[str, Callable[[], object]], rounds: int = 5) -> dict[str, tuple[float, float]]:
    """Return the best and the median seconds of each job, run in turns after one warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return {name: (min(times), statistics.median(times)) for name, times in seconds.items()}


def started(*arguments: str) -> float:
    """Return the seconds that a fresh Python process takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def peak_megabytes(code: str) -> float:
    """Return the peak resident memory of a fresh process that runs the code, in MB."""
    # Not ru_maxrss, which a process inherits from the one that started it.
    report = "\nprint(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    ran = subprocess.run([sys.executable, "-c", code + report], check=True, capture_output=True, text=True)
    return int(ran.stdout.split()[-1]) * 1024 / 1e6


def slope(points: list[tuple[float, float]]) -> float:
    """Return the slope through points on two logarithmic scales: 1 is linear, 0 is flat."""
    x, y = np.log([point[0] for point in points]), np.log([point[1] for point in points])
    return float(np.polyfit(x, y, 1)[0])
