"""The value mechanisms: what a value costs, ours and OpenDP's."""

import numpy as np

from benchmarks.timing import Row, interleaved
from whenmask import Key
from whenmask.keystream import Context, Keystream
from whenmask.mechanisms.values import Gaussian, Laplace, Piecewise, RandomizedResponse
from whenmask.mechanisms.values.perturbed import CHUNK

VALUES = 4_000_000
# OpenDP takes some thousand times as long.
FEW = 20_000
KEY = Key.for_testing(1)


def measure() -> list[Row]:
    """Time values in an array, beside the two keystream words that Piecewise reads for each."""
    generator = np.random.default_rng(1)
    numbers, labels = generator.uniform(-1, 1, VALUES), generator.integers(0, 5, VALUES)
    bits = numbers > 0
    words = Keystream(KEY, Context("bench", None, "bench"))
    piecewise = Piecewise(1.0, lower=-1, upper=1)
    answers, categories = RandomizedResponse(1.0), RandomizedResponse(1.0, categories=range(5))
    laplace, gaussian = Laplace(1.0, lower=-1, upper=1), Gaussian(1.0, 1e-6, lower=-1, upper=1)
    jobs = {
        "two keystream words alone": (lambda: keystream(words), VALUES, None),
        "Piecewise": (lambda: piecewise.perturb(numbers, key=KEY), VALUES, 30.0),
        "RandomizedResponse, bits": (lambda: answers.perturb(bits, key=KEY), VALUES, None),
        "RandomizedResponse, 5 categories": (lambda: categories.perturb(labels, key=KEY), VALUES, None),
        "Laplace (OpenDP)": (lambda: laplace.perturb(numbers[:FEW]), FEW, None),
        "Gaussian (OpenDP)": (lambda: gaussian.perturb(numbers[:FEW]), FEW, None),
    }
    rows = []
    for name, (best, median) in interleaved({name: job for name, (job, _, _) in jobs.items()}).items():
        _, count, target = jobs[name]
        rows.append(Row(name, best / count * 1e9, "ns/value", target, median / count * 1e9))
    return rows


def keystream(words: Keystream) -> None:
    """Read two words per value, and keep none."""
    for first in range(0, 2 * VALUES, 2 * CHUNK):
        words.words(first, 2 * CHUNK)
