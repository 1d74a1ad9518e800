"""Randomised response: tell the truth with some probability, else name another category [Warner 1965]."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whenmask.errors import DataError, ParameterError, positive_number
from whenmask.guarantee import ValueGuarantee
from whenmask.keystream import Key, Series
from whenmask.mechanisms.calibration import EPSILON_HINT, smallest
from whenmask.mechanisms.ranswitch import guaranteed_epsilon
from whenmask.mechanisms.switch import ONE
from whenmask.mechanisms.values.perturbed import Perturbed, as_array, transmitted

Category: TypeAlias = str | int | bool
CATEGORIES_HINT = "declare every category that can occur, as in categories=('low', 'high'), from common knowledge"


@dataclass(frozen=True, init=False)
class RandomizedResponse:
    """Keep each bit or category with probability p, else release any of the others, with probability q each.

    p = e^ε/(e^ε + k − 1) and q = 1/(e^ε + k − 1) for k categories, as whole numbers over 2^64.

    Written by hand: OpenDP (0.16, `make_randomized_response` and `make_randomized_response_bool`) has the same law
    but draws from the operating system, so that a retry would be a second answer to the same question, and takes
    one value at a time. The tests hold our law and guarantee against it.

    Args:
        epsilon: The privacy budget, spent at each timestamp.
        categories: All categories that can occur, at least two: texts, whole numbers or booleans. By default bits.

    Guarantee:
        (ln(p/q), 0), at most epsilon, for the value at one timestamp (docs/guarantees.md, Theorem 18).

    Raises:
        ParameterError: A parameter is outside its range.

    Example:
        >>> from whenmask import Key
        >>> answers = RandomizedResponse(1.0, categories=["yes", "no", "perhaps"])
        >>> answers.perturb(["yes", "no"], key=Key.for_testing(7), run="example").values.shape
        (2,)
    """

    categories: tuple[Category, ...]
    unit: int

    words_per_value: ClassVar[int] = 1

    def __init__(self, epsilon: float, *, categories: Iterable[Category] = (False, True)) -> None:
        epsilon = positive_number("epsilon", epsilon, hint=EPSILON_HINT)
        declared = _checked_categories(categories)
        size = len(declared)
        unit = smallest(1, ONE // size, lambda unit: guaranteed_epsilon(unit, size) <= epsilon)
        object.__setattr__(self, "categories", declared)
        object.__setattr__(self, "unit", unit)
        if self.keep <= unit or self.guarantee.epsilon > epsilon:
            hint = f"for {size} categories, {size * size / (ONE >> 1):.1g} works"
            raise ParameterError("`epsilon` is too small for any probabilities", f"epsilon={epsilon:g}", hint)

    @property
    def keep(self) -> int:
        """The probability p of releasing the true category, in units of 2^-64; `unit` is that of each other."""
        return ONE - (len(self.categories) - 1) * self.unit

    @property
    def identity(self) -> str:
        """The mechanism's name and exact parameters."""
        return f"RandomizedResponse(categories={list(self.categories)!r}, unit={self.unit})"

    @property
    def guarantee(self) -> ValueGuarantee:
        """The exact ln(p/q), rounded up."""
        return ValueGuarantee(guaranteed_epsilon(self.unit, len(self.categories)), 0.0, "proved")

    def perturb(
        self, values: Any, *, key: Key | None = None, series: Series = None, run: str | None = None
    ) -> Perturbed:
        """Return the values perturbed, in an array of the same shape, and of the same type where it has room.

        Args:
            values: An array (or list) of declared categories.
            key: The secret; a fresh one by default.
            series: What the series is called; each series of a run is perturbed in its own way.
            run: Only to repeat a run on the very same values; a fresh run id by default.

        Raises:
            DataError: A value is none of the declared categories.
        """
        array = as_array(values)
        codes, run, kind = transmitted(self, self._codes(array), key=key, series=series, run=run)
        released = self._table(array.dtype)[codes].reshape(array.shape)
        return Perturbed(released, 0, self.identity, series, run, kind)

    def transmit(self, codes: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the codes moved on by 0 for a word below `keep`, then by 1, 2, … in steps of `unit`."""
        keep = np.uint64(self.keep)
        moves = np.where(words < keep, 0, 1 + (words - keep) // np.uint64(self.unit)).astype(np.int64)
        moved = codes + moves
        return moved - np.where(moved < len(self.categories), 0, len(self.categories))

    def estimate_counts(self, released: Any) -> NDArray[np.float64]:
        """Return an unbiased estimate of how often each category occurred, in the order declared.

        (c − n·q)/(p − q), where c of the n released values are of that category. It can be negative.
        """
        codes = self._codes(as_array(released))
        counts = np.bincount(codes, minlength=len(self.categories))
        q, gap = self.unit / ONE, (self.keep - self.unit) / ONE
        return np.asarray((counts - codes.size * q) / gap)

    @cached_property
    def _numbers(self) -> dict[Category, int]:
        return {category: number for number, category in enumerate(self.categories)}

    def _codes(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of each value's category, flattened."""
        if values.dtype == np.bool_ and self.categories == (False, True):
            return values.ravel().astype(np.int64)
        try:
            labels, places = np.unique(values.ravel(), return_inverse=True)
            return np.array([self._numbers[label] for label in labels.tolist()], np.int64)[places]
        except (KeyError, TypeError):  # TypeError: texts beside numbers or None, so not all are declared
            got = f"dtype {values.dtype}, {len(self.categories)} categories declared"
            hint = CATEGORIES_HINT + "; missing values and NaN need a category of their own"
            raise DataError("the values hold a category that was not declared", got, hint) from None

    def _table(self, wanted: np.dtype[Any]) -> NDArray[Any]:
        """Return the categories as an array, of the wanted type if that holds them all."""
        table = np.asarray(self.categories)
        try:
            kept = table.astype(wanted)
        except ValueError:
            return table
        return kept if kept.tolist() == list(self.categories) else table


def _checked_categories(categories: Iterable[Any]) -> tuple[Category, ...]:
    """Return the categories as a tuple, or say what is wrong with them."""
    if isinstance(categories, str | bytes) or not isinstance(categories, Iterable):
        raise ParameterError("`categories` must be a list", f"a {type(categories).__name__}", CATEGORIES_HINT)
    declared = tuple(each.item() if isinstance(each, np.generic) else each for each in categories)
    kinds = {type(each) for each in declared}
    if len(kinds) > 1 or not kinds <= {str, int, bool}:
        got = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ParameterError(
            "categories must be all texts, all whole numbers or all booleans", got, CATEGORIES_HINT
        )
    if len(declared) < 2 or len(set(declared)) < len(declared):
        got = f"{len(declared)}, {len(set(declared))} of them different"
        raise ParameterError("there must be at least two categories, all different", got, CATEGORIES_HINT)
    return declared
