"""What people would use instead: the same number of values on the same machine, in turns within one run.

The peers hide *what* by noise, or *when* by other means; those of numpy give no guarantee at all. They run in an
environment of their own (`peers.txt`), as another process that is asked for one job at a time.
"""

import os
import statistics
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.peer_worker import SIZES
from benchmarks.switch import VALUES, keystream
from benchmarks.timing import Row, interleaved
from whenmask import Key, PureSwitch, RanSwitch, StaSwitch
from whenmask.keystream import Context, Keystream

WINDOW = 10
ROUNDS = 5
KEY = Key.for_testing(1)
PYTHON = Path(os.environ.get("WHENMASK_BENCH_PEERS", ".venv-bench/bin/python"))
# At most so many times the keystream alone.
TARGETS = {"RanSwitch": 2.5, "StaSwitch": 2.5, "PureSwitch": 8.0}


def ours() -> dict[str, Callable[[], object]]:
    """Return the limits, numpy, and the switches, each on all values."""
    values, generator = np.random.default_rng(1).random(VALUES), np.random.default_rng(2)
    copy, words = values.copy(), Keystream(KEY, Context("bench", None, "bench"))

    def jittered() -> object:
        return values[np.argsort(np.arange(VALUES) + generator.uniform(0, WINDOW, VALUES), kind="stable")]

    jobs: dict[str, Callable[[], object]] = {
        "AES-256-CTR keystream alone": partial(keystream, words),
        "numpy, copy": lambda: np.copyto(copy, values),
        "numpy, Laplace noise": lambda: values + generator.laplace(0, 2, VALUES),
        "numpy, permutation": lambda: generator.permutation(values),
        "numpy, shuffle": lambda: generator.shuffle(copy),
        "numpy, argsort of jittered indices": jittered,
    }
    for epsilon, mechanism in {
        4: RanSwitch(4, window=WINDOW, calibrate="claim"),
        4.0001: StaSwitch(4, window=WINDOW, calibrate="claim"),
        2: PureSwitch(2, window=WINDOW),
        5: PureSwitch(5, window=WINDOW),
    }.items():
        name = f"{type(mechanism).__name__}, epsilon {epsilon:.0f}"
        jobs[f"{name}, plan"] = partial(mechanism.plan, VALUES, key=KEY)
        jobs[f"{name}, release"] = partial(mechanism.release, values, key=KEY)
    return jobs


def asked() -> dict[str, tuple[float, float]]:
    """Return the best and median seconds of each peer, asked in turns after one warm-up."""
    if not PYTHON.exists():
        print(f"no peers: there is no {PYTHON}. Hint: make bench")
        return {}
    command = [str(PYTHON), "-m", "benchmarks.peer_worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        names = worker.stdout.readline().strip().split("|")
        seconds: dict[str, list[float]] = {name: [] for name in names if name}
        for number in range(ROUNDS + 1):
            for name, times in seconds.items():
                print(name, file=worker.stdin, flush=True)
                took = float(worker.stdout.readline())
                if number:
                    times.append(took)
        worker.stdin.close()
    return {name: (min(times), statistics.median(times)) for name, times in seconds.items()}


def measure() -> list[Row]:
    """Time a value of each."""
    rows: list[Row] = []
    times = {name: (pair, VALUES) for name, pair in interleaved(ours(), ROUNDS).items()}
    times |= {name: (pair, SIZES[name]) for name, pair in asked().items()}
    for name, ((best, median), count) in times.items():
        multiple = TARGETS.get(name.split(",")[0]) if name.endswith("plan") else None
        target = multiple * rows[0].value if multiple else None
        rows.append(Row(name, best / count * 1e9, "ns/value", target, median / count * 1e9))
    return rows
