"""Slow, obvious twins of the dispatch kernels, and their laws by enumeration.

They share no code with the package. A slot is its own number here, not a place in a ring; a source of −1 is an
empty slot.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

ONE = 1 << 64


class Script:
    """A keystream whose first words are given; the others are 0."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def words(self, first: int, count: int) -> np.ndarray:
        """Return `count` words from word `first` on."""
        wanted = self._words[first : first + count]
        return np.array(wanted + [0] * (count - len(wanted)), dtype=np.uint64)


def threshold(words: Iterable[int], window: int, floor: int, unit: int) -> list[int]:
    """Return the sources of the slots, one for each word."""
    empties = list(range(window))
    written: dict[int, int] = {}
    sources = []
    for step, word in enumerate(words):
        was_empty = step in empties
        chosen = None
        if len(empties) > floor or not was_empty:
            chosen = empties[word * len(empties) // ONE]
        elif word < unit:
            chosen = step
        if chosen is not None:
            written[chosen] = step
        # The slot that comes takes the entry of the slot that goes, or else of the one just written to.
        gone = step if was_empty or chosen is None else chosen
        empties[empties.index(gone)] = step + window
        if (
            chosen is not None and chosen in empties
        ):  # both of them are gone: one entry fewer, and the last one moves there
            last = empties.pop()
            if last != chosen:
                empties[empties.index(chosen)] = last
        sources.append(written.get(step, -1))
    return sources


def offset(word: int, window: int, unit: int) -> int:
    """Return the offset that a word stands for: 0 first, then 1, 2, … for `unit` words each."""
    bound = ONE - (window - 1) * unit
    chosen = 0
    while word >= bound:
        bound += unit
        chosen += 1
    return chosen


def backward(words: Iterable[int], window: int, unit: int) -> list[int]:
    """Return the sources of the slots, one for each word."""
    return [max(step - offset(word, window, unit), -1) for step, word in enumerate(words)]


def forward(words: Iterable[int], window: int, unit: int) -> list[int]:
    """Return the sources of the slots, one for each word."""
    written: dict[int, int] = {}
    sources = []
    for step, word in enumerate(words):
        written[step + offset(word, window, unit)] = step
        sources.append(written.get(step, -1))
    return sources


def threshold_rows(window: int, floor: int, rho: float, steps: int) -> dict[tuple[int, ...], float]:
    """Return the law of what `steps` steps decide: sources, −1 for empty, −2 for undecided slots after them."""
    rows: dict[tuple[int, ...], float] = {(-2,) * (steps + window - 1): 1.0}
    for step in range(steps):
        following: dict[tuple[int, ...], float] = defaultdict(float)
        for row, chance in rows.items():
            for written, probability in _threshold_choices(row, step, window, floor, rho):
                new = list(row)
                if written >= 0:
                    new[written] = step
                if new[step] == -2:
                    new[step] = -1
                following[tuple(new)] += chance * probability
        rows = following
    return dict(rows)


def _threshold_choices(
    row: tuple[int, ...], step: int, window: int, floor: int, rho: float
) -> Iterator[tuple[int, float]]:
    """Yield the slots that a step may write to, −1 for none, with their probabilities."""
    empties = [slot for slot in range(step, step + window) if row[slot] == -2]
    if len(empties) > floor or row[step] >= 0:
        yield from ((slot, 1 / len(empties)) for slot in empties)
    else:
        yield step, rho
        if rho < 1:
            yield -1, 1 - rho


def offset_rows(direction: str, window: int, q: float, steps: int) -> dict[tuple[int, ...], float]:
    """Return the law of the sources of the first `steps` slots, by all choices of offsets."""
    rows: dict[tuple[int, ...], float] = defaultdict(float)
    for offsets in itertools.product(range(window), repeat=steps):
        chance = 1.0
        row = [-1] * (steps + window)
        for step, chosen in enumerate(offsets):
            chance *= q if chosen else 1 - (window - 1) * q
            if direction == "forward":
                row[step + chosen] = step
            else:
                row[step] = max(step - chosen, -1)
        rows[tuple(row[:steps])] += chance
    return dict(rows)


def threshold_law(window: int, floor: int, rho: float) -> tuple[np.ndarray, float]:
    """Return P_d and the probability of a missing value, from the stationary law of the chain of windows.

    A state is the set of filled slots of the window before a step; the chain is solved as linear equations.
    """
    states = [frozenset(filled) for filled in itertools.combinations(range(window), window - floor)]
    number = {state: i for i, state in enumerate(states)}
    moves = np.zeros((len(states), len(states)))
    law = np.zeros((len(states), window))
    missing = np.zeros(len(states))
    for state, i in number.items():
        empties = [slot for slot in range(window) if slot not in state]
        choices = [(slot, 1 / floor) for slot in empties] if 0 in state else [(0, rho), (-1, 1 - rho)]
        for slot, chance in choices:
            if slot >= 0:
                law[i, slot] += chance
            else:
                missing[i] += chance
            after = frozenset(place - 1 for place in state | {slot} if place > 0)
            moves[i, number[after]] += chance
    equations = np.vstack([moves.T - np.eye(len(states)), np.ones(len(states))])
    stationary = np.linalg.lstsq(equations, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    return stationary @ law, float(stationary @ missing)
