"""Many short series at once: their words in one encryption, their plans in one compiled call.

A series of its own costs a cipher and half a dozen small arrays, some 50 µs: more than a thousand of its values.
How many steps the end of a series takes is not known before, so all are given the same number to begin with, and
those that are not done are drawn again with more: the same words at the same steps, so the same plan, but further.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from whenmask.keystream import Keystream, Keystreams, Series
from whenmask.sampler import Draw

Indices: TypeAlias = NDArray[np.int64]
# Words, a column of steps, length and start for each series, room for the steps, and the sources; what is done.
Attempt: TypeAlias = Callable[[NDArray[np.uint64], Indices, Indices], NDArray[np.bool_]]

# Steps drawn at a time, as far as one series does not have more.
STEPS = 1 << 16
# How often series are tried with four times as many further steps, before they are drawn one by one.
ATTEMPTS = 3


@dataclass(frozen=True)
class Way:
    """How a mechanism draws series together.

    Attributes:
        draw: Starts a series of its own, for the few that are not done in the end.
        attempt: Draws series from words, as far as these suffice.
        tail: How many steps beyond the end of a series to begin with.
        steps_per_block: How many steps a block of the keystream has words for.
    """

    draw: Callable[[Keystream], Draw]
    attempt: Attempt
    tail: int
    steps_per_block: int


def draw_together(run: Keystreams, series: Sequence[Series], lengths: Indices, way: Way) -> Indices:
    """Return the sources of all slots of each series, none of them long, one series after another."""
    starts = np.cumsum(lengths) - lengths
    sources = np.empty(int(lengths.sum()), dtype=np.int64)
    places = run.places(series)
    left, tail, rate = np.flatnonzero(lengths), way.tail, way.steps_per_block
    for _ in range(ATTEMPTS):
        undone = [left[:0]]
        blocks = -(-(lengths + tail) // rate)
        groups = np.cumsum(blocks[left]) // (STEPS // rate)
        for group in np.split(left, np.flatnonzero(np.diff(groups)) + 1):
            if group.size:
                columns = np.stack([rate * blocks[group], lengths[group], starts[group]])
                done = way.attempt(run.first_blocks(places[group], blocks[group]), columns, sources)
                undone.append(group[~done])
        left = np.concatenate(undone)
        tail *= 4
    for i in left.tolist():
        one = way.draw(run.of(series[i]))
        pieces = [one.push(int(lengths[i])), one.finish()]
        sources[starts[i] : starts[i] + lengths[i]] = np.concatenate(pieces)
    return sources
