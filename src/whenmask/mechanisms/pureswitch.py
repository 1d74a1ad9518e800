"""PureSwitch: the Gibbs law of permutations, whose guarantee is proved and pure."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import ParameterError, positive_number, whole_number
from whenmask.guarantee import Guarantee
from whenmask.keystream import Keystream
from whenmask.law import WINDOW_HINT
from whenmask.mechanisms.gibbs import (
    CLOSE,
    FILL,
    MERGE,
    NEW,
    STAY,
    TAKE,
    Table,
    choose_parameters,
    tabulate,
)
from whenmask.mechanisms.paths import PureDraw, PureWalk
from whenmask.mechanisms.ranswitch import EPSILON_HINT
from whenmask.mechanisms.temporal import Temporal

# Words that one step reads: two for the kind of choice, two for the paths.
STEP_WORDS = 4


@dataclass(frozen=True, init=False, repr=False)
class PureSwitch(Temporal):
    window: int
    theta: float
    a: float

    def __init__(self, epsilon: float, *, window: int) -> None:
        epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
        window = whole_number("window", window, least=2, hint=WINDOW_HINT)
        self._set(*choose_parameters(epsilon, window), window)

    def _set(self, theta, a, window):
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "a", a)

    @property
    def table(self):
        return tabulate(self.theta, self.a, self.window)

    @property
    def identity(self) -> str:
        return f"PureSwitch(window={self.window}, theta={self.theta.hex()}, a={self.a.hex()})"

    def law(self): ...
    @property
    def claim(self): return None
    def draw(self, words: Keystream) -> "PureDraw":
        """Start a release for many values at a time (compiled)."""
        return PureDraw(self.table, words)

    def walk(self, words: Keystream) -> "PureWalk":
        """Start a release for one value at a time (plain Python)."""
        return PureWalk(self.table, words)
