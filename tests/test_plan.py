"""Plans: applied to anything, counted exactly."""

import math

import numpy as np
import pytest

from whenmask import Key, Plan, RanSwitch, StaSwitch, UnitCosts, ideal_law
from whenmask.errors import DataError, ParameterError
from whenmask.law import Costs

MECHANISM = RanSwitch.from_probabilities(q=0.1, window=5)
KEY = Key.for_testing(3)


def plan_of(*source: int) -> Plan:
    """A plan with chosen sources."""
    return Plan(np.array(source, dtype=np.int64), 4, "chosen", None, "run", "testing")


def test_costs_are_counted_by_hand() -> None:
    """Displacement, missing, repeated and empty of a small plan, and their weighted sum."""
    costs = plan_of(1, 0, 0, -1, 4, 2).costs()
    assert costs == Costs(displacement=1 + 1 + 2 + 0 + 3, missing=2, repeated=1, empty=1, slots=6, window=4)
    assert costs.total() == 7 + 4 * (2 + 1 + 1)
    assert costs.total(UnitCosts(displacement=2, missing=10, repeated=100, empty=1000)) == 14 + 20 + 100 + 1000
    assert costs.per_slot() == costs.total() / 6
    assert plan_of().costs().per_slot() == 0


@pytest.mark.parametrize("name", ["displacement", "missing", "repeated", "empty"])
@pytest.mark.parametrize("cost", [math.nan, math.inf, -1, "1"])
def test_unit_costs_must_be_finite(name: str, cost) -> None:
    """A NaN price would silently poison every comparison."""
    with pytest.raises(ParameterError, match=f"`{name}` must be"):
        UnitCosts(**{name: cost})


def test_unit_costs_know_what_may_default() -> None:
    """Displacement has a price of its own; the others default to the window."""
    with pytest.raises(ParameterError, match="`displacement` must be a number"):
        UnitCosts(displacement=None)  # type: ignore[arg-type]
    assert UnitCosts(missing=0, repeated=0, empty=0).weigh(9, 1, 1, 1, 1) == 1


def test_plans_are_repeatable_and_distinct() -> None:
    """The same key, series and run give the same plan; any other gives another."""
    one, same = (MECHANISM.plan(300, key=KEY, series="a", run="r").source for _ in range(2))
    assert np.array_equal(one, same)
    others = [
        MECHANISM.plan(300, key=Key.for_testing(4), series="a", run="r"),
        MECHANISM.plan(300, key=KEY, series="b", run="r"),
        MECHANISM.plan(300, key=KEY, series="a", run="s"),
        MECHANISM.plan(300, key=KEY, series="a"),
        MECHANISM.plan(300, series="a", run="r"),
        RanSwitch.from_units(MECHANISM.unit + 1, window=5).plan(300, key=KEY, series="a", run="r"),
        StaSwitch.from_units(MECHANISM.unit, window=5).plan(300, key=KEY, series="a", run="r"),
    ]
    assert len({plan.source.tobytes() for plan in others} | {one.tobytes()}) == len(others) + 1


def test_plans_do_not_show_their_series() -> None:
    """A series id may be a person's; repr shows the length, the mechanism and the kind of key."""
    plan = MECHANISM.plan(3, key=KEY, series="Jane Doe")
    assert repr(plan) == f"<Plan: 3 slots, {MECHANISM.identity}, testing key>"
    assert plan.series == "Jane Doe"
    assert not plan.source.flags.writeable
    assert len(plan) == 3


@pytest.mark.parametrize("n", [-1, 1.5, "3", None])
def test_lengths_are_checked(n) -> None:
    """A length is a whole number, zero or more."""
    with pytest.raises(ParameterError, match="`n` must be"):
        MECHANISM.plan(n)


def test_release_is_plan_and_apply() -> None:
    """`release` draws a plan of the right length and applies it."""
    values = np.arange(50) / 7
    released = MECHANISM.release(values, key=KEY, series=1, run="r")
    assert np.array_equal(released, MECHANISM.plan(50, key=KEY, series=1, run="r").apply(values))
    assert MECHANISM.release([]) == []


def test_values_of_the_wrong_length_are_refused() -> None:
    """A plan serves one series of its own length, and the error shows no value."""
    with pytest.raises(DataError, match="differ in length; got 5 and 4"):
        MECHANISM.plan(5).apply([1, 2, 3, 4])


def test_the_ideal_law_is_even() -> None:
    """P_0 as given, the rest spread over the other displacements."""
    law = ideal_law(0.4, 4)
    assert law.probability(0) == 0.4
    assert law.probability(-3) == law.probability(2) == pytest.approx(0.1)
    assert law.probability(4) == 0
    for p0 in (-0.1, 1.1, math.nan):
        with pytest.raises(ParameterError, match="`p0` must be"):
            ideal_law(p0, 4)
