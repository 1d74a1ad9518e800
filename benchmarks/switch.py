"""RanSwitch and StaSwitch: plans, streams, memory and start-up."""

import numpy as np

from benchmarks.timing import Row, interleaved, peak_megabytes, started
from whenmask import Key, RanSwitch, StaSwitch
from whenmask.keystream import Context, Keystream
from whenmask.plan import CHUNK

VALUES = 10_000_000
PUSHES = 300_000
KEY = Key.for_testing(1)


def measure() -> list[Row]:
    """Time 10^7 values of each mechanism beside the keystream alone and numpy's permutation."""
    words = Keystream(KEY, Context("bench", None, "bench"))
    array, generator = np.arange(VALUES), np.random.default_rng(1)
    jobs = {
        "AES-256-CTR keystream alone": lambda: keystream(words),
        "numpy permutation": lambda: generator.permutation(array),
    }
    for make in (RanSwitch, StaSwitch):
        for window in (10, 10_000):
            mechanism = make(4, window=window, calibrate="claim")
            jobs[f"{make.__name__} plan, window {window}"] = lambda m=mechanism: m.plan(VALUES, key=KEY)
    rows = []
    for name, (best, median) in interleaved(jobs).items():
        target = 6.0 if "plan" in name else None
        rows.append(Row(name, best / VALUES * 1e9, "ns/value", target, median / VALUES * 1e9))
    return rows + pushes() + sizes()


def keystream(words: Keystream) -> None:
    """Read one word per value, and keep none."""
    for first in range(0, VALUES, CHUNK):
        words.words(first, min(CHUNK, VALUES - first))


def pushes() -> list[Row]:
    """Time single pushes of Python objects."""
    values = [str(i) for i in range(PUSHES)]

    def job(mechanism):
        push = mechanism.stream(key=KEY).push
        for value in values:
            push(value)

    jobs = {}
    for make in (RanSwitch, StaSwitch):
        for window in (10, 10_000):
            mechanism = make(4, window=window, calibrate="claim")
            jobs[f"{make.__name__} stream.push, window {window}"] = lambda m=mechanism: job(m)
    times = interleaved(jobs)
    return [Row(name, b / PUSHES * 1e6, "µs/value", 0.5, m / PUSHES * 1e6) for name, (b, m) in times.items()]


def sizes() -> list[Row]:
    """Measure the memory of a plan and the seconds of starting up."""
    base = "import numpy\nfrom whenmask import *\nm = RanSwitch(4, window=10, calibrate='claim')\nm.plan(10)\n"
    small, large = peak_megabytes(base), peak_megabytes(base + f"p = m.plan({5 * VALUES})\n")
    jobs = {
        "python -c 'import whenmask'": lambda: started("-c", "import whenmask"),
        "whenmask --help": lambda: started("-c", "from whenmask.cli import main; main(['--help'])"),
        "python -c pass": lambda: started("-c", "pass"),
    }
    rows = [Row("plan: peak memory per 8 bytes of result", (large - small) * 1e6 / (40 * VALUES), "ratio", 3.0)]
    for name, (best, median) in interleaved(jobs).items():
        rows.append(Row(name, best, "s", None if "pass" in name else 0.25, median))
    return rows
